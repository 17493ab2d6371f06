"""The transport: where frames leave the engine, and where completed frames come back.

`NativeTransport` is the plain one: the native I/O thread owns the sockets, and one turn of `dispatch` hands over all
that completed since the last. TLS and the simulated world offer the same few methods.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.memory._buffer import Buffer
from kafwire.runtime import _io

if TYPE_CHECKING:
    from kafwire.consumer._fetch_buffer import FetchFastPath

log = logging.getLogger("kafwire")


class Receiver(Protocol):
    """What a connection reports to; each is called on the engine."""

    def on_connected(self) -> None:
        """The socket is open."""

    def on_response(self, token: int, frame: Buffer) -> None:
        """The answer to the request submitted with `token`: the frame from its correlation id on."""

    def on_sent(self, token: int) -> None:
        """The last byte of a request that has no answer left the process."""

    def on_closed(self, errno: int, reason: str) -> None:
        """The connection is gone, and with it all that it owed."""


class NativeConnection:
    """A socket of the native I/O thread."""

    __slots__ = ("_native", "number")

    def __init__(self, native: _io.Loop, number: int) -> None:
        self._native = native
        self.number = number

    def submit(
        self, token: int, correlation_id: int, segments: Sequence[bytes | Buffer], *, expect_response: bool
    ) -> None:
        """Queue one request; the size prefix is put before it. Buffers are referenced, never copied."""
        self._native.submit(self.number, token, correlation_id, segments, expect_response)

    def fast_path(self, fast_path: FetchFastPath) -> None:
        """Let `fast_path` take from the answers what can do without the engine."""
        fast_path.attach(self.number)

    def set_max_frame(self, limit: int) -> None:
        """Refuse frames above `limit` bytes from now on."""
        self._native.set_max_frame(self.number, limit)

    def close(self) -> None:
        """Close; `on_closed` follows. Closing twice is allowed."""
        self._native.close_connection(self.number)


class NativeTransport:
    """Plain TCP by the native I/O thread."""

    def __init__(self, native: _io.Loop) -> None:
        self._native = native
        self._receivers: dict[int, Receiver] = {}
        self._listeners: dict[int, Callable[[], object]] = {}
        self._next_cookie = 1

    def connect(self, family: int, address: tuple[Any, ...], receiver: Receiver, max_frame: int) -> NativeConnection:
        """Begin to connect to a resolved socket address; `receiver` hears how it went."""
        number = self._native.connect(address, family, max_frame=max_frame)
        self._receivers[number] = receiver
        return NativeConnection(self._native, number)

    def listen(self, callback: Callable[[], object]) -> int:
        """A cookie that any thread may post to the native loop, without the GIL; `callback` then runs on the engine."""
        cookie = self._next_cookie
        self._next_cookie += 1
        self._listeners[cookie] = callback
        return cookie

    def unlisten(self, cookie: int) -> None:
        """Forget a cookie; what was posted with it and not yet dispatched is dropped."""
        self._listeners.pop(cookie, None)

    def dispatch(self) -> None:
        """Hand over everything that completed."""
        for kind, number, token, payload in self._native.drain():
            try:
                if kind == _io.POSTED:
                    listener = self._listeners.get(token)
                    if listener is not None:
                        listener()
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
