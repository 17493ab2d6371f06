"""A consumer in the simulated world: its engine side, and a reader in the test's own thread that never waits.

with World() as world:
    fill(world, "t")
    consuming = Consuming(world, topics="t", start="earliest")
    assert consuming.all() == ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from kafwire.calls.consumer import layouts, selection_of
from kafwire.cluster.cluster import Cluster
from kafwire.config import ConsumerConfig
from kafwire.consumer.core import ConsumerCore
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.delivery.partition_claim import Claim
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.cursor_lookup import cursor_of
from kafwire.records import encode_batch
from kafwire.records._records import Batch
from kafwire.serializer_calls import Deserializers
from kafwire.testing.simulation.calls import Call
from kafwire.testing.simulation.scripted import Log
from kafwire.types import TopicPartition
from tests.support.simulated.world import World

Row = tuple[int, bytes | None]
Rows = dict[tuple[str, int], list[Row]]

single_records = False  # whether every batch that is written is written as batches of one record

STRATEGIES: list[dict[str, Any]] = [
    {"fetch_strategy": "hybrid"},
    {"fetch_strategy": "per_partition"},
    {"fetch_strategy": "per_node"},
    {"single_socket": True},
]


def fill(
    world: World, topic: str, *, partitions: int = 1, batches: int = 4, records: int = 3, size: int = 20, **made: Any
) -> Rows:
    """A topic with numbered values; what a reader of it all must get."""
    world.create_topic(topic, partitions=partitions, **made)
    return {(topic, number): write(world, topic, number, batches, records, size) for number in range(partitions)}


def write(world: World, topic: str, number: int = 0, batches: int = 1, records: int = 1, size: int = 20) -> list[Row]:
    """More records in a partition; the rows."""
    log = log_of(world, topic, number)
    rows: list[Row] = []
    if single_records:
        batches, records = batches * records, 1
    written = []
    for first in range(log.end, log.end + batches * records, records):
        values = [f"{topic}-{number}-{first + i}".encode().ljust(size, b".") for i in range(records)]
        rows += zip(range(first, first + records), values, strict=True)
        written.append(encode_batch(values))
    if written:
        log.append(b"".join(written))
    return rows


def log_of(world: World, topic: str = "t", number: int = 0) -> Log:
    return world.log(topic, number)


def timed(world: World, *times: int) -> None:
    """A record of each time, in a batch of its own."""
    log = log_of(world)
    for time in times:
        log.append(encode_batch([{"value": b"%d" % time, "timestamp_ms": time}]))


class Consuming:
    """One consumer, started. `rows` is what was read of each partition, in that order."""

    def __init__(
        self,
        world: World,
        *,
        topics: Any = None,
        assign: Iterable[tuple[str, int]] | None = None,
        start: Any = "earliest",
        asks: bool = True,
        layout: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.world = world
        self.config = ConsumerConfig.build({"bootstrap_servers": world.bootstrap, "chunk_bytes": 1, **options})
        self.cluster = Cluster(world.engine, self.config)
        chosen = None if assign is None else [TopicPartition(*where) for where in assign]

        async def make() -> ConsumerCore:
            selection, deserializers = selection_of(topics, chosen, start), Deserializers.of(self.config, layout)
            return ConsumerCore(self.cluster, self.config, selection, layouts(None, layout), deserializers)

        self.core = world.run(make())
        self.fetcher = self.core.fetcher
        self.queue = self.fetcher.queue
        world.run(self.core.start())
        self.reader = self.core.reader()
        self.claims: dict[TopicPartition, Claim] = {}
        self.rows: Rows = {}
        self.batches = 0
        if asks:
            world.run(self.core.assignment.ask())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()

    def close(self) -> None:
        self.world.run(self.core.close())
        assert self.queue.queued_bytes() == 0

    def cursor(self, topic: str = "t", number: int = 0) -> FetchCursor:
        return cursor_of(self.core.fetcher.cursors, TopicPartition(topic, number))

    def take(self, reader: FetchReader | None = None) -> Batch | None:
        """The next batch, if there is one; its rows are kept."""
        reader = self.reader if reader is None else reader
        reader.settle()
        batch = reader.read(0)
        if batch is not None:
            self.batches += 1
            assert batch.topic is not None
            assert batch.partition is not None
            rows = self.rows.setdefault((batch.topic, batch.partition), [])
            rows += [(record.offset, record.value) for record in batch]
        return batch

    def drain(self) -> int:
        """Read all that is there; how many batches."""
        before = self.batches
        while self.take() is not None:
            pass
        return self.batches - before

    def offsets_now(self, topic: str = "t", number: int = 0) -> list[int]:
        """The offsets of all that comes now, of one partition; what was read before is dropped."""
        self.rows.clear()
        for _ in range(5):
            self.drain()
            self.idle(1)
        return [offset for offset, _ in self.rows.get((topic, number), [])]

    def until(self, condition: Callable[[], object], limit_s: float = 100.0, *, reads: bool = True) -> None:
        """Let time pass, reading, until `condition` holds."""

        async def wait() -> None:
            async with asyncio.timeout(limit_s):
                while not condition():
                    if not reads or not self.drain():
                        await asyncio.sleep(0.002)

        self.world.run(wait())

    def until_read(self, expected: Rows, limit_s: float = 100.0) -> None:
        """Read until there are as many rows as expected, and a little longer; they are the expected ones."""
        wanted = sum(map(len, expected.values()))
        self.until(lambda: sum(map(len, self.rows.values())) >= wanted, limit_s)
        self.idle()
        self.drain()
        assert self.rows == {where: rows for where, rows in expected.items() if rows}

    def idle(self, seconds: float = 1.5) -> None:
        """Let time pass, without reading."""
        self.world.pass_time(seconds)

    def fetches(self) -> list[Call]:
        return self.world.made("Fetch")

    def asked(self, call: Call) -> dict[int, int]:
        """The offsets that a request names, by partition."""
        return {part.partition: part.fetch_offset for topic in call.message.topics for part in topic.partitions}

    def seek(self, offset: int, topic: str = "t", number: int = 0) -> None:
        self.world.run(self.core.positions.seek(TopicPartition(topic, number), offset))

    def pause(self, *numbers: int, topic: str = "t", paused: bool = True) -> None:
        self.world.run(self.core.assignment.pause([TopicPartition(topic, number) for number in numbers], paused=paused))

    def resume(self, *numbers: int, topic: str = "t") -> None:
        self.pause(*numbers, topic=topic, paused=False)

    def stream(self, number: int, topic: str = "t") -> FetchReader:
        """A reader of its own for one partition, as `partition_stream` has it."""
        where = TopicPartition(topic, number)
        self.claims[where] = self.core.assignment.new_claim(where)
        self.world.run(self.core.assignment.claim(self.claims[where]))
        reader = self.core.reader(self.claims[where])
        self.world.run(self.core.assignment.ask(self.claims[where]))
        return reader
