"""`ConsumerSource`: the partitions of an `AsyncConsumer`, assigned by its group or named by the user."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from kafwire.aio.bridge import on_engine
from kafwire.aio.consumer import AsyncConsumer
from kafwire.aio.partition_stream import AsyncPartitionStream
from kafwire.errors import ConfigError
from kafwire.records._records import Batch
from kafwire.serializer_calls import Deserializers
from kafwire.stream.argument_checks import is_seconds
from kafwire.types import ConsumerGroupMetadata, TopicPartition


class ConsumerSource:
    """Reads the partitions of a consumer, and commits for its group. Closing it closes the consumer.

    A revoked partition is given up when its records in progress are completed and committed, within the consumer's
    `revocation_timeout_ms`. No other code may use the consumer meanwhile, and it needs `enable_auto_commit=False`. Its
    `max_uncommitted` has no effect: the pipeline's `limits` have.

    Args:
        consumer: the consumer; it needs a `group_id` for commits.
        idle_s: a partition ends when it had no record for so many seconds; the source ends with the last of them. None:
            it never ends.

    Raises:
        ConfigError: `consumer` is no `AsyncConsumer`, or commits by itself, or its deserializer is async; `idle_s` is
            no time.

    Example:
        >>> async def main():
        ...     consumer = kafwire.AsyncConsumer(
        ...         bootstrap, topics=[topic], start="earliest", group_id="billing", enable_auto_commit=False
        ...     )
        ...     source = kafwire.stream.ConsumerSource(consumer, idle_s=1.0)
        ...     return await kafwire.stream.Pipeline().map(lambda order: order.value).run_async(source)
        >>> asyncio.run(main()).records
        3
    """

    __module__ = "kafwire.stream"

    def __init__(self, consumer: AsyncConsumer, *, idle_s: float | None = None) -> None:
        if not isinstance(consumer, AsyncConsumer):
            raise ConfigError(f"ConsumerSource({consumer!r}): it must be an AsyncConsumer")
        if not (idle_s is None or is_seconds(idle_s)):
            raise ConfigError(f"ConsumerSource(idle_s={idle_s!r}): it must be a number of seconds, 0 or more")
        if consumer._core.commits.is_automatic:
            raise ConfigError(
                "the consumer would commit offsets of unprocessed records: give it enable_auto_commit=False"
            )
        deserializers = consumer._core.deserializers
        if deserializers is not None and deserializers.is_async:
            raise ConfigError("a stream cannot await an async deserializer: remove the consumer's")
        if consumer._core.config.group_id is not None:
            consumer._core.commits.commit_starts()
        self._consumer = consumer
        self._idle_s = idle_s
        self._running: set[_Partition] = set()
        self._has_begun = False
        self._ended = asyncio.Event()

    async def partitions(self) -> AsyncIterator[_Partition]:
        """Iterate over the streams of the consumer's partitions, as they are assigned.

        Returns:
            Their streams.

        Raises:
            KafkaError: the consumer could not be started, or its membership is over.
        """
        streams = self._consumer.partitions(explicit=True, timeout=self._idle_s)
        ended = asyncio.ensure_future(self._ended.wait())
        coming: asyncio.Task[AsyncPartitionStream | None] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(_next(streams))
                await asyncio.wait({coming, ended}, return_when=asyncio.FIRST_COMPLETED)
                stream = coming.result() if coming.done() else None
                if stream is None:
                    return
                partition = _Partition(stream, self._consumer._core.deserializers, self._on_end, self._committed)
                self._running.add(partition)
                yield partition
        finally:
            ended.cancel()
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})
            await streams.aclose()

    async def _committed(self, where: TopicPartition) -> int | None:
        if self._consumer._core.config.group_id is None:
            return None
        return (await self._consumer.committed([where]))[where]

    def _on_end(self, partition: _Partition) -> None:
        self._running.discard(partition)
        if self._idle_s is not None and not self._running:
            self._ended.set()

    async def commit(self) -> None:
        """Commit the completed offsets.

        Raises:
            KafkaError: as `AsyncConsumer.commit` does.
        """
        await self._consumer.commit()

    async def close(self) -> None:
        """End the streams, and close the consumer."""
        await self._consumer.close()

    @property
    def is_member(self) -> bool:
        """True if the consumer has a group, which may assign it a part of the partitions."""
        return self._consumer._core.config.group_id is not None

    @property
    def patience_s(self) -> float:
        """Seconds that a `TopicTable` waits for a partition without records."""
        return self._consumer._core.config.default_api_timeout_ms / 1000

    async def end_offsets(self) -> dict[TopicPartition, int]:
        """Return the end offsets of the consumer's partitions, for a `TopicTable`, as `AsyncConsumer.end_offsets` does.

        Returns:
            The end offset of each partition; with `isolation_level="read_committed"` the last stable offset, which is
            before the records of open transactions.

        Raises:
            KafkaError: a leader sent no response in time.
        """
        await self._consumer.start()
        return await self._consumer.end_offsets()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the current group member.

        A transaction calls this first, and then checks that each of its partitions is still owned. So the coordinator
        refuses the transaction if a partition was assigned to another member in between.

        Returns:
            The group and its member.

        Raises:
            ConfigError: the consumer has no `group_id`.
        """
        return self._consumer._core.current_member()

    def watch_calls(self, oldest: Callable[[], tuple[float, str] | None]) -> None:
        """Apply the consumer's `max_poll_interval_ms` to the stream's calls.

        Args:
            oldest: returns for how many milliseconds the oldest call has run, and its description; None: no call runs.
        """
        membership = self._consumer._core.membership
        if membership is not None:
            membership.poll_interval.watch_calls(oldest)


