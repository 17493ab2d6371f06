"""The fetch engine of consumers and scans: cursors, their demand, the memory budget, and the end of a read.

Consumers and scans differ in their plan (`read_plan.py`). `broker_fetcher.py` handles requests and responses of a
connection, and `brokers.py` assigns cursors to connections. `offset_reset.py` and `position_validation.py` find the
position after an offset that is out of range, and after a truncated log. None of them knows the engine: they emit
actions (`actions.py`), and the engine applies each at once.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Any, assert_never

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import Place
from kafwire.cluster.metadata import TopicInfo
from kafwire.config import FetchConfig
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.consumer.fetch.actions import (
    ARRIVED,
    RELEASED,
    Action,
    AwaitPosition,
    AwaitRoom,
    Continue,
    EndDemand,
    Fail,
    FindOffset,
    Finish,
    Halt,
    Leave,
    LeaveReplica,
    Lose,
    Move,
    PumpSoon,
    Requester,
    ResetPosition,
    Seek,
    Truncate,
)
from kafwire.consumer.fetch.broker_fetcher import BrokerFetcher
from kafwire.consumer.fetch.brokers import PartitionBrokers
from kafwire.consumer.fetch.budget import Budget
from kafwire.consumer.fetch.context import FetchContext
from kafwire.consumer.fetch.cursor import NO_END, FetchCursor
from kafwire.consumer.fetch.error_log import FetchErrorLog
from kafwire.consumer.fetch.offset_reset import OffsetReset
from kafwire.consumer.fetch.position_validation import PositionValidation
from kafwire.consumer.fetch.read_plan import ReadPlan
from kafwire.consumer.fetch.room import FetchRoom
from kafwire.consumer.fetch.suspects import Suspects
from kafwire.consumer.fetch.tasks import FetchTasks
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.errors import KafkaError
from kafwire.records._arrow import Layout


class Fetcher:
    """The fetch engine: it keeps the `queue` filled for cursors with demand. Lives on the engine."""

    def __init__(self, cluster: Cluster, config: FetchConfig, plan: ReadPlan, budget: Budget) -> None:
        self.cluster = cluster
        self.config = config
        self.plan = plan
        self.budget = budget
        self._notifier = cluster.engine.transport.listen(self._on_credit)
        self.queue = FetchBuffer(self._notifier)
        self.queue.keep_idle(budget.limit)
        self.cursors: dict[tuple[str, int], FetchCursor] = {}
        self.tasks = FetchTasks(self.fail)
        self.errors = FetchErrorLog(cluster.engine)
        self._numbered: dict[int, FetchCursor] = {}
        self._parting: dict[FetchCursor, None] = {}
        self.context = FetchContext(
            cluster, config, plan, self.queue, self.cursors, self._numbered, self._parting, self.tasks, self.errors
        )
        self._room = FetchRoom(budget, self.queue, self.cursors, compacts=plan.compacts)
        self._suspects = Suspects(config.max_frame_bytes)
        self.brokers = PartitionBrokers(self.context, self._fetcher_for, self._apply)
        self.offset_reset = OffsetReset(self.context, self._apply)
        self.validation = PositionValidation(self.context, self._apply)
        self._unfinished: dict[FetchCursor, None] = {}  # cursors with an end that they have not reached
        self._vacant: dict[tuple[str, uuid.UUID, int], int] = {}  # places of dropped partitions
        self._to_pump: dict[Requester, None] = {}  # those that wait for room, or may have something to send
        self._listeners: dict[object, Callable[[], object]] = {}
        self._watches: list[Callable[[], None]] = []  # functions that end the watches
        cluster.engine.join(self)

    # --- cursors and demand -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the added cursors to their ends, from their current brokers. After `stop`, do nothing."""
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
        """Add a cursor for a partition, up to an `end`. Fetching begins once it has a position and demand.

        `ownership` is the ownership by the group's assignment. Without one, the partition is always owned.
        """
        number = self._vacant.pop((info.name, info.topic_id, partition), None)
        if number is None:
            number = self.queue.add(info.name, partition, layout)
        # A vacant place has a later generation than a new place.
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
        """Drop a cursor and its buffered records. If it was `claimed`, its reader keeps the place."""
        cursor.asked_for = False
        cursor.generation = self.queue.reset(cursor.number, -1)
        self.queue.pause(cursor.number, False)  # so that the partition's own stream ends
        if not claimed:
            self._vacant[cursor.topic, cursor.topic_id, cursor.partition] = cursor.number
        self.cursors.pop((cursor.topic, cursor.partition), None)
        self._numbered.pop(cursor.number, None)
        self._parting.pop(cursor, None)
        self.offset_reset.forget(cursor)
        self._suspects.forget(cursor)
        self.brokers.remove(cursor)
        self.tasks.soon(self.pump)  # its buffer is free for others

    def seek(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Continue at `position` and drop buffered records. A cursor that was dropped is ignored."""
        if self._numbered.get(cursor.number) is not cursor:
            return
        self.offset_reset.forget(cursor)
        cursor.seek(position, self.queue.reset(cursor.number, position), last_epoch=last_epoch)
        self._update(cursor)
        self.tasks.soon(self.pump)  # the dropped bytes are free for others

    def seek_by_time(self, cursor: FetchCursor, place: Place) -> None:
        """Look up the offset of `place` and continue there.

        Buffered records below that offset stay.
        """
        self._await_position(cursor)
        self.offset_reset.look_up(cursor, place)

    def _await_position(self, cursor: FetchCursor) -> None:
        broker_fetcher = self.brokers.fetcher_of(cursor)
        if broker_fetcher is not None:
            broker_fetcher.withdraw(cursor)
        cursor.seek(-1, cursor.generation)
        self._update(cursor)

    def go_on_at(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Continue to fetch at `position`. Buffered records below it are still delivered."""
        self.offset_reset.forget(cursor)
        self.queue.cut(cursor.number, position)
        cursor.seek(position, cursor.generation, last_epoch=last_epoch)
        self._update(cursor)
        self.tasks.soon(self.pump)  # the dropped bytes are free for others

    def ask(self, cursors: Iterable[FetchCursor]) -> None:
        """Begin demand for these cursors: a reader reads them."""
        for cursor in cursors:
            self._parting.pop(cursor, None)
            if not cursor.asked_for:
                cursor.asked_for = True
                self._update(cursor)

    def leave(self, cursor: FetchCursor) -> None:
        """End demand for a cursor, as its reader closed. If no request could include it yet, the next one does.

        A parked request delays all new demand. So repeated polls that are shorter than the parking still get records.
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

    def pause(self, cursor: FetchCursor, *, paused: bool) -> None:
        """Pause or resume a cursor; its buffered records stay."""
        cursor.paused = paused
        self.queue.pause(cursor.number, paused)
        self._update(cursor)
        if not paused:
            self.notify()  # its buffer may have records

    def stop(self) -> None:
        """Stop fetching; responses to requests in flight are dropped."""
        self.tasks.stop()
        for end_watch in self._watches:
            end_watch()
        self.cluster.engine.transport.unlisten(self._notifier)
        self.brokers.stop()
        self.queue.keep_idle(0)
        self.notify()

    async def end(self) -> None:
        """Let reads that wait in a thread fail, as the interpreter ends."""
        self.fail(KafkaError("the interpreter is ending: nothing more is read"))

    def abandon(self) -> None:
        """Do nothing in a forked child: readers notice the fork, and a parent's thread may hold the queue's lock."""

    def listen(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on the engine whenever there may be something to read; return a function that ends this."""
        key = object()
        self._listeners[key] = callback

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    async def readable(
        self, number: int, timeout_ms: float | None, is_disturbed: Callable[[], bool] = lambda: False
    ) -> bool:
        """Wait until a reader (of a place, or -1: of all unclaimed) would not block; return False at the timeout."""
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

    def notify(self) -> None:
        """Notify the listeners: there may be something to read."""
        for callback in list(self._listeners.values()):
            callback()

    # --- demand -----------------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """True after `stop`."""
        return self.tasks.stopped

    def _on_credit(self) -> None:
        """Handle the queue's notification: readers have released bytes."""
        for number in self.queue.noticed():
            cursor = self._numbered.get(number)
            if cursor is not None:
                self._update(cursor)
        self.notify()  # a place that was lent when another reader asked may be ready now
        self.pump()

    def pump(self) -> None:
        """Pump the broker fetchers that wait for room, or for several changes to share one request."""
        broker_fetchers, self._to_pump = self._to_pump, {}
        for broker_fetcher in broker_fetchers:
            broker_fetcher.pump()

    def _pump_soon(self, broker_fetcher: Requester) -> None:
        self._to_pump[broker_fetcher] = None
        self.tasks.soon(self.pump)

    def _fetcher_for(self, connection: BrokerConnection, role: str) -> BrokerFetcher:
        return BrokerFetcher(self.context, self._room, self._suspects, self.brokers, self._apply, connection, role)

    def _update(self, cursor: FetchCursor) -> None:
        broker_fetcher = self.brokers.fetcher_of(cursor)
        if broker_fetcher is not None:
            broker_fetcher.update(cursor)
            self._pump_soon(broker_fetcher)
        elif cursor.is_wanted:
            self.brokers.move([cursor])

    # --- actions ----------------------------------------------------------------------------------------------------

    def _apply(self, action: Action) -> None:
        """Apply an action of a part of the engine at once."""
        # These two come with each response, and are cheaper to find than the classes.
        if action is ARRIVED:
            self.notify()
            return
        if action is RELEASED:
            self.pump()
            return
        match action:
            case AwaitRoom(broker_fetcher):
                self._to_pump[broker_fetcher] = None
            case Halt(cursor, error):
                self.halt(cursor, error)
            case Move(cursors):
                self.brokers.move(cursors)
            case Leave(cursor):
                self.brokers.leave(cursor)
            case Lose(cursors, error):
                self.brokers.lose(cursors, error)
            case LeaveReplica(cursor, doubt, unknown):
                self.validation.leave_replica(cursor, doubt=doubt, unknown=unknown)
            case Truncate(cursor, divergence, where):
                self.validation.truncated(cursor, divergence, where)
            case FindOffset(cursor):
                self.validation.look_for_offset(cursor)
            case Fail(failure):
                self.fail(failure)
            case PumpSoon(broker_fetcher):
                self._pump_soon(broker_fetcher)
            case EndDemand(cursor):
                del self._parting[cursor]
                cursor.asked_for = False
            case Finish(cursor):
                self._finish(cursor)
            case Seek(cursor, position):
                self.seek(cursor, position)
            case Continue(cursor, position, last_epoch):
                self.go_on_at(cursor, position, last_epoch=last_epoch)
            case AwaitPosition(cursor):
                self._await_position(cursor)
            case ResetPosition(cursor, where):
                self.offset_reset.out_of_range(cursor, where)
            case _:
                assert_never(action)

    # --- ends and errors --------------------------------------------------------------------------------------------

    def _finish(self, cursor: FetchCursor) -> None:
        self.brokers.leave(cursor)
        self._unfinished.pop(cursor, None)
        self._check_end()

    def _check_end(self) -> None:
        if not self._unfinished and not self.stopped:
            self.queue.end()
            self.stop()

    def fail(self, error: BaseException) -> None:
        """End the whole read: readers raise `error` after the buffered records."""
        if not self.stopped:
            self.queue.fail(error)
            self.stop()

    def halt(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Stop a partition until a seek: its reader raises `error` after the buffered records.

        In a scan, which has an end, the error fails the whole read.
        """
        cursor.halted = True
        cursor.failure = error
        if self.plan.ends:
            self.fail(error)
            return
        self.queue.fail_place(cursor.number, cursor.generation, error)
        self._update(cursor)
        self.notify()

    def cut_off(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Make the cursor's reader raise `error` after the slice it has begun; drop queued and in-flight records."""
        broker_fetcher = self.brokers.fetcher_of(cursor)
        if broker_fetcher is not None:  # else later records could still be queued behind the dropped ones
            broker_fetcher.withdraw(cursor)
        self.queue.pause(cursor.number, True)  # so that the position stays
        self.queue.cut(cursor.number, self.queue.position(cursor.number))
        self.halt(cursor, error)
        self.queue.pause(cursor.number, False)  # the reader of a paused partition gets the error too

    def try_again(self, cursor: FetchCursor) -> None:
        """Retry a halted cursor at its position; its reader waits again."""
        error, topic = cursor.failure, cursor.topic
        sought = self.offset_reset.denied_place(cursor)
        processed, position = self.queue.processed(cursor.number), self.queue.position(cursor.number)
        self.seek(cursor, position if sought is None else -1, last_epoch=cursor.last_epoch)
        self.queue.process(cursor.number, processed)
        if sought is not None:
            self.offset_reset.look_up(cursor, sought)
        elif topic in self.cluster.metadata.errors and isinstance(error, KafkaError):
            self.brokers.lose([cursor], error)

    def numbered(self, number: int) -> FetchCursor | None:
        """Return the cursor of a place in the queue."""
        return self._numbered.get(number)

    # --- metrics ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return a snapshot of the metrics: broker fetchers by broker and role, and buffered bytes."""
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
