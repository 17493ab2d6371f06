"""A random model of the exactly-once sink: the sink's own code on simulated brokers, under faults at every step.

Each call of `Coordination` is several steps. Between two steps a driver may be killed or pause, a transaction may time
out, another program may open a transaction on the state topic or call InitProducerId, and a second driver may run. The
responses to EndTxn and InitProducerId are those of the embedded broker's coordinator, by `transaction.version`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from kafwire.broker.transactions.transaction_coordinator import Coordinator, State
from kafwire.errors import KafkaError, KafkaTimeoutError, ProducerFencedError
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.state import NO_PRODUCER
from kafwire.spark.exactly_once import decisions, sink
from kafwire.spark.exactly_once.decisions import Prepared, Record
from kafwire.spark.exactly_once.outcomes import BatchAbortedError, Described, HalfCommittedError
from kafwire.types import TransactionHandle

SINK = "flights"
QUERY = "q"
BATCHES = 3
ROWS = 4  # of a batch
MARGIN = 150  # steps, more than a commit takes that nothing disturbs
SHORT, LONG = 400, 6_000  # the tasks' time-out, in steps
LIMIT = 20_000  # steps of one schedule: far more than any correct one takes
FOREIGN = -1  # the owner of records that another program wrote to the state topic


class Violation(AssertionError):
    """The sink broke a promise."""


class _Step:
    def __await__(self) -> Generator[None, None, None]:
        yield


def step() -> _Step:
    """One step: everything else may happen before the next."""
    return _Step()


@dataclass
class Transaction:
    """A transactional id: its coordinator's state, and the rows or state records of its open transaction."""

    coordinator: Coordinator
    rows: list[tuple[int, int]] = field(default_factory=list)
    started: int = -1
    timeout: int = LONG


@dataclass
class Faults:
    """The faults of one schedule."""

    seed: int
    version: int
    kill: float = 0.0  # by step of a driver
    fail: float = 0.0  # by request: an error before its effect, or after it
    expire: float = 0.0  # by step of the world: an open transaction times out
    foreign: float = 0.0  # another program opens a transaction on the state topic
    usurp: float = 0.0  # another program calls InitProducerId
    retry: float = 0.0  # by task: a further attempt
    pause: float = 0.0
    drivers: int = 1
    timeout: int = LONG
    is_slow: bool = False  # tasks take about as long as their time-out

    @property
    def is_prompt(self) -> bool:
        """Return whether nothing ends a decided transaction before its commit."""
        return not (self.expire or self.usurp or self.kill or self.fail or self.pause) and self.drivers == 1


def faults_of(seed: int) -> Faults:
    """The faults of the schedule with this seed."""
    chance = random.Random(seed)
    faults = Faults(seed, version=chance.choice((0, 1, 2, 2)))
    kind = chance.randrange(8)
    if kind == 0:
        return Faults(seed, faults.version, retry=chance.choice((0, 0.3)), timeout=SHORT, is_slow=True)
    if chance.random() < 0.6:
        faults.kill = chance.choice((0.002, 0.01))
    if chance.random() < 0.6:
        faults.fail = chance.choice((0.02, 0.1))
    if chance.random() < 0.4:
        faults.retry = 0.3
    if chance.random() < 0.4:
        faults.foreign = 0.01
    if chance.random() < 0.3:
        faults.expire = chance.choice((0.001, 0.01))
    if chance.random() < 0.15:
        faults.usurp = 0.003
    if chance.random() < 0.5:
        faults.drivers = 2
        faults.pause = chance.choice((0, 0.01, 0.05))
    return faults


