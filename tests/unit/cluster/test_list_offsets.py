"""`cluster.list_offsets`: offsets by time from several leaders, of which some refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import EARLIEST, LATEST, list_available, list_offsets
from kafwire.config import ClientConfig
from kafwire.errors import BrokerError, ConfigError, ErrorCode, KafkaError, ProtocolError
from kafwire.testing.simulation.calls import Call, Response
from tests.support.simulated.consumer import fill, log_of
from tests.support.simulated.world import World

WANTED = {("t", 0): LATEST, ("t", 1): LATEST, ("t", 2): EARLIEST}


def cluster_of(world: World, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap, **options}))


def refuse(world: World, codes: Mapping[int, int], times: int = 1_000) -> list[Call]:
    """The partitions of "t" get these codes, so many times; the requests that did."""
    seen: list[Call] = []

    def handler(call: Call) -> Response:
        response = world.serve(call)
        parts = [part for topic in response.topics for part in topic.partitions]
        if len(seen) < times and any(part.partition_index in codes for part in parts):
            seen.append(call)
            for part in parts:
                part.error_code = codes.get(part.partition_index, part.error_code)
        return response

    world.on("ListOffsets", handler)
    return seen


def asked(call: Call) -> set[int]:
    return {part.partition_index for topic in call.message.topics for part in topic.partitions}


def test_each_leader_is_asked_for_its_own() -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=3, batches=2, records=3)
        reported: list[Any] = []
        found = world.run(list_offsets(cluster_of(world), WANTED, on_found=lambda *each: reported.append(each)))
        assert found == {("t", 0): 6, ("t", 1): 6, ("t", 2): 0}
        assert sorted(reported) == sorted(found.items())
        assert {call.node: asked(call) for call in world.made("ListOffsets")} == {1: {0, 2}, 2: {1}}


@pytest.mark.parametrize(
    "codes",
    [
        {0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 1: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ],
)
def test_an_error_that_no_retry_mends_is_raised_at_once(codes: dict[int, int]) -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=3)
        cluster = cluster_of(world)
        refused = refuse(world, codes)
        reported: list[Any] = []
        with pytest.raises(BrokerError) as caught:
            world.run(list_offsets(cluster, WANTED, on_found=lambda *each: reported.append(each)))
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(refused) == 2, "not tried again"
        assert reported == [(("t", 2), 0)], "of the others there is news all the same"


def test_two_error_codes_of_one_leader() -> None:
    for codes in (
        {0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED, 2: ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ):
        with World(brokers=2) as world:
            fill(world, "t", partitions=3)
            cluster = cluster_of(world)
            refuse(world, codes)
            with pytest.raises(BrokerError) as caught:
                world.run(list_offsets(cluster, WANTED))
            assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_only_missing_partitions_are_requested_again_from_their_new_leader() -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=3, replicas=2)
        cluster = cluster_of(world)
        world.run(cluster.topic("t"))
        world.move_leader("t", 0, 2)
        assert world.run(list_offsets(cluster, WANTED)) == {("t", 0): 12, ("t", 1): 12, ("t", 2): 0}
        first, second, third = world.made("ListOffsets")
        assert {first.node, second.node} == {1, 2}
        assert (third.node, asked(third)) == (2, {0})


def test_a_partition_without_a_leader_is_waited_for_but_not_longer_than_it_may() -> None:
    with World(brokers=2) as world:
        fill(world, "t", partitions=3)
        cluster = cluster_of(world)
        log_of(world, "t", 1).lead(-1, 1)
        world.loop.call_later(3, lambda: log_of(world, "t", 1).lead(1, 2))
        began = world.loop.time()
        assert world.run(list_offsets(cluster, WANTED))["t", 1] == 12
        assert 3 <= world.loop.time() - began < 5
        log_of(world, "t", 1).lead(-1, 3)
        world.run(cluster.refresh(at_once=True))
        began = world.loop.time()
        with pytest.raises(KafkaError, match="listing offsets of t-1 did not succeed within 2 s"):
            world.run(list_offsets(cluster, WANTED, timeout_ms=2_000))
        assert world.loop.time() - began < 2.1


def test_a_partition_that_is_not_there_is_looked_for_once_more() -> None:
    with World() as world:
        fill(world, "t", partitions=1)
        cluster = cluster_of(world)
        world.run(cluster.topic("t"))
        world.add_partitions("t", 1)
        assert world.run(list_offsets(cluster, {("t", 1): LATEST})) == {("t", 1): 0}
        with pytest.raises(ConfigError, match="has partitions 0 to 1, not 2"):
            world.run(list_offsets(cluster, {("t", 2): LATEST}))


def test_a_partition_that_is_not_there_waits_for_no_backoff() -> None:
    with World() as world:
        fill(world, "t", partitions=1)
        cluster = cluster_of(world)
        for attempt in range(12):
            began = world.loop.time()
            with pytest.raises(ConfigError, match="has partitions 0 to 0, not 1"):
                world.run(list_offsets(cluster, {("t", 1): LATEST}))
            assert world.loop.time() - began < 0.05, f"attempt {attempt}"


def test_a_partition_that_is_not_there_is_the_error_of_no_other() -> None:
    with World() as world:
        fill(world, "t", partitions=3)
        log_of(world, "t", 1).lead(-1, 1)
        wanted = dict.fromkeys([("t", 0), ("t", 1), ("t", 9)], LATEST)
        found, failed = world.run(list_available(cluster_of(world), wanted))
        assert found == {("t", 0): 12}
        assert isinstance(failed["t", 9], ConfigError)
        assert isinstance(failed["t", 1], BrokerError)
        assert failed["t", 1].code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_response_that_leaves_one_out_is_an_error() -> None:
    with World() as world:
        fill(world, "t", partitions=3)

        def forget(call: Call) -> Response:
            response = world.serve(call)
            response.topics[0].partitions.pop()
            return response

        world.on("ListOffsets", forget)
        with pytest.raises(ProtocolError, match="sent a response without t-2"):
            world.run(list_offsets(cluster_of(world), WANTED))
