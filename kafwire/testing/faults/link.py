"""The two sockets of a proxied connection. A `Conversation` decides about their bytes."""

import contextlib
import errno
import selectors
import socket
import struct
from collections.abc import Callable
from typing import Any

from kafwire.testing.faults.conversation import Conversation
from kafwire.testing.faults.line import End
from kafwire.testing.faults.reactor import Reactor

__all__ = ["Link"]

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_RECEIVE_BYTES = 256 << 10
# A side is not read from while this many of its bytes are in transit.
_BACKLOG_BYTES = 4 << 20
# The time that a client has to close after the proxy closed its side.
_LAST_WORDS_SECONDS = 1.0
_LINGER_RESET = struct.pack("ii", 1, 0)


class Link:
    """A client's connection and the one to its broker. The reactor's thread calls all methods."""

    def __init__(
        self,
        reactor: Reactor,
        talk: Conversation,
        client: socket.socket,
        family: int,
        address: Any,
        ended: Callable[["Link"], None],
    ) -> None:
        """Take over a client's socket, and connect to an address; `ended` is called when both sockets are closed."""
        self.talk = talk
        self.source: int | None = None  # the client, where it is known
        self._reactor = reactor
        self._ended = ended
        self._client: socket.socket | None = client
        self._broker: socket.socket | None = socket.socket(family, socket.SOCK_STREAM)
        self._connected = False
        self._client_done = False  # the client has closed its side
        self._client_closed = (
            False  # the proxy has closed its side to the client; the client's further bytes are ignored
        )
        self._client_blocked = self._broker_blocked = False
        self._scheduled: float | None = None
        for end in (self._client, self._broker):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._broker.connect_ex(address) not in (0, errno.EINPROGRESS):
            self._broker_lost(End.RESET)

    def pump(self, now: float) -> None:
        """Send the bytes that may be sent, and watch the sockets for more."""
        self.talk.tick(now)
        self._write_broker(now)
        self._write_client(now)
        self._watch()
        if self._client is None and self._broker is None:
            self._ended(self)
            return
        # A blocked side waits for its socket, not for a time.
        times = [
            self.talk.due,
            None if self._broker_blocked or not self._connected else self.talk.to_broker.wake(),
            None if self._client_blocked else self.talk.to_client.wake(),
        ]
        wake = min((time for time in times if time is not None), default=None)
        if wake is not None and (self._scheduled is None or wake < self._scheduled):
            self._scheduled = wake
            self._reactor.later(wake, self._on_time)

    def close(self) -> None:
        """Close both sockets at once; the client sees a reset."""
        self._reset_client()
        self._close_broker()

    def _on_time(self, now: float) -> None:
        if self._scheduled is not None and self._scheduled <= now:
            self._scheduled = None
            self.pump(now)

    def _on_client(self, events: int) -> None:
        now = self._reactor.now()
        if events & _READ and self._client is not None:
            try:
                data = self._client.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._client_lost()
            else:
                if self._client_closed:
                    if not data:
                        self._end_client()
                elif data:
                    self.talk.from_client(data, now)
                else:
                    self._client_done = True
                    self.talk.client_ended(gone=False)
        self.pump(now)

    def _on_broker(self, events: int) -> None:
        now = self._reactor.now()
        if not self._connected and self._broker is not None:
            if self._broker.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._broker_lost(End.RESET)
            self._connected = True
        elif events & _READ and self._broker is not None:
            try:
                data = self._broker.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._broker_lost(End.RESET)
            else:
                if data:
                    self.talk.from_broker(data, now)
                else:
                    self._broker_lost(End.CLOSE)
        self.pump(now)

    def _write_broker(self, now: float) -> None:
        self._broker_blocked = False
        while self._connected and self._broker is not None and (piece := self.talk.to_broker.take(now)) is not None:
            try:
                if isinstance(piece, End):
                    self._broker.shutdown(socket.SHUT_WR)
                else:
                    self.talk.to_broker.sent(self._broker.send(piece), now)
            except BlockingIOError:
                self._broker_blocked = True
                return
            except OSError:
                # Bytes that the broker sent before its end are still to be read; the read then reports the end.
                self.talk.to_broker.drop()

    def _write_client(self, now: float) -> None:
        self._client_blocked = False
        if self._client_closed:
            return
        while self._client is not None and (piece := self.talk.to_client.take(now)) is not None:
            if piece is End.RESET:
                self._reset_client()
            elif piece is End.CLOSE:
                self._close_client(now)
                return
            else:
                try:
                    self.talk.to_client.sent(self._client.send(piece), now)
                except BlockingIOError:
                    self._client_blocked = True
                    return
                except OSError:
                    self._client_lost()

    def _watch(self) -> None:
        if self._client is not None:
            reads = self._client_closed or (not self._client_done and self.talk.to_broker.size < _BACKLOG_BYTES)
            events = (_READ if reads else 0) | (_WRITE if self._client_blocked else 0)
            self._reactor.watch(self._client, events, self._on_client)
        if self._broker is not None:
            reads = self._connected and self.talk.to_client.size < _BACKLOG_BYTES
            events = (_READ if reads else 0) | (_WRITE if self._broker_blocked or not self._connected else 0)
            self._reactor.watch(self._broker, events, self._on_broker)

    def _client_lost(self) -> None:
        self.talk.client_ended(gone=True)
        self._end_client()

    def _reset_client(self) -> None:
        if self._client is not None:
            with contextlib.suppress(OSError):
                self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            self._end_client()

    def _close_client(self, now: float) -> None:
        # With unread or further bytes of the client, the kernel would turn the close into a reset.
        if self._client is None or self._client_done:
            self._end_client()
            return
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)
        self._client_closed = True
        self._reactor.later(now + _LAST_WORDS_SECONDS, self._on_last_words)

    def _on_last_words(self, now: float) -> None:
        self._end_client()
        self.pump(now)

    def _end_client(self) -> None:
        if self._client is not None:
            self._reactor.watch(self._client, 0, self._on_client)
            self._client.close()
            self._client = None

    def _broker_lost(self, how: End) -> None:
        self.talk.broker_ended(how)
        self._close_broker()

    def _close_broker(self) -> None:
        if self._broker is not None:
            self._reactor.watch(self._broker, 0, self._on_broker)
            self._broker.close()
            self._broker = None
