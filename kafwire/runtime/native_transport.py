"""The native transport: the native I/O thread owns the sockets, and `dispatch` delivers its completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafwire.memory._buffer import Buffer
from kafwire.runtime import _io
from kafwire.runtime._interfaces import Notifier, ResponseFilter, StreamSource
from kafwire.runtime.interfaces import Connection, Receiver, SocketAddress, SslSource
from kafwire.runtime.log import log


class NativeConnection:
    """A socket of the native I/O thread."""

    __slots__ = ("_loop", "number", "requests")

    def __init__(self, loop: _io.Loop, number: int) -> None:
        self._loop = loop
        self.number = number
        self.requests = loop.requests(number)

    def submit(
        self,
        token: int,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        *,
        expect_response: bool,
        past_hold: bool = False,
    ) -> None:
        """See `Connection`."""
        self._loop.submit(self.number, token, correlation_id, segments, expect_response, past_hold)

    def hold(self, holding: bool) -> None:
        """See `Connection`."""
        self._loop.hold(self.number, holding)

    def set_response_filter(self, response_filter: ResponseFilter) -> None:
        """See `Connection`. The filter is called in the I/O thread."""
        self._loop.set_response_filter(self.number, response_filter)

    def set_max_frame(self, limit: int) -> None:
        """See `Connection`."""
        self._loop.set_max_frame(self.number, limit)

    def close(self) -> None:
        """See `Connection`."""
        self._loop.close_connection(self.number)


class NativeTransport:
    """TCP by the native I/O thread."""

    def __init__(self, loop: _io.Loop) -> None:
        self._loop = loop
        self._receivers: dict[int, Receiver] = {}
        self._listeners: dict[int, tuple[Notifier, Callable[[], object]]] = {}
        self._last_number = 0

    def connect(
        self,
        family: int,
        address: SocketAddress,
        receiver: Receiver,
        max_frame: int,
        stream: StreamSource | SslSource | None = None,
    ) -> Connection:
        """See `Transport`."""
        if isinstance(stream, SslSource):
            from kafwire.runtime.asyncio_connection import AsyncioConnection

            return AsyncioConnection(family, address, receiver, max_frame, stream)
        number = self._loop.connect(address, family, max_frame=max_frame, stream=stream)
        self._receivers[number] = receiver
        return NativeConnection(self._loop, number)

    def listen(self, callback: Callable[[], object]) -> Notifier:
        """See `Transport`."""
        self._last_number += 1
        notifier = self._loop.notifier(self._last_number)
        self._listeners[self._last_number] = notifier, callback
        return notifier

    def unlisten(self, notifier: Notifier) -> None:
        """See `Transport`."""
        for number, (known, _) in list(self._listeners.items()):
            if known is notifier:
                del self._listeners[number]

    def dispatch(self) -> None:
        """Deliver all completions since the last call."""
        for kind, number, token, payload in self._loop.drain():
            try:
                if kind == _io.POSTED:
                    if token in self._listeners:
                        self._listeners[token][1]()
                elif kind == _io.RESPONSE:
                    self._receivers[number].on_response(token, payload)
                elif kind == _io.SENT:
                    self._receivers[number].on_sent(token)
                elif kind == _io.CONNECTED:
                    self._receivers[number].on_connected()
                else:
                    self._receivers.pop(number).on_closed(*payload)
            except Exception:
                # One client's defect must not take the frames of all others with it.
                log.exception("kafwire: an event of connection %d could not be handled", number)
