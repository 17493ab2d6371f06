"""The columns of a chunk: their rest when a batch fails half-way, and how much memory they hold."""

from __future__ import annotations

import gc
import struct
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import ProtocolError
from kafwire.memory._buffer import fail_after, pool_bytes
from kafwire.records import Record, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support.fetch_line import Line
from tests.support.hostile_batches import MIB, batch, record, varint

SLACK = 64
SMALL = 65536


def at(offset: int, blob: bytes) -> bytes:
    """The same batch, elsewhere: no checksum covers its offset."""
    return struct.pack(">q", offset) + blob[8:]


def full_record(delta: int, key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]]) -> bytes:
    """A record whose time is 1 before its batch's."""

    def sized(data: bytes | None) -> bytes:
        return varint(-1) if data is None else varint(len(data)) + data

    fields = [b"\0", varint(-1), varint(delta), sized(key), sized(value), varint(len(headers))]
    body = b"".join([*fields, *(sized(name) + sized(content) for name, content in headers)])
    return varint(len(body)) + body


def looked_at(chunk: Any) -> dict[str, Any]:
    """All that can be seen of a chunk, but for what it holds."""
    arrow = chunk.to_arrow()
    arrow.validate(full=True)
    names = [name for name in arrow.schema.names if name != "headers"]
    pairs = arrow.column("headers").values
    leaves = [*map(arrow.column, names), pairs.field(0), pairs.field(1)]
    return {
        "records": list(chunk),
        "rows": arrow.to_pylist(),
        "lengths": [len(leaf) for leaf in leaves],
        "nulls": [leaf.null_count for leaf in leaves],
        "offsets": (chunk.base_offset, chunk.next_offset),
    }


GOOD = encode_batch(
    [
        Record(b"v", b"k", headers=[("h", b"1"), ("n", None)], timestamp_ms=5),
        Record(None, None, timestamp_ms=None),
        Record(b"w", b"l", headers=[("i", b"2")], timestamp_ms=6),
    ]
)
NULLS = full_record(0, None, None, [(b"x", None), (b"y", None)])
NOT_TEXT = full_record(1, b"key", b"value", [(b"\xff", b"content")])


@pytest.mark.parametrize("records", [[NULLS], [NOT_TEXT], [NULLS, NOT_TEXT]])
def test_of_a_batch_that_fails_half_way_nothing_is_left(records: list[bytes]) -> None:
    bad = batch(b"".join([*records, b"junk"]), count=len(records), last_delta=1)
    line = Line()
    line.push(GOOD, at(3, bad))
    found, expected = next(line.reader), decode_chunks(GOOD, Layout("t", 0), topic="t", partition=0)[0]
    assert looked_at(found) == looked_at(expected)
    buffers = [found.to_arrow().column("headers").values.field(0).buffers()[2] for _ in range(2)]
    assert buffers[0].address == buffers[1].address, "nothing is copied: all its header keys are text"
    with pytest.raises(ProtocolError, match="left over"):
        next(line.reader)
    line.native.stop()


def test_of_a_batch_that_takes_too_much_space_nothing_is_left() -> None:
    """That may be known only when all of it was read: header keys that are no text take four times their size."""
    large = full_record(0, b"k" * 4 * MIB, b"v" * 4 * MIB, [(b"\xff" * 6 * MIB, b"c" * 4 * MIB), (b"n", None)])
    line = Line()
    line.push(GOOD, at(3, batch(large + full_record(1, None, None, []), count=2, last_delta=1)))
    found = next(line.reader)
    assert looked_at(found) == looked_at(decode_chunks(GOOD, Layout("t", 0), topic="t", partition=0)[0])
    assert found.nbytes < MIB
    with pytest.raises(ProtocolError, match="its 2 records take more memory as columns"):
        next(line.reader)
    line.native.stop()


def test_columns_that_move_as_they_grow_keep_their_values() -> None:
    few = [
        Record(bytes(100_000), None, headers=[("h", b"1"), ("n", None)]),
        Record(None, b"k", headers=[("i", b"2")], timestamp_ms=5),
    ]
    many = [Record(b"v", b"l", headers=[("j", b"3")], timestamp_ms=6)] * 4000
    (chunk,) = decode_chunks(encode_batch(few) + encode_batch(many, base_offset=2), Layout("t", 0))
    fields = attrgetter("value", "key", "headers", "timestamp_ms")
    assert list(map(fields, chunk)) == list(map(fields, few + many))
    arrow = chunk.to_arrow()
    assert arrow.column("timestamp").cast(pa.int64()).to_pylist() == [None, 5] + [6] * 4000
    assert [arrow.column(name).null_count for name in ("key", "value", "timestamp")] == [1, 1, 1]
    assert arrow.column("headers").values.field(1).null_count == 1


