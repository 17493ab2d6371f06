"""`cluster.node`: a broker's connections, and which of its addresses are tried first."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from kafwire.cluster.address_blame import AddressBlame
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.metadata import BrokerAddress
from kafwire.cluster.node import Node
from kafwire.config import ClientConfig
from kafwire.errors import KafkaConnectionError
from kafwire.testing.simulation import Call
from tests.support.simulated.cluster import make_cluster
from tests.support.simulated.world import World

A, B, C = [(socket.AF_INET, (f"10.0.0.{n}", 9092)) for n in (1, 2, 3)]


def make_node(world: World) -> Node:
    config = ClientConfig.build({"bootstrap_servers": world.bootstrap})

    def make(node: Node, address: BrokerAddress, role: str) -> BrokerConnection:
        return BrokerConnection(world.engine, config, address.host, address.port, role, node.number, blame=node.blame)

    return Node(1, make)


def test_addresses_that_failed_come_last_and_the_latest_at_the_very_end() -> None:
    blame = AddressBlame()
    assert blame.order([A, B, C]) == [A, B, C]
    blame.blame(B[1])
    blame.blame(A[1])
    assert blame.order([A, B, C]) == [C, B, A]
    blame.blame(B[1])
    assert blame.order([A, B, C]) == [C, A, B]


def test_an_address_that_a_host_no_longer_has_is_forgotten() -> None:
    blame = AddressBlame()
    blame.blame(A[1])
    assert blame.order([B]) == [B]
    assert blame.order([A, B]) == [A, B]


def test_connections_share_the_failed_addresses() -> None:
    with World(brokers=2) as world:
        world.engine.resolver.names["kafka.example"] = ["10.9.9.9", "10.0.0.2"]
        node = make_node(world)
        address = BrokerAddress("kafka.example", 9092, None)
        world.run(node.connection("control", address).open())
        assert [connection.node.host for connection in world.connections] == ["10.9.9.9", "10.0.0.2"]
        world.run(node.connection("fetch", address).open())
        assert [connection.node.host for connection in world.connections[2:]] == ["10.0.0.2"]


@pytest.mark.parametrize("waits_already", [False, True], ids=["later", "waiting"])
def test_a_connection_that_opens_ends_the_back_off_of_the_others(waits_already: bool) -> None:
    """A heartbeat does not wait for seconds after a fetch has reached the broker again."""

    async def main() -> None:
        address = BrokerAddress(world.nodes[1].host, 9092, None)
        fails, opens = node.connection("coordinator", address), node.connection("fetch", address)
        world.nodes[1].down = True
        for _ in range(8):
            with pytest.raises(KafkaConnectionError):
                await fails.open()
        world.nodes[1].down = False
        began = world.engine.now_ms()
        waiting = asyncio.ensure_future(fails.open()) if waits_already else None
        await asyncio.sleep(0)
        await opens.open()
        await (fails.open() if waiting is None else waiting)
        assert world.engine.now_ms() - began < 100

    with World() as world:
        node = make_node(world)
        world.run(main())


def test_a_role_is_one_connection_until_it_is_released_or_the_broker_moves() -> None:
    with World(brokers=2) as world:
        node = make_node(world)
        one, two = [BrokerAddress(n.host, n.port, None) for n in world.nodes.values()]
        control, fetch = node.connection("control", one), node.connection("fetch", one)
        assert node.connection("control", one) is control
        assert node.connections == [control, fetch]
        moved = node.connection("control", two)
        assert moved is not control
        with pytest.raises(KafkaConnectionError, match="broker 1 has moved"):
            world.run(control.open())
        node.release("fetch")
        node.release("fetch")
        assert node.connections == [moved]
        with pytest.raises(KafkaConnectionError, match="the fetch connection was released"):
            world.run(fetch.open())
        node.leave_departed(two)
        assert node.find("control") is moved
        node.leave_departed(None)
        with pytest.raises(KafkaConnectionError, match="broker 1 has left the cluster"):
            world.run(moved.open())


def test_connections_know_the_failed_addresses_of_the_bootstrap_connection() -> None:
    with World() as world:
        world.engine.resolver.names["kafka.example"] = ["10.9.9.9", "10.0.0.1"]

        def advertise(call: Call) -> Any:
            response: Any = world.serve(call)
            response.brokers[0].host = "kafka.example"
            return response

        world.on("Metadata", advertise)
        cluster = make_cluster(world, bootstrap="kafka.example:9092")
        world.run(cluster.refresh())
        assert [connection.node.host for connection in world.connections] == ["10.9.9.9", "10.0.0.1"]
        world.run(cluster.connection(1, "fetch").open())
        world.run(cluster.connection(1, "produce").open())
        assert [connection.node.host for connection in world.connections[2:]] == ["10.0.0.1"] * 2
