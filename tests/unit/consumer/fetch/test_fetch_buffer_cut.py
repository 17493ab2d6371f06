"""`FetchBuffer.cut`: slices queued from an offset on are dropped, during any call of a reader."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.runtime._io import Loop
from tests.support import seeds
from tests.support.deadlines import ended


class Line:
    def __init__(self) -> None:
        self.native = Loop()
        self.queue = FetchBuffer(self.native.notifier(1))
        self.queue.add("t", 0, Layout("t", 0))
        self.generation = self.queue.reset(0, 0)
        self.reader = FetchReader(
            self.queue, Layout(), chunk_bytes=1, max_decompressed=1 << 20, verify_crc=True, owns=False
        )

    def push(self, start: int, *batches: int, value: bytes = b"old", asked: int | None = None) -> int:
        """One slice of batches with so many records each; the offset after it."""
        blob, at = b"", start
        for count in batches:
            blob += encode_batch([value] * count, base_offset=at)
            at += count
        begin = start if asked is None else asked
        self.queue.push(Buffer(blob), 0, len(blob), 0, begin, 1 << 62, [], self.generation)
        self.queue.seal()
        return at

    def read(self, wait_ms: int = 0) -> list[int] | None:
        batch = self.reader.read(wait_ms)
        return None if batch is None else [record.offset for record in batch]

    def rest(self) -> list[int]:
        found: list[int] = []
        while (some := self.read()) is not None:
            found += some
        return found


@pytest.fixture
def line() -> Iterator[Line]:
    it = Line()
    yield it
    it.queue.close()
    it.native.stop()


@pytest.mark.parametrize("cut", range(13))
def test_a_cut_drops_the_records_from_there_on(line: Line, cut: int) -> None:
    line.push(0, 2, 3)
    line.push(5, 1)
    line.push(6, 3, 3)
    line.queue.cut(0, cut)
    assert line.rest() == list(range(min(cut, 12)))


@pytest.mark.parametrize("cut", range(1, 10))
def test_a_slice_that_is_read_in_part_is_cut_too(line: Line, cut: int) -> None:
    line.push(0, 3, 3, 3)
    assert line.read() == [0, 1, 2]
    line.queue.cut(0, cut)
    assert line.rest() == list(range(3, max(3, cut)))


def test_reading_goes_on_with_records_fetched_after_the_cut(line: Line) -> None:
    line.push(0, 4, 4)
    line.queue.cut(0, 6)
    line.push(6, 2, 2, value=b"new")
    assert line.rest() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert line.queue.position(0) == 10
    line.push(9, 3, asked=10)
    assert line.rest() == [10, 11]


def test_the_position_goes_back_with_the_log(line: Line) -> None:
    line.push(0, 3, 3, 3)
    line.read()
    line.queue.cut(0, 1)
    line.push(1, 1, value=b"new")
    assert line.rest() == [1]
    assert line.queue.position(0) == 2


@pytest.mark.parametrize(
    ("read", "cut", "position"), [(0, 7, 0), (2, 7, 7), (2, 3, 3), (2, 40, 40), (1, 3, 3), (1, 20, 3)]
)
def test_the_position_is_where_reading_goes_on(line: Line, read: int, cut: int, position: int) -> None:
    line.push(0, 3, 3)
    for _ in range(read):
        line.read()
    line.queue.cut(0, cut)
    assert line.queue.position(0) == position
    line.rest()
    assert line.queue.position(0) == cut
    line.queue.settle()
    assert line.queue.processed(0) == cut


def test_a_cut_puts_nothing_in_hand(line: Line) -> None:
    line.push(0, 1)
    line.queue.cut(0, line.queue.position(0))
    assert not line.queue.in_hand(0)


def test_records_after_a_cut_are_no_jump(line: Line) -> None:
    line.push(0, 3)
    line.queue.cut(0, 20)
    line.push(30, 2)
    line.rest()
    assert line.queue.position(0) == 32


def test_a_cut_gives_bytes_back_and_mends(line: Line) -> None:
    line.push(0, 3)
    line.queue.fail_place(0, line.generation, KafkaError("failed"))
    line.queue.cut(0, 0)
    assert line.queue.queued(0) == (0, 0)
    assert line.queue.queued_bytes() == 0
    assert line.read() is None
    assert line.queue.place(0).error is None


@pytest.mark.parametrize("cut", [0, 1, 3, 5])
def test_a_slice_that_is_being_read_is_cut_at_its_next_batch(line: Line, cut: int) -> None:
    large = encode_batch([b"\0" * (60 << 20)], compression="gzip")  # takes its time
    blob = large + encode_batch([b"old"] * 2, base_offset=1) + encode_batch([b"old"] * 2, base_offset=3)
    line.queue.push(Buffer(blob), 0, len(blob), 0, 0, 1 << 62, [], line.generation)
    line.queue.seal()
    reader = FetchReader(line.queue, Layout(), chunk_bytes=1, max_decompressed=1 << 30, verify_crc=True, owns=False)
    thread = threading.Thread(target=reader.read, args=(10_000,))
    thread.start()
    while line.queue.queued(0) == (1, len(blob)):
        pass
    assert line.queue.queued(0) == (1, 0)  # in the reader's hands
    line.queue.cut(0, cut)
    line.push(cut, 1, value=b"new")
    ended(thread)
    assert line.rest() == [*range(1, cut), cut]
    assert line.queue.position(0) == cut + 1


@seeds.several(30)
def test_cuts_while_a_reader_decodes(line: Line, seed: int) -> None:
    """Each queued record comes once and in order; after a cut, again from there on, and nothing older."""
    chance = random.Random(seed)
    got: list[tuple[int, bytes | None]] = []
    failed: list[BaseException] = []
    over = threading.Event()

    def read() -> None:
        try:
            while not over.is_set() or line.queue.queued(0)[0]:
                batch = line.reader.read(1)
                if batch is not None:
                    got.extend((record.offset, record.value) for record in batch)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    end, cuts = 0, [0]
    for number in range(40):
        for _ in range(chance.randint(1, 3)):
            end = line.push(end, *[chance.randint(1, 40) for _ in range(chance.randint(1, 5))], value=b"%d" % number)
        for _ in range(chance.randint(0, 3000)):
            pass
        end = chance.randint(cuts[-1], end)
        cuts.append(end)
        line.queue.cut(0, end)
    line.push(end, 5, value=b"end")
    over.set()
    ended(thread)
    assert not failed
    expected, term = 0, b"0"
    for offset, value in got:
        assert value is not None
        if value != term:
            # Records that were cut from this one's end on may have been delivered before: then it begins below.
            begins = cuts[int(term) + 1 : 41 if value == b"end" else int(value) + 1]
            assert offset in {min(expected, *begins), begins[-1]} or offset == expected
            term = value
        else:
            assert offset == expected
        expected = offset + 1
    assert [value for _, value in got[-5:]] == [b"end"] * 5
    assert line.queue.queued_bytes() == 0
