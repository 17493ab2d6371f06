"""What is to happen later: a heap of calls by monotonic time. The driver asks when the next one is due."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Timer:
    """A call that is due at `at_ms`; `cancel` takes it back."""

    at_ms: float
    call: Callable[[], object] | None

    def cancel(self) -> None:
        """Do not call."""
        self.call = None


class Timers:
    """All that is due later, in order; of what is due at the same time, in the order in which it was asked for."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def at(self, at_ms: float, call: Callable[[], object]) -> Timer:
        """Call `call` at that time."""
        timer = Timer(at_ms, call)
        heapq.heappush(self._heap, (at_ms, next(self._numbers), timer))
        return timer

    @property
    def next_ms(self) -> float | None:
        """When the next one is due."""
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_ms: float) -> Timer | None:
        """The next one that is due by now."""
        due = self.next_ms
        return None if due is None or due > now_ms else heapq.heappop(self._heap)[2]
