"""`cluster.cluster` when what it knows no longer leads anywhere: KIP-899, KIP-1102, moved brokers, another cluster."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.state import BrokerNode
from kafwire.cluster.cluster import Cluster
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaTimeoutError
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from kafwire.testing.simulation.links import LATENCY_S
from kafwire.testing.simulation.scripted import ScriptedNode
from tests.support.simulated.cluster import make_cluster, metadata
from tests.support.simulated.consumer import fill
from tests.support.simulated.scan import Scanning
from tests.support.simulated.world import World


def metadata_with(
    world: World, *nodes: int, cluster_id: str = "simulated", error: int = 0
) -> protocol.MetadataResponse:
    """Metadata with some brokers only, and without a topic."""
    kind = protocol.MetadataResponse
    brokers = [
        kind.MetadataResponseBroker(node_id=n, host=world.nodes[n].host, port=world.nodes[n].port) for n in nodes
    ]
    return kind(cluster_id=cluster_id, brokers=brokers, error_code=error)


def addresses(cluster: Cluster) -> dict[int, str]:
    return {node: address.host for node, address in cluster.metadata.brokers.items()}


@pytest.fixture
def boot() -> list[str]:
    """The addresses of the bootstrap server `boot.example`."""
    return []


def move_everybody(world: World, boot: list[str]) -> None:
    """All brokers go on at other addresses, at once."""
    for node in world.nodes.values():
        world.break_connections(node.number)
        node.host = node.host.replace("10.0.0.", "10.0.1.")
    boot[:] = ["10.0.1.2"]


@pytest.mark.parametrize("how", ["refresh", "any", "one"])
def test_when_all_known_brokers_are_gone_the_bootstrap_servers_are_asked(boot: list[str], how: str) -> None:
    async def use(cluster: Cluster) -> None:
        if how == "refresh":
            await cluster.retrying(cluster.refresh, "refreshing")
        else:
            await cluster.call(metadata(), node=1 if how == "one" else None)
        await asyncio.sleep(1)

    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        boot[:] = []
        for node in (1, 2, 3):
            await cluster.connection(node, "fetch").open()
        move_everybody(world, boot)
        if (
            how == "one"
        ):  # the cluster does not refresh by itself: the producer and the fetchers do when they lose a connection
            with pytest.raises(KafkaConnectionError):
                await cluster.call(metadata(), node=1, timeout_ms=1_000)
            await cluster.refresh()
        await use(cluster)
        assert addresses(cluster) == {1: "10.0.1.1", 2: "10.0.1.2", 3: "10.0.1.3"}
        assert cluster.metadata.leader("t", 0) == 1
        assert {connection.host for connection in cluster.connections if connection.node > 0} <= {
            "10.0.1.1",
            "10.0.1.2",
            "10.0.1.3",
        }

    boot.append("10.0.0.1")
    with World(brokers=3) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.create_topic("t")
        world.run(scenario(world, make_cluster(world, bootstrap="boot.example:9092")))


def test_bootstrap_servers_are_not_asked_again_if_the_user_says_so(boot: list[str]) -> None:
    boot.append("10.0.0.1")
    with World(brokers=3) as world:
        world.engine.resolver.names["boot.example"] = boot
        cluster = make_cluster(world, bootstrap="boot.example:9092", metadata_recovery_strategy="none")
        world.run(cluster.refresh())
        count = len(world.connections)
        move_everybody(world, boot)
        for call in (cluster.refresh(), cluster.call(metadata(), timeout_ms=5_000)):
            with pytest.raises(KafkaConnectionError, match=r"broker 3 at 10\.0\.0\.3"):
                world.run(call)
        assert {connection.node.number for connection in world.connections[count:]} == {-1}, "only without brokers"


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_brokers_that_keep_metadata_back_are_left_in_time(boot: list[str], strategy: str) -> None:
    """They take connections and requests, and send no response: no connection fails, and no broker looks gone."""

    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        busy = cluster.connection(2, "fetch")
        await busy.open()
        boot[:] = ["10.0.0.4"]
        world.on("Metadata", lambda call: metadata_with(world, 4) if call.node == 4 else NEVER)
        started = world.engine.now_ms()
        refresh = cluster.retrying(cluster.refresh, "refreshing", 300_000)
        if strategy == "none":
            with pytest.raises((KafkaConnectionError, KafkaTimeoutError)):
                await refresh
            return
        await refresh
        assert 40_000 <= world.engine.now_ms() - started <= 41_000
        assert addresses(cluster) == {4: "10.0.0.4"}
        assert [connection.node for connection in cluster.connections] == [-1]
        with pytest.raises(KafkaConnectionError, match="no known broker has given metadata for 40000 ms"):
            await busy.open()

    boot.append("10.0.0.1")
    with World(brokers=4) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.on("Metadata", lambda _: metadata_with(world, 1, 2, 3))
        options = {"metadata_recovery_strategy": strategy, "metadata_recovery_rebootstrap_trigger_ms": 40_000}
        world.run(scenario(world, make_cluster(world, bootstrap="boot.example:9092", **options)))


@pytest.mark.parametrize(
    ("attempts", "apart_s", "ready"),
    [
        pytest.param("xxxxx", 10, True, id="not long enough"),
        pytest.param("xxxxxxxx", 10, False, id="long enough"),
        pytest.param("xxxxx-xxxxx", 10, True, id="a known broker responded to one"),
        pytest.param("xxxxxsxxxxx", 10, True, id="the bootstrap server responded to one"),
        pytest.param("xxx", 100, True, id="no attempt for long"),
    ],
)
def test_how_long_metadata_are_missed_is_counted_while_they_are_asked_for(
    boot: list[str], attempts: str, apart_s: float, *, ready: bool
) -> None:
    """Connections that work are closed only when that has to be."""

    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        connection = cluster.connection(2, "fetch")
        await connection.open()
        boot[:] = ["10.0.0.3"]
        world.break_connections(1)
        what = "-"

        def respond(call: Call) -> Any:
            return metadata_with(world, 1, 2) if what == ("s" if call.node == 3 else "-") else HANGUP

        world.on("Metadata", respond)
        for what in attempts:
            await asyncio.sleep(apart_s)
            if what == "x":
                with pytest.raises(KafkaConnectionError):
                    await cluster.refresh()
            else:
                await cluster.refresh()
        assert connection.is_ready is ready

    boot.append("10.0.0.1")
    with World(brokers=3) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.on("Metadata", lambda _: metadata_with(world, 1, 2))
        options = {"metadata_recovery_rebootstrap_trigger_ms": 60_000}
        world.run(scenario(world, make_cluster(world, bootstrap="boot.example:9092", **options)))


def test_without_rebootstrapping_known_brokers_are_asked_for_ever() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        world.on("Metadata", lambda call: NEVER if call.at_ms < 1_100_000 else None)
        await cluster.retrying(cluster.refresh, "refreshing", 300_000)

    with World(brokers=2) as world:
        options: dict[str, Any] = {
            "metadata_recovery_strategy": "none",
            "metadata_recovery_rebootstrap_trigger_ms": 40_000,
        }
        world.run(scenario(world, make_cluster(world, **options)))


def test_after_a_bootstrap_server_without_brokers_the_next_address_is_asked(boot: list[str]) -> None:
    boot += ["10.0.0.1", "10.0.0.2"]
    with World(brokers=2) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.on("Metadata", lambda call: metadata_with(world, error=129) if call.node == 1 else None)
        cluster = make_cluster(world, bootstrap="boot.example:9092")
        world.run(cluster.retrying(cluster.refresh, "refreshing"))
        assert [call.node for call in world.made("Metadata")] == [1, 2]


@pytest.mark.parametrize("call", ["refresh", "any"])
def test_bootstrap_servers_are_asked_after_damaged_responses_of_all_known_brokers(boot: list[str], call: str) -> None:
    boot.append("10.0.0.1")
    with World(brokers=3) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.on("Metadata", lambda _: metadata_with(world, 1, 2))
        cluster = make_cluster(world, bootstrap="boot.example:9092")
        world.run(cluster.refresh())
        boot[:] = ["10.0.0.3"]
        world.break_connections(1)
        world.on("Metadata", lambda request: metadata_with(world, 3) if request.node == 3 else b"\0\xff")
        world.run(cluster.refresh(at_once=True) if call == "refresh" else cluster.call(metadata()))
        world.pass_time(1)
        assert addresses(cluster) == {3: "10.0.0.3"}


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_a_broker_that_sends_its_clients_back_to_the_bootstrap_servers(boot: list[str], strategy: str) -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        connection = cluster.connection(2, "fetch")
        await connection.open()
        boot[:] = ["10.0.0.3"]
        world.on(
            "Metadata",
            lambda call: metadata_with(world, *([3] if call.node == 3 else []), error=129 * (call.node < 3)),
        )
        if strategy == "none":
            with pytest.raises(BrokerError, match="REBOOTSTRAP_REQUIRED"):
                await cluster.refresh()
            assert connection.is_ready
            return
        await cluster.refresh()
        assert addresses(cluster) == {3: "10.0.0.3"}
        assert not connection.is_ready
        world.on("Metadata", lambda _: metadata_with(world, error=129))
        with pytest.raises(KafkaConnectionError, match="REBOOTSTRAP_REQUIRED.*bootstrap server at boot.example:9092"):
            await cluster.refresh()
        assert addresses(cluster) == {}

    boot.append("10.0.0.1")
    with World(brokers=3) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.on("Metadata", lambda _: metadata_with(world, 1, 2))
        world.run(
            scenario(world, make_cluster(world, bootstrap="boot.example:9092", metadata_recovery_strategy=strategy))
        )


def test_brokers_that_share_an_address_are_distinguished() -> None:
    """A forwarder may lead to one of them: before 4.4 brokers do not compare ids. librdkafka's 0149."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.refresh()
        assert addresses(cluster) == {1: "10.0.0.1", 2: "10.0.0.1", 3: "10.0.0.1"}
        connections = [cluster.connection(node, "fetch") for node in (1, 2, 3)]
        await asyncio.gather(*(connection.open() for connection in connections))
        assert len(set(connections)) == 3
        await cluster.refresh()
        assert all(connection.is_ready for connection in connections)

    with World(brokers=3) as world:
        for node in world.nodes.values():
            node.host = "10.0.0.1"
            node.versions["ApiVersions"] = (0, 4)
        world.run(scenario(make_cluster(world)))


