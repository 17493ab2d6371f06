"""Random groups of streams: late revocations, discards, lost sessions, failures, waits and stops, drawn from a seed.

Results and offsets are read together. Exactly once: each input has one committed result. At least once: each has one or
more, and nothing of a partition is begun by a member that has learned that the partition is another's.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from kafwire.errors import KafkaError
from kafwire.records import Record
from kafwire.stream import Message, NotNow, Pipeline
from tests.support import seeds
from tests.support.stream.stream_members import PROTOCOLS, Handle, StreamGroup, StreamMember

PARTITIONS, RECORDS = 3, 8


class Schedule:
    """The life of a group, by one seed."""

    def __init__(self, group: StreamGroup, rng: random.Random, protocol: str, guarantee: Any) -> None:
        self.group, self.rng, self.guarantee = group, rng, guarantee
        self.protocol = PROTOCOLS[protocol]
        self.is_calm = False
        self.running: list[StreamMember] = []
        self.problems: list[str] = []

    async def handle(self, record: Record) -> Message:
        """Takes a while; fails, or is not ready, now and then."""
        drawn = 1.0 if self.is_calm else self.rng.random()
        await asyncio.sleep(0.1 if self.is_calm else self.rng.choice([0.05, 0.5, 6.0]))
        if drawn < 0.1:
            raise ValueError("no")
        if drawn < 0.2:
            raise NotNow(self.rng.choice([0.5, 30.0]))
        if drawn < 0.22:
            raise asyncio.CancelledError
        return Message(b"%d/%d" % (record.partition or 0, record.offset), key=record.key)

    def pipeline(self, handle: Handle) -> Pipeline:
        """Retries never end: no record is a dead letter."""
        by: Any = self.rng.choice(["key", "partition", None])
        made = Pipeline().for_each(handle, workers=self.rng.choice([1, 4]), by=by)
        return made.retry(1000, backoff_s=0.5, max_backoff_s=20.0).commit(within=0.1).limits(stop_timeout_s=20.0)

    def add(self) -> None:
        """One more member, with options of its own."""
        options: dict[str, Any] = {"revocation_timeout_ms": self.rng.choice([500, 3_000, 20_000])}
        if self.rng.random() < 0.4:
            options = {"on_revocation": "discard"}
        if self.rng.random() < 0.3:
            options["max_poll_interval_ms"] = 4_000
        member = self.group.add(self.pipeline, self.handle, guarantee=self.guarantee, **self.protocol, **options)
        self.running.append(member)

    async def remove(self) -> None:
        """One member stops; what it ends with is looked at."""
        await self.ended(self.running.pop(self.rng.randrange(len(self.running))))

    async def ended(self, member: StreamMember) -> None:
        """Stop a member, as a program that may have failed."""
        member.stop.request()
        try:
            async with asyncio.timeout(300.0):
                await member.task
        except KafkaError as error:  # the brokers were not reached
            if not self.group.was_cut:
                self.problems.append(f"{member.name} ended: {error!r}")

    async def lose_sessions(self) -> None:
        """No member reaches a broker for longer than a session."""
        self.group.cut(is_cut=True)
        await asyncio.sleep(50.0)
        self.group.cut(is_cut=False)

    async def run(self) -> None:
        """Trouble first, then calm until all is committed."""
        self.add()
        await self.group.send(RECORDS // 2, partitions=range(PARTITIONS))
        for _ in range(self.rng.randrange(4, 10)):
            await asyncio.sleep(self.rng.random() * 10.0)
            drawn = self.rng.random()
            if drawn < 0.5 and len(self.running) < 4:
                self.add()
            elif drawn < 0.8 and len(self.running) > 1:
                await self.remove()
            elif drawn < 0.9:
                await self.lose_sessions()
            self.running = [one for one in self.running if not one.task.done()]
            if not self.running:
                self.add()
        self.is_calm = True
        await self.group.send(RECORDS - RECORDS // 2, partitions=range(PARTITIONS))
        end = self.group.now + 600.0
        while sum(self.group.committed().values()) < PARTITIONS * RECORDS:
            assert self.group.now < end, f"no progress: {self.group.committed()}"
            if all(one.task.done() for one in self.running):
                self.add()
            await asyncio.sleep(0.5)
        for member in self.running:
            await self.ended(member)


@seeds.several(12)
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_input_has_its_result(seed: int, protocol: str, guarantee: Any) -> None:
    rng = random.Random(seed)
    with StreamGroup(partitions=PARTITIONS, seed=seed) as group:
        schedule = Schedule(group, rng, protocol, guarantee)

        async def main() -> list[bytes]:
            await schedule.run()
            return await group.results()

        found = Counter(group.world.run(main()))
    assert not schedule.problems
    assert set(found) == {b"%d/%d" % (partition, one) for partition in range(PARTITIONS) for one in range(RECORDS)}
    if guarantee == "exactly_once":
        assert set(found.values()) == {1}, [value for value, count in found.items() if count > 1]
    assert group.committed() == {("in", partition): RECORDS for partition in range(PARTITIONS)}