# --- memory ---------------------------------------------------------------------------------------------------------


def live_bytes_of(data: bytes) -> int:
    """The bytes of the pool that the one chunk of `data` keeps, its values alone."""
    gc.collect()
    before = pool_bytes()[0]
    kept = decode_chunks(data, Layout(columns=("value",)))
    assert len(kept) == 1
    return pool_bytes()[0] - before


def beginning(size: int) -> bytes:
    """The first `size` bytes of a larger batch."""
    return (struct.pack(">qi", 1, 1 << 30) + bytes(4) + b"\2").ljust(size, b"\0")


def with_room(value: int, room: int) -> bytes:
    """A batch whose value is `value` bytes long, and so much of another that the values get a buffer of `room`.

    The key is not asked for: few records of this size are expected, so all other buffers are the smallest there are.
    """
    blob = batch(record(bytes(10_000), bytes(value)))
    plain = len(blob) - 61
    return blob + beginning(room - SLACK - len(blob) - plain)


OFFSETS = 256  # the smallest buffer


@pytest.mark.parametrize(
    ("value", "room", "kept"),
    [
        (1, SMALL, SMALL),
        (1, SMALL + 1, 256),
        (256 - SLACK, 2 * SMALL, 256),
        (SMALL // 2 - SLACK, 2 * SMALL, SMALL // 2),
        (SMALL // 2 - SLACK + 1, 2 * SMALL, 2 * SMALL),
    ],
)
def test_a_large_buffer_of_which_a_quarter_is_used_becomes_a_smaller_one(value: int, room: int, kept: int) -> None:
    data = with_room(value, room)
    assert live_bytes_of(data) == kept + OFFSETS
    (chunk,) = decode_chunks(data, Layout(columns=("value",)))
    assert [record.value for record in chunk] == [bytes(value)]


def test_the_contents_of_a_large_buffer_count_and_not_its_capacity() -> None:
    """Memory that was mapped and never touched does not count."""
    whole = encode_batch([bytes(20 * MIB)])
    (chunk,) = decode_chunks(whole, Layout(columns=("value",)))
    assert 20 * MIB < chunk.nbytes < 21 * MIB
    # room for what a hundred mebibytes more would become at this batch's ratio
    packed = encode_batch([bytes(20 * MIB)], compression="zstd")
    (chunk,) = decode_chunks(packed + beginning(5 * len(packed)), Layout(columns=("value",)), chunk_bytes=100 * MIB)
    assert 20 * MIB < chunk.nbytes < 21 * MIB


# --- reservations ---------------------------------------------------------------------------------------------------


def allocations(data: bytes, *columns: str) -> int:
    """How many buffers it takes to decode `data` to one chunk."""
    plenty = 1 << 30
    fail_after(plenty)
    try:
        (_,) = decode_chunks(data, Layout(columns=columns))
    finally:
        left = fail_after(-1)
    return plenty - left


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_the_rest_of_a_chunk_is_reserved_at_once(compression: str) -> None:
    def batches(count: int) -> bytes:
        rows = [(b"key", b"value" * 20, 5)] * 500
        return b"".join(encode_batch(rows, base_offset=500 * i, compression=compression) for i in range(count))

    columns = "offset", "timestamp", "value"
    assert allocations(batches(40), *columns) == allocations(batches(1), *columns)


def test_batches_for_which_there_is_room_get_no_more() -> None:
    """Room for as many rows again and one more was made for a chunk of one byte more than the first batch."""
    rows = (SMALL // 4 - SLACK // 4 - 2) // 2  # so that the offsets of twice as many and one more fill 64 KiB
    first, second = encode_batch([b"v"] * rows), encode_batch([b"v"] * (rows + 1), base_offset=rows)
    raw = len(first) - 61
    layout = Layout(columns=("value",))
    gc.collect()
    before = pool_bytes()[0]
    (chunk,) = decode_chunks(first + second, layout, chunk_bytes=raw + 1)
    assert len(chunk) == 2 * rows + 1
    offsets, values = SMALL, SMALL // 2  # of which a quarter is used, and so they are made small
    assert pool_bytes()[0] - before == offsets + values