class World:
    """The brokers, the checkpoint of one query, and the programs that run."""

    def __init__(self, faults: Faults, protocol: ModuleType = sink) -> None:
        self.faults = faults
        self.protocol = protocol
        self.chance = random.Random(faults.seed * 7 + 1)
        self.now = 0
        self.ids = 1000
        self.transactions: dict[str, Transaction] = {}
        self.log: list[tuple[Record, str | None]] = []  # state records, and the id of the open transaction
        self.aborted: set[int] = set()  # their indexes in the log
        self.foreign_open = False
        self.visible: Counter[tuple[int, int]] = Counter()
        self.checkpoint: set[int] = set()
        self.expired: set[TransactionHandle] = set()
        self.usurped: set[TransactionHandle] = set()  # ended by another program's InitProducerId
        self.decided: set[TransactionHandle] = set()
        self.seen_ended: set[TransactionHandle] = set()  # described before a decision, after the environment ended them
        self.stopped: HalfCommittedError | None = None
        self.runs = 0
        self.is_quiet = False
        self.attempts: list[Coroutine[Any, Any, None]] = []

    # -- brokers

    def new_id(self) -> int:
        self.ids += 1
        return self.ids

    def get(self, name: str) -> Transaction:
        if name not in self.transactions:
            self.transactions[name] = Transaction(Coordinator(before_4=self.faults.version < 2))
        return self.transactions[name]

    def initialize(self, name: str) -> Identity:
        """InitProducerId, with the retries of a client."""
        transaction = self.get(name)
        coordinator = transaction.coordinator
        if coordinator.state is State.ONGOING:
            coordinator.fence(self.new_id)
            self.settle(name)
        code, identity = coordinator.initialize(NO_PRODUCER, new_id=self.new_id)
        assert not code, code
        return identity

    def settle(self, name: str) -> None:
        """Write the markers of a transaction that was decided."""
        transaction = self.transactions[name]
        is_commit = transaction.coordinator.state is State.PREPARE_COMMIT
        if is_commit:
            self.visible.update(transaction.rows)
            self._learn([record for record, owner in self.log if owner == name and record[1] is not None])
        for index, (record, owner) in enumerate(self.log):
            if owner == name:
                self.log[index] = record, None
                if not is_commit:
                    self.aborted.add(index)
        transaction.rows = []
        transaction.started = -1
        transaction.coordinator.complete()

    def _learn(self, records: Sequence[Record]) -> None:
        for each in decisions.decode(SINK, records).values():
            self.decided |= {prepared.handle for prepared in each.prepared}

    def end(self, handle: TransactionHandle, *, commit: bool) -> int:
        if handle.transactional_id not in self.transactions:
            return 0
        coordinator = self.get(handle.transactional_id).coordinator
        code, _ = coordinator.end(
            Identity(handle.producer_id, handle.producer_epoch),
            commit=commit,
            version=2 if self.faults.version >= 2 else 1,
            new_id=self.new_id,
        )
        if coordinator.preparing:
            self.settle(handle.transactional_id)
        return int(code)

    def open(self, name: str, producer: Identity, timeout: int) -> None:
        transaction = self.get(name)
        code = transaction.coordinator.add(producer, {("t", 0)})
        if code:
            raise ProducerFencedError(f"{name}: {code}")
        if transaction.started < 0:
            transaction.started, transaction.timeout = self.now, timeout

    def expire(self, name: str) -> None:
        """The coordinator aborts a transaction that took too long."""
        coordinator = self.transactions[name].coordinator
        self.expired.add(TransactionHandle(name, coordinator.producer_id, coordinator.epoch))
        coordinator.fence(self.new_id)
        if not coordinator.before_4 or coordinator.preparing:
            self.settle(name)

    # -- the environment

    def disturb(self) -> None:
        """Let time pass, and maybe something happen."""
        self.now += 1
        if self.foreign_open and (self.is_quiet or self.chance.random() < 0.02):
            self.foreign_open = False
            self.log = [(record, None if owner == "foreign" else owner) for record, owner in self.log]
        ongoing = [
            name for name, each in self.transactions.items() if each.coordinator.state is State.ONGOING and each.rows
        ]
        for name in ongoing:
            if self.now >= self.transactions[name].started + self.transactions[name].timeout:
                self.expire(name)
        if self.is_quiet:
            return
        faults, chance = self.faults, self.chance
        ongoing = [name for name, each in self.transactions.items() if each.coordinator.state is State.ONGOING]
        if ongoing and chance.random() < faults.expire:
            self.expire(chance.choice(ongoing))
        if faults.foreign and not self.foreign_open and chance.random() < faults.foreign:
            self.foreign_open = True
            self.log.append(((b"other", b""), "foreign"))
        if self.transactions and chance.random() < faults.usurp:
            name = chance.choice(list(self.transactions))
            coordinator = self.transactions[name].coordinator
            self.usurped.add(TransactionHandle(name, coordinator.producer_id, coordinator.epoch))
            self.initialize(name)

    async def maybe_fail(self) -> None:
        """An error instead of a response, as after a time-out of the client."""
        if not self.is_quiet and self.chance.random() < self.faults.fail:
            raise KafkaTimeoutError("no response")


