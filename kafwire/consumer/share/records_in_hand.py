"""`RecordsInHand`: an acquired batch whose records are handed out one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafwire.consumer.share.acquired import ACCEPT, OPEN

if TYPE_CHECKING:
    from kafwire.consumer.share.share_batch import ShareBatch
    from kafwire.records._records import Record


class RecordsInHand:
    """Of one share consumer. In implicit mode a record is accepted when the next one is asked for, and no other is."""

    def __init__(self, *, explicit: bool) -> None:
        """`explicit`: nothing is accepted or released by this."""
        self._explicit = explicit
        self._batch: ShareBatch | None = None
        self._records: Iterator[Record] = iter(())

    def begin(self, batch: ShareBatch) -> None:
        """These come next."""
        self._batch = batch
        self._records = iter(batch) if self._explicit else _in_turn(batch)

    def next(self) -> Record | None:
        """The next record, and the one before it is processed; None: another batch is needed."""
        record = next(self._records, None)
        if record is None:
            self._batch = None
        return record

    def leave(self) -> None:
        """Batches are asked for: the last record is processed, and those that nobody got are for others."""
        if self._batch is not None and not self._explicit:
            next(self._records, None)  # nobody gets it; the one before it is accepted
            self._batch.release()
        self._batch, self._records = None, iter(())


def _in_turn(batch: ShareBatch) -> Iterator[Record]:
    """The records of a batch, each accepted when the next one is asked for."""
    acquired, said, first = batch._acquired, batch._acquired.said, batch._acquired.first
    for record, offset in zip(batch._batch, batch._offsets, strict=True):
        yield record
        index = offset - first
        if said[index] == OPEN:
            said[index] = ACCEPT
        if not acquired.is_noted:
            batch._core.said(acquired)
