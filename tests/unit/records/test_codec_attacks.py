"""Known attacks on Kafka clients, by name and source, and the outcome of each.

`test_codec_memory.py` measures those that are about memory.
"""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from typing import Any

import cramjam
import lz4.frame
import pytest

from kafwire import protocol
from kafwire.compression import compress, decompress
from kafwire.consumer.fetch._fetch import parse_response
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer, pool_bytes, trim_pool
from kafwire.records import decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support.hostile_batches import (
    MIB,
    batch,
    gzip_bomb,
    lz4_bomb,
    message,
    record,
    unsigned_varint,
    varint,
    xerial,
    xerial_bomb,
    zstd_bomb,
)

SECRET = b"a secret of somebody else's batch" * 4000
GOOD = record(b"key", b"value")


def refused(data: bytes, match: str) -> ProtocolError:
    with pytest.raises(ProtocolError, match=match) as caught:
        decode_batches(data)
    assert caught.value.offset is not None
    return caught.value


# --- librdkafka #5577: a null array where none may be ---------------------------------------------------------------

FETCH = protocol.FetchResponse


def fetch_response(version: int, topics: bytes) -> bytes:
    flexible = version >= 12
    head = b"\0\0\0\7" + (b"\0" if flexible else b"") + bytes(4) + (bytes(6) if version >= 7 else b"")
    return head + topics + (b"\0" if flexible else b"")


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 18])
def test_null_arrays_are_refused_where_there_must_be_one(version: int) -> None:
    flexible = version >= 12
    null, one = (b"\0", b"\2") if flexible else (b"\xff\xff\xff\xff", b"\0\0\0\1")
    name = b"\0" * 16 if version >= 13 else (b"\2t" if flexible else b"\0\1t")
    for topics in (null, one + name + null + (b"\0" if flexible else b"")):
        with pytest.raises(ProtocolError, match="truncated or contradictory"):
            parse_response(Buffer(fetch_response(version, topics)), version)
        with pytest.raises(ProtocolError):
            FETCH.decode(fetch_response(version, topics)[4 + flexible :], version)


def test_a_record_cannot_have_minus_one_headers() -> None:
    refused(batch(varint(7) + b"\0\0\0\1\1" + varint(-1) + b"\0"), "header count")


# --- sarama #2658: compact lengths that overflow --------------------------------------------------------------------


@pytest.mark.parametrize(
    "length", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\x7f", b"\xff" * 9]
)
def test_a_compact_length_that_overflows_is_refused(length: bytes) -> None:
    with pytest.raises(ProtocolError, match="truncated or contradictory"):
        parse_response(Buffer(fetch_response(12, b"\2" + length + b"topic")), 12)
    with pytest.raises(ProtocolError):
        protocol.MetadataResponse.decode(bytes(4) + b"\2" + bytes(4) + length + b"host", 9)


# --- franz-go 2026: negative batch lengths, doubled markers, lists without order ------------------------------------


@pytest.mark.parametrize("length", [-1, -49, -(1 << 31), 0, 13, 48])
def test_a_negative_batch_length_neither_loops_nor_passes(length: int) -> None:
    whole = encode_batch([b"a"])
    data = whole + whole[:8] + struct.pack(">i", length) + whole[12:]
    assert refused(data, "below the smallest batch").offset == len(whole)


