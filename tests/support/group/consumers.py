"""Consumers of one group in the simulated world, and what they processed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import kafwire
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.types import TopicPartition

GROUP = "g"
CLASSIC_EAGER: dict[str, Any] = {"group_protocol": "classic", "partition_assignment_strategy": ["range"]}
CLASSIC_COOPERATIVE = {"group_protocol": "classic", "partition_assignment_strategy": ["cooperative-sticky"]}
CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": CLASSIC_EAGER,
    "cooperative": CLASSIC_COOPERATIVE,
    "consumer": CONSUMER,
}

log = logging.getLogger(__name__)


class Member:
    """One consumer, in a task of its own: it takes batches, works on each for a while, and takes the next."""

    def __init__(self, world: ClusterWorld, seen: Seen, name: str, **options: Any) -> None:
        self.name = name
        self.work_s: Callable[[], float] = lambda: 0.0
        self.assigned: set[TopicPartition] = set()
        self.error: BaseException | None = None
        self.is_dead = False
        self._goes_on = False
        self._world, self._seen = world, seen
        self.consumer = kafwire.AsyncConsumer(
            world.bootstrap,
            engine=world.engine,
            client_id=name,
            **{"topics": ["t"], "group_id": GROUP, "auto_offset_reset": "earliest"} | options,
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Member:
        """Join, and read in the background."""
        await self.consumer.start()
        self._task = asyncio.ensure_future(self._read())
        return self

    async def _read(self) -> None:
        try:
            async for batch in self.consumer.batches():
                assert batch.topic is not None
                assert batch.partition is not None
                where, offsets = TopicPartition(batch.topic, batch.partition), [record.offset for record in batch]
                try:
                    await asyncio.sleep(self.work_s())
                except asyncio.CancelledError:
                    if self._goes_on:  # the request for the next batch completes this one
                        self._seen.processed(self.name, where, offsets)
                    raise
                self._seen.processed(self.name, where, offsets)
        except Exception as error:  # a test looks at it
            self.error = error

    async def read_again(self) -> None:
        """The loop is cancelled, wherever it is, and another one goes on."""
        self._goes_on = True
        await self._stop_reading()
        self._goes_on = False
        self._task = asyncio.ensure_future(self._read())

    async def leave(self) -> None:
        """Stop as a user does: after the batch in hand."""
        await self._stop_reading()
        await self.consumer.close()

    async def die(self) -> None:
        """Stop as a process that is killed: without a notice to the group."""
        await self._stop_reading()
        membership = self.consumer._core.membership
        assert membership is not None
        if membership._driver is not None:
            membership._driver.stop()
        membership._stop_following()
        self.consumer._core.fetcher.queue.close()
        self.consumer._core.fetcher.stop()
        self.consumer._core.cluster.shut()
        self.is_dead = True

    async def _stop_reading(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class Seen:
    """The processed records, by member."""

    def __init__(self) -> None:
        self.by_partition: defaultdict[TopicPartition, list[tuple[str, int]]] = defaultdict(list)

    def processed(self, member: str, where: TopicPartition, offsets: Iterable[int]) -> None:
        """A member is done with these records."""
        self.by_partition[where] += [(member, offset) for offset in offsets]

    def counts(self, where: TopicPartition) -> Counter[int]:
        """How often each record was processed."""
        return Counter(offset for _, offset in self.by_partition[where])

    def total(self) -> int:
        """How many records were processed at least once."""
        return sum(len(self.counts(where)) for where in self.by_partition)

    def repeated(self) -> int:
        """How many were processed again."""
        return sum(sum(self.counts(where).values()) - len(self.counts(where)) for where in self.by_partition)


class GroupWorld:
    """A world with a topic `t` and a group `g`. Use it as a context manager."""

    def __init__(self, *, partitions: int = 4, brokers: int = 1, seed: int = 0, **configs: str) -> None:
        options = {"group.consumer.assignment.interval.ms": "0", "group.initial.rebalance.delay.ms": "0"}
        options |= {name.replace("_", "."): value for name, value in configs.items()}
        self.world = ClusterWorld(brokers=brokers, seed=seed, configs=options)
        self.seen = Seen()
        self.members: list[Member] = []
        self.world.state.topics.create("t", partitions, replicas=brokers)

    def __enter__(self) -> Self:
        self.world.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.world.run(self._leave_all())
        self.world.__exit__(kind, error, trace)

    async def _leave_all(self) -> None:
        for member in self.members:
            if member.is_dead:
                await member.consumer.close()
            else:
                await member.leave()

    def member(self, name: str | None = None, **options: Any) -> Member:
        """A new member, not started."""
        made = Member(self.world, self.seen, name or f"m{len(self.members)}", **options)
        self.members.append(made)
        return made

    async def add(self, count: int = 1, **options: Any) -> list[Member]:
        """New members that join one after the other."""
        return [await self.member(**options).start() for _ in range(count)]

    @asynccontextmanager
    async def producing(self, count: int, pause_s: float = 0.01) -> AsyncIterator[asyncio.Task[None]]:
        """Records are sent meanwhile, one by one to all partitions."""

        async def send() -> None:
            async with kafwire.AsyncProducer(self.world.bootstrap, engine=self.world.engine, linger_ms=0) as producer:
                for number in range(count):
                    await producer.send("t", b"%d" % number, key=b"%d" % number)
                    await asyncio.sleep(pause_s)

        task = asyncio.ensure_future(send())
        try:
            yield task
            await task
        finally:
            task.cancel()

    async def until(self, condition: Callable[[], bool], limit_s: float = 120.0) -> None:
        """Let time go by until something is so; fail when it is not in time."""
        end = self.world.loop.time() + limit_s
        while not condition():
            assert self.world.loop.time() < end, f"not within {limit_s:g} s: {self.report()}"
            await asyncio.sleep(0.05)

    def report(self) -> str:
        """The text for a failure: the members' partitions, and the number of processed records."""
        has = {member.name: sorted(member.consumer.assignment) for member in self.members}
        return f"{has}, {self.seen.total()} processed, errors {[m.error for m in self.members if m.error]}"

    async def balanced(self, members: Iterable[Member], count: int, limit_s: float = 120.0) -> None:
        """Wait until these have all `count` partitions, each one of them by one alone, and as evenly as can be."""
        chosen = list(members)

        def is_so() -> bool:
            held = [member.consumer.assignment for member in chosen]
            sizes = [len(each) for each in held]
            return sum(sizes) == count == len(set().union(*held)) and max(sizes) - min(sizes) <= 1

        await self.until(is_so, limit_s)

    def committed(self) -> dict[tuple[str, int], int]:
        """The offsets of the coordinator."""
        return {where: kept.offset for where, kept in self.world.state.part(OffsetStore).of(GROUP).items()}
