"""Lookups of positions while a partition has no leader, or its leader does not respond: the others are read."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from kafwire.cluster.list_offsets import EARLIEST, LATEST, PATIENCE_MS, list_available
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, KafkaTimeoutError
from kafwire.records import encode_batch
from kafwire.testing.simulation.calls import NEVER, Call, Response
from kafwire.types import Tail, TopicPartition
from tests.support.simulated.consumer import Consuming, Rows, fill, log_of
from tests.support.simulated.world import World

LOST = TopicPartition("t", 1)
ALL = [("t", 0), ("t", 1), ("t", 2)]
STARTS: list[Any] = ["earliest", Tail(100), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]


def world_without_a_leader(*, how: str) -> tuple[World, Rows]:
    """A world in which one partition of three is not available, and all rows."""
    world = World(brokers=2)
    world.create_topic("t", partitions=3)
    rows: Rows = {}
    for number in range(3):
        rows["t", number] = [(offset, b"%d-%d" % (number, offset)) for offset in range(12)]
        for _, value in rows["t", number]:
            log_of(world, "t", number).append(encode_batch([{"value": value, "timestamp_ms": 1_000}]))
    if how == "leaderless":
        log_of(world, "t", 1).lead(-1, 1)
    else:
        world.on("ListOffsets", lambda call: NEVER if call.node == 2 else world.serve(call))
    return world, rows


def revive(world: World) -> None:
    world.off("ListOffsets")
    log_of(world, "t", 1).lead(1, 2)


@pytest.mark.parametrize("how", ["leaderless", "silent"])
@pytest.mark.parametrize("start", STARTS, ids=str)
@pytest.mark.parametrize("chosen", [{"topics": ["t"]}, {"assign": ALL}], ids=["topics", "assign"])
def test_a_consumer_reads_the_other_partitions(
    how: str, start: Any, chosen: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    world, rows = world_without_a_leader(how=how)
    with world:
        began = world.loop.time()
        with Consuming(world, start=start, **chosen) as consuming:
            assert world.loop.time() - began <= 2 * PATIENCE_MS / 1000 + 0.5
            consuming.until_read({where: rows[where] for where in ALL if where != LOST}, limit_s=5)
            (line,) = [each.message for each in caplog.records if each.levelname == "WARNING" and "t-1" in each.message]
            assert "the position of t-1 could not be found" in line
            assert "t-0" not in line
            revive(world)
            consuming.until_read(rows, limit_s=40)


def test_a_subscription_reads_the_other_partitions() -> None:
    world, rows = world_without_a_leader(how="leaderless")
    with world:
        rows |= fill(world, "u")
        with Consuming(world, topics="u") as consuming:
            consuming.until_read({("u", 0): rows["u", 0]})
            world.run(consuming.core.assignment.subscribe(["u", "t"]))
            consuming.until_read({where: rows[where] for where in rows if where != LOST}, limit_s=10)


def test_a_seek_by_time_moves_the_other_partitions() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            log_of(world, "t", 1).lead(-1, 1)
            world.run(consuming.cluster.refresh(at_once=True))
            consuming.rows.clear()
            found = world.run(consuming.core.positions.seek_to(EARLIEST, None))
            assert found == {TopicPartition("t", 0): 0, TopicPartition("t", 2): 0}
            consuming.until_read({where: rows[where] for where in ALL if where != LOST})
            revive(world)
            consuming.until_read(rows)


def test_a_user_seek_replaces_the_lookup_of_a_partition_without_a_leader() -> None:
    world, rows = world_without_a_leader(how="leaderless")
    with world, Consuming(world, topics="t") as consuming:
        consuming.seek(6, "t", 1)
        revive(world)
        consuming.until_read({**rows, ("t", 1): rows["t", 1][6:]})


def test_a_refusal_that_lasts_is_raised_although_another_partition_has_no_leader() -> None:
    world, _ = world_without_a_leader(how="leaderless")

    def refuse(call: Call) -> Response:
        response = world.serve(call)
        for part in response.topics[0].partitions:
            if part.partition_index == 2:
                part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return response

    with world:
        world.on("ListOffsets", refuse)
        with pytest.raises(AuthorizationError):
            Consuming(world, topics="t")


def test_partitions_behind_one_leader_are_asked_for_in_one_request() -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=40)
        for number in range(1, 40, 2):
            log_of(world, "t", number).lead(-1, 1)
        with Consuming(world, topics="t") as consuming:
            consuming.idle(3)
            for number in range(1, 40, 2):
                log_of(world, "t", number).lead(2, 2)
            before = len(world.made("ListOffsets"))
            consuming.idle(5)
            assert 1 <= len(world.made("ListOffsets")) - before <= 3


@pytest.mark.parametrize("how", ["leaderless", "silent"])
def test_available_offsets_and_the_errors_of_the_others(how: str) -> None:
    world, _ = world_without_a_leader(how=how)
    with world, Consuming(world, assign=[]) as consuming:
        began = world.loop.time()
        found, failed = world.run(list_available(consuming.cluster, {**dict.fromkeys(ALL, LATEST), ("no", 0): LATEST}))
        assert world.loop.time() - began <= 2 * PATIENCE_MS / 1000
        assert found == {("t", 0): 12, ("t", 2): 12}
        assert set(failed) == {("t", 1), ("no", 0)}
        lost = failed["t", 1]
        if how == "silent":
            assert isinstance(lost, KafkaTimeoutError)
            assert "broker 2, the leader of t-1, has not responded for 2 s" in str(lost)
        else:
            assert isinstance(lost, BrokerError)
            assert lost.name == "LEADER_NOT_AVAILABLE"


def test_a_silent_leader_delays_no_other_lookup_of_a_running_consumer() -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=3)
        with Consuming(world, topics="t", auto_offset_reset="latest") as consuming:
            consuming.idle()

            async def slow(call: Call) -> Any:
                if call.node == 2:
                    await asyncio.sleep(10)
                return world.serve(call)

            world.on("ListOffsets", slow)
            for number in range(3):
                consuming.seek(99, "t", number)
            consuming.idle(3)
            positions = [consuming.queue.position(consuming.fetcher.cursors["t", n].number) for n in range(3)]
            assert positions[0] == positions[2] == 12
            assert positions[1] == 99
