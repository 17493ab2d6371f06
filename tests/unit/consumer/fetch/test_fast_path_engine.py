"""The engine and records that the I/O thread has queued: they count once, whatever happens in between."""

from __future__ import annotations

import asyncio

import pytest

from kafwire.cluster.list_offsets import EARLIEST
from kafwire.consumer.delivery.partition_claim import StreamEnded
from kafwire.protocol import FetchRequest
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.group.lagging_consumer import LAG_S, Lagging
from tests.support.simulated.consumer import write
from tests.support.simulated.world import World


def test_records_are_read_before_the_engine_has_seen_them() -> None:
    with World() as world:
        lagging = Lagging(world)
        lagging.arrive()
        assert lagging.consuming.drain() == 1
        assert lagging.consuming.rows == lagging.rows
        lagging.consuming.until_read(lagging.rows)
        assert lagging.cursor.position == 15
        assert lagging.cursor.fetches >= 2
        lagging.consuming.close()


def test_the_negotiated_version_of_fetch_uses_the_fast_path() -> None:
    """A version that the fast path does not read would disarm it silently: records then wait for the engine."""
    with World() as world:
        lagging = Lagging(world)
        assert world.made("Fetch")[-1].version == FetchRequest.max_version
        lagging.arrive()
        lagging.consuming.close()


@pytest.mark.parametrize("version", range(FetchRequest.BY_TOPIC_ID, FetchRequest.max_version + 1))
def test_every_version_of_fetch_with_topic_ids_uses_the_fast_path(version: int) -> None:
    with World() as world:
        world.nodes[1].versions["Fetch"] = (FetchRequest.min_version, version)
        lagging = Lagging(world)
        assert world.made("Fetch")[-1].version == version
        lagging.arrive()
        lagging.consuming.until_read(lagging.rows)
        lagging.consuming.close()


def test_a_seek_before_the_engine_saw_the_response_repeats_no_record() -> None:
    with World() as world:
        lagging = Lagging(world)
        lagging.arrive()
        lagging.consuming.rows.clear()
        lagging.engine(lambda: lagging.consuming.fetcher.seek(lagging.cursor, 13))
        lagging.consuming.until_read({("t", 0): lagging.rows["t", 0][13:]})
        lagging.consuming.close()


@pytest.mark.parametrize("strategy", ["hybrid", "per_partition", "per_node"])
def test_going_back_by_time_while_a_request_is_parked_gives_everything_once_and_in_order(strategy: str) -> None:
    """The seek keeps the generation: buffered records are still to be read, the parked request's records are not."""
    with World() as world:
        lagging = Lagging(world, fetch_strategy=strategy)
        lagging.consuming.rows.clear()
        lagging.engine(lambda: lagging.consuming.fetcher.seek_by_time(lagging.cursor, EARLIEST))
        lagging.consuming.until(lambda: lagging.cursor.position == 0, reads=False)
        lagging.rows["t", 0] += write(world, "t", records=3)
        lagging.consuming.until_read(lagging.rows)
        lagging.consuming.close()


@pytest.mark.parametrize("strategy", ["hybrid", "per_partition", "per_node"])
def test_a_seek_by_time_drops_records_that_arrived_before(strategy: str) -> None:
    with World() as world:
        lagging = Lagging(world, fetch_strategy=strategy)
        lagging.arrive()
        lagging.consuming.rows.clear()
        lagging.engine(lambda: lagging.consuming.fetcher.seek_by_time(lagging.cursor, EARLIEST))
        lagging.consuming.until(lambda: lagging.cursor.position == 0, reads=False)
        lagging.consuming.until_read(lagging.rows)
        lagging.consuming.close()


@pytest.mark.parametrize("trouble", ["connection", "leader"])
@pytest.mark.parametrize("strategy", ["hybrid", "per_partition"])
def test_records_whose_response_the_engine_never_sees_count(trouble: str, strategy: str) -> None:
    with World(brokers=2) as world:
        lagging = Lagging(world, fetch_strategy=strategy)
        lagging.arrive()
        if trouble == "connection":
            world.break_connections(world.topics["t"].partitions[0].leader)
        else:
            lagging.engine(lambda: lagging.consuming.fetcher.brokers.move([lagging.cursor]))
        lagging.engine(lambda: None)
        lagging.consuming.until(lambda: lagging.cursor.position == 15, reads=False)
        assert lagging.consuming.drain() == 1
        assert lagging.consuming.queue.queued_bytes() == 0, "bytes that were read are paid back"
        lagging.rows["t", 0] += write(world, "t", records=2)
        lagging.consuming.until_read(lagging.rows)
        lagging.consuming.close()


def test_a_partition_that_was_removed_in_between_disturbs_no_other() -> None:
    with World() as world:
        lagging = Lagging(world, partitions=2)
        lagging.arrive()
        lagging.engine(lambda: lagging.consuming.fetcher.remove(lagging.cursor, claimed=False))
        lagging.rows["t", 0] = lagging.rows["t", 0][:12]
        lagging.rows["t", 1] += write(world, "t", 1, records=2)
        lagging.consuming.until_read(lagging.rows)
        lagging.consuming.close()


def test_going_back_by_time_during_an_immediate_fetch_gives_everything_once_and_in_order() -> None:
    async def slow(_: Call) -> None:
        await asyncio.sleep(0.3)

    with World() as world:
        lagging = Lagging(world, partitions=2)
        fetcher = lagging.consuming.fetcher
        world.on("Fetch", slow)
        before = len(world.made("Fetch"))
        lagging.engine(lambda: fetcher.seek(lagging.cursor, 9))  # the request that is parked does not name it so
        lagging.consuming.until(lambda: len(world.made("Fetch")) > before, 5, reads=False)
        broker_fetcher = fetcher.brokers.fetcher_of(lagging.cursor)
        assert broker_fetcher is not None
        assert lagging.cursor in broker_fetcher._lent
        world.off("Fetch")
        lagging.consuming.rows.pop(("t", 0))
        lagging.engine(lambda: fetcher.seek_by_time(lagging.cursor, EARLIEST))
        lagging.consuming.until_read(lagging.rows)
        lagging.consuming.close()


def test_a_stream_of_a_dropped_partition_gets_no_later_records() -> None:
    with World() as world:
        lagging = Lagging(world)
        stream = lagging.consuming.stream(0)
        lagging.arrive()  # three records without a reader
        world.pass_time(LAG_S + 0.1)  # the next request is parked
        lagging.engine(lambda: lagging.consuming.core.assignment.ending([TopicPartition("t", 0)]))
        write(world, "t", records=3)
        world.pass_time(1.0)
        with pytest.raises(StreamEnded):
            stream.read(0)
        lagging.consuming.close()
