"""`Producer`: records and Arrow tables into topics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig, from_config
from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafwire.options import ProducerOptions
from kafwire.producer._accumulator import RecordSender
from kafwire.producer._batch import BatchDelivery, Delivery
from kafwire.producer.arguments import CLOSED, carry, check_partition, check_topic, given_up, no_room, wrong_argument
from kafwire.producer.sender import Sender
from kafwire.producer.transaction_manager import Transactions
from kafwire.records._arrow import RowsReader
from kafwire.runtime.engine import engine
from kafwire.serializer_calls import Serializers
from kafwire.sync.transaction import TransactionBlock
from kafwire.types import ConsumerGroupMetadata, TopicPartition


class Producer(RecordSender):
    """Sends records. Idempotent with acks="all" unless told otherwise. Thread-safe; a context manager.

    Options are those of `kafwire.config.ProducerConfig`; an unknown one, or a bad value, raises `ConfigError`. Records
    go out in batches of one partition, when `batch_size` bytes are together or `linger_ms` have passed; nothing has to
    be polled for that.
    """

    _serializers: Serializers

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[ProducerOptions]) -> None:
        self._config = ProducerConfig.build({"bootstrap_servers": bootstrap_servers, **options})
        serializers = Serializers.of(self._config, blocking=True)
        self._engine = engine()
        self._cluster = Cluster(self._engine, self._config)
        self._sender = Sender(self._cluster, self._config)
        self._accumulator = self._sender.accumulator
        self._closed = False
        if serializers is not None:
            self._serializers = serializers
            self.__class__ = _serializing(type(self))

    @classmethod
    def from_config(cls, options: Mapping[str, Any]) -> Self:
        """The same from Kafka's own option names: `{"bootstrap.servers": ..., "linger.ms": 5}`."""
        return cls(**from_config(ProducerConfig, options))

    def send_batch(self, topic: str | None, data: Any, *, partition: int | None = None) -> BatchDelivery:
        """Send every row of Arrow data: anything with `__arrow_c_stream__` or `__arrow_c_array__`.

        Columns: `value` (binary or string, large and view forms too), and optionally `key`, `partition` (an integer),
        `timestamp` (a timestamp, or an integer in ms) and `headers` (list<struct<key: string, value: binary>>). Nulls
        stand for: no key, no value, a partition of the partitioner's choice, now. With None for `topic`, a column
        `topic` says where each row goes; otherwise such a column is passed over. Rows of one partition keep their
        order. Blocks while `buffer_memory` is full, at most `max_block_ms` at a stretch. Raises as `send` does; what
        was buffered before an error is sent, and the error's `delivery` is the handle of it.
        """
        parts: list[tuple[Any, int, int]] = []
        try:
            for rows in self._pieces(topic, data):
                self._send_rows(topic, rows, partition, parts)
        except BaseException as error:
            carry(error, BatchDelivery(parts))
            raise
        return BatchDelivery(parts)

    def _pieces(self, topic: str | None, data: Any) -> Iterable[Any]:  # noqa: ARG002
        return (data,)

    def _send_rows(
        self, topic: str | None, data: Any, partition: int | None, parts: list[tuple[Any, int, int]]
    ) -> None:
        """`send_batch`; after an error or an interrupt too, `parts` says which rows are on their way."""
        self._check()
        self._engine.check_caller()
        if topic is not None:
            self._learn([topic], self._deadline())
        check_partition(partition)
        row = 0
        generation = self._accumulator.transaction_generation
        for rows in RowsReader(data):
            targets = self._accumulator.split_rows(topic, rows, row)
            self._learn([name for name, _ in targets], self._deadline())
            for name, chosen in targets:
                while (plan := self._accumulator.plan_rows(name, rows, partition, row, generation, chosen)) is None:
                    self._learn([name], self._deadline())  # it was forgotten: others took long
                while not self._accumulator.append_rows(plan, parts):
                    deadline = self._deadline()
                    self._learn([name], deadline)
                    if not self._accumulator.budget.wait(self._left(deadline)):
                        raise no_room(self._sender, self._config)
            row += len(rows)

    def flush(self, timeout: float | None = None) -> None:
        """Send what was buffered before this call and wait until every outcome is known; the deliveries carry them.

        Raises `KafkaTimeoutError` after `timeout` seconds (default: no limit but `delivery_timeout_ms`), which says how
        many records of which partitions are left.
        """
        self._check()
        self._engine.run(self._sender.flush(timeout))

    def purge(self, *, in_flight: bool = False) -> int:
        """Give up what is buffered, at once: its deliveries fail with `PurgedError`. Returns how many records it was.

        That is what is certainly not in the log: records that were not sent yet, and those that a broker refused and
        that wait to be sent again. What is in flight, or had no answer, goes on, unless `in_flight` is true: then it
        fails too, `in_doubt`. Nothing that is sent later waits for it but for the answer, or the lost connection, that
        ends its request. In a transaction, what is given up keeps it from being committed: abort it. Rows that another
        thread adds meanwhile may come after the purge. As librdkafka's; Java's producer has none.
        """
        self._check()
        return self._engine.run(self._sender.purge(in_flight=in_flight))

    # --- transactions -----------------------------------------------------------------------------------------------

    def transaction(self, timeout: float | None = None) -> TransactionBlock:
        """A transaction as a block: `with producer.transaction(): ...` commits at its end, and aborts on any exception.

        The exception goes on; if aborting failed, it has a note of that. What is sent in the block is seen by readers
        of committed records together, with the offsets of `send_offsets`, or not at all. Raises what
        `begin_transaction` and `commit_transaction` do; a transaction that could not be committed is aborted, unless
        the error is a `TransactionTimeoutError`: then its outcome is open, and `commit_transaction()` waits for it.
        Each call may take `timeout` seconds (default: `max_block_ms`). The block gives the producer.
        """
        self._transactional()
        return TransactionBlock(self, timeout)

    def init_transactions(self, timeout: float | None = None) -> None:
        """Make this producer the one that has the `transactional_id` (KIP-98).

        What producers with the same id left open is aborted, and they are fenced. So do this before you ask where they
        stopped, for committed offsets for instance; otherwise the first transaction does it. Raises
        `TransactionTimeoutError` after `timeout` seconds (default: `max_block_ms`; call it again), `TransactionError`.
        """
        self._engine.run(self._transactional().initialize(timeout))

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction. Raises `TransactionStateError` in one, `TransactionTimeoutError`, `TransactionError`."""
        self._engine.run(self._transactional().begin(timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Flush, and commit; returns when the coordinator has decided.

        `TransactionTimeoutError` after `timeout` seconds (default: `max_block_ms`): the commit goes on, call this again
        to wait for its outcome. `TransactionAbortableError`: a record or an offset could not be sent; abort.
        `TransactionFatalError` and `ProducerFencedError`: close the producer; whether the transaction was committed is
        not known if it was on its way.
        """
        self._engine.run(self._transactional().commit(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what was not sent, and abort; deliveries of the transaction fail with `TransactionAbortedError`.

        Those of records that were acknowledged before have succeeded, but readers of committed records do not see them.
        Raises as `commit_transaction` does.
        """
        self._engine.run(self._transactional().abort(timeout))

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Have offsets of a consumer group committed with the transaction, and only if it is (KIP-447).

        `offsets` are those of the next records to read, as for `Consumer.commit`; `group` is the group's id, or what
        `Consumer.group_metadata()` returns. Returns when the group's coordinator has them, or raises
        `TransactionAbortableError`, `TransactionTimeoutError` after `timeout` seconds (default: `max_block_ms`), and
        `ConfigError` for what is no offset.
        """
        self._engine.run(self._transactional().send_offsets(offsets, group, timeout))

    send_offsets_to_transaction = send_offsets

    def _transactional(self) -> Transactions:
        self._check()
        if self._sender.transactions is None:
            raise ConfigError("transactions need a transactional_id: give the producer one")
        return self._sender.transactions

    # --- the rest ---------------------------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions.

        Raises `BrokerError` (UNKNOWN_TOPIC_OR_PARTITION) when it does not exist, `KafkaConnectionError`,
        `KafkaTimeoutError`.
        """
        self._check()
        return self._engine.run(self._sender.cluster.partitions(topic))

    def metrics(self) -> dict[str, Any]:
        """A snapshot of counters and states; docs/producing.md has their names and units.

        `producer`: the totals, requests and the buffer; `partitions`: {TopicPartition: records, bytes, batches, time in
        the queue, retries, errors, ...}; `connections`: each connection's requests, bytes and latencies. Numbers are
        counted anyway, once for a batch; looking costs what it takes to build this.
        """
        self._check()
        return self._engine.run(self._sender.snapshot())

    def close(self, timeout: float | None = None) -> None:
        """Flush, then close. An open transaction is aborted; one that is being committed is seen through.

        What is not acknowledged after `timeout` seconds is given up, and a `KafkaTimeoutError` says how many records
        of which partitions that are. A second close, or one in a forked child, does nothing.
        """
        if self._closed or self._engine.is_over:
            return
        self._closed = True
        lost = self._engine.run(self._sender.close(timeout))
        if lost:
            raise given_up(lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An interrupt should end the program, not wait out the delivery time-out of an unreachable broker.
        if kind is None or issubclass(kind, Exception):
            self.close()
        else:
            with contextlib.suppress(KafkaTimeoutError):  # the interrupt counts; deliveries have errors of their own
                self.close(0.0)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._engine.is_over:
            self._engine.start(self._sender.retire)

    def _send_later(
        self, topic: str, value: Any, key: Any, headers: Any, timestamp_ms: int | None, partition: int | None
    ) -> Delivery:
        """`send`, of a record that found no room, or whose topic is new."""
        self._check()
        self._engine.check_caller()  # waiting for room on the engine would wait for ever
        deadline = self._deadline()
        while True:
            if topic not in self._accumulator.topics:
                self._learn([topic], deadline)
            elif not self._accumulator.budget.wait(self._left(deadline)):
                raise no_room(self._sender, self._config)
            delivery = self._accumulator.append(topic, value, key, headers, timestamp_ms, partition)
            if delivery is not None:
                return delivery

    def _refusal(self, topic: Any, headers: Any, timestamp_ms: Any, partition: Any, error: Exception) -> ConfigError:
        return wrong_argument(topic, headers, timestamp_ms, partition, error)

    def _check(self) -> None:
        self._engine.check_process()
        if self._closed:
            raise KafkaError(CLOSED)

    def _learn(self, topics: list[str], deadline: float) -> None:
        """See that these are known to the accumulator."""
        new = [topic for topic in topics if not isinstance(topic, str) or topic not in self._accumulator.topics]
        if not new:
            return
        self._check()
        for topic in new:
            check_topic(topic)
        self._engine.run(self._sender.ensure_metadata(new, self._left(deadline) * 1000))

    def _deadline(self) -> float:
        return time.monotonic() + self._config.max_block_ms / 1000

    @staticmethod
    def _left(deadline: float) -> float:
        return max(0.0, deadline - time.monotonic())


class _SerializingProducer(Producer):
    """One with serializers. A class of its own, so that `send` of one without has nothing to look at."""

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Any = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """`Producer.send`; `value` and `key` are what the serializers take. Raises `SerializationError` too."""
        check_topic(topic)
        value, key, headers = self._serializers.serialize(topic, value, key, headers)
        return super().send(topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition)

    def _pieces(self, topic: str | None, data: Any) -> Iterable[Any]:
        return self._serializers.chunks(topic, data)


def _serializing(kind: type[Producer]) -> type[Producer]:
    """A kind of producer, whose own methods come first, with serializers."""
    return _SerializingProducer if kind is Producer else type(kind.__name__, (kind, _SerializingProducer), {})
