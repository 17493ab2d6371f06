"""`RunningCalls`: the running calls of a stream's handlers, steps and sinks, and their ages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from types import TracebackType
from typing import Any, Self

from kafwire.runtime.interfaces import Clock
from kafwire.stream.elements import Element, Origin, described
from kafwire.types import TopicPartition


class Call:
    """One call, as a context manager. The age of a series of short calls counts from its last `progress`."""

    __slots__ = ("_calls", "_origin", "_progress", "_seen", "_since", "_step", "_where")

    def __init__(
        self,
        calls: RunningCalls,
        where: TopicPartition,
        step: Callable[[], str],
        origin: Callable[[], Origin],
        progress: Callable[[], object] | None,
    ) -> None:
        self._calls = calls
        self._where = where
        self._step = step
        self._origin = origin
        self._progress = progress
        self._seen: object = None
        self._since = 0.0

    def begin(self) -> None:
        """Begin the call."""
        self._since = self._calls.clock.monotonic()
        self._calls.running[self] = None

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the call. A second end does nothing."""
        self._calls.running.pop(self, None)

    def age_s(self, now: float) -> float:
        """Return how many seconds the call has run. Progress is noticed when this is called. From any thread."""
        if self._progress is not None and (seen := self._progress()) != self._seen:
            self._seen, self._since = seen, now
        return now - self._since

    def __str__(self) -> str:
        return described(self._step(), self._origin(), self._where)


class SerialCalls:
    """The calls of one step for consecutive values, each timed from the return of the one before.

    The iterator of the values shows the progress: no single call has to begin or end.
    """

    __slots__ = ("_left", "_origins", "_seen", "_step", "_where", "since")

    def __init__(self, where: TopicPartition, step: str) -> None:
        self._where = where
        self._step = step
        self._origins: Sequence[Origin] = ()
        self._left: Iterator[Any] = iter(())
        self._seen = 0
        self.since = 0.0

    def over(self, values: Sequence[Any], origins: Sequence[Origin]) -> Iterator[Any]:
        """Return an iterator of the values. The last value it returned belongs to the running call."""
        self._origins, self._left, self._seen = origins, iter(values), len(values) - 1
        return self._left

    def clear(self) -> None:
        """Drop the values once the calls have ended, to keep no record alive."""
        self.over((), ())

    @property
    def index(self) -> int:
        """The index of the last value that the iterator returned."""
        return max(len(self._origins) - length_hint(self._left) - 1, 0)

    def age_s(self, now: float) -> float:
        """Return how many seconds the call has run. Progress is noticed when this is called. From any thread."""
        left = length_hint(self._left)
        if left != self._seen:
            self._seen, self.since = left, now
        return now - self.since

    def __str__(self) -> str:
        return described(self._step, self._origins[self.index], self._where)


class RunningCalls:
    """The running calls of one stream. A wait for a worker, a key, the next attempt, or a due record is not a call.

    The stream's loop begins and ends calls; any thread may ask for the `oldest`, even while a step blocks the loop.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        # An element stands for the calls that a worker makes for it.
        self.running: dict[Call | SerialCalls | Element, None] = {}

    def begin(self, calls: SerialCalls | Element) -> None:
        """Begin calls: those of a worker for an element, or those of a step for consecutive values."""
        calls.since = self.clock.monotonic()
        self.running[calls] = None

    def end(self, calls: SerialCalls | Element) -> None:
        """End the calls. A second end does nothing."""
        self.running.pop(calls, None)

    def call(
        self,
        where: TopicPartition,
        step: Callable[[], str],
        origin: Callable[[], Origin],
        progress: Callable[[], object] | None = None,
    ) -> Call:
        """Make the context manager of a call; `progress` changes with each of many short ones."""
        return Call(self, where, step, origin, progress)

    def oldest(self) -> tuple[float, str] | None:
        """Return the age in milliseconds of the longest running call, and its description; None: none runs."""
        now = self.clock.monotonic()
        found = max(((call.age_s(now), call) for call in list(self.running)), key=lambda one: one[0], default=None)
        if found is None:
            return None
        try:
            text = str(found[1])
        except IndexError:  # its step has just ended, in the loop's thread
            text = "a step"
        return found[0] * 1000, text
