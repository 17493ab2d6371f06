"""Requests to coordinators: the offsets they keep, and the requests they refuse."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed as Kept
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit
from kafwire.config import ClientConfig
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.world import World


def commit(world: World, node: int, partition: int, offset: int, *, topic: str = "t", version: int = 10) -> int:
    """The error code of a commit."""
    known = world.topics.get(topic)
    request = protocol.OffsetCommitRequest(group_id="g")
    part = request.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    named: dict[str, Any] = {"topic_id": known.topic_id if known else uuid.UUID(int=1)}
    request.topics = [
        request.OffsetCommitRequestTopic(**(named if version >= 10 else {"name": topic}), partitions=[part])
    ]
    response = world.serve(Call(0, node, 0, version, 1, request))
    return int(response.topics[0].partitions[0].error_code)


def fetch(world: World, node: int, *, version: int = 10, everything: bool = False, stable: bool = False) -> Any:
    """(error code, offset) of each partition of `t`, or the error code of all."""
    request = protocol.OffsetFetchRequest(require_stable=stable)
    topic_id = world.topics["t"].topic_id
    if version >= 8:
        topic = request.OffsetFetchRequestTopics(partition_indexes=[0, 1])
        if version >= 10:
            topic.topic_id = topic_id
        else:
            topic.name = "t"
        request.groups = [request.OffsetFetchRequestGroup(group_id="g", topics=None if everything else [topic])]
    else:
        request.group_id = "g"
        request.topics = None if everything else [request.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    response = world.serve(Call(0, node, 0, version, 1, request))
    group = response.groups[0] if version >= 8 else response
    if group.error_code:
        return group.error_code
    return {p.partition_index: (p.error_code, p.committed_offset) for t in group.topics for p in t.partitions}


@pytest.mark.parametrize("version", [5, 8, 9, 10])
def test_committed_offsets_are_kept(version: int) -> None:
    with World() as world:
        world.create_topic("t", partitions=2)
        assert commit(world, 1, 1, 7, version=version) == 0
        assert fetch(world, 1, version=version) == {0: (0, -1), 1: (0, 7)}
        assert fetch(world, 1, version=version, everything=True) == {1: (0, 7)}
        assert {where: kept[:3] for where, kept in world.committed["g"].items()} == {("t", 1): (7, -1, "")}


def test_partitions_that_do_not_exist() -> None:
    with World() as world:
        world.create_topic("t")
        assert commit(world, 1, 1, 7) == 3
        assert commit(world, 1, 0, 7, topic="u") == 100
        assert commit(world, 1, 0, 7, topic="u", version=9) == 3
        assert not world.committed


def test_only_the_coordinator_responds_when_it_has_loaded() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        assert commit(world, 2, 0, 1) == 16
        assert fetch(world, 2) == 16
        world.move_coordinator("g", 2)
        world.loading.add("g")
        assert commit(world, 2, 0, 1) == 14
        assert fetch(world, 2, version=7) == 14
        world.loading.clear()
        assert commit(world, 2, 0, 1) == 0
        assert commit(world, 1, 0, 1) == 16


def test_offsets_that_a_transaction_is_about_to_change() -> None:
    with World() as world:
        world.create_topic("t", partitions=2)
        assert commit(world, 1, 0, 7) == 0
        world.state.part(OffsetStore).add_pending("g", 1, 0, ("t", 0), Kept(8))
        assert fetch(world, 1, stable=True) == {0: (88, -1), 1: (0, -1)}
        assert fetch(world, 1) == {0: (0, 7), 1: (0, -1)}


def test_clients_find_a_coordinator_that_moves() -> None:
    with World(brokers=3) as world:
        world.create_topic("t")
        offsets = GroupOffsets(Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap})), "g")
        world.run(offsets.commit({("t", 0): OffsetToCommit(7)}))
        world.move_coordinator("g", -1)
        world.loop.call_later(1, world.move_coordinator, "g", 3)
        assert world.run(offsets.fetch([("t", 0)])) == {("t", 0): Committed(7, -1, "")}
        assert world.made("OffsetFetch")[-1].node == 3
        world.kill(3)
        world.loop.call_later(1, world.move_coordinator, "g", 2)
        world.run(offsets.commit({("t", 0): OffsetToCommit(8)}))
        assert world.made("OffsetCommit")[-1].node == 2
        assert world.committed["g"]["t", 0].offset == 8
