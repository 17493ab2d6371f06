"""`_fetch_buffer`: slices queue up for a reader, which decodes them to batches or to an Arrow stream."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.errors import KafkaError, ProtocolError
from kafwire.memory._buffer import Buffer, pool_bytes, pool_limit, trim_pool
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.runtime.interfaces import Waiter
from tests.support.deadlines import PATIENCE_S, ended
from tests.support.fetch_line import Line, batch, room


@pytest.fixture
def line() -> Iterator[Line]:
    it = Line()
    yield it
    it.queue.close()
    it.native.stop()


def rows(chunk: Any) -> list[tuple[Any, ...]]:
    return [(record.topic, record.partition, record.offset, record.value) for record in chunk]


def test_slices_come_out_in_order_with_their_names(line: Line) -> None:
    line.push(batch(0, b"a", b"b"), cursor=1, before=b"junk")
    line.push(batch(7, b"c"))
    line.queue.end()
    assert [rows(chunk) for chunk in line.reader] == [
        [("t", 1, 0, b"a"), ("t", 1, 1, b"b")],
        [("t", 0, 7, b"c")],
    ]
    assert line.closed == [True]
    assert next(line.reader, None) is None
    assert line.closed == [True]


def test_only_the_wanted_offsets_are_read(line: Line) -> None:
    line.push(batch(0, b"0", b"1", b"2"), batch(3, b"3", b"4"), start=1, end=4)
    line.queue.end()
    assert [record.value for chunk in line.reader for record in chunk] == [b"1", b"2", b"3"]


def test_a_slice_without_a_wanted_record_is_passed_over(line: Line) -> None:
    line.push(batch(0, b"0", b"1"), start=50)
    line.push(batch(60, b"60"), start=50)
    line.queue.end()
    assert [record.value for chunk in line.reader for record in chunk] == [b"60"]
    assert line.queue.queued_bytes() == 0


def test_aborted_transactions_are_left_out_in_whatever_order_they_are_listed(line: Line) -> None:
    producer: dict[str, Any] = {"transactional": True, "producer_epoch": 0, "base_sequence": 0}
    line.push(
        batch(0, b"aborted", producer_id=1, **producer),
        batch(1, b"kept", producer_id=2, **producer),
        batch(2, b"aborted too", producer_id=3, **producer),
        aborted=[(3, 2), (1, 0)],
    )
    line.queue.end()
    assert [record.value for chunk in line.reader for record in chunk] == [b"kept"]


def test_chunks_end_with_the_wire_batch_that_passes_chunk_bytes() -> None:
    line = Line(chunk_bytes=150)
    for base in (0, 10):
        line.push(*(batch(base + i, b"." * 100) for i in range(5)))
    line.queue.end()
    assert [len(chunk) for chunk in line.reader] == [2, 2, 1, 2, 2, 1]
    line.native.stop()


@pytest.mark.parametrize("size", [300, 5_000, 70_000])
def test_a_frame_counts_as_the_buffer_that_holds_it(line: Line, size: int) -> None:
    """Otherwise a consumer of frames that half fill their buffers holds twice its `fetch_memory`."""
    live = pool_bytes()[0]
    line.push(batch(0, bytes(size)))
    assert line.queue.queued_bytes() == pool_bytes()[0] - live >= size


def test_the_pool_keeps_the_memory_of_buffers() -> None:
    gc.collect()  # leftovers of other tests
    before = pool_limit()
    first, second = Line(), Line()
    first.queue.keep_idle(24 << 20)
    second.queue.keep_idle(8 << 20)
    assert pool_limit() == before + (32 << 20)
    first.queue.keep_idle(16 << 20)
    assert pool_limit() == before + (24 << 20)
    kept = [Buffer(bytes(1 << 20)) for _ in range((before >> 20) + 24)]
    trim_pool()
    kept.clear()
    assert pool_bytes()[1] == before + (24 << 20)
    second.queue.keep_idle(1 << 40)
    assert pool_limit() == 256 << 20
    for line in (first, second):
        line.queue.close()
        line.native.stop()
    first.queue.keep_idle(0)
    del line, second
    gc.collect()
    assert pool_limit() == before
    assert pool_bytes()[1] <= before


def test_bytes_count_until_their_slice_is_decoded(line: Line) -> None:
    first = line.push(batch(0, b"a"))
    second = line.push(batch(1, b"b"))
    assert line.queue.queued_bytes() == room(first) + room(second)
    next(line.reader)
    assert line.queue.queued_bytes() == room(second)
    next(line.reader)
    assert line.queue.queued_bytes() == 0


def test_the_engine_is_notified_once_when_it_waits_for_room(line: Line) -> None:
    for base in range(4):
        line.push(batch(base, b"v"))
    next(line.reader)
    assert not line.posted, "the engine does not wait"
    line.queue.queued_bytes(starved=True)
    line.queue.queued_bytes()
    next(line.reader)
    assert line.posted
    next(line.reader)
    assert not line.posted


def test_an_error_comes_after_queued_records(line: Line) -> None:
    line.push(batch(0, b"a"))
    line.queue.fail(KafkaError("the broker is gone"))
    line.queue.fail(KafkaError("a second error says less"))
    assert rows(next(line.reader)) == [("t", 0, 0, b"a")]
    with pytest.raises(KafkaError, match="the broker is gone"):
        next(line.reader)
    assert line.closed == [True]
    assert next(line.reader, None) is None


def test_rows_before_a_damaged_batch_come_first_and_the_error_names_the_place(line: Line) -> None:
    good, bad = batch(0, b"a"), bytearray(batch(1, b"b"))
    bad[-1] ^= 1
    line.push(good, bytes(bad), cursor=1)
    line.queue.end()
    assert rows(next(line.reader)) == [("t", 1, 0, b"a")]
    with pytest.raises(ProtocolError, match="t-1, batch at offset 1, from a broker: .*log is damaged") as caught:
        next(line.reader)
    assert caught.value.api == "FetchResponse"
    assert caught.value.offset is not None
    assert caught.value.offset >= len(good)


def test_checksums_can_be_left_unchecked() -> None:
    line = Line(verify_crc=False)
    bad = bytearray(batch(0, b"a"))
    bad[-2] ^= 1
    line.push(bytes(bad))
    line.queue.end()
    assert [len(chunk) for chunk in line.reader] == [1]
    line.native.stop()


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_slices_are_decoded_within_the_limit(compression: str) -> None:
    line = Line(max_decompressed=10_000)
    line.push(batch(0, b"." * 5_000, compression=compression), batch(1, b"." * 50_000, compression=compression))
    assert [record.value for record in next(line.reader)] == [b"." * 5_000]
    with pytest.raises(ProtocolError, match="t-0, batch at offset 1"):
        next(line.reader)
    line.native.stop()


@pytest.mark.parametrize(("position", "size"), [(0, 6), (6, 0), (2**64 - 1, 2)])
def test_a_slice_outside_its_frame_is_refused(line: Line, position: int, size: int) -> None:
    with pytest.raises(ValueError, match="outside its frame"):
        line.queue.push(Buffer(b"12345"), position, size, 0, 0, 1, [])


def test_closing_drops_everything_and_gives_the_frames_back(line: Line) -> None:
    live = pool_bytes()[0]
    for base in range(20):
        line.push(batch(base, b"." * 100_000))
    assert pool_bytes()[0] > live + 2_000_000
    line.reader.close()
    line.reader.close()
    assert pool_bytes()[0] <= live
    line.push(batch(0, b"late"))
    assert pool_bytes()[0] <= live
    assert next(line.reader, None) is None
    assert line.closed == [True]


def test_a_reader_that_waits_is_woken_by_a_slice_and_by_the_end(line: Line) -> None:
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.extend(rows(chunk) for chunk in line.reader))
    thread.start()
    line.push(batch(0, b"a"))
    line.queue.end()
    ended(thread)
    assert got == [[("t", 0, 0, b"a")]]


def test_a_reader_that_waits_is_woken_by_closing(line: Line) -> None:
    thread = threading.Thread(target=lambda: list(line.reader))
    thread.start()
    line.queue.close()
    ended(thread)


def test_an_arrow_stream_gives_the_same_rows(line: Line) -> None:
    line.push(batch(0, b"a", b"b"))
    line.push(batch(5, b"c"), cursor=1)
    line.queue.end()
    table = pa.table(Stream(line.reader))
    assert table["value"].to_pylist() == [b"a", b"b", b"c"]
    assert table["partition"].to_pylist() == [0, 0, 1]
    assert table["offset"].to_pylist() == [0, 1, 5]
    del table
    assert line.closed == [True]


def test_an_arrow_stream_fails_with_the_error_of_the_read(line: Line) -> None:
    line.push(batch(0, b"a"))
    line.queue.fail(KafkaError("the broker is gone"))
    stream = pa.RecordBatchReader.from_stream(Stream(line.reader))
    assert stream.read_next_batch().num_rows == 1
    with pytest.raises(OSError, match="the broker is gone"):
        stream.read_next_batch()
    stream.close()
    assert line.closed == [True]


def test_a_read_has_one_reader(line: Line) -> None:
    stream = Stream(line.reader).__arrow_c_stream__()
    with pytest.raises(KafkaError, match="one reader at a time"):
        next(line.reader)
    with pytest.raises(KafkaError, match="one reader at a time"):
        Stream(line.reader).__arrow_c_stream__()
    del stream
    assert line.closed == [True], "an unused stream closes with its capsule"


class Stream:
    """The stream interface that pyarrow asks for."""

    def __init__(self, reader: FetchReader) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._reader.stream_capsule()

    def __arrow_c_schema__(self) -> object:
        return self._reader.schema_capsule()


def test_the_error_of_a_batch_above_the_limit_says_how_to_read_it() -> None:
    line = Line(max_decompressed=10_000)
    line.push(batch(0, b"." * 50_000, compression="lz4"))
    with pytest.raises(ProtocolError, match="max_decompressed = 10000 bytes.*raise it to read on"):
        next(line.reader)
    line.native.stop()


def test_only_records_of_the_timestamps_asked_for_are_given() -> None:
    line = Line(timestamps=(20, 30))
    for base, times in ((0, (5, 19)), (2, (40, 20)), (4, (29, 30)), (6, (31, 32))):
        line.push(encode_batch([(None, b"%d" % t, t) for t in times], base_offset=base))
    line.queue.end()
    assert [record.value for chunk in line.reader for record in chunk] == [b"20", b"29"]
    assert line.queue.position(0) == 8
    line.native.stop()


def test_a_signal_handler_s_exception_ends_a_read_that_finds_nothing_for_long() -> None:
    """Slices are always there, so the read never waits; and no row ends the call that reads on without the GIL."""
    line = Line(timestamps=(1 << 40, 1 << 41), max_decompressed=1 << 24)
    # Both of the producer's times must be looked at: no header can pass the batch over.
    blob = encode_batch([(None, bytes(100), t) for t in (1 << 42, 1) * 20_000], compression="lz4")
    frame = Buffer(blob)
    for _ in range(3_000):
        line.queue.push(frame, 0, len(blob), 0, 0, 1 << 40, [])
    line.queue.seal()
    line.queue.end()

    def handler(number: int, frame: object) -> None:
        raise TimeoutError("enough")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeoutError, match="enough"):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            next(line.reader)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert line.reader.error is not None
    line.native.stop()


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(0, 0.0), (1, 0.001), (200, 0.2), (1_500, 1.5), (-1, None)])
def test_its_waiter_gets_the_longest_wait_of_a_read(timeout_ms: int, seconds: float | None) -> None:
    reported: list[float | None] = []

    class Noting(Waiter):
        def wait(self, attempt: Callable[[float | None], Any], timeout_s: float | None) -> Any:
            reported.append(timeout_s)
            return attempt(0)

    line = Line(waiter=Noting())
    assert line.reader.read(timeout_ms) is None
    assert reported == [seconds]
    line.native.stop()


def test_a_read_waits_as_long_as_it_may_and_no_longer(line: Line) -> None:
    begin = time.monotonic()
    assert line.reader.read(200) is None
    assert 0.19 <= time.monotonic() - begin < 10


def test_a_signal_handler_s_exception_ends_the_wait(line: Line) -> None:
    class Woken(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Woken

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(Woken):
            next(line.reader)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert line.closed == [True]


def test_a_reader_of_the_parent_says_so_in_a_child(line: Line) -> None:
    child = os.fork()
    if child == 0:
        try:
            next(line.reader)
        except KafkaError as error:
            os._exit(0 if "before a fork" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_rows_that_do_not_fit_their_columns_are_an_error_of_the_stream() -> None:
    line = Line(0)
    line.queue.add("t", 0, Layout("t", 0, timestamp_unit="us"))
    late = batch(0, b"v")
    reader = FetchReader(
        line.queue,
        Layout(timestamp_unit="us"),
        chunk_bytes=1 << 20,
        max_decompressed=1 << 20,
        verify_crc=True,
        on_close=None,
    )
    line.push(encode_batch([(None, b"v", 1 << 62)]), late)
    line.queue.end()
    with pytest.raises((OSError, pa.ArrowInvalid), match="t-0, offsets 0 to 0, do not fit.*microseconds"):
        pa.RecordBatchReader._import_from_c_capsule(reader.stream_capsule()).read_all()
    line.native.stop()


def test_records_read_up_to_a_damaged_slice_count_as_processed(line: Line) -> None:
    bad = bytearray(batch(2, b"c"))
    bad[-1] ^= 1
    line.push(batch(0, b"a", b"b"))
    line.push(bytes(bad), start=2)
    assert [record.value for record in line.reader.read(0) or ()] == [b"a", b"b"]
    line.reader.settle()
    assert line.queue.position(0) == 2
    assert line.queue.processed(0) == 2


def test_rows_before_a_batch_whose_codec_is_not_there_come_first() -> None:
    """The test runs in a process of its own, where the codec was not used before."""
    program = """
        import sys
        import kafwire.records._compress
        from tests.support.fetch_line import Line

        def refuse(codec):
            raise OSError("no library")

        kafwire.records._compress._resolve = refuse
        line = Line()
        line.push(bytes.fromhex(sys.argv[1]))
        assert [record.value for record in line.reader.read(0)] == [b"a"]
        for _ in range(2):
            try:
                line.reader.read(0)
            except OSError as error:
                assert str(error) == "no library"
            else:
                raise AssertionError("it was read")
        line.reader.settle()
        assert line.queue.processed(0) == 1
    """
    blob = batch(0, b"a") + batch(1, b"b" * 100, compression="lz4")
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), blob.hex()], check=True, timeout=60)


def test_a_wait_ends_in_time_though_slices_without_rows_keep_coming(line: Line) -> None:
    def flow() -> None:
        offset = 0
        while not over.is_set():
            line.push(batch(offset, b"v"), start=offset, end=0)
            offset += 1
            over.wait(0.001)

    over = threading.Event()
    thread = threading.Thread(target=flow)
    thread.start()
    try:
        for timeout_ms in (0, 50):
            begin = time.monotonic()
            assert line.reader.read(timeout_ms) is None
            assert time.monotonic() - begin < PATIENCE_S / 2  # and not as long as they come
        assert not line.reader.ended
    finally:
        over.set()
        ended(thread)


def test_a_child_hands_out_nothing_of_its_parent_s(line: Line) -> None:
    line.push(batch(0, b"a"))
    child = os.fork()
    if child == 0:
        line.reader.settle()
        try:
            line.reader.read(0)
        except KafkaError as error:
            line.reader.close()
            os._exit(0 if "before a fork" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert [record.value for record in line.reader.read(0) or ()] == [b"a"]


def test_a_stream_ends_with_rows_that_it_could_not_hand_out() -> None:
    line = Line(0)
    line.queue.add("t", 0, Layout("t", 0, timestamp_unit="us"))
    reader = FetchReader(
        line.queue, Layout(timestamp_unit="us"), chunk_bytes=1, max_decompressed=1 << 20, verify_crc=True
    )
    line.push(encode_batch([(None, b"v", 1 << 62)]))
    line.push(batch(1, b"w"), start=1)
    stream = pa.RecordBatchReader._import_from_c_capsule(reader.stream_capsule())
    with pytest.raises((OSError, pa.ArrowInvalid), match="t-0, offsets 0 to 0, do not fit.*microseconds"):
        stream.read_next_batch()
    with pytest.raises(StopIteration):
        stream.read_next_batch()
    line.native.stop()
