"""The records that a consumer delivers from logs with transactions, markers and holes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from kafwire.cluster.list_offsets import LATEST
from kafwire.records import encode_batch
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import STRATEGIES, Consuming, Row, Rows, log_of
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")
# Of tests that count partitions, or log lines about them.
few_partitions = pytest.mark.shapes("as_written", "single_records")

COMMIT = (b"\0\0\0\1", b"\0" * 6)
ABORT = (b"\0\0\0\0", b"\0" * 6)
WHERE = TopicPartition("t", 0)


class Transactions:
    """Writes transactions of several producers into a log, and knows what each reader is to see."""

    def __init__(self, world: World) -> None:
        self.log = log_of(world)
        self.begun: dict[int, int] = {}
        self.rows: dict[int, list[Row]] = {}
        self.all: list[Row] = []
        self.committed: list[Row] = []
        self._sequences = itertools.count()
        self._settle()

    def write(self, producer: int, count: int = 1) -> None:
        values = [b"%d-%d" % (producer, next(self._sequences)) for _ in range(count)]
        rows: list[Row] = list(zip(range(self.log.end, self.log.end + count), values, strict=True))
        self.begun.setdefault(producer, self.log.end)
        self.all += rows
        self.rows.setdefault(producer, []).extend(rows)
        self.log.append(encode_batch(values, transactional=True, producer_id=producer, producer_epoch=0))
        self._settle()

    def plain(self, count: int = 1) -> None:
        values = [b"plain-%d" % next(self._sequences) for _ in range(count)]
        rows: list[Row] = list(zip(range(self.log.end, self.log.end + count), values, strict=True))
        self.all += rows
        self.committed += rows
        self.log.append(encode_batch(values))
        self._settle()

    def end(self, producer: int, *, commit: bool) -> None:
        begun, rows = self.begun.pop(producer), self.rows.pop(producer)
        self.log.append(
            encode_batch(
                [COMMIT if commit else ABORT], control=True, transactional=True, producer_id=producer, producer_epoch=0
            )
        )
        if commit:
            self.committed += rows
        else:
            self.log.abort(producer, begun)
        self._settle()

    def _settle(self) -> None:
        self.log.stable_at = min(self.begun.values(), default=self.log.end)
        self.log.notify(-1)

    def expected(self, level: str) -> Rows:
        rows = sorted(self.committed) if level == "read_committed" else self.all
        stable = self.log.stable_at if self.log.stable_at is not None else self.log.end
        rows = [row for row in rows if level != "read_committed" or row[0] < stable]
        return {("t", 0): rows} if rows else {}


def shuffled(world: World, chance: random.Random) -> None:
    """Brokers do not promise an order of their lists of aborted transactions, nor that none is there twice."""

    async def respond(call: Call) -> Any:
        response = await world.response_to(call)
        for topic in response.responses:
            for part in topic.partitions:
                if part.aborted_transactions:
                    part.aborted_transactions = part.aborted_transactions * 2
                    chance.shuffle(part.aborted_transactions)
        return response

    world.on("Fetch", respond)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("size", [100, 1 << 20])
def test_random_transactions(size: int, level: str, strategy: dict[str, Any]) -> None:
    for seed in range(8):
        chance = random.Random(seed)
        with World(seed=seed) as world:
            world.create_topic("t")
            shuffled(world, chance)
            written = Transactions(world)
            options: dict[str, Any] = {"isolation_level": level, "max_partition_fetch_bytes": size} | strategy
            if seed >= 2:  # parts of chunks, and of such that have many wire batches
                options |= {"max_poll_records": chance.choice([1, 2, 7]), "chunk_bytes": chance.choice([1, 1000])}
            with Consuming(world, topics="t", **options) as consuming:
                for _ in range(80):
                    what = chance.random()
                    if what < 0.6:
                        written.write(chance.randrange(5), chance.randint(1, 3))
                    elif what < 0.7:
                        written.plain()
                    elif written.begun:
                        written.end(chance.choice(list(written.begun)), commit=chance.random() < 0.5)
                    if chance.random() < 0.2:
                        consuming.idle(0.01)
                        consuming.drain()
                consuming.until_read(written.expected(level))
                for producer in list(written.begun):
                    written.end(producer, commit=True)
                consuming.until_read(written.expected(level))
                consuming.until(lambda: consuming.queue.position(0) == written.log.end, 10)  # noqa: B023


@few_partitions
def test_an_open_transaction_holds_the_committed_end_back() -> None:
    with World() as world:
        world.create_topic("t")
        written = Transactions(world)
        written.plain(3)
        written.write(1)
        written.plain(2)
        with Consuming(world, topics="t", isolation_level="read_committed") as consuming:
            consuming.until_read(written.expected("read_committed"))
            assert consuming.core.positions.lag(WHERE) == 0
            assert world.run(consuming.core.positions.ends(None, LATEST)) == {WHERE: 3}
            written.end(1, commit=False)
            consuming.until_read(written.expected("read_committed"))
            assert len(consuming.rows["t", 0]) == 5
            assert consuming.core.positions.lag(WHERE) == 0


def test_a_log_of_markers_only() -> None:
    """Nothing to hand out, yet progress."""
    with World() as world:
        world.create_topic("t")
        log = log_of(world)
        for _ in range(50):
            log.append(encode_batch([COMMIT], control=True, transactional=True, producer_id=1, producer_epoch=0))
        with Consuming(world, topics="t", max_prefetch_batches=2, max_partition_fetch_bytes=200) as consuming:
            consuming.until(lambda: consuming.queue.position(0) == 50)
            assert not consuming.rows
            assert consuming.core.positions.lag(WHERE) == 0


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_holes_of_compaction(strategy: dict[str, Any]) -> None:
    """kafka-python #1701: holes behind batches, whole batches without records, a log that ends with a hole."""
    with World() as world:
        log = world.create_topic("t").partitions[0]
        rows: list[Row] = []
        for turn in range(20):
            rows.append((log.end, b"%d" % turn))
            log.append(encode_batch([b"%d" % turn]), next_offset=log.end + 1 + turn % 4)
        log.log.end_offset += 100
        with Consuming(world, topics="t", max_partition_fetch_bytes=100, **strategy) as consuming:
            consuming.until_read({("t", 0): rows})
            before = len(consuming.fetches())
            consuming.idle(5)
            assert len(consuming.fetches()) - before <= 60
            log.append(encode_batch([b"end"]))
            consuming.until_read({("t", 0): [*rows, (log.end - 1, b"end")]})


@pytest.mark.thousand
def test_starts_in_the_middle_of_batches() -> None:
    with World() as world:
        log = world.create_topic("t").partitions[0]
        for base in range(0, 30, 10):
            log.append(encode_batch([b"%d" % (base + i) for i in range(10)]))
        for start in (0, 1, 9, 10, 15, 29):
            with Consuming(world, topics="t", start={WHERE: start}) as consuming:
                consuming.until_read({("t", 0): [(n, b"%d" % n) for n in range(start, 30)]})
