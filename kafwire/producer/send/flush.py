"""Waits until batches have an outcome, and counts and names undelivered records for errors."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kafwire.errors import KafkaTimeoutError
from kafwire.producer.buffer._batch import ProducerBatch

# How many partitions with undelivered records an error names.
NAMED_PARTITIONS = 5


async def wait_for(batches: Sequence[ProducerBatch], timeout_s: float | None) -> None:
    """Wait until all batches have an outcome; raise `KafkaTimeoutError` after `timeout_s` seconds."""
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
            f"not all records were acknowledged within {timeout_s:g} s; kafwire still tries to send: "
            f"{undelivered(count_records(batches))}"
        ) from None


def resolve(future: asyncio.Future[None]) -> None:
    """Complete a future, unless it is done."""
    if not future.done():
        future.set_result(None)


def count_records(batches: Iterable[ProducerBatch]) -> dict[str, int]:
    """Count the records of unfinished batches, by topic and partition."""
    counts: Counter[str] = Counter()
    for batch in batches:
        if not batch.done:
            counts[batch.queue.name] += batch.count
    return dict(counts)


def undelivered(counts: Mapping[str, int]) -> str:
    """Describe how many records are undelivered, and where, for an error."""
    if len(counts) == 1:
        ((name, count),) = counts.items()
        return f"{count} record(s) to {name}"
    named = ", ".join(f"{count} to {name}" for name, count in list(counts.items())[:NAMED_PARTITIONS])
    more = len(counts) - NAMED_PARTITIONS
    return f"{sum(counts.values())} record(s) ({named}{f', and to {more} more partitions' if more > 0 else ''})"


def closed_early(lost: Mapping[str, int]) -> KafkaTimeoutError:
    """Return the error of a producer that had to close before it delivered all, with the records lost by partition."""
    return KafkaTimeoutError(f"the producer was closed with {undelivered(lost)} not acknowledged")
