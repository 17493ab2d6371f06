"""`cluster.cluster`: bootstrap, metadata, leaders and retries, in a simulated world."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.topic_lookup import UNKNOWN_TOPIC_MS, UNKNOWN_TOPIC_RESPONSES, UnknownResponses
from kafwire.config import ClientConfig
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaTimeoutError, ProtocolError
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from kafwire.testing.simulation.links import LATENCY_S
from tests.support.simulated.cluster import make_cluster, metadata
from tests.support.simulated.world import World


def test_bootstrap_passes_over_dead_servers() -> None:
    with World(brokers=4) as world:
        world.nodes[1].down = True
        world.nodes[2].silent = True
        world.on("ApiVersions", lambda call: NEVER if call.node == 3 else None)
        cluster = make_cluster(world, socket_connection_setup_timeout_ms=2_000)
        started = world.engine.now_ms()
        world.run(cluster.refresh())
        assert set(cluster.metadata.brokers) == {2, 3, 4}
        assert world.engine.now_ms() - started < 4_100


def test_bootstrap_passes_over_a_server_that_is_no_broker() -> None:
    with World(brokers=2) as world:
        world.on("ApiVersions", lambda call: b"220 mail ready" if call.node == 1 else None)
        cluster = make_cluster(world)
        world.run(cluster.refresh())
        assert set(cluster.metadata.brokers) == {1, 2}


def test_when_no_server_can_be_reached_all_are_named_in_time() -> None:
    with World(brokers=2) as world:
        for node in world.nodes.values():
            node.down = True
        cluster = make_cluster(world, default_api_timeout_ms=5_000)
        started = world.engine.now_ms()
        with pytest.raises(KafkaConnectionError, match=r"did not succeed within 5 s.*10\.0\.0\.1.*10\.0\.0\.2"):
            world.run(cluster.call(metadata()))
        assert 3_000 < world.engine.now_ms() - started <= 5_001


def _without_end(_: Any) -> bytes:
    return b"\0\xff"


def _with_millions_of_partitions(response: Any) -> Any:
    """One damaged bit of a partition's number makes 67 million partitions: the engine would count them for minutes."""
    response.topics[0].partitions[1].partition_index |= 1 << 26
    return response


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("damage", [_without_end, _with_millions_of_partitions])
def test_damaged_metadata_of_one_broker_is_requested_from_another(known: bool, damage: Callable[[Any], Any]) -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        cluster = make_cluster(world)
        if known:
            world.run(cluster.refresh(["t"]))
        asked = []

        def damaged(call: Call) -> Any:
            asked.append(call.node)
            return damage(world.serve(call)) if call.node == asked[0] else None

        world.on("Metadata", damaged)
        world.run(cluster.refresh(["t"], at_once=True))
        assert set(asked) == {1, 2}
        assert set(cluster.metadata.topics["t"].partitions) == {0, 1}


@pytest.mark.parametrize("damage", [_without_end, _with_millions_of_partitions])
def test_damaged_metadata_of_all_brokers_is_an_error(damage: Callable[[Any], Any]) -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        world.on("Metadata", lambda call: damage(world.serve(call)))
        with pytest.raises(ProtocolError, match=r"sent a response .*MetadataResponse"):
            world.run(make_cluster(world).refresh(["t"]))
        assert [call.node for call in world.made("Metadata")] == [1, 2]


def test_a_request_that_cannot_be_encoded_fails_at_once_beside_a_broker_that_hangs() -> None:
    with World(brokers=3) as world:
        cluster = make_cluster(world)
        world.run(cluster.refresh())
        for node in (1, 2):
            world.nodes[node].receive = lambda *_: None  # type: ignore[method-assign]
        began = world.engine.now_ms()
        wrong: Any = [3]
        with pytest.raises(ProtocolError, match="expected a str, not int"):
            world.run(cluster.call(protocol.DescribeGroupsRequest(groups=wrong)))
        assert world.engine.now_ms() - began < 1_000


def test_a_call_outlives_brokers_that_come_back() -> None:
    async def restart(world: World, cluster: Cluster) -> Any:
        call = asyncio.ensure_future(cluster.call(metadata()))
        await asyncio.sleep(3)
        world.nodes[1].down = False
        return await call

    with World() as world:
        world.nodes[1].down = True
        response = world.run(restart(world, make_cluster(world)))
        assert response.cluster_id == "simulated"


