"""Brokers that cannot be reached: what errors and the log say, and when."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import EARLIEST, list_offsets
from kafwire.cluster.reachability import Watch
from kafwire.config import ClientConfig, ScanConfig
from kafwire.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.consumer import Consuming
from tests.support.simulated.producer import Work
from tests.support.simulated.world import World


def make_cluster(world: World, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap, **options}))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def metadata() -> protocol.MetadataRequest:
    return protocol.MetadataRequest(topics=[])


def test_after_a_second_the_log_names_the_broker_and_the_cause_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")

    async def come_back(world: World, cluster: Cluster) -> None:
        call = asyncio.ensure_future(cluster.call(metadata()))
        await asyncio.sleep(0.9)
        assert not caplog.messages
        await asyncio.sleep(20)
        world.nodes[1].down = False
        await call

    with World() as world:
        world.nodes[1].down = True
        world.run(come_back(world, make_cluster(world)))
    (warning,) = warnings(caplog)
    assert warning.startswith(
        "kafwire: still connecting to bootstrap server at 10.0.0.1:9092 (10.0.0.1: connection ref"
    )
    assert warning.endswith("is it running, and is the address right?")
    assert [m.partition(" after ")[0] for m in caplog.messages[1:]] == [
        "kafwire: connected to bootstrap server at 10.0.0.1:9092 (10.0.0.1)"
    ]


def test_nothing_is_logged_of_a_broker_that_responds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")
    with World() as world:
        cluster = make_cluster(world)
        world.run(cluster.call(metadata()))
        world.break_connections(1)
        world.pass_time(5)
        world.run(cluster.call(metadata()))
        world.pass_time(5)
    assert not caplog.messages


def test_each_cause_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def change(world: World, cluster: Cluster) -> None:
        call = asyncio.ensure_future(cluster.call(metadata()))
        await asyncio.sleep(8)
        world.nodes[1].silent, world.nodes[1].down = False, True
        await asyncio.sleep(8)
        world.nodes[1].down = False
        world.on("ApiVersions", lambda _: b"garbage")
        await asyncio.sleep(8)
        world.nodes[1].silent = True
        await asyncio.sleep(8)
        world.nodes[1].silent = False
        world.off("ApiVersions")
        await call

    with World() as world:
        world.nodes[1].silent = True
        world.run(change(world, make_cluster(world, socket_connection_setup_timeout_ms=2_000)))
    causes = [text.partition("10.0.0.1:9092 ")[2] for text in warnings(caplog)]
    assert len(causes) == 3, causes
    for cause, words in zip(causes, ("no response", "connection refused", "cannot be decoded"), strict=True):
        assert words in cause


def test_an_abandoned_call_logs_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        world.nodes[1].down = True
        cluster = make_cluster(world, default_api_timeout_ms=600)
        with pytest.raises(KafkaConnectionError):
            world.run(cluster.call(metadata()))
        world.pass_time(60)
    assert not caplog.messages


@pytest.mark.parametrize("silent", [True, False])
def test_an_error_names_the_overdue_response_or_connection(*, silent: bool) -> None:
    with World() as world:
        world.nodes[1].silent, world.nodes[1].down = silent, not silent
        cluster = make_cluster(world, default_api_timeout_ms=5_000)
        started = world.engine.now_ms()
        words = "no response yet" if silent else "connection refused"
        with pytest.raises((KafkaTimeoutError, KafkaConnectionError), match=rf"5 s: .*10\.0\.0\.1.*{words}"):
            world.run(cluster.call(metadata()))
        assert world.engine.now_ms() - started <= 5_001


# -- a bootstrap server that responds, and advertises addresses that cannot be reached


def call_broker(world: World) -> None:
    cluster = make_cluster(world, default_api_timeout_ms=5_000)
    world.run(cluster.call(metadata(), node=1))


def scan(world: World) -> None:
    cluster = Cluster(world.engine, ScanConfig.build({"bootstrap_servers": "10.0.0.1:9092"}))
    world.run(list_offsets(cluster, {("t", 0): EARLIEST}, timeout_ms=5_000))


def send(world: World) -> None:
    work = Work(world, "t", delivery_timeout_ms=31_000)
    delivery = work.send("t", b"x")
    work.flush()
    raise delivery.exception()


@pytest.mark.parametrize("act", [call_broker, scan, None, send])
@pytest.mark.parametrize(("host", "cause"), [("kafka.invalid", "cannot resolve"), ("10.9.9.9", "connection refused")])
def test_an_advertised_address_that_cannot_be_reached(
    act: Callable[[World], None] | None,
    host: str,
    cause: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A call raises. A consumer starts, and logs it, as other partitions may have leaders that respond."""

    def advertise(call: Call) -> Any:
        response: Any = world.serve(call)
        response.brokers[0].host = host
        return response

    with World() as world:
        world.create_topic("t")
        world.on("Metadata", advertise)
        if act is None:
            Consuming(world, topics="t", default_api_timeout_ms=5_000)
            world.pass_time(5.0)
            raised = warnings(caplog)[0]
        else:
            with pytest.raises(KafkaError) as caught:
                act(world)
            raised = str(caught.value)
    for text in (raised, warnings(caplog)[0]):
        for words in (
            f"broker 1 at {host}:9092",
            cause,
            f"10.0.0.1:9092 responded and advertises {host}:9092 for this broker",
            "advertised.listeners",
        ):
            assert words in text


@pytest.mark.parametrize("node", [0, 1])
def test_the_first_broker_may_have_the_number_0(node: int) -> None:
    with World() as world:

        def advertise(call: Call) -> Any:
            response: Any = world.serve(call)
            response.brokers[0].node_id, response.brokers[0].host = node, "10.9.9.9"
            return response

        world.on("Metadata", advertise)
        cluster = make_cluster(world, default_api_timeout_ms=3_000)
        with pytest.raises(KafkaError, match=rf"broker {node} at 10\.9\.9\.9.*advertised\.listeners"):
            world.run(cluster.call(metadata(), node=node))


def test_a_broker_that_was_reached_before_is_not_misadvertised() -> None:
    with World(brokers=2) as world:
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": "10.0.0.1:9092"}))
        world.run(cluster.refresh())
        connection = cluster.connection(2, "control")
        world.run(connection.open())
        world.kill(2)
        world.pass_time(1)
        with pytest.raises(KafkaConnectionError, match="is it running") as caught:
            world.run(connection.open())
        assert "advertised" not in str(caught.value)


# -- what decides


def test_attempts_far_apart_are_no_wait() -> None:
    watch = Watch()
    for minute in range(5):
        assert watch.begin(minute * 60_000.0) is None
        assert watch.fail(minute * 60_000.0 + 10, ["refused"], "x (refused)") is None
    assert watch.begin(240_900.0) is None
    assert watch.fail(241_500.0, ["refused"], "x (refused)") == "x (refused)"
    assert watch.begin(242_000.0) is None, "said once"
    assert watch.look(243_000.0, "x: no response yet") is None
    assert watch.succeed(244_000.0) == pytest.approx(4.0)
    watch.begin(300_000.0)
    assert watch.succeed(305_000.0) is None, "no warning was logged"
