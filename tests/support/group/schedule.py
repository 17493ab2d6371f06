"""Random schedules of what befalls a group in the simulated world, and what must hold whatever does.

A schedule is its seed: which protocol the members speak, what they do, how long they work, which brokers fail. Brokers
fail one at a time and come back. What must hold: no offset is committed unless a member processed it, with all before
it; in the end every record was processed; the members that are left share the partitions; and where no member died and
no broker failed, no record was processed twice. `python -m tests.soak.group_schedules` runs many.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import kafwire
from kafwire.broker.groups.classic_group import ClassicGroup
from kafwire.broker.groups.group import GroupState
from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition
from tests.support.group.consumers import GROUP, PROTOCOLS, GroupWorld, Member

BROKERS = 3
CALM_S = 400.0  # longer than a session, a rebalance, and the retries of what failed
LOOK_S = 2.0
REMAINS_S = 60.0  # a right state has to last: longer than the session of one that died
MOST_MEMBERS = 5


class GroupSchedule:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.limits = random.Random(f"limits {seed}")  # of its own: the others draw as they did
        chance = self.chance
        self.protocol = chance.choice([*PROTOCOLS, "migration"])
        self.is_rough = chance.random() < 0.6  # members die, and brokers fail
        self.partitions = chance.randrange(1, 9)
        self.group = GroupWorld(
            partitions=self.partitions,
            brokers=BROKERS,
            seed=seed,
            group_consumer_migration_policy="bidirectional",
            group_consumer_heartbeat_interval_ms=str(chance.choice([1_000, 5_000])),
        )
        self.world = self.group.world
        self.world.state.random.seed(f"{seed}/brokers")  # else brokers and clients draw the same ids
        self.store = self.world.state.part(OffsetStore)
        self.problems: list[str] = []
        self.live: list[Member] = []
        self.steps: list[str] = []
        self.forgets = False
        self.steps_left = chance.randrange(3, 16)
        self.pause_s = chance.choice([0.2, 1.0, 5.0])  # between records, at most
        # By default a reader makes ten times as many requests, which tell little about groups.
        strategy = chance.choice(["per_node", "per_partition", "hybrid"])
        self.reading = {"fetch_strategy": strategy, "fetch_max_wait_ms": chance.choice([500, *[5_000] * 5])}
        self._down: int | None = None
        self._watch_commits()

    # --- judges

    def _watch_commits(self) -> None:
        commit = self.store.commit

        def judged(group: str, place: tuple[str, int], committed: Committed) -> None:
            where = TopicPartition(*place)
            done = self.group.seen.counts(where)
            hole = next((offset for offset in range(committed.offset) if offset not in done), None)
            if hole is not None:
                self.problems.append(f"{where} is committed to {committed.offset}, and {hole} was not processed")
            commit(group, place, committed)

        self.store.commit = judged

    def _wrong_in_the_end(self) -> list[str]:
        wrong: list[str] = []
        for number in () if self.forgets else range(self.partitions):
            where = TopicPartition("t", number)
            partition = self.world.state.topics.partition("t", number)
            assert partition is not None
            done = self.group.seen.counts(where)
            missing = [offset for offset in range(partition.high_watermark) if offset not in done]
            if missing:
                wrong.append(f"{where}: {len(missing)} records were never processed, from {missing[0]} on")
        # A group that changes its protocol takes what a classic member is giving up for given up.
        if not self.is_rough and self.protocol != "migration" and self.group.seen.repeated():
            wrong.append(f"{self.group.seen.repeated()} records were processed twice, though nothing failed")
        held = [member.consumer.assignment for member in self.live]
        is_shared = sum(map(len, held)) == self.partitions == len(set().union(*held))
        if self.live and not self.forgets and not is_shared:
            has = {m.name: sorted(w.partition for w in m.consumer.assignment) for m in self.live}
            wrong.append(f"in the end the partitions are not shared out: {has}")
        return wrong + [f"{member.name} ended with {member.error!r}" for member in self.live if member.error]

    # --- what befalls it

    def _options(self) -> dict[str, Any]:
        chance = self.chance
        name = self.protocol
        if name == "migration":
            name = chance.choice(["cooperative", "consumer"])
        options = PROTOCOLS[name] | self.reading | {"max_poll_records": self.limits.choice([None, None, 1, 2, 7])}
        if chance.random() < 0.2:
            options["auto_commit_interval_ms"] = chance.choice([50, 500])
        return options

    async def _join(self) -> None:
        if len(self.live) >= MOST_MEMBERS:
            return
        member = self.group.member(**self._options())
        longest = self.chance.choice([0.0, 0.0, 0.05, 1.0, 20.0])
        member.work_s = lambda: self.chance.random() * longest
        try:
            await member.start()
        except KafkaError:  # no broker responded for long enough
            member.is_dead = True
            return
        self.live.append(member)

    async def _leave(self) -> None:
        if self.live:
            member = self.live.pop(self.chance.randrange(len(self.live)))
            await member.leave()

    async def _die(self) -> None:
        if self.live:
            member = self.live.pop(self.chance.randrange(len(self.live)))
            await member.die()

    async def _restart_reading(self) -> None:
        """A member's loop is cancelled, and starts over with the records in hand."""
        if self.live:
            await self.chance.choice(self.live).read_again()

    async def _break_connections(self) -> None:
        self.world.break_connections(self.chance.randrange(1, BROKERS + 1))

    def _look_at_coordinator(self) -> None:
        """Kafka keeps a group that has become a classic one, and not that it was about to rebalance.

        So a coordinator that takes over then notifies no member, and the partitions of the member that left have no
        owner until a member joins or leaves (GroupMetadataManager: `convertToClassicGroup` and `onLoaded`).
        """
        group = self.world.state.part(GroupCoordinator).groups.get(GROUP)
        is_preparing = isinstance(group, ClassicGroup) and group.state is GroupState.PREPARING_REBALANCE
        self.forgets |= self.protocol == "migration" and is_preparing

    async def _stop_broker(self) -> None:
        if self._down is None:
            self._look_at_coordinator()
            self._down = self.chance.randrange(1, BROKERS + 1)
            self.world.kill(self._down, clean=self.chance.random() < 0.5)

    async def _start_broker(self) -> None:
        if self._down is not None:
            self._look_at_coordinator()
            self.world.revive(self._down)
            self._down = None

    async def _move_coordinator(self) -> None:
        self._look_at_coordinator()
        up = [node for node in range(1, BROKERS + 1) if node != self._down]
        self.world.state.move_coordinator(GROUP, self.chance.choice(up))
        self.world.changed()

    async def _grow(self) -> None:
        if self.partitions < 12:
            topic = self.world.state.topics.by_name["t"]
            self.world.state.topics.add_partitions(topic, 1, BROKERS)
            self.world.changed()
            self.partitions += 1

    async def run(self) -> None:
        """All of it, and the judgement."""
        gentle = [self._join, self._join, self._join, self._leave, self._grow]
        rough = [self._die, self._restart_reading, self._break_connections, self._stop_broker, self._start_broker]
        steps = [*gentle, *rough, self._move_coordinator] if self.is_rough else gentle
        producing = asyncio.ensure_future(self._produce())
        await self._join()
        for _ in range(self.steps_left):
            step = self.chance.choice(steps)
            self.steps.append(f"{self.world.loop.time():.1f} {step.__name__}")
            await step()
            await asyncio.sleep(self.chance.choice([0.0, 0.01, 0.5, 3.0, 10.0, 60.0]) * self.chance.random())
        await self._start_broker()
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)
        if not self.live:
            await self._join()
        for member in self.live:
            member.work_s = lambda: 0.0
        latest = self.world.loop.time() + CALM_S
        while self._wrong_in_the_end():
            if self.world.loop.time() > latest:
                break
            await asyncio.sleep(LOOK_S)
        # A rebalance that a dead member had joined begins the session of the next dead one again.
        deaths = sum(step.endswith("_die") for step in self.steps)
        await asyncio.sleep((1 + deaths) * REMAINS_S)
        self.problems += self._wrong_in_the_end()

    async def _produce(self) -> None:
        async with kafwire.AsyncProducer(self.world.bootstrap, engine=self.world.engine, linger_ms=0) as producer:
            while True:
                await producer.send("t", b"v", partition=self.chance.randrange(self.partitions))
                await asyncio.sleep(self.chance.random() * self.pause_s)


def run(seed: int) -> list[str]:
    """The faults in the schedule of a seed, with its events."""
    schedule = GroupSchedule(seed)
    with schedule.group:
        schedule.world.run(schedule.run())
    if not schedule.problems:
        return []
    return [*schedule.problems, f"protocol {schedule.protocol}, steps {schedule.steps}"]
