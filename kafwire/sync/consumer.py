"""`Consumer`: topics as batches, as single records, or as an Arrow stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from kafwire.calls.consumer import ConsumerCalls, Move, closing_seconds, consumer_core, keywords_of, servers_first
from kafwire.cluster.list_offsets import EARLIEST, LATEST
from kafwire.cluster.offset_spec import Bound, OffsetSpec
from kafwire.config import ConsumerConfig
from kafwire.config.checks import described_by
from kafwire.consumer.core import CLOSE_SECONDS, repr_of
from kafwire.consumer.group.rebalance_handlers import Handler, Handlers
from kafwire.consumer.offsets.commits import ToCommit
from kafwire.handles import refuse_copy
from kafwire.peer_names import CONSUMER, CONSUMER_ARGUMENTS, called_property, lookup, refuse_arguments
from kafwire.runtime.client import PushingClient
from kafwire.runtime.interfaces import Engine
from kafwire.sync.batch_reader import BatchReader
from kafwire.types import CommittedOffset, ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from kafwire.config.typed_options import ConsumerOptions
    from kafwire.consumer.delivery.arrow_stream import ArrowStream
    from kafwire.records import Batch, Record
    from kafwire.sync.partition_stream import PartitionStream

_T = TypeVar("_T")


@refuse_arguments(CONSUMER_ARGUMENTS, blocking=True)
@described_by(ConsumerConfig)
class Consumer(PushingClient):
    """A reader of partitions: all of `topics`, or those of `assign`. A context manager.

    The constructor connects. Fetching begins with the first read. A consumer is for one thread: reading in a second
    one raises `KafkaError`, except by `partition_stream` and `arrow_stream`, which have their own readers.

    Reading begins at `start`: "earliest", "latest", a datetime with a time zone, `kafwire.Offset(n)`, `kafwire.Tail(n)`
    (the last n of each partition), or a mapping of `TopicPartition` to one of these or to an offset. Without `start`,
    and for partitions that the mapping leaves out, reading begins at the group's committed offset; without one, at
    `auto_offset_reset`. For a member of a group, a committed offset takes precedence over `start`. An offset that does
    not exist is reset by `auto_offset_reset`. With `topics`, partitions that are added later are read from their
    beginning.

    A batch (in a loop over records: a record) counts as processed when you read the next one, or commit it. Leaving a
    loop by an exception, or by `break`, does not count. docs/guide/consuming.md is the manual for groups.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: the topics to read. With a `group_id` the consumer is a member of that group, which divides their
            partitions among its members; else it reads all partitions.
        pattern: a regular expression instead of `topics`, for members of a group; it must match a topic's whole name.
        assign: the partitions to read, instead of `topics`. With a `group_id` their offsets can be committed, but the
            consumer is no member of the group.
        start: the start position.
        columns: the Arrow columns to decode, as for `kafwire.scan`; None decodes all.
        layout: names and types of the columns, as for `kafwire.scan`.
        on_assigned: called with a list of `TopicPartition` that the group assigned, before their records come.
        on_revoked: called with the revoked partitions, once no records of them are in hand; commits still succeed.
        on_lost: called with partitions that other members own already.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ConsumerConfig`, for example `group_id="billing"`.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: no response came within `default_api_timeout_ms`.

    Example:
        >>> with kafwire.Consumer(bootstrap, topics=[topic], start="earliest") as consumer:
        ...     for batch in consumer.batches(timeout=1.0):
        ...         print(batch.partition, [record.value for record in batch])
        0 [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
    """

    __reduce_ex__ = refuse_copy
    _calls: ConsumerCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(CONSUMER, blocking=True)

    @servers_first
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        assign: Iterable[TopicPartition] | None = None,
        start: Bound | None = None,
        columns: Sequence[str] | None = None,
        layout: Mapping[str, Any] | None = None,
        on_assigned: Handler | None = None,
        on_revoked: Handler | None = None,
        on_lost: Handler | None = None,
        engine: Engine | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        handlers = Handlers(on_assigned, on_revoked, on_lost)
        self._core = consumer_core(
            bootstrap_servers, options, engine, topics, pattern, assign, start, columns, layout, handlers, blocking=True
        )
        self._engine = self._core.cluster.engine
        self._reading = BatchReader(self._core, self._engine, self._check)
        self._calls = ConsumerCalls(self._core, self._reading.hand)
        self._pushing = self._core.pushing
        self._closed = False
        try:
            self._engine.run(self._core.start)
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_config(cls, options: Mapping[str, Any], *, engine: Engine | None = None) -> Self:
        """Make a consumer from Kafka's own option names.

        Args:
            options: option names of the Java client and librdkafka, with their values; and the arguments of
                `Consumer`, such as `topics` and `on_revoked`.
            engine: the engine to run on; None: the engine of this process.

        Returns:
            The consumer.

        Raises:
            ConfigError: an option is unknown, not supported, or has a bad value.
            KafkaError: as the constructor does.

        Example:
            >>> kafwire.Consumer.from_config({"bootstrap.servers": bootstrap, "topics": [topic]}).close()
        """
        return cls(engine=engine, **keywords_of(options))

    # --- reading ----------------------------------------------------------------------------------------------------

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """Iterate over the records as batches, each of one partition, in the order of its offsets.

        Partitions take turns. With `max_poll_records` a batch has no more records than that.

        An error ends the iterator: call `batches()` again. The same error is raised again, between batches of other
        partitions, until you seek in the partition, pause it or drop it. After an `AuthorizationError`, the next call
        retries the partition: if the ACL was added, its records come.

        Args:
            timeout: seconds without records after which the iterator ends; None: it never ends.

        Returns:
            An iterator of `Batch`. It also ends when another thread closes the consumer.

        Raises:
            CorruptBatchError: a batch cannot be decoded.
            LogTruncatedError: records that were read are no longer in the log.
            AuthorizationError: this client must not read a partition, or be a member of the group.
            BrokerError: a partition cannot be read any further, or the group's coordinator refuses this member.
            PollIntervalError: the member has left, as no records were read for `max_poll_interval_ms`.
            SerializationError: a deserializer failed.
            Exception: a rebalance handler raised it.

        Example:
            >>> [len(batch) for batch in consumer.batches(timeout=1.0)]
            [3]
        """
        while True:
            batch = self._reading.next(timeout)
            if batch is None:
                return
            yield batch

    def __iter__(self) -> Iterator[Record]:
        """Iterate over single records, for ever. A second loop continues where the first one stopped.

        Returns:
            An iterator of `Record`. With `consumer_timeout_ms` it ends after that time without records.

        Raises:
            KafkaError: as `batches` does.

        Example:
            >>> for record in consumer:
            ...     print(record.offset, record.key, record.value)
            ...     if record.offset == 2:
            ...         break
            0 b'UA' b'EWR-IAH'
            1 b'AA' b'JFK-MIA'
            2 b'B6' b'JFK-BQN'
        """
        return self._reading.records()

    def poll(self, timeout: float = 0.0, *, max_records: int | None = None) -> list[Batch]:
        """Return the batches that have arrived, up to about 16 MiB decoded. Partitions take turns.

        Args:
            timeout: seconds to wait for the first batch.
            max_records: the most records of all batches together; None: `max_poll_records`, and without that no limit.
                Records beyond it stay unread.

        Returns:
            The batches; an empty list if nothing came in time.

        Raises:
            KafkaError: as `batches` does, if there are no batches to return.
            ConfigError: `max_records` is not a whole number from 1 on.

        Example:
            >>> [batch.next_offset for batch in consumer.poll(timeout=10.0, max_records=2)]
            [2]
            >>> [batch.next_offset for batch in consumer.poll(timeout=10.0)]
            [3]
        """
        return self._reading.poll(timeout, self._core.limit_of_poll(max_records))

    def partition_stream(
        self, partition: TopicPartition, timeout: float | None = None, *, explicit: bool = False
    ) -> PartitionStream:
        """Iterate over the batches of one partition alone, for example in a thread of its own.

        Only this iterator delivers the partition's records until it is closed. Fetching begins with the first read, and
        stops while the partition's buffer is full.

        Args:
            partition: a partition that this consumer reads.
            timeout: seconds without records after which the iterator ends; None: it never ends.
            explicit: as for `partitions`.

        Returns:
            An iterator of `Batch`.

        Raises:
            KafkaError: the partition is not read by this consumer, or another stream has it; reading raises the errors
                of `batches`.

        Example:
            >>> [batch.base_offset for batch in consumer.partition_stream(partition, timeout=1.0)]
            [0]
        """
        from kafwire.sync.partition_stream import PartitionStream

        self._check()
        claim, timeout_ms = self._calls.new_claim(partition, timeout)
        self._reading.put_back([partition])
        try:
            self._engine.run(self._core.claim, claim)
        except BaseException:
            claim.close()
            raise
        return PartitionStream(self._core, self._engine, claim, timeout_ms, keeps=self, explicit=explicit, stays=False)

    def partitions(self, *, explicit: bool = False, timeout: float | None = None) -> Iterator[PartitionStream]:
        """Iterate over the partitions as they are assigned, each as a stream of its own.

        The iterator waits for the next partition, and ends when the consumer is stopped or closed. A stream is for one
        thread, which reads until the stream ends: when its partition is revoked, or lost. `for_each_partition` runs the
        threads. Fetching of a partition begins with the first read of its stream.

        Args:
            explicit: records count as processed when `PartitionStream.complete` is called for them, in any order, and
                not when the next batch is read.
            timeout: seconds without records after which a stream ends; None: it never ends by a timeout.

        Returns:
            An iterator of `PartitionStream`.

        Raises:
            KafkaError: the consumer is closed, has such an iterator already, or its membership has ended.

        Example:
            >>> for stream in consumer.partitions():
            ...     for batch in stream:
            ...         print(stream.partition, len(batch))
            ...         consumer.stop()
            0 3
        """
        from kafwire.sync.partition_stream import PartitionStream

        feed, opening, timeout_ms = self._calls.new_feed(timeout)
        try:
            self._move(opening)
            while feed.is_open:
                if self._core.needs_attention:
                    self._core.attend()
                claim = self._engine.run(feed.next)
                if claim is not None:
                    stays = not self._core.commits.is_automatic
                    yield PartitionStream(
                        self._core, self._engine, claim, timeout_ms, keeps=self, explicit=explicit, stays=stays
                    )
        finally:
            self._engine.start(feed.close)

    def for_each_partition(
        self, handler: Callable[[PartitionStream], object], *, threads: int = 16, explicit: bool = False
    ) -> None:
        """Call `handler` for each partition as it is assigned, in a thread of its own, until the consumer is stopped.

        An exception of a handler stops the consumer, and is raised here when all handlers have returned.

        Args:
            handler: called with a `PartitionStream`; it must return when the stream ends.
            threads: the most threads at the same time. Partitions beyond that wait for a thread, and are not fetched.
            explicit: as for `partitions`.

        Raises:
            KafkaError: as `partitions` does.
            Exception: a handler raised it.

        Example:
            >>> def handle(stream):
            ...     for batch in stream:
            ...         print(stream.partition, len(batch))
            ...         consumer.stop()
            >>> consumer.for_each_partition(handle)
            0 3
        """
        from kafwire.sync.stream_threads import run_threads

        run_threads(self.partitions(explicit=explicit), handler, threads, self.stop)

    def stop(self) -> None:
        """Deliver no more records: `partitions()` and all streams end, and so do loops over batches and records.

        Records in hand can still be processed and committed; then call `close`. A stopped consumer cannot be started
        again. Call this in any thread, or in a signal handler.
        """
        self._check()
        self._engine.start(self._core.stop)

    def arrow_stream(self, timeout: float | None = None) -> ArrowStream:
        """Read all partitions as one Arrow stream.

        The thread that reads the stream decodes the records, without the GIL.

        Args:
            timeout: seconds without records after which the stream ends; None: it never ends.

        Returns:
            An `ArrowStream`, for `pyarrow.RecordBatchReader.from_stream` and others.

        Raises:
            KafkaError: no partition is assigned. Reading raises an error of the Arrow library with the text of the
                `KafkaError`.

        Example:
            >>> consumer.arrow_stream(timeout=1.0).to_reader().read_all()["value"].to_pylist()
            [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
        """
        from kafwire.consumer.delivery.arrow_stream import ArrowStream

        self._reading.ask()
        return ArrowStream(self._move(self._calls.arrow_stream(timeout))(keeps=self), self._core.deserializers)

    def _move(self, move: Move[_T]) -> _T:
        self._check()
        hand = self._reading.hand
        self._reading.put_back(move.partitions)
        if move.leaves:
            self._tell_revoked()
        found = self._engine.run(move.work)
        if move.seeks:
            hand.seek(move.partitions)
        return found

    # --- partitions and positions -----------------------------------------------------------------------------------

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that the consumer reads; for a member of a group, its current assignment."""
        return called_property("assignment", self._core.assignment.partitions)

    @property
    def subscription(self) -> set[str]:
        """The topics of `topics=`, `pattern=` or `subscribe`: all their partitions are read, or the assigned ones."""
        return called_property("subscription", self._core.topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read only these partitions. Current ones continue at their position.

        Args:
            partitions: the partitions.

        Raises:
            ConfigError: `partitions` is not a list of partitions, or a topic does not have one of them.
            BrokerError: a topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> consumer.assign([partition])
            >>> consumer.assignment == {partition}
            True
        """
        self._move(self._calls.assign(partitions))

    def subscribe(self, topics: str | Iterable[str] | None = None, *, pattern: str | None = None) -> None:
        """Read only these topics: with a `group_id` the partitions that the group assigns, else all.

        Current partitions continue at their position. Buffered records of dropped partitions are dropped. New
        partitions begin at `start`; partitions that are added later begin at their beginning. After an error the
        consumer still reads the earlier partitions. A member of a group joins, or is rebalanced, in the background.

        Args:
            topics: one topic or several.
            pattern: a regular expression that must match a topic's whole name, instead of `topics`. The broker matches
                it in the consumer protocol (RE2), this client otherwise, again every `metadata_max_age_ms`.

        Raises:
            ConfigError: neither or both are given, or a pattern without a `group_id`.
            BrokerError: a topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Consumer(bootstrap, topics=[topic]) as consumer:
            ...     consumer.subscribe([topic, other_topic])
            ...     len(consumer.assignment)
            2
        """
        self._move(self._calls.subscribe(topics, pattern))

    def unsubscribe(self) -> None:
        """Stop reading all partitions, after `assign` as well as after `subscribe`.

        Raises:
            KafkaError: the consumer is closed.
        """
        self._move(self._calls.unsubscribe())

    def _tell_revoked(self) -> None:
        """Call the handlers of a leaving member here, as no read runs meanwhile."""
        for call in self._core.last_calls():
            call.call()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset. Buffered records of the partition are dropped.

        Args:
            partition: a partition that this consumer reads.
            offset: the offset of the next record. An offset that does not exist is reset by `auto_offset_reset`.

        Raises:
            ConfigError: `offset` is not a whole number from 0 on.
            KafkaError: the partition is not read by this consumer.

        Example:
            >>> consumer.seek(partition, 2)
            >>> next(iter(consumer)).value
            b'JFK-BQN'
        """
        self._move(self._calls.seek(partition, offset))

    def seek_to_timestamp(
        self, when: OffsetSpec, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """Continue at the first record at or after a time, or at the end if there is none.

        Args:
            when: a datetime with a time zone, or milliseconds since the epoch.
            partitions: the partitions; None: all that the consumer reads.

        Returns:
            The offset of each partition.

        Raises:
            ConfigError: `when` is not a time.
            BrokerError: a leader refuses the request.
            KafkaConnectionError: a leader could not be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> consumer.seek_to_timestamp(1_700_000_000_001)[partition]
            1
        """
        return self._move(self._calls.seek_to(when, partitions))

    def seek_to_beginning(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Continue at the first offsets.

        Args:
            partitions: the partitions; none given: all that the consumer reads.

        Returns:
            The offset of each partition.

        Raises:
            KafkaError: as `seek_to_timestamp` does.

        Example:
            >>> consumer.seek_to_beginning()[partition]
            0
        """
        return self.seek_to_timestamp("earliest", partitions or None)

    def seek_to_end(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Continue at the end offsets.

        Args:
            partitions: the partitions; none given: all that the consumer reads.

        Returns:
            The offset of each partition.

        Raises:
            KafkaError: as `seek_to_timestamp` does.

        Example:
            >>> consumer.seek_to_end()[partition]
            3
        """
        return self.seek_to_timestamp("latest", partitions or None)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching and delivering these partitions. Buffered records stay for later. No request is sent.

        Args:
            partitions: the partitions; none given: nothing is paused.

        Raises:
            KafkaError: a partition is not read by this consumer.

        Example:
            >>> consumer.pause(partition)
            >>> consumer.poll(timeout=0.1)
            []
            >>> consumer.resume(partition)
        """
        self._move(self._calls.pause(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch and deliver these partitions again.

        Args:
            partitions: the partitions; none given: nothing is resumed.

        Raises:
            KafkaError: a partition is not read by this consumer.
        """
        self._run(self._calls.resume(partitions))

    @property
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return called_property("paused", self._core.assignment.paused)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that will be delivered.

        Args:
            partition: a partition that this consumer reads.

        Returns:
            The offset.

        Raises:
            KafkaError: the partition is not read by this consumer.
            KafkaTimeoutError: the position was not known within `default_api_timeout_ms`.

        Example:
            >>> consumer.position(partition)
            0
        """
        self._check()
        rest = self._reading.hand.next()
        if rest is not None and rest[0] == partition:
            return rest[1]
        return self._run(self._core.positions.position, partition)

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int | None]:
        """Ask the leaders for the first offset at or after a time. The consumer need not read the partitions.

        Args:
            timestamps: for each partition a datetime with a time zone, or milliseconds since the epoch.

        Returns:
            The offset of each partition; None without such a record.

        Raises:
            ConfigError: a time is not one of these.
            BrokerError: a partition does not exist, or its leader refuses the request.
            KafkaConnectionError: a leader could not be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> consumer.offsets_for_times({partition: 1_700_000_000_002})[partition]
            2
        """
        return self._run(self._calls.offsets_for_times(timestamps))

    def partitions_for(self, topic: str) -> set[int]:
        """Look up the numbers of a topic's partitions. The consumer need not read it.

        Args:
            topic: the topic.

        Returns:
            The partition numbers.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION if the topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> consumer.partitions_for(topic)
            {0}
        """
        return self._run(self._core.cluster.partitions, topic)

    def beginning_offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Ask the leaders for the first offset of each partition.

        Args:
            partitions: the partitions; None: all that the consumer reads.

        Returns:
            The offset of each partition.

        Raises:
            BrokerError: a partition does not exist, or its leader refuses the request.
            KafkaConnectionError: a leader could not be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> consumer.beginning_offsets()[partition]
            0
        """
        return self._run(self._calls.ends(partitions, EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Ask the leaders for the end offset of each partition: the one after the last record.

        With `isolation_level="read_committed"` it is the last stable offset.

        Args:
            partitions: the partitions; None: all that the consumer reads.

        Returns:
            The offset of each partition.

        Raises:
            BrokerError: a partition does not exist, or its leader refuses the request.
            KafkaConnectionError: a leader could not be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> consumer.end_offsets()[partition]
            3
        """
        return self._run(self._calls.ends(partitions, LATEST))

    @overload
    def lag(self, partition: TopicPartition) -> int | None: ...

    @overload
    def lag(self) -> dict[TopicPartition, int | None]: ...

    def lag(self, partition: TopicPartition | None = None) -> int | dict[TopicPartition, int | None] | None:
        """Count the offsets between the position and the end of the log in the last fetch response.

        No request is sent.

        Args:
            partition: one partition; None: all that the consumer reads.

        Returns:
            The lag, which is None before the first response; without `partition` the lag of each partition.

        Raises:
            KafkaError: the partition is not read by this consumer.

        Example:
            >>> _ = consumer.poll(timeout=10.0)
            >>> consumer.lag(partition)
            0
        """
        self._check()
        return self._calls.lag(partition)

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of a partition in the last fetch response. No request is sent.

        It is the offset after the last record that consumers may read. `end_offsets` asks the leaders.

        Args:
            partition: a partition that this consumer reads.

        Returns:
            The offset; None before the first response.

        Raises:
            KafkaError: the partition is not read by this consumer.

        Example:
            >>> _ = consumer.poll(timeout=10.0)
            >>> consumer.high_watermark(partition)
            3
        """
        self._check()
        return self._core.positions.high_watermark(partition)

    # --- commits ----------------------------------------------------------------------------------------------------

    def commit(self, what: ToCommit | None = None) -> None:
        """Commit offsets for the group, and wait until its coordinator has stored them.

        Args:
            what: None: the processed offsets, and, in the thread that reads, the records in hand: all batches of the
                last `poll`, the batch of the body of `batches()`, or the records up to the current one. A batch or a
                record: its end; of a list of these, the highest end of each partition. A mapping: for each partition
                the offset of the next record, or (offset, text).

        Raises:
            ConfigError: the consumer has no `group_id`, or an offset is not valid.
            CommitFailedError: another member of the group owns a partition now, or did since the batch was read.
            BrokerError: the coordinator refuses the commit.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> batches = consumer.poll(timeout=10.0)
            >>> consumer.commit()
            >>> consumer.committed()[partition]
            3
        """
        self._run(self._calls.commit(what))

    def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Ask the coordinator for the group's committed offsets.

        Args:
            partitions: the partitions; None: all that the consumer reads.

        Returns:
            The offset of each partition, an int with `.metadata`, the text committed with it; None without a committed
            offset.

        Raises:
            ConfigError: the consumer has no `group_id`.
            BrokerError: the coordinator refuses the request.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> consumer.committed()[partition] is None
            True
        """
        return self._run(self._calls.committed(partitions))

    def processed(self, *, in_hand: bool = False) -> dict[TopicPartition, int]:
        """Return each partition's processed offset, for `Producer.send_offsets`. No request is sent.

        `group_metadata` stays the same from here until the next read.

        Args:
            in_hand: count the rows in hand too, as `commit()` would.

        Returns:
            For each partition with processed records, the offset of the next record.

        Raises:
            KafkaError: the consumer is closed.

        Example:
            >>> batches = list(consumer.batches(timeout=1.0))
            >>> consumer.processed()[partition]
            3
        """
        self._check()
        return self._core.processed(self._reading.hand, in_hand=in_hand)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata for `Producer.send_offsets`.

        Returns:
            The group, and this member of it.

        Raises:
            ConfigError: the consumer has no `group_id`.

        Example:
            >>> consumer.group_metadata().group_id
            'billing'
        """
        return self._core.commits.group_metadata()

    # --- the rest ---------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of counters and states. docs/operate/metrics.md has names and units.

        Returns:
            `partitions`: position, lag, buffered bytes and others of each partition, by name (`flights-0`).
            `group`: state, protocol, rebalances and heartbeats of a member of a group; None without one. `fetcher`: the
            memory budget, and `broker_fetchers` with requests, bytes and session of each connection that fetches.
            `connections`: requests, bytes and latencies of each connection. `json.dumps` takes all of it.

        Raises:
            KafkaError: the consumer is closed.

        Example:
            >>> sorted(consumer.metrics())
            ['connections', 'fetcher', 'group', 'partitions']
        """
        return self._run(self._core.snapshot)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Commit processed offsets (with `group_id` and `enable_auto_commit`), leave the group, close the connections.

        A member's `on_revoked` is called before. A commit that fails is logged. A second close does nothing, nor does
        a close in a forked child.

        Args:
            timeout: seconds for all of it, `on_revoked` included. Steps that are not done then are given up: the
                coordinator removes the member once its session expires.
        """
        self._close(closing_seconds(timeout), failed=False)

    def _close(self, timeout: float, *, failed: bool) -> None:
        if self._closed or self._engine.is_over:
            return
        until = self._engine.clock.monotonic() + timeout
        self._core.commits.ledger.advance(self._reading.hand.passed())
        try:
            self._tell_revoked()
        finally:
            self._closed = True
            left = max(0.0, until - self._engine.clock.monotonic())
            self._engine.run(self._core.close, left, failed=failed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(CLOSE_SECONDS, failed=kind is not None)

    def __repr__(self) -> str:
        return repr_of(self, self._core, closed=self._closed)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._engine.is_over:
            warnings.warn(f"never closed: {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._engine.start(self._core.abandon)
