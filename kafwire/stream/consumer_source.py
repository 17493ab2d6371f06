"""`ConsumerSource`: the partitions of an `AsyncConsumer` that was given them (`topics`, `assign`), as a source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from kafwire.aio.consumer import AsyncConsumer
from kafwire.consumer.completed_offsets import CompletedOffsets
from kafwire.errors import ConfigError
from kafwire.records._records import Batch
from kafwire.types import ConsumerGroupMetadata, TopicPartition


class ConsumerSource:
    """Reads the partitions of a consumer, and commits for its group. Closing it closes the consumer.

    The consumer is used by nobody else meanwhile, and has `enable_auto_commit=False`.

    Args:
        consumer: what is read; with a `group_id` if anything is to be committed.
        idle_s: a partition is read no more when it has had no record for so many seconds; the source ends with the last
            of them. None: it never ends.

    Raises:
        ConfigError: the consumer commits by itself.

    Example:
        >>> async def main():
        ...     consumer = kafwire.AsyncConsumer(
        ...         bootstrap, assign=[partition], start="earliest", group_id="billing", enable_auto_commit=False
        ...     )
        ...     source = kafwire.stream.ConsumerSource(consumer, idle_s=1.0)
        ...     return await kafwire.stream.Pipeline().map(lambda order: order.value).run_async(source)
        >>> asyncio.run(main()).records
        3
    """

    __module__ = "kafwire.stream"

    def __init__(self, consumer: AsyncConsumer, *, idle_s: float | None = None) -> None:
        if consumer._core.commits.is_automatic:
            raise ConfigError("the consumer would commit what is not processed yet: give it enable_auto_commit=False")
        self._consumer = consumer
        self._idle_s = idle_s
        self._streams: list[_Stream] = []
        self._closed = asyncio.Event()
        self._committing = asyncio.Lock()

    async def partitions(self) -> AsyncIterator[_Stream]:
        """Iterate over the streams of the consumer's partitions.

        Returns:
            Their streams.

        Raises:
            KafkaError: the consumer could not be started.
        """
        await self._consumer.start()
        self._streams = [_Stream(self, where) for where in sorted(self._consumer.assignment)]
        for stream in self._streams:
            yield stream
        if self._idle_s is None:
            await self._closed.wait()

    async def commit(self) -> None:
        """Commit what is completed.

        Raises:
            KafkaError: as `AsyncConsumer.commit` does.
        """
        await self._commit_of(self._streams)

    async def _commit_of(self, streams: list[_Stream]) -> None:
        """Commit what is completed of some partitions."""
        async with self._committing:  # one after the other: no offset goes back
            reached = {
                one.where: one.completed.committable
                for one in streams
                if one.completed is not None and one.completed.committable != one.committed
            }
            if not reached:
                return
            await self._consumer.commit(reached)
            for one in streams:
                one.committed = reached.get(one.where, one.committed)

    async def close(self) -> None:
        """End the streams, and close the consumer."""
        self._closed.set()
        for stream in self._streams:
            await stream.close()
        await self._consumer.close()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Say who commits, as `AsyncConsumer.group_metadata` does.

        Returns:
            The group.

        Raises:
            ConfigError: the consumer has no `group_id`.
        """
        return self._consumer.group_metadata()

    def _stream_of(self, where: TopicPartition) -> AsyncIterator[Batch]:
        """Iterate over the batches of one partition."""
        return self._consumer.partition_stream(where, timeout=self._idle_s)

    async def _set_paused(self, where: TopicPartition, *, paused: bool) -> None:
        """Have the consumer fetch nothing of a partition, or go on."""
        await (self._consumer.pause(where) if paused else self._consumer.resume(where))


class _Stream:
    """One partition of a `ConsumerSource`."""

    is_lost = False  # there are no members who could take it

    def __init__(self, source: ConsumerSource, where: TopicPartition) -> None:
        self.where = where
        self.topic, self.partition = where
        self.completed: CompletedOffsets | None = None
        self.committed = -1
        self._source = source
        self._changes: asyncio.Task[None] | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()

    async def __aiter__(self) -> AsyncIterator[Batch]:
        while True:
            async for batch in self._source._stream_of(self.where):
                if self.completed is None:
                    self.completed = CompletedOffsets(batch.base_offset)
                self.completed.hand_out(batch.next_offset)
                await self._resumed.wait()
                yield batch
            if self._resumed.is_set():
                return
            await self._resumed.wait()  # it was silent because it is paused

    def complete(self, first_offset: int, next_offset: int) -> None:
        if self.completed is not None:
            self.completed.complete(first_offset, next_offset)

    def pause(self) -> None:
        self._resumed.clear()
        self._change(self._source._set_paused(self.where, paused=True))

    def resume(self) -> None:
        self._resumed.set()
        self._change(self._source._set_paused(self.where, paused=False))

    def _change(self, change: Coroutine[Any, Any, None]) -> None:
        self._changes = asyncio.ensure_future(_after(self._changes, change))

    async def commit(self) -> None:
        await self._source._commit_of([self])

    async def close(self) -> None:
        if self._changes is not None:
            await asyncio.wait({self._changes})


async def _after(before: asyncio.Task[None] | None, change: Coroutine[Any, Any, None]) -> None:
    """Changes happen one after the other, in the order in which they were asked for."""
    if before is not None:
        await asyncio.wait({before})
    await change
