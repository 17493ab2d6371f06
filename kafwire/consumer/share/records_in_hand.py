"""`RecordsInHand`: the acquired records of a share consumer on their way to the user, without any wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kafwire.consumer.share.acquired import ACCEPT
from kafwire.consumer.share.held_batch import HeldBatch
from kafwire.consumer.share.share_batch import ShareBatch
from kafwire.consumer.share.share_core import ShareCore
from kafwire.consumer.share.share_fetcher import FetchedRange

if TYPE_CHECKING:
    from kafwire.records._records import Record


class RecordsInHand:
    """The records in hand of one share consumer. In the thread that reads."""

    def __init__(self, core: ShareCore) -> None:
        self.fetched: deque[FetchedRange] = deque()  # acquired ranges that are not decoded
        self.waiting: deque[HeldBatch] = deque()  # decoded batches that were not delivered
        self._core = core
        self._in_hand: list[HeldBatch] = []
        self._batch: HeldBatch | None = None  # delivered one by one
        self._records: Iterator[Record] = iter(())

    def settle(self) -> None:
        """Accept the records in hand, in implicit mode, as the user reads on. Drop waiting ones whose locks expired."""
        held, self._in_hand = self._in_hand, []
        batch, self._batch, self._records = self._batch, None, iter(())
        if batch is not None:
            if not self._core.explicit:
                batch.accept_last()
            rest = batch.cut()
            if rest is not None:
                self.fetched.appendleft(rest)
        if not self._core.explicit:
            for each in held:
                each.say(None, ACCEPT)
        self._core.drop_expired(self.waiting)

    def decode(self) -> None:
        """Decode the first fetched range; an interrupt leaves it there. Raises what `ShareCore.batch_of` raises."""
        try:
            held = self._core.batch_of(self.fetched[0])
        except Exception:
            if not self.fetched[0].acquired.waits:  # its records were rejected
                self.fetched.popleft()
            raise
        if held is not None:
            self.waiting.append(held)
        self.fetched.popleft()

    def put_back(self, fetched: FetchedRange) -> None:
        """Take back a range that was not decoded, for the next read, unless its records were rejected."""
        if fetched.acquired.waits:
            self.fetched.appendleft(fetched)

    def take(self, most: int | None = None) -> list[ShareBatch]:
        """Deliver waiting batches: at most so many, or all.

        The next read accepts the batches in hand, so the last step puts them there: an interrupt loses none.
        """
        taken = list(islice(self.waiting, most))
        batches = [ShareBatch(held) for held in taken]
        for held in taken:
            held.acquired.see_all()
        self.waiting, self._in_hand = deque(islice(self.waiting, len(taken), None)), taken
        return batches

    def begin(self) -> None:
        """Begin the delivery of the next waiting batch's records. An interrupted call leaves the batch waiting."""
        batch, left = self.waiting[0], deque(islice(self.waiting, 1, None))
        records = batch.one_by_one() if self._core.explicit else batch.in_turn()
        self.waiting, self._batch, self._records = left, batch, records

    def next(self) -> Record | None:
        """Return the next record, which in implicit mode accepts the one before it; None: another batch is needed."""
        record = next(self._records, None)
        if record is None:
            self._batch = None
        return record
