"""kafwire: `scan()` as an Arrow stream, `Producer.send_batch` from Arrow, `Producer.send` one by one."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.payload import split_pool
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from kafwire import Producer, __version__
from kafwire import scan as kafwire_scan

ROWS_AT_ONCE = 100_000


def scan(options: Options) -> Callable[[], Pass]:
    """Read the topic to its end, batch by batch."""
    bootstrap, topic = options.text("bootstrap"), options.text("topic")

    def once() -> Pass:
        clock = Stopwatch()
        stream = kafwire_scan(bootstrap, topic)
        records = size = 0
        for batch in pa.RecordBatchReader.from_stream(stream):
            records += batch.num_rows
            size += value_bytes(batch.column("value"))
        seconds = clock.seconds()
        stream.close()
        return Pass(seconds, records, size)

    return once


def send_batch(options: Options) -> Callable[[], Pass]:
    """Write `records` records from Arrow record batches."""
    topic, expected = options.text("topic"), options.number("records")
    values = pa.array(_values(options), pa.binary())
    batches = [
        pa.record_batch([values.slice(at, ROWS_AT_ONCE)], ["value"]) for at in range(0, len(values), ROWS_AT_ONCE)
    ]

    def once() -> Pass:
        clock = Stopwatch()
        producer = _producer(options)
        records, deliveries = 0, []
        while records < expected:
            for batch in batches:
                part = batch.slice(0, expected - records)
                if not part.num_rows:
                    break
                deliveries.append(producer.send_batch(topic, part))
                records += part.num_rows
        producer.flush()
        for delivery in deliveries:
            delivery.result()
        seconds = clock.seconds()
        producer.close()
        return Pass(seconds, records, records * options.number("value_bytes"))

    return once


def send(options: Options) -> Callable[[], Pass]:
    """Write `records` records one by one."""
    topic, expected = options.text("topic"), options.number("records")
    values = _values(options)

    def once() -> Pass:
        clock = Stopwatch()
        producer = _producer(options)
        records = 0
        while records < expected:
            for value in values[: expected - records]:
                producer.send(topic, value)
                records += 1
        producer.flush()
        seconds = clock.seconds()
        producer.close()
        return Pass(seconds, records, records * options.number("value_bytes"))

    return once


def _producer(options: Options) -> Producer:
    chosen = options.configuration()
    return Producer(
        options.text("bootstrap"),
        linger_ms=int(chosen["linger_ms"]),
        batch_size=int(chosen["batch_size"]),
        compression_type=chosen["compression_type"],
    )


def _values(options: Options) -> list[bytes]:
    return split_pool(Path(options.text("payload")).read_bytes(), options.number("value_bytes"))


def value_bytes(column: pa.Array) -> int:
    """Bytes of all values, from Arrow's offsets: first and last say it, and no value becomes a Python object."""
    starts = column.buffers()[1]
    ends = memoryview(starts).cast("i")
    return int(ends[column.offset + len(column)] - ends[column.offset])


if __name__ == "__main__":
    work({"scan": scan, "send_batch": send_batch, "send": send}, __version__)
