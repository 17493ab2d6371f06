"""aiokafka: `getmany()` with values touched, `send()` record by record, each on a loop of its own.

wait: `send_and_wait()`, one record after the other.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from benchmarks.payload import split_pool
from benchmarks.rows import BATCH_BYTES, LINGER_MS
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.waits import await_each

AT_ONCE = 10_000

aiokafka: Any = import_module("aiokafka")  # it has no types


def consume(options: Options) -> Callable[[], Pass]:
    """Read `records` records."""
    topic, expected = options.text("topic"), options.number("records")

    async def once() -> Pass:
        clock = Stopwatch()
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=options.text("bootstrap"), enable_auto_commit=False, max_partition_fetch_bytes=8 << 20
        )
        await consumer.start()
        partitions = [aiokafka.TopicPartition(topic, number) for number in range(options.number("partitions"))]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        records = size = 0
        while records < expected:
            for messages in (await consumer.getmany(timeout_ms=30_000, max_records=AT_ONCE)).values():
                for message in messages:
                    size += len(message.value)
                records += len(messages)
        seconds = clock.seconds()
        await consumer.stop()
        return Pass(seconds, records, size)

    return lambda: asyncio.run(once())


def produce(options: Options) -> Callable[[], Pass]:
    """Write `records` records one by one."""
    topic, expected = options.text("topic"), options.number("records")
    values = split_pool(Path(options.text("payload")).read_bytes(), options.number("value_bytes"))
    codec = options.configuration()["compression_type"]

    async def once() -> Pass:
        clock = Stopwatch()
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=options.text("bootstrap"),
            acks="all",
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            compression_type=None if codec == "none" else codec,
        )
        await producer.start()
        records = 0
        while records < expected:
            for value in values[: expected - records]:
                await producer.send(topic, value)
                records += 1
        await producer.flush()
        seconds = clock.seconds()
        await producer.stop()
        return Pass(seconds, records, records * options.number("value_bytes"))

    return lambda: asyncio.run(once())


def wait(options: Options) -> Callable[[], Pass]:
    """Write records one by one, each when the one before it is acknowledged."""
    topic = options.text("topic")

    async def once() -> Pass:
        idempotent = options.text("idempotent") == "true"
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=options.text("bootstrap"), acks="all", enable_idempotence=idempotent, linger_ms=0
        )
        await producer.start()
        try:
            return await await_each(options, lambda value: producer.send_and_wait(topic, value))
        finally:
            await producer.stop()

    return lambda: asyncio.run(once())


if __name__ == "__main__":
    work({"consume": consume, "produce": produce, "wait": wait}, metadata.version("aiokafka"))
