"""`AsyncProducer`: `Producer` for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafwire.aio.bridge import INLINE_BYTES, AwaitingPushingClient, on_engine
from kafwire.aio.deliveries import AsyncBatchDelivery, AsyncDelivery, LoopRegistry, LoopState, SendTurn
from kafwire.calls.producer import (
    Header,
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
from kafwire.errors import UnknownPartition
from kafwire.handles import refuse_copy
from kafwire.peer_names import PRODUCER_ARGUMENTS, AsyncProducerNames, refuse_arguments
from kafwire.producer.buffer._batch import BatchDelivery, Delivery
from kafwire.producer.core import CLOSED
from kafwire.producer.send.flush import closed_early, undelivered
from kafwire.runtime.interfaces import Engine, Work
from kafwire.runtime.log import producer_log as log
from kafwire.serializer_calls import Serializers
from kafwire.types import ConsumerGroupMetadata, RecordMetadata, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    from kafwire.aio.transaction import AsyncTransactionBlock
    from kafwire.config.typed_options import ProducerOptions


# How long a cancelled `async with` still waits for acknowledgements.
CANCELLED_FLUSH_S = 1.0


@refuse_arguments(PRODUCER_ARGUMENTS, blocking=False)
@described_by(ProducerConfig)
class AsyncProducer(AsyncProducerNames, AwaitingPushingClient):
    """`kafwire.Producer` for asyncio: sends records. An async context manager.

    It may be created outside a running loop, and used by any number of tasks, from several loops and threads. Nothing
    blocks the loop: requests, retries and linger run in the engine's thread, and tables of 256 KiB and more are encoded
    in another thread.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ProducerConfig`, for example `compression_type="lz4"`.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncProducer(bootstrap, linger_ms=5) as producer:
        ...         delivery = await producer.send(topic, b"EWR-IAH", key=b"UA")
        ...         return await delivery
        >>> asyncio.run(main()).offset
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
        options_given = {"bootstrap_servers": bootstrap_servers, **options}
        self._core, serializers = producer_parts(options_given, engine, blocking=False)
        self._config, self._engine = self._core.config, self._core.cluster.engine
        self._calls = ProducerCalls(self._core)
        self._pushing = self._core.pushing
        self._accumulator = self._core.accumulator
        self._loops = LoopRegistry(self._accumulator.budget)
        self._closed = False
        if serializers is not None:
            self._serializers = serializers
            kind: Any = type(self)  # mypy does not accept these classes as hashable
            self.__class__ = serializing(kind, AsyncProducer, _SerializingProducer)

    @classmethod
    def from_config(cls, options: Mapping[str, Any], *, engine: Engine | None = None) -> Self:
        """Make a producer from Kafka's own option names, as `Producer.from_config` does."""
        return cls(engine=engine, **keywords_of(options))

    async def start(self) -> None:
        """Connect, so that an unreachable cluster raises an error here. Otherwise the first `send` connects.

        A second call does nothing.

        Raises:
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no broker responded within `default_api_timeout_ms`.

        Example:
            >>> async def main():
            ...     producer = kafwire.AsyncProducer(bootstrap)
            ...     await producer.start()
            ...     await producer.close()
            >>> asyncio.run(main())
        """
        await self._run(self._core.connect)

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Iterable[Header] | dict[str, Any] | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> AsyncDelivery:
        """Buffer one record, and return the handle of its delivery, as `Producer.send` does.

        It waits, without blocking the loop, for the metadata of a new topic and for room in `buffer_memory`: at most
        `max_block_ms` together. Tasks that wait for room get it in turn. A call that is cancelled has not buffered the
        record.

        Returns:
            An `AsyncDelivery`. Awaiting it gives the record's `RecordMetadata`.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncProducer(bootstrap) as producer:
            ...         deliveries = [await producer.send(topic, value) for value in (b"EWR-IAH", b"JFK-MIA")]
            ...         return [(await delivery).offset for delivery in deliveries]
            >>> asyncio.run(main())
            [3, 4]
        """
        loop_state = self._loops.here()
        try:
            if headers is not None and not isinstance(headers, list | tuple | dict):
                headers = list(headers)  # an iterator would be empty at the second attempt
            delivery = None
            if not loop_state.senders:
                try:  # noqa: SIM105  # for speed
                    delivery = self._accumulator.append(topic, value, key, headers, timestamp_ms, partition)
                except UnknownPartition:
                    pass
            if delivery is None:
                delivery = await self._send_in_turn(loop_state, (topic, value, key, headers, timestamp_ms, partition))
        except (TypeError, OverflowError, UnicodeEncodeError) as error:
            raise wrong_argument(topic, headers, timestamp_ms, partition, error) from None
        return AsyncDelivery(self._loops, delivery)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Iterable[Header] | dict[str, Any] | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> RecordMetadata:
        """Send one record, and wait for its acknowledgement.

        Each call costs a round trip. For many records, keep the deliveries of `send` and await them later.

        Args:
            topic: the topic.
            value: bytes-like, None for null, or an input of the `value_serializer`.
            key: bytes-like, None for null, or an input of the `key_serializer`.
            headers: pairs of a str and bytes, str (sent as UTF-8) or None; or a dict.
            timestamp_ms: milliseconds since the epoch; None: now.
            partition: the partition; None leaves it to the partitioner.

        Returns:
            The record's topic, partition, offset and timestamp.

        Raises:
            KafkaError: as `Producer.send` and `Delivery.result` do.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncProducer(bootstrap) as producer:
            ...         return await producer.send_and_wait(topic, b"EWR-IAH", key=b"UA")
            >>> asyncio.run(main()).offset
            3
        """
        delivery = await self.send(
            topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition
        )
        return await delivery

    async def _send_in_turn(self, loop_state: LoopState, record: tuple[Any, ...]) -> Delivery:
        self._check()
        until = self._deadline(loop_state)
        if record[0] not in self._accumulator.topics:
            await self._learn(loop_state, [record[0]], until)
        while True:
            try:
                return await self._append_in_turn(loop_state, record, until)
            except UnknownPartition as error:  # the place in the queue is free by now: other senders need not wait
                missing = error
            await self._learn_partition(loop_state, missing, until)

    async def _append_in_turn(self, loop_state: LoopState, record: tuple[Any, ...], until: float) -> Delivery:
        place = loop_state.enter()
        try:
            while True:
                if place.is_first:
                    delivery = self._accumulator.append(*record)
                    if delivery is not None:
                        return delivery
                if not await place.wait(until):
                    raise self._core.no_room()
        finally:
            loop_state.leave(place)

    async def send_batch(self, topic: str | None, data: Any, *, partition: int | None = None) -> AsyncBatchDelivery:
        """Send every row of Arrow data, as `Producer.send_batch` does.

        It waits, without blocking the loop, while `buffer_memory` is full. After an error, and when it is cancelled,
        the rows that were buffered before are sent.

        Returns:
            An `AsyncBatchDelivery`. Awaiting it gives ranges of offsets.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncProducer(bootstrap) as producer:
            ...         return await (await producer.send_batch(topic, pa.table({"value": ["JFK-MIA", "JFK-BQN"]})))
            >>> [(r[2], r[3]) for r in asyncio.run(main())]
            [(3, 2)]
        """
        self._check()
        loop_state = self._loops.here()
        rows = RowsToSend(self._accumulator, topic, self._pieces(topic, data), partition)
        try:
            await self._send_rows(loop_state, rows, topic, data)
        except BaseException as error:
            carry(error, AsyncBatchDelivery(self._loops, BatchDelivery(rows.parts)))
            raise
        return AsyncBatchDelivery(self._loops, BatchDelivery(rows.parts))

    async def _send_rows(self, loop_state: LoopState, rows: RowsToSend, topic: str | None, data: Any) -> None:
        if topic is not None and (not isinstance(topic, str) or topic not in self._accumulator.topics):
            await self._learn(loop_state, [topic], self._deadline(loop_state))
        rows.partition = check_partition(rows.partition)
        inline = self._is_inline(topic, data)
        while not await self._pass(loop_state, rows, inline=inline):
            if rows.missing is not None:
                await self._learn_partition(loop_state, rows.missing, self._deadline(loop_state))
                continue
            if rows.unknown:
                self._check()
                await self._learn(loop_state, rows.unknown, self._deadline(loop_state))
                continue
            place = loop_state.enter()
            try:
                until = self._deadline(loop_state)
                while not (place.is_first and self._accumulator.budget.has_room()):
                    if not await place.wait(until):
                        raise self._core.no_room()
            finally:
                loop_state.leave(place)

    def _pieces(self, topic: str | None, data: Any) -> Iterable[Any]:  # noqa: ARG002
        return (data,)

    def _is_inline(self, topic: str | None, data: Any) -> bool:  # noqa: ARG002
        size = getattr(data, "nbytes", None)
        return isinstance(size, int) and size < INLINE_BYTES

    async def _pass(self, loop_state: LoopState, rows: RowsToSend, *, inline: bool) -> bool:
        if inline:
            return rows.go_on()
        # An encoding thread cannot be stopped: a cancelled task ends once the thread has stopped.
        passing = loop_state.loop.run_in_executor(None, rows.go_on)
        try:
            return await asyncio.shield(passing)
        except asyncio.CancelledError:
            await asyncio.wait([passing])
            raise

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # raises the producer's own error
        """Send the records buffered before this call, and wait for every outcome, as `Producer.flush` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncProducer(bootstrap) as producer:
            ...         delivery = await producer.send(topic, b"EWR-IAH")
            ...         await producer.flush(timeout=10)
            ...         return delivery.done()
            >>> asyncio.run(main())
            True
        """
        await self._run(self._calls.flush(timeout))

    async def purge(self, *, in_flight: bool = False) -> int:
        """Give up buffered records at once, as `Producer.purge` does."""
        return await self._run(self._core.purge, in_flight=in_flight)

    # --- transactions -----------------------------------------------------------------------------------------------

    def transaction(self, timeout: float | None = None) -> AsyncTransactionBlock[Self]:
        """Run a block as a transaction, as `Producer.transaction` does: `async with producer.transaction(): ...`.

        A block that is cancelled is aborted.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncProducer(bootstrap, transactional_id=new_topic) as producer:
            ...         async with producer.transaction():
            ...             delivery = await producer.send(topic, b"EWR-IAH")
            ...         return await delivery
            >>> asyncio.run(main()).offset
            3
        """
        self._check()
        from kafwire.aio.transaction import AsyncTransactionBlock

        return AsyncTransactionBlock(self, self._calls.transactions(), timeout)

    async def init_transactions(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # it goes on
        """Take over the `transactional_id` (KIP-98), as `Producer.init_transactions` does."""
        await self._run(self._calls.init_transactions(timeout))

    async def begin_transaction(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Begin a transaction, as `Producer.begin_transaction` does."""
        await self._run(self._calls.begin_transaction(timeout))

    async def commit_transaction(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Flush, and commit, as `Producer.commit_transaction` does.

        Cancelling this call does not stop the commit. Call it again to wait for its outcome.
        """
        await self._run(self._calls.commit_transaction(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Drop unsent records, and abort, as `Producer.abort_transaction` does."""
        await self._run(self._calls.abort_transaction(timeout))

    async def detach(self, timeout: float | None = None) -> TransactionHandle:  # noqa: ASYNC109
        """Flush, and detach the open transaction, as `Producer.detach` does."""
        return await self._run(self._calls.detach(timeout))

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        group: ConsumerGroupMetadata | str,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Commit offsets of a consumer group with the transaction, as `Producer.send_offsets` does."""
        await self._run(self._calls.send_offsets(offsets, group, timeout))

    send_offsets_to_transaction = send_offsets

    # --- the rest ---------------------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> set[int]:
        """Look up the numbers of a topic's partitions, as `Producer.partitions_for` does."""
        return await self._run(self._core.cluster.partitions, topic)

    async def metrics(self) -> dict[str, Any]:
        """Return a snapshot of counters and states, as `Producer.metrics` does."""
        return await self._run(self._core.snapshot)

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  # of the last flush
        """Flush, then close, as `Producer.close` does.

        A call that is cancelled leaves a producer that closes by itself.
        """
        lost = await self._close(self._calls.close(timeout))
        if lost:
            raise closed_early(lost)

    async def _close(self, close: Work[dict[str, int]]) -> dict[str, int]:
        if self._closed or self._engine.is_over:
            return {}
        self._closed = True
        closing = asyncio.ensure_future(on_engine(self._engine, close()))
        return await asyncio.shield(closing)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            await self.close()
            return
        # A cancelled task must end soon, and not wait for the delivery timeout of an unreachable broker.
        lost = await self._close(self._calls.close(CANCELLED_FLUSH_S))
        if lost:
            log.warning("kafwire: a producer was cancelled with %s not acknowledged", undelivered(lost))

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._engine.is_over:
            self._engine.start(self._core.retire)

    async def _learn(self, loop_state: LoopState, topics: list[str], until: float) -> None:
        for topic in topics:
            check_topic(topic)
        left_ms = max(0.0, until - loop_state.loop.time()) * 1000
        await on_engine(self._engine, self._core.ensure_metadata(topics, left_ms))

    async def _learn_partition(self, loop_state: LoopState, missing: UnknownPartition, until: float) -> None:
        self._check()
        left_ms = max(0.0, until - loop_state.loop.time()) * 1000
        await on_engine(self._engine, self._core.ensure_partition(missing, left_ms))

    def _deadline(self, loop_state: LoopState) -> float:
        return loop_state.loop.time() + self._config.max_block_ms / 1000


class _SerializingProducer(AsyncProducer):
    """A producer with serializers. It is a separate class, so that `send` without serializers needs no check."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Any = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> AsyncDelivery:
        check_topic(topic)
        turn = SendTurn(self._loops.here(), topic)
        try:
            value, key, headers = await self._serializers.serialize_awaited(topic, value, key, headers, turn.wait)
            if not turn.is_first:
                await turn.wait()
            return await super().send(
                topic, value, key=key, headers=headers, timestamp_ms=timestamp_ms, partition=partition
            )
        finally:
            turn.end()

    send.__doc__ = AsyncProducer.send.__doc__

    def _pieces(self, topic: str | None, data: Any) -> Iterable[Any]:
        return self._serializers.chunks(topic, data)

    def _is_inline(self, topic: str | None, data: Any) -> bool:
        return not self._serializers.may_send_requests(topic) and super()._is_inline(topic, data)
