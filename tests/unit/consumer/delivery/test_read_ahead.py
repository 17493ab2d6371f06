"""`_read_ahead`: for a reader that waits for the GIL chunks are decoded ahead, and it hands out what it would have."""

from __future__ import annotations

import contextlib
import gc
import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.errors import CorruptBatchError
from kafwire.memory._buffer import Buffer, pool_bytes
from kafwire.records._arrow import Layout
from tests.support import seeds
from tests.support.computing import computing
from tests.support.deadlines import PATIENCE_S
from tests.support.fetch_line import Line, batch

VALUE = bytes(1000)
LARGE = bytes(100_000)
IN_A_SLICE = 24


@pytest.fixture
def line() -> Iterator[Line]:
    it = Line(3, chunk_bytes=1, owns=False)
    yield it
    it.queue.close()
    it.native.stop()


def slice_of(base: int, batches: int = IN_A_SLICE, value: bytes = VALUE) -> bytes:
    return b"".join(batch(base + number, value) for number in range(batches))


def push(
    line: Line, number: int, base: int, *, generation: int = 0, batches: int = IN_A_SLICE, value: bytes = VALUE
) -> None:
    blob = slice_of(base, batches, value)
    line.queue.push(Buffer(blob), 0, len(blob), number, base, 1 << 40, [], generation)
    line.queue.seal()


def read(reader: FetchReader) -> Any:
    """(partition, offsets) of the next batch, or None."""
    found = reader.read(0)
    return None if found is None else (found.partition, [record.offset for record in found])


class Reading:
    """One partition read to its end, again and again, until something is decoded ahead."""

    def __init__(self, line: Line, reader: FetchReader | None = None) -> None:
        self.line = line
        self.reader = line.reader if reader is None else reader
        self.next = 0
        self.pushed = 0
        with computing():
            until = time.monotonic() + PATIENCE_S
            while not self.reader.ahead:
                assert time.monotonic() < until, "nothing was decoded ahead"
                if self.next == self.pushed:
                    push(line, 0, self.pushed)
                    self.pushed += IN_A_SLICE
                self.take()

    def take(self) -> None:
        assert read(self.reader) == (0, [self.next])
        self.next += 1
        assert self.line.queue.position(0) == self.next

    def take_all(self) -> None:
        while self.next < self.pushed:
            self.take()
        assert read(self.reader) is None
        assert self.reader.ahead == 0
        assert self.line.queue.queued_bytes() == 0


def test_batches_decoded_ahead_are_handed_out_in_order(line: Line) -> None:
    Reading(line).take_all()


def test_nothing_is_decoded_ahead_without_another_thread(line: Line) -> None:
    for base in range(0, 10 * IN_A_SLICE, IN_A_SLICE):
        push(line, 0, base)
    seen = []
    while read(line.reader) is not None:
        seen.append(line.reader.ahead)
    # (another process may take the processor for a while, which looks the same)
    assert seen.count(0) > len(seen) // 2


def test_the_position_and_the_processed_offset_are_those_of_delivered_rows(line: Line) -> None:
    reading = Reading(line)
    line.reader.settle()
    assert line.queue.processed(0) == reading.next
    assert line.queue.queued(0)[0] == 1
    assert line.queue.queued_bytes() > 0


def test_a_seek_drops_chunks_decoded_ahead(line: Line) -> None:
    reading = Reading(line)
    generation = line.queue.reset(0, 7)
    push(line, 0, 7, generation=generation)
    assert [read(line.reader) for _ in range(2)] == [(0, [7]), (0, [8])]
    reading.next, reading.pushed = 9, 7 + IN_A_SLICE
    reading.take_all()


def test_a_seek_back_to_the_same_offset_decodes_again(line: Line) -> None:
    reading = Reading(line)
    generation = line.queue.reset(0, reading.next)
    blob = batch(reading.next, b"other")
    line.queue.push(Buffer(blob), 0, len(blob), 0, reading.next, 1 << 40, [], generation)
    line.queue.seal()
    found = line.reader.read(0)
    assert found is not None
    assert [record.value for record in found] == [b"other"]


def test_a_paused_partition_is_passed_over_and_keeps_its_records(line: Line) -> None:
    reading = Reading(line)
    line.queue.pause(0)
    push(line, 1, 0, batches=1)
    assert [read(line.reader) for _ in range(2)] == [(1, [0]), None]
    line.queue.pause(0, False)
    reading.take_all()


def test_a_claimed_partition_goes_to_its_reader(line: Line) -> None:
    reading = Reading(line)
    line.queue.claim(0)
    own = FetchReader(
        line.queue, Layout("t", 0), chunk_bytes=1, max_decompressed=1 << 20, verify_crc=True, only=0, owns=False
    )
    assert read(line.reader) is None
    reading.reader = own
    reading.take_all()


def test_a_cut_ends_chunks_decoded_ahead(line: Line) -> None:
    reading = Reading(line)
    end = reading.next + 1
    line.queue.cut(0, end)
    reading.take()
    assert read(line.reader) is None
    assert line.queue.position(0) == end


def test_other_partitions_have_their_turn_after_chunks_decoded_ahead(line: Line) -> None:
    reading = Reading(line)
    push(line, 1, 0, batches=1)
    found = [read(line.reader) for _ in range(reading.pushed - reading.next + 1)]
    assert (1, [0]) in found
    assert [offsets for partition, offsets in found if partition == 0] == [
        [offset] for offset in range(reading.next, reading.pushed)
    ]


