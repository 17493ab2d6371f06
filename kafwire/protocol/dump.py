"""Decodes the conversation of a client and a broker: single frames, or the two byte streams of one connection.

    dump = Dump()
    while dump.wanted:                                  # CLIENT or SERVER: the side whose bytes are needed next
        data = streams[dump.wanted].read(65536)
        dump.feed(dump.wanted, data) if data else dump.end(dump.wanted)
        for event in dump.events(): ...

Events are in the order of the conversation, each request before its response, however the bytes are split. Requests and
responses are paired by order, as Kafka guarantees, and by correlation id. Bytes that are not a message do not end the
decoding: the frame's event has the `error`. Only an impossible size does, with `ProtocolError`, as the start of the
next frame is then unknown. Memory holds at most one frame of each side, and unwanted bytes that were fed. Pure: no I/O.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Request, Response
from kafwire.protocol.framing import decode_response_body, decode_response_header, request_header_version
from kafwire.protocol.header import RequestHeader, ResponseHeader
from kafwire.protocol.spec import MAX_MEMORY
from kafwire.protocol.stream import MAX_FRAME_BYTES, SIZE_BYTES, FrameStream

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = [
    "CLIENT",
    "SERVER",
    "Dump",
    "Event",
    "Incomplete",
    "RequestFrame",
    "ResponseFrame",
    "Token",
    "WithoutResponse",
    "read_request",
    "read_response",
    "requests_by_key",
]

Side = Literal["client", "server"]
CLIENT: Final = "client"
SERVER: Final = "server"

_REQUEST_START = struct.Struct(">hhi")  # API key, version, correlation id: the same in every version of the header
_PRODUCE = 0
_SASL_HANDSHAKE = 17


@cache
def requests_by_key() -> dict[int, type[Request[Response]]]:
    """Return the class of every declared request by its API key."""
    found: dict[int, type[Request[Response]]] = {}
    for name in MESSAGES:
        if name.endswith("Request"):
            cls = MESSAGES[name]
            assert issubclass(cls, Request)
            found[cls.api_key] = cls
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFrame:
    """A request. `position` is that of its frame in the client's stream, `data` the frame without its size.

    `header` and `message` are None if they could not be decoded; `error` then has the reason.
    """

    position: int
    data: bytes = field(repr=False)  # may have secrets
    api_key: int | None = None
    version: int | None = None
    correlation_id: int | None = None
    request_class: type[Request[Response]] | None = None
    header: RequestHeader | None = None
    message: Request[Response] | None = None
    error: ProtocolError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFrame:
    """A response to `request`, which is None if no request of the dump has its correlation id.

    `version` is that of `message`: 0 for the response to an ApiVersions request whose version the broker does not
    support (KIP-511), else that of the request. Some brokers send such a response in no valid version; then `version`
    is None, and `message` has only the error code.
    """

    position: int
    data: bytes = field(repr=False)  # may have secrets
    request: RequestFrame | None = None
    response_class: type[Response] | None = None
    version: int | None = None
    correlation_id: int | None = None
    header: ResponseHeader | None = None
    message: Response | None = None
    error: ProtocolError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A frame of a SASL exchange without headers, after SaslHandshake version 0."""

    side: Side
    position: int
    data: bytes = field(repr=False)  # may have secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutResponse:
    """A request whose response is missing in the dump."""

    request: RequestFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """The end of a stream within a frame: `size` bytes of `expected`, both without the size field.

    `expected` is None if even the size is incomplete.
    """

    side: Side
    position: int
    size: int
    expected: int | None


Event = RequestFrame | ResponseFrame | Token | WithoutResponse | Incomplete


# --- one frame ---


