"""Every form records come in: old message sets, holes, empty batches, cut ends, framings, and numbers at their limits.

The bytes are built here from the format's description, so what must come out is known without another decoder.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire import compression
from kafwire.errors import ProtocolError
from kafwire.records import Record, _compress, decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support.hostile_batches import batch, record_start, unsigned_varint, varint, xerial
from tests.support.reference_codec import PlainBatch, PlainRecord
from tests.support.reference_codec import encode_batch as reference_encode

LOG_APPEND = 8


@dataclass
class Old:
    """One message of magic 0 or 1."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 1000


def old_message(magic: int, row: Old, attributes: int = 0) -> bytes:
    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", row.timestamp) if magic else b"")
    body += sized(row.key) + sized(row.value)
    return struct.pack(">qiI", row.offset, len(body) + 4, zlib.crc32(body)) + body


def pack(codec: str, data: bytes) -> bytes:
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "lz4":
        return bytes(lz4.frame.compress(data))
    if codec == "xerial":
        return xerial([bytes(cramjam.snappy.compress_raw(data[i : i + 50])) for i in range(0, len(data), 50)])
    return bytes(cramjam.snappy.compress_raw(data))


NUMBERS = {"gzip": 1, "snappy": 2, "xerial": 2, "lz4": 3}


def message_set(magic: int, codec: str, rows: list[Old], *, as_sent: bool = False, append_time: int = -1) -> bytes:
    """As a broker stores it: offsets inside are absolute with magic 0, relative with 1; outside is the last one.

    `as_sent`: as a producer sends it, with 0 outside.
    """
    first = rows[0].offset
    inner = b"".join(
        old_message(magic, Old(row.offset - (first if magic else 0), row.key, row.value, row.timestamp)) for row in rows
    )
    attributes = NUMBERS[codec] | (LOG_APPEND if append_time >= 0 else 0)
    timestamp = append_time if append_time >= 0 else max(row.timestamp for row in rows)
    outer = 0 if as_sent else rows[-1].offset
    return old_message(magic, Old(outer, None, pack(codec, inner), timestamp), attributes)


def seen(data: bytes) -> list[tuple[int, bytes | None, bytes | None, int | None]]:
    return [(r.offset, r.key, r.value, r.timestamp_ms) for found in decode_batches(data) for r in found]


BYTES = st.none() | st.binary(max_size=30) | st.integers(0, 300).map(lambda n: b"abc" * n)
TIMES = st.integers(0, 1 << 42) | st.sampled_from([0, 1, (1 << 63) - 1])


@st.composite
def old_rows(draw: st.DrawFn) -> list[Old]:
    """Offsets rise, with the holes that compaction leaves."""
    offset, rows = draw(st.integers(0, 5) | st.integers(0, 1 << 60)), []
    for _ in range(draw(st.integers(1, 12))):
        rows.append(Old(offset, draw(BYTES), draw(BYTES), draw(TIMES)))
        offset += draw(st.sampled_from([1, 1, 1, 7, 1 << 20]))
    return rows


@given(old_rows(), st.sampled_from([0, 1]), st.sampled_from(sorted(NUMBERS)), st.booleans())
def test_message_sets_inside_a_message(rows: list[Old], magic: int, codec: str, append: bool) -> None:
    append = append and magic == 1
    data = message_set(magic, codec, rows, append_time=77 if append else -1)
    expected = [(r.offset, r.key, r.value, 77 if append else (r.timestamp if magic else None)) for r in rows]
    assert seen(data) == expected
    (found,) = decode_batches(data)
    assert (found.base_offset, found.last_offset, found.magic) == (rows[0].offset, rows[-1].offset, magic)
    assert found.timestamp_type == int(append)
    # and next to others, plain ones among them
    plain = old_message(magic, Old(rows[-1].offset + 1, b"k", None, 5))
    assert seen(data + plain) == [*expected, (rows[-1].offset + 1, b"k", None, 5 if magic else None)]
    for cut in (1, 12, 17, len(data) - 1):
        assert seen(data + data[:cut]) == expected


def test_relative_offsets_count_back_from_the_wrapper_s() -> None:
    """KIP-31: the wrapper has the last record's offset; compaction may have taken the first, so the first is not 0."""
    rows = [Old(3, b"a", b"1"), Old(5, b"b", b"2"), Old(9, b"c", b"3")]
    inner = b"".join(old_message(1, row) for row in rows)
    data = old_message(1, Old(1009, None, pack("gzip", inner)), 1)
    assert [row[0] for row in seen(data)] == [1003, 1005, 1009]
    (found,) = decode_batches(data)
    assert (found.base_offset, found.last_offset) == (1003, 1009)


