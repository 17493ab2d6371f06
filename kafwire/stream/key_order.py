"""`KeyOrder`: runs the elements of one lane one after the other (`for_each(by=...)`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class KeyOrder(Generic[_T]):
    """Lanes, by key or partition. One element of a lane runs at a time; the others wait in the order of arrival.

    A lane uses memory only while it has elements.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[_T] | None] = {}  # busy lanes; None: no element waits

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, lane: Hashable, element: _T) -> bool:
        """True if the element may run now; otherwise a later `finish` returns it."""
        if lane not in self._waiting:
            self._waiting[lane] = None
            return True
        waiting = self._waiting[lane]
        if waiting is None:
            waiting = self._waiting[lane] = deque()
        waiting.append(element)
        return False

    def finish(self, lane: Hashable) -> _T | None:
        """End the running element of a lane; return the next one, which runs now, or None."""
        waiting = self._waiting[lane]
        if waiting:
            return waiting.popleft()
        del self._waiting[lane]
        return None

    def close(self, lane: Hashable) -> list[_T]:
        """Close the lane; return the waiting elements in order."""
        return list(self._waiting.pop(lane) or ())
