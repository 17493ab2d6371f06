"""Workloads of kafwire's transactional producer: transactions of its own, and records read, transformed and written."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafwire
from kafwire.errors import KafkaError, TransactionError, TransactionTimeoutError
from kafwire.records import Batch
from kafwire.types import TopicPartition
from tests.soak.runner import Runner, name_of

_CALL_S = 60.0
_POLL_S = 0.2
_PAUSE_S = 0.1
# So many of the transactions that are aborted have all their records in the logs.
_FLUSHED = 0.5
# And in so many of all another producer takes over.
_USURPED = 0.01
# The timeout after which an open transaction is aborted.
TRANSACTION_MS = 20_000


class Planned(Exception):
    """An abort that was drawn."""


class Transactions(Runner):
    """Transactions of some records over several partitions, some of them aborted."""

    make: Callable[..., Any] = kafwire.Producer

    def work(self) -> None:
        """Run one after the other until stopped."""
        self.producer = self.fresh()
        while not self.stopping:
            self.pace(self.workload.rows)
            if self.chance.random() < _USURPED:
                self.usurp()
            elif self.transaction(self.workload.rows) is None:
                self.renew()
        self.producer.close()

    def usurp(self) -> None:
        """Another producer with the same id takes over in the middle of a transaction of this one, which goes on.

        No reader of committed records sees the records of the one before it, which gets an error.
        """
        self.started += 1
        number = self.writer.begin()
        old = self.producer
        sent: list[tuple[int, kafwire.Delivery]] = []
        begun = False
        try:
            old.begin_transaction(_CALL_S)
            begun = True
            self._send(number, self.workload.rows // 2 or 1, sent)
            if self.chance.random() < _FLUSHED:
                old.flush(_CALL_S)
        except KafkaError as error:
            self.counts[f"error usurped {name_of(error)}"] += 1
        self.producer = self.fresh()
        try:
            if begun:
                old.commit_transaction(_CALL_S)
                raise AssertionError(f"transaction {number} was committed by a producer that another had replaced")
        except TransactionError as error:
            self.counts[f"error usurped {name_of(error)}"] += 1
        try:
            old.close(0.0)
        except KafkaError as error:
            self.counts[f"error close {name_of(error)}"] += 1
        self._settle(sent, "usurped ")
        self.writer.end(number, "abort")
        self.counts["aborted"] += 1
        self.counts["usurped"] += 1
        self.settled += 1

    def fresh(self) -> Any:
        """A producer, with all that one before it left open decided."""
        workload = self.workload
        options = workload.options | {
            "transactional_id": workload.identity,
            "transaction_timeout_ms": TRANSACTION_MS,
        }
        while True:
            producer = self.make(**self.access.options(), **options)
            try:
                producer.init_transactions(_CALL_S)
            except TransactionError as error:
                self.counts[f"error init {name_of(error)}"] += 1
                producer.close(0.0)
                time.sleep(_PAUSE_S)
            else:
                return producer

    def renew(self) -> None:
        """Put a fresh producer in the place of one that can do nothing more."""
        try:
            self.producer.close(0.0)
        except KafkaError as error:
            self.counts[f"error close {name_of(error)}"] += 1
        self.producer = self.fresh()

    def transaction(self, rows: int, offsets: Mapping[TopicPartition, int] | None = None) -> bool | None:
        """Run one: True if it was committed; None if the outcome is unknown, and the producer is of no more use."""
        self.started += 1
        number = self.writer.begin()
        sent: list[tuple[int, kafwire.Delivery]] = []
        committed: bool | None
        try:
            with self.producer.transaction(_CALL_S):
                if offsets:
                    self.writer.offsets(number, self.workload.group, offsets)
                    self.producer.send_offsets(offsets, self.workload.group, _CALL_S)
                self._send(number, rows, sent)
                if self.chance.random() < self.workload.aborts:
                    if self.chance.random() < _FLUSHED:
                        self.producer.flush(_CALL_S)
                    raise Planned
            committed = True
        except (Planned, KafkaError) as error:
            committed = self._decide(error)
        self._settle(sent)
        self.writer.end(number, {True: "commit", False: "abort", None: "unknown"}[committed])
        self.counts[{True: "committed", False: "aborted", None: "undecided"}[committed]] += 1
        if committed:
            self.last_success = time.monotonic()
        self.settled += 1
        return committed

    def _decide(self, error: Exception) -> bool | None:
        """The outcome of a transaction whose block raised."""
        if not isinstance(error, Planned):
            self.counts[f"error {name_of(error)}"] += 1
        if hasattr(error, "__notes__"):  # it could not be aborted
            return None
        if not isinstance(error, TransactionTimeoutError):
            return None if getattr(error, "fatal", False) else False
        try:
            self.producer.commit_transaction(_CALL_S)
        except KafkaError as again:
            self.counts[f"error again {name_of(again)}"] += 1
            return None
        return True

    def _send(self, number: int, rows: int, sent: list[tuple[int, kafwire.Delivery]]) -> None:
        topics = self.workload.topics
        dresses = []
        keys = self.keys(rows)
        for place, key in enumerate(keys):
            topic = topics[(number + place) % len(topics)]
            dresses.append(self.dress(key, b"%d" % key, (key + place) % topic.partitions))
        made = self.writer.invoke(keys, transaction=number, size=self.workload.size, dresses=dresses)
        left = [sequence for sequence, _ in made]
        try:
            for place, (dress, (sequence, value)) in enumerate(zip(dresses, made, strict=True)):
                delivery = self.producer.send(
                    topics[(number + place) % len(topics)].name,
                    value,
                    key=dress.key,
                    headers=dress.headers or None,
                    timestamp_ms=dress.timestamp_ms,
                    partition=dress.partition,
                )
                sent.append((sequence, delivery))
                del left[0]
        finally:
            if left:
                self.writer.fail(left, "not sent")

    def _settle(self, sent: Sequence[tuple[int, kafwire.Delivery]], prefix: str = "") -> None:
        """Write down what became of the records; all outcomes are known when a transaction is decided."""
        for sequence, delivery in sent:
            if not delivery.done():
                self.failed([sequence], "open", certain=False, prefix=prefix)
            elif (error := delivery.exception(0)) is not None:
                self.failed([sequence], error, certain=not error.in_doubt, prefix=prefix)
            else:
                meta = delivery.result(0)
                self.writer.ok(sequence, meta.topic, meta.partition, meta.offset)
                self.counts["acked"] += 1


class Transform(Transactions):
    """Reads a topic, and writes a record for each that it reads, with the offsets in the transaction.

    The records that committed transactions have read are contiguous: each begins where the one before it ended.
    """

    def work(self) -> None:
        """Run one transaction for each batch that is read, until stopped."""
        source = self.workload.source
        assert source is not None
        self._places = [TopicPartition(source.name, number) for number in range(source.partitions)]
        self._at = dict.fromkeys(self._places, 0)
        self.producer = self.fresh()
        while not self.stopping:
            with kafwire.Consumer(
                **self.access.options(),
                assign=self._places,
                group_id=self.workload.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                request_timeout_ms=self.workload.options["request_timeout_ms"],
                chunk_bytes=1,
                client_id=self.workload.options["client_id"],
            ) as consumer:
                while not self.stopping:
                    try:
                        batches = consumer.poll(_POLL_S)
                    except KafkaError as error:  # damaged on its way: it is read again
                        self.counts[f"error poll {name_of(error)}"] += 1
                        self._rewind(consumer)
                        continue
                    if not self._transform(consumer, batches):
                        break
            if not self.stopping:
                self.renew()
        self.producer.close()

    def _transform(self, consumer: kafwire.Consumer, batches: list[Batch]) -> bool:
        """A transaction for each batch; False if the producer is of no more use."""
        for batch in batches:
            if not len(batch):
                continue
            self.pace(len(batch))
            if self.stopping:
                return True
            where = TopicPartition(batch.topic or "", batch.partition or 0)
            if batch.base_offset < self._at[where]:
                message = f"{where} is at {self._at[where]}, and was given {batch.base_offset} again"
                raise AssertionError(message)
            next_offset = batch.next_offset
            committed = self.transaction(len(batch), {where: next_offset})
            if committed:
                self._at[where] = next_offset
            elif committed is None:
                self._resolve(consumer, where, next_offset)
                return False
            else:
                self._rewind(consumer)
                return True
        return True

    def _rewind(self, consumer: kafwire.Consumer) -> None:
        """Read again what was not committed."""
        for where, offset in self._at.items():
            consumer.seek(where, offset)

    def _resolve(self, consumer: kafwire.Consumer, where: TopicPartition, next_offset: int) -> None:
        """Find out whether a transaction was committed, now that a fresh producer has everything decided."""
        self.renew()
        found = {place: offset or 0 for place, offset in consumer.committed(self._places).items()}
        if found not in (self._at, self._at | {where: next_offset}):
            message = f"{self.workload.group} is at {found}; {self._at} or {next_offset} for {where} were expected"
            raise AssertionError(message)
        self._at = found
