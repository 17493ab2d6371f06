"""`Consumer`: topics as batches, as single records, or as an Arrow stream."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.offset_spec import Bound, OffsetSpec
from kafwire.config import ConsumerConfig, from_config
from kafwire.consumer._fetch_buffer import FetchReader
from kafwire.consumer.core import (
    CLOSE_SECONDS,
    POLL_BATCHES,
    POLL_BYTES,
    ArrowStream,
    ConsumerCore,
    InProgressBatch,
    Selection,
    UnreadRemainder,
    layouts,
    milliseconds,
    names_of,
    nothing_assigned,
    partitions_of,
    repr_of,
    rests_of,
    times_of,
)
from kafwire.consumer.partition_claim import Claim
from kafwire.errors import KafkaError
from kafwire.options import ConsumerOptions
from kafwire.runtime.engine import engine
from kafwire.serializer_calls import Deserializers
from kafwire.types import ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from kafwire.records import Batch, Record

_ARGUMENTS = ("topics", "assign", "start", "columns", "layout")


class Consumer:
    """Reads partitions: all of `topics`, or those of `assign`. A context manager.

    `start` is where reading begins: "earliest", "latest", a datetime with a time zone, `kafwire.Offset(n)`,
    `kafwire.Tail(n)` (the last n of each partition), or a mapping of `TopicPartition` to one of these or to a plain
    offset; a number alone is refused, as it may be any of these. Without it reading begins at the group's
    committed offset, and where there is none, or no group, as `auto_offset_reset` says ("latest" by default). With
    `topics`, partitions that are added later are read from their beginning. `group_id` allows to commit offsets of
    `assign`ed partitions; membership in a group is not there yet. `columns` names the columns of Arrow data that are
    wanted (others cost nothing), `layout` varies their schema, both as in `kafwire.scan`. Options are those of
    `kafwire.config.ConsumerConfig`. Partitions that a mapping leaves out begin as without `start`; an offset that does
    not exist is reset by `auto_offset_reset`.

    Making one connects, and raises `BrokerError` for a topic that does not exist, `KafkaConnectionError`,
    `KafkaTimeoutError`, `ConfigError`. Nothing is fetched before something is read. A batch counts as processed when
    the next one is asked for, or when it is committed; to leave a loop by an exception does not count. It is for one
    thread: to read in a second one at the same time raises `KafkaError`, except by `partition_stream` and
    `arrow_stream`, which have readers of their own.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        topics: str | Iterable[str] | None = None,
        assign: Iterable[TopicPartition] | None = None,
        start: Bound | None = None,
        columns: Sequence[str] | None = None,
        layout: Mapping[str, Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        config = ConsumerConfig.build({"bootstrap_servers": bootstrap_servers, **options}, others=_ARGUMENTS)
        make_layout = layouts(columns, layout)
        selection = Selection(topics, assign, start)
        deserializers = Deserializers.of(config, layout, blocking=True)
        self._closed = True  # until there is something to close
        self._engine = engine()
        self._core = ConsumerCore(Cluster(self._engine, config), config, selection, make_layout, deserializers)
        self._reader = self._core.reader()
        self._hand = InProgressBatch(self._core, _Batches(self))
        self._asked = self._returning = False
        self._closed = False
        try:
            self._engine.run(self._core.start())
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_config(cls, options: Mapping[str, Any]) -> Self:
        """The same from Kafka's own option names: `{"bootstrap.servers": ..., "topics": [...]}`."""
        return cls(**from_config(ConsumerConfig, options, arguments=_ARGUMENTS))

    # --- reading ----------------------------------------------------------------------------------------------------

    def batches(self, timeout: float | None = None) -> Iterator[Batch]:
        """The records as `Batch` objects, each of one partition, in the order of its offsets; partitions take turns.

        Ends after `timeout` seconds without records (None: never), or when another thread closes the consumer. Raises
        `CorruptBatchError`, `LogTruncatedError`, `BrokerError` for a partition that cannot be read on. That ends the
        iterator: call `batches()` again. It is raised again and again, other partitions in between, until the partition
        is sought in, paused or dropped.
        """
        while True:
            batch = self._next(timeout)
            if batch is None:
                return
            yield batch

    def __iter__(self) -> Iterator[Record]:
        """The records one by one, for ever. Whoever stops and comes again goes on where he was."""
        self._check()
        self._reader.need_offsets()
        return self._hand.records

    def poll(self, timeout: float = 0.0) -> list[Batch]:
        """What is there, partitions in turn, up to some 16 MiB decoded; waits up to `timeout` seconds for the first.

        Raises what `batches` does, if there is nothing else to return.
        """
        found: list[Batch] = []
        size = 0
        batch = self._next(timeout)
        try:
            while batch is not None:
                found.append(batch)
                size += batch.nbytes
                batch = self._reader.read(0) if len(found) < POLL_BATCHES and size < POLL_BYTES else None
        except KafkaError:
            pass  # it comes again: what was found is not lost for it
        except BaseException:
            for rest in rests_of(found):
                self._return(rest)
            raise
        return found

    def partition_stream(self, partition: TopicPartition, timeout: float | None = None) -> Iterator[Batch]:
        """The batches of one partition alone, which then no longer comes by other ways, until this is closed.

        May be read in a thread of its own. Nothing is fetched for it before it is read, and no more than its buffer
        holds, however slow its reader is. `timeout` as of `batches`.
        """
        self._check()
        self._put_back([partition])
        return _PartitionStream(self, partition, milliseconds(timeout))

    def arrow_stream(self, timeout: float | None = None) -> ArrowStream:
        """The records as an Arrow stream over all partitions, for `pyarrow.RecordBatchReader.from_stream` and others.

        It decodes in whichever thread reads it, without the GIL, and ends after `timeout` seconds without records.
        """
        limit_ms = milliseconds(timeout)
        self._ask()
        self._put_back()
        return ArrowStream(self._core.reader(silence_ms=limit_ms, keeps=self))

    def _next(self, timeout: float | None) -> Batch | None:
        self._ask()
        self._put_back()
        self._reader.settle()
        return self._reader.read(milliseconds(timeout))

    def _ask(self) -> None:
        self._check()
        if not self._core.fetcher.cursors:
            raise nothing_assigned()
        if not self._asked:
            self._engine.run(self._core.ask())
            self._asked = True

    def _put_back(self, only: Iterable[TopicPartition] | None = None) -> None:
        """A batch whose records were handed out in part, one by one: the rest is fetched again."""
        rest = self._hand.put_back(only)
        if rest is not None:
            self._return(rest)
        if self._returning:
            self._engine.run(self._core.settled())
            self._returning = False

    def _return(self, rest: UnreadRemainder) -> None:
        """Not waited for by who is interrupted: the next one to read does."""
        self._returning = True
        self._engine.start(self._core.put_back, rest)

    def _check(self) -> None:
        self._engine.check_process()
        if self._closed:
            raise KafkaError("this consumer is closed: make a new one")

    # --- partitions and positions -----------------------------------------------------------------------------------

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return set(self._core.assignment)

    @property
    def subscription(self) -> set[str]:
        """The topics that are read with all their partitions: those of `topics=`, or of `subscribe`."""
        return self._core.subscription

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others; those that are read already go on where they are."""
        self._check()
        self._put_back()
        wanted = list(partitions)
        self._engine.run(self._core.assign(wanted))

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read all partitions of these topics and no others, without a group.

        Partitions that are read already go on where they are; what is buffered of others is dropped. New ones begin as
        `start` says, partitions that are added later at their beginning. Raises `ConfigError` with a `group_id`, as
        membership in a group is not there yet, `BrokerError` for a topic that does not exist, `KafkaConnectionError`,
        `KafkaTimeoutError`: what was read until then is read on.
        """
        self._check()
        names = names_of(topics)
        self._put_back()
        self._engine.run(self._core.subscribe(names))

    def unsubscribe(self) -> None:
        """Read nothing any more, whether it was assigned or subscribed to."""
        self._check()
        self._put_back()
        self._engine.run(self._core.assign([]))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on at `offset`; what is buffered of the partition is dropped."""
        self._check()
        self._put_back([partition])
        self._engine.run(self._core.seek(partition, offset))

    def seek_to_timestamp(
        self, when: OffsetSpec, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """Read on at the first record at or after `when` (a datetime with a time zone, or ms since the epoch).

        Where there is none, at the end. Of all partitions by default. Returns the offsets.
        """
        self._check()
        chosen = None if partitions is None else partitions_of(partitions)
        self._put_back(chosen)
        return self._engine.run(self._core.seek_to(when, chosen))

    def seek_to_beginning(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Read on at the first offsets, of all partitions by default. Returns them."""
        return self.seek_to_timestamp("earliest", partitions or None)

    def seek_to_end(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Read on at the ends, of all partitions by default. Returns them."""
        return self.seek_to_timestamp("latest", partitions or None)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out and fetch nothing of these (none named: of none); what is buffered stays for later.

        Nothing is sent for it.
        """
        self._check()
        self._put_back(partitions)
        self._engine.run(self._core.pause(partitions, paused=True))

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these."""
        self._check()
        self._engine.run(self._core.pause(partitions, paused=False))

    @property
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return set(self._core.paused)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that will be handed out."""
        self._check()
        rest = self._hand.next()
        if rest is not None and rest[0] == partition:
            return rest[1]
        return self._engine.run(self._core.position(partition))

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time, of each partition, asked of the leaders; None where there is none.

        A time is a datetime with a time zone, or ms since the epoch. The partitions need not be read by this consumer.
        """
        self._check()
        return self._engine.run(self._core.offsets_for_times(times_of(timestamps)))

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions, whether it is read or not.

        Raises `BrokerError` (UNKNOWN_TOPIC_OR_PARTITION) when it does not exist.
        """
        self._check()
        return self._engine.run(self._core.cluster.partitions(topic))

    def beginning_offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """The first offset of each partition (default: all that are read), asked of the leaders."""
        self._check()
        return self._engine.run(self._core.beginning_offsets(None if partitions is None else partitions_of(partitions)))

    def end_offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """The offset after the last record (with read_committed: the last stable offset), asked of the leaders."""
        self._check()
        return self._engine.run(self._core.end_offsets(None if partitions is None else partitions_of(partitions)))

    @overload
    def lag(self, partition: TopicPartition) -> int | None: ...

    @overload
    def lag(self) -> dict[TopicPartition, int | None]: ...

    def lag(self, partition: TopicPartition | None = None) -> int | dict[TopicPartition, int | None] | None:
        """Records that are there and were not handed out, as the last fetch answer knew: no request is sent for it.

        None before the first answer. Without `partition`: {TopicPartition: lag} of all.
        """
        self._check()
        if partition is not None:
            return self._core.lag(partition, self._hand.next())
        return {where: self._core.lag(where, self._hand.next()) for where in self._core.assignment}

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that readers may have, as the last fetch answer knew; None before the first.

        No request is sent for it; `end_offsets` asks.
        """
        self._check()
        return self._core.high_watermark(partition)

    # --- commits ----------------------------------------------------------------------------------------------------

    def commit(self, what: Batch | Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets for the group, and wait until its coordinator has them.

        A batch: everything up to its end is processed. A mapping: these offsets (of the next record to read). None:
        what counts as processed. Raises `ConfigError` without a `group_id`, `BrokerError`, `KafkaTimeoutError`.
        """
        self._check()
        if what is None:
            self._hand.mark_processed()
        self._engine.run(self._core.commit(what))

    def committed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int | None]:
        """What the group has committed for each partition (default: all that are read), None where nothing is."""
        self._check()
        found = self._engine.run(self._core.committed(None if partitions is None else partitions_of(partitions)))
        return {where: None if one is None else one.offset for where, one in found.items()}

    def processed(self) -> dict[TopicPartition, int]:
        """For each partition of which something is processed, the offset of the next record: what `commit()` commits.

        For `Producer.send_offsets`, which commits them with a transaction. Asks nobody.
        """
        self._check()
        self._hand.mark_processed()
        return self._core.processed()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who commits for the group, for `Producer.send_offsets`; `ConfigError` without a `group_id`."""
        return self._core.group_metadata()

    # --- the rest ---------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        """A snapshot of counters and states.

        `partitions`: {TopicPartition: position, lag, what is buffered, bytes, ...}; `fetcher`: the budget, and
        `broker_fetchers` (one for each connection that fetches: requests, bytes, session); `connections`: each
        connection's requests, bytes and latencies. Numbers are counted anyway; looking costs what it takes to build
        this.
        """
        self._check()
        return self._engine.run(self._core.snapshot())

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Commit what is processed (with `group_id` and `enable_auto_commit`), and close the connections.

        The commit may take `timeout` seconds (and never more than `default_api_timeout_ms`); one that fails is logged.
        A second close, or one in a forked child, does nothing.
        """
        if self._closed or self._engine.is_over:
            return
        self._hand.mark_processed()
        self._closed = True
        self._engine.run(self._core.close(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr_of(self, self._core, closed=self._closed)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._engine.is_over:
            warnings.warn(f"never closed: {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._engine.start(self._core.abandon)


class _Batches:
    """What the records one by one are taken from. An error is no end: whoever comes again goes on."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        self._consumer._ask()
        reader = self._consumer._reader
        reader.settle()
        batch = reader.read(-1)
        if batch is None:
            raise StopIteration
        return batch


class _PartitionStream:
    """The batches of one partition, which is claimed until this is closed, or ends, or is dropped."""

    _reader: FetchReader | None = None
    _closed = True  # until the partition is claimed

    def __init__(self, consumer: Consumer, partition: TopicPartition, timeout_ms: int) -> None:
        self._consumer = consumer  # which must not be dropped while its stream is read
        self._engine = consumer._engine
        self._core = consumer._core
        self._partition = partition
        self._timeout_ms = timeout_ms
        self._claim = Claim(self._core, partition)
        try:
            self._engine.run(self._core.claim(self._claim))
        except BaseException:
            self._claim.close()
            raise
        self._closed = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._closed:
            raise StopIteration
        try:
            if self._reader is None:
                self._reader = self._core.reader(self._partition)
                self._engine.run(self._core.ask(self._partition))
            self._reader.settle()
            batch = self._reader.read(self._timeout_ms)
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def close(self) -> None:
        """Let others read the partition."""
        self._closed = True
        self._claim.close()
