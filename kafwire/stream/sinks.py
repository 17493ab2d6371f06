"""`TopicSink` and `FunctionSink`: the sinks of streams besides memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from kafwire.aio.producer import AsyncProducer
from kafwire.errors import ConfigError
from kafwire.stream.message import Message, message_of
from kafwire.types import ConsumerGroupMetadata, TopicPartition


class TopicSink:
    """Writes to a topic with an `AsyncProducer`, which its creator closes.

    A value is a `Message`, a `Record` (with its key, headers and time), Arrow data (each row a record), a list of
    these, or else the record's value. A record is stored when it is acknowledged.

    Args:
        producer: with a `transactional_id` for guarantee="exactly_once", and only then.
        topic: the topic of values that name none; None: each is a `Message` with a topic.

    Raises:
        ConfigError: `producer` is no `AsyncProducer`.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncProducer(bootstrap) as producer:
        ...         source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        ...         pipeline = kafwire.stream.Pipeline().map(lambda order: order.value.upper())
        ...         return await pipeline.run_async(source, kafwire.stream.TopicSink(producer, topic))
        >>> asyncio.run(main()).records
        1
    """

    __module__ = "kafwire.stream"
    splits_lists = True
    """True: streams write the values of lists one by one, so that none is written again after a later one failed."""

    def __init__(self, producer: AsyncProducer, topic: str | None = None) -> None:
        if not isinstance(producer, AsyncProducer):
            raise ConfigError(f"TopicSink({producer!r}): it must be an AsyncProducer")
        self._producer = producer
        self._topic = topic
        self._has_offsets = False  # whether the open transaction has the offsets

    async def write(self, value: Any) -> Awaitable[object]:
        """Send a value.

        Args:
            value: as the class describes.

        Returns:
            An awaitable for its acknowledgement.

        Raises:
            KafkaError: as `AsyncProducer.send` does.
        """
        if isinstance(value, list):
            return _all([await self.write(one) for one in value])
        if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
            return await self._producer.send_batch(self._topic, value)
        message = message_of(value)
        # `AsyncProducer.send` itself bypasses the producer's serializers.
        send = partial(AsyncProducer.send, self._producer) if message.as_bytes else self._producer.send
        return await send(
            self._topic_of(message),
            message.value,
            key=message.key,
            headers=list(message.headers) or None,
            timestamp_ms=message.timestamp_ms,
            partition=message.partition,
        )

    def _topic_of(self, message: Message) -> str:
        topic = message.topic or self._topic
        if topic is None:
            raise ConfigError("this sink has no topic: make the pipeline return Message(..., topic=...)")
        return topic

    async def start(self) -> None:
        """Claim the producer's `transactional_id` (KIP-98).

        Raises:
            ConfigError: it has none.
            TransactionError: as `AsyncProducer.init_transactions` does.
        """
        await self._producer.init_transactions()

    async def begin(self) -> None:
        """Begin a transaction.

        Raises:
            TransactionError: as `AsyncProducer.begin_transaction` does.
        """
        self._has_offsets = False
        await self._producer.begin_transaction()

    async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
        """Commit the transaction with the group's offsets (KIP-447).

        Args:
            offsets: by partition.
            group: the member that commits; the coordinator refuses one of an earlier generation.

        Raises:
            TransactionError: as `AsyncProducer.send_offsets` and `commit_transaction` do.
        """
        if offsets and not self._has_offsets:
            await self._producer.send_offsets(offsets, group)
        self._has_offsets = True  # a repeated call after a timeout continues here
        await self._producer.commit_transaction()

    async def abort(self) -> None:
        """Abort the transaction.

        Raises:
            TransactionError: as `AsyncProducer.abort_transaction` does.
        """
        await self._producer.abort_transaction()


class FunctionSink:
    """Calls a function for each value. It is stored when the function returns.

    Args:
        function: takes a value; a function that does not block, or an async one.

    Example:
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        >>> pipeline = kafwire.stream.Pipeline().map(lambda order: order.value.decode())
        >>> summary = pipeline.run(source, kafwire.stream.FunctionSink(print))
        2 books
    """

    __module__ = "kafwire.stream"

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    async def write(self, value: Any) -> None:
        """Call the function.

        Args:
            value: what it takes.
        """
        result = self._function(value)
        if isinstance(result, Awaitable):
            await result


def _all(stored: list[Awaitable[object]]) -> Awaitable[object]:
    """Return one awaitable for all `stored`; it raises the first error when all outcomes are known."""

    async def wait() -> None:
        error: Exception | None = None
        for one in stored:
            try:
                await one
            except Exception as problem:  # noqa: BLE001  # raised below
                error = error or problem
        if error is not None:
            raise error

    return asyncio.ensure_future(wait())
