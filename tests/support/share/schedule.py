"""Random schedules of a share group in the simulated world, and what must hold whatever they draw.

A schedule is its seed: brokers and partitions, a broker that is slow, short locks, few deliveries, members with work of
their own that come and go. Each user keeps the rules: work takes less than half of a lock, or renews it. It must hold:
each record is handed out to a user and ends as the last user said; no delivery is spent on a record that no user saw,
apart from those of members that leave, and of members that learn that their group allows no renewal.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import kafwire
from kafwire.errors import BrokerError
from tests.support.share.world import ShareWorld

END_S = 6_000.0  # longer than all the work of a schedule
STYLES = ("batches", "poll", "records")
WORDS = {1: "accept", 2: "release", 3: "reject"}
Place = tuple[int, int]  # a partition, and an offset


@dataclass
class Sharer:
    """One member, and how its user works."""

    schedule: ShareSchedule
    name: str
    options: dict[str, Any]
    style: str
    work_s: float  # for each hand-out
    renews: bool
    stays_s: float
    consumer: kafwire.AsyncShareConsumer = field(init=False)

    async def run(self) -> None:
        """Read until everything is done, or until it leaves."""
        self.consumer = self.schedule.world.async_consumer(**self.options)
        async with self.consumer:
            until_s = self.schedule.now_s + self.stays_s
            while not self.schedule.is_over and self.schedule.now_s < until_s:
                await getattr(self, f"_{self.style}")()
            await self._commit()
            if not self.schedule.is_over:
                self.schedule.leaves += 1
            metrics = await self.consumer.metrics()
            self.schedule.expired += metrics["expired"]

    async def _commit(self) -> None:
        try:
            await self.consumer.commit()
        except BrokerError as error:
            self.schedule.refused.append(str(error))

    async def _batches(self) -> None:
        async for batch in self.consumer.batches(timeout=1.0):
            await self._process([batch])
            if self.schedule.chance.random() < 0.2:
                break  # the rest waits for the next loop

    async def _poll(self) -> None:
        found = await self.consumer.poll(timeout=1.0)
        await self._process(found)
        if found:
            await self._commit()

    async def _process(self, batches: list[kafwire.ShareBatch]) -> None:
        for batch in batches:
            self.schedule.saw(self.name, batch)
        for batch in batches:
            await self._work(self.work_s / len(batches), batches)
            self._say(batch)

    async def _work(self, seconds: float, held: Iterable[kafwire.ShareBatch]) -> None:
        step_s = self.schedule.lock_s / 5
        while seconds > 0:
            await asyncio.sleep(min(step_s, seconds))
            seconds -= step_s
            for batch in held if self.renews else ():
                batch.renew()

    def _say(self, batch: kafwire.ShareBatch) -> None:
        for record in batch:
            if batch._held.acquired.said[record.offset - batch._held.acquired.first] == 0xFF:
                word = self.schedule.word(batch.partition, record.offset, batch.delivery_count)
                if word != "accept" or self.options["share_acknowledgement_mode"] == "explicit":
                    getattr(batch, word)(record)

    async def _records(self) -> None:
        records = aiter(self.consumer)
        for _ in range(self.schedule.chance.randrange(1, 30)):
            try:
                async with asyncio.timeout(1.0):
                    record = await anext(records)
            except TimeoutError:
                return
            self.schedule.saw_one(self.name, record)
            await asyncio.sleep(self.work_s)
            word = self.schedule.word(record.partition, record.offset, self.schedule.most)
            if word != "accept" or self.options["share_acknowledgement_mode"] == "explicit":
                self.consumer.acknowledge(record, word)


class ShareSchedule:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.lock_s = chance.choice([2.0, 3.0, 5.0])
        self.may_renew = chance.random() < 0.7
        self.members = chance.randrange(1, 4)
        self.may_leave = chance.random() < 0.3
        # Members that leave, or that learn that nothing is renewed, may cost a delivery each.
        spare = (self.members if self.may_leave else 0) + (0 if self.may_renew else self.members)
        self.most = chance.randrange(2, 4) + 1 + spare
        self.world = ShareWorld(
            chance.randrange(2, 4),
            batches=0,
            seed=seed,
            share_record_lock_duration_ms=str(int(self.lock_s * 1000)),
            share_delivery_count_limit=str(self.most),
            share_renew_acknowledge_enable=str(self.may_renew).lower(),
            share_heartbeat_interval_ms="500",
        )
        self.world.state.random.seed(f"{seed}/brokers")  # else brokers and clients draw the same ids
        self._began_s = self.world.loop.time()
        self.written = 0
        self.is_over = False
        self.leaves = self.expired = 0
        self.seen: Counter[Place] = Counter()
        self.released: Counter[Place] = Counter()
        self.last: dict[Place, str] = {}
        self.refused: list[str] = []
        self.problems: list[str] = []

    @property
    def now_s(self) -> float:
        """The time of the world."""
        return self.world.loop.time() - self._began_s

    # --- what users see and say

    def saw(self, name: str, batch: kafwire.ShareBatch) -> None:
        """A batch was handed out."""
        for record in batch:
            self._saw(name, (batch.partition or 0, record.offset), batch.delivery_count)

    def saw_one(self, name: str, record: kafwire.Record) -> None:
        """A record was handed out by itself."""
        self._saw(name, (record.partition or 0, record.offset), None)

    def _saw(self, name: str, place: Place, deliveries: int | None) -> None:
        self.seen[place] += 1
        unseen = 0 if deliveries is None else deliveries - self.seen[place]
        allowed = self.leaves + (0 if self.may_renew else self.members)
        if unseen > allowed:
            self.problems.append(f"{name}: {place} is delivered {deliveries} times and seen {self.seen[place]} times")

    def word(self, partition: int | None, offset: int, deliveries: int) -> str:
        """The acknowledgement of a record by a user: it is released only if it may be delivered again."""
        place = (partition or 0, offset)
        choices = {"accept": 8, "reject": 1, "release": 1 if deliveries < self.most - self.leaves - 3 else 0}
        (said,) = self.chance.choices([*choices], [*choices.values()])
        self.last[place] = said
        self.released[place] += said == "release"
        return said

    # --- the run

    def _sharer(self, number: int) -> Sharer:
        chance, lock_s = self.chance, self.lock_s
        style = chance.choice(STYLES)
        renews = self.may_renew and style != "records" and chance.random() < 0.5
        options = {
            "share_acknowledgement_mode": chance.choice(["implicit", "explicit"]),
            "share_acquire_mode": chance.choice(["batch_optimized", "batch_optimized", "record_limit"]),
            "max_poll_records": chance.choice([1, 5, 500] if self.may_renew else [1, 5, 10]),
        }
        work_s = chance.uniform(0.0, 3.0 if renews else 0.4) * lock_s
        if style == "records" and not self.may_renew:
            work_s /= 30  # a range is not longer, and its lock is not renewed while it is handed out
        stays_s = chance.uniform(5.0, 30.0) if self.may_leave and number else END_S
        return Sharer(self, f"m{number}", options, style, work_s, renews, stays_s)

    async def _write(self) -> None:
        for _ in range(self.chance.randrange(4, 16)):
            partition = self.chance.choice(self.world.topic.partitions)
            count = self.chance.randrange(1, 11)
            partition.append_values([b"x"] * count)
            self.written += count
            self.world.changed()
            await asyncio.sleep(self.chance.choice([0.0, 0.0, 0.3, 2.0]))

    async def _join(self, number: int) -> None:
        await asyncio.sleep(number and self.chance.uniform(0.0, 10.0))
        await self._sharer(number).run()

    async def _main(self) -> None:
        slow = self.chance.choice([*self.world.nodes])
        self.world.link(slow).latency_s = self.chance.choice([0.002, 0.02, self.lock_s / 40])
        tasks = [asyncio.ensure_future(self._join(number)) for number in range(self.members)]
        await asyncio.sleep(2.0)
        await self._write()
        while any(self.world.left().values()) and self.now_s < END_S:
            if all(task.done() for task in tasks):
                break
            await asyncio.sleep(1.0)
        self.is_over = True
        await asyncio.gather(*tasks)

    def _acknowledgements(self) -> dict[Place, str]:
        """The last acknowledgement of each record that reached a broker."""
        found: dict[Place, str] = {}
        for request in (each for _, each in self.world.asked if each.name in ("ShareFetch", "ShareAcknowledge")):
            for place, kind in acknowledged(request.message):
                if kind in WORDS:
                    found[place] = WORDS[kind]
        return found

    def run(self) -> list[str]:
        """The faults."""
        with self.world:
            self.world.run(self._main())
            ends = {partition.index: partition.log.end_offset for partition in self.world.topic.partitions}
        places = {(index, offset) for index, end in ends.items() for offset in range(end)}
        unseen = sorted(places - self.seen.keys())
        if unseen:
            self.problems.append(f"no user saw {unseen}")
        if self.now_s >= END_S:
            self.problems.append("it does not come to its end")
        if self.may_renew and self.expired:
            self.problems.append(f"{self.expired} records expired")
        if self.may_renew and self.refused:
            self.problems.append(f"refused: {self.refused}")
        if self.may_renew and not self.leaves:
            if self._acknowledgements() != self.last:
                self.problems.append("acknowledgements differ from what users said")
            for place, count in self.seen.items():
                if count != 1 + self.released[place]:
                    self.problems.append(
                        f"{place} was handed out {count} times, and released {self.released[place]} times"
                    )
        return self.problems


def acknowledged(message: Any) -> Iterator[tuple[Place, int]]:
    """The acknowledgement of each offset in a request."""
    for part in (part for topic in message.topics for part in topic.partitions):
        for batch in part.acknowledgement_batches:
            count = batch.last_offset - batch.first_offset + 1
            kinds = [*batch.acknowledge_types] * (count if len(batch.acknowledge_types) == 1 else 1)
            for index, kind in enumerate(kinds):
                yield (part.partition_index, batch.first_offset + index), kind


def run(seed: int) -> list[str]:
    """The faults in the schedule of a seed."""
    return ShareSchedule(seed).run()
