"""kafwire's `Consumer`: to Arrow batch by batch, or record by record, on all partitions of a topic without a group."""

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.delays import Delays
from kafwire import Consumer, __version__

WAIT_SECONDS = 30.0


def arrow(options: Options) -> Callable[[], Pass]:
    """Read `records` records, every batch to Arrow, every value touched; `dwell_ms` after each batch."""
    expected = options.number("records")
    dwell = float(options.given.get("dwell_ms", "0")) / 1000
    look = _look(options)

    def once() -> Pass:
        clock = Stopwatch()
        consumer = _consumer(options)
        records = size = checksum = 0
        for batch in consumer.batches(timeout=WAIT_SECONDS):
            table = batch.to_arrow()
            more, last_bytes = look(table.column("value"))
            records += table.num_rows
            size += more
            checksum += last_bytes
            if records >= expected:
                break
            if dwell:
                time.sleep(dwell)
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, records, size, checksum if look is touch else None)

    return once


def stream(options: Options) -> Callable[[], Pass]:
    """The same from `arrow_stream()`, which decodes where pyarrow asks for more, without the GIL."""
    expected = options.number("records")
    look = _look(options)

    def once() -> Pass:
        clock = Stopwatch()
        consumer = _consumer(options)
        records = size = checksum = 0
        for table in pa.RecordBatchReader.from_stream(consumer.arrow_stream(timeout=WAIT_SECONDS)):
            more, last_bytes = look(table.column("value"))
            records += table.num_rows
            size += more
            checksum += last_bytes
            if records >= expected:
                break
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, records, size, checksum if look is touch else None)

    return once


def records(options: Options) -> Callable[[], Pass]:
    """Read `records` records one by one, keys and values."""
    expected = options.number("records")

    def once() -> Pass:
        clock = Stopwatch()
        consumer = _consumer(options)
        count = size = 0
        for record in consumer:
            record.key  # noqa: B018 - reading it is the measured work
            value = record.value
            size += len(value or b"")
            count += 1
            if count == expected:
                break
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, count, size)

    return once


def records_of_batches(options: Options) -> Callable[[], Pass]:
    """The same through the batches, as a program that commits by batches does."""
    expected = options.number("records")

    def once() -> Pass:
        clock = Stopwatch()
        consumer = _consumer(options)
        count = size = 0
        for batch in consumer.batches(timeout=WAIT_SECONDS):
            for record in batch:
                record.key  # noqa: B018 - reading it is the measured work
                value = record.value
                size += len(value or b"")
                count += 1
            if count >= expected:
                break
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, count, size)

    return once


def latency(options: Options) -> Callable[[], Pass]:
    """Read records as they are produced."""

    def once() -> Pass:
        with _consumer(options) as consumer, Delays(options) as delays:
            for record in consumer:
                delays.add(record.value or b"")
                if delays.done:
                    break
            return delays.as_pass()

    return once


def touch(column: pa.Array) -> tuple[int, int]:
    """Bytes of all values and the sum of their last bytes, as the C programs make it; they are all of one size."""
    starts = np.frombuffer(column.buffers()[1], np.int32)
    first, end = int(starts[column.offset]), int(starts[column.offset + len(column)])
    size = (end - first) // max(len(column), 1)
    if not size:
        return 0, 0
    values = np.frombuffer(column.buffers()[2], np.uint8)
    return end - first, int(values[first + size - 1 : end : size].sum(dtype=np.uint64))


def count(column: pa.Array) -> tuple[int, int]:
    """Bytes of all values, by the first and last of Arrow's offsets."""
    starts = memoryview(column.buffers()[1]).cast("i")
    return int(starts[column.offset + len(column)] - starts[column.offset]), 0


def _look(options: Options) -> Callable[[pa.Array], tuple[int, int]]:
    """`touch` unless the row asks to `count`: numpy gives the GIL away for its sum, and beside a thread that computes
    it waits 5 ms to get it back. That is not the consumer's doing.
    """
    return count if options.given.get("touch") == "count" else touch


def _consumer(options: Options) -> Consumer:
    return Consumer(options.text("bootstrap"), topics=options.text("topic"), start="earliest", **options.keywords())


if __name__ == "__main__":
    tasks = {
        "arrow": arrow,
        "stream": stream,
        "records": records,
        "records_of_batches": records_of_batches,
        "latency": latency,
    }
    work(tasks, __version__)