def test_a_broker_at_the_address_of_another_makes_the_client_bootstrap_again() -> None:
    """KIP-1242: ApiVersions names cluster and node, and the request of another node gets REBOOTSTRAP_REQUIRED."""

    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        await cluster.connection(1, "control").call(metadata())
        one, two = world.nodes[1], world.nodes[2]
        two.host, one.host = one.host, "10.0.0.9"
        cluster.release(1, "control")
        with pytest.raises(KafkaConnectionError, match=r"not broker 1 of cluster simulated.*another broker has"):
            await cluster.connection(1, "control").call(metadata())
        assert not [call for call in world.made("Metadata") if call.node == 2]
        one.host, two.host = two.host, "10.0.0.2"
        await cluster.call(metadata(), node=1)
        assert addresses(cluster) == {1: "10.0.0.1", 2: "10.0.0.2"}

    with World(brokers=2) as world:
        world.run(scenario(world, make_cluster(world)))


def test_connections_name_their_cluster_and_node_once_both_are_known() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        await asyncio.gather(*(cluster.connection(node, "fetch").open() for node in (1, 2)))
        named = [(call.node, call.message.cluster_id, call.message.node_id) for call in world.made("ApiVersions")]
        assert named[0][1:] == (None, -1)
        assert set(named[1:]) == {(1, "simulated", 1), (2, "simulated", 2)}

    with World(brokers=2) as world:
        world.run(scenario(world, make_cluster(world)))


