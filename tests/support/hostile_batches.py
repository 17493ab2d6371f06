"""Record bytes made to harm their decoder, built by code. `test_codec_memory.py` weighs what they do."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import cramjam
import crc32c
import lz4.frame
import pyarrow as pa

from kafwire.records import encode_batch

MIB = 1 << 20
HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def varint(value: int) -> bytes:
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def batch(payload: bytes, *, codec: str = "none", count: int = 1, last_delta: int = 0, crc: int | None = None) -> bytes:
    """One batch of magic 2 around `payload` as it is, with the right checksum or the one given."""
    body = HEADER.pack(
        0, len(payload) + 49, 0, 2, 0, CODECS[codec], last_delta, 0, 0, -1, -1, -1, count
    )[21:] + payload  # fmt: skip
    checksum = crc32c.crc32c(body) if crc is None else crc
    return struct.pack(">qiibI", 0, len(payload) + 49, 0, 2, checksum) + body


def record_start(key: int, value: int) -> bytes:
    """The bytes before the key of a record with `key` and `value` bytes and no headers."""
    body = b"\0\0\0" + varint(key)
    return varint(len(body) + key + len(varint(value)) + value + 1) + body


def record(key: bytes, value: bytes) -> bytes:
    return record_start(len(key), len(value)) + key + varint(len(value)) + value + b"\0"


def record_with_headers(count: int, headers: bytes) -> bytes:
    body = b"\0\0\0\1\1" + varint(count) + headers
    return varint(len(body)) + body


def gzip_bomb(size: int) -> bytes:
    squeeze = zlib.compressobj(1, wbits=31)
    piece = bytes(MIB)
    return b"".join([squeeze.compress(piece) for _ in range(size // MIB)]) + squeeze.flush()


def zstd_bomb(size: int) -> bytes:
    """A frame of RLE blocks: 4 bytes become 128 KiB, 32,768 times as much."""
    block = (131072 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (131072 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    window = bytes([7 << 3])  # 128 KiB, content size not given
    return b"\x28\xb5\x2f\xfd\x00" + window + block * (size // 131072 - 1) + last


def lz4_bomb(size: int) -> bytes:
    return bytes(lz4.frame.compress(bytes(size), block_size=lz4.frame.BLOCKSIZE_MAX4MB))


def xerial(blocks: Iterable[bytes]) -> bytes:
    framed = b"".join(struct.pack(">I", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


def xerial_bomb(size: int) -> bytes:
    return xerial([bytes(cramjam.snappy.compress_raw(bytes(MIB)))] * (size // MIB))


def snappy_bomb(size: int) -> bytes:
    """One raw block of copies: 3 bytes become 64."""
    return unsigned_varint(size) + b"\0\0" + b"\xfe\1\0" * ((size - 1) // 64) + b"\0\0" * ((size - 1) % 64)


def message(magic: int, attributes: int, value: bytes, offset: int = 0) -> bytes:
    """A message of magic 0 or 1 with a right CRC."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", 1000) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def bomb(make: Callable[[int], bytes], codec: str) -> bytes:
    return batch(make(255 * MIB), codec=codec)


def of_headers(count: int, codec: str) -> bytes:
    """One record with so many headers whose key is empty and whose value is null."""
    payload = record_with_headers(count, b"\0\1" * count)
    return batch(payload if codec == "none" else compressed(codec, payload), codec=codec)


def of_rows(rows: int, codec: str) -> bytes:
    """Records of ten or so bytes, without key and value."""
    return encode_batch(pa.table({"value": pa.nulls(rows, pa.binary())}), compression=codec)


def compressed(codec: str, payload: bytes) -> bytes:
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(payload, level=1))
    return bytes(lz4.frame.compress(payload, block_size=lz4.frame.BLOCKSIZE_MAX4MB))


def large_record(codec: str, where: str, size: int) -> bytes:
    """A sound batch whose only record has `size` bytes in its key, value, header key or header value."""
    content = bytes(size)
    if where == "key":
        payload = record(content, b"")
    elif where == "value":
        payload = record(b"", content)
    elif where == "header key":
        payload = record_with_headers(1, varint(size) + content + varint(-1))
    elif where == "bad text":
        payload = record_with_headers(1, varint(size) + b"\xff" * size + varint(-1))
    else:
        payload = record_with_headers(1, varint(1) + b"h" + varint(size) + content)
    return batch(compressed(codec, payload), codec=codec)


