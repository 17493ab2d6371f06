"""A reader that moves about: it seeks, pauses, reads slowly, changes its partitions, commits and starts again.

After each of these, it gets the records of the log from its position on, once and in order (see `traces.py`). It
resumes from its group's committed offsets. Records of partitions that it paused or left reach neither its user nor, for
long, the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kafwire.broker.faults import Faults as Script
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.testing.simulation.schedule import CHAIN, MAIN
from kafwire.testing.simulation.traces import Trace, content_of
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    import kafwire
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.request import Request
    from kafwire.testing.simulation.client_run import ClientRun

NAME = "roamer"
GROUP = "roaming"
NOWHERE = 1 << 40  # an offset that no log reaches
CALM_S = 15.0  # from this long after all faults on, its calls end in time
PAUSED_S = 1.0  # this long after a pause, no request names the partition
API_MS = (1_500, 5_000)  # some faults outlast these time-outs, and its reading survives that
FAR = 2_000  # the most records that it seeks back
WEIGHTS = {
    "seek": 6,
    "seek_nowhere": 2,
    "seek_to_beginning": 1,
    "seek_to_end": 3,
    "seek_to_time": 2,
    "pause": 4,
    "leave": 3,
    "commit": 4,
    "ask_committed": 1,
    "start_again": 3,
}


class Roamer:
    """The reader. `traces`: the present reading, by partition; `finished`: its readings before."""

    def __init__(self, workload: ClientRun) -> None:
        self._workload = workload
        self._world, self._load, self._readers = workload.world, workload.load, workload.readers
        self._chance = random.Random(f"roamer {workload.world.seed}")
        self._places = [TopicPartition(MAIN, index) for index in range(self._load.partitions)]
        self._isolation = self._chance.choice(("read_uncommitted", "read_committed"))
        self._reset = self._chance.choice(("earliest", "latest"))
        self.traces: dict[TopicPartition, Trace] = {}
        self.finished: list[Trace] = []
        self._highest: dict[TopicPartition, int] = {}  # the highest offset that it ever reached
        self._aside: set[TopicPartition] = set()  # paused, or not assigned
        self._paused_s: dict[TopicPartition, float] = {}  # by partition: the time of the pause
        self._armed_s = 0.0  # the time at which brokers were last scripted to close connections
        self._unplaced: set[TopicPartition] = set()  # partitions whose start position is not known here

    def places(self) -> dict[tuple[str, TopicPartition], int]:
        """Return the consumer's positions in the partitions that it reads now; -1 where the position is unknown."""
        wanted = ((where, trace) for where, trace in self.traces.items() if where not in self._aside)
        return {(NAME, where): -1 if trace.is_lost else trace.next for where, trace in wanted}

    # --- life cycle

    async def run(self) -> None:
        """Read, and start again on a drawn restart or after an error."""
        self._world.state.interceptors.append(self._look)
        while True:
            self._paused_s.clear()
            consumer = self._readers.consumer(
                NAME,
                self._isolation,
                assign=self._places,
                group_id=GROUP,
                auto_offset_reset=self._reset,
                enable_auto_commit=self._chance.random() < 0.3,
                default_api_timeout_ms=self._chance.choice(API_MS),
                max_prefetch_batches=self._chance.choice((1, 4)),
            )
            was_calm = self._is_calm()
            try:
                before = self._committed()
                self._unplaced.update(self._places)
                async with consumer:
                    await self._begin(consumer, self._places, before)
                    await self._live(consumer)
                    was_calm = self._is_calm()
            except _Refused:
                continue
            except KafkaError as error:
                self._note_error(error, was_calm=was_calm)
                await asyncio.sleep(0.5)

    async def _live(self, consumer: kafwire.AsyncConsumer) -> None:
        while True:
            await self._read(consumer, self._chance.randrange(2, 8))
            if self._workload.is_over:
                for where in self._places:
                    self._readers.seen[NAME, where] = await self._ask(consumer.position(where))
                with contextlib.suppress(_Refused):
                    await self._commit(consumer)
                continue
            kind = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            self._workload.counts[f"roamer {kind}"] += 1
            if kind == "start_again":
                return
            try:
                await getattr(self, f"_{kind}")(consumer)
            except _Refused:
                # The reader goes on from its position, if it still reads all partitions.
                if kind in ("pause", "leave"):
                    raise

    async def _read(self, consumer: kafwire.AsyncConsumer, polls: int) -> None:
        for _ in range(polls):
            try:
                batches = await consumer.poll(self._chance.choice((0.1, 0.5, 1.0)))
            except KafkaError as error:
                self._wrong(error_text(NAME, error))
                raise _Refused from error
            for batch in batches:
                self._take(batch)
            if self._chance.random() < 0.15:
                await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        for where, trace in self.traces.items():
            if where not in self._aside:
                await self._reach(consumer, trace)

    async def _reach(self, consumer: kafwire.AsyncConsumer, trace: Trace) -> None:
        if not trace.is_lost:
            self._wrong(trace.reach(await self._ask(consumer.position(trace.where))))
            self._came_to(trace)

    def _take(self, batch: Any) -> None:
        where = TopicPartition(batch.topic or "", batch.partition or 0)
        if where in self._aside:
            self._wrong(f"{NAME} got records of {where.topic}-{where.partition}, which it had put aside")
        self._wrong(self.traces[where].add(batch))
        self._came_to(self.traces[where])

    def _came_to(self, trace: Trace) -> None:
        self._highest[trace.where] = max(self._highest.get(trace.where, 0), trace.next)

    def _wrong(self, problem: str) -> None:
        if problem:
            self._workload.problems.append(problem)

    def _is_calm(self) -> bool:
        """True if the consumer's calls must end in time."""
        calm_s = self._world.loop.time() - max(self._world.calm_since_s, self._armed_s)
        are_dead = any(connection.is_dead and not connection.closed for connection in self._world.connections)
        return calm_s > CALM_S and not are_dead and not self._world.state.part(Script).script

    def _note_error(self, error: Exception, *, was_calm: bool) -> None:
        """Judge the error of a call: only time-outs are allowed, and only during faults."""
        was_calm = was_calm and self._is_calm()
        self._workload.counts[f"roamer error {type(error).__name__}"] += 1
        self._workload.say(f"{NAME}: {error}")
        if was_calm or not isinstance(error, KafkaTimeoutError | KafkaConnectionError):
            self._wrong(f"{NAME} got an error, {'no fault' if was_calm else 'some fault'} lasting: {error}")

    # --- positions

    def _move(self, where: TopicPartition, start: int | None, why: str, *, is_lost: bool = False) -> None:
        trace = self.traces.get(where)
        if trace is not None and self._load.is_durable:
            self.finished.append(trace)
        committed_only, is_durable = self._isolation == "read_committed", self._load.is_durable
        self.traces[where] = Trace(NAME, where, start, why, committed_only, is_durable, is_lost)
        self._came_to(self.traces[where])
        self._unplaced.discard(where)

    def _lose(self, where: TopicPartition) -> None:
        """Note a position outside the log: the reset policy decides the next position."""
        self._move(where, 0 if self._reset == "earliest" else None, "no such offset", is_lost=True)

    async def _begin(
        self, consumer: kafwire.AsyncConsumer, places: list[TopicPartition], before: Mapping[TopicPartition, int]
    ) -> None:
        """Check that it starts at the committed offsets, if no commit came meanwhile."""
        for where in places:
            position = await self._ask(consumer.position(where))
            committed = before.get(where)
            if self._load.is_durable and committed is not None and committed == self._committed().get(where):
                name = f"{where.topic}-{where.partition}"
                self._wrong(
                    f"{NAME} goes on with {name} at {position}, and its group has committed {committed}"
                    if position != committed
                    else ""
                )
            if position == NOWHERE:  # the member committed the offset before the reset
                self._lose(where)
            else:
                self._move(where, position, "began")

    def _committed(self) -> dict[TopicPartition, int]:
        """Return the group's committed offsets, and check that none is beyond the consumer's highest position."""
        found = self._world.state.part(OffsetStore).of(GROUP)
        offsets = {TopicPartition(*place): its.offset for place, its in found.items()}
        for where, offset in offsets.items():
            trace = self.traces.get(where)
            if where in self._unplaced or trace is None or trace.is_lost:  # its start offset, or that of a reset
                self._highest[where] = max(self._highest.get(where, 0), offset)
            highest = self._highest.get(where, 0)
            if highest < offset < NOWHERE and self._load.is_durable:
                there, _ = content_of(self._partition(where), committed_only=self._isolation == "read_committed")
                if any(highest <= each < offset for each in there):
                    name = f"{where.topic}-{where.partition}"
                    self._wrong(f"{NAME} has committed {offset} of {name}, and come to {highest}")
        return offsets

    def _partition(self, where: TopicPartition) -> Partition:
        return self._world.state.topics.by_name[where.topic].partitions[where.partition]

    def _some(self) -> list[TopicPartition]:
        return self._chance.sample(self._places, self._chance.randint(1, len(self._places)))

    # --- actions

    async def _seek(self, consumer: kafwire.AsyncConsumer) -> None:
        for where in self._some():
            log, back = self._partition(where).log, self._chance.choice((0, 1, 20, 200, FAR))
            offset = max(log.start_offset, self._partition(where).high_watermark - self._chance.randint(0, back))
            await self._ask(consumer.seek(where, offset))
            self._move(where, offset, "sought")

    async def _seek_nowhere(self, consumer: kafwire.AsyncConsumer) -> None:
        """Reset the position while brokers fail its ListOffsets requests for longer than one call may take."""
        if self._chance.random() < 0.5:
            self._armed_s = self._world.loop.time()
            self._world.state.part(Script).hang_up("ListOffsets", times=self._chance.randint(1, 12), client_id=NAME)
        for where in self._some():
            await self._ask(consumer.seek(where, NOWHERE))
            self._lose(where)

    async def _seek_to_beginning(self, consumer: kafwire.AsyncConsumer) -> None:
        places = self._some()
        found = await self._ask(consumer.seek_to_beginning(*places))
        self._look_up_later(places, found, 0, "to the beginning")
        for where, offset in found.items():
            if offset != self._partition(where).log.start_offset:
                self._wrong(f"{NAME} learned that {where} begins at {offset}")
            self._move(where, offset, "to the beginning")

    async def _seek_to_end(self, consumer: kafwire.AsyncConsumer) -> None:
        places = self._some()
        found = await self._ask(consumer.seek_to_end(*places))
        self._look_up_later(places, found, None, "to the end")
        for where, offset in found.items():
            if self._load.is_durable and offset > self._partition(where).high_watermark:
                self._wrong(f"{NAME} learned that {where} ends at {offset}")
            self._move(where, offset, "to the end")

    def _look_up_later(
        self, places: list[TopicPartition], found: Mapping[TopicPartition, int], start: int | None, why: str
    ) -> None:
        """Note partitions without a leader that responds: the reader resets there once one does."""
        for where in places:
            if where not in found:
                self._move(where, start, f"{why}, later", is_lost=True)

    async def _seek_to_time(self, consumer: kafwire.AsyncConsumer) -> None:
        places, ago_ms = self._some(), self._chance.choice((100, 1_000, 10_000))
        now_ms = self._world.engine.clock.time_ns() // 1_000_000
        found = await self._ask(consumer.seek_to_timestamp(now_ms - ago_ms, places))
        self._look_up_later(places, found, None, "to a time")
        for where, offset in found.items():
            self._move(where, offset, "to a time")

    async def _pause(self, consumer: kafwire.AsyncConsumer) -> None:
        places = self._some()
        await self._ask(consumer.pause(*places))
        self._paused_s = dict.fromkeys(places, self._world.loop.time())
        with self._put_aside(places):
            await self._read(consumer, self._chance.randrange(1, 10))
        self._paused_s.clear()
        await self._ask(consumer.resume(*places))

    def _look(self, request: Request) -> None:
        """Check that no Fetch request names a paused partition, shortly after the pause and without faults."""
        if request.name != "Fetch" or request.client_id != NAME or not self._paused_s or not self._is_calm():
            return
        topic_id, now = self._world.state.topics.by_name[MAIN].topic_id, self._world.loop.time()
        for topic in request.message.topics:
            for asked in topic.partitions if topic.topic_id == topic_id or topic.topic == MAIN else ():
                since = self._paused_s.get(TopicPartition(MAIN, asked.partition), now)
                if now - since > PAUSED_S:
                    self._wrong(f"{NAME} asks for {MAIN}-{asked.partition}, which was paused {now - since:g} s ago")

    async def _leave(self, consumer: kafwire.AsyncConsumer) -> None:
        """Read some of the partitions for a while, and then all again."""
        left = self._some()
        kept = [where for where in self._places if where not in left]
        await self._ask(consumer.assign(kept))
        with self._put_aside(left):
            if kept:
                await self._read(consumer, self._chance.randrange(1, 8))
            else:
                await asyncio.sleep(self._chance.uniform(0.0, 3.0))
        before = self._committed()
        self._unplaced.update(left)
        await self._ask(consumer.assign(self._places))
        await self._begin(consumer, left, before)

    @contextlib.contextmanager
    def _put_aside(self, places: list[TopicPartition]) -> Iterator[None]:
        self._aside.update(places)
        try:
            yield
        finally:
            self._aside.difference_update(places)

    async def _commit(self, consumer: kafwire.AsyncConsumer) -> None:
        await self._ask(consumer.commit())
        committed = self._committed()
        if self._is_calm():  # otherwise a request whose call was given up may run later
            for where, offset in consumer.processed().items():
                if committed.get(where) != offset:
                    self._wrong(f"{NAME} has processed {where} up to {offset}, and committed {committed.get(where)}")

    async def _ask_committed(self, consumer: kafwire.AsyncConsumer) -> None:
        before = self._committed()
        stored = await self._ask(consumer.committed(self._places))
        after = self._committed()
        for where, offset in stored.items():
            if before.get(where) == after.get(where) != offset:
                self._wrong(f"{NAME} learned that {offset} is committed of {where}, not {after.get(where)}")

    async def _ask(self, call: Any) -> Any:
        was_calm = self._is_calm()
        try:
            return await call
        except KafkaError as error:
            self._note_error(error, was_calm=was_calm)
            raise _Refused from error