def test_a_bootstrap_connection_goes_on_as_its_brokers_control_connection() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        cluster = make_cluster(world, bootstrap="10.0.0.1:9092")
        world.run(cluster.refresh(["t"]))
        world.run(cluster.call(metadata(), node=1))
        assert len(world.connections) == 1
        world.run(cluster.call(metadata(), node=2))
        assert len(world.connections) == 2
        assert world.made("Metadata")[-1].node == 2


def test_a_broker_that_moved_gets_a_new_connection() -> None:
    with World() as world:
        cluster = make_cluster(world)
        world.run(cluster.refresh())
        connection = cluster.connection(1, "fetch")
        world.run(connection.open())
        assert cluster.connection(1, "fetch") is connection
        world.nodes[1].port = 9999
        world.run(cluster.refresh())
        moved = cluster.connection(1, "fetch")
        assert moved is not connection
        assert moved.port == 9999
        world.run(moved.open())
        with pytest.raises(KafkaConnectionError):
            world.run(connection.open())


def test_connections_of_different_roles_do_not_share_a_connection() -> None:
    async def open_all(cluster: Cluster) -> None:
        await cluster.refresh()
        await asyncio.gather(*(cluster.connection(1, role).open() for role in ("control", "fetch", "produce")))

    with World() as world:
        world.run(open_all(make_cluster(world)))
        assert len(world.connections) == 3


def test_an_unknown_broker_is_named() -> None:
    with World() as world:
        cluster = make_cluster(world, default_api_timeout_ms=500)
        with pytest.raises(KafkaConnectionError, match=r"broker 7 is not in the cluster's metadata \(known: 1\)"):
            world.run(cluster.call(metadata(), node=7))


@pytest.mark.parametrize("node", [None, 1])
def test_a_request_that_times_out_is_tried_again_while_there_is_time(node: int | None) -> None:
    with World() as world:
        cluster = make_cluster(world, request_timeout_ms=1_000, default_api_timeout_ms=10_000)
        world.run(cluster.refresh())
        world.on("Metadata", lambda _: NEVER if len(world.made("Metadata")) < 4 else None)
        response = world.run(cluster.call(metadata(), node=node))
        assert response.cluster_id == "simulated"


def test_a_broker_that_hangs_is_given_up_in_time_with_the_cause() -> None:
    with World() as world:
        world.on("Metadata", lambda _: NEVER)
        cluster = make_cluster(world, request_timeout_ms=1_000, default_api_timeout_ms=4_500)
        started = world.engine.now_ms()
        with pytest.raises((KafkaTimeoutError, KafkaConnectionError), match=r"within 4\.5 s: .*no response from"):
            world.run(cluster.call(metadata()))
        assert world.engine.now_ms() - started <= 4_501


def test_retries_wait_longer_each_time() -> None:
    with World() as world:
        world.on("Metadata", lambda _: HANGUP)
        cluster = make_cluster(
            world, retry_backoff_ms=100, retry_backoff_max_ms=800, default_api_timeout_ms=5_000, reconnect_backoff_ms=0
        )
        with pytest.raises(KafkaConnectionError):
            world.run(cluster.call(metadata()))
        times = [call.at_ms for call in world.made("Metadata")]
        waits = [late - early for early, late in itertools.pairwise(times)]
        for wait, nominal in zip(waits, [100, 200, 400, 800, 800], strict=False):
            assert 0.8 * nominal <= wait <= 1.2 * nominal + 10 * LATENCY_S * 1000
        assert len(waits) >= 5


@pytest.mark.parametrize(("retriable", "attempts"), [(False, 1), (True, 3)])
def test_only_errors_that_may_pass_are_retried(*, retriable: bool, attempts: int) -> None:
    tries = itertools.count(1)

    async def attempt() -> int:
        number = next(tries)
        if number < 3:
            raise BrokerError(1, "SOME_ERROR", retriable)
        return number

    with World() as world:
        cluster = make_cluster(world)
        if retriable:
            assert world.run(cluster.retrying(attempt, "testing")) == attempts
        else:
            with pytest.raises(BrokerError, match="SOME_ERROR"):
                world.run(cluster.retrying(attempt, "testing"))
            assert next(tries) == attempts + 1


