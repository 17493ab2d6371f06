"""The framing of a message: the headers of requests and responses, and the version before bytes inside records.

Frame sizes do not belong here: they are part of a connection (see `kafwire.runtime.frames`).
"""

from typing import TYPE_CHECKING, TypeVar

from kafwire.error_codes import ErrorCode
from kafwire.errors import ProtocolError
from kafwire.protocol.header import RequestHeader, ResponseHeader
from kafwire.protocol.spec import MAX_MEMORY, Data, Request, Response

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

API_VERSIONS_KEY = 18
_CONTROLLED_SHUTDOWN_KEY = 7

R = TypeVar("R", bound=Response)
D = TypeVar("D", bound=Data)


def request_header_version(request_class: type[Request[Response]], version: int) -> int:
    """Return the version of the header of a request of `version`: 2 if that one is flexible, else 1.

    ControlledShutdown 0 is older than client ids: its header has version 0.
    """
    if request_class.api_key == _CONTROLLED_SHUTDOWN_KEY and version == 0:
        return 0
    return 2 if version >= request_class.flexible_from else 1


def encode_request_header(
    request_class: type[Request[Response]], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the header of a request of `version`."""
    return RequestHeader(
        request_api_key=request_class.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    ).encode(request_header_version(request_class, version))


def encode_request(message: Request[Response], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return header and body of a request, without the size before them on a connection.

    Raises `ProtocolError` if the version cannot carry the message.
    """
    header = encode_request_header(type(message), version, correlation_id, client_id)
    return type(message).plan(version).encode(message, header)


def decode_response(
    request_class: type[Request[R]], data: "BytesLike", version: int, *, max_memory: int = MAX_MEMORY
) -> tuple[int, R]:
    """Decode the response to a request of `version`: (correlation id, message). `data` begins after the frame's size.

    An ApiVersions response always has header version 0, and one with UNSUPPORTED_VERSION may be in version 0 for any
    request version (KIP-511), or, from some brokers, in no valid version; then the message has the error code and no
    ranges. Raises `ProtocolError` for bytes that are not exactly one such response, or a response that would take more
    than `max_memory` bytes (see `Message.decode`).
    """
    header, body = decode_response_header(request_class, data, version, max_memory=max_memory)
    return header.correlation_id, decode_response_body(request_class, body, version, max_memory=max_memory)[1]


def decode_response_header(
    request_class: type[Request[Response]], data: "BytesLike", version: int, *, max_memory: int = MAX_MEMORY
) -> tuple[ResponseHeader, memoryview]:
    """Decode the header of the response to a request of `version`; the rest is the body."""
    flexible = version >= request_class.response.flexible_from and request_class.api_key != API_VERSIONS_KEY
    header, used = ResponseHeader.plan(1 if flexible else 0).decode_prefix(data, max_memory)
    return header, memoryview(data).cast("B")[used:]


def decode_response_body(
    request_class: type[Request[R]], body: "BytesLike", version: int, *, max_memory: int = MAX_MEMORY
) -> tuple[int | None, R]:
    """Decode the body of a response: (its version, message), see `decode_response`.

    Version None: a refusal of which only the error code can be decoded.
    """
    response_class: type[R] = request_class.response  # type: ignore[assignment]
    view = memoryview(body).cast("B")
    if request_class.api_key != API_VERSIONS_KEY or view[:2] != ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        return version, response_class.decode(view, version, max_memory=max_memory)
    for attempt in (0, version):
        try:
            return attempt, response_class.decode(view, attempt, max_memory=max_memory)
        except ProtocolError:
            continue
    return None, response_class.from_dict({"error_code": ErrorCode.UNSUPPORTED_VERSION.code})


def encode_versioned(message: Data, version: int) -> bytes:
    """Return `message` after its version, an int16.

    A consumer's subscription and assignment have this form, and the key and the value of a transaction marker.
    """
    return version.to_bytes(2, "big", signed=True) + message.encode(version)


def decode_versioned(message_class: type[D], data: "BytesLike", *, lenient: bool = False) -> tuple[int, D]:
    """Decode the result of `encode_versioned`: (version, message).

    A version above ours is decoded as our highest, and the rest is ignored: such messages only ever grow at their end.
    With `lenient`, bytes after a message of a known version are ignored too, as in Java's clients. Raises
    `ProtocolError` for anything else that is not one such message.
    """
    view = memoryview(data).cast("B")
    version = int.from_bytes(view[:2], "big", signed=True)
    if len(view) < 2:
        raise ProtocolError(f"a version takes 2 bytes, {len(view)} are left", api=message_class.__name__, offset=0)
    body = view[2:]
    if version < message_class.min_version or (version <= message_class.max_version and not lenient):
        return version, message_class.decode(body, version)
    message: D
    message, _ = message_class.plan(min(version, message_class.max_version)).decode_prefix(body, MAX_MEMORY)
    return version, message
