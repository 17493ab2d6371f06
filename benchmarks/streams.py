"""How fast streams are: `python -m benchmarks.streams`, into docs/internals/results/pipelines.md by hand.

Records of 100 bytes in memory, in batches of 10,000 that are decoded as they are read. The last rows have handlers that
sleep for 5 ms, and what as many bare tasks do in the same time, which is all that the event loop can do.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa

from kafwire.records import Record
from kafwire.stream import MemorySink, MemorySource, Pipeline

HANDLER_S = 0.005
WORKERS = 64
KEYS = 1000


def main() -> None:
    """Measure all rows, `--rounds` times in turn, and print the median of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--handled", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    rows: dict[str, tuple[int, Callable[[MemorySource], Pipeline] | None]] = {
        "map, batch": (chosen.records, lambda _: Pipeline().map(value_of).batch(500)),
        "filter, map, flat_map, batch": (chosen.records, lambda _: steps()),
        "map, to the sink one by one": (chosen.records, lambda _: Pipeline().map(value_of)),
        "map_batches (Arrow), batch": (chosen.records, lambda _: Pipeline().map_batches(pa.record_batch).batch(50_000)),
        f"{WORKERS} bare tasks": (chosen.handled, None),
        f'for_each(workers={WORKERS}, by="key")': (
            chosen.handled,
            lambda _: Pipeline().for_each(handle, workers=WORKERS, by="key"),
        ),
        f"for_each(workers={WORKERS}, by=None)": (
            chosen.handled,
            lambda _: Pipeline().for_each(handle, workers=WORKERS, by=None),
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(chosen.rounds):
        for name, (count, make) in rows.items():
            found[name].append(count / (bare(count) if make is None else streamed(count, make)))
    for name, rates in found.items():
        median = sorted(rates)[len(rates) // 2]
        print(f"{name:34} {median:12,.0f} records/s   ({min(rates):,.0f} to {max(rates):,.0f})", flush=True)


def value_of(record: Record) -> Any:
    """A step."""
    return record.value


def steps() -> Pipeline:
    """Several of them."""
    return Pipeline().filter(lambda one: one.value).map(value_of).flat_map(lambda value: (value,)).batch(500)


async def handle(record: Record) -> Any:
    """A handler."""
    await asyncio.sleep(HANDLER_S)
    return record.value


def streamed(count: int, make: Callable[[MemorySource], Pipeline]) -> float:
    """Seconds of a stream."""
    records = [(b"%d" % (number % KEYS), b"%0100d" % number) for number in range(count)]
    source, sink = MemorySource({"orders": records}, batch_records=10_000), MemorySink()
    return seconds(make(source).run_async(source, sink))


def bare(count: int) -> float:
    """Seconds of tasks that do nothing else."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await asyncio.sleep(HANDLER_S)

    async def all_of_them() -> None:
        await asyncio.gather(*(work() for _ in range(WORKERS)))

    return seconds(all_of_them())


def seconds(coroutine: Coroutine[Any, Any, Any]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    asyncio.run(coroutine)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
