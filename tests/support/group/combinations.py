"""Combined schedules of simulated groups: one seed decides everything, and one judge reads results and offsets.

`run(seed)` returns the findings, with the events that led there. `python -m tests.soak.group_schedules` runs many.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import kafwire
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed
from kafwire.testing.simulation.clock import WALL_S
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.group.faults import GroupFaults
from tests.support.group.history import GroupHistory, Result, Warned, Where
from tests.support.group.inputs import AFTER_S, BACKOFF_S, DEAD, OUT, RETRY, TOPIC, Inputs, Trait
from tests.support.group.judge import Finding, judge
from tests.support.group.plan import BROKERS, PATIENCE_MS, SESSION_MS, Plan
from tests.support.group.programs import LoopProgram, Program, StreamProgram, TasksProgram, TransactionsProgram
from tests.support.group.watch import GroupWatch

GROUP = "g"
NODES = [1, 2, 3]
MOST_MEMBERS = 4
KEYS = 3
CALM_S = 240.0  # in the end everything is processed so soon
STOPS_S = 120.0
OLD_S = 86_400.0  # of records in a topic that becomes visible
LOOK_S = 1.0


class Outcome(NamedTuple):
    """The results of a schedule."""

    plan: str
    findings: list[Finding]
    events: list[str]
    counts: dict[str, int]


class _Warnings(logging.Handler):
    """Writes WARNINGs of the library into the history."""

    def __init__(self, history: GroupHistory, now_s: Callable[[], float]) -> None:
        super().__init__(logging.WARNING)
        self._history, self._now_s = history, now_s

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self._history.warnings.append(Warned(self._now_s(), record.getMessage()))


class CombinedSchedule:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.plan = plan = Plan(seed)
        self.chance = plan.chance
        self.world = ClusterWorld(brokers=len(NODES), seed=seed, configs=BROKERS)
        self.world.state.random.seed(f"{seed}/brokers")  # else brokers and clients draw the same ids
        self.history = GroupHistory(plan.guarantee)
        self.history.keeps_order = plan.by is not None and plan.theme_name not in ("zombies", "mixture", "lag")
        patience_s = 0.0 if plan.is_patient else PATIENCE_MS / 1000
        self.inputs = Inputs(self.world, self.history, patience_s=patience_s, retry_delay_s=plan.retry_delay_s)
        self.watch = GroupWatch(self.world, GROUP, self.history)
        self.faults = GroupFaults(self.world, GROUP, self.inputs, self.watch)
        self.watch.incarnations = self.inputs.incarnations
        self.live: list[Program] = []
        self.dead: list[Program] = []
        self.events: list[str] = []
        self._names = 0
        self._beside: set[asyncio.Task[None]] = set()
        topics = self.world.state.topics
        for name in (TOPIC, RETRY) if plan.retries_by_topic else (TOPIC,):
            topics.create(name, plan.partitions, len(NODES))
        for name in (OUT, DEAD):
            topics.create(name, 1, len(NODES))

    def say(self, text: str) -> None:
        """Note an event."""
        self.events.append(f"{self.world.loop.time():.1f} {text}")

    # --- members

    def _program(self, producer: Mapping[str, Any] | None = None) -> Program:
        plan, name = self.plan, f"m{self._names}"
        self._names += 1
        where = self.world, self.inputs, name, plan.consumer()
        kind = plan.program()
        own = producer or {"transactional_id": f"tx-{name}", "transaction_timeout_ms": plan.transaction_ms}
        if kind == "stream":
            return StreamProgram(*where, make=plan.make_pipeline, guarantee=plan.guarantee, producer=own)
        if kind == "transactions":
            return TransactionsProgram(*where, producer=own)
        return (LoopProgram if kind == "loop" else TasksProgram)(*where, commits=self.chance.random() < 0.5)

    async def _join(self) -> None:
        if len(self.live) < MOST_MEMBERS:
            program = self._program()
            self.say(f"{program.name} joins: {type(program).__name__} {program.options_text}")
            self._add(program)

    def _add(self, program: Program) -> None:
        self.live.append(program)
        self.watch.members[program.name] = program
        program.start()

    async def _leave(self) -> None:
        if len(self.live) > 1:
            program = self.live.pop(self.chance.randrange(len(self.live)))
            self.say(f"{program.name} leaves")
            self.dead.append(program)
            self._beside_this(self._let_go(program))

    async def _let_go(self, program: Program) -> None:
        await program.leave(STOPS_S)

    def _beside_this(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # --- inputs

    def _append(self, trait: Trait | None = None, topic: str = TOPIC, **known: Any) -> None:
        """One input to each partition of a topic."""
        for partition in self.world.state.topics.by_name[topic].partitions:
            key = b"k%d" % self.chance.randrange(KEYS)
            self.inputs.append((topic, partition.index), key, trait, **known)

    async def _traffic(self) -> None:
        for _ in range(self.chance.randrange(2, 12)):
            self._append()
            await asyncio.sleep(self.chance.choice([0.0, 0.05, 1.0]))

    async def _in_hand(self) -> None:
        """Members have inputs in hand, of any kind, when the next step comes."""
        chance, now_s = self.chance, self.world.loop.time()
        for _ in range(chance.randrange(1, 5)):
            kind = self.plan.kind()
            if kind == "hung" and any(each.kind == "hung" for each in self.inputs.traits.values()):
                kind = "plain"  # another member has to take the partitions
            seconds = {
                "slow": chance.choice([1.0, 4.0, 9.0]),
                "bad": now_s + chance.choice([20.0, self.plan.bad_s]),
                "later": now_s + chance.choice([20.0, self.plan.bad_s]),
            }.get(kind, 0.0)
            where = TOPIC, chance.randrange(len(self.world.state.topics.by_name[TOPIC].partitions))
            made = self.inputs.append(where, b"k%d" % chance.randrange(KEYS), Trait(kind, seconds))
            self.say(f"#{made.number} to {where[1]}: {kind} {seconds:.0f}")
        self._append()
        await asyncio.sleep(chance.choice([0.1, 1.0, 2.0]))

    # --- faults of members

    def _one(self) -> Program | None:
        free = [each for each in self.live if not each.is_held]
        return self.chance.choice(free) if free else None

    async def _cut_off(self) -> None:
        program = self._one()
        if program is None:
            return
        self.say(f"{program.name} is cut off")
        self.live.remove(program)
        self.dead.append(program)
        self.faults.cut_off(program)
        if not self.live or self.chance.random() < 0.5:  # a supervisor starts it again
            again = self._program(program.producer)
            self.say(f"{again.name} starts in its place, with its transactional id")
            self._add(again)

    async def _withhold(self) -> None:
        program = self._one()
        if program is not None:
            seconds = SESSION_MS / 1000 * self.chance.choice([1.5, 3.0])
            self.say(f"{program.name}'s heartbeats are withheld for {seconds:.0f} s")
            self._beside_this(self.faults.withhold(program, seconds))

    async def _fence(self) -> None:
        program = self._one()
        if program is not None:
            self.say(f"{program.name} is removed by an admin")
            self.faults.fence(program)

    async def _lose_while_looking(self) -> None:
        """A member has a new partition, looks for it, and is removed before the metadata come."""
        self.faults.slow_metadata(self.chance.choice([8.0, 25.0]), 10.0)
        await self._grow()
        await asyncio.sleep(self.chance.choice([1.2, 3.0, 7.0]))
        if len(self.live) < 2:
            await self._join()
        await self._fence()

    async def _delete_group(self) -> None:
        seconds = SESSION_MS / 1000 * 2
        self.say(f"all heartbeats are withheld for {seconds:.0f} s, and the empty group is deleted")
        self._append()
        await asyncio.sleep(AFTER_S)
        holding = [asyncio.ensure_future(self.faults.withhold(each, seconds)) for each in self.live if not each.is_held]
        await asyncio.sleep(seconds - LOOK_S)
        if self._nothing_is_owed() and self.faults.delete_group():
            self.say("the group is deleted")
        await asyncio.gather(*holding)

    def _nothing_is_owed(self) -> bool:
        done = {each.number for each in self.history.settled}
        return all(each.number in done for each in self.history.inputs if each.wanted == "yes")

    # --- faults of brokers

    async def _break_connections(self) -> None:
        node = self.chance.choice(NODES)
        self.say(f"connections to broker {node} break")
        self.faults.break_connections(node)

    async def _move_coordinator(self) -> None:
        node = self.chance.choice(NODES)
        self.say(f"the coordinator moves to broker {node}")
        self.faults.move_coordinator(node)

    async def _slow_metadata(self) -> None:
        each_s, seconds = self.chance.choice([1.0, 8.0, 25.0]), self.chance.choice([5.0, 30.0])
        self.say(f"metadata come {each_s:.0f} s late for {seconds:.0f} s")
        self.faults.slow_metadata(each_s, seconds)

    async def _lag(self) -> None:
        """Topics change while brokers do not know it."""
        nodes = self.chance.choice([NODES, NODES, [self.chance.choice(NODES)]])
        seconds = self.chance.choice([1.0, 5.0, 15.0])
        self.say(f"brokers {nodes} lag for {seconds:.0f} s")
        with self.faults.lagging(nodes):
            await self.chance.choice([self._grow, self._create if self.plan.by_pattern else self._grow])()
            await asyncio.sleep(seconds)
        self.say("brokers lag no more")

    # --- topics

    def _made(self, where: Where) -> None:
        self.inputs.noticed_s[where] = self.world.loop.time() + self.plan.notices_topics_s

    async def _grow(self) -> None:
        topic = self.world.state.topics.by_name[TOPIC]
        if len(topic.partitions) < 8:
            self.world.state.topics.add_partitions(topic, 1, len(NODES))
            self.world.changed()
            where = TOPIC, len(topic.partitions) - 1
            self.say(f"partition {where[1]} is added")
            self._made(where)
            for number in range(KEYS):
                self.inputs.append(where, b"k%d" % number)

    async def _create(self, *, is_granted: bool = False) -> None:
        name = f"in-{len(self.world.state.topics.by_name)}"
        if not self.plan.by_pattern:
            return
        self.world.state.topics.create(name, 1, len(NODES))
        self.say(f"topic {name} {'becomes visible, with old records' if is_granted else 'is created'}")
        self._made((name, 0))
        for _ in range(KEYS if is_granted else 0):
            wanted = "no" if self.plan.reset == "latest" else "yes"
            self.inputs.append((name, 0), b"k", wanted=wanted, age_s=OLD_S)
        self.world.changed()
        for _ in range(KEYS):
            self.inputs.append((name, 0), b"k")

    async def _grant(self) -> None:
        await self._create(is_granted=True)

    async def _recreate(self) -> None:
        await self._until(self._nothing_is_owed, CALM_S)
        await asyncio.sleep(AFTER_S)
        topics = self.world.state.topics
        self.say(f"topic {TOPIC} is deleted")
        topics.delete(topics.by_name[TOPIC])
        self.world.changed()
        await asyncio.sleep(self.chance.choice([0.1, 2.0, 8.0]))
        topics.create(TOPIC, self.plan.partitions, len(NODES))
        self.inputs.incarnations[TOPIC] = self.inputs.incarnations.get(TOPIC, 0) + 1
        self.world.changed()
        self.say(f"topic {TOPIC} is created again")
        self._append()
        self._append()

    # --- the run

    async def _until(self, condition: Callable[[], bool], limit_s: float) -> None:
        end_s = self.world.loop.time() + limit_s
        while not condition() and self.world.loop.time() < end_s:  # noqa: ASYNC110 - simulated time costs nothing
            await asyncio.sleep(LOOK_S)

    def _begin_at_offset_0(self) -> None:
        store = self.world.state.part(OffsetStore)
        at_ms = int((WALL_S + self.world.loop.time()) * 1000)  # the broker removes offsets older than its retention
        for partition in self.world.state.topics.by_name[TOPIC].partitions:
            store.commit(GROUP, (TOPIC, partition.index), Committed(0, at_ms=at_ms))

    async def run(self) -> None:
        """All steps, a calm time, and the results."""
        self._beside_this(self.watch.look())
        if self.plan.reset == "latest":
            self._begin_at_offset_0()
        for _ in range(self.chance.choice([1, 1, 2]) if self.plan.is_patient else 2):
            await self._join()
        await asyncio.sleep(10.0)
        self._append()
        names = [*self.plan.theme.steps]
        for name in self.chance.choices(names, [*self.plan.theme.steps.values()], k=self.plan.steps):
            step: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
            await step()
            if name not in ("in_hand", "slow_metadata"):  # they are what the next step meets
                await asyncio.sleep(self.chance.choice([0.0, 0.5, 3.0, 15.0, 60.0]))
        await self._calm()
        await self._stop()
        await self._read_results()
        self.history.until_s = self.world.loop.time()

    async def _calm(self) -> None:
        due_s = max([0.0, *map(self.inputs.due_s, self.inputs.traits.values())]) + self.plan.retry_delay_s
        now_s = self.world.loop.time()
        due_s = max([due_s, *self.inputs.noticed_s.values()])
        await asyncio.sleep(max(BACKOFF_S, due_s - now_s) + AFTER_S)
        self.say("calm")
        self._append()
        await self._until(self._nothing_is_owed, CALM_S)
        await asyncio.sleep(AFTER_S)

    async def _stop(self) -> None:
        self.history.until_s = self.world.loop.time()
        self.watch.end()
        for task in list(self._beside):
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await asyncio.gather(*(each.leave(STOPS_S) for each in self.live))
        for each in self.dead:
            await each.end()

    async def _read_results(self) -> None:
        world, found = self.world, self.history.results
        async with kafwire.AsyncConsumer(
            world.bootstrap, topics=OUT, start="earliest", isolation_level="read_committed", engine=world.engine
        ) as consumer:
            async for batch in consumer.batches(timeout=AFTER_S):
                for record in batch:
                    at_s = (record.timestamp_ms or 0) / 1000 - WALL_S
                    found.append(Result(at_s, int(record.value or b"")))


def played(seed: int) -> Outcome:
    """Play the schedule of a seed, and judge it."""
    schedule = CombinedSchedule(seed)
    history, logger = schedule.history, logging.getLogger("kafwire")
    warnings = _Warnings(history, schedule.world.loop.time)
    logger.addHandler(warnings)
    try:
        with schedule.world:
            schedule.world.run(schedule.run())
    finally:
        logger.removeHandler(warnings)
    counts = {
        "inputs": len(history.inputs),
        "results": len(history.results),
        "commits": len(history.commits),
        "members": len(schedule.live) + len(schedule.dead),
    }
    return Outcome(str(schedule.plan), judge(history), schedule.events, counts)


def run(seed: int) -> list[str]:
    """The findings in the schedule of a seed, with its plan and its events."""
    outcome = played(seed)
    if not outcome.findings:
        return []
    return [*map(str, outcome.findings), outcome.plan, f"events {outcome.events}"]