def marker(offset: int, commit: int) -> bytes:
    pair = (struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return encode_batch([pair], base_offset=offset, producer_id=7, transactional=True, control=True)


@pytest.mark.parametrize("aborted", [[(7, 0), (7, 6)], [(7, 6), (7, 0)], [(7, 6), (7, 0), (7, 6), (8, 1), (7, 0)]])
@pytest.mark.parametrize("doubled", [1, 2, 3])
def test_abort_markers_may_come_twice_and_lists_in_any_order(aborted: list[tuple[int, int]], doubled: int) -> None:
    """Aborted, marker once or more, committed, aborted again: a marker too many must not end what comes after it."""

    def data(offset: int, value: bytes) -> bytes:
        return encode_batch([value], base_offset=offset, producer_id=7, transactional=True)

    log = data(0, b"aborted") + b"".join(marker(1 + i, False) for i in range(doubled))
    log += data(4, b"committed") + marker(5, True) + data(6, b"aborted") + data(7, b"aborted") + marker(8, False)
    log += marker(9, False) + data(10, b"open")
    for chunk_bytes in (1, 4 << 20):
        chunks = decode_chunks(log, Layout("t", 0), aborted=aborted, chunk_bytes=chunk_bytes)
        assert [record.value for chunk in chunks for record in chunk] == [b"committed", b"open"]


@pytest.mark.parametrize(
    ("log", "aborted", "kept"),
    [
        # brokers before 2.8 list one that had no records, from its marker on (KAFKA-10702)
        ([(0, False), b"1", (2, True)], [(7, 0)], [b"1"]),
        ([b"0", (1, False), (2, False), b"3", (4, True)], [(7, 0), (7, 2)], [b"3"]),
        # the marker that ended it may be gone, by compaction: the next one ends it too
        ([b"0", (2, True), b"3", (4, True)], [(7, 0)], [b"3"]),
        # other control records end nothing
        ([b"0", (1, 2), b"2", (3, False), b"4"], [(7, 0)], [b"4"]),
    ],
)
def test_markers_that_end_an_aborted_transaction(
    log: list[Any], aborted: list[tuple[int, int]], kept: list[bytes]
) -> None:
    data = b""
    for item in log:
        if isinstance(item, bytes):
            data += encode_batch([item], base_offset=int(item), producer_id=7, transactional=True)
        else:
            data += marker(*item)
    (chunk,) = decode_chunks(data, Layout("t", 0), aborted=aborted)
    assert [record.value for record in chunk] == kept


def test_a_record_in_no_transaction_is_not_aborted_with_one() -> None:
    log = b"".join(
        encode_batch([b"%d" % offset], base_offset=offset, producer_id=7, transactional=offset != 1)
        for offset in range(3)
    )
    (chunk,) = decode_chunks(log + marker(3, False), Layout("t", 0), aborted=[(7, 0)])
    assert [record.value for record in chunk] == [b"1"]


# --- bombs: the checksum comes first --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "bomb"), [("gzip", gzip_bomb), ("zstd", zstd_bomb), ("lz4", lz4_bomb), ("snappy", xerial_bomb)]
)
def test_a_bomb_with_a_wrong_checksum_is_never_decompressed(codec: str, bomb: object) -> None:
    """Were it, its output would have been in pooled buffers, and the first of them is kept."""
    assert callable(bomb)
    packed = bomb(12 * MIB)
    number = {"gzip": 1, "snappy": 2, "lz4": 3}.get(codec)
    wrong = [batch(packed, codec=codec, crc=0x12345678)]
    if number is not None:
        for magic in (0, 1):
            damaged = bytearray(message(magic, number, packed))
            damaged[12] ^= 1
            wrong.append(bytes(damaged))
    for data in wrong:
        trim_pool()
        before = sum(pool_bytes())
        refused(data, "CRC-32")
        assert sum(pool_bytes()) - before < 65536
    right = batch(packed, codec=codec)
    refused(right, "record")
    assert sum(pool_bytes()) - before >= 12 * MIB


# --- CVE-2023-34455: snappy-java believed a xerial chunk's length ---------------------------------------------------


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 1 << 20, 100])
def test_a_xerial_chunk_length_is_not_believed(length: int) -> None:
    block = bytes(cramjam.snappy.compress_raw(GOOD))
    sound = xerial([block])
    lying = sound + struct.pack(">I", length) + block
    tracemalloc.start()
    live = sum(pool_bytes())
    refused(batch(lying, codec="snappy"), "xerial block is longer than the data")
    assert sum(pool_bytes()) - live < MIB
    assert tracemalloc.get_traced_memory()[1] < MIB
    tracemalloc.stop()
    assert len(decode_batches(batch(sound, codec="snappy"))[0]) == 1


@pytest.mark.parametrize("promise", [1 << 31, (1 << 32) - 1, 1 << 30])
def test_the_claimed_size_of_a_chunk_is_not_believed(promise: int) -> None:
    refused(batch(xerial([unsigned_varint(promise) + b"\0a"]), codec="snappy"), "not plausible")


# --- CVE-2025-66566: lz4-java copied from before the start of the output, where older data was ----------------------


def lz4_frame(block: bytes, *, linked: bool) -> bytes:
    """The header of a frame of more than one block, which is where linking them counts."""
    options = {"block_linked": linked, "block_size": lz4.frame.BLOCKSIZE_MAX64KB, "store_size": False}
    header = bytes(lz4.frame.compress(bytes(200_000), **options)[:7])
    assert header[4] == (0x40 if linked else 0x60)
    return header + struct.pack("<I", len(block)) + block + bytes(4)


def snappy_block(size: int, distance: int) -> bytes:
    return unsigned_varint(size) + b"\0a" + b"\xfe" + struct.pack("<H", distance)


