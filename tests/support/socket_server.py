"""A port of this machine, with a thread for each connection: what test servers stand on."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.deadlines import ended


class SocketServer:
    """Hands each connection to `serve`, in a thread of its own, and closes it when that returns or raises OSError."""

    def __init__(self, serve: Callable[[socket.socket], None], port: int = 0) -> None:
        self.port = port
        self._each = serve
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen; at the port that it had before, after `stop`."""
        listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._run(self._accept, listener)

    def stop(self, *, reset: bool = False) -> None:
        """Close the port and all connections; by reset, as the end of a process does that has not read all."""
        with self._lock:
            listener, self._listener = self._listener, None
            connections = list(self._connections)
        if listener is not None:
            end(listener)
        for connection in connections:
            if reset:
                with contextlib.suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    connection.shutdown(socket.SHUT_RD)  # wakes its thread, which then closes it
            else:
                end(connection)

    def close(self, *, reset: bool = False) -> None:
        """End everything, and wait for the threads."""
        self.stop(reset=reset)
        ended(*self._threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, function: Callable[[socket.socket], None], of: socket.socket) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=function, args=(of,), name=f"server {self.port}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                if self._listener is not listener:
                    end(connection)
                    return
                self._connections.add(connection)
            self._run(self._talk, connection)

    def _talk(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                self._each(connection)
        finally:
            with self._lock:
                self._connections.discard(connection)


def end(it: socket.socket) -> None:
    """Shut a socket down for all threads, and close it."""
    with contextlib.suppress(OSError):
        it.shutdown(socket.SHUT_RDWR)
    it.close()


def echo(connection: socket.socket) -> None:
    """Send back what comes."""
    while data := connection.recv(65536):
        connection.sendall(data)


def receive(connection: socket.socket, size: int) -> bytes | None:
    """Exactly so many bytes; None: the other side is done."""
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


def receive_frame(connection: socket.socket) -> bytes | None:
    """A frame of Kafka's, without its size; None: the other side is done."""
    head = receive(connection, 4)
    return None if head is None else receive(connection, int.from_bytes(head, "big"))
