"""Random schedules of share groups in the simulated world: slow brokers, long work, members that come, go and die."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import kafwire
from kafwire.broker.request import LATER, Request
from kafwire.consumer.share.share_batch import ShareBatch
from kafwire.errors import KafkaError
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.group.history import Ended, Where
from tests.support.share.judge import Accepted, HandOut, ShareHistory, judge

GROUP, TOPIC = "s", "in"
LOCK_S = 10.0
SLOW_S = (0.02, 0.05, 0.3, 1.0)
MOST_MEMBERS = 3
WAITS_S = 120.0  # for a lock of a member that died, and brokers that come late; the work before it comes on top
STOPS_S = 120.0
LOOK_S = 1.0


class ShareProgram:
    """A member: it takes batches, works on each, renews what takes long, and accepts it."""

    def __init__(self, schedule: ShareSchedule, name: str, work_s: Callable[[], float], **options: Any) -> None:
        self.name = name
        self.is_over = False
        self._schedule, self._work_s = schedule, work_s
        self._explicit = options.get("share_acknowledgement_mode") == "explicit"
        world = schedule.world
        self._consumer = kafwire.AsyncShareConsumer(
            world.bootstrap, topics=TOPIC, group_id=GROUP, engine=world.engine, client_id=name, **options
        )
        self._stops = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run in a task of its own."""
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            async with self._consumer as consumer:
                while not self._stops:
                    async for batch in consumer.batches(timeout=LOOK_S):
                        await self._process(batch)
                        if self._stops:
                            break
        except Exception as error:  # the judge decides
            if not self.is_over:
                text = f"{type(error).__name__}: {error}"
                self._schedule.history.ended.append(Ended(self._schedule.now_s, self.name, text))

    async def _process(self, batch: ShareBatch) -> None:
        assert batch.topic is not None
        assert batch.partition is not None
        schedule, where = self._schedule, (batch.topic, batch.partition)
        places = [(where, record.offset) for record in batch]
        for place in places:
            schedule.history.handed_out.append(HandOut(schedule.now_s, self.name, place, batch.delivery_count))
        left_s = self._work_s()
        while left_s > LOCK_S / 3:
            await asyncio.sleep(LOCK_S / 3)
            left_s -= LOCK_S / 3
            batch.renew()
        await asyncio.sleep(left_s)
        if not self._explicit:
            return
        batch.accept()
        try:
            await self._consumer.commit()
        except KafkaError:
            return  # the lock was over: another member gets it
        for place in places:
            schedule.history.accepted.append(Accepted(schedule.now_s, self.name, place))

    async def leave(self) -> None:
        """Stop after the batch in hand."""
        self._stops = True
        await self.end(STOPS_S)

    async def end(self, limit_s: float = 0.0) -> None:
        """Wait, and cancel it then."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=limit_s)
            self.is_over = True
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class ShareSchedule:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(f"{seed}/share")
        self.brokers = chance.choice([1, 2, 2, 3])
        configs = {
            "group.share.assignment.interval.ms": "0",
            "group.share.min.record.lock.duration.ms": "1000",
            "group.share.heartbeat.interval.ms": "1000",
            "group.share.min.heartbeat.interval.ms": "1000",
        }
        self.world = ClusterWorld(brokers=self.brokers, seed=seed, configs=configs)
        self.world.state.random.seed(f"{seed}/brokers")
        lock_ms = str(int(LOCK_S * 1000))
        self.world.state.group_configs[GROUP] = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": lock_ms,
        }
        self.history = ShareHistory(WAITS_S)
        self.partitions = chance.randrange(1, 4)
        self.world.state.topics.create(TOPIC, self.partitions, 1)
        self.mode = chance.choice(["explicit", "explicit", "implicit"])
        self.longest_s = chance.choice([0.0, 0.5, 4.0, 25.0])
        self.live: list[ShareProgram] = []
        self.dead: list[ShareProgram] = []
        self.events: list[str] = []
        self._names = 0
        self._slowest_s = 0.0
        self._mute: set[str] = set()
        self.world.state.interceptors.insert(0, self._intercept)

    @property
    def now_s(self) -> float:
        """The world's time."""
        return self.world.loop.time()

    def say(self, text: str) -> None:
        """Note an event."""
        self.events.append(f"{self.now_s:.1f} {text}")

    def _intercept(self, request: Request) -> Any:
        return LATER if request.client_id in self._mute else None

    # --- steps

    async def _join(self) -> None:
        if len(self.live) < MOST_MEMBERS:
            options = {
                "share_acknowledgement_mode": self.mode,
                "max_poll_records": self.chance.choice([1, 1, 3, 500]),
                "share_acquire_mode": self.chance.choice(["record_limit", "batch_optimized"]),
            }
            name = f"m{self._names}"
            self._names += 1
            self.say(f"{name} joins: {options}")
            program = ShareProgram(self, name, lambda: self.chance.random() * self.longest_s, **options)
            self.live.append(program)
            program.start()

    async def _leave(self) -> None:
        if len(self.live) > 1:
            program = self.live.pop(self.chance.randrange(len(self.live)))
            self.say(f"{program.name} leaves")
            self.history.gone_s.append(self.now_s)  # the end of its session spends what it had acquired
            await program.leave()

    async def _die(self) -> None:
        if len(self.live) > 1:
            program = self.live.pop(self.chance.randrange(len(self.live)))
            self.say(f"{program.name} is cut off")
            program.is_over = True
            self._mute.add(program.name)
            self.dead.append(program)
            self.history.gone_s.append(self.now_s)

    async def _slow(self) -> None:
        node, late_s = self.chance.randrange(1, self.brokers + 1), self.chance.choice(SLOW_S)
        self.say(f"broker {node} responds {late_s:.2f} s late")
        self.world.link(node).latency_s = late_s
        self._slowest_s = max(self._slowest_s, late_s)

    async def _heal(self) -> None:
        self.say("no broker is slow")
        for node in range(1, self.brokers + 1):
            self.world.link(node).heal()

    async def _write(self) -> None:
        topic = self.world.state.topics.by_name[TOPIC]
        for _ in range(self.chance.randrange(1, 9)):
            for partition in topic.partitions:
                where: Where = (TOPIC, partition.index)
                count = self.chance.choice([1, 1, 2])
                base = partition.append_values([b"v"] * count)
                self.history.written.update({(where, base + n): self.now_s for n in range(count)})
            self.world.changed()
            await asyncio.sleep(self.chance.choice([0.0, 0.1, 1.0]))

    def _all_is_seen(self) -> bool:
        return self.history.written.keys() <= {each.place for each in self.history.handed_out}

    async def run(self) -> None:
        """All of it."""
        steps = {"_join": 2, "_leave": 1, "_die": 1, "_slow": 3, "_heal": 1, "_write": 8}
        for _ in range(self.chance.randrange(1, 3)):
            await self._join()
        await asyncio.sleep(5.0)
        await self._slow()
        for name in self.chance.choices([*steps], [*steps.values()], k=self.chance.randrange(3, 9)):
            step: Callable[[], Awaitable[None]] = getattr(self, name)
            await step()
            await asyncio.sleep(self.chance.choice([0.0, 0.5, 5.0, 20.0]))
        # One member with `max_poll_records=1` fetches, works on, and commits record by record.
        round_trips_s = 2 * 2 * self._slowest_s
        self.history.wait_s += len(self.history.written) * (self.longest_s + round_trips_s)
        end_s = self.now_s + self.history.wait_s + WAITS_S
        while self.now_s < end_s and not self._all_is_seen():  # noqa: ASYNC110 - simulated time costs nothing
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(3 * LOCK_S)
        await asyncio.gather(*(each.leave() for each in self.live))
        for each in self.dead:
            await each.end()
        self.history.until_s = self.now_s


def run(seed: int) -> list[str]:
    """The findings in the schedule of a seed, with its events."""
    schedule = ShareSchedule(seed)
    with schedule.world:
        schedule.world.run(schedule.run())
    findings = judge(schedule.history)
    if not findings:
        return []
    what = (
        f"{schedule.partitions} partitions, {schedule.brokers} brokers, {schedule.mode}, work to {schedule.longest_s} s"
    )
    return [*map(str, findings), what, f"events {schedule.events}"]
