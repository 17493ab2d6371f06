"""The progress of one partition in an explicit stream: the user completes records in any order, from any thread."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from kafwire.consumer.offsets.completed_offsets import CompletedOffsets
from kafwire.records._records import Batch
from kafwire.runtime.patched import allocate_lock


class PartitionProgress:
    """The completed offsets of a stream. Gaps between delivered records need no completion."""

    def __init__(self, on_advance: Callable[[], object]) -> None:
        """`on_advance` is called in the completing thread when `committable` advances and `is_awaited` is set."""
        self.is_awaited = False
        self.is_left = False  # the stream is closed: other readers continue at its end
        self.is_abandoned = False  # and records that are not completed are left to the next owner
        self._on_advance = on_advance
        self._lock = allocate_lock()
        self._completed: CompletedOffsets | None = None

    @property
    def committable(self) -> int:
        """The offset that may be committed; -1 before the first delivery."""
        completed = self._completed
        return -1 if completed is None else completed.committable

    @property
    def is_finished(self) -> bool:
        """True if the stream is closed, and all delivered records are completed."""
        return self.is_left and not self.uncommitted

    @property
    def uncommitted(self) -> int:
        """The number of delivered offsets from `committable` on."""
        with self._lock:
            return 0 if self._completed is None else self._completed.uncommitted

    @property
    def oldest(self) -> int | None:
        """The offset of the first delivered record that is not completed, or None."""
        with self._lock:
            gap = None if self._completed is None else self._completed.oldest_gap
        return None if gap is None else gap[0]

    def hand_out(self, position: int, batch: Batch) -> None:
        """Note the delivery of a batch, which was read from `position` on."""
        size = batch.next_offset - position
        offsets = None if len(batch) == size else [record.offset for record in batch]
        with self._lock:
            if self._completed is None or position < self._completed.handed_out:  # a seek went back
                self._completed = CompletedOffsets(position)
            completed = self._completed
            completed.complete(completed.handed_out, position)
            completed.hand_out(batch.next_offset)
            if offsets is not None:
                for before, after in pairwise([position - 1, *offsets, batch.next_offset]):
                    completed.complete(before + 1, after)

    def complete(self, first_offset: int, next_offset: int) -> None:
        """Complete the delivered records of [first_offset, next_offset)."""
        if next_offset < first_offset:
            raise ValueError(f"offsets {first_offset} to {next_offset}: a range cannot end before it begins")
        with self._lock:
            completed, advanced = self._completed, False
            if completed is not None and first_offset < completed.handed_out:
                advanced = completed.complete(first_offset, min(next_offset, completed.handed_out))
        if advanced and self.is_awaited:
            self._on_advance()

    def commit(self, offset: int) -> None:
        """Complete all records before an offset."""
        with self._lock:
            completed, advanced = self._completed, False
            if completed is not None and offset > completed.committable:
                advanced = completed.complete(completed.committable, offset)
        if advanced and self.is_awaited:
            self._on_advance()
