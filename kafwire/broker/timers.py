"""Timers: a heap of calls by monotonic time. The driver gets the time of the next one."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Timer:
    """A call that is due at `at_ms`."""

    at_ms: float
    call: Callable[[], object] | None

    def cancel(self) -> None:
        """Cancel the call."""
        self.call = None


class Timers:
    """Pending timers, in order of time; timers for the same time in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def at(self, at_ms: float, call: Callable[[], object]) -> Timer:
        """Call `call` at `at_ms`."""
        timer = Timer(at_ms, call)
        heapq.heappush(self._heap, (at_ms, next(self._numbers), timer))
        return timer

    @property
    def next_ms(self) -> float | None:
        """The time of the next timer; None if there is none."""
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float) -> Timer | None:
        """Return and remove the next timer if it is due at `now_ms`."""
        due = self.next_ms
        return None if due is None or due > now_ms else heapq.heappop(self._heap)[2]
