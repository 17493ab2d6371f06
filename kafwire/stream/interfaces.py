"""The interfaces of a stream's sources and sinks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Protocol, runtime_checkable

from kafwire.records._records import Batch
from kafwire.types import ConsumerGroupMetadata, TopicPartition

__all__ = ["Sink", "Source", "SourcePartition", "TransactionalSink"]


class SourcePartition(Protocol):
    """One assigned partition, until it is revoked or lost, or the source is closed.

    A partition may have three more members. `is_ending`: a revocation is waiting for the stream, which then leaves
    waiting records to the next owner. `on_change(function)`: call the function in the loop when `is_ending` or
    `is_lost` changes. Without them the stream notices a revocation when the iterator ends. `async def committed()`
    returns the group's committed offset, or None: hooks of `Pipeline.on_partitions` get it.

    Example:
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        >>> partition: kafwire.stream.SourcePartition = source.assign("orders", 1)
        >>> partition.is_lost
        False
    """

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> int:
        """The partition's number."""

    def __aiter__(self) -> AsyncIterator[Batch]:
        """Iterate over its batches, in order. It ends when the partition is revoked or lost, or the source closed.

        A commit does not wait for offsets before the first batch's `base_offset`.

        Returns:
            An async iterator of `Batch`.
        """

    def complete(self, first_offset: int, next_offset: int) -> None:
        """Mark offsets as processed; in any order. A gap delays the commit.

        Args:
            first_offset: the first one.
            next_offset: the one after the last.
        """

    def pause(self) -> None:
        """Stop fetching; the next batch comes after `resume`."""

    def resume(self) -> None:
        """Fetch again."""

    async def commit(self) -> None:
        """Commit the offsets that are completed before the first gap."""

    async def close(self) -> None:
        """Give the partition up: none of its offsets is completed or committed any more."""

    @property
    def is_lost(self) -> bool:
        """True if another member processes its records: commits are refused, and no record of it is begun."""


class Source(Protocol):
    """The source of a stream: assigned partitions, and their commits.

    Example:
        >>> source: kafwire.stream.Source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        >>> kafwire.stream.Pipeline().run(source).records
        1
    """

    def partitions(self) -> AsyncIterator[SourcePartition]:
        """Iterate over partitions as they are assigned. It ends when the source is closed, or has no more partitions.

        Returns:
            An async iterator of their streams.
        """

    async def commit(self) -> None:
        """Commit the completed offsets of all partitions."""

    async def close(self) -> None:
        """Leave the group, and end all iterators."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member that commits a transaction (KIP-447). The stream checks `is_lost` after this call.

        Returns:
            The group, and its current member.
        """


class Sink(Protocol):
    """The destination of a stream's values.

    Example:
        >>> class Printer:
        ...     async def write(self, value):
        ...         print(value)
        >>> sink: kafwire.stream.Sink = Printer()
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        >>> summary = kafwire.stream.Pipeline().map(lambda order: order.value).run(source, sink)
        b'2 books'
    """

    async def write(self, value: Any) -> Awaitable[object] | None:
        """Accept one value; wait for room if there is none.

        Args:
            value: the result of the pipeline's last step.

        Returns:
            An awaitable that the stream awaits before it completes the value's record; None: the value is stored.
        """


@runtime_checkable
class TransactionalSink(Protocol):
    """A sink that stores values and offsets together, or neither.

    Example:
        >>> isinstance(kafwire.stream.MemorySink(), kafwire.stream.TransactionalSink)
        True
    """

    async def write(self, value: Any) -> Awaitable[object] | None:
        """Add one value to the open transaction.

        Args:
            value: the result of the pipeline's last step.

        Returns:
            An awaitable that the stream awaits before it completes the value's record; None: the value is accepted.
        """

    async def start(self) -> None:
        """Claim the transactional id, before anything is read."""

    async def begin(self) -> None:
        """Begin a transaction."""

    async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
        """Commit the transaction with the group's offsets.

        Args:
            offsets: by partition.
            group: the member that commits.
        """

    async def abort(self) -> None:
        """Abort the transaction: its values are never visible."""


AnySink = Sink | TransactionalSink