def test_offsets_that_are_needed_from_now_on_are_decoded() -> None:
    line = Line(1, chunk_bytes=1, owns=False)
    line.queue = type(line.queue)(line.native.notifier(3))
    line.queue.add("t", 0, Layout("t", 0, columns=("value",)))
    reader = FetchReader(
        line.queue, Layout("t", 0, columns=("value",)), chunk_bytes=1, max_decompressed=1 << 20, verify_crc=True
    )
    with computing():
        until = time.monotonic() + PATIENCE_S
        for base in count(step=IN_A_SLICE):
            assert time.monotonic() < until
            push(line, 0, base)
            while not reader.ahead and reader.read(0) is not None:
                pass
            if reader.ahead:
                break
    position = line.queue.position(0)
    reader.need_offsets()
    assert read(reader) == (0, [position])
    line.queue.close()
    line.native.stop()


@pytest.mark.parametrize("at", [0, 1, 5])
def test_a_damaged_batch_is_met_where_it_is(line: Line, at: int) -> None:
    reading = Reading(line)
    reading.take_all()
    blob = bytearray(slice_of(reading.next))
    size = len(blob) // IN_A_SLICE
    blob[(at + 1) * size - 1] ^= 1
    line.queue.push(Buffer(bytes(blob)), 0, len(blob), 0, reading.next, 1 << 40, [])
    line.queue.seal()
    with computing():
        for _ in range(at):
            reading.take()
        with pytest.raises(CorruptBatchError, match=f"batch at offset {reading.next},"):
            line.reader.read(0)


def test_aborted_records_are_not_decoded_ahead(line: Line) -> None:
    """Entries of aborted transactions that are over already are written into the list: it is read once, in order."""
    reading = Reading(line)
    reading.take_all()
    sent: dict[str, Any] = {"transactional": True, "producer_epoch": 0, "base_sequence": 0, "producer_id": 1}
    kept: list[int] = []
    with computing():
        for _ in range(20):
            base = reading.pushed
            push(line, 0, base)
            blob = b"".join(batch(base + IN_A_SLICE + number, VALUE, **sent) for number in range(IN_A_SLICE))
            line.queue.push(
                Buffer(blob), 0, len(blob), 0, base + IN_A_SLICE, 1 << 40, [(1, base + IN_A_SLICE + IN_A_SLICE // 2)]
            )
            line.queue.seal()
            reading.pushed += 2 * IN_A_SLICE
            kept += range(base, base + IN_A_SLICE + IN_A_SLICE // 2)
        found = []
        while (chunk := line.reader.read(0)) is not None:
            found += [record.offset for record in chunk]
    assert found == kept


def test_an_arrow_stream_decodes_ahead_too() -> None:
    line = Line(1, chunk_bytes=1)
    pushed = 40 * IN_A_SLICE
    for base in range(0, pushed, IN_A_SLICE):
        push(line, 0, base)
    line.queue.end()
    stream = pa.RecordBatchReader._import_from_c_capsule(line.reader.stream_capsule())
    seen, offsets = 0, []
    with computing():
        for found in stream:
            offsets += found.column("offset").to_pylist()
            seen = max(seen, line.reader.ahead)
    assert offsets == list(range(pushed))
    assert seen > 1
    line.native.stop()


def test_chunks_decoded_ahead_are_released(line: Line) -> None:
    live = pool_bytes()[0]
    reading = Reading(line)
    line.reader.close()
    assert line.reader.ahead == 0
    line.queue.reset(0, 0)
    assert line.queue.queued_bytes() == 0
    del reading
    line.reader = FetchReader(line.queue, Layout("t", 0), chunk_bytes=1, max_decompressed=1, verify_crc=True)
    assert pool_bytes()[0] <= live, "nothing is kept by a thread that has ended with its reader"


def test_a_reader_that_is_forgotten_ends_its_thread() -> None:
    gc.collect()
    before = native_threads()
    for _ in range(3):
        line = Line(3, chunk_bytes=1)
        reading = Reading(line)
        assert native_threads() > before
        line.queue.close()
        line.native.stop()
        del reading, line
    gc.collect()
    assert native_threads() <= before


def native_threads() -> int:
    """How many threads decode ahead."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            found += (task / "comm").read_text().strip() == "kafwire-decode"
    return found


@seeds.several(5)
def test_whatever_is_done_meanwhile_each_row_comes_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    line = Line(3, chunk_bytes=2 * len(LARGE), owns=False)
    ends, generations, expected = [0] * 3, [0] * 3, [0] * 3
    paused = [False] * 3
    most = 0
    with computing():
        until = time.monotonic() + PATIENCE_S
        for turn in count():
            if turn >= 400 and (most > 1 or time.monotonic() > until):
                break
            number = rng.randrange(3)
            what = rng.random()
            if what < 0.2 and ends[number] - expected[number] < 200:
                size = rng.randint(1, 30)
                push(line, number, ends[number], generation=generations[number], batches=size, value=LARGE)
                ends[number] += size
            elif what < 0.25:
                generations[number] = line.queue.reset(number, ends[number])
                expected[number] = ends[number]
            elif what < 0.35:
                paused[number] = not paused[number]
                line.queue.pause(number, paused[number])
            elif (found := read(line.reader)) is not None:
                partition, offsets = found
                assert not paused[partition]
                assert offsets == list(range(expected[partition], expected[partition] + len(offsets)))
                expected[partition] += len(offsets)
                assert line.queue.position(partition) == expected[partition]
            most = max(most, line.reader.ahead)
    for number in range(3):
        line.queue.pause(number, False)
    while (found := read(line.reader)) is not None:
        partition, offsets = found
        assert offsets[0] == expected[partition]
        expected[partition] += len(offsets)
    assert expected == ends
    assert most > 1
    line.native.stop()
