"""`consumer.offsets.commits`: processed records are committed, never more; by itself, by hand, at the end."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kafwire.errors import BrokerError, ConfigError, ErrorCode
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.group.committing_consumer import committed, group
from tests.support.simulated.consumer import Consuming, fill, log_of, write
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")
# Of tests that count batches of several records.
by_batches = pytest.mark.shapes("as_written", "many_partitions")

WHERE = TopicPartition("t", 0)


@by_batches
def test_a_batch_is_processed_when_the_next_is_asked_for() -> None:
    with World() as world:
        fill(world, "t", batches=3)
        with group(world, auto_commit_interval_ms=1000) as consuming:
            consuming.idle(0.5)
            for expected in (0, 3, 6, 9):
                consuming.take()
                consuming.idle(1.1)
                assert committed(world) in ({0: expected}, {} if expected == 0 else None)


def test_processed_records_are_committed_at_the_end() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3)
        consuming = group(world, 3)
        consuming.until_read(rows)
        consuming.reader.settle()
        consuming.close()
        assert committed(world) == {0: 12, 1: 12, 2: 12}
        for number in range(3):
            rows["t", number] = write(world, "t", number)
        with group(world, 3, start=None) as again:
            again.until_read(rows)


@by_batches
def test_the_last_batch_does_not_count_unless_the_user_comes_back() -> None:
    with World() as world:
        fill(world, "t", batches=2)
        consuming = group(world)
        consuming.idle()
        consuming.take()
        consuming.take()
        consuming.close()
        assert committed(world) == {0: 3}


def test_nothing_is_committed_if_that_is_not_wanted() -> None:
    with World() as world:
        rows = fill(world, "t")
        with group(world, enable_auto_commit=False) as consuming:
            consuming.until_read(rows)
            consuming.idle(30)
        assert committed(world) == {}


@by_batches
def test_commits_by_hand() -> None:
    with World() as world:
        fill(world, "t", partitions=2, batches=3)
        with group(world, 2, enable_auto_commit=False) as consuming:
            consuming.idle()
            batch = consuming.take()
            assert batch is not None
            world.run(consuming.core.commits.commit(batch))
            assert committed(world) == {batch.partition: 3}
            world.run(consuming.core.commits.commit({TopicPartition("t", 1): 7}))
            assert committed(world)[1] == 7
            found = world.run(consuming.core.commits.committed(None))
            assert dict(found) == {
                TopicPartition("t", 0): committed(world).get(0),
                TopicPartition("t", 1): 7,
            }
            with pytest.raises(ConfigError, match="u-0 is not read by this consumer"):
                world.run(consuming.core.commits.commit({TopicPartition("u", 0): 7}))
    with World() as world:
        fill(world, "t")
        with Consuming(world, topics="t") as consuming, pytest.raises(ConfigError, match="a group_id is needed"):
            world.run(consuming.core.commits.commit(None))


@by_batches
def test_a_close_does_not_undo_an_explicit_commit() -> None:
    with World() as world:
        fill(world, "t", batches=3)
        consuming = group(world)
        consuming.idle()
        batch = consuming.take()
        assert batch is not None
        world.run(consuming.core.commits.commit(batch))
        consuming.close()
        assert committed(world) == {0: 3}


def test_unchanged_offsets_are_not_committed_again() -> None:
    with World() as world:
        rows = fill(world, "t")
        with group(world, auto_commit_interval_ms=500) as consuming:
            consuming.until_read(rows)
            consuming.idle(2)
            before = len(world.made("OffsetCommit"))
            consuming.idle(20)
            assert len(world.made("OffsetCommit")) == before


def test_a_commit_that_fails_is_tried_again() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t")
        options: dict[str, Any] = {"auto_commit_interval_ms": 500, "default_api_timeout_ms": 2000}
        with group(world, **options) as consuming:
            world.loading.add("g")
            consuming.until_read(rows)
            consuming.idle(10)
            assert committed(world) == {}
            world.loading.clear()
            world.move_coordinator("g", 2)
            consuming.idle(5)
            assert committed(world) == {0: 12}
            world.set_group_error(ErrorCode.UNKNOWN_MEMBER_ID)
            with pytest.raises(BrokerError, match="member"):
                world.run(consuming.core.commits.commit({WHERE: 5}))
            world.set_group_error(0)


def test_automatic_commits_go_on_after_a_defect(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        rows = fill(world, "t")
        with group(world, auto_commit_interval_ms=500) as consuming:
            commits, commit = consuming.core.commits, consuming.core.commits.commit
            commits.commit = lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment]
            consuming.until_read(rows)
            consuming.idle(2)
            assert committed(world) == {}
            assert "the automatic commit failed; the next one follows in 500 ms" in caplog.text
            commits.commit = commit  # type: ignore[method-assign]
            consuming.idle(2)
            assert committed(world) == {0: 12}


@by_batches
def test_a_partition_with_a_stream_is_settled_by_its_own_reader() -> None:
    with World() as world:
        fill(world, "t", partitions=2, batches=3)
        with group(world, 2, asks=False, auto_commit_interval_ms=500) as consuming:
            reader = consuming.stream(1)
            world.run(consuming.core.assignment.ask())
            consuming.idle()
            for _ in range(2):
                consuming.take(reader)
            consuming.drain()
            consuming.idle()
            assert committed(world) == {0: 9, 1: 3}


def test_seeks_go_back_and_forth() -> None:
    with World() as world:
        rows = fill(world, "t")
        with group(world, auto_commit_interval_ms=500) as consuming:
            consuming.until_read(rows)
            consuming.idle()
            assert committed(world) == {0: 12}
            consuming.seek(3)
            consuming.idle(0)
            consuming.pause(0)
            consuming.idle()
            assert committed(world) == {0: 3}
        assert committed(world) == {0: 3}


def test_a_truncated_log_takes_the_commit_back() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", batches=20, records=1, replicas=2)
        with group(world, auto_commit_interval_ms=500, auto_offset_reset="earliest") as consuming:
            consuming.until_read(rows)
            consuming.idle()
            assert committed(world) == {0: 20}
            world.lose_records("t", 0, 2, 10)
            consuming.idle(3)
            consuming.drain()
            consuming.idle()
            assert committed(world) == {0: 10}


def test_a_log_that_was_cut_while_no_consumer_read() -> None:
    """The commit names the leader epoch of the last record (KIP-320)."""
    with World(brokers=2) as world:
        rows = fill(world, "t", batches=20, records=1, replicas=2)
        consuming = group(world)
        consuming.until_read(rows)
        consuming.reader.settle()
        consuming.close()
        assert world.committed["g"]["t", 0][:2] == (20, 0)
        world.lose_records("t", 0, 2, 10)
        new = write(world, "t", batches=15)
        with group(world, start=None) as again:
            again.until_read({("t", 0): new})
            assert again.fetcher.validation.truncations == 1
        consuming = group(world, start=None)
        consuming.seek(5)
        consuming.idle()
        consuming.take()
        consuming.reader.settle()
        consuming.close()
        assert world.committed["g"]["t", 0][:2] == (6, 0)


@seeds.several(20)
def test_commits_never_pass_delivered_records(seed: int) -> None:
    """I5, through readers that stop at any moment, seeks, lost connections and coordinators that move."""
    chance = random.Random(seed)
    with World(brokers=3, seed=seed) as world:
        fill(world, "t", partitions=3, batches=10)
        options: dict[str, Any] = {"auto_commit_interval_ms": 50, "max_partition_fetch_bytes": 300}
        consuming = group(world, 3, **options)
        handed = dict.fromkeys(range(3), 0)
        processed: dict[int, set[int]] = {number: {0} for number in range(3)}  # at any time: a commit may be late
        for _ in range(60):
            what = chance.random()
            if what < 0.6:
                for number, offset in handed.items():
                    processed[number].add(offset)
                batch = consuming.take()
                if batch is not None:
                    assert batch.partition is not None
                    handed[batch.partition] = batch.next_offset
            elif what < 0.7:
                number = chance.randrange(3)
                handed[number] = chance.randrange(log_of(world, "t", number).end)
                processed[number].add(handed[number])
                consuming.seek(handed[number], "t", number)
            elif what < 0.8:
                world.break_connections(chance.randint(1, 3))
            elif what < 0.9:
                world.move_coordinator("g", chance.randint(1, 3))
            else:
                write(world, "t", chance.randrange(3), records=2)
            consuming.idle(chance.choice([0, 0.01, 0.2]))
            assert all(offset in processed[number] for number, offset in committed(world).items())
        consuming.reader.settle()
        consuming.close()
        assert committed(world) == handed


@pytest.mark.parametrize("silent", [False, True])
def test_closing_ends_in_time_though_nothing_can_be_committed(silent: bool, caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        rows = fill(world, "t")
        consuming = group(world, auto_commit_interval_ms=3_600_000)
        consuming.until_read(rows)
        consuming.reader.settle()
        world.loading.add("g")
        if silent:
            world.on("OffsetCommit", lambda _: asyncio.sleep(100))
        before = world.engine.now_ms()
        world.run(consuming.core.close(5.0))
        # The pause before a last attempt is of 1.2 s at most, and none begins after the end.
        assert 3_500 < world.engine.now_ms() - before < 6_500
        assert committed(world) == {}
    assert "closed without committing the offsets processed last" in caplog.text
    assert "t-0" in caplog.text


def test_a_commit_that_fails_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(call: Call) -> Any:
        response = world.serve(call)
        for part in (part for topic in response.topics for part in topic.partitions):
            part.error_code = 30
        return response

    def reported() -> int:
        return sum("processed offsets could not be committed" in record.message for record in caplog.records)

    with World() as world:
        fill(world, "t", batches=3)
        with group(world) as consuming:
            consuming.idle()
            consuming.take()
            consuming.take()
            world.on("OffsetCommit", refuse)
            consuming.idle(100)
            assert len(world.made("OffsetCommit")) >= 15
            assert reported() == 1
            world.off("OffsetCommit")
            consuming.idle(10)
            consuming.take()
            world.on("OffsetCommit", refuse)
            consuming.idle(100)
            assert reported() == 2, "it had gone well meanwhile"
            world.off("OffsetCommit")
