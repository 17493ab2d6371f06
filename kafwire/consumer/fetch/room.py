"""The room for fetched records: the bytes of the budget that neither the buffer nor requests in flight take."""

from __future__ import annotations

from collections.abc import Sized

from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.consumer.fetch.budget import Budget
from kafwire.consumer.fetch.cursor import FetchCursor


class FetchRoom:
    """The `budget`, applied to the buffered bytes of all cursors."""

    def __init__(self, budget: Budget, queue: FetchBuffer, cursors: Sized, *, compacts: bool) -> None:
        """`compacts`: make room by copying slices out of frames that are mostly read."""
        self.budget = budget
        self._queue = queue
        self._cursors = cursors
        self._compacts = compacts

    @property
    def free(self) -> int:
        """The free bytes of the budget; see `Budget.free`."""
        return self.budget.free(self._queue.queued_bytes(), len(self._cursors))

    def fits(self, need: int) -> bool:
        """Return True if a request for `need` bytes fits."""
        if self.budget.has_room(self._queue.queued_bytes(), need):
            return True
        if self._compacts:
            self._queue.compact()
        return self.budget.has_room(self._queue.queued_bytes(starved=True), need)

    def is_full(self, cursor: FetchCursor, free: int) -> bool:
        """Return True if a cursor's buffer is full with `free` bytes; if so, watch for the next read of it."""
        slices, size = self._queue.queued(cursor.number)
        if not self.budget.is_full(slices, size, free):
            return False
        slices, size = self._queue.queued(cursor.number, watch=True)
        return self.budget.is_full(slices, size, self.free)
