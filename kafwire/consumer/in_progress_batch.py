"""A batch whose records are handed out one by one: what of it is processed, and what is left to be fetched again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import length_hint
from typing import NamedTuple

from kafwire.consumer.arguments import cursor_of
from kafwire.consumer.fetcher import Fetcher
from kafwire.records._records import Batch, RecordIterator
from kafwire.types import TopicPartition


class InProgressBatch:
    """What a consumer's user has in hand, record by record: the rest of that batch is not in the queue any more."""

    def __init__(self, fetcher: Fetcher, batches: Iterator[Batch]) -> None:
        self.records = RecordIterator(batches)
        self._fetcher = fetcher

    def rest(self) -> tuple[TopicPartition, int] | None:
        """The partition in hand, and the offset of its next record; None when nothing is."""
        batch = self.records.batch
        if batch is None or batch.topic is None or batch.partition is None:
            return None
        where = TopicPartition(batch.topic, batch.partition)
        if where not in self._fetcher.cursors:
            return None
        offset = self.records.next_offset
        return where, offset if offset >= 0 else batch.base_offset

    def next(self) -> tuple[TopicPartition, int] | None:
        """The partition in hand and the offset of its next record; None when all in hand were handed out.

        Then the next one may lie further on than where the batch ended: behind markers that came after it.
        """
        return self.rest() if length_hint(self.records) else None

    def put_back(self, only: Iterable[TopicPartition] | None = None) -> UnreadRemainder | None:
        """Let go of what is in hand (of these partitions); what is left of it is to be fetched again."""
        rest, batch = self.rest(), self.records.batch
        if rest is not None and only is not None and rest[0] not in only:
            return None
        processed = self._processed()
        self.records.drop()
        return (
            UnreadRemainder(*rest, batch.next_offset, processed)
            if rest is not None and isinstance(batch, Batch)
            else None
        )

    def forget(self, where: TopicPartition) -> None:
        """The partition is not read any more: what is left of its batch is not handed out. May be called in any thread.

        The group may have given it to another member already, which reads those records.
        """
        batch = self.records.batch
        if batch is not None and (batch.topic, batch.partition) == where:
            self.records.drop()

    def _processed(self) -> int:
        """The offset of the record that was handed out last: those before it are processed. -1: none was."""
        return self.records.offset

    def mark_processed(self) -> None:
        """Of the batch in hand, all records before the last one that was handed out are processed."""
        rest, offset = self.rest(), self._processed()
        if rest is not None and offset >= 0:
            queue, number = self._fetcher.queue, cursor_of(self._fetcher.cursors, rest[0]).number
            if offset > queue.processed(number):  # more may have been committed by hand
                queue.process(number, offset)


class UnreadRemainder(NamedTuple):
    """What is left of a batch that is handed out record by record."""

    where: TopicPartition
    offset: int
    end: int
    processed: int


def rests_of(batches: Iterable[Batch]) -> list[UnreadRemainder]:
    """What has to come again if nobody gets these batches; of each partition only the first."""
    found: dict[TopicPartition, UnreadRemainder] = {}
    for batch in batches:
        if batch.topic is not None and batch.partition is not None:
            where = TopicPartition(batch.topic, batch.partition)
            first = iter(batch).next_offset  # known if offsets are among the columns that were decoded
            found.setdefault(
                where, UnreadRemainder(where, first if first >= 0 else batch.base_offset, batch.next_offset, -1)
            )
    return list(found.values())
