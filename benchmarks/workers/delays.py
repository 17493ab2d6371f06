"""How long records take from a producer in another process to here, and what that costs."""

import faulthandler
import time
from collections.abc import Callable
from contextlib import ExitStack
from math import ceil
from types import TracebackType
from typing import Self

from benchmarks.counted import NOTHING, difference, read_counts
from benchmarks.trickle import GREETING, STAMP, trickle
from benchmarks.workers.common import Options, Pass, Stopwatch

# Asking for the counts takes a moment, in which records wait: those just after the warm-up are not judged.
_AFTER_COUNTING = 20
_LONGEST_WAIT_SECONDS = 60


class Delays:
    """Takes every value, lets the producer go when all greetings have come, and counts what comes after the warm-up.

    A client that takes a minute longer than it should ends the process, with a traceback.
    """

    def __init__(self, options: Options, go: Callable[[], None] = lambda: None) -> None:
        self._options = options
        self._warmup = options.number("warmup")
        self._expected = self._warmup + options.number("records")
        self._report = options.given.get("report")
        self._delays: list[int] = []
        self._bytes = 0
        self._cpu = 0.0
        self._counts = NOTHING
        self._clock = Stopwatch()
        self._stack = ExitStack()
        self._go = go
        self._greetings = options.number("partitions")
        self.records = 0

    def __enter__(self) -> Self:
        options = self._options
        interval_us = options.number("interval_us")
        producing = self._expected * interval_us / 1e6
        faulthandler.dump_traceback_later(producing + _LONGEST_WAIT_SECONDS, exit=True)
        self._go = self._stack.enter_context(
            trickle(
                options.text("bootstrap"),
                options.text("topic"),
                partitions=options.number("partitions"),
                records=self._expected,
                interval_us=interval_us,
                value_bytes=options.number("value_bytes"),
            )
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._stack.close()

    def add(self, value: bytes) -> None:
        """A value is in hand."""
        now = time.monotonic_ns()
        stamp, number = STAMP.unpack_from(value)
        if number == GREETING:
            self._greetings -= 1
            if not self._greetings:
                self._go()
            return
        self.records += 1
        self._bytes += len(value)
        if number >= self._warmup + _AFTER_COUNTING:
            self._delays.append(now - stamp)
        if self.records == self._warmup:
            self._counts = read_counts(self._report) if self._report else NOTHING
            self._cpu = time.process_time()
            self._clock = Stopwatch()

    @property
    def done(self) -> bool:
        """True if all have come."""
        return self.records >= self._expected

    def as_pass(self) -> Pass:
        """The figures: delays in milliseconds, and what was used per record since the warm-up."""
        cpu = time.process_time() - self._cpu
        seconds = self._clock.seconds()
        counted = self._expected - self._warmup
        figures = {
            "p50": percentile(self._delays, 50) / 1e6,
            "p99": percentile(self._delays, 99) / 1e6,
            "worst": max(self._delays) / 1e6,
            "cpu_us": cpu / counted * 1e6,
        }
        if self._report:
            counts = difference(self._counts, read_counts(self._report))
            figures |= {"request_bytes": counts["request_bytes"] / counted, "requests": counts["requests"] / counted}
            figures |= {"requests_per_second": counts["requests"] / seconds, "connections": counts["open"]}
        return Pass(seconds, self.records, self._bytes, figures=figures)


def percentile(values: list[int], percent: int) -> int:
    """The smallest of the values that `percent` of them do not pass."""
    return sorted(values)[max(ceil(len(values) * percent / 100), 1) - 1]
