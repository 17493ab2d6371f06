"""The control: workloads of confluent-kafka's producer. A fault that it meets too is the broker's, or the harness's."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

import confluent_kafka as ck

from tests.soak.runner import Runner

_POLL_S = 0.05
_CALL_S = 60.0
# The timeout after which an open transaction is aborted.
_TRANSACTION_MS = 20_000


class Base(Runner):
    """The common parts of both: a producer, and outcomes from its callback."""

    producer: ck.Producer

    def idle(self) -> None:
        """Let librdkafka call back."""
        self.producer.poll(0)

    def make(self, **more: Any) -> ck.Producer:
        """A producer with the workload's options, in librdkafka's names."""
        given = self.workload.options
        return ck.Producer(
            {
                **self.access.options(),
                "client.id": given["client_id"],
                "log_level": 0,
                "enable.idempotence": True,
                "compression.type": given["compression_type"],
                "linger.ms": given["linger_ms"],
                "batch.size": given["batch_size"],
                "request.timeout.ms": given["request_timeout_ms"],
                "socket.timeout.ms": given["request_timeout_ms"] + 2_000,
                "message.timeout.ms": given["delivery_timeout_ms"],
                "transaction.timeout.ms": _TRANSACTION_MS,
                "max.in.flight": given["max_in_flight_requests_per_connection"],
                **more,
            }
        )

    def produce(self, producer: ck.Producer, transaction: int = 0) -> None:
        """Send some rows, to a partition each by its key."""
        workload = self.workload
        keys = self.keys(workload.rows)
        topic = self.chance.choice(workload.topics)
        dresses = [
            self.dress(key, b"%d" % key, (key + transaction + (place if transaction else 0)) % topic.partitions)
            for place, key in enumerate(keys)
        ]
        made = self.writer.invoke(keys, transaction=transaction, size=workload.size, dresses=dresses)
        for dress, (sequence, value) in zip(dresses, made, strict=True):
            self.started += 1
            try:
                producer.produce(
                    topic.name,
                    value,
                    key=dress.key,
                    headers=list(dress.headers),
                    timestamp=dress.timestamp_ms or 0,  # 0: now
                    partition=-1 if dress.partition is None else dress.partition,
                    on_delivery=partial(self.on_delivery, sequence),
                )
            except (BufferError, ck.KafkaException) as error:
                self.failed([sequence], error, certain=True)
                self.settled += 1

    def on_delivery(self, sequence: int, error: ck.KafkaError | None, message: ck.Message) -> None:
        """Write down what became of a record."""
        self.settled += 1
        if error is None:
            where = message.topic(), message.partition(), message.offset()
            assert where[0] is not None
            assert where[1] is not None
            self.writer.ok(sequence, where[0], where[1], where[2])
            self.succeeded(1)
        else:
            # A purged record may be there: librdkafka reports which were in flight, and the transaction decides.
            self.failed([sequence], error.name() or "error", certain=False)


class Sender(Base):
    """Sends one by one, with many records under way."""

    def work(self) -> None:
        """Send until stopped, then wait for the open deliveries."""
        self.producer = self.make()
        while not self.stopping:
            self.pace(self.workload.rows)
            while len(self.producer) >= self.workload.window:
                self.producer.poll(_POLL_S)
            self.produce(self.producer)
        self.producer.flush(_CALL_S * 2)


class Transactions(Base):
    """Transactions over several partitions, some of them aborted."""

    def work(self) -> None:
        """Run one transaction after the other until stopped."""
        self.producer = self.fresh()
        while not self.stopping:
            self.pace(self.workload.rows)
            if not self.transaction(self.producer):
                self.producer = self.fresh()

    def fresh(self) -> ck.Producer:
        """A producer that has ended what one before it left open."""
        while True:
            timeout_ms = min(self.workload.options["delivery_timeout_ms"], _TRANSACTION_MS)
            producer = self.make(**{"transactional.id": self.workload.identity, "message.timeout.ms": timeout_ms})
            try:
                producer.init_transactions(_CALL_S)
            except ck.KafkaException as error:
                self.counts[f"error init {error.args[0].name()}"] += 1
                time.sleep(_POLL_S)
            else:
                return producer

    def transaction(self, producer: ck.Producer) -> bool:
        """Run one; whether the producer can go on."""
        number = self.writer.begin()
        outcome = "unknown"
        try:
            producer.begin_transaction()
            self.produce(producer, number)
            if self.chance.random() < self.workload.aborts:
                producer.flush(self.chance.choice((0.0, _CALL_S)))
                outcome = "abort" if self._call(producer.abort_transaction) else "unknown"
            elif self._call(producer.commit_transaction):
                outcome = "commit"
            else:
                outcome = "abort" if self._call(producer.abort_transaction) else "unknown"
        except ck.KafkaException as error:
            self.counts[f"error {error.args[0].name()}"] += 1
            producer.purge()
        with contextlib.suppress(ck.KafkaException):  # a fatal error is raised again; its consequence was taken in
            producer.flush(_CALL_S)
        self.writer.end(number, outcome)
        self.counts[outcome] += 1
        return outcome != "unknown"

    def _call(self, call: Any) -> bool:
        """Call until it is done, or cannot be: False if the transaction has to be aborted."""
        while True:
            try:
                call(_CALL_S)
            except ck.KafkaException as raised:
                error = raised.args[0]
                self.counts[f"error {error.name()}"] += 1
                if error.txn_requires_abort():
                    return False
                if not error.retriable():
                    raise
            else:
                return True
