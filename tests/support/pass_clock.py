"""A clock by which a test stands where a pass of `append_rows` has ended, and its batches are not in their places yet.

There the accumulator reads the clock: of all that a pass runs, Python code is only called here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.runtime._interfaces import Clock


class PassClock(Clock):
    """Another clock's time, and a function that is called with each look at it from within `append_rows`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = Clock() if clock is None else clock
        self._function: Callable[[], object] | None = None
        self._accumulator: Accumulator | None = None
        self._thread: int | None = None
        self._calls = 0

    @contextlib.contextmanager
    def behind_passes(self, accumulator: Accumulator, function: Callable[[], object]) -> Iterator[None]:
        """Call `function()` behind each pass of this thread, but for those that it makes itself."""
        self._accumulator, self._function, self._calls = accumulator, function, 0
        self._thread = threading.get_ident()
        try:
            yield
        finally:
            self._thread = None
        assert self._calls, "no pass looked at this clock"

    def monotonic(self) -> float:
        if self._thread == threading.get_ident() and self._accumulator is not None and self._accumulator.passes:
            thread, self._thread = self._thread, None
            self._calls += 1
            try:
                assert self._function is not None
                self._function()
            finally:
                self._thread = thread
        return self._clock.monotonic()

    def time_ns(self) -> int:
        return self._clock.time_ns()
