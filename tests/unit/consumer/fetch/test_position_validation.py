"""`consumer.fetch.position_validation`: requests that find a truncated log, and the records read then."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.groups.offsets_topic import Committed as Kept
from kafwire.calls.consumer import layouts, selection_of
from kafwire.cluster.cluster import Cluster
from kafwire.config import ConsumerConfig
from kafwire.consumer.core import ConsumerCore
from kafwire.errors import BrokerError, LogTruncatedError
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import Consuming, fill, write
from tests.support.simulated.world import World

in_all_shapes = pytest.mark.usefixtures("shape")
# Of tests that count partitions, or log lines about them.
few_partitions = pytest.mark.shapes("as_written", "single_records")

WHERE = TopicPartition("t", 0)


@in_all_shapes
@pytest.mark.parametrize("policy", ["earliest", "latest", "error"])
@pytest.mark.parametrize("read_first", [0, 3, 12, 20])
def test_truncated_logs(read_first: int, policy: str) -> None:
    """KIP-320: records buffered from before the cut are read once, then the new records of the log."""
    with World(brokers=2) as world:
        rows = fill(world, "t", batches=20, records=1, replicas=2)["t", 0]
        with Consuming(world, topics="t", auto_offset_reset=policy, fetch_max_wait_ms=100) as consuming:
            consuming.idle()
            ends_s = world.loop.time() + 10
            while len(consuming.rows.get(("t", 0), [])) < read_first:
                if consuming.take() is None:
                    consuming.idle(0.01)
                    assert world.loop.time() < ends_s, "the records do not come"
            world.lose_records("t", 0, 2, 10)
            new = write(world, "t", batches=3)
            consuming.idle(3)
            expected = rows[: max(10, read_first)]
            if policy == "error":
                consuming.rows.setdefault(("t", 0), [])
                with pytest.raises(LogTruncatedError, match="seek to 10") as caught:
                    consuming.drain()
                assert (caught.value.position, caught.value.offset) == (20, 10)
                assert consuming.rows["t", 0] == expected
                consuming.seek(10)
            consuming.idle()
            consuming.drain()
            assert consuming.rows["t", 0] == expected + new
            assert consuming.fetcher.validation.truncations == 1
            assert world.run(consuming.core.positions.position(WHERE)) == 13
            more = write(world, "t")
            consuming.idle()
            consuming.drain()
            assert consuming.rows["t", 0] == expected + new + more


@in_all_shapes
def test_a_log_that_is_cut_twice() -> None:
    """Nothing came in between: the known end of the epoch is from the first cut."""
    with World(brokers=2) as world:
        rows = fill(world, "t", batches=20, records=1, replicas=2)["t", 0]
        with Consuming(world, topics="t", auto_offset_reset="earliest", fetch_max_wait_ms=100) as consuming:
            consuming.until_read({("t", 0): rows})
            for node, offset in ((2, 10), (1, 5)):
                world.lose_records("t", 0, node, offset)
                consuming.idle(3)
            new = write(world, "t", batches=2)
            consuming.until_read({("t", 0): rows + new})
            assert consuming.fetcher.validation.truncations == 2
            assert not consuming.fetcher.offset_reset.count


@in_all_shapes
@pytest.mark.thousand
def test_leaders_that_agree_truncate_nothing() -> None:
    """librdkafka 0139: two changes of the leader, the whole log kept."""
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=3, replicas=3)
        with Consuming(world, topics="t") as consuming:
            for node in (2, 3, 1, 2):
                consuming.until_read(rows)
                for number in range(3):
                    world.move_leader("t", number, node)
                    rows["t", number] += write(world, "t", number)
            consuming.until_read(rows)
            assert not consuming.fetcher.validation.truncations
            assert not consuming.fetcher.offset_reset.count


def read_near(world: World) -> tuple[ConsumerCore, list[bytes | None]]:
    """A consumer in the rack of broker 2, which follows broker 1, after it has read the log; and its values."""
    for number in (1, 2, 3):
        world.nodes[number].rack = f"rack{number}"
    for value in (b"a", b"b", b"c"):
        world.topics["t"].partitions[0].append_values([value])
    config = ConsumerConfig.build(
        {
            "bootstrap_servers": world.bootstrap,
            "client_rack": "rack2",
            "auto_offset_reset": "earliest",
        }
    )
    core = ConsumerCore(Cluster(world.engine, config), config, selection_of(None, [WHERE], None), layouts(None, None))
    world.run(core.start_once())
    world.run(core.assignment.ask())
    world.pass_time(1)
    assert world.made("Fetch")[-1].node == 2
    return core, values(core)


def values(core: ConsumerCore) -> list[bytes | None]:
    reader = core.reader()
    found = []
    while (batch := reader.read(0)) is not None:
        found += [record.value for record in batch]
    return found


def test_log_of_a_replica_that_was_cut_is_doubted_until_the_leader_says_so() -> None:
    """The leader says so when it is asked for the epoch: fetches with a rack it sends to the replica again."""
    with World(brokers=3) as world:
        world.create_topic("t", replicas=3)
        core, read = read_near(world)
        assert read == [b"a", b"b", b"c"]
        before = len(world.made("Fetch"))
        world.lose_records("t", 0, 1, 1)
        new = [b"%d" % number for number in range(5)]
        world.topics["t"].partitions[0].append_values(new)
        world.pass_time(2)
        assert values(core) == new
        assert [call.node for call in world.made("OffsetForLeaderEpoch")] == [1]
        assert len(world.made("Fetch")) - before < 20
        core.fetcher.stop()


def test_replica_that_is_behind_is_not_believed() -> None:
    """The replica's response says that the log ends before the position; the leader's does not."""
    with World(brokers=3) as world:
        world.create_topic("t", replicas=3)
        core, _ = read_near(world)
        before = len(world.made("Fetch"))
        behind = True

        def diverge(call: Call) -> Any:
            if call.node != 2 or not behind:
                return None
            response = world.fetch_now(call)
            response_type = protocol.FetchResponse
            part = response_type.PartitionData(
                partition_index=0, high_watermark=2, last_stable_offset=2, log_start_offset=0
            )
            part.diverging_epoch = response_type.EpochEndOffset(epoch=0, end_offset=2)
            topic_id = world.topics["t"].topic_id
            response.responses = [response_type.FetchableTopicResponse(topic_id=topic_id, partitions=[part])]
            return response

        world.on("Fetch", diverge)
        world.pass_time(5)
        assert 3 < len(world.made("Fetch")) - before < 100
        assert core.fetcher.validation.truncations == 0
        behind = False
        world.topics["t"].partitions[0].append_values([b"d"])
        world.pass_time(5)
        assert values(core) == [b"d"]
        core.fetcher.stop()


# ---- committed offsets of an epoch that brokers do not know (KIP-320)


def old_news(call: Call, world: World) -> Any:
    """The metadata of a broker that does not know of the election: broker 1 leads, in epoch 0."""
    response = world.serve(call)
    for part in (part for topic in response.topics for part in topic.partitions if part.partition_index == 0):
        part.leader_id, part.leader_epoch = 1, 0
    return response


def old_leader(call: Call) -> Any:
    """The response of broker 1, which does not know of it either, and has less."""
    if call.node != 1:
        return None
    response = protocol.FetchResponse
    topics = [
        response.FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[
                response.PartitionData(partition_index=part.partition, error_code=1, high_watermark=-1, records=b"")
                for part in topic.partitions
            ],
        )
        for topic in call.message.topics
    ]
    return response(responses=topics)


@in_all_shapes
@few_partitions
@pytest.mark.parametrize("policy", ["earliest", "latest", "error"])
@pytest.mark.parametrize("lag_s", [0.0, 0.5, 20.0])
def test_metadata_older_than_the_committed_epoch_is_ignored(lag_s: float, policy: str) -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", replicas=2)["t", 0]
        world.move_leader("t", 0, 2)
        rows += write(world, "t", 0, 3)
        world.committed["g"]["t", 0] = Kept(14, 1)
        until_ms = world.engine.now_ms() + lag_s * 1000
        world.on("Metadata", lambda call: old_news(call, world) if call.at_ms < until_ms else None)
        world.on("Fetch", old_leader)
        options: dict[str, Any] = {"assign": [("t", 0)], "start": None, "group_id": "g", "auto_offset_reset": policy}
        with Consuming(world, **options) as consuming:
            consuming.until_read({("t", 0): rows[14:]})
            assert {call.node for call in consuming.fetches()} == {2}
            assert len(world.made("Metadata")) < 12 + lag_s * 1.5  # with backoff


@in_all_shapes
@few_partitions
@pytest.mark.parametrize(
    ("offset", "policy", "first"),
    [(8, "earliest", 8), (12, "earliest", 12), (13, "earliest", 0), (2, "earliest", 2), (8, "error", 8)],
)
def test_an_epoch_that_stays_unknown(offset: int, policy: str, first: int, caplog: pytest.LogCaptureFixture) -> None:
    """Metadata is refreshed for a limited time; then the log is asked whether it has the offset."""
    with World() as world:
        rows = fill(world, "t")["t", 0]
        world.committed["g"]["t", 0] = Kept(offset, 3)
        options: dict[str, Any] = {"assign": [("t", 0)], "start": None, "group_id": "g", "auto_offset_reset": policy}
        with Consuming(world, default_api_timeout_ms=20_000, **options) as consuming:
            consuming.idle(19)
            assert not consuming.drain()
            assert 15 < len(world.made("Metadata")) < 35
            consuming.idle(5)
            before = len(world.made("Metadata"))
            rows += write(world, "t")
            consuming.until_read({("t", 0): rows[first:]})
            consuming.idle(30)
            assert len(world.made("Metadata")) == before  # it looks stale no more
            world.run(consuming.core.commits.commit({WHERE: 13}))
            assert world.committed["g"]["t", 0][:3] == Kept(13, 0)[:3]
    assert "leader epoch 3, and brokers know none newer than 0" in caplog.text
    assert ("the log has that offset: reading continues there" in caplog.text) == (first == offset)


@in_all_shapes
@few_partitions
def test_an_epoch_that_stays_unknown_and_an_offset_beyond_the_log() -> None:
    with World() as world:
        fill(world, "t")
        world.committed["g"]["t", 0] = Kept(15, 3)
        options: dict[str, Any] = {"assign": [("t", 0)], "start": None, "group_id": "g", "auto_offset_reset": "error"}
        with Consuming(world, default_api_timeout_ms=5_000, **options) as consuming:
            consuming.idle(10)
            with pytest.raises(
                LogTruncatedError, match="epoch 3, and brokers know none newer than 0; the log ends at 12"
            ):
                consuming.take()
            consuming.seek(12)
            rows = write(world, "t")
            consuming.until(lambda: consuming.rows.get(("t", 0)) == rows)


@in_all_shapes
@few_partitions
def test_an_epoch_that_stays_unknown_and_a_denied_look_at_the_log() -> None:
    """An error that no retry mends is raised at once, not retried for ever."""
    with World() as world:
        rows = fill(world, "t")["t", 0]
        world.committed["g"]["t", 0] = Kept(8, 3)

        def refuse(call: Call) -> Any:
            response = world.serve(call)
            for part in (part for topic in response.topics for part in topic.partitions):
                part.error_code = 29
            return response

        world.on("ListOffsets", refuse)
        options: dict[str, Any] = {"assign": [("t", 0)], "start": None, "group_id": "g"}
        with Consuming(world, default_api_timeout_ms=5_000, **options) as consuming:
            consuming.idle(10)
            assert len(world.made("ListOffsets")) == 1
            with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
                consuming.take()
            world.off("ListOffsets")
            consuming.seek(8)
            consuming.until_read({("t", 0): rows[8:]})
