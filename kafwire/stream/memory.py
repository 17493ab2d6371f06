"""`MemorySource` and `MemorySink`: source and sink in memory for tests, without a broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kafwire.consumer.offsets.completed_offsets import CompletedOffsets
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, TransactionAbortableError, broker_error
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.records._records import Batch, Record
from kafwire.stream.message import Message, message_of
from kafwire.types import ConsumerGroupMetadata, TopicPartition


class _Stored(NamedTuple):
    """An encoded batch, as in Kafka."""

    blob: bytes
    next_offset: int


class MemorySource:
    """A source of records in memory: records are read in the order appended, and commits are recorded.

    Use it in the event loop that runs the stream, or before that runs. It is one member of a group: `revoke` and `lose`
    take partitions away, `assign` adds one.

    Args:
        records: the initial records: for each topic the records of its partition 0.
        batch_records: how many records a batch has at most.
        ends: whether reading ends after the last record; otherwise a partition waits for more until it is closed.

    Raises:
        ConfigError: `batch_records` is below 1.

    Example:
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books", b"a lamp"]})
        >>> kafwire.stream.Pipeline().map(lambda record: record.value.upper()).run(source).records
        2
        >>> source.committed
        {TopicPartition(topic='orders', partition=0): 2}
    """

    __module__ = "kafwire.stream"

    def __init__(
        self, records: Mapping[str, Iterable[Any]] | None = None, *, batch_records: int = 500, ends: bool = True
    ) -> None:
        if batch_records < 1:
            raise ConfigError(f"batch_records {batch_records!r}: it must be 1 or more")
        self.batch_records = batch_records
        self.ends = ends
        self.committed: dict[TopicPartition, int] = {}
        self.commits: list[dict[TopicPartition, int]] = []
        self.closed = False
        self.generation = 1
        self._streams: dict[TopicPartition, MemoryPartition] = {}
        self._revoked: dict[TopicPartition, MemoryPartition] = {}
        self._logs: dict[TopicPartition, list[_Stored]] = {}
        self._arrived: deque[MemoryPartition] = deque()
        self._changed: asyncio.Event | None = None
        for topic, values in (records or {}).items():
            self.append(topic, values)

    def append(self, topic: str, records: Iterable[Any], *, partition: int = 0) -> None:
        """Append records to a partition, which is assigned if it is new.

        Args:
            topic: the topic.
            records: each the value as bytes, a tuple (key, value), a `Message` or a `Record`.
            partition: the partition's number.
        """
        where = TopicPartition(topic, partition)
        log = self._logs.setdefault(where, [])
        made = [_row(record) for record in records]
        for at in range(0, len(made), self.batch_records):
            base_offset = log[-1].next_offset if log else 0
            blob = encode_batch(made[at : at + self.batch_records], base_offset=base_offset)
            log.append(_Stored(blob, base_offset + len(made[at : at + self.batch_records])))
        if where not in self._streams:
            self.assign(topic, partition)
        self._streams[where].wake()

    def assign(self, topic: str, partition: int = 0) -> MemoryPartition:
        """Assign a partition to the member, which reads it from the committed offset on.

        Args:
            topic: the topic.
            partition: the partition's number.

        Returns:
            Its stream, as the pipeline gets it.
        """
        where = TopicPartition(topic, partition)
        log = self._logs.setdefault(where, [])
        if where in self._revoked:
            self._revoked.pop(where).mark_lost()
            self.generation += 1
        stream = self._streams[where] = MemoryPartition(self, where, log, self.committed.get(where, 0))
        self._arrived.append(stream)
        self._change()
        return stream

    def revoke(self, topic: str, partition: int = 0) -> MemoryPartition:
        """Revoke a partition from the member, which may still commit for it, until it is assigned again.

        Args:
            topic: the topic.
            partition: the partition's number.

        Returns:
            Its stream.
        """
        where = TopicPartition(topic, partition)
        stream = self._revoked[where] = self._streams.pop(where)
        stream.end()
        return stream

    def lose(self, topic: str, partition: int = 0) -> MemoryPartition:
        """Take a partition from the member, which must not commit for it any more.

        Args:
            topic: the topic.
            partition: the partition's number.

        Returns:
            Its stream.
        """
        self._streams[TopicPartition(topic, partition)].mark_lost()
        self.generation += 1
        return self.revoke(topic, partition)

    # --- called by a stream ------------------------------------------------------------------------------------------

    async def partitions(self) -> AsyncIterator[MemoryPartition]:
        """Iterate over the streams of the assigned partitions.

        Returns:
            The streams. It ends when the source is closed, or if it `ends`, after the last one.
        """
        self._changed = asyncio.Event()
        while not self.closed:
            self._changed.clear()
            while self._arrived:
                yield self._arrived.popleft()
            if self.ends and not self._arrived:
                return
            await self._changed.wait()

    async def commit(self) -> None:
        """Commit the completed offsets of all partitions."""
        self._note_commit({one.where: one.completed.committable for one in self._streams.values() if one.has_begun})

    def _note_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Record committed offsets that changed."""
        changed = {where: offset for where, offset in offsets.items() if self.committed.get(where, 0) != offset}
        if changed:
            self.committed.update(changed)
            self.commits.append(changed)

    async def close(self) -> None:
        """Close the source: all streams end."""
        self.closed = True
        for stream in self._streams.values():
            stream.end()
        self._change()

    async def end_offsets(self) -> dict[TopicPartition, int]:
        """Return the end offsets of the partitions, for a `TopicTable`.

        Returns:
            For each, the offset after the last record.
        """
        return {where: log[-1].next_offset if log else 0 for where, log in self._logs.items()}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member that commits.

        Returns:
            The member; its generation counts the lost partitions.
        """
        return ConsumerGroupMetadata("memory", self.generation, "member")

    def _change(self) -> None:
        if self._changed is not None:
            self._changed.set()


class MemoryPartition:
    """One partition of a `MemorySource`, which makes it; a `SourcePartition`.

    `completed` are its completed offsets, and `pauses` counts the pauses.

    Example:
        >>> source = kafwire.stream.MemorySource()
        >>> source.assign("orders").topic
        'orders'
    """

    __module__ = "kafwire.stream"

    def __init__(self, source: MemorySource, where: TopicPartition, log: list[_Stored], start: int) -> None:
        self.where = where
        self.topic, self.partition = where
        self.is_lost = False
        self.is_paused = False
        self.pauses = 0
        self.completed = CompletedOffsets(start)
        self.has_begun = False
        self.has_ended = False
        self.is_closed = False
        self._listener: Callable[[], object] | None = None
        self._source = source
        self._log = log
        self._position = start
        self._changed: asyncio.Event | None = None

    async def __aiter__(self) -> AsyncIterator[Batch]:
        """Iterate over its batches, from the committed offset on.

        Returns:
            An async iterator of `Batch`.
        """
        self._changed = asyncio.Event()
        self.has_begun = True
        while not self.has_ended:
            self._changed.clear()
            batch = None if self.is_paused else self._next()
            if batch is not None:
                self._position = batch.next_offset
                self.completed.hand_out(batch.next_offset)
                yield batch
            elif self._source.ends and not self.is_paused:
                return
            else:
                await self._changed.wait()

    def _next(self) -> Batch | None:
        stored = next((one for one in self._log if one.next_offset > self._position), None)
        if stored is None:
            return None
        layout = Layout(self.topic, self.partition)
        (batch,) = decode_chunks(stored.blob, layout, topic=self.topic, partition=self.partition, start=self._position)
        return batch

    async def close(self) -> None:
        """Give the partition up."""
        self.is_closed = True

    def complete(self, first_offset: int, next_offset: int) -> None:
        """Mark offsets as processed.

        Args:
            first_offset: the first one.
            next_offset: the one after the last.
        """
        self.completed.complete(first_offset, next_offset)

    def pause(self) -> None:
        """Return no batches."""
        self.is_paused = True
        self.pauses += 1

    def resume(self) -> None:
        """Return batches again."""
        self.is_paused = False
        self.wake()

    async def committed(self) -> int | None:
        """Return the committed offset of the partition.

        Returns:
            None: nothing is committed.
        """
        return self._source.committed.get(self.where)

    async def commit(self) -> None:
        """Commit the completed offsets; does nothing if the partition is lost."""
        if not self.is_lost:
            self._source._note_commit({self.where: self.completed.committable})

    def end(self) -> None:
        """Return no more batches: the iterator ends."""
        self.has_ended = True
        self.wake()
        self._tell()

    def mark_lost(self) -> None:
        """Give the partition to another member."""
        self.is_lost = True
        self._tell()

    @property
    def is_ending(self) -> bool:
        """True if the partition was revoked or lost, or the source is closed."""
        return self.has_ended

    def on_change(self, function: Callable[[], object]) -> None:
        """Call a function when `is_ending` or `is_lost` changes.

        Args:
            function: takes no argument.
        """
        self._listener = function

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener()

    def wake(self) -> None:
        """Make the iterator check for changes."""
        if self._changed is not None:
            self._changed.set()


class MemorySink:
    """A sink in memory: a list of written values.

    It supports transactions. Then `values` has the committed ones.

    Args:
        source: the source whose offsets are committed with transactions.

    Example:
        >>> sink = kafwire.stream.MemorySink()
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        >>> summary = kafwire.stream.Pipeline().map(lambda record: record.value.upper()).run(source, sink)
        >>> sink.values
        [b'2 BOOKS']
    """

    __module__ = "kafwire.stream"

    def __init__(self, source: MemorySource | None = None) -> None:
        self.values: list[Any] = []
        self.transactions = 0
        self.aborted = 0
        self._source = source
        self._open: list[Any] | None = None

    async def write(self, value: Any) -> None:
        """Store a value.

        Args:
            value: the result of the pipeline's last step.
        """
        (self.values if self._open is None else self._open).append(value)

    async def start(self) -> None:
        """Do nothing: no other producer uses this sink."""

    async def begin(self) -> None:
        """Begin a transaction: its values are stored separately until it is committed."""
        self._open = []

    async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
        """Store the transaction's values, and commit offsets in the source.

        Args:
            offsets: by partition.
            group: the committing member; it must be the source's current one.

        Raises:
            TransactionAbortableError: the member is fenced: partitions were assigned again since.
        """
        if self._source is not None:
            if group != self._source.group_metadata():
                text = f"{group} is fenced: the member is {self._source.group_metadata()}"
                raise TransactionAbortableError(text) from broker_error(ErrorCode.ILLEGAL_GENERATION, text)
            self._source._note_commit(offsets)
        self.values += self._open or ()
        self._open = None
        self.transactions += 1

    async def abort(self) -> None:
        """Forget the transaction's values."""
        self._open = None
        self.aborted += 1

    def written(self, topic: str) -> list[Message]:
        """Return the messages written to a topic, such as that of dead letters.

        Args:
            topic: the topic.

        Returns:
            The messages, in order.
        """
        return [value for value in self.values if isinstance(value, Message) and value.topic == topic]


def _row(record: Any) -> Any:
    if isinstance(record, bytes | tuple):
        return record
    if isinstance(record, Message | Record):
        message = message_of(record)
        return message.key, message.value, message.timestamp_ms, list(message.headers)
    raise ConfigError(f"{record!r} is not a record: give bytes, (key, value), a Message or a Record")
