"""kafka-python, for context: `poll()` with values touched, `send()` record by record."""

from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.payload import split_pool
from benchmarks.rows import BATCH_BYTES, LINGER_MS
from benchmarks.workers.common import Options, Pass, Stopwatch, work

AT_ONCE = 10_000

kafka: Any = import_module("kafka")  # it has no types


def consume(options: Options) -> Callable[[], Pass]:
    """Read `records` records."""
    topic, expected = options.text("topic"), options.number("records")

    def once() -> Pass:
        clock = Stopwatch()
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=options.text("bootstrap"), enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
        )
        partitions = [kafka.TopicPartition(topic, number) for number in range(options.number("partitions"))]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        records = size = 0
        while records < expected:
            for messages in consumer.poll(timeout_ms=30_000, max_records=AT_ONCE).values():
                for message in messages:
                    size += len(message.value)
                records += len(messages)
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, records, size)

    return once


def produce(options: Options) -> Callable[[], Pass]:
    """Write `records` records one by one."""
    topic, expected = options.text("topic"), options.number("records")
    values = split_pool(Path(options.text("payload")).read_bytes(), options.number("value_bytes"))
    codec = options.configuration()["compression_type"]

    def once() -> Pass:
        clock = Stopwatch()
        producer = kafka.KafkaProducer(
            bootstrap_servers=options.text("bootstrap"),
            acks="all",
            linger_ms=LINGER_MS,
            batch_size=BATCH_BYTES,
            compression_type=None if codec == "none" else codec,
        )
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


if __name__ == "__main__":
    work({"consume": consume, "produce": produce}, metadata.version("kafka-python"))
