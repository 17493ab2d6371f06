"""A slow, obvious codec of magic 2 batches, written from the format's description (KIP-98), to compare kafwire's with.

It shares no code with kafwire: checksums come from the `crc32c` package, compression from `cramjam`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import cramjam
import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@dataclass
class PlainRecord:
    offset_delta: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]] = field(default_factory=list)


@dataclass
class PlainBatch:
    records: list[PlainRecord]
    base_offset: int = 0
    leader_epoch: int = -1
    codec: str = "none"
    flags: int = 0  # 8 log append, 16 transactional, 32 control
    last_offset_delta: int = 0
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int | None = None  # to lie about it


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def wrap(value: int) -> int:
    """A 64-bit difference as Java computes it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def encode_record(record: PlainRecord, base_timestamp: int) -> bytes:
    body = b"\x00" + varint(wrap(record.timestamp - base_timestamp)) + varint(record.offset_delta)
    body += sized(record.key) + sized(record.value) + varint(len(record.headers))
    for key, value in record.headers:
        body += sized(key) + sized(value)
    return varint(len(body)) + body


def compress(codec: str, data: bytes) -> bytes:
    if codec == "snappy":
        block = bytes(cramjam.snappy.compress_raw(data))
        return XERIAL + struct.pack(">i", len(block)) + block
    if codec == "none":
        return data
    return bytes(getattr(cramjam, codec).compress(data))


def decompress(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    if codec == "snappy":
        if not data.startswith(XERIAL[:8]):
            return bytes(cramjam.snappy.decompress_raw(data))
        out, at = b"", 16
        while at < len(data):
            (size,) = struct.unpack_from(">i", data, at)
            out += bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + size]))
            at += 4 + size
        return out
    return bytes(getattr(cramjam, codec).decompress(data))


def encode_batch(batch: PlainBatch, *, payload: bytes | None = None, good_crc: bool = True) -> bytes:
    """The batch's bytes; `payload` replaces the (compressed) records."""
    if payload is None:
        records = b"".join(encode_record(record, batch.base_timestamp) for record in batch.records)
        payload = compress(batch.codec, records)
    count = len(batch.records) if batch.count is None else batch.count
    attributes = CODECS.index(batch.codec) | batch.flags
    tail = struct.pack(
        ">hiqqqhii",
        attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        count,
    )
    crc = crc32c.crc32c(tail + payload) ^ (0 if good_crc else 1)
    head = struct.pack(">ibI", batch.leader_epoch, 2, crc)
    body = head + tail + payload
    return struct.pack(">qi", batch.base_offset, len(body)) + body


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def sized(self) -> bytes | None:
        size = self.varint()
        if size < 0:
            return None
        self.at += size
        assert self.at <= len(self.data)
        return self.data[self.at - size : self.at]


def decode_batch(data: bytes) -> PlainBatch:
    """The one batch in `data`; asserts that all is as it should be."""
    (base, length, epoch, magic, crc, attributes, last, first_time, max_time, pid, pepoch, sequence, count) = (
        HEADER.unpack_from(data)
    )
    assert magic == 2
    assert length == len(data) - 12
    assert crc == crc32c.crc32c(data[21:])
    codec = CODECS[attributes & 7]
    reader = Reader(decompress(codec, data[HEADER.size :]))
    records = []
    for _ in range(count):
        length = reader.varint()
        end = reader.at + length
        reader.at += 1
        timestamp = wrap(first_time + reader.varint())
        delta = reader.varint()
        key, value = reader.sized(), reader.sized()
        headers = []
        for _ in range(reader.varint()):
            name = reader.sized()
            assert name is not None
            headers.append((name, reader.sized()))
        assert reader.at == end
        records.append(PlainRecord(delta, max_time if attributes & 8 else timestamp, key, value, headers))
    assert reader.at == len(reader.data)
    return PlainBatch(records, base, epoch, codec, attributes & ~7, last, first_time, max_time, pid, pepoch, sequence)
