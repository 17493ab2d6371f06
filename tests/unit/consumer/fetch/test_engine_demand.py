"""A consumer fetches partitions that a reader asks for, while there is room, and a slow reader delays no other."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from kafwire.memory._buffer import pool_limit
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, log_of, write
from tests.support.simulated.world import World

# Requests and errors are counted here: not among 1,000 partitions.
pytestmark = [pytest.mark.usefixtures("shape"), pytest.mark.shapes("as_written", "single_records")]

# All partitions of a broker in one request: there a full one does hold the others up.
FAIR = [strategy for strategy in STRATEGIES if strategy.get("fetch_strategy") != "per_node"]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_nothing_is_fetched_before_a_read(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t", asks=False, **strategy) as consuming:
            consuming.idle(60)
            assert not consuming.fetches()
            world.run(consuming.core.assignment.ask())
            consuming.until_read(rows)


def test_a_partition_that_is_added_is_not_fetched_before_a_read() -> None:
    with World() as world:
        fill(world, "t", partitions=1)
        with Consuming(world, topics="t", asks=False, metadata_max_age_ms=5_000) as consuming:
            world.add_partitions("t", 1)
            consuming.idle(60)
            assert len(consuming.core.assignment.partitions) == 2
            assert not consuming.fetches()
            world.run(consuming.core.assignment.ask())
            consuming.idle(10)
            assert {number for call in consuming.fetches() for number in consuming.asked(call)} == {0, 1}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_one_stream_asks_for_its_partition_alone(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t", asks=False, **strategy) as consuming:
            reader = consuming.stream(1)
            consuming.idle()
            while consuming.take(reader):
                pass
            assert consuming.rows == {("t", 1): rows["t", 1]}
            assert {number for call in consuming.fetches() for number in consuming.asked(call)} == {1}


def test_a_claimed_partition_waits_for_its_own_reader() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t", asks=False) as consuming:
            where = TopicPartition("t", 0)
            claim = consuming.core.assignment.new_claim(where)
            world.run(consuming.core.assignment.claim(claim))
            world.run(consuming.core.assignment.ask())
            consuming.until_read({("t", 1): rows["t", 1]})
            assert not any(0 in consuming.asked(call) for call in consuming.fetches())
            claim.close()
            consuming.until_read(rows)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_full_buffers_are_not_asked_for(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=50, size=1000)
        options = {"max_partition_fetch_bytes": 5000, "max_prefetch_batches": 3} | strategy
        with Consuming(world, topics="t", **options) as consuming:
            consuming.idle(5)
            assert all(0 < consuming.queue.queued(n)[0] <= 3 for n in range(2))
            before = len(consuming.fetches())
            consuming.idle(60)
            assert len(consuming.fetches()) == before
            consuming.until_read(rows)


@pytest.mark.parametrize("strategy", FAIR, ids=str)
def test_a_full_partition_drops_out_and_others_go_on(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=50, size=1000)
        options = {"max_partition_fetch_bytes": 5000, "max_prefetch_batches": 3} | strategy
        with Consuming(world, topics="t", **options) as consuming:
            slow = consuming.stream(0)
            consuming.until(lambda: consuming.rows.get(("t", 1)) == rows["t", 1])
            assert ("t", 0) not in consuming.rows
            consuming.until(lambda: consuming.take(slow) is None and len(consuming.rows["t", 0]) == 150)
            assert consuming.rows == rows


@pytest.mark.parametrize("strategy", FAIR, ids=str)
@pytest.mark.parametrize("partitions", [8, 100])
def test_full_buffers_of_slow_readers_leave_room_for_others(partitions: int, strategy: dict[str, Any]) -> None:
    with World(brokers=2) as world:
        limit, below_mark = (4 << 20, 12) if partitions == 8 else (16 << 20, 4)
        rows = fill(world, "t", partitions=partitions, batches=below_mark, records=1, size=10_000)
        options: dict[str, Any] = {"fetch_memory": limit, "fetch_max_bytes": 64 << 20, "max_prefetch_batches": 1000}
        with Consuming(world, topics="t", asks=False, **options, **strategy) as consuming:
            readers = [consuming.stream(number) for number in range(partitions)]
            consuming.idle(5)
            for number in range(partitions):  # the last response comes on top of as much as a buffer may have before it
                rows["t", number] += write(world, "t", number, batches=100 - below_mark, size=10_000)
            consuming.idle(5)
            for number in (0, partitions - 1):
                consuming.until(
                    lambda n=number: (
                        not consuming.take(readers[n]) and consuming.rows.get(("t", n)) == rows["t", n]  # type: ignore[misc]
                    ),
                    limit_s=10.0,
                )
            assert consuming.queue.queued_bytes() <= limit


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("size", [10, 10_000])
def test_the_budget_is_kept(size: int, strategy: dict[str, Any]) -> None:
    """The exception is one batch for each broker fetcher that is larger than a request allowed."""
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=6, batches=60, records=1, size=size)
        limit = 100_000
        options: dict[str, Any] = {"fetch_memory": limit, "fetch_max_bytes": 40_000} | strategy
        with Consuming(world, topics="t", **options) as consuming:
            peak = 0

            def look() -> bool:
                nonlocal peak
                peak = max(peak, consuming.queue.queued_bytes() + consuming.fetcher.budget.reserved)
                return sum(map(len, consuming.rows.values())) >= 360

            async def watch() -> None:
                for turn in range(100_000):
                    if look():
                        break
                    if turn % 3 == 0:
                        consuming.take()
                    await asyncio.sleep(0.0005)

            world.run(watch())
            assert consuming.rows == rows
            broker_fetchers = len(consuming.fetcher.stats()["broker_fetchers"])
            assert peak <= limit + broker_fetchers * (size + 1000)
            assert peak > limit / 4 or size == 10


def test_pause_keeps_buffered_records_and_sends_nothing() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t") as consuming:
            consuming.idle()
            before = len(consuming.fetches())
            consuming.pause(0, 1)
            consuming.idle(0.6)  # the parked response comes back
            assert consuming.drain() == 0
            consuming.idle(60)
            assert len(consuming.fetches()) <= before + 1
            consuming.resume(0)
            consuming.drain()
            assert consuming.rows == {("t", 0): rows["t", 0]}
            consuming.resume(1)
            consuming.until_read(rows)
            assert sum(consuming.asked(call).get(1) == 0 for call in consuming.fetches()) == 1


def test_records_of_a_paused_partition_are_kept() -> None:
    with World() as world:
        rows = fill(world, "t", batches=0)
        with Consuming(world, topics="t") as consuming:
            consuming.idle(0.1)
            consuming.pause(0)
            rows["t", 0] = write(world, "t")
            consuming.idle()
            assert consuming.drain() == 0
            consuming.resume(0)
            assert consuming.drain() == 1
            assert consuming.rows == rows


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_waiting_reader_wakes_for_records_of_a_resumed_partition(strategy: dict[str, Any]) -> None:
    with World() as world:
        fill(world, "t")
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.idle()
            consuming.pause(0)
            waiting = world.loop.create_task(consuming.core.readable(None, 10_000))
            consuming.idle(1)
            assert not waiting.done()
            consuming.resume(0)
            consuming.idle(0)
            assert waiting.done()
            assert waiting.result()


@pytest.mark.parametrize("strategy", FAIR, ids=str)
def test_new_demand_does_not_wait_behind_a_parked_request(strategy: dict[str, Any]) -> None:
    """A full buffer is read while the next request, without that partition, is parked at the broker."""
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=40, size=1000)
        log_of(world, "t", 1).batches = []
        log_of(world, "t", 1).log.start_offset = log_of(world, "t", 1).end
        rows.pop(("t", 1))
        options = {"max_partition_fetch_bytes": 5000, "max_prefetch_batches": 1} | strategy
        with Consuming(world, topics="t", fetch_max_wait_ms=5000, **options) as consuming:
            consuming.idle(1)
            begin = world.loop.time()
            consuming.until(lambda: consuming.rows.get(("t", 0)) == rows["t", 0], 30)
            # 40 responses of a batch each; with one socket there are no immediate fetches
            assert world.loop.time() - begin < (8.0 if strategy.get("single_socket") else 1.5)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_idle_consumers_ask_seldom(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=5)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            consuming.idle(5)
            before = len(consuming.fetches())
            consuming.idle(10)
            each = 100 if strategy.get("single_socket") else 500
            broker_fetchers = 5 if strategy.get("fetch_strategy") == "per_partition" else 1
            assert len(consuming.fetches()) - before <= broker_fetchers * (10_000 / each + 1)


@pytest.mark.parametrize(
    ("options", "field", "asked"),
    [
        ({}, "max_wait_ms", 500),
        ({"fetch_max_wait_ms": 70}, "max_wait_ms", 70),
        ({"single_socket": True}, "max_wait_ms", 100),
        ({"single_socket": True, "fetch_max_wait_ms": 70}, "max_wait_ms", 70),
        ({}, "min_bytes", 1),
        ({"fetch_min_bytes": 1000}, "min_bytes", 1000),
        ({}, "isolation_level", 0),
        ({"isolation_level": "read_committed"}, "isolation_level", 1),
        ({"client_rack": "r"}, "rack_id", "r"),
    ],
)
def test_requests_have_the_values_of_the_options(options: dict[str, Any], field: str, asked: Any) -> None:
    with World() as world:
        fill(world, "t")
        with Consuming(world, topics="t", **options) as consuming:
            consuming.idle(1)
            assert {getattr(call.message, field) for call in consuming.fetches()} == {asked}


@pytest.mark.parametrize("strategy", FAIR, ids=str)
def test_a_quiet_partition_beside_a_flooded_one(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=0)
        with Consuming(world, topics="t", **strategy) as consuming:
            delays = []
            for turn in range(40):
                rows["t", 0] += write(world, "t", 0, batches=5, records=10)
                if turn % 10 == 5:
                    rows["t", 1] += write(world, "t", 1)
                    begin = world.loop.time()
                    consuming.until(lambda: consuming.rows.get(("t", 1)) == rows["t", 1])
                    delays.append(world.loop.time() - begin)
                consuming.until(lambda: consuming.rows.get(("t", 0)) == rows["t", 0])
            assert max(delays) < 0.03
            consuming.until_read(rows)


def test_many_partitions_that_are_resumed_share_a_request() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=1000, batches=0)
        with Consuming(world, topics="t") as consuming:
            consuming.idle(1)
            numbers = range(1000)
            consuming.pause(*numbers)
            consuming.idle(1)
            before = len(consuming.fetches())
            consuming.resume(*numbers)
            for number in numbers:
                rows["t", number] += write(world, "t", number)
            consuming.until_read(rows)
            assert len(consuming.fetches()) - before < 20


def test_a_partition_that_is_dropped_makes_room() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=2, batches=20, size=1000)
        options: dict[str, Any] = {"fetch_memory": 30_000, "max_prefetch_batches": 100}
        with Consuming(world, assign=[("t", 0), ("t", 1)], asks=False, **options) as consuming:
            consuming.stream(0)
            consuming.idle()
            # Only now a second one: until then one buffer may take all.
            consuming.fetcher.budget.reserved += 30_000 - consuming.queue.queued_bytes()
            world.run(consuming.core.assignment.ask())
            consuming.idle()
            assert not consuming.drain()
            consuming.fetcher.budget.reserved = 0
            world.run(consuming.core.assignment.assign([TopicPartition("t", 1)]))
            consuming.until(lambda: consuming.rows == {("t", 1): rows["t", 1]})


def test_small_slices_do_not_keep_large_responses() -> None:
    """Each response has a little of a partition without a reader: kept whole, they would soon take all the room."""
    with World() as world:
        rows = fill(world, "t", partitions=9, batches=0)
        options: dict[str, Any] = {"fetch_memory": 400_000, "fetch_max_bytes": 100_000}
        with Consuming(world, topics="t", asks=False, **options) as consuming:
            for number in range(8):
                consuming.stream(number)
            world.run(consuming.core.assignment.ask())
            for number in range(8):
                consuming.idle()
                write(world, "t", number)
                rows["t", 8] += write(world, "t", 8, batches=40, size=2000)
                consuming.until(lambda: consuming.rows.get(("t", 8)) == rows["t", 8])
            consuming.queue.compact()
            assert 0 < consuming.queue.queued_bytes() < 3000


@pytest.mark.parametrize("rest_s", [0.0, 0.2, 0.75, 1.9])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_streams_that_take_turns_all_get_on(strategy: dict[str, Any], rest_s: float) -> None:
    """Each is read for less than a request is parked. A partition left meanwhile has records the next time."""
    with World() as world:
        rows = fill(world, "t", partitions=3)
        fill(world, "quiet", batches=0)
        with Consuming(world, topics=["t", "quiet"], asks=False, **strategy) as consuming:
            for _ in range(12):
                for topic, number in (("quiet", 0), ("t", 0), ("t", 1), ("t", 2)):
                    reader = consuming.stream(number, topic)
                    until = world.engine.now_ms() + 150.0
                    while world.engine.now_ms() < until:
                        if consuming.take(reader) is None:
                            consuming.idle(0.01)
                    reader.close()
                    consuming.claims[TopicPartition(topic, number)].close()
                consuming.idle(rest_s)
            assert consuming.rows == rows


def visit(consuming: Consuming, topic: str, seconds: float) -> None:
    """A stream of the topic's partition, which reads nothing and is closed."""
    reader = consuming.stream(0, topic)
    consuming.idle(seconds)
    reader.close()
    consuming.claims[TopicPartition(topic, 0)].close()


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_partition_whose_reader_left_is_requested_once_at_most(strategy: dict[str, Any]) -> None:
    """Its records are there when a reader comes again; in the meantime nothing more is requested."""
    with World() as world:
        fill(world, "t", partitions=1, batches=40, size=1_000)
        fill(world, "quiet", batches=0)
        options = {"max_partition_fetch_bytes": 5_000} | strategy
        with Consuming(world, topics=["t", "quiet"], asks=False, **options) as consuming:
            visit(consuming, "quiet", 0.02)
            consuming.idle(30)
            assert len(consuming.fetches()) == 1  # the one that was parked as the reader left
            # With a connection of its own, or an immediate fetch, a partition is requested as soon as a reader comes.
            waits = strategy.get("fetch_strategy") == "per_node" or strategy.get("single_socket")
            for _ in range(2):  # the records in its buffer the second time are enough
                visit(consuming, "quiet", 0.02)
                visit(consuming, "t", 0.0)
                consuming.idle(5)
                made = len(consuming.fetches())
                consuming.idle(30)
                assert len(consuming.fetches()) == made
                if waits:
                    assert consuming.queue.queued(consuming.cursor().number)[0] == 1


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_reader_that_comes_back_before_its_partition_was_requested_reads_on(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=1, batches=40, size=1_000)
        fill(world, "quiet", batches=0)
        options = {"max_partition_fetch_bytes": 5_000} | strategy
        with Consuming(world, topics=["t", "quiet"], asks=False, **options) as consuming:
            visit(consuming, "quiet", 0.02)
            visit(consuming, "t", 0.0)
            reader = consuming.stream(0)
            consuming.until(lambda: consuming.take(reader) is None and consuming.rows == rows, reads=False)


def test_the_pool_keeps_the_memory_of_a_consumer_until_it_is_closed() -> None:
    gc.collect()  # leftovers of other tests
    before = pool_limit()
    with World() as world:
        fill(world, "t")
        with Consuming(world, topics="t", fetch_memory=24 << 20) as consuming:
            assert pool_limit() == before + (24 << 20)
        assert consuming.fetcher.stopped
        assert pool_limit() == before
