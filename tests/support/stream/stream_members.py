"""Streams as members of one group in the simulated world: what they begin, write and commit, and when."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import kafwire
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.records import Record
from kafwire.stream import ConsumerSource, Message, Pipeline, StopRequest, StreamSummary, TopicSink
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.types import TopicPartition

GROUP = "g"
Handle = Callable[[Record], Awaitable[Any]]
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"group_protocol": "classic"},
    "consumer": {"group_protocol": "consumer"},
}


@dataclass
class Call:
    """One call of a handler."""

    at: float
    member: str
    topic: str
    partition: int
    offset: int


@dataclass
class StreamMember:
    """One stream, its consumer and its task."""

    name: str
    consumer: kafwire.AsyncConsumer
    stop: StopRequest
    task: asyncio.Task[StreamSummary] = field(init=False)
    work_s: float = 0.0

    @property
    def assigned(self) -> set[TopicPartition]:
        """The partitions that the group gave it."""
        return self.consumer.assignment

    async def leave(self) -> StreamSummary:
        """Stop."""
        self.stop.request()
        return await self.task


class StreamGroup:
    """A world with topics `in` and `out`, and a group of streams. Use it as a context manager."""

    def __init__(self, *, partitions: int = 2, seed: int = 3, topics: Sequence[str] = ()) -> None:
        configs = {"group.consumer.assignment.interval.ms": "0", "group.initial.rebalance.delay.ms": "0"}
        self.world = ClusterWorld(brokers=1, seed=seed, configs=configs)
        for topic in ("in", *topics):
            self.world.state.topics.create(topic, partitions, replicas=1)
        for topic in ("out", "dead"):
            self.world.state.topics.create(topic, 1, replicas=1)
        self.calls: list[Call] = []
        self.was_cut = False
        self.members: list[StreamMember] = []

    def __enter__(self) -> Self:
        self.world.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.world.__exit__(kind, error, trace)

    @property
    def now(self) -> float:
        """Seconds of simulated time."""
        return self.world.loop.time()

    def add(
        self,
        pipeline: Callable[[Handle], Pipeline],
        handle: Handle | None = None,
        *,
        work_s: float = 0.0,
        guarantee: Any = "at_least_once",
        topics: Sequence[str] = ("in",),
        **options: Any,
    ) -> StreamMember:
        """One more stream; `pipeline` is made of its handler, which takes `work_s` and returns a `Message`."""
        name = f"m{len(self.members)}"
        chosen: dict[str, Any] = {
            "topics": topics,
            "group_id": GROUP,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        consumer = kafwire.AsyncConsumer(
            self.world.bootstrap,
            engine=self.world.engine,
            client_id=name,
            **(chosen | options),
        )
        member = StreamMember(name, consumer, StopRequest(), work_s=work_s)

        async def work(record: Record) -> Any:
            self.calls.append(Call(self.now, name, record.topic or "", record.partition or 0, record.offset))
            if handle is not None:
                return await handle(record)
            await asyncio.sleep(member.work_s)
            return Message(b"%d/%d" % (record.partition or 0, record.offset), key=record.key)

        async def run() -> StreamSummary:
            given: dict[str, Any] = {"transactional_id": f"tx-{name}"} if guarantee == "exactly_once" else {}
            async with kafwire.AsyncProducer(self.world.bootstrap, engine=self.world.engine, **given) as producer:
                return await pipeline(work).run_async(
                    ConsumerSource(consumer),
                    TopicSink(producer, "out"),
                    guarantee=guarantee,
                    stop=member.stop,
                    clock=self.world.engine.clock,
                    random=self.world.engine.random,
                )

        member.task = asyncio.ensure_future(run())
        self.members.append(member)
        return member

    def producer(self) -> kafwire.AsyncProducer:
        """A producer of its own."""
        return kafwire.AsyncProducer(self.world.bootstrap, engine=self.world.engine)

    async def send(self, count: int, *, partitions: Sequence[int] = (0, 1), key: bytes = b"k") -> None:
        """Send `count` records to each of the partitions."""
        async with kafwire.AsyncProducer(self.world.bootstrap, engine=self.world.engine) as producer:
            for number in range(count):
                for partition in partitions:
                    await (await producer.send("in", b"%d" % number, partition=partition, key=key))

    async def results(self) -> list[bytes]:
        """The committed records in `out`."""
        async with kafwire.AsyncConsumer(
            self.world.bootstrap,
            topics="out",
            start="earliest",
            isolation_level="read_committed",
            engine=self.world.engine,
        ) as consumer:
            return [record.value async for batch in consumer.batches(timeout=2.0) for record in batch]

    async def until(self, condition: Callable[[], bool], limit_s: float = 120.0) -> float:
        """Let time go by until something is so: how many seconds that took."""
        began = self.now
        while not condition():
            assert self.now < began + limit_s, f"not within {limit_s:g} s: {[one.assigned for one in self.members]}"
            for member in self.members:
                if member.task.done():
                    member.task.result()
            await asyncio.sleep(0.05)
        return self.now - began

    def shared_out(self, members: Sequence[StreamMember], count: int) -> Callable[[], bool]:
        """True if each of `count` partitions is of one of these members, as evenly as can be."""

        def is_so() -> bool:
            held = [set(member.assigned) for member in members]
            sizes = [len(each) for each in held]
            return sum(sizes) == count == len(set().union(*held)) and max(sizes) - min(sizes) <= 1

        return is_so

    def cut(self, *, is_cut: bool) -> None:
        """No broker is reached, or they are again."""
        self.world.link(1).is_refusing = is_cut
        self.was_cut = True
        if is_cut:
            self.world.break_connections(1)
        else:
            self.world.link(1).heal()

    def committed(self) -> dict[tuple[str, int], int]:
        """The offsets of the coordinator."""
        return {where: kept.offset for where, kept in self.world.state.part(OffsetStore).of(GROUP).items()}

    def begun(self) -> dict[tuple[int, int], list[str]]:
        """The members that called a handler, in order, by partition and offset of `in`."""
        found: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for call in self.calls:
            if call.topic == "in":
                found[call.partition, call.offset].append(call.member)
        return found


def repeated(values: Sequence[bytes]) -> list[bytes]:
    """The values that are there more than once."""
    return [value for value, count in Counter(values).items() if count > 1]
