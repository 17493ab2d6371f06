"""Batches that a broker rewrites: with fewer records after compaction, or with another codec."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace

from kafwire._codec import crc32c_of
from kafwire.broker.log.batch_header import CRC_FROM, HEADER_SIZE, OVERHEAD, BatchHeader
from kafwire.compression import CODECS, compress, decompress
from kafwire.records import Record

_HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC_BITS = 0x07


def pack_batch(header: BatchHeader, payload: bytes) -> tuple[bytes, BatchHeader]:
    """Return a batch with this header, whose size and checksum are computed, and with encoded records."""
    size = HEADER_SIZE + len(payload)
    data = bytearray(
        _HEADER.pack(
            header.base_offset,
            size - OVERHEAD,
            header.leader_epoch,
            header.magic,
            0,
            header.attributes,
            header.last_offset - header.base_offset,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.count,
        )
    )
    data += payload
    with memoryview(data) as view, view[CRC_FROM:] as covered:
        crc = crc32c_of(covered)
    struct.pack_into(">I", data, CRC_FROM - 4, crc)
    return bytes(data), replace(header, size=size, crc=crc)


def write_batch(header: BatchHeader, records: Iterable[Record]) -> tuple[bytes, BatchHeader]:
    """Return a batch of these records, with their offsets and timestamps, compressed with the header's codec."""
    encoded = [_encode(header, record) for record in records]
    payload = b"".join(encoded)
    if codec := header.compression:
        payload = compress(CODECS[codec], payload)
    return pack_batch(replace(header, count=len(encoded)), payload)


def recompress(
    data: bytes | bytearray, header: BatchHeader, codec: int, limit: int, *, level: int | None = None
) -> tuple[bytes, BatchHeader]:
    """Return the same batch with another codec; its decompressed records may have `limit` bytes."""
    payload = bytes(data[HEADER_SIZE:])
    if header.compression:
        payload = decompress(CODECS[header.compression], payload, max_decompressed=limit)
    if codec:
        payload = compress(CODECS[codec], payload, level=level)
    return pack_batch(replace(header, attributes=(header.attributes & ~CODEC_BITS) | codec), payload)


def _encode(header: BatchHeader, record: Record) -> bytes:
    timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
    body = bytearray(b"\0")
    body += _varint(timestamp - header.base_timestamp) + _varint(record.offset - header.base_offset)
    body += _sized(record.key) + _sized(record.value)
    headers = list(record.headers)
    body += _varint(len(headers))
    for name, value in headers:
        body += _sized(name.encode()) + _sized(value)
    return _varint(len(body)) + bytes(body)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Return a zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
