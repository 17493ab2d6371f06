"""The engine side of `ShareConsumer` and `AsyncShareConsumer`: membership, fetching, records in hand, close."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import Coordinator
from kafwire.config import ShareConsumerConfig
from kafwire.consumer.delivery.silence import Silence
from kafwire.consumer.group.member import Partition, new_member_id
from kafwire.consumer.group.membership import MemberOptions
from kafwire.consumer.group.membership_driver import LEAVE_MS, MembershipDriver
from kafwire.consumer.group.membership_metrics import MembershipMetrics
from kafwire.consumer.group.share_membership import ShareMembership
from kafwire.consumer.share.acquired import ACCEPT, REJECT, AcquiredRange, Place
from kafwire.consumer.share.acquired_decoder import AcquiredDecoder
from kafwire.consumer.share.held_batch import HeldBatch
from kafwire.consumer.share.open_batches import OpenBatches
from kafwire.consumer.share.share_fetcher import FetchedRange, ShareFetcher
from kafwire.errors import CorruptBatchError, KafkaError, KafkaTimeoutError
from kafwire.records._arrow import Layout
from kafwire.runtime.log import consumer_log as log
from kafwire.runtime.metrics_reporter import Pushing
from kafwire.serializer_calls import Deserializers

if TYPE_CHECKING:
    from kafwire.telemetry.metrics_push import MetricsPush


class ShareCore:
    """One share consumer. Lives on the engine, apart from `batch_of`, `open_batches` and `said`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        topics: Sequence[str],
        layout: Callable[..., Layout],
        deserializers: Deserializers | None = None,
    ) -> None:
        """`layout` makes the Arrow layout of a topic and partition, or of none."""
        self.cluster = cluster
        self.config = config
        self.topics = tuple(topics)
        self.explicit = config.share_acknowledgement_mode == "explicit"
        self.closed = False
        self._member_id = new_member_id(cluster.engine.random.getrandbits(128))
        self.fetcher = ShareFetcher(cluster, config, lambda: self._member_id)
        self._deserializers = deserializers
        self._decoder = AcquiredDecoder(config, layout, deserializers)
        self.open_batches = OpenBatches()
        self._owned: set[Partition] = set()
        self._assigned_since_ms: float | None = None  # when the first assignment came
        self._start_lock = asyncio.Lock()
        self._driver: MembershipDriver | None = None
        self.pushing = Pushing(cluster, self._begin_push, is_enabled=config.enable_metrics_push)

    async def start(self) -> None:
        """Look up the topics, and join; a second start does nothing. A missing topic raises `BrokerError`."""
        async with self._start_lock:
            if self._driver is not None:
                return
            await self._find(self.topics)
            config, engine = self.config, self.cluster.engine
            options = MemberOptions(
                group_id=config.group_id,
                random=engine.random.random,
                new_id=lambda: self._member_id,
                name_of=self.cluster.metadata.names.get,
                rack=config.client_rack or None,
                request_timeout_ms=config.request_timeout_ms,
                retry_ms=config.retry_backoff_ms,
                retry_max_ms=config.retry_backoff_max_ms,
            )
            coordinator = Coordinator(self.cluster, config.group_id)
            self._driver = MembershipDriver(
                self.cluster, coordinator, ShareMembership(options), self, MembershipMetrics()
            )
            self._driver.subscribe(self.topics)

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics and no others."""
        await self._find(topics)
        self.topics = tuple(topics)
        if self._driver is not None:
            self._driver.subscribe(self.topics)

    async def _find(self, topics: Sequence[str]) -> None:
        await self.cluster.topics(topics, fresh=True)
        self.cluster.keep_fresh(topics)

    # --- changes of the assignment (see `AssignedPartitions`)

    async def take(self, partitions: Sequence[Partition]) -> None:
        """Fetch from these partitions too."""
        if partitions and self._assigned_since_ms is None:
            self._assigned_since_ms = self.cluster.engine.now_ms()
        self._owned |= set(partitions)
        self._assign()

    async def give_up(self, partitions: Sequence[Partition]) -> None:
        """Stop fetching from these partitions; acquired records stay acquired."""
        self.lose(partitions)

    def lose(self, partitions: Sequence[Partition]) -> None:
        """Stop fetching from these partitions."""
        self._owned -= set(partitions)
        self._assign()

    def lose_recreated(self, topics: Iterable[str]) -> Sequence[Partition]:  # noqa: ARG002
        """Do nothing: topics are assigned by id, so the coordinator assigns recreated ones."""
        return ()

    def fail(self, error: KafkaError) -> None:
        """End the membership: the next read raises `error`."""
        self.fetcher.fail(error)

    def _assign(self) -> None:
        topics: dict[Place, str] = {}
        for topic, number in self._owned:
            info = self.cluster.metadata.topics.get(topic)
            if info is not None:
                topics[info.topic_id, number] = topic
        self.fetcher.assign(topics)

    @property
    def partitions(self) -> set[Partition]:
        """The partitions that this member reads; other members may read them too."""
        return set(self._owned)

    # --- records

    async def next(self, timeout_ms: float | None, silence: Silence | None = None) -> list[FetchedRange]:
        """Wait for acquired ranges and return them; an empty list at the timeout (in a loop, after its `silence`)."""
        found = await self.fetcher.next(timeout_ms)
        while not found and silence is not None:
            left_ms = silence.left_ms(self.cluster.engine.now_ms(), self._assigned_since_ms)
            if left_ms <= 0:
                break
            found = await self.fetcher.next(left_ms)
        return found

    def silence(self, timeout_ms: float) -> Silence | None:
        """Begin a loop that ends after `timeout_ms` without records; None: it never ends. Any thread."""
        if timeout_ms < 0:
            return None
        return Silence(self.cluster.engine.now_ms(), timeout_ms, self.config.default_api_timeout_ms)

    def lacks_schemas(self, batch: HeldBatch) -> bool:
        """Return True if the batch has schema ids that its format does not know."""
        return self._deserializers is not None and bool(self._deserializers.unresolved(batch.batch))

    def resolved(self, batch: HeldBatch) -> HeldBatch:
        """Look up the schemas of a batch, in the calling thread, and return the batch."""
        if self._deserializers is not None:
            self._deserializers.resolve(batch.batch)
        return batch

    def resolved_batch_of(self, fetched: FetchedRange) -> HeldBatch | None:
        """Decode a range as `batch_of` does, and look up its schemas."""
        batch = self.batch_of(fetched)
        return None if batch is None else self.resolved(batch)

    def batch_of(self, fetched: FetchedRange) -> HeldBatch | None:
        """Decode a range in the calling thread; return None if it has no records to deliver.

        Records that cannot be decoded are rejected, and raise `CorruptBatchError`. Records that were delivered more
        often than `max_deliveries` are rejected, with a warning. A range whose lock expired belongs to other members.
        """
        acquired = fetched.acquired
        if self.is_over(acquired):
            self._expired([acquired])
            return None
        limit = self.config.max_deliveries
        if limit is not None and acquired.delivery_count > limit:
            log.warning(
                "%s-%d, offsets %d to %d: delivered for the %dth time, which is more than max_deliveries: rejected",
                fetched.topic,
                fetched.partition,
                acquired.first,
                acquired.last,
                acquired.delivery_count,
                topic=fetched.topic,
                partition=fetched.partition,
                offset=acquired.first,
                deliveries=acquired.delivery_count,
            )
            self._say_unseen(acquired, REJECT)
            return None
        try:
            batch = self._decoder.decode(fetched.topic, fetched.partition, fetched.data, acquired.first, acquired.last)
        except CorruptBatchError:
            self._say_unseen(acquired, REJECT)
            raise
        if batch is None:  # offsets without records
            self._say_unseen(acquired, ACCEPT)
            return None
        held = HeldBatch(self, batch, fetched)
        self.open_batches.add(held)
        return held

    def _say_unseen(self, acquired: AcquiredRange, kind: int) -> None:
        acquired.see_all()
        acquired.say_rest(kind)
        self.said(acquired)

    def drop_expired(self, waiting: deque[HeldBatch]) -> None:
        """Drop batches whose locks expired before they were delivered. In the thread that reads."""
        over = [batch.acquired for batch in waiting if self.is_over(batch.acquired)]
        if over:
            live = [batch for batch in waiting if batch.acquired not in over]
            waiting.clear()
            waiting.extend(live)
            self._expired(over)
        if any(2 * batch.lock_ms < batch.acquired.lock_ms for batch in waiting):
            self.cluster.engine.start(self.fetcher.narrow)

    def is_over(self, acquired: AcquiredRange) -> bool:
        """Return True if the lock of a range has expired."""
        return acquired.until_ms <= self.cluster.engine.now_ms()

    def expire_rest(self, acquired: AcquiredRange) -> None:
        """Drop the undelivered rest of a range whose lock expired. In the thread that reads."""
        rest = acquired.cut()
        if rest is not None:
            self._expired([rest])

    def _expired(self, ranges: Sequence[AcquiredRange]) -> None:
        self.cluster.engine.start(self.fetcher.expire, ranges)

    def watch(self, acquired: AcquiredRange) -> None:
        """Renew the locks of a range's undelivered part, which waits for the user. Any thread."""
        self.cluster.engine.start(self.fetcher.renewal.watch, acquired)

    def said(self, *ranges: AcquiredRange) -> None:
        """Send new acknowledgements of these ranges. Any thread. The engine gets each range once until it sends it."""
        news = [each for each in ranges if not each.is_noted]
        if news:
            for each in news:
                each.is_noted = True
            self.cluster.engine.start(self.fetcher.say, news)

    async def commit(self, timeout_ms: float) -> None:
        """Wait until the brokers have processed all acknowledgements. Raises `BrokerError` for refused ones."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.fetcher.acknowledge_all()
        except TimeoutError:
            raise KafkaTimeoutError(
                f"brokers did not respond to acknowledgements of group {self.config.group_id!r} within "
                f"{timeout_ms / 1000:g} s: some records may be delivered again"
            ) from None

    # --- the rest

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of the metrics; see `ShareConsumer.metrics`."""
        membership = None if self._driver is None else self._driver.membership
        return {
            "member_id": self._member_id,
            "state": "out" if membership is None else membership.state.value,
            "partitions": len(self._owned),
            "acquired": self.fetcher.acquired,
            "acknowledged": self.fetcher.acknowledged,
            "expired": self.fetcher.expired,
            "connections": [connection.stats() for connection in self.cluster.connections if connection.connects],
        }

    def _begin_push(self, on_id: Callable[[], object]) -> MetricsPush:
        from kafwire.consumer.pushed_metrics import PushedConsumer  # only consumers of a cluster that takes metrics
        from kafwire.telemetry.metrics_push import MetricsPush

        partitions, member_id = lambda: len(self._owned), lambda: self._member_id
        source = PushedConsumer(self.cluster, self.config, self.metrics, partitions, member_id)
        return MetricsPush(self.cluster, source, on_id)

    async def snapshot(self) -> dict[str, Any]:
        """Return `metrics`, as a coroutine for the engine."""
        return self.metrics()

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109  # bounds the last requests
        """Send pending acknowledgements, release all other records, and leave; `timeout` bounds all of it."""
        if self.closed:
            return
        self.closed = True
        engine = self.cluster.engine
        until_ms = engine.now_ms() + timeout * 1000
        self.fetcher.fail(KafkaError("this consumer is closed: make a new one"))
        try:
            await self.fetcher.close(timeout * 1000)
            if self._driver is not None:
                await self._driver.leave(min(LEAVE_MS, max(0.0, until_ms - engine.now_ms())))
        finally:
            if self._driver is not None:
                self._driver.stop()
            try:
                await self.pushing.close(max(0.0, until_ms - engine.now_ms()) / 1000)
            finally:
                self.cluster.shut()

    def abandon(self) -> None:
        """Close, in the background, a consumer that was garbage-collected without a `close`."""
        self.fetcher.tasks.begin(self.close(1.0))
