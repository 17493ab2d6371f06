"""`RunningCalls`: which calls of handlers, steps and sinks a stream runs now, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from kafwire.runtime.interfaces import Clock
from kafwire.stream.elements import Element, Origin, described
from kafwire.types import TopicPartition


class Call:
    """One call, as a context manager. A run of many short calls counts from its last `progress`."""

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
        """The call begins."""
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
        """The call has returned. A second end does nothing."""
        self._calls.running.pop(self, None)

    def age_s(self, now: float) -> float:
        """For how many seconds it has run. Progress is noticed when this is called. From any thread."""
        if self._progress is not None and (seen := self._progress()) != self._seen:
            self._seen, self._since = seen, now
        return now - self._since

    def __str__(self) -> str:
        return described(self._step(), self._origin(), self._where)


class RunningCalls:
    """The calls of one stream. A wait for a worker, a key, the next attempt, or until a record is due is no call.

    The stream's loop begins and ends calls; any thread may ask for the `oldest`, also while a step blocks the loop.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.running: dict[Call | Element, None] = {}  # an element stands for the calls that a worker makes for it

    def begin(self, element: Element) -> None:
        """A worker calls something for an element, until `end`."""
        element.since = self.clock.monotonic()
        self.running[element] = None

    def end(self, element: Element) -> None:
        """The worker is done with the element. A second end does nothing."""
        self.running.pop(element, None)

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
        """For how many milliseconds the call has run that has run for the longest time, and which; None: none runs."""
        now = self.clock.monotonic()
        found = max(((call.age_s(now), call) for call in list(self.running)), key=lambda one: one[0], default=None)
        if found is None:
            return None
        try:
            text = str(found[1])
        except IndexError:  # its step has just ended, in the loop's thread
            text = "a step"
        return found[0] * 1000, text
