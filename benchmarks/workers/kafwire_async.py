"""kafwire's `AsyncConsumer` on a loop of the user's: to Arrow batch by batch, or record by record; and `AsyncProducer`.

wait: `await send()`, then its delivery, one record after the other.
"""

import asyncio
from collections.abc import Callable

from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.delays import Delays
from benchmarks.workers.kafwire_consumer import WAIT_SECONDS, touch
from benchmarks.workers.waits import await_each
from kafwire import AsyncConsumer, AsyncProducer, __version__


def arrow(options: Options) -> Callable[[], Pass]:
    """Read `records` records, every batch to Arrow, every value touched."""
    expected = options.number("records")

    async def once() -> Pass:
        clock = Stopwatch()
        async with _consumer(options) as consumer:
            records = size = checksum = 0
            async for batch in consumer.batches(timeout=WAIT_SECONDS):
                table = batch.to_arrow()
                more, last_bytes = touch(table.column("value"))
                records += table.num_rows
                size += more
                checksum += last_bytes
                if records >= expected:
                    break
            seconds = clock.seconds()
        return Pass(seconds, records, size, checksum)

    return lambda: asyncio.run(once())


def records(options: Options) -> Callable[[], Pass]:
    """Read `records` records one by one, keys and values."""
    expected = options.number("records")

    async def once() -> Pass:
        clock = Stopwatch()
        async with _consumer(options) as consumer:
            count = size = 0
            async for record in consumer:
                record.key  # noqa: B018 - reading it is the measured work
                value = record.value
                size += len(value or b"")
                count += 1
                if count == expected:
                    break
            seconds = clock.seconds()
        return Pass(seconds, count, size)

    return lambda: asyncio.run(once())


def latency(options: Options) -> Callable[[], Pass]:
    """Read records as they are produced."""

    async def once() -> Pass:
        async with _consumer(options) as consumer:
            with Delays(options) as delays:
                async for record in consumer:
                    delays.add(record.value or b"")
                    if delays.done:
                        break
                return delays.as_pass()

    return lambda: asyncio.run(once())


def wait(options: Options) -> Callable[[], Pass]:
    """Write records one by one, each when the one before it is acknowledged."""
    topic = options.text("topic")

    async def once() -> Pass:
        async with AsyncProducer(options.text("bootstrap"), linger_ms=0) as producer:

            async def send_and_wait(value: bytes) -> None:
                await (await producer.send(topic, value))

            return await await_each(options, send_and_wait)

    return lambda: asyncio.run(once())


def _consumer(options: Options) -> AsyncConsumer:
    return AsyncConsumer(
        options.text("bootstrap"), topics=options.text("topic"), start="earliest", **options.keywords()
    )


if __name__ == "__main__":
    work({"arrow": arrow, "records": records, "latency": latency, "wait": wait}, __version__)