def read_request(data: "BytesLike", position: int = 0) -> RequestFrame:
    """Decode a request's header and body; `data` begins after the frame's size. A problem is in `error`."""
    data = bytes(data)
    if len(data) < _REQUEST_START.size:
        short = ProtocolError(f"a request begins with {_REQUEST_START.size} bytes of header; there are {len(data)}")
        return RequestFrame(position=position, data=data, error=short)
    api_key, version, correlation_id = _REQUEST_START.unpack_from(data)
    cls = requests_by_key().get(api_key)
    header: RequestHeader | None = None
    message: Request[Response] | None = None
    error: ProtocolError | None = None
    try:
        if cls is None:
            raise ProtocolError(f"no API has the key {api_key}")
        known = cls.oldest_version <= version <= cls.max_version
        header, used = RequestHeader.plan(request_header_version(cls, version)).decode_prefix(data, MAX_MEMORY)
        # The plan of a version that does not exist raises the error.
        message = cls.decode(memoryview(data)[used if known else 0 :], version)
    except ProtocolError as reason:
        error = reason
    return RequestFrame(
        position=position,
        data=data,
        api_key=api_key,
        version=version,
        correlation_id=correlation_id,
        request_class=cls,
        header=header,
        message=message,
        error=error,
    )


def read_response(
    data: "BytesLike",
    request_class: type[Request[Response]],
    version: int,
    position: int = 0,
    request: RequestFrame | None = None,
) -> ResponseFrame:
    """Decode the response to a request of `version`, as `protocol.decode_response` does; a problem is in `error`."""
    data = bytes(data)
    found: int | None = version
    header: ResponseHeader | None = None
    message: Response | None = None
    error: ProtocolError | None = None
    try:
        header, body = decode_response_header(request_class, data, version)
        found, message = decode_response_body(request_class, body, version)
    except ProtocolError as reason:
        error = reason
    return ResponseFrame(
        position=position,
        data=data,
        request=request,
        response_class=request_class.response,
        version=found,
        correlation_id=int.from_bytes(data[:4], "big", signed=True) if len(data) >= 4 else None,
        header=header,
        message=message,
        error=error,
    )


# --- two streams ---


