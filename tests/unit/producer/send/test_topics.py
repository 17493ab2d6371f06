"""`producer.send.topics`: new partitions are used, and topics idle for `metadata_max_idle_ms` are asked for no more."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafwire.calls.producer import RowsToSend
from kafwire.errors import ErrorCode
from kafwire.producer.buffer._batch import BatchDelivery
from kafwire.records import decode_batches
from kafwire.records._arrow_rows import RowsReader
from tests.support.simulated.producer import Work, errors, log_of
from tests.support.simulated.world import World


def asked(world: World) -> set[str]:
    """The topics that the newest request for metadata names."""
    return {topic.name for topic in world.made("Metadata")[-1].message.topics}


@pytest.mark.parametrize("more", [False, True])
def test_a_topic_that_is_not_used_is_forgotten_and_found_again(*, more: bool) -> None:
    with World() as world:
        for name in ("busy", "idle"):
            world.create_topic(name)
        work = Work(world, "busy", "idle", metadata_max_idle_ms=30_000, metadata_max_age_ms=10_000)
        first = work.send("idle", b"0")
        for _ in range(6):
            work.send("busy", b"x")
            world.pass_time(5)
        assert asked(world) == {"busy", "idle"}
        for _ in range(6):
            work.send("busy", b"x")
            world.pass_time(5)
        assert asked(world) == {"busy"}
        assert "idle" not in work.accumulator.topics
        if more:
            world.add_partitions("idle", 2)
        world.run(work.core.ensure_metadata(["idle"], 60_000))
        again = work.send("idle", b"1")
        work.flush()
        assert [first.result(0).offset, again.result(0).offset] == [0, 1]
        assert len(work.accumulator.topics["idle"].queues) == (3 if more else 1)
        batches = [decode_batches(stored.data)[0] for stored in log_of(world, 0, "idle").batches]
        assert [batch.base_sequence for batch in batches] == [0, 1], "the sequence of a partition goes on"


def test_a_topic_with_records_that_wait_is_not_forgotten() -> None:
    with World() as world:
        for name in ("busy", "stuck"):
            world.create_topic(name)
        work = Work(world, "busy", "stuck", metadata_max_idle_ms=5_000, metadata_max_age_ms=1_000)
        log_of(world, 0, "stuck").leader = -1
        world.run(work.cluster.refresh())
        waiting = work.send("stuck", b"x")
        for _ in range(20):
            work.send("busy", b"x")
            world.pass_time(2)
        assert "stuck" in asked(world)
        world.move_leader("stuck", 0, 1)
        world.pass_time(2)
        assert waiting.result(0).offset == 0


def forget(world: World, work: Work) -> None:
    """Let time pass until the topics of `work` are forgotten."""
    for _ in range(30):
        world.pass_time(1)
        world.loop.call_soon(work.core.on_wake)
    world.pass_time(1)
    assert not work.accumulator.topics


@pytest.mark.parametrize("recreated", [False, True])
def test_records_of_a_thread_that_still_knows_a_forgotten_topic_arrive(*, recreated: bool) -> None:
    """The topic that a thread sent to last is not looked up for its next record."""
    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        work = Work(world, "t", metadata_max_idle_ms=10_000, metadata_max_age_ms=10_000)
        work.send("t", b"0")
        work.flush()
        forget(world, work)
        if recreated:
            world.create_topic("t", partitions=2)
        else:
            world.move_leader("t", 1, 1)
        sent = [work.send("t", b"1", partition=partition) for partition in range(3)]
        work.flush()
        logs = [log.values() for log in world.topics["t"].partitions]
        assert logs == ([[b"1"], [b"1"]] if recreated else [[b"0", b"1"], [b"1"], [b"1"]])
        assert [delivery.exception(0) is None for delivery in sent] == [True, True, not recreated]
        assert asked(world) == {"t"}
        assert list(work.accumulator.topics) == ["t"]
        assert work.used == 0


@pytest.mark.parametrize("recreated", [False, True])
def test_rows_that_wait_until_their_topic_is_forgotten_arrive(*, recreated: bool) -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", metadata_max_idle_ms=5_000, metadata_max_age_ms=1_000)
        (rows,) = RowsReader(pa.table({"value": [b"v"] * 40}))
        plan = work.accumulator.plan_rows("t", rows, None, 0)
        assert plan is not None
        if recreated:
            world.create_topic("t", partitions=2)
            for _ in range(2):
                world.run(work.cluster.refresh())
                world.pass_time(1.5)
        forget(world, work)
        parts: list[Any] = []
        is_finished = work.accumulator.append_rows(plan, parts)
        assert is_finished is not recreated
        if not is_finished:
            world.run(work.core.ensure_metadata(["t"], 60_000))
            assert work.accumulator.append_rows(plan, parts)
        work.flush()
        assert sum(count for _, _, _, count in BatchDelivery(parts).result(0)) == 40
        assert sum(len(log.values()) for log in world.topics["t"].partitions) == 40


def test_a_table_for_topics_that_are_forgotten_meanwhile_goes_on() -> None:
    with World() as world:
        for name in "tu":
            world.create_topic(name)
        work = Work(world, "t", "u", metadata_max_idle_ms=5_000, metadata_max_age_ms=1_000, buffer_memory=20_000)
        room = work.accumulator.budget.limit
        table = pa.table({"topic": ["t"] * 40 + ["u"] * 2, "value": [b"v" * 1_000] * 42})
        rows = RowsToSend(work.accumulator, None, (table,), None)
        assert not rows.go_on(), f"more than {room} bytes"
        forgotten = False
        while not rows.go_on():
            if rows.unknown:
                world.run(work.core.ensure_metadata(rows.unknown, 60_000))
            elif forgotten:
                world.pass_time(1)
            else:
                forget(world, work)
                forgotten = True
        work.flush()
        ranges = BatchDelivery(rows.parts).result(0)
        assert sum(count for topic, _, _, count in ranges if topic == "t") == 40
        assert log_of(world, 0, "u").values() == [b"v" * 1_000] * 2


def test_new_partitions_are_used_once_they_are_known() -> None:
    with World() as world:
        topic = world.create_topic("t")
        work = Work(world, "t")
        world.add_partitions(topic.name, 1)
        world.on(
            "Produce",
            lambda call: errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call) if len(world.made("Produce")) == 1 else None,
        )
        work.send("t", b"v")
        work.flush()
        world.pass_time(1)
        assert len(work.accumulator.topics["t"].queues) == 2
