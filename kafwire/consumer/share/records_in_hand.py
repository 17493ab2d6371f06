"""`RecordsInHand`: an acquired batch whose records are delivered one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafwire.consumer.share.acquired import ACCEPT, OPEN
from kafwire.consumer.share.share_fetcher import FetchedRange

if TYPE_CHECKING:
    from kafwire.consumer.share.share_batch import ShareBatch
    from kafwire.records._records import Record


class RecordsInHand:
    """The records in hand of one share consumer. In implicit mode, each read accepts only the record before it."""

    def __init__(self, *, explicit: bool) -> None:
        """With `explicit`, reads accept no records."""
        self._explicit = explicit
        self._batch: ShareBatch | None = None
        self._records: Iterator[Record] = iter(())

    def begin(self, batch: ShareBatch) -> None:
        """Begin the delivery of this batch's records."""
        self._batch = batch
        self._records = _one_by_one(batch) if self._explicit else _in_turn(batch)

    def next(self) -> Record | None:
        """Return the next record, which accepts the one before it; None: another batch is needed."""
        record = next(self._records, None)
        if record is None:
            self._batch = None
        return record

    def leave(self) -> FetchedRange | None:
        """Accept the last record, as the user reads batches now. Return the undelivered records."""
        batch, self._batch, self._records = self._batch, None, iter(())
        if batch is None:
            return None
        if not self._explicit:
            _accept(batch, batch._acquired.unseen - 1)
        return batch._cut()


def _in_turn(batch: ShareBatch) -> Iterator[Record]:
    """Iterate over the records of a batch; each read accepts the record before it."""
    acquired, said, first = batch._acquired, batch._acquired.said, batch._acquired.first
    for record, offset in zip(batch._batch, batch._offsets, strict=True):
        index = offset - first
        acquired.unseen = index + 1
        yield record
        if said[index] == OPEN:
            said[index] = ACCEPT
        if not acquired.is_noted:
            batch._core.said(acquired)
            if batch._core.is_over(acquired):
                batch._core.expire_rest(acquired)
                return
    acquired.see_all()


def _one_by_one(batch: ShareBatch) -> Iterator[Record]:
    """Iterate over the records of a batch without acknowledging any."""
    acquired, first = batch._acquired, batch._acquired.first
    for record, offset in zip(batch._batch, batch._offsets, strict=True):
        if batch._core.is_over(acquired):
            batch._core.expire_rest(acquired)
            return
        acquired.unseen = offset - first + 1
        yield record
    acquired.see_all()


def _accept(batch: ShareBatch, index: int) -> None:
    if index >= 0 and batch._acquired.said[index] == OPEN:
        batch._acquired.said[index] = ACCEPT
        batch._core.said(batch._acquired)