@pytest.mark.parametrize("option", [{"metadata_recovery_strategy": "none"}, {"metadata_cluster_check_enable": False}])
def test_connections_name_no_cluster_where_that_is_disabled(option: dict[str, Any]) -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        await cluster.connection(1, "fetch").open()
        assert {(call.message.cluster_id, call.message.node_id) for call in world.made("ApiVersions")} == {(None, -1)}

    with World(brokers=2) as world:
        world.run(scenario(world, make_cluster(world, **option)))


def test_brokers_that_swap_addresses_are_found_at_their_new_ones() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        before = [cluster.connection(node, "fetch") for node in (1, 2)]
        await asyncio.gather(*(connection.open() for connection in before))
        one, two = world.nodes[1], world.nodes[2]
        one.host, two.host = two.host, one.host
        for node in (1, 2):
            world.break_connections(node)
        await cluster.refresh()
        for node in (1, 2):
            await cluster.connection(node, "fetch").call(metadata())
            assert world.made("Metadata")[-1].node == node
        assert not set(before) & set(cluster.connections)

    with World(brokers=2) as world:
        world.run(scenario(world, make_cluster(world)))


def test_a_known_address_that_has_come_to_belong_to_another_cluster_is_not_believed(boot: list[str]) -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        boot[:] = ["10.0.0.3"]
        world.on("Metadata", lambda call: metadata_with(world, 9, cluster_id="foreign") if call.node == 2 else None)
        world.kill(1)
        await cluster.refresh()
        assert cluster.metadata.cluster_id == "simulated"
        assert set(addresses(cluster)) == {2, 3, 9}
        assert {call.node for call in world.made("Metadata")[1:]} <= {2, 3}
        assert all(connection.closed for connection in world.connections if connection.node.number == 2)

    boot.append("10.0.0.1")
    with World(brokers=3) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.state.nodes[9] = BrokerNode(9)
        world.nodes[9] = ScriptedNode(world, 9)
        world.on("Metadata", lambda _: metadata_with(world, 1, 2) if not world.made("Metadata")[1:] else None)
        world.run(scenario(world, make_cluster(world, bootstrap="boot.example:9092")))