def test_a_response_that_cannot_be_read_is_not_requested_again() -> None:
    with World() as world:
        world.on("Metadata", lambda _: b"\0\xff")
        with pytest.raises(ProtocolError, match="MetadataResponse"):
            world.run(make_cluster(world).call(metadata()))
        assert len(world.made("Metadata")) == 1


def test_an_unknown_topic_is_believed_after_a_few_responses_over_three_seconds() -> None:
    with World() as world:
        began = world.engine.now_ms()
        with pytest.raises(BrokerError, match="topic 'nope' does not exist on 10.0.0.1:9092") as caught:
            world.run(make_cluster(world).topic("nope"))
        assert caught.value.code == 3
        assert len(world.made("Metadata")) >= UNKNOWN_TOPIC_RESPONSES
        assert UNKNOWN_TOPIC_MS <= world.engine.now_ms() - began < 2 * UNKNOWN_TOPIC_MS


@pytest.mark.parametrize(
    ("at_ms", "believed"),
    [
        ([0], False),
        ([0, 100, 300, 700], False),  # a response each time, but the brokers had no time to learn of a topic
        ([0, 1500, 2999, 2999], False),
        ([0, 2000, 4000], False),  # time enough, but slow responses: they may all be older than the topic
        ([0, 2000, 4000, 6000], True),
        ([0, 100, 300, 700, 1500, 3000], True),
        ([5000, 6000, 7000, 7999], False),
        ([5000, 6000, 7000, 8000], True),
    ],
)
def test_responses_of_unknown_are_believed_when_they_are_many_and_took_their_time(
    at_ms: list[float], believed: bool
) -> None:
    responses = UnknownResponses()
    for now_ms in at_ms:
        responses.count(now_ms)
    assert responses.are_believed is believed


def test_a_topic_made_a_moment_ago_is_found() -> None:
    def late(call: Call) -> None:
        if world.engine.now_ms() - began > 2_000 and "t" not in world.topics:
            world.create_topic("t")

    with World() as world:
        began = world.engine.now_ms()
        world.on("Metadata", late)
        assert world.run(make_cluster(world).topic("t")).partitions[0].leader == 1


@pytest.mark.parametrize("appears", [True, False])
def test_a_patient_look_for_a_topic_goes_on_until_the_time_is_up(*, appears: bool) -> None:
    async def look(world: World, cluster: Cluster) -> Any:
        looking = asyncio.ensure_future(cluster.topic("t", timeout_ms=10_000, patient=True))
        await asyncio.sleep(8)
        if appears:
            world.create_topic("t")
        return await looking

    with World() as world:
        cluster = make_cluster(world)
        if appears:
            assert world.run(look(world, cluster)).name == "t"
        else:
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                world.run(look(world, cluster))
            assert world.engine.now_ms() <= 1_000_000 + 10_001


def test_concurrent_refreshes_share_a_request_unless_they_ask_for_more() -> None:
    async def three(cluster: Cluster) -> None:
        await cluster.refresh(["a"])
        await asyncio.gather(cluster.refresh(["a"]), cluster.refresh(["a"]), cluster.refresh())
        await asyncio.gather(cluster.refresh(["b"]), cluster.refresh(["a"]), cluster.refresh(["c", "b"]))

    with World() as world:
        for name in "abc":
            world.create_topic(name)
        cluster = make_cluster(world)
        world.run(three(cluster))
        asked = [sorted(topic.name for topic in call.message.topics) for call in world.made("Metadata")]
        assert asked[:2] == [["a"], ["a"]]
        assert asked[2:] in ([["a", "b", "c"]], [["a", "b", "c"]] * 2)
        assert set(cluster.metadata.topics) == {"a", "b", "c"}


