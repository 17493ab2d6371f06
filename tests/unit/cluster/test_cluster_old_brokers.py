"""Brokers of older releases, by the versions of APIs that they offer: what works with them, and what refuses them.

The tables are the newest versions that the releases' own definitions have.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.calls.client import ClientCalls
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ClientConfig, ScanConfig
from kafwire.errors import ProtocolError
from kafwire.protocol.versions import NEEDED, lacking
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import Consuming
from tests.support.simulated.producer import Work, committed_values, log_of
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting

KAFKA_2_5 = {
    "Produce": 8,
    "Fetch": 11,
    "ListOffsets": 5,
    "Metadata": 9,
    "OffsetCommit": 8,
    "OffsetFetch": 7,
    "FindCoordinator": 3,
    "ApiVersions": 3,
    "CreateTopics": 5,
    "DeleteTopics": 4,
    "InitProducerId": 3,
    "OffsetForLeaderEpoch": 3,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 3,
    "DescribeConfigs": 2,
}
KAFKA_2_8 = {
    "Produce": 9,
    "Fetch": 12,
    "ListOffsets": 6,
    "Metadata": 11,
    "OffsetCommit": 8,
    "OffsetFetch": 7,
    "FindCoordinator": 3,
    "ApiVersions": 3,
    "CreateTopics": 7,
    "DeleteTopics": 6,
    "InitProducerId": 4,
    "OffsetForLeaderEpoch": 4,
    "AddPartitionsToTxn": 3,
    "AddOffsetsToTxn": 3,
    "EndTxn": 3,
    "TxnOffsetCommit": 3,
    "DescribeConfigs": 4,
}
releases = pytest.mark.parametrize("release", [KAFKA_2_5, KAFKA_2_8], ids=["2.5", "2.8"])


def old_world(release: dict[str, int], **changes: tuple[int, int]) -> World:
    """A broker that has these versions, and no API beside them."""
    world = World(topic_ids=False)
    world.transaction_version = 0
    world.nodes[1].versions = {name: (0, newest) for name, newest in release.items()} | changes
    return world


def spoken(world: World) -> dict[str, int]:
    return {call.name: call.version for call in world.calls}


@releases
def test_records_go_there_and_back(release: dict[str, int]) -> None:
    with old_world(release) as world:
        world.create_topic("t")
        work = Work(world, "t")
        deliveries = [work.send("t", b"%d" % n) for n in range(10)]
        work.flush()
        assert [delivery.result().offset for delivery in deliveries] == list(range(10))
        with Consuming(world, topics="t") as consuming:
            consuming.until_read({("t", 0): [(n, b"%d" % n) for n in range(10)]})
        cluster = Cluster(world.engine, ScanConfig.build({"bootstrap_servers": world.bootstrap}))
        assert world.run(list_offsets(cluster, {("t", 0): EARLIEST})) == {("t", 0): 0}
        assert world.run(list_offsets(cluster, {("t", 0): LATEST})) == {("t", 0): 10}
        said = spoken(world)
        assert said.pop("ApiVersions") <= 5, "a server that lacks it says which it has"
        for name, version in said.items():
            assert version <= release[name], name


@releases
def test_transactions_and_a_groups_offsets(release: dict[str, int]) -> None:
    with old_world(release) as world:
        world.create_topic("t")
        world.create_topic("in")
        producer = Transacting(world)
        producer.begin()
        producer.send("t", b"committed")
        producer.send_offsets(7)
        producer.commit()
        producer.begin()
        producer.send("t", b"aborted")
        producer.abort()
        world.pass_time(1)  # until the markers are written
        assert committed_values(log_of(world)) == [b"committed"]
        with Consuming(world, assign=[("t", 0)], group_id="g", isolation_level="read_committed") as consuming:
            consuming.until_read({("t", 0): [(0, b"committed")]})
            world.run(consuming.core.commits.commit({TopicPartition("t", 0): 1}))
            committed = world.run(consuming.core.commits.committed([TopicPartition("t", 0), TopicPartition("in", 0)]))
        offsets = {where.topic: found for where, found in committed.items() if found is not None}
        assert offsets == {"t": 1, "in": 7}
        said = spoken(world)
        assert said.pop("ApiVersions") <= 5
        for name, version in said.items():
            assert version <= release[name], name


@releases
def test_a_release_lacks_nothing(release: dict[str, int]) -> None:
    keys: dict[str, Any] = {name: protocol.MESSAGES[f"{name}Request"] for name in release}
    offered = {keys[name].api_key: (0, newest) for name, newest in release.items()}
    assert lacking(offered) == []


def test_the_needed_versions_are_declared() -> None:
    kinds: dict[str, Any] = {name: protocol.MESSAGES[f"{name}Request"] for apis in NEEDED.values() for name in apis}
    assert all(kind.min_version <= kind.LEAST <= kind.max_version for kind in kinds.values())
    above = {name: kind.LEAST for name, kind in kinds.items() if kind.min_version < kind.LEAST}
    assert above == {"Metadata": 4, "OffsetFetch": 7}


@pytest.mark.parametrize("name", ["Metadata", "Fetch", "ListOffsets", "Produce"])
def test_a_broker_below_is_refused_by_name(name: str) -> None:
    """The error comes at once, and names the needed version."""
    kind: Any = protocol.MESSAGES[f"{name}Request"]
    with old_world(KAFKA_2_8, **{name: (0, kind.LEAST - 1)}) as world:
        world.create_topic("t")
        config = ClientConfig.build({"bootstrap_servers": world.bootstrap})
        cluster = Cluster(world.engine, config)
        started = world.engine.now_ms()
        with pytest.raises(ProtocolError) as caught:
            if name == "Metadata":
                world.engine.run(cluster.topic, "t")
            else:
                world.engine.run(ClientCalls(cluster).call(kind()))
        assert world.engine.now_ms() - started < 1_000
        for words in (f"{name}Request", f"the broker 0 to {kind.LEAST - 1}", "Kafka 3.0 or newer is needed"):
            assert words in str(caught.value)


@pytest.mark.parametrize("name", ["Produce", "InitProducerId"])
def test_requests_that_cannot_be_sent_fail_at_once(name: str) -> None:
    """The error names the missing API; Kafka 2.8 with its early KRaft has no producer ids."""
    with old_world(KAFKA_2_8) as world:
        world.create_topic("t")
        world.on("ApiVersions", lambda call: without(world.serve(call), name))
        work = Work(world, "t")
        started = world.engine.now_ms()
        delivery = work.send("t", b"x")
        work.flush()
        error = delivery.exception()
        assert isinstance(error, ProtocolError)
        assert f"does not offer {name}" in str(error)
        assert world.engine.now_ms() - started < 1_000
        if name == "InitProducerId":
            assert "enable_idempotence=False" in str(error)
            plain = Work(world, "t", enable_idempotence=False)
            plain.send("t", b"y")
            plain.flush()
            assert log_of(world).values() == [b"y"]


def without(response: Any, name: str) -> Any:
    """A response to ApiVersions that leaves an API out."""
    kind: Any = protocol.MESSAGES[f"{name}Request"]
    response.api_keys = [key for key in response.api_keys if key.api_key != kind.api_key]
    return response


def test_no_topic_ids_are_spoken_of() -> None:
    with old_world(KAFKA_2_8) as world:
        world.create_topic("t")
        work = Work(world, "t")
        assert work.cluster.metadata.topics["t"].topic_id == NO_TOPIC_ID
        work.send("t", b"x")
        work.flush()
        assert log_of(world).values() == [b"x"]
