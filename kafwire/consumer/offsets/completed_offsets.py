"""`CompletedOffsets`: the offsets of a partition that are processed, in any order, and the offset to commit.

A commit means that all records before it are processed. So offsets completed beyond a gap wait until the gap is filled.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class CompletedOffsets:
    """The completed offsets of one partition, as ranges beyond a position.

    Ranges are half open, as everywhere in Kafka: `next_offset` is the first one that is not in it. They may come in any
    order, touch and overlap. Only ranges beyond the first gap take memory, one for each further gap; the deliverer of
    the records bounds it by `uncommitted`. A call searches in O(log n) of these ranges.

    Args:
        start: the first offset that is not completed, such as the committed one.
    """

    __slots__ = ("_firsts", "_nexts", "committable", "handed_out")

    def __init__(self, start: int) -> None:
        self.committable = start
        """The offset to commit: all below it is completed."""
        self.handed_out = start
        """The end of the delivered or completed offsets."""
        # Disjoint ranges that do not touch, in order, all above `committable`.
        self._firsts: list[int] = []
        self._nexts: list[int] = []

    def hand_out(self, next_offset: int) -> None:
        """Note that the records below `next_offset` are delivered."""
        self.handed_out = max(self.handed_out, next_offset)

    def complete(self, first_offset: int, next_offset: int) -> bool:
        """Add the range [first_offset, next_offset).

        Returns:
            True if `committable` has advanced.

        Raises:
            ValueError: the range ends before it begins.
        """
        if next_offset < first_offset:
            raise ValueError(f"offsets {first_offset} to {next_offset}: a range cannot end before it begins")
        self.handed_out = max(self.handed_out, next_offset)
        if next_offset <= self.committable or next_offset == first_offset:
            return False
        if first_offset <= self.committable:
            self._advance(next_offset)
            return True
        firsts, nexts = self._firsts, self._nexts
        # Ranges from `low` on end at or after the new one's begin; those from `high` on begin after its end.
        low = bisect_left(nexts, first_offset)
        high = bisect_right(firsts, next_offset)
        if low < high:
            first_offset = min(first_offset, firsts[low])
            next_offset = max(next_offset, nexts[high - 1])
        firsts[low:high] = [first_offset]
        nexts[low:high] = [next_offset]
        return False

    def _advance(self, next_offset: int) -> None:
        reached = bisect_right(self._firsts, next_offset)
        if reached:
            next_offset = max(next_offset, self._nexts[reached - 1])
            del self._firsts[:reached], self._nexts[:reached]
        self.committable = next_offset

    def has(self, offset: int) -> bool:
        """Return True if the offset is completed."""
        at = bisect_right(self._firsts, offset) - 1
        return offset < self.committable or (at >= 0 and offset < self._nexts[at])

    @property
    def uncommitted(self) -> int:
        """The number of offsets from `committable` on that are delivered or completed: they would be read again."""
        return self.handed_out - self.committable

    @property
    def oldest_gap(self) -> tuple[int, int] | None:
        """The first range [first, next) of delivered (or skipped) offsets that are not completed."""
        if self.handed_out == self.committable:
            return None
        return self.committable, self._firsts[0] if self._firsts else self.handed_out

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The completed ranges beyond the first gap, in order."""
        return list(zip(self._firsts, self._nexts, strict=True))
