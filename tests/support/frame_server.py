"""A server that answers every frame with its correlation id, and a client that sees what a socket sees."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.deadlines import ended
from tests.support.fault_stage import response


class FrameServer:
    """Threads behind a port; `received` are the correlation ids that came, in order, -1 for the end of a connection."""

    def __init__(self, port: int = 0, answer: Callable[[int], bytes] = response) -> None:
        self.received: list[int] = []
        self._answer = answer
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._run(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def wait_for(self, *correlation_ids: int) -> None:
        """Return when exactly these have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.received == list(correlation_ids), 10), self.received

    def close(self) -> None:
        """End everything, connections by reset, as the end of a process does that has not read all."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._sockets:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RD)  # wakes its thread, which then closes it
        ended(*self._threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, function: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
            while len(head := stream.read(4)) == 4:
                (size,) = struct.unpack(">i", head)
                body = stream.read(size)
                if len(body) < size:
                    break
                (correlation_id,) = struct.unpack_from(">i", body, 4)
                self._note(correlation_id)
                connection.sendall(self._answer(correlation_id))
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
        """So many bytes, or those up to the end."""
        data = b""
        while len(data) < size and (more := self.socket.recv(size - len(data))):
            data += more
        return data

    def is_silent(self, seconds: float) -> bool:
        """Whether nothing comes, not even an end."""
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
