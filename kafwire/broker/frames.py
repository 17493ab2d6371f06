"""Frames to requests, and responses to frames. A frame that cannot be decoded ends the connection, as in Kafka."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker.log.log import FileSpan, read_span
from kafwire.broker.request import ClientConnection, Request
from kafwire.errors import ErrorCode, ProtocolError
from kafwire.protocol.framing import API_VERSIONS_KEY, request_header_version
from kafwire.protocol.spec import Struct

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

BARE = -1  # the version of a SASL token without a request around it (SaslHandshake 0)
_HEAD = struct.Struct(">hhi")
# Encoded in the place of records in a file. It is random, so no client can put the same bytes into a response.
_STAND_IN = os.urandom(32)
MAX_TEXT = 0x7FFF
_API_VERSIONS_REFUSED = 0  # the version of the response to an unknown version of ApiVersions (KIP-511)


def read_request(connection: ClientConnection, frame: BytesLike) -> Request:
    """Decode a frame, without its size. Raises `ProtocolError` for a frame that closes the connection."""
    view = memoryview(frame).cast("B")
    if connection.login is not None and connection.login.expects_bare_token:
        return Request(connection, protocol.SaslAuthenticateRequest(auth_bytes=bytes(view)), BARE, size=len(view))
    if len(view) < _HEAD.size:
        raise ProtocolError(f"a request takes more than {len(view)} bytes")
    key, version, correlation_id = _HEAD.unpack_from(view)
    profile = connection.profile
    found = dispatch.offered(profile).get(key)
    if found is None:
        raise ProtocolError(f"no API has the key {key} here")
    its = found[0]
    kind = its.request_class
    low, high = its.versions
    if not low <= version <= high:
        if key == API_VERSIONS_KEY and not (profile and profile.refuses_newer_api_versions):
            return Request(connection, kind(), -1, correlation_id, size=len(view))
        raise ProtocolError(f"{its.name} is served in versions {low} to {high}, not {version}", api=its.name)
    header_version = request_header_version(kind, version)
    header, used = protocol.RequestHeader.plan(header_version).decode_prefix(view)
    # Bytes left over are ignored, as in Kafka: librdkafka requests all topics with some bytes too many.
    message, _ = kind.plan(version).decode_prefix(view[used:])
    return Request(connection, message, version, correlation_id, header.client_id, size=len(view))


def write_response(request: Request, response: Any) -> bytes:
    """Return the frame of a response, without its size."""
    pieces = write_pieces(request, response)
    return b"".join(read_span(each) if isinstance(each, FileSpan) else each for each in pieces)


def write_pieces(request: Request, response: Any) -> list[bytes | FileSpan]:
    """Return the frame of a response, without its size; records in files stay spans, and are not read."""
    parts = _parts_with_spans(response)
    if not parts:
        return [_encode(request, response)]
    spans = [part.records for part in parts]
    for part in parts:
        part.records = _STAND_IN
    try:
        frame = _encode(request, response)
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
    """True if a response has a text that is too long for a message, such as an error about a long name."""
    for each in struct.__fields__:
        value = getattr(struct, each.name)
        for element in value if isinstance(value, list) else (value,):
            if isinstance(element, Struct):
                if has_long_text(element):
                    return True
            elif isinstance(element, str) and len(element.encode()) > MAX_TEXT:
                return True
    return False


def _parts_with_spans(response: Any) -> list[Any]:
    if not isinstance(response, protocol.FetchResponse | protocol.ShareFetchResponse):
        return []
    return [part for topic in response.responses for part in topic.partitions if isinstance(part.records, FileSpan)]


def _length(size: int, *, is_flexible: bool) -> bytes:
    """Return the length of records as a message encodes it."""
    if not is_flexible:
        return size.to_bytes(4, "big")
    size += 1
    varint = bytearray()
    while size > 127:
        varint.append(size & 127 | 128)
        size >>= 7
    varint.append(size)
    return bytes(varint)


def _encode(request: Request, response: Any) -> bytes:
    if request.version == BARE and isinstance(response, protocol.SaslAuthenticateResponse):
        return bytes(response.auth_bytes)
    head = struct.pack(">i", request.correlation_id)
    if isinstance(response, bytes):
        return head + response
    kind = type(request.message)
    version = request.version
    if kind.api_key == API_VERSIONS_KEY:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = _API_VERSIONS_REFUSED
    elif version >= kind.flexible_from:
        head += b"\0"
    return head + bytes(response.encode(version))
