"""An HTTP server of this machine for tests, with or without TLS."""

from __future__ import annotations

import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.support.deadlines import ended


class LocalHttpServer:
    """Serves while the context lasts, each request by `respond`. `tls` is None for http."""

    def __init__(self, name: str, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self._name = name

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Respond to a GET, a POST, a PUT or a DELETE."""
        raise AssertionError(f"{self._name} does not respond to {request.path}")

    @property
    def origin(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://localhost:{self.port}"

    def __enter__(self) -> Self:
        server = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def setup(self) -> None:
                if server.tls is not None:
                    self.request.settimeout(self.timeout)
                    self.request = server.tls.wrap_socket(self.request, server_side=True)
                super().setup()

            def finish(self) -> None:
                super().finish()
                self.request.close()

            def do_GET(self) -> None:
                server.respond(self)

            def do_POST(self) -> None:
                server.respond(self)

            def do_PUT(self) -> None:
                server.respond(self)

            def do_DELETE(self) -> None:
                server.respond(self)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                with contextlib.suppress(OSError):
                    request.close()

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name=self._name)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        ended(self._thread)
        self._server.server_close()
