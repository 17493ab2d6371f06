"""`AsyncPartitionStream`: the stream of one partition's batches, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kafwire.aio.batch_reader import BatchReading
from kafwire.aio.bridge import on_engine
from kafwire.calls.consumer import StreamCalls
from kafwire.consumer.core import ConsumerCore
from kafwire.consumer.delivery.partition_claim import Claim, StreamEnded
from kafwire.consumer.offsets.hand import Hand, Handed
from kafwire.consumer.offsets.partition_progress import PartitionProgress
from kafwire.runtime.interfaces import Engine
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.records import Batch, Record


class AsyncPartitionStream(StreamCalls):
    """The batches of one partition, for one task: an async iterator, and an async context manager.

    It ends when the partition is revoked from this member of a group, or lost, or when the consumer is stopped or
    closed. A revocation waits, at most `revocation_timeout_ms`, until the batch in hand is processed, or, with
    `explicit`, all delivered records; and with `enable_auto_commit=False` until the stream is closed or dropped, so
    that a commit after its end is still possible.

    A batch counts as processed when the next one is read, or when it is committed. `topic` and `partition` name the
    partition. `partition_stream` or `partitions` of `AsyncConsumer` makes it.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncConsumer(bootstrap, assign=[partition], start="earliest") as consumer:
        ...         async with consumer.partition_stream(partition, timeout=1.0) as stream:
        ...             return stream.partition, [len(batch) async for batch in stream]
        >>> asyncio.run(main())
        (0, [3])
    """

    def __init__(
        self,
        core: ConsumerCore,
        engine: Engine,
        reading: BatchReading,
        hand: Hand,
        claim: Claim,
        *,
        let_go: Callable[[TopicPartition], Awaitable[None]] | None,
        take_back: Callable[[BatchReading], Awaitable[None]],
        timeout_s: float | None,
        explicit: bool,
    ) -> None:
        """`let_go` puts the partition's records in the consumer's hand back, if the claim is not taken yet.

        `take_back` fetches the records that the reader had begun to decode again.
        """
        super().__init__(core, engine, claim, hand, explicit=explicit)
        self._reading = reading
        self._let_go = let_go
        self._take_back = take_back
        self._timeout_s = timeout_s
        # With manual commits, the user may commit after the end of a stream of `partitions()`, until it is closed.
        self._stays = let_go is None and not core.commits.is_automatic
        self._is_bounded = True  # False: the reader bounds the uncommitted offsets itself

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Batch]:
        """Read the next batch, and count the one before it as processed unless the stream is `explicit`."""
        return self._taken(self._hand.caller())

    async def _taken(self, caller: object) -> Batch:
        if self._closed or self._has_ended:
            raise StopAsyncIteration
        try:
            batch = await self._next(caller)
        except BaseException:
            await self.aclose()
            raise
        if batch is None:
            self._has_ended = True
            if not self._stays:
                await self.aclose()
            raise StopAsyncIteration
        return batch

    async def _next(self, caller: object) -> Batch | None:
        if self._let_go is not None:
            await self._let_go(self._claim.where)
            await on_engine(self._engine, self._core.claim(self._claim))
            self._let_go = None
        self._claim.is_read = True
        if self._claim.is_over:
            return None
        if self._progress is None and self._explicit:
            self._progress = await on_engine(self._engine, self._core.follow_progress(self._claim))
            self._reading.needs_offsets = True
        if self._is_bounded and self._progress is not None and self._is_full(self._progress):
            await on_engine(self._engine, self._core.room(self._claim, self._progress))
        position = self._core.position(self._claim)
        try:
            batch = await self._reading.next(self._timeout_s, caller)
            while batch is None and self._paused and not self._claim.is_ending:  # no records because of the pause
                batch = await self._reading.next(self._timeout_s, caller)
        except StreamEnded:
            return None
        if batch is not None and self._progress is not None:
            self._progress.hand_out(position, batch)
        elif batch is not None:
            self._hand.give(batch)
        return batch

    def _is_full(self, progress: PartitionProgress) -> bool:
        return progress.uncommitted >= self._core.config.max_uncommitted

    def commit(self, what: Batch | Record | None = None) -> Coroutine[Any, Any, None]:
        """Commit the partition's processed offset.

        Args:
            what: a batch or a record: commit its end. None: commit the processed offset; in the task that reads the
                stream, the batch in hand counts too, unless the stream is `explicit`.

        Raises:
            CommitFailedError: this consumer does not own the partition any more.
            ConfigError: the consumer has no `group_id`.
            BrokerError: the coordinator refuses the commit.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.
        """
        return self._commit(what, self._covered(what))

    async def _commit(self, what: Batch | Record | None, handed: list[Handed]) -> None:
        await on_engine(self._engine, self._core.commit_claimed(self._claim, what, handed))

    def _abandon(self) -> None:
        """Leave uncompleted records to the next owner: after the close, a revocation does not wait for them."""
        if self._progress is not None:
            self._progress.is_abandoned = True

    async def aclose(self) -> None:
        """Close the stream: other readers may read the partition. A second close does nothing."""
        if self._closed:
            return
        self._closed = True
        self._core.commits.ledger.part(self._hand)
        try:
            await self._take_back(self._reading)
        finally:
            self._reading.leave(self._claim)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            with suppress(RuntimeError):  # the event loop is closed, and its decoded records are gone
                self._reading.leave(self._claim)
