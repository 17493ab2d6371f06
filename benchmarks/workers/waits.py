"""How long each of many records takes that is sent when the one before it is acknowledged."""

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from benchmarks.payload import split_pool
from benchmarks.workers.common import Options, Pass
from benchmarks.workers.delays import percentile


def wait_for_each(options: Options, send_and_wait: Callable[[bytes], object]) -> Pass:
    """Send `warmup` records and then `records` that are judged."""
    values, took = _values(options), []
    for value in values:
        start = time.perf_counter_ns()
        send_and_wait(value)
        took.append(time.perf_counter_ns() - start)
    return _as_pass(options, took)


async def await_each(options: Options, send_and_wait: Callable[[bytes], Awaitable[object]]) -> Pass:
    """The same in an event loop."""
    values, took = _values(options), []
    for value in values:
        start = time.perf_counter_ns()
        await send_and_wait(value)
        took.append(time.perf_counter_ns() - start)
    return _as_pass(options, took)


def _values(options: Options) -> Iterator[bytes]:
    pool = split_pool(Path(options.text("payload")).read_bytes(), options.number("value_bytes"))
    for number in range(options.number("warmup") + options.number("records")):
        yield pool[number % len(pool)]


def _as_pass(options: Options, took: list[int]) -> Pass:
    judged = took[options.number("warmup") :]
    figures = {"p50": percentile(judged, 50) / 1e6, "p99": percentile(judged, 99) / 1e6, "worst": max(judged) / 1e6}
    return Pass(sum(took) / 1e9, len(took), len(took) * options.number("value_bytes"), figures=figures)