class Dump:
    """The conversation of one connection, decoded from the bytes of its two directions. Not thread-safe.

    `wanted` is the side whose bytes, or whose end, `events` needs next; None when both have ended and all events are
    out.
    """

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Start with both streams empty. A frame of more than `max_frame_bytes` is an error (Kafka's own: 100 MiB)."""
        self.wanted: Side | None = CLIENT
        self._client = FrameStream(max_frame_bytes)
        self._server = FrameStream(max_frame_bytes)
        self._owed: RequestFrame | None = None  # the request whose response is next
        self._owed_token = False  # the client's last frame was a token, and the server may send one too
        self._tokens = False  # SaslHandshake 0 got its response and no request has come since

    def feed(self, side: Side, data: "BytesLike") -> None:
        """Add bytes of one direction."""
        self._stream(side).buffer += memoryview(data).cast("B")

    def end(self, side: Side) -> None:
        """Mark the end of one direction."""
        self._stream(side).ended = True

    def events(self) -> Iterator[Event]:
        """Iterate over all events in the bytes fed so far.

        Raises `ProtocolError`, with the position in the stream as `offset`, for an impossible frame size.
        """
        while True:
            if self._owed_token:
                step = self._token_response()
            elif self._owed is not None:
                step = self._response(self._owed)
            else:
                step = self._request()
            if step is None:
                return
            yield from step

    def _stream(self, side: Side) -> FrameStream:
        return self._client if side == CLIENT else self._server

    def _wait(self, side: Side) -> tuple[Event, ...] | None:
        self.wanted = side
        return None

    def _request(self) -> tuple[Event, ...] | None:
        """Decode the client's next frame; return its events, or None if bytes are needed first."""
        data = self._client.peek()
        if data is None:
            return self._rest() if self._client.ended else self._wait(CLIENT)
        position = self._client.position
        self._client.skip()
        frame = read_request(data, position)
        if self._tokens and frame.message is None:
            self._owed_token = True
            return (Token(side=CLIENT, position=position, data=data),)
        self._tokens = False
        # A frame without even a correlation id gets no response: the broker closes the connection.
        if frame.correlation_id is not None and not _without_response_by_design(frame):
            self._owed = frame
        return (frame,)

    def _response(self, request: RequestFrame) -> tuple[Event, ...] | None:
        """Decode the server's next frame, the response to `request` unless the correlation id differs."""
        data = self._server.peek()
        if data is None:
            if not self._server.ended:
                return self._wait(SERVER)
            self._owed = None
            return (WithoutResponse(request=request),)
        correlation_id = int.from_bytes(data[:4], "big", signed=True) if len(data) >= 4 else None
        if correlation_id is not None:
            assert request.correlation_id is not None
            # Ids count up and wrap around. A response with an earlier id belongs to a request before the dump; one with
            # a later id means that this request's response is missing.
            ahead = (correlation_id - request.correlation_id) & 0xFFFFFFFF
            if ahead >= 1 << 31:
                return self._stray()
            if ahead:
                self._owed = None
                return () if _may_lack_response(request) else (WithoutResponse(request=request),)
        position = self._server.position
        self._server.skip()
        self._owed = None
        if request.request_class is None or request.version is None:
            error = ProtocolError("the request could not be decoded, so its response cannot either")
            return (
                ResponseFrame(
                    position=position, data=data, request=request, correlation_id=correlation_id, error=error
                ),
            )
        frame = read_response(data, request.request_class, request.version, position, request)
        self._tokens = _begins_tokens(frame)
        return (frame,)

    def _token_response(self) -> tuple[Event, ...] | None:
        """Read the server's token. A GSSAPI client's last token gets no reply: the next frame is a request."""
        data = self._server.peek()
        if data is None and not self._server.ended:
            return self._wait(SERVER)
        if data:
            following = self._client.peek()
            if following is None and not self._client.ended:
                return self._wait(CLIENT)
            if following and following[4:8] == data[:4] and read_request(following).message is not None:
                data = None
        self._owed_token = False
        if data is None:
            return ()
        position = self._server.position
        self._server.skip()
        return (Token(side=SERVER, position=position, data=data),)

    def _rest(self) -> tuple[Event, ...] | None:
        """Return the remaining events after the client's end."""
        if self._server.peek() is not None:
            return self._stray()
        if not self._server.ended:
            return self._wait(SERVER)
        self.wanted = None
        left = tuple(self._incomplete(side) for side in (CLIENT, SERVER) if self._stream(side).buffer)
        self._client.buffer.clear()
        self._server.buffer.clear()
        return left or None

    def _stray(self) -> tuple[Event, ...]:
        data = self._server.peek()
        assert data is not None
        position = self._server.position
        self._server.skip()
        correlation_id = int.from_bytes(data[:4], "big", signed=True) if len(data) >= 4 else None
        error = ProtocolError("no earlier request in the dump has this correlation id", offset=position)
        return (ResponseFrame(position=position, data=data, correlation_id=correlation_id, error=error),)

    def _incomplete(self, side: Side) -> Incomplete:
        stream = self._stream(side)
        return Incomplete(
            side=side,
            position=stream.position,
            size=max(0, len(stream.buffer) - SIZE_BYTES),
            expected=stream.size(),
        )


def _without_response_by_design(frame: RequestFrame) -> bool:
    """True for Produce with acks=0, which gets no response."""
    return frame.api_key == _PRODUCE and frame.message is not None and frame.message.acks == 0  # type: ignore[attr-defined]


def _may_lack_response(frame: RequestFrame) -> bool:
    """True for a Produce request whose acks could not be decoded."""
    return frame.api_key == _PRODUCE and frame.message is None


def _begins_tokens(frame: ResponseFrame) -> bool:
    return (
        frame.message is not None
        and frame.message.api_key == _SASL_HANDSHAKE
        and frame.version == 0
        and frame.message.error_code == 0  # type: ignore[attr-defined]
    )
