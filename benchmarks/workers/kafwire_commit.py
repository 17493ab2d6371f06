"""kafwire's members of groups that commit after each record: processed records, or an offset.

A pass begins with the second record, when the member has joined and its coordinator is known.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.workers.common import Options, Pass, Stopwatch, work
from kafwire import AsyncConsumer, Consumer, TopicPartition, __version__

COMMITS = 300


def each(options: Options) -> Callable[[], Pass]:
    """`commit()` after each record."""

    def once() -> Pass:
        with Consumer(**_member(options)) as consumer:
            clock, count, last = Stopwatch(), 0, -1
            for record in consumer:
                consumer.commit()
                last, clock, count = record.offset, clock if count else Stopwatch(), count + 1
                if count > COMMITS:
                    break
            return _checked(clock, consumer.committed(), last, lag=1)

    return once


def each_offset(options: Options) -> Callable[[], Pass]:
    """`commit({partition: offset})` after each record."""
    partition = TopicPartition(options.text("topic"), 0)

    def once() -> Pass:
        with Consumer(**_member(options)) as consumer:
            clock, count, last = Stopwatch(), 0, -1
            for record in consumer:
                consumer.commit({partition: record.offset + 1})
                last, clock, count = record.offset, clock if count else Stopwatch(), count + 1
                if count > COMMITS:
                    break
            return _checked(clock, consumer.committed(), last, lag=0)

    return once


def async_each(options: Options) -> Callable[[], Pass]:
    """`await commit()` after each record."""

    async def once() -> Pass:
        async with AsyncConsumer(**_member(options)) as consumer:
            clock, count, last = Stopwatch(), 0, -1
            async for record in consumer:
                await consumer.commit()
                last, clock, count = record.offset, clock if count else Stopwatch(), count + 1
                if count > COMMITS:
                    break
            return _checked(clock, await consumer.committed(), last, lag=1)

    return lambda: asyncio.run(once())


def async_each_offset(options: Options) -> Callable[[], Pass]:
    """`await commit({partition: offset})` after each record."""
    partition = TopicPartition(options.text("topic"), 0)

    async def once() -> Pass:
        async with AsyncConsumer(**_member(options)) as consumer:
            clock, count, last = Stopwatch(), 0, -1
            async for record in consumer:
                await consumer.commit({partition: record.offset + 1})
                last, clock, count = record.offset, clock if count else Stopwatch(), count + 1
                if count > COMMITS:
                    break
            return _checked(clock, await consumer.committed(), last, lag=0)

    return lambda: asyncio.run(once())


def _checked(clock: Stopwatch, committed: Mapping[TopicPartition, int | None], last: int, lag: int) -> Pass:
    """The pass; some versions do not count the record of the current turn of a loop as processed: `lag`."""
    seconds = clock.seconds()
    (offset,) = committed.values()
    if offset is None or not last + 1 - lag <= offset <= last + 1:
        raise RuntimeError(f"offset {offset} is committed after record {last}")
    return Pass(seconds, COMMITS, 0)


def _member(options: Options) -> dict[str, Any]:
    return {
        "bootstrap_servers": options.text("bootstrap"),
        "topics": options.text("topic"),
        "group_id": f"bench-commit-{time.time_ns()}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        **options.keywords(),
    }


if __name__ == "__main__":
    tasks = {
        "each": each,
        "each-offset": each_offset,
        "async_each": async_each,
        "async_each-offset": async_each_offset,
    }
    work(tasks, __version__)
