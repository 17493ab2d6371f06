"""One run of the simulated world: its clients, its faults, and the judgement of both.

The run judges the promises of docs/operate/reliability.md. The history checker judges I1 to I4 on the final logs, once
as kafwire reads them and once as the brokers have them. Live readers judge I5. Time-outs after the end of all faults
judge I6. For I7, the run looks for clients that fail or hang, and for errors that the loop logs.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafwire
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.records import decode_batches
from kafwire.testing.history import History, check
from kafwire.testing.simulation.clock import Stuck
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.testing.simulation.conduct.conduct import Conduct
from kafwire.testing.simulation.events import SIDE_KEPT, Faults
from kafwire.testing.simulation.schedule import CHAIN, MAIN, SECOND, SIDE, Schedule
from kafwire.testing.simulation.workload import Workload
from kafwire.types import TopicPartition

WAIT_S = 0.1  # the time that a record may wait beside `linger_ms` before the producer sends its batch
SETTLED_S = 120.0  # after all faults: until every outcome is known (I6, with the delivery time-outs)
READ_S = 60.0  # and until readers are at the ends
# Errors that no client may get: they would be its own mistakes.
NEVER = {
    *("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "DUPLICATE_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"),
    *("INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "INVALID_RECORD", "CORRUPT_MESSAGE", "INVALID_REQUEST"),
    *("ProducerFencedError", "ProtocolError", "CorruptBatchError", "TypeError", "AssertionError"),
}
SLOW = {"INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE", "ProducerFencedError"}  # except a client that is slow
ABORTED = "error TransactionAbortedError"  # the error of records in a transaction that was aborted on purpose


@dataclass
class Outcome:
    """The outcome of a run. `violations`: broken promises in words; a good run has none."""

    schedule: Schedule
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    timeline: list[str] = field(default_factory=list)
    simulated_s: float = 0.0
    real_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """True if the run has no violations."""
        return not self.violations


def run(schedule: Schedule) -> Outcome:
    """Run a schedule. The same schedule gives the same outcome."""
    outcome = Outcome(schedule)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kafwire-simulation-") as folder:
        try:
            _Run(schedule, outcome, Path(folder) / "run.history").run()
        except Stuck as error:
            outcome.violations.append(f"everything waits for ever: {error}")
        except Exception as error:  # noqa: BLE001 - whatever is raised is a finding (I7)
            outcome.violations.append(f"{type(error).__name__}: {error}")
    outcome.real_s = time.perf_counter() - began
    return outcome


class _Run:
    def __init__(self, schedule: Schedule, outcome: Outcome, path: Path) -> None:
        self.schedule = schedule
        self.outcome = outcome
        self.path = path

    def run(self) -> None:
        load = self.schedule.load
        with ClusterWorld(brokers=load.nodes, seed=self.schedule.seed) as world, History(self.path) as history:
            self.world = world
            # A record waits in its batch before the producer sends it; its delivery time-out runs meanwhile.
            delivery_s = (load.options.get("delivery_timeout_ms", 30_000) - load.linger_ms) / 1000 - WAIT_S
            world.conduct = conduct = Conduct(world.loop.time, lambda: world.reachable_since_s, delivery_s)
            began_s = world.loop.time()
            world.state.features["transaction.version"] = load.transaction_version
            configs = {"min.insync.replicas": "2" if load.is_durable else "1"}
            for name, partitions in ((MAIN, load.partitions), (SECOND, load.partitions), (SIDE, SIDE_KEPT)):
                world.state.topics.create(name, partitions, load.nodes, configs=configs)
            self.workload = Workload(world, load, history, self.schedule.seed, self.say)
            self.faults = Faults(world, self.say)
            try:
                if load.blocking:
                    self._play_blocking()
                else:
                    world.run(self._play())
                world.run(self._end(history))
            finally:
                self.outcome.counts = self.workload.counts
                self.outcome.met = self.faults.met
                self.outcome.violations += [*self.workload.problems, *conduct.violations]
                self.outcome.simulated_s = world.loop.time() - began_s
        self._judge_errors()
        self._judge_topics(world)
        report = check(self.path)
        if not report.ok:
            self.outcome.violations.append(str(report))
        self.outcome.counts.update({f"history {name}": count for name, count in report.counts.items()})

    def _judge_topics(self, world: ClusterWorld) -> None:
        """Check that no record of a deleted topic's log was stored in the recreated topic too (I2)."""
        seen = Counter(self.faults.buried)
        topic = world.state.topics.find(SIDE)
        for partition in topic.partitions if topic is not None else ():
            seen.update(partition.values())
        twice = [value for value, count in seen.items() if count > 1]
        if twice and self.schedule.load.is_durable:
            self.outcome.violations.append(
                f"{len(twice)} records to recreated topics are there twice, first {twice[0]!r}"
            )

    def _judge_errors(self) -> None:
        """Check errors: no client gets one of its own making, and patient clients get none, as every fault ends in
        time.
        """
        load = self.schedule.load
        if load.is_durable:
            never = NEVER - SLOW if load.is_slow else NEVER
            counted = {name for name in self.outcome.counts if name.rpartition(" ")[2] in never}
            if load.is_patient:
                counted |= {name for name in self.outcome.counts if name.startswith("error ")} - {ABORTED}
                counted |= {"undecided"} & set(self.outcome.counts)
            self.outcome.violations += [f"{self.outcome.counts[name]} times: {name}" for name in sorted(counted)]

    def say(self, line: str) -> None:
        """Write a line of the timeline."""
        self.outcome.timeline.append(f"{self.world.loop.time():10.3f}  {line}")

    async def _play(self) -> None:
        loop, begins_s = self.world.loop, self.world.loop.time()
        self.workload.start()
        for event in self.schedule.events:
            await asyncio.sleep(max(0.0, begins_s + event.at_s - loop.time()))
            self.faults.begin(event)
        await asyncio.sleep(max(0.0, begins_s + self.schedule.load.seconds - loop.time()))
        self._heal()

    def _play_blocking(self) -> None:
        """Run the faults as timers, because the world goes on while the blocking clients wait."""
        loop, begins_s = self.world.loop, self.world.loop.time()
        ends_s = begins_s + self.schedule.load.seconds
        self.world.run(self._start())
        for event in self.schedule.events:
            loop.call_at(begins_s + event.at_s, self.faults.begin, event)
        loop.call_at(ends_s, self._heal)
        self.workload.run_blocking(ends_s)

    async def _start(self) -> None:
        self.workload.start()

    def _heal(self) -> None:
        self.say("all faults end")
        self.faults.heal()

    async def _end(self, history: History) -> None:
        """Check that everything ends in time after all faults, and write the final state to the history."""
        await self.workload.finish(SETTLED_S)
        self.say("no more load")
        await self._settle_transactions()
        await self.workload.readers.catch_up(self._ends, READ_S)
        await self.workload.stop()
        self.outcome.violations += self.workload.readers.judge()
        await self._observe(history)

    async def _settle_transactions(self) -> None:
        """Wait until the coordinators have ended open transactions; Kafka does so after the transaction's time-out."""
        until = self.world.loop.time() + SETTLED_S
        while any(p.producers.first_open_offset is not None for p in self._partitions()):
            if self.world.loop.time() > until:
                self.outcome.violations.append("a transaction stays open for ever")
                return
            await asyncio.sleep(0.5)

    def _partitions(self) -> list[Any]:
        topics = [self.world.state.topics.find(name) for name in (MAIN, SECOND)]
        return [partition for topic in topics if topic is not None for partition in topic.partitions]

    def _ends(self, name: str) -> dict[TopicPartition, int]:
        return {
            TopicPartition(name, partition.index): partition.last_stable_offset
            for partition in self._partitions()
            if partition.topic.name == name
        }

    async def _observe(self, history: History) -> None:
        """Write the logs to the history: as the brokers have them, and as kafwire reads them, committed or all."""
        if self.schedule.load.chained:
            committed = self.world.state.part(OffsetStore).of(CHAIN)
            offsets = {TopicPartition(*place): its.offset for place, its in committed.items()}
            history.group_offsets(CHAIN, offsets)
        view = history.view("the brokers")
        ranges = {}
        for partition in self._partitions():
            name, log = partition.topic.name, partition.log
            ranges[TopicPartition(name, partition.index)] = log.start_offset, log.end_offset
            records = [
                record
                for batch in decode_batches(log.read(log.start_offset, log.size))
                if not batch.is_control
                for record in batch
            ]
            view.add(name, partition.index, [r.offset for r in records], [r.value for r in records])
        view.close(ranges)
        # Without transactions both isolation levels read the same.
        for isolation in (
            ("read_uncommitted", "read_committed") if self.schedule.load.transactional else ("read_committed",)
        ):
            view = history.view("kafwire", isolation)
            ranges = {}
            async with kafwire.AsyncClient(self.world.bootstrap, engine=self.world.engine) as client:
                scan = await client.scan([MAIN, SECOND], isolation_level=isolation)
                async for batch in scan.batches():
                    records = list(batch)
                    name = batch.topic or ""
                    view.add(name, batch.partition or 0, [r.offset for r in records], [r.value for r in records])
            for partition in self._partitions():
                where = TopicPartition(partition.topic.name, partition.index)
                ranges[where] = partition.log.start_offset, partition.last_stable_offset
            view.close(ranges)
