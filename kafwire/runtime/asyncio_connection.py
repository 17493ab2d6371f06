"""A connection by asyncio and Python's module ssl, under the GIL: for streams that the native I/O thread cannot handle.

Frames and correlation are the native thread's (`_frame`). Threads cannot send on it directly.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Sequence

from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.runtime._frame import RESPONSE, Frames
from kafwire.runtime._interfaces import NOT_AUTHENTICATED, RequestTable, ResponseFilter
from kafwire.runtime.interfaces import Receiver, SocketAddress, SslSource
from kafwire.runtime.log import log
from kafwire.runtime.native_loop import new_socket

# Bytes of requests written to asyncio at once; more are written when it resumes writing.
_STEP = 256 << 10
# Alerts by which a peer rejects this client, in the words of Python's errors.
_REFUSALS = (
    *("HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNSUPPORTED_CERTIFICATE", "CERTIFICATE_REVOKED", "CERTIFICATE_EXPIRED"),
    *("CERTIFICATE_UNKNOWN", "UNKNOWN_CA", "ACCESS_DENIED", "PROTOCOL_VERSION", "INSUFFICIENT_SECURITY"),
    *("UNRECOGNIZED_NAME", "CERTIFICATE_REQUIRED"),
)


class AsyncioConnection(asyncio.Protocol):
    """One TLS connection. Created and used on the engine."""

    def __init__(
        self, family: int, address: SocketAddress, receiver: Receiver, max_frame: int, source: SslSource
    ) -> None:
        self._receiver = receiver
        self._frames = Frames(max_frame)
        self._filter: ResponseFilter | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._closed = False
        self.requests = RequestTable()
        self._opening = asyncio.ensure_future(self._open(family, address, source))

    async def _open(self, family: int, address: SocketAddress, source: SslSource) -> None:
        loop = asyncio.get_running_loop()
        it = new_socket(family, socket.SOCK_STREAM)
        connected = False
        try:
            it.setblocking(False)
            it.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            it.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await loop.sock_connect(it, address)
            connected = True
            # The creator of this connection limits its time.
            await loop.create_connection(
                lambda: self, sock=it, ssl=source.context, server_hostname=source.host, ssl_handshake_timeout=3600
            )
        except asyncio.CancelledError:
            it.close()
            self._end(0, "closed by this side")
        except (OSError, EOFError) as error:
            it.close()
            self._end(*_explain(error, in_handshake=connected))

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
        if self._closed:
            raise BrokenPipeError(errno.EPIPE, "the connection is closed")
        self._frames.queue(token, correlation_id, segments, expect_response, past_hold)
        self._flush()

    def hold(self, holding: bool) -> None:
        """See `Connection`."""
        self._frames.hold(holding)
        self._flush()

    def set_response_filter(self, response_filter: ResponseFilter) -> None:
        """See `Connection`."""
        response_filter.detach()
        self._filter = response_filter

    def set_max_frame(self, limit: int) -> None:
        """See `Connection`."""
        self._frames.max_frame = limit

    def close(self) -> None:
        """See `Connection`."""
        if self._transport is not None:
            self._transport.abort() if self._frames.pending_bytes else self._transport.close()
        else:
            self._opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The TLS handshake is done."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_STEP)
        self._receiver.on_connected()
        self._flush()

    def pause_writing(self) -> None:
        """Stop writing: asyncio's buffer is full."""
        self._paused = True

    def resume_writing(self) -> None:
        """Continue writing."""
        self._paused = False
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Process bytes of responses."""
        problem: ProtocolError | None = None
        try:
            self._frames.feed(data)
        except ProtocolError as error:
            problem = error
        self._report()
        if problem is not None and self._transport is not None:
            self._transport.abort()
            self._end(errno.EMSGSIZE if self._frames.is_oversized else errno.EPROTO, str(problem))

    def connection_lost(self, error: Exception | None) -> None:
        """Report the end of the connection."""
        if error is None:
            inside = " in the middle of a frame" if self._frames.inside_frame else ""
            self._end(errno.EPIPE, f"the peer closed the connection{inside}")
        else:
            self._end(*_explain(error, in_handshake=False))

    def _flush(self) -> None:
        while self._transport is not None and not self._closed and not self._paused and self._frames.pending_bytes:
            self._transport.write(self._frames.take(_STEP))
        self._report()

    def _report(self) -> None:
        for kind, token, frame in self._frames.completions():
            try:
                if kind == RESPONSE:
                    assert frame is not None
                    if self._filter is not None:
                        self._filter.deliver(token, frame)
                    self._receiver.on_response(token, frame)
                else:
                    self._receiver.on_sent(token)
            except Exception:
                log.exception("kafwire: an event of a TLS connection could not be handled")

    def _end(self, number: int, reason: str) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().call_soon(self._receiver.on_closed, number, reason)


def _explain(error: Exception, *, in_handshake: bool) -> tuple[int, str]:
    """Return (errno, reason) for an error of asyncio or ssl."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return NOT_AUTHENTICATED, f"the certificate of the broker is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        if reason.endswith(_REFUSALS) and "ALERT" in reason:
            return NOT_AUTHENTICATED, f"the broker ended TLS by an alert, {reason.partition('ALERT_')[2].lower()}"
        if in_handshake and reason == "WRONG_VERSION_NUMBER":
            return errno.EPROTONOSUPPORT, "no TLS is spoken there: the first bytes are none of TLS"
        if in_handshake and "EOF" in reason:
            return errno.EPIPE, "the peer closed the connection during the TLS handshake"
        return errno.EPROTO, f"TLS failed: {reason.replace('_', ' ').lower()}"
    if in_handshake and (isinstance(error, EOFError | ConnectionError) and not getattr(error, "errno", None)):
        return errno.EPIPE, "the peer closed the connection during the TLS handshake"
    number = getattr(error, "errno", None) or errno.EIO
    return (
        number,
        f"{'connect' if not in_handshake else 'handshake'} failed: {getattr(error, 'strerror', None) or error}",
    )
