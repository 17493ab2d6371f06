"""`Producer`: records and Arrow tables into topics."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafwire.calls.producer import (
    ProducerCalls,
    RowsToSend,
    carry,
    check_partition,
    check_topic,
    keywords_of,
    producer_parts,
    serializing,
    wrong_argument,
)
from kafwire.config import ProducerConfig
from kafwire.config.checks import described_by
from kafwire.errors import ConfigError, KafkaTimeoutError, UnknownPartition
from kafwire.handles import refuse_copy
from kafwire.peer_names import PRODUCER_ARGUMENTS, ProducerNames, refuse_arguments
from kafwire.producer.buffer._accumulator import RecordSender
from kafwire.producer.buffer._batch import BatchDelivery, Delivery
from kafwire.producer.core import CLOSED, ProducerCore
from kafwire.producer.send.flush import closed_early
from kafwire.runtime.client import PushingClient
from kafwire.runtime.interfaces import Engine
from kafwire.serializer_calls import Serializers
from kafwire.types import ConsumerGroupMetadata, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    from kafwire.config.typed_options import ProducerOptions
    from kafwire.sync.client import Client
    from kafwire.sync.transaction import TransactionBlock


@refuse_arguments(PRODUCER_ARGUMENTS, blocking=True)
@described_by(ProducerConfig)
class Producer(RecordSender, ProducerNames, PushingClient):
    """A sender of records: idempotent, with acks="all", unless configured otherwise. Thread-safe; a context manager.

    Records are collected into batches, each of one partition. A batch is sent when it has `batch_size` bytes, or after
    `linger_ms`. No call of `poll` is needed for that.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ProducerConfig`, for example `compression_type="lz4"`.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range.

    Example:
        >>> with kafwire.Producer(bootstrap, linger_ms=5) as producer:
        ...     delivery = producer.send(topic, b"EWR-IAH", key=b"UA")
        ...     delivery.result(timeout=10).offset
        3
    """

    __reduce_ex__ = refuse_copy
    _calls: ProducerCalls

    _serializers: Serializers
    _closed_text = CLOSED

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        engine: Engine | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._open(*producer_parts({"bootstrap_servers": bootstrap_servers, **options}, engine, blocking=True))

    @classmethod
    def _sharing(cls, client: Client, options: Mapping[str, Any]) -> Self:
        """Make a producer on the connections of a client, which stay open when the producer is closed."""
        producer = cls.__new__(cls)
        producer._open(*producer_parts(options, None, blocking=True, shared=client._cluster))
        return producer

    def _open(self, core: ProducerCore, serializers: Serializers | None) -> None:
        self._core, self._config, self._cluster = core, core.config, core.cluster
        self._pushing = core.pushing
        self._calls = ProducerCalls(core)
        self._engine = self._cluster.engine
        self._accumulator = core.accumulator
        self._closed = False
        if serializers is not None:
            self._serializers = serializers
            kind: Any = type(self)  # mypy does not accept these classes as hashable
            self.__class__ = serializing(kind, Producer, _SerializingProducer)

    @classmethod
    def from_config(cls, options: Mapping[str, Any], *, engine: Engine | None = None) -> Self:
        """Make a producer from Kafka's own option names.

        Args:
            options: option names of the Java client and librdkafka, with their values.
            engine: the engine to run on; None: the engine of this process.

        Returns:
            The producer.

        Raises:
            ConfigError: an option is unknown, not supported, or has a bad value.

        Example:
            >>> kafwire.Producer.from_config({"bootstrap.servers": bootstrap, "linger.ms": 5}).close()
        """
        return cls(engine=engine, **keywords_of(options))

    def send_batch(self, topic: str | None, data: Any, *, partition: int | None = None) -> BatchDelivery:
        """Send every row of Arrow data.

        Rows of one partition keep their order. The call blocks while `buffer_memory` is full, for at most
        `max_block_ms` at a time.

        Args:
            topic: the topic. None: a column `topic` has the topic of each row; otherwise such a column is ignored.
            data: anything with `__arrow_c_stream__` or `__arrow_c_array__`. Columns: `value` (binary or string, large
                and view types too), and optionally `key`, `partition` (integer), `timestamp` (timestamp, or integer
                milliseconds) and `headers` (list<struct<key: string, value: binary>>). A null means: no value, no key,
                a partition that the partitioner chooses, the current time.
            partition: the partition of all rows; None leaves it to the column or to the partitioner.

        Returns:
            A `BatchDelivery`, the handle of all rows.

        Raises:
            ConfigError: the data has no usable columns, or an argument is not valid.
            BrokerError: a topic does not exist.
            RecordTooLargeError: a row is larger than `max_request_size`.
            KafkaTimeoutError: there was no metadata or no room within `max_block_ms`.
            KafkaError: all of these have the handle of the rows that were buffered before the error as `delivery`.
                Those rows are sent.

        Example:
            >>> delivery = producer.send_batch(topic, pa.table({"key": ["AA", "B6"], "value": ["JFK-MIA", "JFK-BQN"]}))
            >>> [(r[2], r[3]) for r in delivery.result(timeout=10)]
            [(3, 2)]
        """
        rows = RowsToSend(self._accumulator, topic, self._pieces(topic, data), partition)
        try:
            self._send_rows(topic, rows)
        except BaseException as error:
            carry(error, BatchDelivery(rows.parts))
            raise
        return BatchDelivery(rows.parts)

    def _pieces(self, topic: str | None, data: Any) -> Iterable[Any]:  # noqa: ARG002
        return (data,)

    def _send_rows(self, topic: str | None, rows: RowsToSend) -> None:
        """Send rows as `send_batch` does; their `parts` are the buffered rows, even after an error or an interrupt."""
        self._check()
        self._engine.check_caller()
        if topic is not None:
            self._learn([topic], self._deadline())
        rows.partition = check_partition(rows.partition)
        while not rows.go_on():
            deadline = self._deadline()
            if rows.missing is not None:
                self._learn_partition(rows.missing, deadline)
            elif rows.unknown:
                self._learn(rows.unknown, deadline)
            elif not self._accumulator.budget.wait(self._left(deadline)):
                raise self._core.no_room()

    def flush(self, timeout: float | None = None) -> None:
        """Send the records that were buffered before this call, and wait until every outcome is known.

        The deliveries have the outcomes.

        Args:
            timeout: seconds to wait; None: no limit but `delivery_timeout_ms`.

        Raises:
            KafkaTimeoutError: records are left; the text has their number and partitions.

        Example:
            >>> delivery = producer.send(topic, b"EWR-IAH")
            >>> producer.flush(timeout=10)
            >>> delivery.done()
            True
        """
        self._run(self._calls.flush(timeout))

    def purge(self, *, in_flight: bool = False) -> int:
        """Give up buffered records at once. Their deliveries fail with `PurgedError`.

        Without `in_flight` these are records that are certainly not in the log: records that were not sent yet, and
        records that a broker refused and that wait for a retry. A transaction with purged records cannot be committed:
        abort it. Rows that another thread adds at the same time may stay.

        Args:
            in_flight: give up records in flight, or without a response, too; they fail as `in_doubt`.

        Returns:
            The number of records that were given up.

        Raises:
            KafkaError: the producer is closed.

        Example:
            >>> with kafwire.Producer(bootstrap, linger_ms=60_000) as producer:
            ...     delivery = producer.send(topic, b"EWR-IAH")
            ...     producer.purge()
            1
            >>> delivery.exception()
            PurgedError(...)
        """
        return self._run(self._core.purge, in_flight=in_flight)

    # --- transactions -----------------------------------------------------------------------------------------------

    def transaction(self, timeout: float | None = None) -> TransactionBlock[Self]:
        """Run a block as a transaction: commit at its end, abort on any exception.

        Readers of committed records see all records of the block, with the offsets of `send_offsets`, or none. An
        exception is raised again after the abort, with a note if aborting failed. A transaction that cannot be
        committed is aborted, unless the error is a `TransactionTimeoutError`: then its outcome is open, and
        `commit_transaction()` waits for it.

        Args:
            timeout: seconds for each call; by default `max_block_ms`.

        Returns:
            A context manager, which returns the producer.

        Raises:
            ConfigError: the producer has no `transactional_id`.
            TransactionError: as `begin_transaction` and `commit_transaction` do.

        Example:
            >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
            ...     with producer.transaction():
            ...         delivery = producer.send(topic, b"EWR-IAH")
            >>> delivery.result().offset
            3
        """
        self._check()
        from kafwire.sync.transaction import TransactionBlock

        return TransactionBlock(self, self._calls.transactions(), timeout)

    def init_transactions(self, timeout: float | None = None) -> None:
        """Take over the `transactional_id` (KIP-98).

        Open transactions of other producers with this id are aborted, and those producers are fenced. Call it before
        you look up their last offsets, for example committed ones. Otherwise the first transaction calls it.

        Args:
            timeout: seconds to wait; by default `max_block_ms`.

        Raises:
            ConfigError: the producer has no `transactional_id`.
            TransactionTimeoutError: the timeout passed; call it again.
            TransactionError: the coordinator refuses the producer.

        Example:
            >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
            ...     producer.init_transactions()
        """
        self._run(self._calls.init_transactions(timeout))

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begin a transaction.

        Args:
            timeout: seconds to wait; by default `max_block_ms`.

        Raises:
            ConfigError: the producer has no `transactional_id`.
            TransactionStateError: a transaction is open already.
            TransactionTimeoutError: the timeout passed; call it again.
            TransactionError: the coordinator refuses the producer.

        Example:
            >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
            ...     producer.begin_transaction()
            ...     delivery = producer.send(topic, b"EWR-IAH")
            ...     producer.commit_transaction()
        """
        self._run(self._calls.begin_transaction(timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Flush, and commit. Returns when the coordinator has committed or refused.

        Args:
            timeout: seconds to wait; by default `max_block_ms`.

        Raises:
            TransactionTimeoutError: the timeout passed; the commit continues. Call this again to wait for its outcome.
            TransactionAbortableError: a record or an offset could not be sent. Abort the transaction.
            TransactionFatalError: close the producer. A commit in progress has an unknown outcome.
            ProducerFencedError: another producer has taken over the `transactional_id`. Close this one.
            TransactionStateError: there is no transaction.
        """
        self._run(self._calls.commit_transaction(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop unsent records, and abort. Deliveries of the transaction fail with `TransactionAbortedError`.

        Deliveries of records that were acknowledged before have succeeded, but readers of committed records do not see
        these records.

        Args:
            timeout: seconds to wait; by default `max_block_ms`.

        Raises:
            TransactionTimeoutError: the timeout passed; the abort continues. Call this again to wait for its outcome.
            TransactionFatalError: close the producer.
            TransactionStateError: there is no transaction.

        Example:
            >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
            ...     producer.begin_transaction()
            ...     producer.abort_transaction()
        """
        self._run(self._calls.abort_transaction(timeout))

    def detach(self, timeout: float | None = None) -> TransactionHandle:
        """Flush, and detach the open transaction: another process commits or aborts it by its handle.

        Until then, or until `transaction_timeout_ms`, the transaction stays open at its coordinator. This producer
        sends no more records: it can only be closed, which leaves the transaction open.

        Args:
            timeout: seconds to wait; by default `max_block_ms`.

        Returns:
            The handle.

        Raises:
            ConfigError: the producer has no `transactional_id`.
            TransactionAbortableError: a record or an offset could not be sent. Abort the transaction.
            TransactionStateError: there is no transaction, or it has no records.
            TransactionTimeoutError: the timeout passed. Call this again to wait for the handle, or abort.
            TransactionFatalError: close the producer.

        Example:
            >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
            ...     producer.begin_transaction()
            ...     delivery = producer.send(topic, b"EWR-IAH")
            ...     handle = producer.detach()
            >>> request = kafwire.protocol.EndTxnRequest(**handle._asdict(), committed=True)
        """
        return self._run(self._calls.detach(timeout))

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a consumer group with the transaction, and only with it (KIP-447).

        Returns when the group's coordinator has them.

        Args:
            offsets: for each partition the offset of the next record, as `Consumer.processed()` returns them.
            group: the group's id, or the result of `Consumer.group_metadata()`.
            timeout: seconds to wait; by default `max_block_ms`.

        Raises:
            ConfigError: an offset is not valid.
            TransactionAbortableError: the offsets could not be added. Abort the transaction.
            TransactionTimeoutError: the timeout passed.
            TransactionStateError: there is no transaction.

        Example:
            >>> with kafwire.Producer(bootstrap, transactional_id=new_topic) as producer:
            ...     with producer.transaction():
            ...         for batch in consumer.batches(timeout=1.0):
            ...             for record in batch:
            ...                 delivery = producer.send(other_topic, record.value)
            ...         producer.send_offsets(consumer.processed(), consumer.group_metadata())
            >>> consumer.committed()[partition]
            3
        """
        self._run(self._calls.send_offsets(offsets, group, timeout))

    send_offsets_to_transaction = send_offsets

    # --- the rest ---------------------------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> set[int]:
        """Look up the numbers of a topic's partitions.

        Args:
            topic: the topic.

        Returns:
            The partition numbers.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION if the topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `max_block_ms`.

        Example:
            >>> producer.partitions_for(topic)
            {0}
        """
        return self._run(self._core.cluster.partitions, topic)

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of counters and states. docs/operate/metrics.md has names and units.

        Returns:
            `producer`: the totals, requests and the buffer. `partitions`: records, bytes, batches, time in the queue,
            retries, errors and others of each partition, by name (`flights-0`). `connections`: requests, bytes and
            latencies of each connection. `json.dumps` takes all of it.

        Raises:
            KafkaError: the producer is closed.

        Example:
            >>> sorted(producer.metrics())
            ['connections', 'partitions', 'producer']
        """
        return self._run(self._core.snapshot)

    def close(self, timeout: float | None = None) -> None:
        """Flush, then close. An open transaction is aborted; one that is being committed is completed.

        A second close does nothing, nor does a close in a forked child.

        Args:
            timeout: seconds for all of it; None: no limit but `delivery_timeout_ms`. Records that are not acknowledged
                then are given up.

        Raises:
            KafkaTimeoutError: records were given up; the text has their number and partitions.

        Example:
            >>> producer = kafwire.Producer(bootstrap)
            >>> delivery = producer.send(topic, b"EWR-IAH")
            >>> producer.close(timeout=10)
            >>> delivery.done()
            True
        """
        if self._closed or self._engine.is_over:
            return
        self._engine.check_caller()  # from a callback: the producer stays open
        close = self._calls.close(timeout)
        self._closed = True
        lost = self._engine.run(close)
        if lost:
            raise closed_early(lost)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An interrupt must end the program soon, without a wait for the delivery timeout of an unreachable broker.
        if kind is None or issubclass(kind, Exception):
            self.close()
        else:
            with contextlib.suppress(KafkaTimeoutError):  # the interrupt is raised; deliveries have their own errors
                self.close(0.0)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._engine.is_over:
            self._engine.start(self._core.retire)

    def _send_later(
        self, topic: str, value: Any, key: Any, headers: Any, timestamp_ms: int | None, partition: int | None
    ) -> Delivery:
        """Send a record that `send` could not buffer: there was no room, or its topic is new."""
        if self._engine.callbacks.is_current:
            check_topic(topic)
            partition = check_partition(partition)
            return self._core.deferred.send(topic, value, key, headers, timestamp_ms, partition)
        self._check()
        self._engine.check_caller()  # waiting for room on the engine would wait for ever
        deadline = self._deadline()
        while True:
            if topic not in self._accumulator.topics:
                self._learn([topic], deadline)
            elif not self._accumulator.budget.wait(self._left(deadline)):
                raise self._core.no_room()
            try:
                delivery = self._accumulator.append(topic, value, key, headers, timestamp_ms, partition)
            except UnknownPartition as error:
                missing = error
            else:
                if delivery is not None:
                    return delivery
                continue
            self._learn_partition(missing, deadline)

    def _refusal(self, topic: Any, headers: Any, timestamp_ms: Any, partition: Any, error: Exception) -> ConfigError:
        return wrong_argument(topic, headers, timestamp_ms, partition, error)

    def _learn(self, topics: list[str], deadline: float) -> None:
        """Give the accumulator the metadata of these topics, if it lacks any."""
        new = [topic for topic in topics if not isinstance(topic, str) or topic not in self._accumulator.topics]
        if not new:
            return
        self._check()
        for topic in new:
            check_topic(topic)
        self._engine.run(self._core.ensure_metadata, new, self._left(deadline) * 1000)

    def _learn_partition(self, missing: UnknownPartition, deadline: float) -> None:
        """Give the accumulator the metadata of an added partition."""
        self._check()
        self._engine.run(self._core.ensure_partition, missing, self._left(deadline) * 1000)

    def _deadline(self) -> float:
        return self._engine.clock.monotonic() + self._config.max_block_ms / 1000

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - self._engine.clock.monotonic())


class _SerializingProducer(Producer):
    """A producer with serializers. It is a separate class, so that `send` without serializers needs no check."""

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
        check_topic(topic)
        value, key, headers = self._serializers.serialize(topic, value, key, headers)
        return super().send(topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition)

    send.__doc__ = Producer.send.__doc__

    def _pieces(self, topic: str | None, data: Any) -> Iterable[Any]:
        return self._serializers.chunks(topic, data)