# one literal byte, then a match of 64 bytes that begins before it; the rest is five literals, as the format wants
def lz4_block(distance: int) -> bytes:
    return b"\x1fa" + struct.pack("<H", distance) + bytes([64 - 19]) + b"\x50abcde"


@pytest.mark.parametrize("distance", [2, 60, 1000, 65535])
@pytest.mark.parametrize("linked", [False, True])
def test_an_lz4_match_before_the_start_never_shows_older_data(distance: int, linked: bool) -> None:
    packed = compress("lz4", SECRET)
    for _ in range(3):
        assert decompress("lz4", packed) == SECRET
        with pytest.raises(ProtocolError, match="lz4"):
            decompress("lz4", lz4_frame(lz4_block(distance), linked=linked))


def test_an_lz4_match_of_distance_zero_shows_nothing_either() -> None:
    """The format forbids it; some releases of liblz4 let it through, and then write zeros."""
    packed = compress("lz4", SECRET)
    for _ in range(3):
        assert decompress("lz4", packed) == SECRET
        try:
            found = decompress("lz4", lz4_frame(lz4_block(0), linked=False))
        except ProtocolError:
            continue
        assert set(found[1:65]) <= {0, ord("a")}


@pytest.mark.parametrize("distance", [0, 2, 60, 1000, 65535])
def test_a_snappy_copy_never_shows_older_data(distance: int) -> None:
    packed = compress("snappy", SECRET)
    for _ in range(3):
        assert decompress("snappy", packed) == SECRET
        with pytest.raises(ProtocolError, match="snappy: the block is corrupt"):
            decompress("snappy", snappy_block(65, distance))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_output_that_is_shorter_than_announced_is_not_padded_with_older_data(codec: str) -> None:
    for _ in range(3):
        assert decompress(codec, compress(codec, SECRET)) == SECRET
        if codec == "snappy":
            short = unsigned_varint(60) + b"\0a"
        elif codec == "zstd":
            short = b"\x28\xb5\x2f\xfd\x60" + struct.pack("<H", 1000 - 256) + (1 << 3 | 1).to_bytes(3, "little") + b"a"
        elif codec == "lz4":
            short = bytes(lz4.frame.compress(bytes(1000), store_size=True))
            short = short[:15] + struct.pack("<I", 1 << 31 | 1) + b"a" + bytes(4)
        else:
            short = compress("gzip", b"a")[:-4] + struct.pack("<I", 1000)
        with pytest.raises(ProtocolError, match=codec):
            decompress(codec, short)


# --- what some peers let pass ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [3, 4, 127, -1, -128])
def test_a_magic_that_does_not_exist_is_not_taken_for_another(magic: int) -> None:
    data = bytearray(encode_batch([b"a"]))
    data[16] = magic & 255  # the checksum does not cover it
    refused(bytes(data), "unknown magic byte")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_malformed_record_is_not_dropped_silently(codec: str) -> None:
    """The checksum is right: the producer wrote it so, and its meaning is unknown."""
    broken = varint(9) + b"\0\0\2" + varint(40) + b"k" + varint(1) + b"v" + b"\0\0"
    payload = GOOD + broken
    packed = payload if codec == "none" else compress(codec, payload)
    sound = encode_batch([b"before"])
    data = sound + batch(packed, codec=codec, count=2, last_delta=1)
    assert refused(data, "record 1 of 2: a key length").offset >= len(sound)  # type: ignore[operator]


@pytest.mark.parametrize("count", [0, 1])
def test_records_left_over_after_the_last_are_an_error(count: int) -> None:
    refused(batch(GOOD * (count + 1), count=count), "left over after the last record")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("rest", [b"\0", b"\0\0\0\1", b"trailing"])
def test_bytes_behind_the_compressed_records_are_an_error(codec: str, rest: bytes) -> None:
    packed = compress(codec, GOOD)
    assert len(decode_batches(batch(packed, codec=codec))) == 1
    refused(batch(packed + rest, codec=codec), codec)


@pytest.mark.parametrize("magic", [0, 1])
def test_bytes_left_over_in_an_old_message_are_an_error(magic: int) -> None:
    body = struct.pack(">bb", magic, 0) + (bytes(8) if magic else b"") + struct.pack(">ii", -1, 1) + b"v" + b"!"
    checksum = zlib.crc32(body)
    refused(struct.pack(">qiI", 0, len(body) + 4, checksum) + body, "left over in a message")
