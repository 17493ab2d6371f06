"""`testing.simulation.scripted`: topics whose ids a test changes, handlers with defects, brokers that move."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.config import ClientConfig
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.simulated.world import World

PATIENCE_S = 10


def test_topics_without_ids_are_deleted() -> None:
    with World(topic_ids=False) as world:
        for name in ("a", "b"):
            world.create_topic(name)
        for name in ("a", "b"):
            world.delete_topic(name)
        assert not world.topics


def test_a_topic_with_a_changed_id_is_recreated() -> None:
    with World() as world:
        changed = world.create_topic("t").topic_id = uuid.uuid4()
        assert world.create_topic("t").topic_id != changed
        assert world.state.topics.by_id.get(changed) is None


def test_a_request_that_a_handler_serves_is_of_its_client_and_connection() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", world.serve)
        with kafwire.Producer(world.bootstrap, engine=world.engine, client_id="c") as producer:
            producer.send("t", b"x").result(PATIENCE_S)
        (call,), (seen,) = world.made("Produce"), world.state.requests.find(["Produce"])
        assert (seen.client_id, seen.connection) == ("c", call.connection)


async def no_response(call: Any) -> None:
    """Leave the request to the next handler, later."""


@pytest.mark.parametrize("before", [None, no_response])
def test_an_error_of_a_handler_fails_the_test(before: Any) -> None:
    def fail(call: Any) -> None:
        raise ValueError(call.name)

    with pytest.raises(ValueError, match="Produce"), World() as world:
        world.create_topic("t")
        world.on("Produce", fail)
        if before is not None:
            world.on("Produce", before)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("t", b"x").result(PATIENCE_S)


@pytest.mark.parametrize("kind", [ClusterWorld, World])
def test_a_broker_that_lags_and_moves_returns_its_own_new_address(kind: type[ClusterWorld]) -> None:
    with kind(brokers=2) as world:
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        world.lag(2)
        world.move_broker(2)
        response = world.run(cluster.call(protocol.MetadataRequest(topics=[]), node=2))
        assert {broker.node_id: broker.host for broker in response.brokers}[2] == world.nodes[2].host
