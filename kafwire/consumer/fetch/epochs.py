"""The leader epochs of a partition's fetched records, which a commit must name (KIP-320)."""

from __future__ import annotations

import struct

from kafwire.memory._buffer import Buffer
from kafwire.records.batches import OVERHEAD

BATCH_HEAD = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
MAGIC_WITH_EPOCH = 2
MOST = 32  # most ranges that are remembered: leaders change seldom


class FetchedEpochs:
    """Ranges of offsets, each without a gap and with one leader epoch."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, int]] = []  # (start, end, epoch), in the order of their offsets

    def note(self, start: int, end: int, epoch: int) -> None:
        """Note the epoch of [start, end) (-1: not known). Earlier notes from `start` on are dropped."""
        self.cut(start)
        if epoch < 0 or end <= start:
            return
        last = self._ranges[-1] if self._ranges else (0, -1, -1)
        if last[1:] == (start, epoch):
            start = self._ranges.pop()[0]
        self._ranges.append((start, end, epoch))
        del self._ranges[:-MOST]

    def note_batches(self, frame: Buffer, position: int, size: int, start: int, next_offset: int, last: int) -> None:
        """Note the epochs of whole batches from byte `position` on, which are [start, next_offset) of the log.

        `last` is the epoch of the last batch. Epochs only rise, so once a batch has this epoch, all later ones do.
        """
        view = memoryview(frame)
        if last < 0:
            self.cut(start)
            return
        at, end = position, position + size
        while at < end:
            _, length, epoch, magic = BATCH_HEAD.unpack_from(view, at)
            epoch = epoch if magic == MAGIC_WITH_EPOCH else -1
            if epoch == last:
                break
            at += OVERHEAD + length
            following = BATCH_HEAD.unpack_from(view, at)[0] if at < end else next_offset
            self.note(start, following, epoch)
            start = max(start, following)
        self.note(start, next_offset, last)

    def cut(self, offset: int) -> None:
        """Forget the epochs from `offset` on."""
        while self._ranges and self._ranges[-1][1] > offset:
            start, _, epoch = self._ranges.pop()
            if start < offset:
                self._ranges.append((start, offset, epoch))

    def before(self, offset: int) -> int:
        """Return the epoch of the record before `offset`; -1 if it is not known."""
        return next((epoch for start, end, epoch in reversed(self._ranges) if start < offset <= end), -1)