def error_text(reader: str, error: Exception) -> str:
    """Return the problem that an error is for a reader: readers survive every fault by themselves."""
    return f"{reader} ended: {type(error).__name__}: {error}"


class _Refused(Exception):
    """A call could not end in its time."""


async def watch_chain(workload: ClientRun) -> None:
    """Look up the chain's committed offsets in the middle of its transactions, as a successor would."""
    places = [TopicPartition(MAIN, index) for index in range(workload.load.partitions)]
    is_open = asyncio.Event()
    chance = random.Random(f"onlooker {workload.world.seed}")

    def look(request: Request) -> None:
        if request.name == "TxnOffsetCommit":
            is_open.set()
        elif request.name == "OffsetFetch" and not request.message.require_stable:
            store = workload.world.state.part(OffsetStore)
            of_chain = any(group.group_id == CHAIN for group in request.message.groups)
            if of_chain and any(store.is_unstable(CHAIN, (where.topic, where.partition)) for where in places):
                workload.problems.append(
                    "OffsetFetch accepted offsets that an open transaction is about to change (KIP-447)"
                )

    workload.world.state.interceptors.append(look)
    options = {"assign": places, "group_id": CHAIN, "enable_auto_commit": False}
    async with workload.readers.consumer("onlooker", "read_committed", **options) as consumer:
        await consumer.pause(*places)
        while True:
            await asyncio.sleep(1.0)
            is_open.clear()
            await is_open.wait()
            await asyncio.sleep(chance.uniform(0.0, 0.01))
            try:
                await consumer.committed(places)
            except KafkaError as error:
                workload.counts[f"onlooker error {type(error).__name__}"] += 1
