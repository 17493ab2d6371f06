"""A topic copied to another topic of the same cluster, each record once, whenever the copier is killed.

Each transaction has the records and, in a compacted topic, the offsets behind them. A copier takes over its
transactional id first: that fences a former one, and ends its transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafwire.cluster.metadata import TopicInfo
from kafwire.errors import KafkaError, ProducerFencedError, TransactionAbortableError
from kafwire.lake.copy_progress import Progress
from kafwire.lake.unread_records import UnreadRecords
from kafwire.state_topic import PARTITION, ensure_topic, last_value
from kafwire.sync.client import Client
from kafwire.sync.producer import Producer

STATE_TOPIC = "kafwire-copies"
COLUMNS = ("timestamp", "key", "value", "headers")
_NOT_COMPACTED = "records whose progress is deleted from it could be copied again; set it to compact"
_DAMAGED = "delete it, or copy under another --name: both begin the copy again"


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

    @property
    def transactional_id(self) -> str:
        """The name of the copy for the transaction coordinator, and the key of its progress."""
        return f"kafwire-copy-{self.name}"

    def run(self) -> Iterator[int]:
        """Copy the records up to the current ends, and yield the number of each transaction's when it is committed."""
        info = self.client.topic(self.topic)
        kept = len(info.partitions) == len(self.client.partitions_for(self.target))
        ensure_topic(self.client, STATE_TOPIC, -1, _NOT_COMPACTED)
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

    def _copied(self, producer: Producer, info: TopicInfo, *, kept: bool) -> Iterator[int]:
        known: Mapping[int, int] = {}
        if (value := last_value(self.client, STATE_TOPIC, self.transactional_id)) is not None:
            progress = Progress.parsed(value, self._where, _DAMAGED)
            progress.check(self.topic, info.topic_id, self._where)
            known = progress.offsets
        reading = {**self.options, "columns": COLUMNS}
        unread = UnreadRecords(self.client, info, known, self._where, skip_lost=self.skip_lost, options=reading)
        rows = 0
        for batch in unread.batches():
            if not len(batch):
                continue
            if not rows:
                producer.begin_transaction()
            producer.send_batch(self.target, batch.to_arrow(), partition=batch.partition if kept else None)
            rows += len(batch)
            if rows >= self.rows:
                self._commit(producer, unread.progress)
                yield rows
                rows = 0
        if rows:
            self._commit(producer, unread.progress)
            yield rows

    @property
    def _where(self) -> str:
        return f"the progress {self.transactional_id!r} in the topic {STATE_TOPIC}"

    def _commit(self, producer: Producer, progress: Progress) -> None:
        key = self.transactional_id.encode()
        producer.send(STATE_TOPIC, progress.text.encode(), key=key, partition=PARTITION)
        producer.commit_transaction()
