"""`AsyncConsumer`: `Consumer` for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack, cast, overload

from kafwire.aio.batch_reader import BatchReading
from kafwire.aio.bridge import StartedClient, on_engine
from kafwire.calls.consumer import ConsumerCalls, Move, closing_seconds, consumer_core, keywords_of, servers_first
from kafwire.cluster.list_offsets import EARLIEST, LATEST
from kafwire.cluster.offset_spec import Bound, OffsetSpec
from kafwire.config import ConsumerConfig
from kafwire.config.checks import described_by
from kafwire.consumer.core import CLOSE_SECONDS, POLL_BATCHES, POLL_BYTES, repr_of
from kafwire.consumer.delivery.arrow_stream import ArrowStream
from kafwire.consumer.delivery.partition_claim import Claim
from kafwire.consumer.group.rebalance_handlers import Handler, Handlers
from kafwire.consumer.offsets.commits import ToCommit
from kafwire.consumer.offsets.hand import Hand, UnreadRemainder, rests_of
from kafwire.errors import KafkaError
from kafwire.handles import refuse_copy
from kafwire.peer_names import CONSUMER, CONSUMER_ARGUMENTS, called_property, lookup, refuse_arguments
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import consumer_log as log
from kafwire.serializer_calls import Deserializers
from kafwire.timeouts import milliseconds
from kafwire.types import CommittedOffset, ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from kafwire.aio.partition_stream import AsyncPartitionStream
    from kafwire.config.typed_options import ConsumerOptions
    from kafwire.records import Batch, Record

_T = TypeVar("_T")


@refuse_arguments(CONSUMER_ARGUMENTS, blocking=False)
@described_by(ConsumerConfig)
class AsyncConsumer(StartedClient):
    """`kafwire.Consumer` for asyncio: reads partitions. An async context manager.

    It connects in `async with`, or on the first call. Fetched data below 256 KiB is decoded in the loop's thread,
    larger data in another thread. Nothing else blocks the loop. One task reads at a time, except by
    `partition_stream`. A task that is cancelled loses no records.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: the topics to read; with a `group_id` as a member of that group, as for `Consumer`.
        pattern: a regular expression instead of `topics`, for members of a group.
        assign: the partitions to read, instead of `topics`.
        start: the start position, as for `Consumer`.
        columns: the Arrow columns to decode, as for `kafwire.scan`; None decodes all.
        layout: names and types of the columns, as for `kafwire.scan`.
        on_assigned: as for `Consumer`; it is awaited if it returns an awaitable, and so are the others.
        on_revoked: as for `Consumer`.
        on_lost: as for `Consumer`.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ConsumerConfig`, for example `group_id="billing"`.

    Raises:
        ConfigError: an argument or an option has a bad value.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncConsumer(bootstrap, topics=[topic], start="earliest") as consumer:
        ...         async for batch in consumer.batches(timeout=1.0):
        ...             print(batch.partition, [record.value for record in batch])
        >>> asyncio.run(main())
        0 [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
    """

    __reduce_ex__ = refuse_copy
    _calls: ConsumerCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(CONSUMER, blocking=False)

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
            bootstrap_servers, options, engine, topics, pattern, assign, start, columns, layout, handlers
        )
        if self._core.config.consumer_timeout_ms is not None:
            log.warning("consumer_timeout_ms has no effect here: batches(timeout=seconds) ends after a silence")
        self._engine, self._abandon = self._core.cluster.engine, self._core.abandon
        self._fed: list[Batch] = []
        self._hand = self._core.commits.ledger.join(Hand(self._core.fetcher, _Fed(self._fed), by_task=True))
        self._calls = ConsumerCalls(self._core, self._hand)
        self._pushing = self._core.pushing
        self._reading = BatchReading(self._core, self._engine, self.start, self._return, self._hand)
        self._core.assignment.on_drop(self._hand.forget)
        self._begun = self._started = False
        self._closed = False
        self._returning = False
        self._has_failed = False  # the conversion of the next record
        self._starting: asyncio.Task[None] | None = None  # a start that a poll began and did not wait for
        self._raised: KafkaError | None = None  # the error that a poll raised last

    @classmethod
    def from_config(cls, options: Mapping[str, Any], *, engine: Engine | None = None) -> Self:
        """Make a consumer from Kafka's own option names, as `Consumer.from_config` does. It does not connect yet."""
        return cls(engine=engine, **keywords_of(options))

    async def start(self) -> None:
        """Connect, and look up the start positions. `async with` and the first call do this too.

        Raises:
            BrokerError: a topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> async def main():
            ...     consumer = kafwire.AsyncConsumer(bootstrap, topics=[topic])
            ...     await consumer.start()
            ...     await consumer.close()
            >>> asyncio.run(main())
        """
        self._check()
        if not self._started:
            self._begun = True
            await on_engine(self._engine, self._core.start_once())
            self._started = True

    # --- reading ----------------------------------------------------------------------------------------------------

    def batches(self, timeout: float | None = None) -> AsyncIterator[Batch]:
        """Iterate over the records as batches, each of one partition, as `Consumer.batches` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncConsumer(bootstrap, topics=[topic], start="earliest") as consumer:
            ...         return [len(batch) async for batch in consumer.batches(timeout=1.0)]
            >>> asyncio.run(main())
            [3]
        """
        return _Batches(self, timeout)

    async def _next(self, timeout: float | None, caller: object) -> Batch | None:  # noqa: ASYNC109  # of silence
        await self._put_back()
        batch = await self._reading.next(timeout, caller, by_silence=True)
        if batch is not None:
            self._hand.give(batch)
        return batch

    def _feed(self, batch: Batch) -> None:
        """Begin the delivery of this batch's records."""
        self._hand.begin(batch)
        self._fed.append(batch)

    def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over single records, for ever. A second loop continues where the first one stopped.

        Returns:
            An async iterator of `Record`.

        Raises:
            KafkaError: as `batches` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncConsumer(bootstrap, topics=[topic], start="earliest") as consumer:
            ...         async for record in consumer:
            ...             return record.value
            >>> asyncio.run(main())
            b'EWR-IAH'
        """
        self._check()
        self._reading.needs_offsets = True
        deserializers = self._core.deserializers
        if deserializers is not None and deserializers.is_async:
            return _AwaitedRecords(self, deserializers)
        return _Records(self)

    def poll(self, timeout: float = 0.0, *, max_records: int | None = None) -> Coroutine[Any, Any, list[Batch]]:
        """Return the batches that have arrived, up to about 16 MiB decoded, as `Consumer.poll` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncConsumer(bootstrap, topics=[topic], start="earliest") as consumer:
            ...         return [batch.next_offset for batch in await consumer.poll(timeout=10.0)]
            >>> asyncio.run(main())
            [3]
        """
        return self._poll(timeout, self._core.limit_of_poll(max_records), self._hand.caller())

    async def _poll(self, timeout: float, limit: int, caller: object) -> list[Batch]:  # noqa: ASYNC109  # an empty list then
        limit_ms = milliseconds(timeout)
        until = None if limit_ms < 0 else asyncio.get_running_loop().time() + limit_ms / 1000
        if not await self._start_within(timeout):
            return []
        await self._put_back()
        batch = await self._first(until, limit, caller)
        # No await from here on: a task with batches in hand cannot be cancelled.
        found: list[Batch] = []
        size, left = 0, limit
        try:
            while batch is not None:
                found.append(batch)
                size += batch.nbytes
                left -= len(batch)
                is_full = len(found) >= POLL_BATCHES or size >= POLL_BYTES or (limit and not left)
                batch = None if is_full else self._reading.at_once(left if limit else 0)
        except KafkaError:
            pass  # the next poll raises the error again; this one returns the batches
        except BaseException:
            for rest in rests_of(found):
                self._return(rest)
            raise
        for batch in found:
            self._hand.give(batch)
        return found

    async def _start_within(self, timeout: float | None) -> bool:  # noqa: ASYNC109  # False then: it goes on by itself
        if self._started:
            return True
        starting = self._starting or asyncio.ensure_future(self.start())
        self._starting = starting
        await asyncio.wait({starting}, timeout=timeout)
        if not starting.done():
            return False
        self._starting = None
        if starting.cancelled() and self._closed:
            raise KafkaError("the consumer was closed while this call waited")
        starting.result()
        return True

    async def _first(self, until: float | None, limit: int, caller: object) -> Batch | None:
        """Return the first batch of a poll. An error that was raised before is raised again only if no batch comes."""
        loop = asyncio.get_running_loop()

        def left() -> float | None:
            return None if until is None else max(0.0, until - loop.time())

        try:
            return await self._reading.next(left(), caller, limit=limit)
        except KafkaError as error:
            if error is not self._raised or not left():
                self._raised = error
                raise
            with self._core.beside(error):
                batch = await self._reading.next(left(), caller, limit=limit)
            if batch is None:
                raise
            return batch

    def partition_stream(
        self, partition: TopicPartition, timeout: float | None = None, *, explicit: bool = False
    ) -> AsyncPartitionStream:
        """Iterate over the batches of one partition alone, as `Consumer.partition_stream` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncConsumer(bootstrap, assign=[partition], start="earliest") as consumer:
            ...         return [batch.base_offset async for batch in consumer.partition_stream(partition, timeout=1.0)]
            >>> asyncio.run(main())
            [0]
        """
        claim, _ = self._calls.new_claim(partition, timeout)
        return self._stream(claim, timeout, explicit=explicit, let_go=self._let_go)

    async def _let_go(self, where: TopicPartition) -> None:
        await self._put_back([where])

    def _stream(
        self,
        claim: Claim,
        timeout_s: float | None,
        *,
        explicit: bool,
        let_go: Callable[[TopicPartition], Awaitable[None]] | None = None,
    ) -> AsyncPartitionStream:
        from kafwire.aio.partition_stream import AsyncPartitionStream

        hand = self._core.commits.ledger.join(Hand(self._core.fetcher, by_task=True))
        reading = BatchReading(self._core, self._engine, self.start, self._return, hand, claim)
        return AsyncPartitionStream(
            self._core,
            self._engine,
            reading,
            hand,
            claim,
            let_go=let_go,
            take_back=self._take_back_from,
            timeout_s=timeout_s,
            explicit=explicit,
        )

    async def partitions(
        self,
        *,
        explicit: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  # of silence
    ) -> AsyncGenerator[AsyncPartitionStream, None]:
        """Iterate over the partitions as they are assigned, each as a stream of its own, as `Consumer.partitions` does.

        Example:
            >>> async def handle(stream):
            ...     async for batch in stream:
            ...         print(stream.partition, len(batch))
            ...         consumer.stop()
            >>> async def main():
            ...     global consumer
            ...     async with (
            ...         kafwire.AsyncConsumer(bootstrap, topics=[topic], start="earliest") as consumer,
            ...         asyncio.TaskGroup() as tasks,
            ...     ):
            ...         async for stream in consumer.partitions():
            ...             tasks.create_task(handle(stream))
            >>> asyncio.run(main())
            0 3
        """
        feed, opening, _ = self._calls.new_feed(timeout)
        try:
            await self._move(opening)
            while feed.is_open:
                await self._reading.attend()
                claim = await on_engine(self._engine, feed.next())
                if claim is not None:
                    yield self._stream(claim, timeout, explicit=explicit)
        finally:
            self._engine.start(feed.close)

    def stop(self) -> None:
        """Deliver no more records, as `Consumer.stop` does. `await consumer.close()` closes."""
        self._check()
        self._engine.start(self._core.stop)
        return cast("None", NOT_AWAITED)

    async def arrow_stream(self, timeout: float | None = None) -> ArrowStream:  # noqa: ASYNC109  # of silence
        """Read all partitions as one Arrow stream, as `Consumer.arrow_stream` does.

        Reading it blocks: do that in a thread.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncConsumer(bootstrap, topics=[topic], start="earliest") as consumer:
            ...         stream = await consumer.arrow_stream(timeout=1.0)
            ...         return await asyncio.to_thread(pa.table, stream)
            >>> asyncio.run(main()).num_rows
            3
        """
        reader = (await self._move(self._calls.arrow_stream(timeout)))(keeps=self)
        return ArrowStream(reader, self._core.deserializers)

    async def _put_back(self, only: Iterable[TopicPartition] | None = None) -> None:
        """Fetch again the rest of a batch whose records were delivered in part, one by one."""
        await self.start()
        rest = self._hand.put_back(only)
        if rest is not None:
            self._return(rest)
        await self._wait_for_returns()

    def _return(self, rest: UnreadRemainder) -> None:
        """Fetch `rest` again, independently of the calling task: its cancellation must not leave a gap."""
        self._returning = True
        self._engine.start(self._core.positions.put_back, rest)

    async def _wait_for_returns(self) -> None:
        if self._returning:
            if not self._closed:  # the next owner reads the undelivered records of a closed consumer
                await self._run(self._core.positions.settled)
            self._returning = False

    async def _take_back(self, only: Collection[TopicPartition] | None = None) -> None:
        """Fetch again all records of these partitions (None: all) that left the buffer and were not delivered."""
        await self._put_back(only)
        await self._take_back_from(self._reading, only)

    async def _take_back_from(self, reading: BatchReading, only: Collection[TopicPartition] | None = None) -> None:
        """Fetch again the batch that a cancelled task had begun to decode, if it is of these partitions."""
        batch = await reading.begun()
        for rest in rests_of([] if batch is None else [batch]):
            if only is None or rest.where in only:
                reading.forget()
                self._return(rest)
        await self._wait_for_returns()

    async def _move(self, move: Move[_T]) -> _T:
        await self._take_back(move.partitions)
        if move.leaves:
            await self._tell_revoked()
        found = await self._run(move.work)
        if move.seeks:
            self._hand.seek(move.partitions)
        return found

    # --- partitions and positions -----------------------------------------------------------------------------------

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that the consumer reads; none before the start."""
        return called_property("assignment", self._core.assignment.partitions)

    @property
    def subscription(self) -> set[str]:
        """The topics of `topics=`, `pattern=` or `subscribe`: all their partitions are read, or the assigned ones."""
        return called_property("subscription", self._core.topics)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read only these partitions, as `Consumer.assign` does."""
        await self._move(self._calls.assign(partitions))

    async def subscribe(self, topics: str | Iterable[str] | None = None, *, pattern: str | None = None) -> None:
        """Read only these topics: all partitions, or those that the group assigns, as `Consumer.subscribe` does."""
        await self._move(self._calls.subscribe(topics, pattern))

    async def unsubscribe(self) -> None:
        """Stop reading all partitions, as `Consumer.unsubscribe` does."""
        await self._move(self._calls.unsubscribe())

    async def _tell_revoked(self) -> None:
        """Call the handlers of a leaving member here, as no read runs meanwhile."""
        for call in self._core.last_calls():
            await call.call_awaited()

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset, as `Consumer.seek` does. Buffered records of the partition are dropped.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncConsumer(bootstrap, assign=[partition]) as consumer:
            ...         await consumer.seek(partition, 2)
            ...         return await anext(aiter(consumer))
            >>> asyncio.run(main()).value
            b'JFK-BQN'
        """
        await self._move(self._calls.seek(partition, offset))

    async def seek_to_timestamp(
        self, when: OffsetSpec, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """Continue at the first record at or after a time, as `Consumer.seek_to_timestamp` does."""
        return await self._move(self._calls.seek_to(when, partitions))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Continue at the first offsets, as `Consumer.seek_to_beginning` does."""
        return await self.seek_to_timestamp("earliest", partitions or None)

    async def seek_to_end(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Continue at the end offsets, as `Consumer.seek_to_end` does."""
        return await self.seek_to_timestamp("latest", partitions or None)

    async def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching and delivering these partitions, as `Consumer.pause` does."""
        await self._move(self._calls.pause(partitions))

    async def resume(self, *partitions: TopicPartition) -> None:
        """Fetch and deliver these partitions again, as `Consumer.resume` does."""
        await self._run(self._calls.resume(partitions))

    @property
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return called_property("paused", self._core.assignment.paused)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that will be delivered, as `Consumer.position` does."""
        rest = self._hand.next()
        if rest is not None and rest[0] == partition:
            return rest[1]
        await self._take_back_from(self._reading, [partition])
        return await self._run(self._core.positions.position, partition)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, int | None]:
        """Ask the leaders for the first offset at or after a time, as `Consumer.offsets_for_times` does."""
        return await self._run(self._calls.offsets_for_times(timestamps))

    async def partitions_for(self, topic: str) -> set[int]:
        """Look up the numbers of a topic's partitions, as `Consumer.partitions_for` does."""
        return await self._run(self._core.cluster.partitions, topic)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Ask the leaders for the first offset of each partition, as `Consumer.beginning_offsets` does."""
        return await self._run(self._calls.ends(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Ask the leaders for the end offset of each partition, as `Consumer.end_offsets` does."""
        return await self._run(self._calls.ends(partitions, LATEST))

    @overload
    def lag(self, partition: TopicPartition) -> int | None: ...

    @overload
    def lag(self) -> dict[TopicPartition, int | None]: ...

    def lag(self, partition: TopicPartition | None = None) -> int | dict[TopicPartition, int | None] | None:
        """Count the offsets between the position and the end of the log, as `Consumer.lag` does. No request is sent."""
        self._check()
        return self._calls.lag(partition)

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch response, as `Consumer.high_watermark` does.

        No request is sent.
        """
        self._check()
        return self._core.positions.high_watermark(partition)

    # --- commits ----------------------------------------------------------------------------------------------------

    def commit(self, what: ToCommit | None = None) -> Coroutine[Any, Any, None]:
        """Commit offsets for the group, and wait until its coordinator has stored them, as `Consumer.commit` does.

        Without arguments it covers the rows in hand in the task that called `poll`, or read the batch or record.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncConsumer(bootstrap, assign=[partition], group_id="billing") as consumer:
            ...         await consumer.commit({partition: 2})
            ...         return await consumer.committed()
            >>> asyncio.run(main())[partition]
            2
        """
        # The call itself identifies the task: a coroutine may run in another one, as by asyncio.wait_for.
        return self._run(self._calls.commit(what))

    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Ask the coordinator for the group's committed offsets, as `Consumer.committed` does."""
        return await self._run(self._calls.committed(partitions))

    def processed(self, *, in_hand: bool = False) -> dict[TopicPartition, int]:
        """Return each partition's processed offset, as `Consumer.processed` does, for `AsyncProducer.send_offsets`.

        No request is sent.
        """
        self._check()
        return self._core.processed(self._hand, in_hand=in_hand)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata for `AsyncProducer.send_offsets`, as `Consumer.group_metadata` does."""
        return self._core.commits.group_metadata()

    # --- the rest ---------------------------------------------------------------------------------------------------

    async def metrics(self) -> dict[str, Any]:
        """Return a snapshot of counters and states, as `Consumer.metrics` does."""
        return await self._run(self._core.snapshot)

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109
        """Commit processed offsets, leave the group, and close the connections, as `Consumer.close` does.

        A call that is cancelled leaves nothing open.
        """
        await self._close(closing_seconds(timeout), failed=False)

    async def _close(self, timeout: float, *, failed: bool) -> None:  # noqa: ASYNC109
        if self._closed or self._engine.is_over:
            return
        until = self._engine.clock.monotonic() + timeout
        self._core.commits.ledger.advance(self._hand.passed())
        if self._starting is not None:
            self._starting.cancel()
        try:
            async with asyncio.timeout(timeout) as patience:
                await self._tell_revoked()
        except TimeoutError:
            if not patience.expired():  # the handler raised it
                raise
            log.warning("kafwire: on_revoked was cancelled as it took longer than the %g s of close", timeout)
        finally:
            self._closed = True
            await self._close_core(max(0.0, until - self._engine.clock.monotonic()), failed=failed)

    async def _close_core(self, timeout: float, *, failed: bool) -> None:  # noqa: ASYNC109
        # A separate task: a cancelled wait leaves nothing open.
        closing = asyncio.ensure_future(on_engine(self._engine, self._core.close(timeout, failed=failed)))
        await asyncio.shield(closing)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(CLOSE_SECONDS, failed=kind is not None)

    def __repr__(self) -> str:
        return repr_of(self, self._core, closed=self._closed)


class _NotAwaited:
    """The result of `stop`. Awaiting it raises an error with advice: in aiokafka, `await consumer.stop()` closes."""

    def __await__(self) -> NoReturn:
        raise TypeError("stop() is not awaited, and does not close: write `await consumer.close()`")

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "None"


NOT_AWAITED = _NotAwaited()


class _Fed:
    """An iterator of the batches that a record iterator takes next. It may get more batches after it was empty."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if not self._batches:
            raise StopIteration
        return self._batches.pop(0)


class _Batches:
    """The iterator of a consumer's batches. An error ends it, a cancellation does not."""

    def __init__(self, consumer: AsyncConsumer, timeout_s: float | None) -> None:
        self._consumer = consumer
        self._timeout_s = timeout_s
        self._has_ended = False

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Batch]:
        return self._next(self._consumer._hand.caller())

    async def _next(self, caller: object) -> Batch:
        if self._has_ended:
            raise StopAsyncIteration
        try:
            batch = await self._consumer._next(self._timeout_s, caller)
        except Exception:
            self._has_ended = True
            raise
        if batch is None:
            self._has_ended = True
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """End the iteration, as an async generator does."""
        self._has_ended = True


class _Records:
    """The iterator of a consumer's records."""

    def __init__(self, consumer: AsyncConsumer) -> None:
        self._consumer = consumer
        self._records = consumer._hand.records

    def __aiter__(self) -> AsyncIterator[Record]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Record]:
        self._records.called()
        return self._next()

    async def _next(self) -> Record:
        while True:
            if self._consumer._has_failed:
                await self._resolve_again()
            try:
                record = next(self._records, None)
            except Exception:
                self._consumer._has_failed = True
                raise
            if record is not None:
                return record
            batch = await self._consumer._reading.next(None, self._records.context, limit=0)
            if batch is None:
                raise StopAsyncIteration
            self._consumer._feed(batch)

    async def _resolve_again(self) -> None:
        held, deserializers = self._records.batch, self._consumer._core.deserializers
        if held is not None and deserializers is not None:
            await deserializers.resolve_again(cast("Batch", held))
        self._consumer._has_failed = False


class _AwaitedRecords(_Records):
    """The iterator of a consumer's records with async deserializers. A record is delivered once they have run."""

    def __init__(self, consumer: AsyncConsumer, deserializers: Deserializers) -> None:
        super().__init__(consumer)
        self._deserializers = deserializers

    async def _next(self) -> Record:
        records = self._records
        while True:
            try:
                raw = records.peek()
            except StopIteration:
                batch = await self._consumer._reading.next(None, records.context, limit=0)
                if batch is None:
                    raise StopAsyncIteration from None
                self._consumer._feed(batch)
                continue
            held, row = records.batch, records.row
            record = await self._deserializers.deserialize_awaited(raw)
            # Another task may have called `seek`, or taken the record, meanwhile.
            if records.batch is held and records.row == row:
                records.skip()
                return record
