"""`_withheld`: rows above a reader's limit stay fetched and unread, and come next, without being decoded again."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import CorruptBatchError
from kafwire.memory._buffer import pool_bytes
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from tests.support.fetch_line import Line, batch

CONTROL: dict[str, Any] = {"control": True, "transactional": True, "producer_epoch": 0}
ABORT = (b"\0\0\0\0", b"\0" * 6)
VALUES = [b"%d" % n for n in range(10)]


@pytest.fixture
def line() -> Iterator[Line]:
    it = Line(3, owns=False, most=4)
    yield it
    it.queue.close()
    it.native.stop()


def offsets(line: Line, most: int = -1) -> list[int] | None:
    found = line.reader.read(0, most)
    return None if found is None else [record.offset for record in found]


def test_a_batch_comes_in_parts_and_the_position_is_where_each_ends(line: Line) -> None:
    line.push(batch(5, *VALUES))
    parts, processed = [], -1
    for expected in ([5, 6, 7, 8], [9, 10, 11, 12], [13, 14]):
        part = line.reader.read(0)
        assert part is not None
        parts.append(part)
        assert [record.offset for record in part] == expected
        assert (part.base_offset, part.next_offset) == (expected[0], expected[-1] + 1)
        assert line.queue.position(0) == part.next_offset
        assert line.queue.processed(0) == processed
        line.reader.settle()
        processed = line.queue.processed(0)
        assert processed == part.next_offset
        assert bool(line.queue.queued(0)[1]) == (part.next_offset < 15)
    assert offsets(line) is None
    assert [record.value for part in parts for record in part] == VALUES
    assert line.queue.queued_bytes() == 0


def test_the_parts_share_their_memory(line: Line) -> None:
    line.push(batch(0, *VALUES))
    first = line.reader.read(0)
    before = pool_bytes()
    second, third = line.reader.read(0), line.reader.read(0)
    assert first is not None
    assert second is not None
    assert third is not None
    assert pool_bytes() <= before
    data = {part.to_arrow()["value"].buffers()[2].address for part in (first, second, third)}
    assert len(data) == 1
    assert first.nbytes == second.nbytes
    assert third.nbytes == first.nbytes // 2


def test_another_limit_takes_the_rest(line: Line) -> None:
    line.push(batch(0, *VALUES))
    assert offsets(line, 1) == [0]
    assert line.reader.is_withholding
    assert offsets(line, 3) == [1, 2, 3]
    assert offsets(line, 0) == [4, 5, 6, 7, 8, 9]
    assert not line.reader.is_withholding


def test_a_partition_s_batch_is_finished_before_another_s_turn(line: Line) -> None:
    for cursor in (0, 1):
        line.push(batch(0, *VALUES[:6]), cursor=cursor)
    found = []
    while (part := line.reader.read(0)) is not None:
        found.append((part.partition, [record.offset for record in part]))
    assert found == [(0, [0, 1, 2, 3]), (0, [4, 5]), (1, [0, 1, 2, 3]), (1, [4, 5])]


def test_small_responses_come_together_up_to_the_limit(line: Line) -> None:
    for base in (0, 2, 4):
        line.push(batch(base, b"a", b"b"), start=base, end=base + 2)
    assert offsets(line) == [0, 1, 2, 3]
    assert offsets(line) == [4, 5]
    for base in (6, 9, 12):
        line.push(batch(base, b"a", b"b", b"c"), start=base, end=base + 3)
    assert offsets(line) == [6, 7, 8, 9]
    assert line.queue.position(0) == 10
    assert offsets(line) == [10, 11]
    assert offsets(line) == [12, 13, 14]


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line.queue.pause(0, True),
        lambda line: line.queue.reset(0, 0),
        lambda line: line.queue.compact(),
    ],
    ids=["paused", "reset", "moved"],
)
def test_withheld_rows_follow_their_partition(line: Line, change: Callable[[Line], Any]) -> None:
    line.push(batch(0, *VALUES), before=bytes(2000))
    assert offsets(line) == [0, 1, 2, 3]
    change(line)
    if line.queue.position(0) == 0:
        line.queue.pause(0, False)
        assert offsets(line) is None
        assert not line.reader.is_withholding
        return
    line.push(batch(0, b"x"), cursor=1)
    found = line.reader.read(0)
    assert found is not None
    line.queue.pause(0, False)
    rest = [(found.partition, [record.offset for record in found])]
    rest += [(part.partition, [record.offset for record in part]) for part in iter(lambda: line.reader.read(0), None)]
    assert sorted(rest) == [(0, [4, 5, 6, 7]), (0, [8, 9]), (1, [0])]


def test_a_cut_log_takes_them(line: Line) -> None:
    line.push(batch(0, *VALUES))
    assert offsets(line) == [0, 1, 2, 3]
    line.queue.cut(0, 6)
    assert offsets(line) == [4, 5]
    assert offsets(line) is None


def aborted_log() -> bytes:
    """Records of two producers, of which 1 aborts twice and 2 never."""
    made, at = [], 0
    for turn in range(2):
        for _ in range(3):
            for producer in (1, 2):
                made.append(
                    encode_batch(
                        [b"%d-%d" % (producer, turn)] * 2,
                        base_offset=at,
                        transactional=True,
                        producer_id=producer,
                        producer_epoch=0,
                    )
                )
                at += 2
        made.append(encode_batch([ABORT], base_offset=at, producer_id=1, **CONTROL))
        at += 1
        made.append(encode_batch([b"1-kept"], base_offset=at, transactional=True, producer_id=1, producer_epoch=0))
        at += 1
        made.append(encode_batch([(b"\0\0\0\1", b"\0" * 6)], base_offset=at, producer_id=1, **CONTROL))
        at += 1
    return b"".join(made)


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize(("most", "chunk_bytes"), [*itertools.product((1, 2, 3, 5, 100), (1, 200, 1 << 20))])
def test_aborted_records_stay_left_out_when_they_are_decoded_again(
    most: int, chunk_bytes: int, *, forgets: bool
) -> None:
    line = Line(2, owns=False, chunk_bytes=chunk_bytes)
    try:
        blob = aborted_log()
        line.push(blob, aborted=[(1, 0), (1, 15)])
        found: list[bytes | None] = []
        while (part := line.reader.read(0, most)) is not None:
            assert len(part) <= most
            found += [record.value for record in part]
            if forgets:  # the withheld rows are dropped, and decoded again
                line.queue.pause(0, True)
                assert line.reader.read(0, most) is None
                assert not line.reader.is_withholding
                line.queue.pause(0, False)
        assert found == [b"2-0"] * 6 + [b"1-kept"] + [b"2-1"] * 6 + [b"1-kept"]
        assert line.queue.queued_bytes() == 0
    finally:
        line.queue.close()
        line.native.stop()


def test_rows_before_a_damaged_batch_come_first(line: Line) -> None:
    bad = bytearray(batch(10, b"bad"))
    bad[-1] ^= 1
    line.push(batch(0, *VALUES), bytes(bad))
    assert [offsets(line) for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    for _ in range(2):
        with pytest.raises(CorruptBatchError):
            line.reader.read(0)
    assert line.queue.position(0) == 10


def test_holes_and_markers_behind_the_last_part_are_read(line: Line) -> None:
    line.push(
        encode_batch([{"value": b"a", "offset": n} for n in (0, 3, 7, 20, 21)]),
        encode_batch([ABORT], base_offset=30, producer_id=1, **CONTROL),
    )
    assert offsets(line) == [0, 3, 7, 20]
    assert line.queue.position(0) == 21
    assert offsets(line) == [21]
    assert line.queue.position(0) == 31


LAYOUTS: list[dict[str, Any]] = [
    {},
    {"timestamp_unit": "us", "timestamp_type": "int32"},
    {"columns": ["value", "headers"]},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_parts_as_arrow_are_slices_of_the_whole(layout: dict[str, Any]) -> None:
    records: list[Any] = [
        {
            "value": None if n % 3 == 0 else b"v%d" % n,
            "key": b"k" * n if n % 2 else None,
            "timestamp_ms": None if n % 5 == 4 else n,
            "headers": [(f"h{i}", None if i else b"x" * n) for i in range(n % 4)],
        }
        for n in range(20)
    ]
    made = Layout("t", 0, **layout)
    whole: list[Any] = []
    parts: list[Any] = []
    for most in (0, 3):
        line = Line(0, owns=False)
        line.queue.add("t", 0, made)
        reader = line.reader
        line.push(encode_batch(records[:12], base_offset=0), encode_batch(records[12:], base_offset=12))
        found = list(iter(lambda: reader.read(0, most), None))  # noqa: B023
        (whole if not most else parts).extend(found)
        line.queue.close()
        line.native.stop()
    table = pa.Table.from_batches([part.to_arrow() for part in parts])
    table.validate(full=True)
    expected = pa.Table.from_batches([each.to_arrow() for each in whole])
    assert len(parts) == 7
    assert table.equals(expected)
    for part in parts:
        assert pa.record_batch(part).equals(part.to_arrow())
        assert [record.value for record in part] == part.to_arrow()["value"].to_pylist()
    assert [record for part in parts for record in part] == [record for each in whole for record in each]
    assert [part[-1].offset for part in parts] == [part.next_offset - 1 for part in parts]
    assert [iter(part).next_offset for part in parts] == [part.base_offset for part in parts]


def test_an_arrow_stream_has_the_limit_too(line: Line) -> None:
    line.push(batch(0, *VALUES))
    line.queue.end()
    stream = pa.RecordBatchReader._import_from_c_capsule(line.reader.stream_capsule())
    assert [rows["offset"].to_pylist() for rows in stream] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_closed_reader_holds_nothing(line: Line) -> None:
    before = pool_bytes()
    line.push(batch(0, *VALUES))
    assert line.reader.read(0) is not None
    line.reader.close()
    line.queue.close()
    assert not line.reader.is_withholding
    assert pool_bytes() <= before