class SimulatedCoordination:
    """`Coordination` on a `World`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._name = decisions.coordinator_id(SINK)
        self._identity = NO_PRODUCER

    async def fence(self) -> Identity:
        await step()
        await self._world.maybe_fail()
        self._identity = self._world.initialize(self._name)
        await step()
        await self._world.maybe_fail()
        return self._identity

    async def high_watermark(self) -> int:
        await step()
        return len(self._world.log)

    async def last_stable_offset(self) -> int:
        await step()
        opened = (index for index, (_, owner) in enumerate(self._world.log) if owner is not None)
        return next(opened, len(self._world.log))

    async def wait(self) -> None:
        await step()

    async def read(self, end: int) -> Sequence[Record]:
        stable = await self.last_stable_offset()
        log, aborted = self._world.log, self._world.aborted
        return [log[index][0] for index in range(min(end, stable)) if index not in aborted]

    async def write(self, records: Sequence[Record]) -> Identity:
        world = self._world
        for record in records:
            await step()
            await world.maybe_fail()
            world.open(self._name, self._identity, SHORT)
            world.log.append((record, self._name))
        await step()
        await world.maybe_fail()
        coordinator = world.get(self._name).coordinator
        code = world.end(TransactionHandle(self._name, self._identity.producer_id, self._identity.epoch), commit=True)
        if code:
            raise ProducerFencedError(f"EndTxn: {code}")
        self._identity = Identity(coordinator.producer_id, coordinator.epoch)
        await step()
        await world.maybe_fail()
        return self._identity

    async def end(self, handles: Sequence[TransactionHandle], *, commit: bool) -> Sequence[int]:
        world = self._world
        order = list(range(len(handles)))
        world.chance.shuffle(order)  # in parallel
        codes = [0] * len(handles)
        for index in order:
            await step()
            await world.maybe_fail()
            codes[index] = world.end(handles[index], commit=commit)
        await step()
        return codes

    async def describe(self, transactional_ids: Sequence[str]) -> Mapping[str, Described]:
        await step()
        await self._world.maybe_fail()
        found = {}
        ended = self._world.expired | self._world.usurped
        self._world.seen_ended |= {
            handle for handle in ended - self._world.decided if handle.transactional_id in transactional_ids
        }
        for name in transactional_ids:
            if name in self._world.transactions:
                each = self._world.transactions[name]
                coordinator = each.coordinator
                found[name] = Described(
                    coordinator.state.value, coordinator.producer_id, coordinator.epoch, each.started, each.timeout
                )
        await step()
        return found

    async def ongoing(self, prefix: str) -> Sequence[str]:
        await step()
        return [
            name
            for name, each in self._world.transactions.items()
            if name.startswith(prefix) and each.coordinator.state is State.ONGOING
        ]

    def now_ms(self) -> int:
        return self._world.now


class Attempt:
    """One attempt of a task. It outlives its driver, as a task on a lost executor does."""

    def __init__(self, world: World, name: str, rows: Sequence[tuple[int, int]]) -> None:
        self._world, self._name, self._rows = world, name, rows
        self.result: Prepared | None = None
        self.is_over = False

    async def run(self) -> None:
        world = self._world
        try:
            await step()
            identity = world.initialize(self._name)
            for row in self._rows:
                for _ in range(
                    world.chance.randrange(SHORT // 4) if world.faults.is_slow and not world.is_quiet else 1
                ):
                    await step()
                world.open(self._name, identity, world.faults.timeout)
                world.get(self._name).rows.append(row)
            await step()
            handle = TransactionHandle(self._name, identity.producer_id, identity.epoch)
            self.result = Prepared(handle, len(self._rows), {"t": (0,)})
        except KafkaError:
            pass
        self.is_over = True


class Driver:
    """Spark's driver: it plans, runs tasks, commits, and aborts after a failed commit."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self) -> None:
        world = self._world
        world.runs += 1
        run = f"r{world.runs}"
        try:
            while len(world.checkpoint) < BATCHES:
                batch = len(world.checkpoint)
                await self._batch(run, batch)
                await step()
                if batch in world.checkpoint:
                    return  # Spark's own log ends the second driver of one query
                world.checkpoint.add(batch)
        except HalfCommittedError as error:
            world.stopped = error
        except KafkaError:
            pass  # the query fails, and is started again

    async def _batch(self, run: str, batch: int) -> None:
        world = self._world
        protocol = world.protocol
        plan = await protocol.Sink(SINK, SimulatedCoordination(world), MARGIN).plan(QUERY)
        tasks = world.chance.choice((1, 2, 3))
        rows = [(batch, number) for number in range(ROWS)]
        prepared: list[Prepared] = []
        if not plan.is_done(QUERY, batch):
            attempts = [await self._task(run, batch, part, rows[part::tasks]) for part in range(tasks)]
            for attempt in attempts:
                while not attempt.is_over:
                    await step()
                if attempt.result is None:
                    await self._abort(batch, [each.result for each in attempts if each.result is not None])
                    raise BatchAbortedError("a task failed")
            prepared = [each.result for each in attempts if each.result is not None]
        committer = protocol.Sink(SINK, SimulatedCoordination(world), MARGIN)
        try:
            await committer.commit(QUERY, batch, prepared, plan.identity)
        except KafkaError:
            await self._abort(batch, prepared)
            raise

    async def _abort(self, batch: int, prepared: Sequence[Prepared]) -> None:
        world = self._world
        await world.protocol.Sink(SINK, SimulatedCoordination(world), MARGIN).abort(QUERY, batch, prepared)

    async def _task(self, run: str, batch: int, part: int, rows: Sequence[tuple[int, int]]) -> Attempt:
        world = self._world
        number = 0
        stage = 0
        while not world.is_quiet and world.chance.random() < world.faults.retry:  # a loser, maybe cut off, maybe slow
            loser = Attempt(world, decisions.task_id(SINK, run, part, stage, number, batch), rows)
            world.attempts.append(_started(loser.run()))
            stage, number = world.chance.choice(((stage + 1, 0), (stage, number + 1)))
        attempt = Attempt(world, decisions.task_id(SINK, run, part, stage, number, batch), rows)
        world.attempts.append(_started(attempt.run()))
        return attempt


