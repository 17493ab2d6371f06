"""`AsyncShareConsumer`: `ShareConsumer` for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafwire.aio.bridge import INLINE_BYTES, StartedClient, on_engine
from kafwire.calls.consumer import servers_first
from kafwire.calls.share import ShareCalls, keywords_of, share_core
from kafwire.config import ShareConsumerConfig
from kafwire.config.checks import described_by
from kafwire.consumer.core import CLOSE_SECONDS
from kafwire.consumer.share.held_batch import HeldBatch
from kafwire.consumer.share.share_batch import ShareBatch
from kafwire.consumer.share.share_fetcher import FetchedRange
from kafwire.handles import refuse_copy
from kafwire.peer_names import SHARE_CONSUMER, SHARE_CONSUMER_ARGUMENTS, lookup, refuse_arguments
from kafwire.runtime.interfaces import Engine

if TYPE_CHECKING:
    from kafwire.config.typed_options import ShareConsumerOptions
    from kafwire.records import Record


@refuse_arguments(SHARE_CONSUMER_ARGUMENTS, blocking=False)
@described_by(ShareConsumerConfig)
class AsyncShareConsumer(StartedClient):
    """`kafwire.ShareConsumer` for asyncio. An async context manager, for one task at a time.

    It connects in `async with`, or on the first call. Large batches are decoded in another thread.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: the topics to read.
        columns: the Arrow columns to decode, as for `kafwire.scan`; None decodes all.
        layout: names and types of the columns, as for `kafwire.scan`.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ShareConsumerConfig`, for example `group_id="workers"`.

    Raises:
        ConfigError: an argument or an option has a bad value.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncShareConsumer(bootstrap, topics=topic, group_id=share_group) as consumer:
        ...         async for batch in consumer.batches():
        ...             return [record.value for record in batch]
        >>> asyncio.run(main())
        [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
    """

    __reduce_ex__ = refuse_copy
    _calls: ShareCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(SHARE_CONSUMER, blocking=False)

    @servers_first
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        topics: str | Iterable[str],
        *,
        columns: Sequence[str] | None = None,
        layout: Mapping[str, Any] | None = None,
        engine: Engine | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        self._core = share_core(bootstrap_servers, options, engine, topics, columns, layout)
        self._engine, self._abandon = self._core.cluster.engine, self._core.abandon
        self._calls = ShareCalls(self._core)
        self._pushing = self._core.pushing
        self._hand = self._calls.hand
        self._begun = self._closed = False

    @classmethod
    def from_config(cls, options: Mapping[str, Any], *, engine: Engine | None = None) -> Self:
        """Make a consumer from Kafka's own option names, as `ShareConsumer.from_config` does."""
        return cls(engine=engine, **keywords_of(options))

    async def start(self) -> None:
        """Connect, and join the group. `async with` and the first call do this too.

        Raises:
            BrokerError: a topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.
        """
        self._check()
        self._begun = True
        await on_engine(self._engine, self._core.start())

    async def batches(self, timeout: float | None = None) -> AsyncIterator[ShareBatch]:  # noqa: ASYNC109
        """Iterate over acquired records, in batches of one partition, as `ShareConsumer.batches` does."""
        while await self._fill(timeout, by_silence=True):
            yield self._hand.take(1)[0]

    async def poll(self, timeout: float | None = 0.0) -> list[ShareBatch]:  # noqa: ASYNC109
        """Return batches of acquired records, as `ShareConsumer.poll` does."""
        await self._fill(timeout)
        return self._hand.take()

    async def _fill(self, timeout: float | None, *, by_silence: bool = False) -> bool:  # noqa: ASYNC109
        """Count the records in hand as processed, and wait for batches; return False if none came."""
        begin, fetched = self._calls.read(timeout, by_silence=by_silence), self._hand.fetched
        await self.start()
        more = begin()
        while not self._hand.waiting:
            if not fetched:
                await on_engine(self._engine, more())
            if not fetched:
                return False
            while fetched:
                next_range = fetched.popleft()
                try:
                    batch = await self._decoded(next_range)
                except Exception:
                    self._hand.put_back(next_range)
                    raise
                if batch is not None:
                    self._hand.waiting.append(batch)
        return True

    async def _decoded(self, fetched: FetchedRange) -> HeldBatch | None:
        loop = asyncio.get_running_loop()
        if len(fetched.data) >= INLINE_BYTES:
            decoding = loop.run_in_executor(None, self._core.resolved_batch_of, fetched)
        else:
            batch = self._core.batch_of(fetched)
            if batch is None or not self._core.lacks_schemas(batch):
                return batch
            decoding = loop.run_in_executor(None, self._core.resolved, batch)
        try:
            return await asyncio.shield(decoding)
        except asyncio.CancelledError:
            decoding.add_done_callback(self._keep)
            raise

    def _keep(self, decoding: asyncio.Future[HeldBatch | None]) -> None:
        """Keep the batch of a cancelled task for the next read."""
        if not decoding.cancelled() and decoding.exception() is None and (batch := decoding.result()) is not None:
            self._hand.waiting.append(batch)

    async def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over single records, for ever, as `ShareConsumer.__iter__` does.

        Returns:
            An async iterator of `Record`.
        """
        while True:
            self._check()
            record = self._hand.next()
            if record is not None:
                yield record
            elif await self._fill(None):
                self._hand.begin()

    def acknowledge(self, record: Record, kind: str | int = "accept") -> None:
        """Acknowledge a record of this consumer, as `ShareConsumer.acknowledge` does. The call does not wait.

        Args:
            record: a record that is in hand.
            kind: "accept", "release", "reject" or "renew", or their numbers.

        Raises:
            KafkaError: as `ShareConsumer.acknowledge` does.
        """
        self._check()
        self._core.open_batches.acknowledge(record, kind)

    async def commit(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send all acknowledgements, and wait for the brokers' responses, as `ShareConsumer.commit` does."""
        await self._run(self._calls.commit(timeout))

    async def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read only these topics, as `ShareConsumer.subscribe` does."""
        await self._run(self._calls.subscribe(topics))

    @property
    def subscription(self) -> set[str]:
        """The topics that the consumer reads."""
        return set(self._core.topics)

    async def metrics(self) -> dict[str, Any]:
        """Return a snapshot of counters, as `ShareConsumer.metrics` does.

        Returns:
            Counters by their names.

        Raises:
            KafkaError: the consumer is closed.
        """
        self._check()
        return await on_engine(self._engine, self._core.snapshot())

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109
        """Send all acknowledgements, release other records, and leave, as `ShareConsumer.close` does.

        A call that is cancelled leaves nothing open.
        """
        if self._closed or self._engine.is_over:
            return
        close = self._calls.close(timeout)
        self._closed = True
        closing = asyncio.ensure_future(on_engine(self._engine, close()))
        await asyncio.shield(closing)

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return (
            f"<AsyncShareConsumer of {', '.join(self._core.topics)} for group {self._core.config.group_id!r}{closed}>"
        )