@pytest.mark.parametrize("fails", [True, False])
def test_a_refresh_that_was_cancelled_is_not_the_result_of_the_next_one(*, fails: bool) -> None:
    async def cancel_one(world: World, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        refresh = asyncio.ensure_future(cluster.refresh())
        await asyncio.sleep(0)
        refresh.cancel()
        await asyncio.sleep(60)
        world.move_leader("t", 0, 2)
        world.off("Metadata")
        await cluster.refresh()
        assert cluster.metadata.leader("t", 0) == 2

    with World(brokers=2) as world:
        world.create_topic("t")
        world.on("Metadata", lambda _: HANGUP if fails and len(world.made("Metadata")) > 1 else None)
        world.run(cancel_one(world, make_cluster(world)))


def test_metadata_grows_stale() -> None:
    async def wait(cluster: Cluster) -> None:
        assert cluster.is_stale
        await cluster.refresh()
        assert not cluster.is_stale
        await asyncio.sleep(1.1)
        assert cluster.is_stale

    with World() as world:
        world.run(wait(make_cluster(world, metadata_max_age_ms=1_000)))


def test_a_leader_is_waited_for_until_the_election_ends() -> None:
    async def elect(world: World, cluster: Cluster) -> int:
        looking = asyncio.ensure_future(cluster.leader("t", 0))
        await asyncio.sleep(2)
        world.move_leader("t", 0, 2)
        return await looking

    with World(brokers=2) as world:
        world.create_topic("t")
        world.move_leader("t", 0, -1)
        assert world.run(elect(world, make_cluster(world))) == 2


def test_a_partition_that_stays_without_a_leader_is_named() -> None:
    with World() as world:
        world.create_topic("t")
        world.move_leader("t", 0, -1)
        cluster = make_cluster(world, default_api_timeout_ms=2_000)
        with pytest.raises(KafkaTimeoutError, match="finding the leader of t-0 .*LEADER_NOT_AVAILABLE"):
            world.run(cluster.leader("t", 0))


def test_a_broker_that_lags_does_not_move_leaders_back() -> None:
    """The new leader's news came first; then a broker without them returns the old leader."""
    with World(brokers=2) as world:
        topic = world.create_topic("t")
        cluster = make_cluster(world)
        world.move_leader("t", 0, 2)
        world.run(cluster.refresh(["t"]))
        topic.partitions[0].leader, topic.partitions[0].leader_epoch = 1, 0
        world.run(cluster.refresh())
        assert cluster.metadata.leader("t", 0) == 2


def test_closing_fails_calls_that_wait() -> None:
    async def close_meanwhile(cluster: Cluster, after_s: float) -> None:
        calls = [asyncio.ensure_future(c) for c in (cluster.call(metadata()), cluster.topic("t"))]
        await asyncio.sleep(after_s)
        await cluster.close()
        async with asyncio.timeout(1):
            for call in calls:
                with pytest.raises(KafkaConnectionError):
                    await call

    for steps in range(8):
        with World() as world:
            world.create_topic("t")
            world.on("Metadata", lambda _: NEVER)
            world.run(close_meanwhile(make_cluster(world), steps * LATENCY_S / 2))


def test_a_released_connection_is_closed_and_the_next_of_its_name_is_new() -> None:
    async def release(cluster: Cluster) -> None:
        await cluster.refresh()
        connection, other = cluster.connection(1, "fetch:t-0"), cluster.connection(1, "fetch:t-1")
        await asyncio.gather(connection.open(), other.open())
        pending = asyncio.ensure_future(connection.call(metadata()))
        await asyncio.sleep(0)
        cluster.release(1, "fetch:t-0")
        cluster.release(1, "never made")
        with pytest.raises(KafkaConnectionError, match="the fetch:t-0 connection was released"):
            await pending
        with pytest.raises(KafkaConnectionError, match="released: no request can be sent to broker 1"):
            await connection.open()
        assert connection not in cluster.connections
        assert other.is_ready
        again = cluster.connection(1, "fetch:t-0")
        assert again is not connection
        await again.open()

    with World() as world:
        world.run(release(make_cluster(world)))


def test_listeners_get_the_changed_topics() -> None:
    async def listen(world: World, cluster: Cluster) -> None:
        heard: list[set[str]] = []
        stop = cluster.on_change(heard.append)
        await cluster.refresh(["a", "b"])
        assert heard == [{"a", "b"}]
        await cluster.refresh()
        assert len(heard) == 1
        world.add_partitions("a", 1)
        await cluster.refresh()
        assert heard[1:] == [{"a"}]
        assert len(cluster.metadata.topics["a"].partitions) == 2
        gone = world.topics.pop("b")
        await cluster.refresh()
        assert heard[2:] == [{"b"}]
        assert cluster.metadata.errors == {"b": 3}
        await cluster.refresh()
        assert len(heard) == 3
        world.topics["b"] = gone
        await cluster.refresh()
        assert heard[3:] == [{"b"}]
        assert cluster.metadata.errors == {}
        stop()
        stop()
        world.move_leader("a", 0, 2)
        await cluster.refresh()
        assert len(heard) == 4

    with World(brokers=2) as world:
        world.create_topic("a")
        world.create_topic("b")
        world.run(listen(world, make_cluster(world)))


def test_a_listener_that_fails_keeps_the_news_from_no_other(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[set[str]] = []

    def fail(changed: set[str]) -> None:
        changed.clear()
        raise ValueError("on purpose")

    with World() as world:
        world.create_topic("t")
        cluster = make_cluster(world)
        cluster.on_change(fail)
        cluster.on_change(heard.append)
        world.run(cluster.refresh(["t"]))
        assert heard == [{"t"}]
        assert "a change of topics ['t'] could not be handled" in caplog.text


@pytest.mark.parametrize("by_forgetting", [True, False])
def test_topics_that_are_kept_fresh_are_asked_for_again_and_again(*, by_forgetting: bool) -> None:
    async def keep(world: World, cluster: Cluster) -> None:
        heard: list[set[str]] = []
        cluster.on_change(heard.append)
        await cluster.refresh(["a"])
        cluster.keep_fresh(["a"])
        cluster.keep_fresh(["a", "b"])
        await asyncio.sleep(0.5)
        assert len(world.made("Metadata")) == 1
        await asyncio.sleep(0.6)
        assert [topic.name for topic in world.made("Metadata")[1].message.topics] == ["a", "b"]
        world.add_partitions("b", 1)
        await asyncio.sleep(1)
        assert heard == [{"a"}, {"b"}, {"b"}]
        cluster.keep_fresh(["b"])
        assert set(cluster.metadata.topics) == {"b"}
        await asyncio.sleep(1)
        assert [topic.name for topic in world.made("Metadata")[-1].message.topics] == ["b"]
        if by_forgetting:
            cluster.forget(["b"])
        else:
            cluster.keep_fresh([])
        assert cluster.metadata.topics == {}
        count = len(world.made("Metadata"))
        await asyncio.sleep(10)
        assert len(world.made("Metadata")) == count

    with World() as world:
        world.create_topic("a")
        world.create_topic("b")
        world.run(keep(world, make_cluster(world, metadata_max_age_ms=1_000)))


def test_keeping_fresh_counts_from_the_last_refresh() -> None:
    async def keep(world: World, cluster: Cluster) -> None:
        cluster.keep_fresh(["a"])
        for _ in range(10):
            await asyncio.sleep(0.6)
            await cluster.refresh()
        assert len(world.made("Metadata")) == 11

    with World() as world:
        world.create_topic("a")
        world.run(keep(world, make_cluster(world, metadata_max_age_ms=1_000)))


def test_keeping_fresh_goes_on_after_failures_and_ends_with_the_client() -> None:
    async def keep(world: World, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        cluster.keep_fresh(["t"])
        world.on("Metadata", lambda _: HANGUP)
        await asyncio.sleep(20)
        assert 5 < len(world.made("Metadata")) < 60, "with backoff"
        world.off("Metadata")
        world.add_partitions("t", 1)
        await asyncio.sleep(5)
        assert len(cluster.metadata.topics["t"].partitions) == 2
        cluster.shut()
        cluster.keep_fresh(["t"])
        await asyncio.sleep(0.1)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with World() as world:
        world.create_topic("t")
        world.run(keep(world, make_cluster(world, metadata_max_age_ms=1_000)))


def test_a_topic_forgotten_during_its_request_stays_forgotten() -> None:
    async def forget(cluster: Cluster) -> None:
        await cluster.refresh()
        refresh = asyncio.ensure_future(cluster.refresh(["t"]))
        await asyncio.sleep(LATENCY_S / 2)
        cluster.forget(["t"])
        await refresh
        assert cluster.metadata.topics == {}

    with World() as world:
        world.create_topic("t")
        world.run(forget(make_cluster(world)))


def test_connections_to_brokers_that_left_are_closed_once_they_are_idle() -> None:
    async def leave(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        idle, busy = cluster.connection(2, "produce"), cluster.connection(2, "fetch")
        await asyncio.gather(idle.open(), busy.open())
        world.on("ListOffsets", lambda _: NEVER)
        pending = asyncio.ensure_future(busy.call(protocol.ListOffsetsRequest(replica_id=-1)))
        await asyncio.sleep(LATENCY_S * 3)
        world.nodes[2].down = True  # its connections stay
        await cluster.refresh()
        assert not idle.is_ready
        assert idle not in cluster.connections
        assert busy.is_ready
        with pytest.raises(KafkaTimeoutError):
            await pending
        await cluster.refresh()
        assert busy not in cluster.connections

    with World(brokers=2) as world:
        world.run(leave(world, make_cluster(world, bootstrap="10.0.0.1:9092", request_timeout_ms=1_000)))


def test_brokers_that_failed_are_the_last_to_be_asked() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        for node in (1, 2):
            world.kill(node)
            world.nodes[node].silent = True
            await asyncio.sleep(0.01)
            with pytest.raises(KafkaConnectionError):
                await cluster.connection(node, "control").open()
        for _ in range(8):
            world.break_connections(3)
            await asyncio.sleep(1)
            started = world.engine.now_ms()
            await cluster.call(metadata())
            assert world.engine.now_ms() - started < 1_000

    with World(brokers=3) as world:
        world.run(scenario(world, make_cluster(world)))


def test_a_call_that_a_known_broker_serves_refreshes_nothing() -> None:
    async def scenario(world: World, cluster: Cluster) -> None:
        await cluster.refresh()
        await cluster.call(metadata())
        await asyncio.sleep(1)
        assert len(world.made("Metadata")) == 2

    with World(brokers=2) as world:
        world.run(scenario(world, make_cluster(world)))


@pytest.mark.parametrize(("node", "name"), [(0, "broker 0"), (7, "broker 7"), (-1, "bootstrap server")])
def test_a_connection_is_named_by_its_broker(node: int, name: str) -> None:
    with World() as world:
        config = ClientConfig.build({"bootstrap_servers": world.bootstrap})
        assert (
            BrokerConnection(world.engine, config, "a.example", 9092, "control", node).where
            == f"{name} at a.example:9092"
        )


def test_a_stopped_listener_is_not_called() -> None:
    with World(brokers=2) as world:
        world.create_topic("t")
        cluster = make_cluster(world, request_timeout_ms=5_000)
        world.run(cluster.refresh(["t"]))
        heard: dict[str, list[Any]] = {"first": [], "second": [], "third": [], "fourth": []}
        stop_hearing_connections = cluster.on_overdue(heard["first"].append)
        cluster.on_overdue(heard["second"].append)
        stop_hearing_topics = cluster.on_change(heard["third"].append)
        cluster.on_change(heard["fourth"].append)
        for stop in (stop_hearing_connections, stop_hearing_topics):
            stop()
            stop()  # a second time does nothing
        world.on("DescribeConfigs", lambda _: NEVER)
        hung = world.loop.create_task(
            cluster.call(protocol.DescribeConfigsRequest(resources=[]), node=1, timeout_ms=3_000)
        )
        world.add_partitions("t", 1)
        world.pass_time(2)
        assert {name: bool(reported) for name, reported in heard.items()} == {
            "first": False, "second": True, "third": False, "fourth": True,
        }  # fmt: skip
        assert heard["fourth"] == [{"t"}]
        assert {connection.node for connection in heard["second"]} == {1}
        cluster.shut()
        world.run(asyncio.wait([hung]))
        assert hung.exception() is not None
        known = len(heard["second"]), len(heard["fourth"])
        world.pass_time(5)
        assert (len(heard["second"]), len(heard["fourth"])) == known


# --- other brokers


@pytest.mark.parametrize("by_id", [True, False])
def test_look_ups_that_want_another_broker_ask_one_after_the_other(*, by_id: bool) -> None:
    with World(brokers=3) as world:
        world.create_topic("t")
        cluster = make_cluster(world)
        world.run(cluster.refresh(["t"]))
        before = len(world.made("Metadata"))
        for _ in range(6):
            if by_id:
                world.run(cluster.look_up_ids([cluster.metadata.topics["t"].topic_id]))
            else:
                world.run(cluster.refresh(at_once=True, elsewhere=True))
        asked = [call.node for call in world.made("Metadata")[before:]]
        assert len(asked) == 6
        assert set(asked[:3]) == set(asked[3:]) == {1, 2, 3}
        assert cluster.metadata.names == {cluster.metadata.topics["t"].topic_id: "t"}
        world.run(cluster.close())
