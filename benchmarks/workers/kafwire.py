"""kafwire: `scan()` as an Arrow stream, `Producer.send_batch` from Arrow, `Producer.send` one by one.

wait: `send(...).result()`, one record after the other. pressure, pressure_batch: `send` and `send_batch` while the
broker stands still.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.payload import split_pool
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.pressure import keep_sending
from benchmarks.workers.waits import wait_for_each
from kafwire import Producer, __version__
from kafwire import scan as kafwire_scan
from kafwire.errors import KafkaTimeoutError

ROWS_AT_ONCE = 100_000
PRESSED_ROWS = 10_000


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


def wait(options: Options) -> Callable[[], Pass]:
    """Write records one by one, each when the one before it is acknowledged."""
    topic = options.text("topic")

    def once() -> Pass:
        with _producer(options) as producer:
            return wait_for_each(options, lambda value: producer.send(topic, value).result())

    return once


def pressure(options: Options) -> Callable[[], Pass]:
    """Send record by record while the broker stands still."""
    values = _values(options)
    return _under_pressure(
        options, lambda producer, number: _send_one(options, producer, values[number % len(values)]), unsure=0
    )


def pressure_batch(options: Options) -> Callable[[], Pass]:
    """Send Arrow record batches while the broker stands still."""
    values = pa.array(_values(options), pa.binary())
    batches = [
        pa.record_batch([values.slice(at, PRESSED_ROWS)], ["value"]) for at in range(0, len(values), PRESSED_ROWS)
    ]
    return _under_pressure(
        options, lambda producer, number: _send_rows(options, producer, batches[number % len(batches)]), PRESSED_ROWS
    )


def _send_one(options: Options, producer: Producer, value: bytes) -> int:
    try:
        producer.send(options.text("topic"), value)
    except KafkaTimeoutError:
        return 0
    return 1


def _send_rows(options: Options, producer: Producer, batch: pa.RecordBatch) -> int:
    try:
        return len(producer.send_batch(options.text("topic"), batch))
    except KafkaTimeoutError:
        return 0


def _under_pressure(options: Options, send: Callable[[Producer, int], int], unsure: int) -> Callable[[], Pass]:
    """A call that is refused may have sent up to `unsure` records before."""

    def once() -> Pass:
        clock = Stopwatch()
        producer = _producer(options)
        while not _send_one(options, producer, b"first"):
            continue
        producer.flush()
        number = 0

        def send_next() -> int:
            nonlocal number
            number += 1
            return send(producer, number)

        taken, refused = keep_sending(options, send_next)
        producer.flush()
        seconds = clock.seconds()
        producer.close()
        figures = {"refused": refused, "unsure": unsure * refused}
        return Pass(seconds, 1 + taken, taken * options.number("value_bytes"), figures=figures)

    return once


def _producer(options: Options) -> Producer:
    numbers = {name: int(value) for name, value in options.configuration().items() if value.isdigit()}
    return Producer(options.text("bootstrap"), **{**options.keywords(), **numbers})


def _values(options: Options) -> list[bytes]:
    return split_pool(Path(options.text("payload")).read_bytes(), options.number("value_bytes"))


def value_bytes(column: pa.Array) -> int:
    """Bytes of all values, from Arrow's offsets: first and last say it, and no value becomes a Python object."""
    starts = column.buffers()[1]
    ends = memoryview(starts).cast("i")
    return int(ends[column.offset + len(column)] - ends[column.offset])


if __name__ == "__main__":
    tasks = {
        "scan": scan,
        "send_batch": send_batch,
        "send": send,
        "wait": wait,
        "pressure": pressure,
        "pressure_batch": pressure_batch,
    }
    work(tasks, __version__)
