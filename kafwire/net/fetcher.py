"""The fetch engine of a consumer: cursors and their positions, the sources that ask for them, and what goes wrong.

`net/source.py` has the requests and answers; here is whatever concerns more than one broker: where each cursor is at
home, how much may be fetched, and where reading goes on after a seek, a truncation, or a deletion.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from kafwire._arrow import Layout
from kafwire._fetch import FetchAnswer, PartitionAnswer
from kafwire._slices import SliceQueue
from kafwire.config import ConsumerConfig, duration_ms
from kafwire.errors import (
    BrokerError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncatedError,
    ProtocolError,
    broker_error,
)
from kafwire.logic.backoff import delay_ms
from kafwire.logic.cursor import Budget, FetchCursor
from kafwire.logic.metadata import TopicInfo
from kafwire.net.cluster import Cluster
from kafwire.net.offsets import EARLIEST, LATEST, list_offsets
from kafwire.net.source import ASIDE, Source

log = logging.getLogger("kafwire")

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC = 3
UNKNOWN_TOPIC_ID = 100
# So many answers in a row that cannot be read are no accident of one connection.
UNREADABLE = 3


class Fetcher:
    """Keeps the `queue` filled for whoever asks. Lives on the engine."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig) -> None:
        self.cluster = cluster
        self.config = config
        self._cookie = cluster.engine.transport.listen(self._on_credit)
        self.queue = SliceQueue(cluster.engine.native, self._cookie)
        self.budget = Budget(
            config.fetch_memory, config.fetch_max_bytes, config.max_partition_fetch_bytes, config.max_prefetch_batches
        )
        self.cursors: dict[tuple[str, int], FetchCursor] = {}
        self.stopped = False
        self.resets = 0  # positions that had to be looked up again, for metrics
        self.truncations = 0
        self._numbered: dict[int, FetchCursor] = {}
        self._sources: dict[tuple[int, str], Source] = {}
        self._homes: dict[FetchCursor, Source] = {}
        self._homeless: dict[FetchCursor, None] = {}
        self._look_again = False  # before homes are given: the metadata does not tell where they are
        self._attempts = 0
        self._moving: asyncio.Task[None] | None = None
        self._unplaced: dict[FetchCursor, int] = {}  # whose position is to be found by this time
        self._placing: asyncio.Task[None] | None = None
        self._unreadable: dict[int, int] = {}
        self._listeners: dict[object, Callable[[], object]] = {}
        cluster.engine.join(self)

    # --- what the consumer asks for ---------------------------------------------------------------------------------

    def add(self, info: TopicInfo, partition: int, layout: Layout) -> FetchCursor:
        """A cursor for a partition; it is read once it has a position, and somebody asks."""
        number = self.queue.add(info.name, partition, layout)
        cursor = FetchCursor(number, info.name, info.topic_id, partition)
        self.cursors[info.name, partition] = cursor
        self._numbered[number] = cursor
        return cursor

    def remove(self, cursor: FetchCursor) -> None:
        """Drop a cursor, and what is buffered of it."""
        cursor.asked_for = False
        cursor.generation = self.queue.reset(cursor.number, 0)
        self.cursors.pop((cursor.topic, cursor.partition), None)
        self._numbered.pop(cursor.number, None)
        self._homeless.pop(cursor, None)
        self._unplaced.pop(cursor, None)
        self._leave(cursor)

    def seek(self, cursor: FetchCursor, position: int, *, last_epoch: int = -1) -> None:
        """Read on at `position`; what is buffered is dropped."""
        self._unplaced.pop(cursor, None)
        cursor.seek(position, self.queue.reset(cursor.number, position), last_epoch=last_epoch)
        self._update(cursor)

    def seek_by_time(self, cursor: FetchCursor, timestamp: int) -> None:
        """Read on at the first record of that time (ms), `EARLIEST` or `LATEST`, once it is found."""
        cursor.seek(-1, self.queue.reset(cursor.number, -1))
        self._update(cursor)
        self._unplaced[cursor] = timestamp
        if self._placing is None and not self.stopped:
            self._placing = asyncio.ensure_future(self._find_positions())
            self._placing.add_done_callback(self._on_placed)

    def ask(self, cursors: Iterable[FetchCursor]) -> None:
        """Somebody reads these: demand begins."""
        for cursor in cursors:
            if not cursor.asked_for:
                cursor.asked_for = True
                self._update(cursor)

    def pause(self, cursor: FetchCursor, *, paused: bool) -> None:
        """Fetch no more of it, or again; what is buffered stays."""
        cursor.paused = paused
        self.queue.pause(cursor.number, paused)
        self._update(cursor)

    def stop(self) -> None:
        """Fetch no more; answers still to come are dropped."""
        self.stopped = True
        self.cluster.engine.transport.unlisten(self._cookie)
        for task in (self._moving, self._placing):
            if task is not None:
                task.cancel()
        for source in self._sources.values():
            source.stop()
        self._tell()

    def sessions(self) -> list[tuple[int, tuple[int, int]]]:
        """(broker, what closes it there) for each session that brokers keep for us; they are no longer ours."""
        found = [(source.lane.node, source.session.closing()) for source in self._sources.values()]
        return [(node, closing) for node, closing in found if closing is not None]

    async def end(self) -> None:
        """The interpreter ends: whoever waits for records in a thread is let go."""
        if not self.stopped:
            self.queue.fail(KafkaError("the interpreter is ending: nothing more is read"))
            self.stop()

    def abandon(self) -> None:
        """In a forked child: the reader notices by itself; the queue may be locked by a thread that is not here."""

    def listen(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on the engine whenever there may be something to read; returns what ends that."""
        key = object()
        self._listeners[key] = callback

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    def _tell(self) -> None:
        for callback in list(self._listeners.values()):
            callback()

    # --- demand and room --------------------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """Partitions that share the budget."""
        return len(self.cursors)

    @property
    def source_count(self) -> int:
        """Requests that may be on their way at once."""
        return len(self._sources)

    def has_room(self, need: int) -> bool:
        """Whether a request for `need` bytes fits; if not, the readers' next release of bytes posts to the engine."""
        if self.budget.has_room(self.queue.queued_bytes(), need):
            return True
        self.queue.compact()
        return self.budget.has_room(self.queue.queued_bytes(starved=True), need)

    def is_full(self, cursor: FetchCursor) -> bool:
        """Whether a cursor's buffer has enough; if so, its next release is told."""
        slices, size = self.queue.queued(cursor.number)
        if not self.budget.is_full(slices, size, self.active):
            return False
        slices, size = self.queue.queued(cursor.number, watch=True)
        return self.budget.is_full(slices, size, self.active)

    def _on_credit(self) -> None:
        """Readers gave bytes back."""
        for number in self.queue.noticed():
            cursor = self._numbered.get(number)
            if cursor is not None:
                self._update(cursor)
        self.pump()

    def pump(self) -> None:
        """Whatever room there is: let all sources that can use it send."""
        for source in list(self._sources.values()):
            source.pump()

    def next_turn(self, source: Source) -> None:
        """The request of `source` is over: others that wait for room come first."""
        key = (source.lane.node, source.role)
        if self._sources.get(key) is source:
            self._sources[key] = self._sources.pop(key)
        self.pump()

    def _update(self, cursor: FetchCursor) -> None:
        source = self._homes.get(cursor)
        if source is not None:
            source.update(cursor)
            source.pump()
        elif cursor.is_wanted:
            self.move([cursor])

    # --- what answers say -------------------------------------------------------------------------------------------

    def arrived(self) -> None:
        """Records came: the next failure is a first one again."""
        self._attempts = 0
        self._tell()

    def halt(self, cursor: FetchCursor, error: KafkaError) -> None:
        """Nothing more of this partition until a seek: once what is buffered is read, its reader raises `error`."""
        cursor.halted = True
        self.queue.fail_place(cursor.number, cursor.generation, error)
        self._update(cursor)
        self._tell()

    def out_of_range(self, cursor: FetchCursor, where: str) -> None:
        """There is no such offset: go where the policy says, or tell the user (KIP-1106)."""
        policy = self.config.auto_offset_reset
        self.resets += 1
        if policy == "error":
            self.halt(
                cursor,
                broker_error(
                    OFFSET_OUT_OF_RANGE,
                    f"{cursor.name} has no offset {cursor.position}, says {where}: the records were deleted, or the "
                    "log was cut; seek to another, or choose an auto_offset_reset",
                ),
            )
            return
        log.warning("%s has no offset %d, says %s: reading goes on at %s", cursor.name, cursor.position, where, policy)
        self.seek_by_time(cursor, self.reset_time(policy))

    @staticmethod
    def reset_time(policy: str) -> int:
        """What ListOffsets is asked for by a reset policy."""
        if policy == "earliest":
            return EARLIEST
        duration = duration_ms(policy)
        return LATEST if duration is None else max(0, int(time.time() * 1000) - duration)

    def truncated(self, cursor: FetchCursor, epoch: int, end_offset: int, where: str) -> None:
        """The log and what was fetched part at `end_offset` (KIP-320)."""
        self.truncations += 1
        offset = max(0, min(end_offset, cursor.position))
        text = (
            f"{cursor.name} was read up to offset {cursor.position}, but the log that {where} has agrees with that "
            f"only up to {offset}: a leader without the rest was elected"
        )
        if self.config.auto_offset_reset == "error":
            self.halt(
                cursor,
                LogTruncatedError(
                    f"{text}; seek to {offset} to read what is there now",
                    topic=cursor.topic,
                    partition=cursor.partition,
                    position=cursor.position,
                    offset=offset,
                ),
            )
            return
        log.warning("%s; reading goes on there", text)
        self.seek(cursor, offset, last_epoch=epoch)

    # --- where cursors are at home ----------------------------------------------------------------------------------

    def _leave(self, cursor: FetchCursor) -> None:
        source = self._homes.pop(cursor, None)
        if source is not None:
            source.release(cursor)
            if self.config.fetch_strategy == "per_partition":
                self._sources.pop((source.lane.node, source.role), None)
                source.stop()
                self.cluster.release(source.lane.node, source.role)

    def move(self, cursors: Iterable[FetchCursor]) -> None:
        """Give these to the broker that is to be asked for them now, as far as the metadata knows."""
        for cursor in cursors:
            self._leave(cursor)
            if self.cursors.get((cursor.topic, cursor.partition)) is cursor:
                self._homeless[cursor] = None
        if self._homeless and self._moving is None and not self.stopped:
            self._moving = asyncio.ensure_future(self._find_homes())
            self._moving.add_done_callback(self._on_moved)

    def lose(self, cursors: Iterable[FetchCursor], error: KafkaError) -> None:
        """These cannot be read where they were asked for: look for their leaders again, with backoff."""
        now = self.cluster.engine.now_ms()
        lost = list(cursors)
        for cursor in lost:
            cursor.replica = -1
            if cursor.failing_since_ms is None:
                cursor.failing_since_ms = now
        if lost:
            log.debug("%s and %d more: %s", lost[0].name, len(lost) - 1, error)
            self._look_again = True
            self.move(lost)

    def _on_moved(self, task: asyncio.Task[None]) -> None:
        self._moving = None
        if task.cancelled() or self.stopped:
            return
        error = task.exception()
        if error is not None:
            self.queue.fail(error)
            self._tell()
        elif self._homeless:
            self.move([])

    async def _find_homes(self) -> None:
        """Give every homeless cursor to the source of its broker; who has none is tried again with backoff."""
        while self._homeless and not self.stopped:
            if self._look_again:
                self._look_again = False
                if self._attempts:
                    await asyncio.sleep(self._backoff() / 1000)
                self._attempts += 1
                try:
                    await self.cluster.refresh({cursor.topic for cursor in self._homeless})
                except (KafkaConnectionError, KafkaTimeoutError, BrokerError) as error:
                    log.warning("where to fetch from could not be found: %s; this is tried again", error)
                    self._look_again = True
                    continue
            groups: dict[int, list[FetchCursor]] = {}
            for cursor in list(self._homeless):
                node = self._home_of(cursor)
                if node is None:
                    self._homeless.pop(cursor, None)
                elif node >= 0:
                    groups.setdefault(node, []).append(cursor)
                else:
                    self._look_again = True
            await asyncio.gather(*(self._settle(node, group) for node, group in groups.items()))

    def _backoff(self) -> float:
        base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
        return delay_ms(self._attempts, base, limit, random.random())

    def _home_of(self, cursor: FetchCursor) -> int | None:
        """The broker to ask; -1 when there is none now, None when there never will be (then the cursor is halted)."""
        metadata = self.cluster.metadata
        known = metadata.topics.get(cursor.topic)
        code = metadata.errors.get(cursor.topic, 0)
        if known is not None and known.topic_id != cursor.topic_id and not code:
            error = broker_error(
                UNKNOWN_TOPIC_ID,
                f"topic {cursor.topic!r} was deleted and made anew while {cursor.name} was read, up to offset "
                f"{cursor.position}: its offsets are those of other records now; assign it again to read them",
            )
        elif code and not broker_error(code).retriable:
            error = broker_error(code, f"fetching {cursor.name} at offset {cursor.position}")
        elif code == UNKNOWN_TOPIC and self._is_failing_for_long(cursor):
            error = broker_error(
                code,
                f"topic {cursor.topic!r} has been gone for {self.config.default_api_timeout_ms / 1000:g} s; "
                f"{cursor.name} was read up to offset {cursor.position}",
            )
        else:
            leader = -1 if code else metadata.leader(cursor.topic, cursor.partition)
            if leader >= 0 and known is not None:
                cursor.leader_epoch = known.partitions[cursor.partition].leader_epoch
            node = cursor.read_from(leader, self.cluster.engine.now_ms())
            return node if node in metadata.brokers else leader
        self.halt(cursor, error)
        return None

    def _is_failing_for_long(self, cursor: FetchCursor) -> bool:
        now = self.cluster.engine.now_ms()
        if cursor.failing_since_ms is None:
            cursor.failing_since_ms = now
        return now - cursor.failing_since_ms > self.config.default_api_timeout_ms

    async def _settle(self, node: int, cursors: list[FetchCursor]) -> None:
        """Open what leads to a broker and hand it these cursors, unless they were moved or dropped meanwhile."""
        strategy = self.config.fetch_strategy
        if strategy == "per_partition":
            groups = [(f"fetch:{cursor.name}", [cursor]) for cursor in cursors]
        else:
            groups = [("control" if self.config.single_socket else "fetch", cursors)]
        await asyncio.gather(*(self._settle_at(node, role, group) for role, group in groups))

    async def _settle_at(self, node: int, role: str, cursors: list[FetchCursor]) -> None:
        try:
            lane = self.cluster.lane(node, role)
            await lane.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
            log.warning("%s; this is tried again", error)
            for cursor in cursors:
                cursor.replica = -1
            self._look_again = True
            return
        source = self._sources.get((node, role))
        if source is None or source.lane is not lane:
            if source is not None:  # the broker has another address now
                source.stop()
                cursors = [*source.cursors, *cursors]
            source = self._sources[node, role] = Source(self, lane, role)
        for cursor in cursors:
            if self._homeless.pop(cursor, self) is None or self._homes.get(cursor) is not None:
                self._homes[cursor] = source
                source.take(cursor)
        source.pump()

    def source_aside(self, node: int) -> Source | None:
        """The source for what must not wait behind a parked request, if there is one yet."""
        return self._sources.get((node, ASIDE))

    async def aside(self, node: int) -> Source | None:
        """The source for what must not wait behind a parked request; None when the broker cannot be reached."""
        try:
            lane = self.cluster.lane(node, ASIDE)
            await lane.open()
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError):
            return None  # whatever waits there is fetched when the parked request is answered
        source = self._sources.get((node, ASIDE))
        if source is None or source.lane is not lane:
            source = self._sources[node, ASIDE] = Source(self, lane, ASIDE, sessions=False, max_wait_ms=0)
        return source

    def new_leader(self, part: PartitionAnswer, cursor: FetchCursor, answer: FetchAnswer) -> bool:
        """Take in a hint who leads now (KIP-951); whether it is news."""
        return part.leader_id >= 0 and self.cluster.metadata.update_leader(
            cursor.topic, cursor.partition, part.leader_id, part.leader_epoch, answer.endpoints
        )

    def unreadable(self, node: int) -> bool:
        """A broker's answer could not be read: whether that has become its habit."""
        self._unreadable[node] = self._unreadable.get(node, 0) + 1
        return self._unreadable[node] >= UNREADABLE

    def readable(self, node: int) -> None:
        """A broker's answer was read."""
        self._unreadable.pop(node, None)

    def on_metadata(self, changed: set[str]) -> None:
        """Leaders moved: do not wait until the old ones say so. And a topic made anew is not the one that was read."""
        now = self.cluster.engine.now_ms()
        moved = []
        for cursor in self.cursors.values():
            if cursor.topic not in changed or cursor.halted:
                continue
            source = self._homes.get(cursor)
            known = self.cluster.metadata.topics.get(cursor.topic)
            if source is None or known is None or cursor.topic in self.cluster.metadata.errors:
                continue
            leader = self.cluster.metadata.leader(cursor.topic, cursor.partition)
            epoch = known.partitions[cursor.partition].leader_epoch if cursor.partition in known.partitions else -1
            away = leader >= 0 and cursor.read_from(leader, now) != source.lane.node
            if known.topic_id != cursor.topic_id or away or epoch != cursor.leader_epoch:
                moved.append(cursor)
        self.move(moved)

    # --- positions --------------------------------------------------------------------------------------------------

    def _on_placed(self, task: asyncio.Task[None]) -> None:
        self._placing = None
        if not task.cancelled() and task.exception() is not None:
            self.queue.fail(task.exception() or KafkaError("positions could not be found"))
            self._tell()

    async def _find_positions(self) -> None:
        """Ask for the offsets of all that have no position; what fails for now is tried again for ever."""
        while self._unplaced and not self.stopped:
            wanted = dict(self._unplaced)
            generations = {cursor: cursor.generation for cursor in wanted}
            for timestamp in set(wanted.values()):
                group = [cursor for cursor in wanted if wanted[cursor] == timestamp]
                try:
                    found = await self.offsets(group, timestamp)
                except (KafkaConnectionError, KafkaTimeoutError) as error:
                    log.warning("the position of %s could not be found: %s; this is tried again", group[0].name, error)
                    continue
                except KafkaError as error:
                    for cursor in group:
                        if self._unplaced.pop(cursor, None) is not None:
                            self.halt(cursor, error)
                    continue
                for cursor in group:
                    if self._unplaced.get(cursor) == timestamp and cursor.generation == generations[cursor]:
                        self.seek(cursor, found[cursor])

    async def placed(self, cursor: FetchCursor) -> None:
        """Return once it is known where `cursor` goes on."""
        while cursor in self._unplaced and self._placing is not None:
            await asyncio.wait([self._placing])

    async def offsets(self, cursors: Iterable[FetchCursor], timestamp: int) -> dict[FetchCursor, int]:
        """Where the first record of that time lies, or the end where there is none yet."""
        by_name = {(cursor.topic, cursor.partition): cursor for cursor in cursors}
        level = int(self.config.isolation_level == "read_committed")
        found = await list_offsets(self.cluster, dict.fromkeys(by_name, timestamp), isolation_level=level)
        late = [where for where, offset in found.items() if offset < 0]
        if late:
            found |= await list_offsets(self.cluster, dict.fromkeys(late, LATEST), isolation_level=level)
        return {by_name[where]: offset for where, offset in found.items()}

    # --- metrics ----------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """A snapshot: sources by broker and role, and what is buffered."""
        return {
            "buffered_bytes": self.queue.queued_bytes(),
            "reserved_bytes": self.budget.reserved,
            "fetch_memory": self.budget.limit,
            "homeless": len(self._homeless),
            "position_resets": self.resets,
            "truncations": self.truncations,
            "sources": [source.stats() for source in self._sources.values()],
        }
