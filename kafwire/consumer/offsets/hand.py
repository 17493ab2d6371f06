"""`Hand`: the records in hand of one reader: delivered to the user, before the next read."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from operator import length_hint
from typing import NamedTuple

from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.records._records import Batch, RecordIterator, task_context
from kafwire.types import TopicPartition


class Handed(NamedTuple):
    """Rows in hand of one partition; they end before `next_offset`."""

    cursor: FetchCursor
    next_offset: int
    rows: int


class UnreadRemainder(NamedTuple):
    """The undelivered rest of a batch that is delivered record by record."""

    where: TopicPartition
    offset: int
    end: int
    processed: int


class Hand:
    """Whole batches in hand, or one batch whose records are delivered one by one.

    The hand knows its reader: the thread or the task that called the last delivering method. The context of a task
    identifies it: `asyncio.wait_for` and `asyncio.shield` may run the method in another task than the caller's, but the
    call itself happens in the caller's context.
    """

    def __init__(self, fetcher: Fetcher, batches: Iterable[Batch] = (), *, by_task: bool = False) -> None:
        """`batches` is the source of the records that are delivered one by one."""
        self.records = RecordIterator(batches)
        self.reader_kind = "task" if by_task else "thread"
        self._fetcher = fetcher
        self._by_task = by_task
        self._whole: list[Handed] = []
        self._cursor: FetchCursor | None = None  # of the records that are delivered one by one
        self._batch: Batch | None = None  # the batch of these records
        self._reader: object = self  # no reader yet

    # --- the reader -------------------------------------------------------------------------------------------------

    def caller(self) -> object:
        """Return the identity of the calling thread or task."""
        return task_context() if self._by_task else threading.get_ident()

    def read_by(self, caller: object) -> None:
        """Make `caller` the reader."""
        self._reader = caller

    def is_read_by(self, caller: object) -> bool:
        """Return True if the rows in hand were delivered to `caller`."""
        is_by_record = self.records.batch is not None and self.records.row
        reader = self._reader_of_records if is_by_record else self._reader
        return caller is reader if self._by_task else caller == reader  # contexts of equal variables are equal

    @property
    def _reader_of_records(self) -> object:
        return self.records.context if self._by_task else self.records.thread

    # --- whole batches ----------------------------------------------------------------------------------------------

    def give(self, batch: Batch) -> None:
        """Add a whole batch that is delivered to the user."""
        if batch.topic is None or batch.partition is None:
            return
        cursor = self._fetcher.cursors.get((batch.topic, batch.partition))
        if cursor is not None:
            self._whole.append(Handed(cursor, batch.next_offset, len(batch)))

    def ask(self) -> None:
        """Drop the whole batches from the hand, because the user reads on."""
        self._whole = []

    def seek(self, partitions: Iterable[TopicPartition] | None) -> None:
        """Drop whole batches of these partitions (None: all) from the hand, because of a seek."""
        left = () if partitions is None else set(partitions)
        self._whole = [
            each
            for each in self._whole
            if partitions is not None and (each.cursor.topic, each.cursor.partition) not in left
        ]

    # --- record by record -------------------------------------------------------------------------------------------

    def begin(self, batch: Batch) -> None:
        """Begin the delivery of this batch's records."""
        self.records.refuse(None)
        self._batch = batch  # before the look at its partition, as `forget` may come in between
        self._cursor = self._fetcher.cursors.get((str(batch.topic), int(batch.partition or 0)))
        if self._cursor is None:
            self.records.refuse(batch)

    def rest(self) -> tuple[TopicPartition, int] | None:
        """Return the partition that is delivered record by record, and the offset of its next record, or None."""
        batch = self.records.batch
        if batch is None or batch.topic is None or batch.partition is None:
            return None
        where = TopicPartition(batch.topic, batch.partition)
        if where not in self._fetcher.cursors:
            return None
        offset = self.records.next_offset
        return where, offset if offset >= 0 else batch.base_offset

    def next(self) -> tuple[TopicPartition, int] | None:
        """Return `rest`, or None if all records of the batch were delivered.

        The next record may then lie beyond the end of the batch: after the control batches that follow it.
        """
        return self.rest() if length_hint(self.records) else None

    def put_back(self, only: Iterable[TopicPartition] | None = None) -> UnreadRemainder | None:
        """Drop and return the undelivered rest of the batch (if of these partitions), which must be fetched again."""
        rest, batch = self.rest(), self.records.batch
        if rest is not None and only is not None and rest[0] not in only:
            return None
        processed = self.records.offset
        self._keep_current()
        self.records.drop()
        self._batch = None
        return (
            UnreadRemainder(*rest, batch.next_offset, processed)
            if rest is not None and isinstance(batch, Batch)
            else None
        )

    def forget(self, where: TopicPartition) -> None:
        """Drop the undelivered rest of a dropped partition's batch. Any thread.

        The group may have assigned the partition to another member already, which reads those records. The rows in hand
        stay listed until the next read, so that a commit can refuse them.
        """
        batch = self._batch
        if batch is not None and (batch.topic, batch.partition) == where:
            self._keep_current()
            self.records.refuse(batch)

    def _keep_current(self) -> None:
        """Keep the last delivered record in hand, without its batch."""
        if self._cursor is not None and self.records.batch is self._batch and self.records.offset >= 0:
            self._whole = [*self._whole, Handed(self._cursor, self.records.next_offset, 1)]
            self._reader = self._reader_of_records

    # --- processed, and in hand -------------------------------------------------------------------------------------

    def passed(self) -> list[Handed]:
        """Return the records before the last delivered one: the user has read beyond them."""
        rest, offset = self.rest(), self.records.offset
        if rest is None or offset < 0:
            return []
        cursor = self._fetcher.cursors.get(rest[0])
        return [] if cursor is None else [Handed(cursor, offset, 0)]

    def in_hand(self) -> list[Handed]:
        """Return the whole batches of the last read, and the last delivered record."""
        rest = self.rest()
        if rest is None or self.records.offset < 0:
            return list(self._whole)
        cursor = self._fetcher.cursors.get(rest[0])
        return list(self._whole) if cursor is None else [*self._whole, Handed(cursor, rest[1], 1)]


def rests_of(batches: Iterable[Batch]) -> list[UnreadRemainder]:
    """Return the remainder of each partition to fetch again if none of these batches is delivered."""
    found: dict[TopicPartition, UnreadRemainder] = {}
    for batch in batches:
        if batch.topic is not None and batch.partition is not None:
            where = TopicPartition(batch.topic, batch.partition)
            first = iter(batch).next_offset  # known if offsets are among the columns that were decoded
            found.setdefault(
                where, UnreadRemainder(where, first if first >= 0 else batch.base_offset, batch.next_offset, -1)
            )
    return list(found.values())