def test_as_a_producer_sends_it_offsets_are_those_inside() -> None:
    rows = [Old(0, None, b"1"), Old(1, None, b"2")]
    assert [row[0] for row in seen(message_set(1, "lz4", rows, as_sent=True))] == [0, 1]


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("old_checksum", [False, True])
def test_lz4_header_checksums_of_old_clients(old_checksum: bool, linked: bool, sized: bool) -> None:
    """KAFKA-3160: with magic 0 the checksum covered the frame's magic number too. Both are read there."""
    rows = [Old(i, b"key-%d" % i, bytes(range(256)) * 100, 7) for i in range(9)]
    expected = [(r.offset, r.key, r.value) for r in rows]

    def frame(data: bytes) -> bytes:
        whole = bytearray(lz4.frame.compress(data, block_linked=linked, store_size=sized))
        if old_checksum:
            whole[14 if sized else 6] ^= 0x5A
        return bytes(whole)

    for magic in (0, 1):
        inner = b"".join(old_message(magic, row) for row in rows)
        data = old_message(magic, Old(8, None, frame(inner)), 3)
        if magic == 1 and old_checksum:
            with pytest.raises(ProtocolError, match="lz4"):
                decode_batches(data)
        else:
            assert [row[:3] for row in seen(data)] == expected


@pytest.mark.parametrize("size", [0, 1, 6, 7, 14, 15])
def test_an_lz4_frame_too_short_for_its_header_is_refused(size: int) -> None:
    frame = bytes(lz4.frame.compress(old_message(0, Old(0, None, b"v")), store_size=True))[:size]
    with pytest.raises(ProtocolError, match="lz4|without content"):
        decode_batches(old_message(0, Old(0, None, frame), 3))


def wrapped(magic: int, inner: bytes, *, offset: int = 0, attributes: int = 1) -> bytes:
    return old_message(magic, Old(offset, None, gzip.compress(inner)), attributes)


def resized(data: bytes, by: int) -> bytes:
    """The batch with its length field changed."""
    return data[:8] + struct.pack(">i", struct.unpack(">i", data[8:12])[0] + by) + data[12:]


def with_crc(data: bytes) -> bytes:
    return data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]


@pytest.mark.parametrize("magic", [0, 1])
def test_malformed_messages_inside_a_message_have_different_errors(magic: int) -> None:
    good = old_message(magic, Old(0, b"k", b"v"))
    lengths = len(good) - 10  # of the key
    for inner, what in [
        (good[:20], "a message is truncated"),
        (good + good[:-1], "message length that is too small or beyond"),
        (resized(good, 1), "message length that is too small or beyond"),
        (resized(good, -100), "message length that is too small or beyond"),
        (old_message(1 - magic, Old(0, None, b"v")) + bytes(9), "another one|of another magic|left over|magic"),
        (good[:16] + b"\7" + good[17:], "a message of another magic inside a message set"),
        (good[:12] + bytes(4) + good[16:], "the CRC-32 of a message does not match"),
        (with_crc(good[:lengths] + struct.pack(">i", 99) + good[lengths + 4 :]), "a key length beyond"),
        (with_crc(good[:lengths] + struct.pack(">i", -2) + good[lengths + 4 :]), "a key length beyond"),
        (with_crc(good[:-5] + struct.pack(">i", 2) + good[-1:]), "a value length beyond"),
        (with_crc(good[:-5] + struct.pack(">i", -9) + good[-1:]), "a value length beyond"),
        (with_crc(good[:-5] + struct.pack(">i", 0) + good[-1:]), "bytes left over in a message"),
        (old_message(magic, Old(5, None, b"")) + good, "do not rise"),
        (good + good, "does not rise"),
        (old_message(magic, Old(0, None, b""), 2), "a compressed message, or one of another magic"),
        (b"", "without content"),
    ]:
        with pytest.raises(ProtocolError, match=what):
            decode_batches(wrapped(magic, inner))


def test_offsets_below_zero_and_codecs_of_another_time_are_refused() -> None:
    with pytest.raises(ProtocolError, match="offsets below zero"):
        decode_batches(wrapped(1, old_message(1, Old(-5, None, b"v")), offset=-5))
    with pytest.raises(ProtocolError, match="unknown compression codec 4 for magic 1"):
        decode_batches(wrapped(1, b"", attributes=4))
    with pytest.raises(ProtocolError, match="unknown compression codec 6 for magic 2"):
        data = bytearray(batch(b"1234567"))
        data[22] = 6
        decode_batches(bytes(data), verify_crc=False)
    with pytest.raises(ProtocolError, match="without a value"):
        decode_batches(old_message(1, Old(0, b"k", None), 1))


