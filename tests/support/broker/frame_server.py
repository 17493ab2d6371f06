"""A server that sends every frame's correlation id back, and a client that sees what a socket sees."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.fault_stage import response
from tests.support.socket_server import SocketServer, receive_frame


class FrameServer(SocketServer):
    """Responds to all frames; `received` are the correlation ids in order, -1 for the end of a connection."""

    def __init__(self, port: int = 0, response_to: Callable[[int], bytes] = response) -> None:
        self.received: list[int] = []
        self._response_to = response_to
        self._changed = threading.Condition()
        super().__init__(self._serve, port)

    def wait_for(self, *correlation_ids: int) -> None:
        """Return when exactly these have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.received == list(correlation_ids), 10), self.received

    def close(self, *, reset: bool = True) -> None:
        """End everything, connections by reset."""
        super().close(reset=reset)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (body := receive_frame(connection)) is not None:
                correlation_id = int.from_bytes(body[4:8], "big", signed=True)
                self._note(correlation_id)
                connection.sendall(self._response_to(correlation_id))
        self._note(-1)

    def _note(self, correlation_id: int) -> None:
        with self._changed:
            self.received.append(correlation_id)
            self._changed.notify_all()


class Peer:
    """A client's socket."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), 10)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, size: int) -> bytes:
        """Receive `size` bytes, or those up to the end."""
        data = b""
        while len(data) < size and (more := self.socket.recv(size - len(data))):
            data += more
        return data

    def is_silent(self, seconds: float) -> bool:
        """True if nothing comes, not even an end."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(10)
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
