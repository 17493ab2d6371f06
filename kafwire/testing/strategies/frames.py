"""Strategies of the bytes on a connection: frames, and both streams of a client and its broker, in pieces."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafwire.protocol.framing import API_VERSIONS_KEY, request_header_version
from kafwire.protocol.header import RequestHeader, ResponseHeader
from kafwire.protocol.spec import Request, Response
from kafwire.testing.strategies.messages import Versioned, messages, requests, responses
from kafwire.testing.strategies.wire import Wire, Writer, encoded

__all__ = ["ConnectionTraffic", "Frame", "connections", "frames", "split"]

_CLIENT_IDS = st.sampled_from(["", "kafwire", "x" * 200]) | st.none()
_CORRELATION_IDS = st.integers(0, 100) | st.integers(-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True)
class Frame:
    r"""A request or a response as bytes on the wire, and its content. `frames` makes it.

    `data` begins with the size prefix (4 bytes); `payload` has the bytes after it, header and body.

    Example:
        >>> from kafwire.testing.strategies import Frame, Wire
        >>> Frame(Wire(b"\x00\x00\x00\x02\x00\x07"), kafwire.protocol.MetadataResponse(), 0, 7).payload
        b'\x00\x07'
    """

    data: Wire
    message: Request[Response] | Response
    version: int
    correlation_id: int
    client_id: str | None = None

    @property
    def payload(self) -> bytes:
        """Header and body."""
        return bytes(self.data[4:])


@dataclass(frozen=True)
class ConnectionTraffic:
    """The requests of one client and their responses: `responses[i]` belongs to `requests[i]`. `connections` makes it.

    A Produce request with acks=0 has no response, so None. `sent` and `received` are the two streams, in the pieces in
    which they arrived.

    Example:
        >>> from kafwire.testing.strategies import ConnectionTraffic
        >>> ConnectionTraffic((), (), (), ()).sent
        ()
    """

    requests: tuple[Frame, ...]
    responses: tuple[Frame | None, ...]
    sent: tuple[bytes, ...]
    received: tuple[bytes, ...]


def frames(
    kind: Literal["request", "response"] | None = None,
    names: Sequence[str] | None = None,
    *,
    correlation_ids: SearchStrategy[int] | None = None,
    unknown_tags: bool = True,
    records: SearchStrategy[Any] | None = None,
    unstable: bool = False,
    removed: bool = False,
) -> SearchStrategy[Frame]:
    """Draw a frame of a connection: size prefix, header in the version that goes with the body's, body.

    Args:
        kind: "request" or "response"; None: either.
        names: names of APIs ("Metadata"); None: all.
        correlation_ids: a strategy of correlation ids; None: any number of 32 bits.
        unknown_tags: as for `messages`.
        records: as for `messages`.
        unstable: as for `messages`.
        removed: as for `requests`.

    Returns:
        A strategy of `Frame`.

    Raises:
        ValueError: `kind` is another value.

    Example:
        >>> from hypothesis import given
        >>> from kafwire.testing.strategies import frames
        >>> @given(frames("request", ["Metadata"]))
        ... def test_size_prefix(frame):
        ...     assert int.from_bytes(frame.data[:4]) == len(frame.payload)
        >>> test_size_prefix()
    """
    options: dict[str, Any] = {
        "unknown_tags": unknown_tags,
        "records": records,
        "unstable": unstable,
        "removed": removed,
    }
    ids = _CORRELATION_IDS if correlation_ids is None else correlation_ids
    if kind not in {None, "request", "response"}:
        raise ValueError(f"kind is 'request', 'response' or None, not {kind!r}")
    asked = st.builds(_request_frame, requests(names, **options), ids, _CLIENT_IDS)
    response = st.builds(_response_frame, responses(names, **options), ids)
    return {"request": asked, "response": response, None: asked | response}[kind]


def split(data: bytes | Sequence[bytes], *, max_pieces: int = 8) -> SearchStrategy[tuple[bytes, ...]]:
    """Draw the bytes cut into pieces, none of them empty. The simplest is one piece.

    Args:
        data: the bytes, or several frames: then half of the cuts are near the ends of frames, where readers change
            state.
        max_pieces: the most pieces.

    Returns:
        A strategy of tuples of bytes.

    Example:
        >>> from hypothesis import given
        >>> from kafwire.testing.strategies import split
        >>> @given(split(b"EWR-IAH"))
        ... def test_nothing_is_lost(pieces):
        ...     assert b"".join(pieces) == b"EWR-IAH"
        >>> test_nothing_is_lost()
    """
    whole = bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else b"".join(data)
    if len(whole) < 2:
        return st.just((whole,) if whole else ())
    ends, near = 0, set()
    for part in [whole] if isinstance(data, (bytes, bytearray, memoryview)) else data:
        near |= {ends + step for step in (-1, 1, 3, 4, 5, 7, 8, 9)}
        ends += len(part)
        near.add(ends)
    inside = sorted(cut for cut in near if 0 < cut < len(whole))
    cuts = st.sets(st.integers(1, len(whole) - 1) | st.sampled_from(inside), max_size=max_pieces - 1)
    return cuts.map(lambda chosen: _pieces(whole, sorted(chosen)))


def connections(
    names: Sequence[str] | None = None,
    *,
    max_requests: int = 5,
    unknown_tags: bool = True,
    records: SearchStrategy[Any] | None = None,
) -> SearchStrategy[ConnectionTraffic]:
    """Draw a connection's requests, with rising correlation ids, and a response in the right version to each.

    Responses come in the order of requests, as in Kafka. Both streams come in pieces, cut anywhere.

    Args:
        names: names of APIs ("Metadata"); None: all.
        max_requests: the most requests; the least is one.
        unknown_tags: as for `messages`.
        records: as for `messages`.

    Returns:
        A strategy of `ConnectionTraffic`.

    Example:
        >>> from hypothesis import given
        >>> from kafwire.testing.strategies import connections
        >>> @given(connections(["ApiVersions"], max_requests=2))
        ... def test_all_is_sent(connection):
        ...     assert b"".join(connection.sent) == b"".join(frame.data for frame in connection.requests)
        >>> test_all_is_sent()
    """
    return _connections(names, max_requests, {"unknown_tags": unknown_tags, "records": records})


@st.composite
def _connections(
    draw: DrawFn, names: Sequence[str] | None, max_requests: int, options: dict[str, Any]
) -> ConnectionTraffic:
    correlation_id = draw(st.integers(0, 3) | st.integers(0, (1 << 31) - 1 - 10 * max_requests))
    client_id = draw(_CLIENT_IDS)
    asked: list[Frame] = []
    drawn: list[Frame | None] = []
    for _ in range(draw(st.integers(1, max_requests))):
        request = draw(requests(names, **options))
        asked.append(_request_frame(request, correlation_id, client_id))
        if expects_response(request.message):
            response = draw(_responses(request, options))
            drawn.append(_response_frame(Versioned(response, request.version), correlation_id))
        else:
            drawn.append(None)
        correlation_id += 1 + draw(st.integers(0, 9))
    received = [frame.data for frame in drawn if frame is not None]
    return ConnectionTraffic(
        tuple(asked),
        tuple(drawn),
        draw(split([frame.data for frame in asked])),
        draw(split(received)),
    )


def expects_response(request: Request[Response]) -> bool:
    """Return True if a broker responds to this request: to all but a Produce with acks=0."""
    return not (type(request).__name__ == "ProduceRequest" and getattr(request, "acks", 1) == 0)


def _responses(request: Versioned[Request[Response]], options: dict[str, Any]) -> SearchStrategy[Any]:
    return messages(type(request.message).response, request.version, **options)


def _pieces(whole: bytes, cuts: list[int]) -> tuple[bytes, ...]:
    return tuple(whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True))


def _framed(header: Wire, body: Wire) -> Wire:
    out = Writer()
    out.mark("int32", "size of the frame", struct.pack(">i", len(header) + len(body)))
    out.add(header, "header: ")
    out.add(body)
    return out.wire()


def _request_frame(request: Versioned[Request[Response]], correlation_id: int, client_id: str | None) -> Frame:
    message, version = request
    cls = type(message)
    header_version = request_header_version(cls, version)
    client_id = client_id if header_version else None
    header = RequestHeader(
        request_api_key=cls.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    data = _framed(encoded(header, header_version), request.data)
    return Frame(data, message, version, correlation_id, client_id)


def _response_frame(response: Versioned[Response], correlation_id: int) -> Frame:
    message, version = response
    cls = type(message)
    # A client decodes the response to ApiVersions before it knows the broker's versions (KIP-511).
    flexible = version >= cls.flexible_from and cls.api_key != API_VERSIONS_KEY
    data = _framed(encoded(ResponseHeader(correlation_id=correlation_id), 1 if flexible else 0), response.data)
    return Frame(data, message, version, correlation_id)