def test_a_cluster_that_was_replaced_as_a_whole_is_taken_on(boot: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """librdkafka's 0152. The new one's epochs begin again, and its topics are others."""

    def other(call: Call) -> Any:
        response = world.serve(call)
        response.cluster_id = "other"
        return response

    async def scenario(world: World, cluster: Cluster) -> None:
        heard: list[set[str]] = []
        await cluster.refresh(["kept", "gone"])
        cluster.on_change(heard.append)
        connection = cluster.connection(1, "fetch")
        await connection.open()
        for node in (1, 2):
            world.break_connections(node)
        world.on("Metadata", other)
        del world.topics["gone"]
        world.topics["kept"].partitions[0].leader_epoch = 0
        world.topics["kept"].partitions[0].leader = 2
        await cluster.refresh()
        assert cluster.metadata.cluster_id == "other"
        assert cluster.metadata.leader("kept", 0) == 2
        assert set(cluster.metadata.topics) == {"kept"}
        assert heard == [{"kept", "gone"}]
        assert connection not in cluster.connections
        assert cluster.connections[0].is_ready, "the bootstrap server's, which gave the news"
        assert "now belongs to cluster other, no longer to simulated" in caplog.text

    boot.append("10.0.0.1")
    with World(brokers=2, topic_ids=False) as world:
        world.engine.resolver.names["boot.example"] = boot
        world.create_topic("kept")
        world.create_topic("gone")
        world.topics["kept"].partitions[0].leader_epoch = 30
        world.run(scenario(world, make_cluster(world, bootstrap="boot.example:9092")))


def test_a_connection_that_its_broker_closed_for_idleness_is_opened_again() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        for _ in range(3):
            world.break_connections(1)
            await asyncio.sleep(600)
            started = world.engine.now_ms()
            await cluster.call(metadata(), node=1)
            assert world.engine.now_ms() - started < 6 * LATENCY_S * 1000

    with World() as world:
        world.run(scenario(world, make_cluster(world)))


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_a_scan_goes_on_when_all_brokers_have_moved(boot: list[str], strategy: str) -> None:
    async def move(world: World, read: Scanning) -> None:
        reading = asyncio.ensure_future(read.beside(0.05))
        await asyncio.sleep(0.3)
        assert sum(map(len, read.rows.values())) > 0
        assert not read.fetcher.stopped
        move_everybody(world, boot)
        await reading
        while read.take():
            pass

    boot.append("10.0.0.1")
    with World(brokers=3) as world:
        world.engine.resolver.names["boot.example"] = boot
        rows = fill(world, "t", partitions=6, batches=30)
        options: dict[str, Any] = {"default_api_timeout_ms": 20_000, "metadata_recovery_strategy": strategy}
        read = Scanning(
            world, ["t"], bootstrap_servers="boot.example:9092", fetch_max_bytes=200, fetch_memory=400, **options
        )
        if strategy == "rebootstrap":
            world.run(move(world, read))
            assert read.rows == rows
        else:
            with pytest.raises(KafkaConnectionError, match=r"no broker can be reached: .*10\.0\.0\."):
                world.run(move(world, read))
        read.close()


def test_a_scan_ends_loudly_when_its_cluster_was_replaced(boot: list[str]) -> None:
    """Another cluster's topic of that name holds other records."""

    def other(call: Call) -> Any:
        response = world.serve(call)
        response.cluster_id = "other"
        return response

    async def replace(read: Scanning) -> None:
        reading = asyncio.ensure_future(read.beside(0.05))
        await asyncio.sleep(0.3)
        del world.topics["t"]
        world.create_topic("t").topic_id = uuid.uuid4()
        world.topics["t"].partitions[0].append_values([b"not asked for"] * 1000)
        world.on("Metadata", other)
        world.break_connections(1)
        await reading
        while read.take():
            pass

    boot.append("10.0.0.1")
    with World() as world:
        world.engine.resolver.names["boot.example"] = boot
        fill(world, "t", batches=50)
        read = Scanning(world, ["t"], bootstrap_servers="boot.example:9092", fetch_max_bytes=200, fetch_memory=400)
        with pytest.raises(BrokerError, match="'t' was deleted and recreated while t-0 was read"):
            world.run(replace(read))
        assert b"not asked for" not in {value for _, value in read.rows["t", 0]}
        read.close()
