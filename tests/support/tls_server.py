"""A TLS server of this machine that sends frames back, and servers that can stand before it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.certificates import Authority, Identity
from tests.support.deadlines import ended
from tests.support.socket_server import SocketServer, end, receive_frame

Talk = Callable[[ssl.SSLSocket], None]


def response_frames(connection: ssl.SSLSocket) -> None:
    """Send each frame back by itself: the correlation id first."""
    while (frame := receive_frame(connection)) is not None:
        connection.sendall(struct.pack(">i", len(frame)) + frame)


def server_context(identity: Identity, clients: Authority | None = None) -> ssl.SSLContext:
    """A context that shows a certificate, and wants one of `clients`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(identity.write(Path(folder), "server").both)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.pem.decode())
    return context


class TlsServer(SocketServer):
    """Notes of each connection which certificate the client showed, whether its session was resumed, what failed."""

    def __init__(self, context: ssl.SSLContext, talk: Talk = response_frames) -> None:
        self.context = context
        self.serials: list[int | None] = []
        self.resumed: list[bool | None] = []
        self.errors: list[str] = []
        self._response = talk
        super().__init__(self._serve)

    def _serve(self, raw: socket.socket) -> None:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            connection = self.context.wrap_socket(raw, server_side=True)
        except (ssl.SSLError, OSError) as error:
            self.errors.append(str(error))
            return
        shown = connection.getpeercert()
        self.serials.append(int(str(shown["serialNumber"]), 16) if shown else None)
        self.resumed.append(connection.session_reused)
        with connection:
            self._response(connection)


class Trickle(SocketServer):
    """Forwards to another port, so many bytes at a time, in both directions."""

    def __init__(self, port: int, step: int = 1) -> None:
        self._to = port
        self._step = step
        super().__init__(self._forward)

    def _forward(self, connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._to)) as target:
            for each in (connection, target):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=self._pump, args=(target, connection), name="trickle back", daemon=True)
            back.start()
            self._pump(connection, target)
            end(target)
            end(connection)
            ended(back)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                for start in range(0, len(data), self._step):
                    target.sendall(data[start : start + self._step])
            target.shutdown(socket.SHUT_WR)
