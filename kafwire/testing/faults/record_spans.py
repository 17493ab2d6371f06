"""The bytes of a Produce request or Fetch response that the checksums of its records cover. Pure."""

from collections.abc import Iterator

from kafwire.errors import ProtocolError
from kafwire.protocol import Request, Response
from kafwire.protocol.api.fetch import FetchResponse
from kafwire.protocol.api.produce import ProduceRequest
from kafwire.protocol.dump import requests_by_key
from kafwire.protocol.framing import decode_response_header, request_header_version
from kafwire.protocol.header import RequestHeader
from kafwire.protocol.spec import MAX_MEMORY
from kafwire.records.batches import CRC_FROM, LENGTH_AT, MAGIC_AT, OVERHEAD

__all__ = ["record_spans"]

_CRC_COVERS = {0: MAGIC_AT, 1: MAGIC_AT, 2: CRC_FROM}  # from this position to the end of the batch or message, by magic


def record_spans(
    frame: memoryview, message_class: type[Request[Response]] | type[Response], version: int
) -> list[tuple[int, int]]:
    """Return the (start, end) of the bytes that each batch's checksum covers in `frame`, a frame without its size.

    The list is empty for any other frame, and for a message without records.
    """
    try:
        blobs = [blob for blob in _records(frame, message_class, version) if blob]
    except ProtocolError:
        return []
    data, at, spans = bytes(frame), 0, []
    for blob in blobs:
        at = data.index(blob, at)
        spans += [(at + start, at + end) for start, end in _covered(blob)]
        at += len(blob)
    return spans


def _records(
    frame: memoryview, message_class: type[Request[Response]] | type[Response], version: int
) -> Iterator[bytes]:
    if message_class is ProduceRequest:
        header = RequestHeader.plan(request_header_version(ProduceRequest, version))
        _, used = header.decode_prefix(frame, MAX_MEMORY)
        for topic in ProduceRequest.decode(frame[used:], version).topic_data:
            for part in topic.partition_data:
                yield bytes(part.records or b"")
    elif message_class is FetchResponse:
        _, body = decode_response_header(requests_by_key()[FetchResponse.api_key], frame, version)
        for response in FetchResponse.decode(body, version).responses:
            for found in response.partitions:
                yield bytes(found.records or b"")


def _covered(blob: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + MAGIC_AT < len(blob):
        end = at + OVERHEAD + int.from_bytes(blob[at + LENGTH_AT : at + OVERHEAD], "big", signed=True)
        start = at + _CRC_COVERS.get(blob[at + MAGIC_AT], MAGIC_AT)
        if not start < end <= len(blob):  # a batch that the broker cut at the end of its response, or no batch
            return
        yield start, end
        at = end
