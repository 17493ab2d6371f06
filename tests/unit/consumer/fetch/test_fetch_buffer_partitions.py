"""`FetchBuffer`, place by place: each partition may be passed over, claimed, sought in or failed without any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.records._arrow import Layout
from tests.support.fetch_line import Line, batch, room


@pytest.fixture
def line() -> Iterator[Line]:
    it = Line(4, chunk_bytes=1, owns=False)
    yield it
    it.queue.close()
    it.native.stop()


def own(line: Line, number: int) -> FetchReader:
    """A reader of one partition, which it claims."""
    line.queue.claim(number)
    return FetchReader(
        line.queue, Layout("t", 0), chunk_bytes=1, max_decompressed=1 << 20, verify_crc=True, only=number, owns=False
    )


def read(reader: FetchReader) -> Any:
    """(partition, offsets) of the next batch, or None."""
    found = reader.read(0)
    return None if found is None else (found.partition, [record.offset for record in found])


def push(line: Line, number: int, base: int, count: int = 1, generation: int = 0, *, junk: int = 0) -> int:
    """A frame with one batch; its size."""
    blob = batch(base, *(b"v" for _ in range(count)))
    frame = Buffer(blob + bytes(junk))
    line.queue.push(frame, 0, len(blob), number, base, 1 << 40, [], generation)
    line.queue.seal()
    return len(frame)


def test_partitions_take_turns(line: Line) -> None:
    for base in range(3):
        push(line, 1, base)
    push(line, 2, 0)
    push(line, 3, 0)
    assert [read(line.reader) for _ in range(6)] == [(1, [0]), (2, [0]), (3, [0]), (1, [1]), (1, [2]), None]


def test_a_paused_partition_is_passed_over_and_keeps_its_records(line: Line) -> None:
    push(line, 0, 0)
    push(line, 1, 0)
    line.queue.pause(0)
    assert [read(line.reader) for _ in range(2)] == [(1, [0]), None]
    push(line, 0, 1)
    assert read(line.reader) is None
    assert line.queue.ready() is None
    assert line.queue.queued(0)[0] == 2
    line.queue.pause(0, False)
    assert line.queue.ready()
    assert [read(line.reader) for _ in range(3)] == [(0, [0]), (0, [1]), None]


def test_only_its_reader_gets_a_claimed_partition(line: Line) -> None:
    push(line, 0, 0)
    push(line, 1, 0)
    reader = own(line, 0)
    push(line, 0, 1)
    assert [read(line.reader) for _ in range(2)] == [(1, [0]), None]
    assert read(reader) == (0, [0])
    line.queue.claim(0, False)
    assert read(line.reader) == (0, [1])
    assert read(reader) is None


def test_a_seek_drops_queued_slices_and_those_on_their_way(line: Line) -> None:
    push(line, 0, 0)
    push(line, 1, 0)
    generation = line.queue.reset(0, 7)
    push(line, 0, 1)
    assert line.queue.queued(0) == (0, 0)
    push(line, 0, 7, generation=generation)
    assert line.queue.position(0) == line.queue.processed(0) == 7
    assert sorted([read(line.reader), read(line.reader)]) == [(0, [7]), (1, [0])]
    assert line.queue.queued_bytes() == 0
    assert line.queue.reset(0, 9) == generation + 1


def test_the_rest_of_a_slice_comes_before_later_slices(line: Line) -> None:
    blob = batch(0, b"a") + batch(1, b"b")
    line.queue.push(Buffer(blob), 0, len(blob), 0, 0, 1 << 40, [])
    line.queue.seal()
    push(line, 0, 2)
    assert read(line.reader) == (0, [0])
    assert line.queue.queued(0) == (2, len(batch(1, b"b")) + len(batch(2, b"v")))
    assert line.queue.position(0) == 1
    assert [read(line.reader) for _ in range(3)] == [(0, [1]), (0, [2]), None]
    assert line.queue.queued_bytes() == 0


def test_slices_that_go_on_make_one_chunk() -> None:
    line = Line(2)
    push(line, 0, 0, 2)
    push(line, 0, 2)
    push(line, 1, 0)
    push(line, 0, 9)
    assert [read(line.reader) for _ in range(4)] == [(0, [0, 1, 2]), (1, [0]), (0, [9]), None]
    assert line.queue.queued_bytes() == 0
    line.native.stop()


def test_records_that_are_cut_off_are_not_read_and_reading_goes_on_there(line: Line) -> None:
    for base in (0, 3, 6):
        push(line, 0, base, 3)
    line.queue.cut(0, 4)
    assert line.queue.queued(0)[0] == 2
    push(line, 0, 4, 2)
    assert [read(line.reader) for _ in range(4)] == [(0, [0, 1, 2]), (0, [3]), (0, [4, 5]), None]
    assert line.queue.position(0) == 6


def test_a_cut_where_nothing_is_left_moves_the_reader(line: Line) -> None:
    push(line, 0, 5)
    line.queue.cut(0, 2)
    assert read(line.reader) is None
    assert line.queue.position(0) == 2
    line.queue.cut(0, 50)
    assert line.queue.position(0) == 50
    line.queue.settle()
    assert line.queue.processed(0) == 50


def test_records_count_as_processed_with_the_next_read(line: Line) -> None:
    reader = own(line, 0)
    push(line, 0, 0, 3)
    push(line, 1, 0, 2)
    assert read(reader) == (0, [0, 1, 2])
    assert read(line.reader) == (1, [0, 1])
    assert (line.queue.processed(0), line.queue.processed(1)) == (-1, -1)
    line.queue.settle()
    assert (line.queue.processed(0), line.queue.processed(1)) == (-1, 2)
    reader.settle()
    assert line.queue.processed(0) == 3
    line.queue.process(0, 1)
    reader.settle()
    assert line.queue.processed(0) == 1, "nothing was read since it was set by hand"


def test_of_a_watched_partition_the_next_release_is_reported_once(line: Line) -> None:
    for number in (0, 1, 2):
        push(line, number, 0)
        push(line, number, 1)
    line.queue.queued(1, watch=True)
    line.queue.queued(2, watch=True)
    assert read(line.reader) == (0, [0])
    assert not line.posted
    assert [read(line.reader), read(line.reader)] == [(1, [0]), (2, [0])]
    assert line.posted
    assert sorted(line.queue.noticed()) == [1, 2]
    assert line.queue.noticed() == []
    while read(line.reader):
        pass
    assert line.queue.noticed() == []
    assert not line.posted


def test_compacting_lets_go_of_frames_of_which_little_is_left(line: Line) -> None:
    large = push(line, 0, 0, junk=100_000)
    small = push(line, 1, 0)
    assert line.queue.queued_bytes() == room(large) + room(small)
    line.queue.compact()
    assert line.queue.queued_bytes() == 2 * room(small)
    assert [read(line.reader), read(line.reader)] == [(0, [0]), (1, [0])]
    assert line.queue.queued_bytes() == 0


def test_a_failed_partition_fails_again_and_again_while_others_have_turns(line: Line) -> None:
    push(line, 0, 0)
    line.queue.fail_place(0, 1, KafkaError("of another generation"))
    line.queue.fail_place(0, 0, KafkaError("it is broken"))
    assert read(line.reader) == (0, [0])
    push(line, 1, 0)
    push(line, 1, 1)
    seen = []
    for _ in range(6):
        try:
            seen.append(read(line.reader))
        except KafkaError as error:
            seen.append(str(error))
    broken = "it is broken"
    assert seen == [broken, (1, [0]), broken, (1, [1]), broken, broken]
    assert line.queue.ready() == 0
    line.queue.reset(0, 0)
    assert read(line.reader) is None
    assert line.queue.ready() is None


def test_ready_names_the_size_of_the_next_slice(line: Line) -> None:
    assert line.queue.ready() is None
    push(line, 1, 0)
    assert line.queue.ready() == line.queue.ready(1) == len(batch(0, b"v"))
    assert line.queue.ready(0) is None
    line.queue.end()
    assert line.queue.ready(0) == 0
    with pytest.raises(IndexError, match="no partition has the number 9"):
        line.queue.ready(9)


def test_a_frame_is_charged_once_however_many_slices_it_has(line: Line) -> None:
    blob = batch(0, b"v")
    frame = Buffer(blob * 3)
    for number in range(3):
        line.queue.push(frame, number * len(blob), len(blob), number, 0, 1 << 40, [])
    line.queue.seal()
    for left in (True, True, False):
        assert line.queue.queued_bytes() == room(len(frame))
        assert read(line.reader)
        assert bool(line.queue.queued_bytes()) == left


def test_a_partition_without_a_seek_or_a_read_has_no_processed_offset(line: Line) -> None:
    assert (line.queue.position(2), line.queue.processed(2)) == (-1, -1)
    line.queue.settle()
    assert line.queue.processed(2) == -1
    line.queue.reset(2, 7)
    assert (line.queue.position(2), line.queue.processed(2)) == (7, 7)


def test_a_damaged_batch_moves_no_position_back(line: Line) -> None:
    bad = bytearray(batch(2, b"c"))
    bad[-1] ^= 1
    blob = batch(0, b"a", b"b") + bytes(bad)
    line.queue.push(Buffer(blob), 0, len(blob), 0, 0, 1 << 40, [])
    line.queue.seal()
    assert read(line.reader) == (0, [0, 1])
    line.reader.settle()
    for _ in range(3):
        with pytest.raises(KafkaError, match="batch at offset 2"):
            read(line.reader)
        line.reader.settle()
        assert (line.queue.position(0), line.queue.processed(0)) == (2, 2)


def test_errors_keep_no_trace_of_earlier_reads(line: Line) -> None:
    line.queue.fail_place(0, 0, KafkaError("it is broken"))
    depths = []
    for _ in range(3):
        with pytest.raises(KafkaError) as raised:
            read(line.reader)
        depths.append(len(raised.traceback))
    assert len(set(depths)) == 1


def test_the_rest_of_a_slice_wakes_an_engine_that_found_the_queue_empty(line: Line) -> None:
    """One reader has the slice in hand when another asks."""
    blob = batch(0, b"a") + batch(1, b"b")
    line.queue.push(Buffer(blob), 0, len(blob), 0, 0, 1 << 40, [])
    line.queue.seal()
    assert read(line.reader) == (0, [0])
    assert not line.posted, "the engine did not ask"
    assert line.queue.ready(1) is None
    assert read(line.reader) == (0, [1])
    assert not line.posted, "nothing is left"
    push(line, 0, 2)
    push(line, 0, 3)
    assert read(line.reader) == (0, [2])
    assert line.posted
    assert read(line.reader) == (0, [3])
    assert not line.posted
