"""Kafka's messages: one class per message, every version of it; and the headers that frame them.

`kafwire.protocol.MetadataRequest` and the like import the file of their API on first use. `MESSAGES` has every class
by Kafka's name. This package turns bytes into objects and back: no I/O, no versions chosen, no state.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from kafwire.errors import ProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

    from kafwire.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from kafwire.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kafwire.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from kafwire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
    from kafwire.protocol.fetch import FetchRequest, FetchResponse
    from kafwire.protocol.header import RequestHeader, ResponseHeader
    from kafwire.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from kafwire.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from kafwire.protocol.metadata import MetadataRequest, MetadataResponse
    from kafwire.protocol.produce import ProduceRequest, ProduceResponse
    from kafwire.protocol.spec import Data, Message, Request, Response, Struct

__all__ = [
    "MESSAGES",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "Data",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "FetchRequest",
    "FetchResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "Message",
    "MetadataRequest",
    "MetadataResponse",
    "ProduceRequest",
    "ProduceResponse",
    "Request",
    "RequestHeader",
    "Response",
    "ResponseHeader",
    "Struct",
    "decode_response",
    "encode_request",
    "encode_request_header",
]

_APIS = {
    "ApiVersions": "api_versions",
    "CreateTopics": "create_topics",
    "DeleteTopics": "delete_topics",
    "DescribeConfigs": "describe_configs",
    "Fetch": "fetch",
    "InitProducerId": "init_producer_id",
    "ListOffsets": "list_offsets",
    "Metadata": "metadata",
    "Produce": "produce",
}
_MODULES = {
    **{api + suffix: module for api, module in _APIS.items() for suffix in ("Request", "Response")},
    **dict.fromkeys(("RequestHeader", "ResponseHeader"), "header"),
}
_VOCABULARY = ("Data", "Message", "Request", "Response", "Struct")

_API_VERSIONS_KEY = 18
_UNSUPPORTED_VERSION = 35


class _Messages(Mapping[str, "type[Message]"]):
    """The message classes by Kafka's name; a class is imported when it is asked for."""

    def __getitem__(self, name: str) -> "type[Message]":
        message: type[Message] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return message

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


MESSAGES: Mapping[str, "type[Message]"] = _Messages()


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value: object = MESSAGES[name]
    elif name in _VOCABULARY:
        value = getattr(import_module(f"{__name__}.spec"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


R = TypeVar("R", bound="Response")


def encode_request_header(
    request_class: "type[Request[Response]]", version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the header of a request of `version`: header version 2 where that one is flexible, else 1."""
    from kafwire.protocol.header import RequestHeader

    return RequestHeader(
        request_api_key=request_class.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    ).encode(2 if version >= request_class.flexible_from else 1)


def encode_request(message: "Request[Response]", version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return header and body of a request, without the size that comes before them on a connection.

    Raises `ProtocolError` when the version cannot carry the message.
    """
    header = encode_request_header(type(message), version, correlation_id, client_id)
    return type(message).plan(version).encode(message, header)


def decode_response(request_class: "type[Request[R]]", data: "BytesLike", version: int) -> tuple[int, R]:
    """Read the answer to a request of `version`: (correlation id, message). `data` begins after the frame's size.

    An ApiVersions answer has header version 0 always, and one with UNSUPPORTED_VERSION may be in version 0 whatever
    was asked (KIP-511), or in no version at all, as some brokers do; then the message has the error code and no ranges.
    Raises `ProtocolError` for bytes that are not exactly one such answer.
    """
    from kafwire.protocol.header import ResponseHeader

    response_class: type[R] = request_class.response  # type: ignore[assignment]
    api_versions = request_class.api_key == _API_VERSIONS_KEY
    flexible = version >= response_class.flexible_from and not api_versions
    header, used = ResponseHeader.plan(1 if flexible else 0).decode_prefix(data)
    body = memoryview(data)[used:]
    if api_versions and body[:2] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
        return header.correlation_id, _refused_version(response_class, body, version)
    return header.correlation_id, response_class.decode(body, version)


def _refused_version(response_class: "type[R]", body: memoryview, version: int) -> R:
    for attempt in (0, version):
        try:
            return response_class.decode(body, attempt)
        except ProtocolError:
            continue
    return response_class.from_dict({"error_code": _UNSUPPORTED_VERSION})
