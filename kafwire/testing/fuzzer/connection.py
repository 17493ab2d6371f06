"""One connection, with the bytes under full control: blocking, no reconnects, no hidden requests."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafwire import protocol
from kafwire.errors import KafkaConnectionError, KafkaTimeoutError
from kafwire.handles import Closing
from kafwire.protocol.spec import Request

CLIENT_ID = "kafwire-fuzz"
MAX_RESPONSE = 100 << 20
_SETTLE_SECONDS = 15.0
_SETTLE_PAUSE = 0.05


@dataclass(frozen=True)
class Target:
    """A server: one resolved address, and the longest time for a response."""

    family: int
    address: tuple[Any, ...]
    timeout: float = 5.0

    @property
    def port(self) -> int:
        """The port."""
        return int(self.address[1])

    @property
    def name(self) -> str:
        """`host:port`, as a person writes it."""
        host = str(self.address[0])
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class ClosedError(Exception):
    """The server closed the connection; `rest` are the bytes of an incomplete response."""

    def __init__(self, rest: bytes = b"") -> None:
        super().__init__(f"closed by the server, {len(rest)} bytes into a response" if rest else "closed by the server")
        self.rest = rest


class BadSizeError(Exception):
    """The size that the server announced for its response is impossible."""


class TargetConnection(Closing):
    """A connected socket that sends given bytes and reads whole frames."""

    def __init__(self, target: Target) -> None:
        """Connect. Raises `KafkaConnectionError`."""
        self.target = target
        self._correlation_id = 0
        self._received = bytearray()
        self._socket = socket.socket(target.family, socket.SOCK_STREAM)
        self._socket.settimeout(target.timeout)
        try:
            self._socket.connect(target.address)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            self._socket.close()
            raise KafkaConnectionError(f"cannot connect to {target.name}: {error}") from error

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Put bytes on the wire in one write. Raises `ClosedError` if the server has gone, TimeoutError if stuck."""
        self._socket.settimeout(self.target.timeout)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError:
            raise ClosedError from None

    def finish(self) -> None:
        """Announce that no more bytes follow; responses can still be read."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def receive(self, deadline: float) -> bytes:
        """Return the next frame, without its size.

        Raises `ClosedError`, TimeoutError at `deadline` (of `time.monotonic`), `BadSizeError`.
        """
        self.fill(4, deadline)
        (size,) = struct.unpack_from(">i", self._received)
        if not 4 <= size <= MAX_RESPONSE:
            raise BadSizeError(f"a response of {size} bytes is announced")
        self.fill(4 + size, deadline)
        frame = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        return frame

    def fill(self, size: int, deadline: float) -> None:
        """Wait until this many bytes have arrived; raises as `receive` does."""
        while len(self._received) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{len(self._received)} of {size} bytes arrived in time")
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                raise ClosedError(bytes(self._received))
            self._received += data

    def call(self, request: Request[Any], version: int) -> Any:
        """Send a request of the fuzzer itself, and return the response.

        Raises `KafkaConnectionError`, `KafkaTimeoutError` or `ProtocolError`.
        """
        self._correlation_id += 1
        frame = protocol.encode_request(request, version, self._correlation_id, CLIENT_ID)
        name = f"{type(request).__name__} {version} to {self.target.name}"
        try:
            self.send(struct.pack(">i", len(frame)) + frame)
            data = self.receive(time.monotonic() + self.target.timeout)
        except (ClosedError, BadSizeError) as error:
            raise KafkaConnectionError(f"{name}: {error}") from None
        except TimeoutError as error:
            raise KafkaTimeoutError(f"{name}: no response within {self.target.timeout:g} s") from error
        _, response = protocol.decode_response(type(request), data, version)
        return response

    def settle(self, done: Callable[[], bool]) -> None:
        """Wait until `done` returns True, for changes that a cluster needs time for; raises `KafkaTimeoutError`."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"the fuzzer's topics have no leaders after {_SETTLE_SECONDS:g} s")
            time.sleep(_SETTLE_PAUSE)
