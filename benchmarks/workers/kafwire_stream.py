"""kafwire's streams: from memory to memory, or from a topic through a group's member to another topic.

Handlers do nothing but return the value, so that only the stream is measured.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from benchmarks.workers.common import Options, Pass, Stopwatch, work
from kafwire import AsyncConsumer, AsyncProducer, __version__
from kafwire.records import Record
from kafwire.stream import ConsumerSource, MemorySink, MemorySource, Pipeline, StopRequest, TopicSink

MEMORY_RECORDS = 200_000
HANDLED_RECORDS = 50_000
TOPIC_RECORDS = 200_000
KEYS = 1000
WORKERS = 64
BATCH_ROWS = 10_000


def _value_of(record: Record) -> Any:
    return record.value


async def _handle(record: Record) -> Any:
    return record.value


def _memory(count: int, make: Callable[[], Pipeline]) -> Callable[[Options], Callable[[], Pass]]:
    """A task that streams so many records of 100 bytes, with keys, which are in memory before the clock runs."""

    def task(_options: Options) -> Callable[[], Pass]:
        records = [(b"%d" % (number % KEYS), b"%0100d" % number) for number in range(count)]

        def once() -> Pass:
            source, sink = MemorySource({"orders": records}, batch_records=BATCH_ROWS), MemorySink()
            clock = Stopwatch()
            summary = asyncio.run(make().run_async(source, sink))
            seconds = clock.seconds()
            if summary.records != count:
                raise RuntimeError(f"the stream read {summary.records} records of {count}")
            return Pass(seconds, count, count * 100)

        return once

    return task


def _topic(make: Callable[[Callable[[], None]], Pipeline]) -> Callable[[Options], Callable[[], Pass]]:
    """A task that streams records from a topic to another, as the guarantee of the options says, up to a count.

    The clock runs from the first record in a step to the end of the last commit: a join takes as long as the broker's
    timers say.
    """

    def task(options: Options) -> Callable[[], Pass]:
        bootstrap, guarantee = options.text("bootstrap"), options.text("guarantee")

        async def once() -> Pass:
            stop, count, began = StopRequest(), 0, 0.0

            def count_one() -> None:
                nonlocal count, began
                began = began or time.perf_counter()
                count += 1
                if count == TOPIC_RECORDS:
                    stop.request()

            group = f"bench-stream-{time.time_ns()}"
            consumer = AsyncConsumer(
                bootstrap,
                topics=options.text("source"),
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            )
            own: dict[str, Any] = {"transactional_id": group} if guarantee == "exactly_once" else {}
            async with AsyncProducer(bootstrap, **own) as producer:
                sink = TopicSink(producer, options.text("topic"))
                pipeline, chosen = make(count_one), _guarantee(guarantee)
                summary = await pipeline.run_async(ConsumerSource(consumer), sink, guarantee=chosen, stop=stop)
                seconds = time.perf_counter() - began
            if summary.records < TOPIC_RECORDS or summary.aborts or not summary.commits:
                raise RuntimeError(f"the stream did not do its work: {summary}")
            markers = summary.commits if guarantee == "exactly_once" else 0
            return Pass(seconds, summary.records, summary.records * 100, figures={"unsure": markers})

        return lambda: asyncio.run(once())

    return task


def _guarantee(name: str) -> Any:
    return name  # a literal of the library's own type


def _counting_map(count_one: Callable[[], None]) -> Pipeline:
    def step(record: Record) -> Any:
        count_one()
        return record.value

    return Pipeline().map(step)


def _counting_for_each(count_one: Callable[[], None]) -> Pipeline:
    async def handle(record: Record) -> Any:
        count_one()
        return record.value

    return Pipeline().for_each(handle, workers=WORKERS, by=None)


if __name__ == "__main__":
    tasks = {
        "map": _memory(MEMORY_RECORDS, lambda: Pipeline().map(_value_of).batch(500)),
        "map_singly": _memory(MEMORY_RECORDS, lambda: Pipeline().map(_value_of)),
        "for_each_by_key": _memory(HANDLED_RECORDS, lambda: Pipeline().for_each(_handle, workers=WORKERS, by="key")),
        "for_each": _memory(HANDLED_RECORDS, lambda: Pipeline().for_each(_handle, workers=WORKERS, by=None)),
        "topic_map": _topic(_counting_map),
        "topic_for_each": _topic(_counting_for_each),
    }
    work(tasks, __version__)