def run_schedule(seed: int, protocol: ModuleType = sink) -> World:
    """Run one schedule, then a last driver without faults, and check all promises; raises `Violation`."""
    world = World(faults_of(seed), protocol)
    chance = world.chance
    drivers: list[Coroutine[Any, Any, None] | None] = [None] * world.faults.drivers
    asleep: dict[int, int] = {}
    budget = chance.randrange(200, 900) * (6 if world.faults.is_slow else 1)
    while world.now < LIMIT:
        if world.stopped is not None:
            break
        if not world.is_quiet and (world.now > budget or len(world.checkpoint) == BATCHES):
            world.is_quiet = True
            for driver in drivers:
                if driver is not None:
                    driver.close()
            drivers = [None]
            asleep.clear()
        for index, each in enumerate(drivers):
            if each is None and len(world.checkpoint) < BATCHES:
                drivers[index] = _started(Driver(world).run())
        running = [
            index for index, driver in enumerate(drivers) if driver is not None and asleep.get(index, 0) <= world.now
        ]
        if world.is_quiet and not any(drivers):
            break
        world.disturb()
        if world.attempts and (not running or chance.random() < 0.5):
            chosen = chance.randrange(len(world.attempts))
            if not _advance(world.attempts[chosen]):
                del world.attempts[chosen]
            continue
        if not running:
            continue
        index = chance.choice(running)
        driver = drivers[index]
        assert driver is not None
        if not world.is_quiet and chance.random() < world.faults.kill:
            driver.close()
            drivers[index] = None
        elif not world.is_quiet and chance.random() < world.faults.pause:
            asleep[index] = world.now + chance.randrange(10, 300)
        elif not _advance(driver):
            drivers[index] = None
    for driver in drivers:
        if driver is not None:
            driver.close()
    if world.stopped is None and len(world.checkpoint) == BATCHES:
        _drain(world)
    for attempt in world.attempts:
        attempt.close()
    check(world)
    return world