# --- holes, empty batches, cut ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_empty_batches_count_as_read(codec: str) -> None:
    """A producer's last batch after compaction: a header that says how far it reached."""
    empty = PlainBatch([], base_offset=10, codec=codec, last_offset_delta=5, count=0)
    (found,) = decode_batches(reference_encode(empty))
    assert (len(found), found.base_offset, found.last_offset) == (0, 10, 15)
    bare = bytearray(batch(b"", codec=codec, count=0, last_delta=5))
    (found,) = decode_batches(bytes(bare))
    assert (len(found), found.last_offset) == (0, 5)
    after = encode_batch([b"v"], base_offset=16)
    (chunk,) = decode_chunks(reference_encode(empty) + after, Layout("t", 0), check_order=True)
    assert (chunk.base_offset, chunk.next_offset, [r.offset for r in chunk]) == (10, 17, [16])


def test_holes_at_either_end_and_between() -> None:
    records = [PlainRecord(delta, 0, None, b"%d" % delta) for delta in (2, 3, 50)]
    (found,) = decode_batches(reference_encode(PlainBatch(records, 100, last_offset_delta=99)))
    assert [r.offset for r in found] == [102, 103, 150]
    assert (found.base_offset, found.last_offset) == (100, 199)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_cut_end_is_left_out_whatever_the_magic(magic: int) -> None:
    one = encode_batch([b"value"]) if magic == 2 else old_message(magic, Old(0, None, b"value"))
    for size in range(len(one)):
        assert len(seen(one + one[:size])) == 1


def test_control_records_show_their_key_and_value() -> None:
    key, value = struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 9)
    data = encode_batch([(key, value)], base_offset=4, producer_id=7, transactional=True, control=True)
    (found,) = decode_batches(data)
    assert found.is_control
    assert [(r.offset, r.key, r.value) for r in found] == [(4, key, value)]
    assert decode_chunks(data, Layout("t", 0)) == [] or not len(decode_chunks(data, Layout("t", 0))[0])


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_large_batches_are_right_though_their_memory_is_given_back_on_the_way(codec: str) -> None:
    """Columns are made of one part while the system has another part already: small records, and very large ones."""
    dice = random.Random(6)
    noise = dice.randbytes(11 << 20)
    rows: list[Any] = [(b"%d" % i, noise[i * 700 : i * 700 + 900], i) for i in range(9000)]
    rows += [(noise, noise[::-1]), (None, b"last"), (b"key", noise, 1, [("h", noise), ("x" * (9 << 20), None)])]
    data = encode_batch(rows, compression=codec)
    (found,) = decode_batches(data)
    assert [(r.key, r.value) for r in found] == [(row[0], row[1]) for row in rows]
    assert found[-1].headers == [("h", noise), ("x" * (9 << 20), None)]


def test_a_record_with_100_000_headers() -> None:
    headers = [(f"key-{i}", b"%d" % i if i % 3 else None) for i in range(100_000)]
    data = reference_encode(PlainBatch([PlainRecord(0, 0, b"k", b"v", [(k.encode(), v) for k, v in headers])]))
    (found,) = decode_batches(data)
    assert found[0].headers == headers
    assert len(found.to_arrow().column("headers")[0]) == 100_000


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_header_key_of_1_mib(codec: str) -> None:
    key = b"h" * (1 << 20)
    data = reference_encode(PlainBatch([PlainRecord(0, 0, None, None, [(key, key), (b"", b"")])], codec=codec))
    (found,) = decode_batches(data)
    assert found[0].headers == [(key.decode(), key), ("", b"")]


# --- numbers at their limits ----------------------------------------------------------------------------------------

LARGE, SMALL = (1 << 63) - 1, -(1 << 63)


@pytest.mark.parametrize(
    ("base", "delta", "expected"),
    [
        (0, LARGE, LARGE),
        (0, SMALL, SMALL),
        (LARGE, 1, SMALL),  # as in Java, a sum that overflows wraps
        (SMALL, -1, LARGE),
        (LARGE, LARGE, -2),
        (5, -6, None),  # -1: none
        (LARGE, SMALL, None),
    ],
)
def test_timestamps_are_64_bits_and_wrap(base: int, delta: int, expected: int | None) -> None:
    body = b"\0" + varint(delta) + varint(0) + varint(-1) + varint(-1) + varint(0)
    data = bytearray(batch(varint(len(body)) + body))
    data[27:35] = struct.pack(">q", base)
    (found,) = decode_batches(bytes(data), verify_crc=False)
    assert found[0].timestamp_ms == expected


def test_offsets_reach_the_largest_and_not_beyond() -> None:
    last = (1 << 31) - 1
    body = b"\0" + varint(0) + varint(last) + varint(-1) + varint(-1) + varint(0)
    data = bytearray(batch(varint(len(body)) + body, last_delta=last))
    data[:8] = struct.pack(">q", LARGE - 1 - last)
    (found,) = decode_batches(bytes(data))
    assert (found[0].offset, found.last_offset) == (LARGE - 1, LARGE - 1)
    for base in (LARGE - last, LARGE, -1, SMALL):
        data[:8] = struct.pack(">q", base)
        with pytest.raises(ProtocolError, match="offsets below zero or above the largest"):
            decode_batches(bytes(data))


