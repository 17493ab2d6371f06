"""`RecordsInHand`: an acquired batch whose records are handed out one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

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
        self._last: Record | None = None

    def begin(self, batch: ShareBatch) -> None:
        """These come next."""
        self._batch, self._records, self._last = batch, iter(batch), None

    def next(self) -> Record | None:
        """The next record, and the one before it is processed; None: another batch is needed."""
        self._settle()
        self._last = next(self._records, None)
        if self._last is None:
            self._batch = None
        return self._last

    def leave(self) -> None:
        """Batches are asked for: the last record is processed, and those that nobody got are for others."""
        self._settle()
        if self._batch is not None and not self._explicit:
            self._batch.release()
        self._batch, self._records, self._last = None, iter(()), None

    def _settle(self) -> None:
        if self._batch is not None and self._last is not None and not self._explicit:
            self._batch.accept(self._last)
        self._last = None
