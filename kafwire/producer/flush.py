"""Waiting until batches have an outcome, and how many records are left without one, as errors say it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kafwire.errors import KafkaTimeoutError
from kafwire.producer._batch import ProducerBatch

# Partitions that an error names, of those with records that were not delivered.
NAMED_PARTITIONS = 5


async def wait_for(batches: Sequence[ProducerBatch], timeout_s: float | None) -> None:
    """Wait until all have an outcome; raises `KafkaTimeoutError` after `timeout_s` seconds."""
    if not batches:
        return
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()
    left = len(batches)

    def one_done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            resolve(finished)

    for batch in batches:
        batch.add_done_callback(one_done)
    try:
        async with asyncio.timeout(timeout_s):
            await finished
    except TimeoutError:
        raise KafkaTimeoutError(
            f"not everything was acknowledged within {timeout_s:g} s; it is still tried: "
            f"{undelivered(count_records(batches))}"
        ) from None


def resolve(future: asyncio.Future[None]) -> None:
    """End a wait, unless it has ended."""
    if not future.done():
        future.set_result(None)


def count_records(batches: Iterable[ProducerBatch]) -> dict[str, int]:
    """The records of those that are not done, by topic and partition."""
    counts: Counter[str] = Counter()
    for batch in batches:
        if not batch.done:
            counts[batch.queue.name] += batch.count
    return dict(counts)


def undelivered(counts: Mapping[str, int]) -> str:
    """How many records, and where, as errors say it."""
    if len(counts) == 1:
        ((name, count),) = counts.items()
        return f"{count} record(s) to {name}"
    named = ", ".join(f"{count} to {name}" for name, count in list(counts.items())[:NAMED_PARTITIONS])
    more = len(counts) - NAMED_PARTITIONS
    return f"{sum(counts.values())} record(s) ({named}{f', and to {more} more partitions' if more > 0 else ''})"