def longer(number: bytes, size: int) -> bytes:
    """The same varint with more bytes than it needs, as Java's reader takes it too."""
    return number[:-1] + bytes([number[-1] | 0x80]) + b"\x80" * (size - len(number) - 1) + b"\0"


@pytest.mark.parametrize("size", [2, 3, 5])
def test_numbers_may_take_more_bytes_than_they_need(size: int) -> None:
    header = longer(varint(1), size) + b"h" + longer(varint(1), size) + b"x"
    body = b"\0" + longer(varint(3), 2 * size) + longer(varint(0), size) + longer(varint(1), size) + b"k"
    body += longer(varint(2), size) + b"vw" + longer(varint(1), size) + header
    (found,) = decode_batches(batch(longer(varint(len(body)), 5 if size == 5 else 3) + body))
    assert found[0] == Record(b"vw", b"k", headers=[("h", b"x")], timestamp_ms=3, offset=0)


@pytest.mark.parametrize("place", range(7))
def test_a_number_of_too_many_bytes_or_bits_is_refused_in_every_place(place: int) -> None:
    """Length, timestamp, offset, key, value, header count, header key: five bytes at most, ten for the timestamp."""
    for wrong in (b"\xff" * 4 + b"\x10", b"\x80" * 5 + b"\0", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\0"):
        if place == 1 and len(wrong) < 10:
            continue
        fields = [varint(0), varint(0), varint(-1), varint(-1), varint(1), varint(0)]
        if place > 0:
            fields[place - 1] = wrong
        body = b"\0" + b"".join(fields) + varint(-1)
        length = wrong if place == 0 else varint(len(body))
        with pytest.raises(ProtocolError, match="varint|header"):
            decode_batches(batch(length + body))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_record_that_ends_within_a_number_is_refused(cut: int) -> None:
    whole = b"\0" + varint(1 << 40) + varint(100) + varint(70) + b"k" * 70
    body = whole[:cut] + b"\x80" * max(0, 6 - cut)
    with pytest.raises(ProtocolError):
        decode_batches(batch(varint(len(body)) + body))


def test_a_key_may_be_as_long_as_the_record_and_no_longer() -> None:
    start = record_start(4, 0)
    assert decode_batches(batch(start + b"keys" + varint(0) + b"\0"))[0][0].key == b"keys"
    with pytest.raises(ProtocolError, match="value length"):
        decode_batches(batch(start + b"keys" + varint(3) + b"\0"))
    assert unsigned_varint(300) == b"\xac\x02"


@pytest.mark.parametrize(
    "key",
    [
        b"\xc3",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\xe0\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
        b"\xff",
        b"a\x80",
        b"\xc3(",
        b"\xf0\x9f\x98(",
    ],
)
def test_header_keys_that_are_no_text_are_kept_and_shown(key: bytes) -> None:
    (found,) = decode_batches(
        reference_encode(PlainBatch([PlainRecord(0, 0, None, None, [(key, b"x"), (b"ok", None)])]))
    )
    assert found[0].headers == [(key.decode("utf-8", "surrogateescape"), b"x"), ("ok", None)]
    shown = found.to_arrow().column("headers")[0].as_py()
    assert [header["key"] for header in shown] == [key.decode("utf-8", "replace"), "ok"]


def test_the_slow_road_reads_old_lz4_frames_and_keeps_to_the_budget() -> None:
    """Frames go through the package `lz4`, without a C library."""
    rows = [Old(i, b"key", bytes(3000), 7) for i in range(5)]
    frame = bytearray(lz4.frame.compress(b"".join(old_message(0, row) for row in rows)))
    frame[14 if frame[4] & 8 else 6] ^= 0x5A
    large = bytes(lz4.frame.compress(bytes(40 << 20)))
    with pytest.warns(RuntimeWarning, match="much slower"):
        _compress._resolve(3, ("python",))
    try:
        assert [row[2] for row in seen(old_message(0, Old(4, None, bytes(frame)), 3))] == [bytes(3000)] * 5
        compression.set_budget(20 << 20)
        with pytest.raises(ProtocolError, match="budget"):
            compression.decompress("lz4", large)
        compression.set_budget(1 << 30)
        assert compression.decompress("lz4", large) == bytes(40 << 20)
        with pytest.raises(ProtocolError, match="more than 1000 bytes"):
            compression.decompress("lz4", large, max_decompressed=1000)
    finally:
        compression.set_budget(1 << 30)
        _compress._resolve(3)
