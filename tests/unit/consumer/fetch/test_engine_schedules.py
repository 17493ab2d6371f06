"""A consumer's fetching in the simulated world, through random schedules of demand, trouble and time.

    KAFWIRE_EXAMPLES=100 KAFWIRE_SEED=7 pytest tests/unit/consumer/fetch/test_engine_schedules.py

Whatever happens, each partition's records come once and in order from the position that was last sought, and again from
where its log was cut by an election; the buffered records stay within the budget; and once the trouble is over
everything is read, soon, without asking without end.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Iterable
from typing import Any

from kafwire import protocol
from kafwire.calls.consumer import layouts, selection_of
from kafwire.cluster.cluster import Cluster
from kafwire.config import ConsumerConfig
from kafwire.consumer.core import ConsumerCore
from kafwire.records import encode_batch
from kafwire.testing.simulation.calls import HANGUP, Call
from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.simulated.world import World

SCHEDULES = seeds.examples(30)
BROKERS = 3
HEALED_S = 60.0


class Schedule:
    """A consumer of one topic, and what chance does to it and its brokers."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        count = chance.choice([1, 3, 8, 8, 30])
        racks = chance.random() < 0.3
        for node in world.nodes.values():
            node.rack = f"r{node.number}" if racks else None
        world.keep_sessions(chance.choice([0, 1, 1000, 1000]))
        if chance.random() < 0.5:
            world.engine_lag_s = lambda: chance.choice([0.0, 0.0, 0.001, 0.02])
        self.logs = world.create_topic("t", partitions=count, replicas=BROKERS).partitions
        strategy = chance.choice(["hybrid", "hybrid", "per_partition", "per_node"])
        self.options: dict[str, Any] = {
            "fetch_strategy": strategy,
            "fetch_max_bytes": chance.choice([1000, 20_000, 1 << 20]),
            "max_partition_fetch_bytes": chance.choice([500, 1 << 20]),
            "fetch_memory": chance.choice([20_000, 1 << 20]),
            "max_prefetch_batches": chance.choice([1, 4]),
            "single_socket": strategy != "per_partition" and chance.random() < 0.25,
            "auto_offset_reset": "earliest",
            "request_timeout_ms": 2_000,
            "metadata_max_age_ms": chance.choice([3_000, 300_000]),
            "max_poll_records": chance.choice([None, None, 1, 2, 5]),
        }
        if racks:
            self.options["client_rack"] = "r2"
        config = ConsumerConfig.build({"bootstrap_servers": world.bootstrap, **self.options})
        self.partitions = [TopicPartition("t", index) for index in range(count)]
        selection = selection_of(None, self.partitions, "earliest")
        self.core = ConsumerCore(Cluster(world.engine, config), config, selection, layouts(None, None))
        self.reader = self.core.reader()
        self.next = dict.fromkeys(range(count), 0)
        self.cuts: list[list[int]] = [[] for _ in range(count)]  # from where on records were lost
        self.starts: list[list[int]] = [[] for _ in range(count)]
        self.before: list[list[dict[int, bytes]]] = [[] for _ in range(count)]  # what could be read before each cut
        self.read_of: list[dict[int, bytes]] = [{} for _ in range(count)]
        self.ever: list[dict[int, bytes]] = [{} for _ in range(count)]  # records that could be read at some time
        self.made = 0
        self.paused: set[int] = set()
        self.trouble: list[str] = []
        self.breaks = 0.0
        world.on("Fetch", self.disturb)
        self.largest = 0

    def disturb(self, call: Call) -> Any:
        if self.chance.random() >= self.breaks:
            return None
        what = self.chance.choice(["hangup", "evict", "whole", "slow"])
        self.trouble.append(what)
        if what == "hangup":
            return HANGUP
        if what == "whole":
            return protocol.FetchResponse(error_code=self.chance.choice([70, 71, -1]))
        if what == "slow":
            return self.slow(call)
        self.world.sessions(call.node).sessions.clear()
        return None

    async def slow(self, call: Call) -> Any:
        await asyncio.sleep(self.chance.choice([0.05, 0.4]))
        return await self.world.response_to(call)

    def event(self) -> None:
        chance, world = self.chance, self.world
        index = chance.randrange(len(self.logs))
        what = chance.random()
        fetcher = self.core.fetcher
        cursor = fetcher.cursors["t", index]
        if what < 0.35:
            for _ in range(chance.choice([1, 3, 20])):
                self.append(
                    chance.randrange(len(self.logs)), chance.choice([1, 1, 5]), hole=chance.choice([0, 0, 0, 3])
                )
        elif what < 0.5:
            world.move_leader("t", index, chance.choice(list(world.nodes)))
        elif what < 0.6:
            self.paused ^= {index}
            world.loop.call_soon(lambda: fetcher.pause(cursor, paused=index in self.paused))
        elif what < 0.68:
            self.next[index] = chance.randint(self.logs[index].start, self.logs[index].end)
            self.cuts[index].clear()
            self.before[index].clear()
            self.read_of[index].clear()
            world.loop.call_soon(fetcher.seek, cursor, self.next[index])
            world.pass_time(0)
        elif what < 0.74:
            node = chance.choice(list(world.nodes))
            if any(n.down for n in world.nodes.values()):
                self.heal()
            else:
                world.kill(node)
                for number, log in enumerate(self.logs):
                    if log.leader == node:
                        world.move_leader("t", number, node % BROKERS + 1)
        elif what < 0.8:
            log = self.logs[index]
            ends = [log.start, *(stored.next for stored in log.batches)]
            log.replica_ends = {n: chance.choice(ends) for n in world.nodes if n != log.leader}
        elif what < 0.85:
            world.break_connections(chance.choice(list(world.nodes)))
        elif what < 0.9:
            self.breaks = chance.choice([0.0, 0.0, 0.1, 0.5])
        elif what < 0.92:
            log = self.logs[index]
            if chance.random() < 0.5 and log.batches:
                offset = chance.choice(log.batches).base
                self.cuts[index].append(offset)
                self.before[index].append(self.ever[index])
                self.ever[index] = {o: value for o, value in self.ever[index].items() if o < offset}
                world.lose_records("t", index, chance.choice(list(world.nodes)), offset)
            else:
                log.delete_before(chance.choice([log.start, *(stored.next for stored in log.batches)]))
                self.starts[index].append(log.start)
        elif what < 0.94:
            milliseconds = chance.choice([0, 300])
            world.throttle = lambda _: milliseconds
        else:
            self.read(chance.choice([1, 5, 1000]))

    def append(self, index: int, count: int, *, hole: int = 0) -> None:
        """A batch, and perhaps offsets behind it that compaction has taken."""
        log = self.logs[index]
        filling = b"." * self.chance.choice([0, 50, 400])
        values = [b"%d" % (self.made + i) + filling for i in range(count)]
        self.made += count
        self.ever[index].update(enumerate(values, log.end))
        log.append(encode_batch(values))
        log.log.end_offset += hole
        self.largest = max(self.largest, len(log.batches[-1].data))

    def there(self, index: int) -> dict[int, bytes]:
        """The records of a partition that can be read now."""
        log = self.logs[index]
        return {o: self.ever[index][o] for s in log.batches for o in range(s.base, s.next) if o >= log.start}

    def heal(self) -> None:
        self.breaks = 0.0
        self.world.throttle = lambda _: 0
        for node in self.world.nodes.values():
            node.down = False
        for log in self.logs:
            log.replica_ends = {}

    def read(self, batches: int) -> None:
        for _ in range(batches):
            batch = self.reader.read(0)
            if batch is None:
                return
            index = batch.partition
            assert index is not None
            for record in batch:
                assert record.value is not None
                self.check(index, record.offset)
                self.read_of[index][record.offset] = record.value
                self.next[index] = record.offset + 1

    def check(self, index: int, offset: int) -> None:
        """True if `offset` may come now: the next that is, or was when it was fetched; or the first after a cut."""
        begin = self.next[index]
        able = {_first(offsets, begin) for offsets in (*self.before[index], self.ever[index])}
        # Records before some start of the log may have been deleted by the time of the request.
        able |= {_first(self.ever[index], max(begin, start)) for start in self.starts[index]}
        if offset in able:
            return
        for cut in self.cuts[index]:
            if offset in {_first(self.ever[index], cut), _first(self.ever[index], self.logs[index].start)}:
                self.cuts[index].remove(cut)
                return
        raise AssertionError(f"t-{index}: offset {offset} came where {able} is next; cut at {self.cuts[index]}")

    def is_read(self, index: int) -> bool:
        """True if all that is there, from the last seek on, was read as it is there."""
        read = self.read_of[index]
        first = min(read, default=self.next[index])
        return all(read.get(offset) == value for offset, value in self.there(index).items() if offset >= first)

    def check_memory(self) -> None:
        broker_fetchers = max(1, self.core.fetcher.brokers.count)
        limit = self.options["fetch_memory"] + broker_fetchers * max(
            self.largest + 1000, self.options["fetch_max_bytes"]
        )
        assert self.core.fetcher.queue.queued_bytes() <= limit

    def run(self) -> None:
        world, chance = self.world, self.chance
        world.run(self.core.start_once())
        world.run(self.core.assignment.ask())
        for _ in range(chance.randint(10, 60)):
            self.event()
            world.pass_time(chance.choice([0, 0.001, 0.01, 0.2, 0.7, 3]))
            self.check_memory()
        self.heal()
        for index in list(self.paused):
            cursor = self.core.fetcher.cursors["t", index]
            world.loop.call_soon(functools.partial(self.core.fetcher.pause, cursor, paused=False))
        for index in range(len(self.logs)):
            self.append(index, 1)
        healed = world.engine.now_ms()
        while left := [index for index in range(len(self.logs)) if not self.is_read(index)]:
            assert world.engine.now_ms() - healed < HEALED_S * 1000, f"not read, {HEALED_S} s after all healed: {left}"
            world.pass_time(0.05)
            self.read(1000)
        world.pass_time(10)
        before = len(world.made("Fetch"))
        world.pass_time(5)
        asked = len(world.made("Fetch")) - before
        # Parked requests, of each broker fetcher one after the other.
        most = max(1, self.core.fetcher.brokers.count) * 5 * (10 if self.options["single_socket"] else 2) + 10
        if "client_rack" in self.options and self.options["metadata_max_age_ms"] < 5_000:
            most += 600  # partitions go back to their leaders when their leases end, and are fetched immediately
        assert asked <= most, f"{asked} requests in 5 quiet seconds"
        self.core.fetcher.stop()


def _first(offsets: Iterable[int], begin: int) -> int:
    return min((offset for offset in offsets if offset >= begin), default=-1)


def test_random_schedules_of_fetching() -> None:
    seed = seeds.of_test()
    for number in range(SCHEDULES):
        chance = random.Random(f"{seed}-{number}")
        with World(brokers=BROKERS, seed=number) as world:
            schedule = Schedule(world, chance)
            try:
                schedule.run()
            except Exception as error:
                raise AssertionError(f"schedule {number} of seed {seed}, {schedule.options}: {error!r}") from error
