"""A topic copied to another topic of the same cluster, each record once, whenever the copier is killed.

Each transaction has the records and, in a compacted topic, the offsets behind them. A copier takes over its
transactional id first: that fences a former one, and ends its transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafwire.errors import KafkaError, ProducerFencedError, TransactionAbortableError
from kafwire.lake.copy_progress import Progress
from kafwire.lake.resume import Copied, check_topic_id, resume_at
from kafwire.state_topic import PARTITION, ensure_topic, last_value
from kafwire.sync.client import Client
from kafwire.sync.producer import Producer
from kafwire.types import Offset, TopicPartition

STATE_TOPIC = "kafwire-copies"
COLUMNS = ("timestamp", "key", "value", "headers")
_NOT_COMPACTED = "records whose progress is deleted from it could be copied again; set it to compact"
_DAMAGED = "delete it, or copy under another --name: both begin the copy again"


@dataclass(frozen=True, slots=True)
class CommittedRecords:
    """The records of one transaction."""

    rows: int


@dataclass(frozen=True, slots=True)
class TopicCopy:
    """The copy of one topic to `target`, by transactions of `rows` records or a little more.

    Keys, values, headers and timestamps are kept. Partitions are kept if both topics have the same number, else the
    keys choose them.
    """

    client: Client
    topic: str
    target: str
    name: str  # of the copy
    rows: int
    skip_lost: bool
    options: Mapping[str, Any]  # of a scan
    producer: Mapping[str, Any]  # options of the producer
    replication_factor: int = -1  # of the state topic

    @property
    def transactional_id(self) -> str:
        """The name of the copy for the transaction coordinator, and the key of its progress."""
        return f"kafwire-copy-{self.name}"

    def run(self) -> Iterator[CommittedRecords]:
        """Copy the records up to the current ends, and yield each transaction when it is committed."""
        info = self.client.topic(self.topic)
        kept = len(info.partitions) == len(self.client.partitions_for(self.target))
        ensure_topic(self.client, STATE_TOPIC, self.replication_factor, _NOT_COMPACTED)
        with Producer(**self.producer, transactional_id=self.transactional_id) as producer:
            producer.init_transactions()
            try:
                try:
                    yield from self._copied(producer, info, kept=kept)
                except TransactionAbortableError:
                    producer.abort_transaction()  # its coordinator alone reports that another producer has the id
                    raise
            except ProducerFencedError as error:
                raise KafkaError(
                    f"another copier of the name {self.name!r} took over: end one of the two, or give it another --name"
                ) from error

    def _copied(self, producer: Producer, info: Any, *, kept: bool) -> Iterator[CommittedRecords]:
        progress = self._progress()
        if progress is not None:
            where, remedy = self._where, "copy it under another --name"
            check_topic_id(self.topic, progress.topic_id, info.topic_id, where=where, remedy=remedy)
        places = [TopicPartition(self.topic, number) for number in sorted(info.partitions)]
        lows = self.client.offsets(places, "earliest")
        ends = self.client.offsets(places, "latest", isolation_level=self.options["isolation_level"])
        offsets = {each.partition: self._start(each, progress, lows[each], ends[each]) for each in places}
        unread = {each: Offset(ends[each]) for each in places if offsets[each.partition] < ends[each]}
        if not unread:
            return
        start = {each: Offset(offsets[each.partition]) for each in unread}
        with self.client.scan(self.topic, start=start, end=unread, columns=COLUMNS, **self.options) as scan:
            if scan._topic_ids[self.topic] != info.topic_id:
                raise KafkaError(f"topic {self.topic!r} was deleted and recreated during the copy: run it again")
            rows = 0
            producer.begin_transaction()
            for batch in scan.batches():
                number = batch.partition or 0
                producer.send_batch(self.target, batch.to_arrow(), partition=number if kept else None)
                offsets[number] = min(batch.next_offset, ends[TopicPartition(self.topic, number)])
                rows += len(batch)
                if rows >= self.rows:
                    yield self._commit(producer, Progress.new(self.topic, info.topic_id, offsets), rows)
                    rows = 0
                    producer.begin_transaction()
        # The last offsets may have no records: compaction, or markers of transactions.
        offsets |= {each.partition: ends[each] for each in unread}
        committed = self._commit(producer, Progress.new(self.topic, info.topic_id, offsets), rows)
        if rows:
            yield committed

    @property
    def _where(self) -> str:
        return f"the progress {self.transactional_id!r} in the topic {STATE_TOPIC}"

    def _progress(self) -> Progress | None:
        value = last_value(self.client, STATE_TOPIC, self.transactional_id)
        if value is None:
            return None
        progress = Progress.parsed(value, self._where, _DAMAGED)
        if progress.topic != self.topic:
            raise KafkaError(f"{self._where} is of the topic {progress.topic!r}: give this copy another --name")
        return progress

    def _start(self, place: TopicPartition, progress: Progress | None, low: int, end: int) -> int:
        after = None if progress is None else progress.offsets.get(place.partition)
        copied = None if after is None else Copied(after, self._where)
        return resume_at(f"{place.topic}-{place.partition}", copied, low, end, skip_lost=self.skip_lost)

    def _commit(self, producer: Producer, progress: Progress, rows: int) -> CommittedRecords:
        key = self.transactional_id.encode()
        producer.send(STATE_TOPIC, progress.text.encode(), key=key, partition=PARTITION)
        producer.commit_transaction()
        return CommittedRecords(rows)
