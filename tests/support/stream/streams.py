"""Streams in simulated time: a pipeline on a source in memory, and what goes on beside it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from kafwire.records._records import Record
from kafwire.stream import MemorySink, MemorySource, Pipeline, StopRequest, StreamSummary
from kafwire.testing.simulated_time import run_in_simulated_time

Beside = Callable[[StopRequest], Coroutine[Any, Any, None]]


def run_simulated(
    pipeline: Pipeline,
    source: MemorySource,
    sink: MemorySink | None = None,
    *,
    beside: Beside | None = None,
    seed: int = 1,
    **options: Any,
) -> StreamSummary:
    """Run a pipeline in simulated time; `beside` runs at the same time, and may stop it."""

    async def watch(stop: StopRequest) -> None:
        try:
            if beside is not None:
                await beside(stop)
        except Exception:  # it failed: nothing else would stop the stream
            stop.request()
            raise

    async def main(clock: Any) -> StreamSummary:
        stop = StopRequest()
        other = asyncio.ensure_future(watch(stop))
        try:
            return await pipeline.run_async(source, sink, stop=stop, clock=clock, random=random.Random(seed), **options)
        finally:
            other.cancel()
            (problem,) = await asyncio.gather(other, return_exceptions=True)
            if isinstance(problem, Exception):
                raise problem

    return run_in_simulated_time(main)


def numbered(count: int, keys: int = 3) -> list[tuple[bytes, bytes]]:
    """Records whose values are their offsets, and whose keys come in turn."""
    return [(b"key %d" % (number % keys), b"%d" % number) for number in range(count)]


def number(record: Record) -> int:
    """The value of such a record."""
    return int(record.value)