def lz4_bomb_of(unit: bytes, size: int, *, stored: bool = False) -> bytes:
    whole = unit * (size // len(unit))
    level = -(1 << 16) if stored else 0
    return bytes(lz4.frame.compress(whole, block_size=lz4.frame.BLOCKSIZE_MAX4MB, compression_level=level))


def gzip_of(unit: bytes, size: int) -> bytes:
    return zlib.compress(unit * (size // len(unit)), 1, wbits=31)


@dataclass(frozen=True)
class Attack:
    """Bytes, and what must come of them: a part of the ProtocolError's text, or None for records."""

    name: str
    make: Callable[[], bytes]
    match: str | None


TOO_LARGE = "max_decompressed"


def in_a_row(blob: bytes, times: int, records: int) -> bytes:
    """A batch of so many records, over and over, each at the offsets after the one before."""
    return b"".join(struct.pack(">q", number * records) + blob[8:] for number in range(times))


ATTACKS = [
    Attack("gzip 1000x", lambda: batch(gzip_bomb(1024 * MIB), codec="gzip"), TOO_LARGE),
    Attack("zstd 32,000x", lambda: batch(zstd_bomb(2048 * MIB), codec="zstd"), TOO_LARGE),
    Attack("lz4 255x", lambda: batch(lz4_bomb(600 * MIB), codec="lz4"), TOO_LARGE),
    Attack("snappy in blocks", lambda: batch(xerial_bomb(600 * MIB), codec="snappy"), TOO_LARGE),
    Attack("snappy in one block", lambda: batch(snappy_bomb(600 * MIB), codec="snappy"), TOO_LARGE),
    *(
        Attack(f"{name} just under the cap, no record in it", partial(bomb, make, codec), "record length")
        for name, codec, make in [
            ("gzip", "gzip", gzip_bomb),
            ("zstd", "zstd", zstd_bomb),
            ("lz4", "lz4", lz4_bomb),
            ("xerial", "snappy", xerial_bomb),
            ("snappy", "snappy", snappy_bomb),
        ]
    ),
    *(
        Attack(f"a {where} of 250 MiB in {codec}", partial(large_record, codec, where, 250 * MIB), None)
        for where, codec in [
            ("key", "zstd"),
            ("value", "zstd"),
            ("value", "lz4"),
            ("header key", "zstd"),
            ("header value", "zstd"),
        ]
    ),
    Attack("a header key of 250 MiB that is not UTF-8", lambda: large_record("zstd", "bad text", 250 * MIB), TOO_LARGE),
    Attack("a header key of 60 MiB that is not UTF-8", lambda: large_record("zstd", "bad text", 60 * MIB), None),
    Attack("120 million empty headers", partial(of_headers, 120_000_000, "zstd"), TOO_LARGE),
    Attack("30 million empty headers", partial(of_headers, 30_000_000, "zstd"), None),
    Attack("20 million empty headers, not compressed", partial(of_headers, 20_000_000, "none"), None),
    Attack("12 million records without content", lambda: of_rows(12_000_000, "zstd"), TOO_LARGE),
    Attack("8 million records without content", lambda: of_rows(8_000_000, "zstd"), None),
    Attack("8 million records without content, not compressed", lambda: of_rows(8_000_000, "none"), None),
    Attack(
        "36 million records promised",
        lambda: batch(zstd_bomb(252 * MIB), codec="zstd", count=36_000_000, last_delta=36_000_000),
        TOO_LARGE,
    ),
    Attack(
        "2^31 - 1 records promised",
        lambda: batch(zstd_bomb(252 * MIB), codec="zstd", count=(1 << 31) - 1),
        "record count",
    ),
    Attack(
        "a raw snappy block that promises 2^31 - 1",
        lambda: batch(unsigned_varint((1 << 31) - 1) + bytes(1 << 20), codec="snappy"),
        "not plausible",
    ),
    Attack(
        "a gzip trailer that promises 2^32 - 1",
        lambda: batch(gzip_bomb(MIB)[:-4] + b"\xff" * 4, codec="gzip"),
        "trailer does not match",
    ),
    Attack(
        "a zstd frame that promises 2^31",
        lambda: batch(b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 1 << 31) + b"\1\0\0", codec="zstd"),
        TOO_LARGE,
    ),
    Attack(
        "a zstd frame that promises 255 MiB",
        lambda: batch(b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 255 * MIB) + b"\1\0\0", codec="zstd"),
        "corrupt",
    ),
    Attack(
        "an lz4 frame that promises 2^62",
        lambda: batch(b"\x04\x22\x4d\x18\x6c\x70" + struct.pack("<Q", 1 << 62) + b"\0" + bytes(99), codec="lz4"),
        "lz4",
    ),
    Attack(
        "many tiny messages in one of magic 1",
        lambda: message(1, 4 - 1, lz4_bomb_of(message(1, 0, b""), 250 * MIB)),
        "offset delta",
    ),
    Attack(
        "many tiny messages in one of magic 0", lambda: message(0, 1, gzip_of(message(0, 0, b""), 250 * MIB)), TOO_LARGE
    ),
    Attack(
        "an lz4 message set of magic 0 with 60 MiB of input",
        lambda: message(
            0, 3, lz4_bomb_of(message(0, 0, bytes(range(256)) * 40000), 250 * MIB, stored=True)[: 60 * MIB]
        ),
        "lz4",
    ),
    Attack("four bombs of 200 MiB in one blob", lambda: in_a_row(large_record("zstd", "value", 200 * MIB), 4, 1), None),
    Attack(
        "thirty batches of 400,000 empty records in one blob",
        lambda: in_a_row(of_rows(400_000, "zstd"), 30, 400_000),
        None,
    ),
    Attack("400,000 empty batches", lambda: batch(b"", count=0) * 400_000, "iter_batches"),
    Attack("400,000 messages of magic 0", lambda: message(0, 0, b"") * 400_000, "iter_batches"),
]