def _drain(world: World) -> None:
    """Let attempts of lost executors end; then the next driver takes over."""
    while world.attempts:
        world.disturb()
        if not _advance(world.attempts[-1]):
            del world.attempts[-1]
    last = world.protocol.Sink(SINK, SimulatedCoordination(world), MARGIN).plan(QUERY)
    while _advance(last):
        world.disturb()


def _started(program: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
    """A program at its first step."""
    program.send(None)
    return program


def _advance(program: Coroutine[Any, Any, Any]) -> bool:
    """Run one step; False at its end."""
    try:
        program.send(None)
    except StopIteration:
        return False
    return True


def check(world: World) -> None:
    """The promises of the sink."""
    repeated = [row for row, count in world.visible.items() if count > 1]
    _demand(not repeated, f"rows appear twice: {repeated}")
    decided: dict[int, set[frozenset[TransactionHandle]]] = {}
    for index, (record, owner) in enumerate(world.log):
        if owner is None and index not in world.aborted and record[0] != b"other" and record[1] is not None:
            for each in decisions.decode(SINK, [record]).values():
                if not each.is_done:
                    decided.setdefault(each.batch, set()).add(frozenset(one.handle for one in each.prepared))
    _demand(all(len(each) == 1 for each in decided.values()), f"a batch was decided twice: {decided}")
    batches = {row[0] for row in world.visible}
    whole = {batch for batch in batches if all(world.visible[batch, number] for number in range(ROWS))}
    if world.stopped is None:
        _demand(world.now < LIMIT, f"no end after {LIMIT} steps")
        _demand(len(world.checkpoint) == BATCHES, f"the query ended at {world.checkpoint}")
        _demand(whole == set(range(BATCHES)), f"rows are lost: {sorted(world.visible)}")
        strays = [
            name
            for name, each in world.transactions.items()
            if each.coordinator.state is State.ONGOING and name != decisions.coordinator_id(SINK)
        ]
        _demand(not strays, f"transactions stay open: {strays}")
        return
    error = world.stopped
    _demand(not world.faults.is_prompt, f"half committed without a fault: {error}")
    handles = {each.handle for each in error.decision.prepared}
    # InitProducerId after a commit hides its outcome, too.
    usurped = {handle.transactional_id for handle in world.usurped}
    ended = any(handle in world.expired or handle.transactional_id in usurped for handle in handles)
    _demand(ended, f"half committed by the sink itself: {error}")
    _demand(not handles & world.seen_ended, f"decided though a transaction had ended: {error}")
    unknown = {each.handle.transactional_id for each in error.unknown}
    _demand(unknown <= usurped, f"an outcome was not looked up: {error}")
    _demand(whole | {error.decision.batch} >= batches, f"other batches are not whole: {sorted(world.visible)}")
    missing = ROWS - sum(row[0] == error.decision.batch for row in world.visible)
    lost = sum(each.records for each in error.aborted)
    doubtful = sum(each.records for each in error.unknown)
    _demand(lost <= missing <= lost + doubtful, f"{missing} rows are missing, reported {lost} and {doubtful}: {error}")


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise Violation(message)
