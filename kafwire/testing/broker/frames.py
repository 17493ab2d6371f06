"""Frames to requests, and answers to frames. What cannot be read is an error of the connection, as it is with Kafka."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode, ProtocolError
from kafwire.protocol.spec import Struct
from kafwire.testing.broker import dispatch
from kafwire.testing.broker.log.log import FileSpan, read_span
from kafwire.testing.broker.request import Connection, Request

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

API_VERSIONS = 18
BARE = -1  # the version of a token of SASL that no request is around (SaslHandshake 0)
_HEAD = struct.Struct(">hhi")
# What is encoded in the place of records that lie in a file; nobody who chooses other bytes of an answer knows it.
_STAND_IN = os.urandom(32)
MAX_TEXT = 0x7FFF
_API_VERSIONS_REFUSED = 0  # the version of an answer to a version of ApiVersions that is not known (KIP-511)


def read_request(connection: Connection, frame: BytesLike) -> Request:
    """Read a frame, without its size. Raises `ProtocolError` for what no broker answers: it closes the connection."""
    view = memoryview(frame).cast("B")
    if connection.login is not None and connection.login.expects_bare_token:
        return Request(connection, protocol.SaslAuthenticateRequest(auth_bytes=bytes(view)), BARE, size=len(view))
    if len(view) < _HEAD.size:
        raise ProtocolError(f"a request takes more than {len(view)} bytes")
    key, version, correlation_id = _HEAD.unpack_from(view)
    its = dispatch.served().get(key)
    if its is None:
        raise ProtocolError(f"no API has the key {key} here")
    kind = its.request_class
    low, high = its.versions
    if not low <= version <= high:
        if key == API_VERSIONS:
            return Request(connection, kind(), -1, correlation_id, size=len(view))
        raise ProtocolError(f"{its.name} is served in versions {low} to {high}, not {version}", api=its.name)
    header_version = 2 if version >= kind.flexible_from else 1
    header, used = protocol.RequestHeader.plan(header_version).decode_prefix(view)
    # What is left over is ignored, as Kafka does: librdkafka asks for all topics with some bytes too many.
    message, _ = kind.plan(version).decode_prefix(view[used:])
    return Request(connection, message, version, correlation_id, header.client_id, size=len(view))


def write_response(request: Request, answer: Any) -> bytes:
    """The frame of an answer, without its size."""
    pieces = write_pieces(request, answer)
    return b"".join(read_span(each) if isinstance(each, FileSpan) else each for each in pieces)


def write_pieces(request: Request, answer: Any) -> list[bytes | FileSpan]:
    """The frame of an answer, without its size: records that lie in files are not read, but stand there as spans."""
    parts = _parts_with_spans(answer)
    if not parts:
        return [_encode(request, answer)]
    spans = [part.records for part in parts]
    for part in parts:
        part.records = _STAND_IN
    try:
        frame = _encode(request, answer)
    finally:
        for part, span in zip(parts, spans, strict=True):
            part.records = span
    is_flexible = request.version >= type(request.message).flexible_from
    stated = _length(len(_STAND_IN), is_flexible=is_flexible)
    pieces: list[bytes | FileSpan] = []
    begin = 0
    for span in spans:
        at = frame.index(stated + _STAND_IN, begin)
        pieces += [frame[begin:at] + _length(span.size, is_flexible=is_flexible), span]
        begin = at + len(stated) + len(_STAND_IN)
    if begin < len(frame):
        pieces.append(frame[begin:])
    return pieces


def has_long_text(struct: Any) -> bool:
    """Whether an answer has a text that is too long for a message, such as what is said of a long name."""
    for each in struct.__fields__:
        value = getattr(struct, each.name)
        for element in value if isinstance(value, list) else (value,):
            if isinstance(element, Struct):
                if has_long_text(element):
                    return True
            elif isinstance(element, str) and len(element.encode()) > MAX_TEXT:
                return True
    return False


def _parts_with_spans(answer: Any) -> list[Any]:
    if not isinstance(answer, protocol.FetchResponse | protocol.ShareFetchResponse):
        return []
    return [part for topic in answer.responses for part in topic.partitions if isinstance(part.records, FileSpan)]


def _length(size: int, *, is_flexible: bool) -> bytes:
    """How a message states the length of records."""
    if not is_flexible:
        return size.to_bytes(4, "big")
    size += 1
    varint = bytearray()
    while size > 127:
        varint.append(size & 127 | 128)
        size >>= 7
    varint.append(size)
    return bytes(varint)


def _encode(request: Request, answer: Any) -> bytes:
    if request.version == BARE and isinstance(answer, protocol.SaslAuthenticateResponse):
        return bytes(answer.auth_bytes)
    head = struct.pack(">i", request.correlation_id)
    if isinstance(answer, bytes):
        return head + answer
    kind = type(request.message)
    version = request.version
    if kind.api_key == API_VERSIONS:
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = _API_VERSIONS_REFUSED
    elif version >= kind.flexible_from:
        head += b"\0"
    return head + bytes(answer.encode(version))
