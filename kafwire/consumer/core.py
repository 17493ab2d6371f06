"""The engine side of `Consumer` and `AsyncConsumer`: start, parts, metrics, close.

The two public classes pass commands on, and read batches with readers of this core; they decide nothing. The parts are
`assignment` (the partitions), `positions` (their offsets) and `commits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import lost_to_others
from kafwire.config import ConsumerConfig
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.delivery.partition_claim import Claim
from kafwire.consumer.delivery.partition_feed import PartitionFeed
from kafwire.consumer.delivery.silence import Silence
from kafwire.consumer.denied_partitions import DeniedPartitions
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.fetch.read_plan import consumer_budget, consumer_plan
from kafwire.consumer.group.assignment import Assignment, Selection
from kafwire.consumer.group.rebalance_handlers import Handlers, PendingCall
from kafwire.consumer.offsets.commits import OffsetCommits
from kafwire.consumer.offsets.hand import Hand, Handed
from kafwire.consumer.offsets.partition_progress import PartitionProgress
from kafwire.consumer.offsets.positions import Positions
from kafwire.errors import ConfigError, KafkaError
from kafwire.integers import HIGHEST, PollOnly, natural
from kafwire.records._arrow import Layout
from kafwire.records._records import Batch, Record
from kafwire.runtime.log import consumer_log as log
from kafwire.runtime.metrics_reporter import Pushing, Reporter
from kafwire.runtime.patched import reader_waiter
from kafwire.serializer_calls import Deserializers
from kafwire.types import ConsumerGroupMetadata, TopicPartition

if TYPE_CHECKING:
    from kafwire.consumer.group.group_membership import GroupMembership
    from kafwire.consumer.ownership import PartitionOwnership
    from kafwire.telemetry.metrics_push import MetricsPush

# Limits of one poll: a number of batches, and the bytes of decoded columns after which no batch is added.
POLL_BATCHES = 64
POLL_BYTES = 16 << 20
CLOSE_SECONDS = 10.0  # for the whole close: Kubernetes ends a container 30 s after SIGTERM
_NO_NAME = 'group_id="" is no group that a consumer can be a member of: give it a name, or leave it out'
SESSION_END_SECONDS = 1.0  # for the requests that end the brokers' fetch sessions


class ConsumerCore:
    """One consumer. Lives on the engine, apart from `reader`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        selection: Selection,
        layout: Callable[..., Layout],
        deserializers: Deserializers | None = None,
        handlers: Handlers | None = None,
    ) -> None:
        """`layout` makes the Arrow layout of a topic and partition, or of none. No `deserializers`: bytes."""
        if config.group_id is None and selection.pattern is not None:
            raise ConfigError("a pattern is for members of a group: give group_id, or name the topics")
        if config.group_id == "" and (selection.topics is not None or selection.pattern is not None):
            raise ConfigError(_NO_NAME)
        self.cluster = cluster
        self.config = config
        self.fetcher = Fetcher(cluster, config, consumer_plan(config), consumer_budget(config))
        self.closed = False
        self.poll_limit = config.max_poll_records or 0  # records; 0: no limit
        self.batch_limit = 0 if isinstance(config.max_poll_records, PollOnly) else self.poll_limit
        self.deserializers = deserializers
        self.commits = OffsetCommits(self.fetcher, config)
        self.positions = Positions(self.fetcher, self.commits.ledger)
        self.assignment = Assignment(self.fetcher, config, selection, self.commits, layout)
        self.denied = DeniedPartitions(self.fetcher, self.assignment.start_again)
        self.membership: GroupMembership | None = None
        if config.group_id is not None:
            from kafwire.consumer.group.group_membership import GroupMembership  # only members of groups load it

            self.membership = GroupMembership(
                self.fetcher, config, self.assignment, self.commits, Handlers() if handlers is None else handlers
            )
        self.assignment.on_claims = self._on_progress
        self._selection = selection
        self._layout = layout
        self._start_lock = asyncio.Lock()
        self._progressed = asyncio.Event()
        self._started = self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []
        self._joining: asyncio.Task[None] | None = None  # a rejoin
        self._reporter: Reporter | None = None
        self.pushing = Pushing(cluster, self._begin_push, is_enabled=config.enable_metrics_push)

    def reader(
        self,
        claim: Claim | None = None,
        *,
        silence_ms: int = -1,
        keeps: object = None,
        calls_handlers: bool = True,
    ) -> FetchReader:
        """Return a reader of a claimed partition, or of all unclaimed ones. It may be created and used in any thread.

        The reader keeps `keeps` alive: an Arrow stream may be the user's only reference to the consumer. With
        `calls_handlers`, it calls rebalance handlers in the thread that reads.
        """
        engine, attends = self.cluster.engine, self.membership is not None and claim is None and calls_handlers
        return FetchReader(
            self.fetcher.queue,
            self._layout(),
            chunk_bytes=self.config.chunk_bytes,
            max_decompressed=self.config.max_decompressed,
            verify_crc=self.config.check_crcs,
            only=-1 if claim is None else claim.number,
            owns=False,
            skip_corrupt=self.config.on_corrupt == "skip",
            on_close=None if keeps is None else partial(_let_go, keeps),
            on_refuse=partial(engine.start, self.positions.fetch_again),
            on_wake=self.attend if attends else None,
            silence_ms=silence_ms,
            what="consumer",
            deserializer=self.deserializers,
            most=self.batch_limit,
            waiter=reader_waiter(engine.waiter, lambda timeout_ms: engine.run(self.readable, claim, timeout_ms)),
        )

    def ownership_of(self, batch: Batch) -> PartitionOwnership | None:
        """Return the ownership of a just decoded batch's partition; None: it is not assigned any more. Any thread."""
        cursor = self.fetcher.cursors.get((batch.topic or "", -1 if batch.partition is None else batch.partition))
        return None if cursor is None else cursor.ownership

    def limit_of_poll(self, max_records: int | None) -> int:
        """Return the most records of one `poll`, 0 for no limit; `ConfigError` if `max_records` is no valid limit."""
        if max_records is None:
            return self.poll_limit
        limit = natural(max_records)
        if not limit or limit > HIGHEST:
            raise ConfigError(f"max_records={max_records!r}: a whole number from 1 on is needed, or None")
        return limit

    async def start_once(self) -> None:
        """Call `start` once, even with concurrent callers."""
        async with self._start_lock:
            if not self._started:
                await self.start()

    async def start(self) -> None:
        """Look up partitions and start offsets, join the group, and start periodic work.

        A topic that does not exist raises `BrokerError`.
        """
        await self.assignment.start()
        selection, membership = self._selection, self.membership
        if membership is not None and (selection.topics is not None or selection.pattern is not None):
            await membership.subscribe(selection.topics or (), selection.pattern)
        if self.config.metrics_hook is not None:
            self._reporter = Reporter(self.cluster.engine, self.config.metrics_hook, self.config.metrics_interval_ms)
            self._reporter.start(self.metrics)
        if self.commits.is_automatic:
            self._tasks.append(asyncio.ensure_future(self.commits.keep_committing()))
        self._started = True

    async def readable(self, claim: Claim | None, timeout_ms: float | None) -> bool:
        """Wait until a read (of a partition, or of all unclaimed ones) would not block; return False at the timeout."""
        number = -1 if claim is None else claim.number
        return await self.fetcher.readable(number, timeout_ms, lambda: claim is None and self.needs_attention)

    def silence(self, timeout_ms: float) -> Silence:
        """Begin a call that ends after `timeout_ms` without records. Any thread, as for `silence_left_ms`."""
        return Silence(self.cluster.engine.now_ms(), timeout_ms, self.config.default_api_timeout_ms)

    def silence_left_ms(self, silence: Silence) -> int:
        """Return the time after which the call of `silence` ends if no records come."""
        membership = self.membership
        is_assigned = membership is None or not membership.is_active
        since_ms = 0.0 if is_assigned or membership is None else membership.assigned_since_ms
        return math.ceil(silence.left_ms(self.cluster.engine.now_ms(), since_ms))

    async def assigned(self) -> None:
        """Wait for a member's first assignment, at most `default_api_timeout_ms`."""
        if self.membership is None or not self.membership.is_active:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.default_api_timeout_ms / 1000):
                await self.membership.first_assigned.wait()

    @contextlib.contextmanager
    def beside(self, error: KafkaError) -> Iterator[None]:
        """Pause the partitions that failed by `error` within the `with` block, so that a read does not raise it again.

        In the thread that reads.
        """
        queue = self.fetcher.queue
        failed = [cursor for cursor in list(self.fetcher.cursors.values()) if cursor.failure is error]
        for cursor in failed:
            queue.pause(cursor.number, True)
        try:
            yield
        finally:
            for cursor in failed:
                if self.fetcher.numbered(cursor.number) is cursor:
                    queue.pause(cursor.number, cursor.paused)

    # --- groups -----------------------------------------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        """True if a group assigns the partitions."""
        return self.membership is not None and self.membership.is_active

    @property
    def needs_attention(self) -> bool:
        """True if the main reader must run callbacks (`attend`) first. Any thread."""
        return self.membership is not None and self.membership.needs_attention

    def attend(self) -> None:
        """Raise the error that ended the membership, if any, and call due handlers. In the thread that reads."""
        membership = self.membership
        if membership is not None:
            membership.check()
            while (call := membership.handlers.take()) is not None:
                call.call()

    def last_calls(self) -> Iterable[PendingCall]:
        """Return the calls of handlers that are due when the member leaves. No read may run meanwhile."""
        membership = self.membership
        if membership is None or not membership.is_active:
            return ()
        return membership.handlers.ends(self.assignment.partitions)

    async def rejoin_after_error(self, timeout_ms: float | None = None) -> None:
        """Join the group again if a read has raised the error that ended the membership. On the engine.

        A join that takes longer than `timeout_ms` continues in the background.
        """
        if self.membership is not None:
            joining = self._joining or asyncio.ensure_future(self.membership.rejoin_after_error())
            self._joining = joining
            await asyncio.wait({joining}, timeout=None if timeout_ms is None else timeout_ms / 1000)
            if joining.done():
                self._joining = None
                joining.result()

    def position(self, claim: Claim) -> int:
        """Return the position of a claimed partition; -1 if it is not claimed any more. Any thread."""
        cursor = claim.cursor
        return -1 if cursor is None else self.fetcher.queue.position(cursor.number)

    async def follow_progress(self, claim: Claim) -> PartitionProgress:
        """Return the progress of a claimed partition, through which the user completes records."""
        on_advance = partial(self.cluster.engine.start, self._on_progress)
        if claim.cursor is None:
            return PartitionProgress(on_advance)
        return self.commits.ledger.follow(claim.cursor, on_advance)

    def _on_progress(self) -> None:
        self._progressed.set()
        if self.membership is not None:
            self.membership.revocation.look()

    async def room(self, claim: Claim, progress: PartitionProgress) -> None:
        """Wait until fewer than `max_uncommitted` offsets are uncommitted, or the partition ends."""
        oldest = progress.oldest
        log.warning(
            "%s-%d delivers no more records: record %s is not completed, and max_uncommitted (%d) offsets beyond it "
            "were delivered",
            *claim.where,
            "?" if oldest is None else oldest,
            self.config.max_uncommitted,
            topic=claim.where[0],
            partition=claim.where[1],
            max_uncommitted=self.config.max_uncommitted,
        )
        progress.is_awaited = True
        while progress.uncommitted >= self.config.max_uncommitted and not claim.is_ending:
            self._progressed.clear()
            await self._progressed.wait()

    async def commit_claimed(
        self, claim: Claim, what: Batch | Record | None = None, handed: Collection[Handed] = ()
    ) -> None:
        """Commit a claimed partition's processed offset, with the delivered rows `handed`, or the end of `what`."""
        if claim.cursor is None and self.config.group_id is not None:
            raise lost_to_others([claim.where], self.config.group_id)
        await self.commits.commit(what, only=[] if claim.cursor is None else [claim.cursor], handed=handed)

    async def claim(self, claim: Claim) -> None:
        """Take a claim; a denied partition is tried again."""
        await self.denied.try_all(claim.where)
        await self.assignment.claim(claim)

    def new_feed(self) -> PartitionFeed:
        """Return a feed of partitions; `open_feed` gives it some. From any thread."""
        return PartitionFeed(lambda: self.needs_attention)

    async def open_feed(self, feed: PartitionFeed) -> None:
        """Open a feed, see `Assignment.open_feed`. After `stop` it is closed."""
        await self.rejoin_after_error()
        self.assignment.open_feed(feed)
        if self._stopped:
            feed.close()

    def stop(self) -> None:
        """Deliver no more records: streams and waiting reads end."""
        self._stopped = True
        if self.membership is not None:
            self.membership.stops = True
            self.membership.first_assigned.set()
        self.assignment.ending(self.assignment.partitions)
        if self.assignment.feed is not None:
            self.assignment.feed.close()
        self._progressed.set()
        self.fetcher.queue.end()
        self.fetcher.notify()

    def processed(self, hand: Hand, *, in_hand: bool) -> dict[TopicPartition, int]:
        """Return the processed offset of each partition, for a transaction.

        `in_hand` includes the rows in hand, if the caller is their reader.
        """
        self.commits.ledger.advance(hand.passed())
        found = self.commits.processed(self.covered(hand) if in_hand else ())
        return found if self.membership is None else self.membership.transactions.processed(found)

    def covered(self, hand: Hand) -> list[Handed]:
        """Return the rows that a commit without arguments covers: if the caller is their reader, the whole hand.

        Within a handler, rows in hand are left out: those of a partition revoked during a read are still unprocessed
        when its `on_revoked` is called.
        """
        if self.membership is not None and self.membership.handlers.are_running:
            return hand.passed()
        if hand.is_read_by(hand.caller()):
            return hand.in_hand()
        self.commits.ledger.warn_not_covered(hand.in_hand(), hand.reader_kind)
        return hand.passed()

    def current_member(self) -> ConsumerGroupMetadata:
        """Return the group metadata as the coordinator knows it now, without freezing it. Any thread.

        A transaction reads it before the check that the member owns the partitions: see `consumer/ownership.py`. Raises
        `ConfigError` without a `group_id`.
        """
        membership = self.membership
        if membership is None:
            raise ConfigError("a member of a group is needed to commit offsets in a transaction: give group_id")
        return membership.current_member() if membership.is_active else ConsumerGroupMetadata(membership.group_id)

    def settled(self) -> None:
        """Continue a revocation that waits for rows in hand, as they are processed now. In the thread that reads."""
        membership = self.membership
        if membership is not None and membership.revocation.is_awaited:
            self.cluster.engine.start(membership.revocation.look)

    async def subscribe(self, topics: Sequence[str], pattern: str | None = None) -> None:
        """Read all partitions of these topics, or (in a group) those that the group assigns."""
        self._check_stopped()
        if self.membership is None:
            if pattern is not None:
                raise ConfigError("a pattern is for members of a group: give group_id, or name the topics")
            await self.assignment.subscribe(topics)
            return
        if not self.config.group_id:
            raise ConfigError(_NO_NAME)
        await self.membership.subscribe(topics, pattern)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read only these partitions; a member of a group leaves it."""
        partitions = list(partitions)
        if partitions:
            self._check_stopped()
        if self.membership is not None and self.membership.is_active:
            await self.membership.unsubscribe()
        await self.assignment.assign(partitions)

    def _check_stopped(self) -> None:
        if self._stopped:
            raise KafkaError("this consumer was stopped, and delivers nothing more: make a new one to read on")

    @property
    def topics(self) -> set[str]:
        """The topics that the consumer reads: with all partitions, or with those that a group assigns."""
        return set(self.membership.subscribed) if self.is_member and self.membership else self.assignment.topics

    # --- metrics ----------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of the metrics; see `Consumer.metrics`."""
        queue, now = self.fetcher.queue, self.cluster.engine.now_ms()
        partitions = {}
        for cursor in self.fetcher.cursors.values():
            slices, size = queue.queued(cursor.number)
            partitions[cursor.name] = {
                "position": queue.position(cursor.number),
                "fetch_position": cursor.position,
                "high_watermark": cursor.high_watermark,
                "last_stable_offset": cursor.last_stable,
                "log_start_offset": cursor.log_start,
                "lag": self.positions.lag_of(cursor),
                "buffered_responses": slices,
                "buffered_bytes": size,
                "responses": cursor.fetches,
                "bytes": cursor.bytes,
                "paused": cursor.paused,
                "failed": cursor.halted,
                "failing_ms": None if cursor.failing_since_ms is None else round(now - cursor.failing_since_ms),
                "skipped_batches": queue.place(cursor.number).skipped,
                "read_from_replica": cursor.replica,
                "uncommitted": self.commits.ledger.uncommitted(cursor),
            }
        return {
            "fetcher": self.fetcher.stats(),
            "partitions": partitions,
            "group": self.membership.metrics() if self.is_member and self.membership is not None else None,
            "connections": [connection.stats() for connection in self.cluster.connections if connection.connects],
        }

    def _begin_push(self, on_id: Callable[[], object]) -> MetricsPush:
        from kafwire.consumer.pushed_metrics import PushedConsumer  # only consumers of a cluster that takes metrics
        from kafwire.telemetry.metrics_push import MetricsPush

        source = PushedConsumer(
            self.cluster,
            self.config,
            self.metrics,
            lambda: len(self.fetcher.cursors),
            lambda: "" if self.membership is None else self.membership.metadata().member_id,
            self.commits.group,
            self.membership,
        )
        return MetricsPush(self.cluster, source, on_id)

    async def snapshot(self) -> dict[str, Any]:
        """Return `metrics`, as a coroutine for the engine."""
        return self.metrics()

    # --- the end ----------------------------------------------------------------------------------------------------

    async def close(self, timeout: float = CLOSE_SECONDS, *, failed: bool = False) -> None:  # noqa: ASYNC109
        """Commit processed offsets (if automatic), leave the group, end the fetch sessions, and close the connections.

        `timeout` bounds all of it: each step gets the time that the steps before it left. `failed`: an exception ended
        the consumer's `with` block.
        """
        if self.closed:
            return
        self.closed = True
        engine = self.cluster.engine
        until_ms = engine.now_ms() + timeout * 1000
        for task in [*self._tasks, *([] if self._joining is None else [self._joining])]:
            if task is not asyncio.current_task():
                task.cancel()
        self.assignment.stop()
        if self.assignment.feed is not None:
            self.assignment.feed.close()
        if self._reporter is not None:
            self._reporter.stop()
        try:
            if self.commits.is_automatic:
                await self.commits.commit(None, timeout_ms=min(timeout * 1000, self.config.default_api_timeout_ms))
                self._warn_left_over(failed=failed)
        except KafkaError as error:
            log.warning(
                "closed without committing the offsets processed last: %s; records after the last commit will be "
                "delivered again",
                error,
                error=error,
                group=self.config.group_id,
            )
        finally:
            if self.membership is not None:
                await self.membership.close(max(0.0, until_ms - engine.now_ms()))
            sessions = self.fetcher.brokers.sessions()
            self.fetcher.queue.close()
            self.fetcher.stop()
            try:
                await self.pushing.close(max(0.0, until_ms - engine.now_ms()) / 1000)
                left_s = max(0.0, until_ms - engine.now_ms()) / 1000
                async with asyncio.timeout(min(SESSION_END_SECONDS, left_s)):
                    await asyncio.gather(*(self._end_session(*session) for session in sessions), return_exceptions=True)
            except TimeoutError:
                pass  # the broker drops idle sessions by itself
            finally:
                self.cluster.shut()

    def _warn_left_over(self, *, failed: bool) -> None:
        """Warn of rows in hand that the last commit leaves out: only the next read would count them as processed."""
        left = self.commits.ledger.left_over()
        if left:
            log.warning(
                "closed%s with %d rows of %s in hand, which are not committed: %s",
                " after an error" if failed else "",
                sum(handed.rows for handed in left),
                ", ".join(sorted({handed.cursor.name for handed in left})),
                "they will be delivered again" if failed else "call commit() once they are processed",
                rows=sum(handed.rows for handed in left),
                group=self.config.group_id,
            )

    def abandon(self) -> None:
        """Close, in the background, a consumer that was garbage-collected without a `close`."""
        self._tasks.append(asyncio.ensure_future(self.close()))

    async def _end_session(self, node: int, closing: tuple[int, int]) -> None:
        """End a fetch session at its broker.

        The control connection is used, as a parked fetch may block the other one, and a session is not bound to a
        connection.
        """
        connection = self.cluster.connection(node, "control")
        request = protocol.FetchRequest(
            max_wait_ms=0, min_bytes=0, session_id=closing[0], session_epoch=closing[1], rack_id=self.config.client_rack
        )
        await connection.call(request)


def _let_go(_: object) -> None:
    """Do nothing: the close of a reader drops the reference that the bound argument held."""


def nothing_assigned() -> KafkaError:
    """Return the error of a read without any partition, which would wait for ever."""
    return KafkaError("nothing is read by this consumer: give topics= or assign=, or call assign()")


def repr_of(consumer: object, core: ConsumerCore, *, closed: bool) -> str:
    """Return the repr of a `Consumer` or `AsyncConsumer`."""
    group = f" for group {core.config.group_id!r}" if core.config.group_id is not None else ""
    if core.is_member:
        group = f", {core.membership}"
    return f"<{type(consumer).__name__} of {len(core.fetcher.cursors)} partitions{group}{', closed' if closed else ''}>"