async def _next(streams: AsyncIterator[AsyncPartitionStream]) -> AsyncPartitionStream | None:
    return await anext(streams, None)


class _Partition:
    """One partition of a `ConsumerSource`. Closing its iterator gives the partition up."""

    def __init__(
        self,
        stream: AsyncPartitionStream,
        deserializers: Deserializers | None,
        on_end: Callable[[_Partition], None],
        committed: Callable[[TopicPartition], Awaitable[int | None]],
    ) -> None:
        self.topic, self.partition = stream.topic, stream.partition
        self.deserializers = deserializers  # the stream calls them: their errors are failures of the record
        self._stream, self._claim = stream, stream._claim
        stream._is_bounded = False  # a list of `batch`, or a transaction, may be longer than its `max_uncommitted`
        self._on_end = on_end
        self._committed = committed

    async def __aiter__(self) -> AsyncIterator[Batch]:
        has_begun = False
        try:
            async for batch in self._stream:
                if not has_begun:
                    core = self._stream._core
                    await on_engine(core.cluster.engine, core.commits.start_is_settled(self._claim.cursor))
                    has_begun = True
                yield batch
        finally:
            self._on_end(self)

    @property
    def is_lost(self) -> bool:
        ownership = self._claim.ownership
        return ownership is not None and ownership.is_lost

    @property
    def is_ending(self) -> bool:
        return self._claim.is_ending

    def on_change(self, function: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()

        def call() -> None:  # runs on the engine
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(function)

        self._claim.on_change = call

    def complete(self, first_offset: int, next_offset: int) -> None:
        self._stream.complete(first_offset, next_offset)

    def pause(self) -> None:
        self._stream.pause()

    def resume(self) -> None:
        self._stream.resume()

    def position(self) -> int:
        return self._stream._core.position(self._claim)

    async def committed(self) -> int | None:
        return await self._committed(TopicPartition(self.topic, self.partition))

    async def commit(self) -> None:
        await self._stream.commit()

    async def close(self) -> None:
        self._stream._abandon()
        await self._stream.aclose()
