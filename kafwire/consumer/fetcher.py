"""The fetch engine of consumers and scans: its cursors, who asks for them, how much may be fetched, and how it ends.

What differs between the two is their plan (`read_plan.py`). Requests and answers are those of a `broker_fetcher.py` for
each connection; `partition_brokers.py` knows which of them has a cursor, `offset_reset.py` and `position_validation.py`
where reading goes on if there is no such offset, or if the log was cut.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import Place
from kafwire.cluster.metadata import TopicInfo
from kafwire.config import FetchConfig
from kafwire.consumer._arrow_stream import stream_threads
from kafwire.consumer._fetch_buffer import FetchBuffer
from kafwire.consumer.broker_fetcher import BrokerFetcher
from kafwire.consumer.fetch_budget import Budget
from kafwire.consumer.fetch_error_log import FetchErrorLog
from kafwire.consumer.fetch_tasks import FetchTasks
from kafwire.consumer.group.ownership import PartitionOwnership
from kafwire.consumer.offset_reset import OffsetReset
from kafwire.consumer.partition_brokers import PartitionBrokers
from kafwire.consumer.partition_cursor import NO_END, FetchCursor
from kafwire.consumer.position_validation import PositionValidation
from kafwire.consumer.read_plan import ReadPlan
from kafwire.errors import KafkaError, KafkaTimeoutError
from kafwire.records._arrow import Layout
from kafwire.runtime.engine import stream_thread_sources

stream_thread_sources.append(stream_threads)


class Fetcher:
    """Keeps the `queue` filled for whoever asks. Lives on the engine."""

    def __init__(self, cluster: Cluster, config: FetchConfig, plan: ReadPlan, budget: Budget) -> None:
        self.cluster = cluster
        self.config = config
        self.plan = plan
        self.strategy = plan.strategy
        self.budget = budget
        self._notifier = cluster.engine.transport.listen(self._on_credit)
        self.queue = FetchBuffer(self._notifier)
        self.queue.keep_idle(budget.limit)
        self.cursors: dict[tuple[str, int], FetchCursor] = {}
        self.stopped = False
        self.tasks = FetchTasks(self.fail)
        self.errors = FetchErrorLog(cluster.engine)
        self.brokers = PartitionBrokers(self)
        self.offset_reset = OffsetReset(self)
        self.validation = PositionValidation(self)
        self._numbered: dict[int, FetchCursor] = {}
        self.suspects: dict[FetchCursor, None] = {}  # each is asked for alone: one made a frame that was too long
        self.convicted: dict[FetchCursor, tuple[int, KafkaError]] = {}  # by offset: fail once no suspect is left
        self._unfinished: dict[FetchCursor, None] = {}  # of those that have an end
        self._vacant: dict[tuple[str, uuid.UUID, int], int] = {}  # places of partitions that were dropped
        self._to_pump: dict[BrokerFetcher, None] = {}  # what would send, had it room; or may have something to say
        self._parting: dict[FetchCursor, None] = {}  # whose readers are gone; the next request asks for them
        self._listeners: dict[object, Callable[[], object]] = {}
        self._watches: list[Callable[[], None]] = []  # what ends them
        cluster.engine.join(self)

    # --- what is asked for ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read what was added to its end, wherever brokers say that it is by now. Not after `stop`."""
        if self.stopped:
            return
        self._watches = [
            self.cluster.on_change(self.brokers.on_metadata),
            self.cluster.on_overdue(self.brokers.leave_hung),
        ]
        self.ask(list(self._unfinished))
        self._check_end()

    def add(
        self,
        info: TopicInfo,
        partition: int,
        layout: Layout,
        *,
        start: int = -1,
        end: int = NO_END,
        ownership: PartitionOwnership | None = None,
    ) -> FetchCursor:
        """A cursor for a partition, up to an `end`; it is read once it has a position, and somebody asks.

        `ownership` is that of the group's assignment; without one the partition is the reader's own.
        """
        number = self._vacant.pop((info.name, info.topic_id, partition), None)
        if number is None:
            number = self.queue.add(info.name, partition, layout)
        # A vacant place is of a later generation than a new one.
        generation = self.queue.reset(number, start)
        cursor = FetchCursor(number, info.name, info.topic_id, partition, generation, start, end=end)
        if ownership is not None:
            cursor.ownership = ownership
        if end != NO_END and not cursor.done:
            self._unfinished[cursor] = None
        self.cursors[info.name, partition] = cursor
        self._numbered[number] = cursor
        return cursor

    def remove(self, cursor: FetchCursor, *, claimed: bool) -> None:
        """Drop a cursor, and what is buffered of it. If it was `claimed`, its reader still has its place."""
        cursor.asked_for = False
        cursor.generation = self.queue.reset(cursor.number, -1)
        self.queue.pause(cursor.number, False)  # a reader of its own is to hear of it
        if not claimed:
            self._vacant[cursor.topic, cursor.topic_id, cursor.partition] = cursor.number
        self.cursors.pop((cursor.topic, cursor.partition), None)
        self._numbered.pop(cursor.number, None)
        self._parting.pop(cursor, None)
        self.offset_reset.forget(cursor)
        self.suspects.pop(cursor, None)
        self.convicted.pop(cursor, None)
        self.brokers.remove(cursor)
        self.tasks.soon(self.pump)  # what it had in its buffer is free for others

    def seek(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Read on at `position`; what is buffered is dropped. Nothing happens to a cursor that is not read any more."""
        if self._numbered.get(cursor.number) is not cursor:
            return
        self.offset_reset.forget(cursor)
        cursor.seek(position, self.queue.reset(cursor.number, position), last_epoch=last_epoch)
        self._update(cursor)
        self.tasks.soon(self.pump)  # what was dropped is room for others

    def seek_by_time(self, cursor: FetchCursor, place: Place) -> None:
        """Read on at that place, once it is found.

        What is buffered stays, up to where reading then goes on.
        """
        broker_fetcher = self.brokers.fetcher_of(cursor)
        if broker_fetcher is not None:
            broker_fetcher.withdraw(cursor)
        cursor.seek(-1, cursor.generation)
        self._update(cursor)
        self.offset_reset.look_up(cursor, place)

    def go_on_at(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Fetch on at `position`. What is buffered from below it is still to be read: nobody is to miss it."""
        self.offset_reset.forget(cursor)
        self.queue.cut(cursor.number, position)
        cursor.seek(position, cursor.generation, last_epoch=last_epoch)
        self._update(cursor)
        self.tasks.soon(self.pump)  # what was dropped is room for others

    def ask(self, cursors: Iterable[FetchCursor]) -> None:
        """Somebody reads these: demand begins."""
        for cursor in cursors:
            self._parting.pop(cursor, None)
            if not cursor.asked_for:
                cursor.asked_for = True
                self._update(cursor)

    def leave(self, cursor: FetchCursor) -> None:
        """Its reader is gone: demand ends. But where another request was parked all the time, the next one asks for it.

        So whoever comes again and again, and never for as long as requests are parked, finds records when he comes.
        """
        broker_fetcher = self.brokers.fetcher_of(cursor)
        if (
            broker_fetcher is not None
            and broker_fetcher.keeps_waiting(cursor)
            and not self.queue.queued(cursor.number)[0]
        ):
            self._parting[cursor] = None
        else:
            cursor.asked_for = False

    def part(self, broker_fetcher: BrokerFetcher) -> None:
        """A request of `broker_fetcher` is made up: whom nobody reads any more, it asks for the last time."""
        for cursor in [cursor for cursor in self._parting if cursor in broker_fetcher.session]:
            del self._parting[cursor]
            cursor.asked_for = False
            broker_fetcher.update(cursor)

    def pause(self, cursor: FetchCursor, *, paused: bool) -> None:
        """Fetch no more of it, or again; what is buffered stays."""
        cursor.paused = paused
        self.queue.pause(cursor.number, paused)
        self._update(cursor)
        if not paused:
            self._tell()  # something may have lain in its buffer

    def stop(self) -> None:
        """Fetch no more; answers still to come are dropped."""
        self.stopped = True
        for end_watch in self._watches:
            end_watch()
        self.cluster.engine.transport.unlisten(self._notifier)
        self.tasks.stop()
        self.brokers.stop()
        self.queue.keep_idle(0)
        self._tell()

    async def end(self) -> None:
        """The interpreter ends: whoever waits for records in a thread is let go."""
        self.fail(KafkaError("the interpreter is ending: nothing more is read"))

    def abandon(self) -> None:
        """In a forked child: the reader notices by itself; the queue may be locked by a thread that is not here."""

    def listen(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on the engine whenever there may be something to read; returns what ends that."""
        key = object()
        self._listeners[key] = callback

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    async def readable(
        self, number: int, timeout_ms: float | None, is_disturbed: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait until a reader (of a place, or of all: -1) would not have to; returns False when the time is up."""
        arrived = asyncio.Event()
        stop = self.listen(arrived.set)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while self.queue.ready(number) is None and not is_disturbed():
                    arrived.clear()
                    await arrived.wait()
        except TimeoutError:
            return False
        finally:
            stop()
        return True

    def _tell(self) -> None:
        for callback in list(self._listeners.values()):
            callback()

    # --- demand and room --------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """Bytes of the budget that nobody has; see `Budget.free`."""
        return self.budget.free(self.queue.queued_bytes(), len(self.cursors))

    def has_room(self, broker_fetcher: BrokerFetcher, need: int) -> bool:
        """Whether a request for `need` bytes fits; if not, `broker_fetcher` is pumped when there may be room."""
        if self.budget.has_room(self.queue.queued_bytes(), need):
            return True
        if self.plan.compacts:
            self.queue.compact()
        if self.budget.has_room(self.queue.queued_bytes(starved=True), need):
            return True
        self._to_pump[broker_fetcher] = None
        return False

    def is_full(self, cursor: FetchCursor, free: int) -> bool:
        """Whether a cursor's buffer has enough, if so much is free; if so, its next release is told."""
        slices, size = self.queue.queued(cursor.number)
        if not self.budget.is_full(slices, size, free):
            return False
        slices, size = self.queue.queued(cursor.number, watch=True)
        return self.budget.is_full(slices, size, self.free)

    def _on_credit(self) -> None:
        """Readers gave bytes back."""
        for number in self.queue.noticed():
            cursor = self._numbered.get(number)
            if cursor is not None:
                self._update(cursor)
        self._tell()  # of what was lent to a reader when another one asked
        self.pump()

    def pump(self) -> None:
        """Let those send that wait for room, or for more to say in one request."""
        broker_fetchers, self._to_pump = self._to_pump, {}
        for broker_fetcher in broker_fetchers:
            broker_fetcher.pump()

    def pump_soon(self, broker_fetcher: BrokerFetcher) -> None:
        """Let it send in the loop's next turn."""
        self._to_pump[broker_fetcher] = None
        self.tasks.soon(self.pump)

    def next_turn(self, broker_fetcher: BrokerFetcher) -> None:
        """The request of `broker_fetcher` is over: others that wait for room come first."""
        self.pump()
        broker_fetcher.pump()

    def _update(self, cursor: FetchCursor) -> None:
        broker_fetcher = self.brokers.fetcher_of(cursor)
        if broker_fetcher is not None:
            broker_fetcher.update(cursor)
            self.pump_soon(broker_fetcher)
        elif cursor.is_wanted:
            self.brokers.move([cursor])

    # --- what answers say -------------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Records came."""
        self._tell()

    def finish(self, cursor: FetchCursor) -> None:
        """All of it is queued, or is known not to exist."""
        self.brokers.leave(cursor)
        self._unfinished.pop(cursor, None)
        self._check_end()

    def _check_end(self) -> None:
        if not self._unfinished and not self.stopped:
            self.queue.end()
            self.stop()

    def fail(self, error: BaseException) -> None:
        """End the read: once what is buffered is read, readers raise `error`."""
        if not self.stopped:
            self.queue.fail(error)
            self.stop()

    def halt(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Nothing more of this partition until a seek: once what is buffered is read, its reader raises `error`.

        A read that ends does so now.
        """
        cursor.halted = True
        cursor.failure = error
        if self.plan.ends:
            self.fail(error)
            return
        self.queue.fail_place(cursor.number, cursor.generation, error)
        self._update(cursor)
        self._tell()

    def cut_off(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Have its reader raise `error` after what he has begun to read, whatever is queued or on its way."""
        broker_fetcher = self.brokers.fetcher_of(cursor)
        if broker_fetcher is not None:  # else records from behind those that are dropped here could still be queued
            broker_fetcher.withdraw(cursor)
        self.queue.pause(cursor.number, True)  # the reader stays where he is
        self.queue.cut(cursor.number, self.queue.position(cursor.number))
        self.halt(cursor, error)
        self.queue.pause(cursor.number, False)  # the end comes to a paused reader, too

    def try_again(self, cursor: FetchCursor) -> None:
        """Ask once more for a cursor that was halted, where it was to be read on; its reader waits again."""
        error, topic = cursor.failure, cursor.topic
        sought = self.offset_reset.denied_place(cursor)
        processed, position = self.queue.processed(cursor.number), self.queue.position(cursor.number)
        self.seek(cursor, position if sought is None else -1, last_epoch=cursor.last_epoch)
        self.queue.process(cursor.number, processed)
        if sought is not None:
            self.offset_reset.look_up(cursor, sought)
        elif topic in self.cluster.metadata.errors and isinstance(error, KafkaError):
            self.brokers.lose([cursor], error)

    def check_stalled(self, cursors: Iterable[FetchCursor]) -> None:
        """Their leaders answer, without records."""
        committed_only = self.config.isolation_level == "read_committed"
        for cursor in cursors:
            if self.is_failing_for_long(cursor):
                self.fail(KafkaTimeoutError(cursor.why_stalled(self.patience_s, committed_only=committed_only)))

    def backoff_ms(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
        return delay_ms(failures, base, limit, self.cluster.engine.random.random())

    def is_failing_for_long(self, cursor: FetchCursor) -> bool:
        """Whether what is tried again has failed for longer than one call may take."""
        return cursor.failing_ms(self.cluster.engine.now_ms()) > self.config.default_api_timeout_ms

    @property
    def patience_s(self) -> float:
        """How long that is."""
        return self.config.default_api_timeout_ms / 1000

    def numbered(self, number: int) -> FetchCursor | None:
        """The cursor of a place in the queue."""
        return self._numbered.get(number)

    # --- metrics ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """A snapshot: broker fetchers by broker and role, and what is buffered."""
        return {
            "buffered_bytes": self.queue.queued_bytes(),
            "reserved_bytes": self.budget.reserved,
            "fetch_memory": self.budget.limit,
            "unassigned": self.brokers.unassigned_count,
            "position_resets": self.offset_reset.count,
            "truncations": self.validation.truncations,
            "errors": self.errors.counts,
            "broker_fetchers": self.brokers.stats(),
        }
