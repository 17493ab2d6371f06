"""`RecordsInHand`: an acquired batch whose records are handed out one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafwire.consumer.share.acquired import ACCEPT, OPEN
from kafwire.consumer.share.share_fetcher import FetchedRange

if TYPE_CHECKING:
    from kafwire.consumer.share.share_batch import ShareBatch
    from kafwire.records._records import Record


class RecordsInHand:
    """Of one share consumer. In implicit mode a record is accepted when the next one is asked for, and no other is."""

    def __init__(self, *, explicit: bool) -> None:
        """`explicit`: nothing is accepted by this."""
        self._explicit = explicit
        self._batch: ShareBatch | None = None
        self._records: Iterator[Record] = iter(())

    def begin(self, batch: ShareBatch) -> None:
        """These come next."""
        self._batch = batch
        self._records = _one_by_one(batch) if self._explicit else _in_turn(batch)

    def next(self) -> Record | None:
        """The next record, and the one before it is processed; None: another batch is needed."""
        record = next(self._records, None)
        if record is None:
            self._batch = None
        return record

    def leave(self) -> FetchedRange | None:
        """Batches are asked for: the last record is processed. Returns the records that were not handed out."""
        batch, self._batch, self._records = self._batch, None, iter(())
        if batch is None:
            return None
        if not self._explicit:
            _accept(batch, batch._acquired.unseen - 1)
        return batch._cut()


def _in_turn(batch: ShareBatch) -> Iterator[Record]:
    """The records of a batch, each accepted when the next one is asked for."""
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
    """The records of a batch, of which nothing is said."""
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
