"""Pushes of clients to the embedded broker's state in the simulated world (KIP-714)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import kafwire
from kafwire.broker.client_telemetry import ClientTelemetry, Push
from kafwire.cluster.cluster import TELEMETRY_KEY
from kafwire.config import ConsumerConfig
from kafwire.consumer.group.membership_metrics import MembershipMetrics
from kafwire.consumer.group.poll_interval import PollInterval
from kafwire.consumer.pushed_metrics import PushedConsumer
from kafwire.errors import ConfigError, ErrorCode, KafkaTimeoutError
from kafwire.protocol import GetTelemetrySubscriptionsRequest
from kafwire.telemetry.metrics_push import MANY_ROWS, MetricsPush
from kafwire.testing.simulation.cluster import ClusterWorld

K = "org.apache.kafka"
PRODUCER = {
    *("connection.creation.rate", "connection.creation.total", "node.request.latency.avg", "node.request.latency.max"),
    *("produce.throttle.time.avg", "produce.throttle.time.max", "record.queue.time.avg", "record.queue.time.max"),
}
CONSUMER = {
    *("connection.creation.rate", "connection.creation.total", "node.request.latency.avg", "node.request.latency.max"),
    *("poll.idle.ratio.avg", "coordinator.commit.latency.avg", "coordinator.commit.latency.max"),
    *("coordinator.assigned.partitions", "coordinator.rebalance.latency.avg", "coordinator.rebalance.latency.max"),
    *("coordinator.rebalance.latency.total", "fetch.manager.fetch.latency.avg", "fetch.manager.fetch.latency.max"),
}


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    with ClusterWorld(brokers=2, seed=1) as world:
        world.state.topics.create("t", partitions=2)
        yield world


def subscribe(world: ClusterWorld, *metrics: str, interval_ms: int = 10_000) -> ClientTelemetry:
    telemetry: ClientTelemetry = world.state.part(ClientTelemetry)
    telemetry.subscribe("s", metrics or ["*"], interval_ms=interval_ms)
    return telemetry


def requests(world: ClusterWorld) -> list[str]:
    return [each.api for each in world.state.requests if "Telemetry" in each.api]


def names(push: Push) -> set[str]:
    return {point.name for point in push.metrics.points}


def test_the_key_is_that_of_the_api() -> None:
    assert GetTelemetrySubscriptionsRequest.api_key == TELEMETRY_KEY


def test_a_cluster_without_the_api_is_never_asked(world: ClusterWorld) -> None:
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
        world.pass_time(600)
    assert requests(world) == []


def test_pushes_can_be_turned_off(world: ClusterWorld) -> None:
    subscribe(world)
    options: Any = {"engine": world.engine, "enable_metrics_push": False}
    with (
        kafwire.Producer(world.bootstrap, **options) as producer,
        kafwire.Consumer(world.bootstrap, topics="t", group_id="g", **options) as consumer,
        kafwire.ShareConsumer(world.bootstrap, topics="t", group_id="s", **options) as sharing,
    ):
        producer.send("t", b"v").result(30)
        consumer.poll(timeout=1.0)
        sharing.poll(timeout=1.0)
        world.pass_time(60)
    assert requests(world) == []


def test_a_producer_pushes_every_interval_and_at_the_end(world: ClusterWorld) -> None:
    telemetry = subscribe(world)
    with kafwire.Producer(world.bootstrap, engine=world.engine, client_rack="r", linger_ms=20) as producer:
        for _ in range(3):
            producer.send("t", b"v" * 100, partition=0).result(30)
        world.pass_time(25)
        producer.send("t", b"v" * 100, partition=0).result(30)
    first, *others, _last = telemetry.pushes
    assert len({push.client_instance_id for push in telemetry.pushes}) == 1
    assert len({push.node for push in telemetry.pushes}) == 1, "the client stays with a broker"
    assert [push.is_terminating for push in telemetry.pushes] == [False] * (len(others) + 1) + [True]
    assert first.metrics.resource == {"client_rack": "r"}
    assert {f"{K}.producer.{name}" for name in PRODUCER} <= names(first)
    values = first.values()
    assert values[f"{K}.producer.record.queue.time.avg"] >= 20
    latency = f"{K}.producer.node.request.latency"
    assert values[f"{latency}.max"] >= values[f"{latency}.avg"] > 0
    records = [push.values()["kafwire.producer.records"] for push in telemetry.pushes]
    assert (records[0], sum(records)) == (3, 4), "deltas"
    assert first.compression_type == 4


def test_the_delta_of_a_refused_push_comes_with_the_next(world: ClusterWorld) -> None:
    telemetry = subscribe(world, "kafwire.producer.records")
    refused: list[Any] = []

    def refuse(request: Any) -> Any:
        if request.name != "PushTelemetry" or refused:
            return None
        refused.append(request)
        return type(request.message).response(error_code=ErrorCode.TELEMETRY_TOO_LARGE)

    world.state.interceptors.append(refuse)
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
        world.pass_time(60)
    assert refused
    assert sum(push.values()["kafwire.producer.records"] for push in telemetry.pushes) == 1


def test_a_delta_that_the_limit_cut_off_comes_later(world: ClusterWorld) -> None:
    telemetry = subscribe(world)
    telemetry.max_bytes, telemetry.compression_types = 2000, []
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
        world.pass_time(20)
        telemetry.max_bytes = 1_000_000
        telemetry.subscribe("s", ["*"], interval_ms=5_000)
        world.pass_time(40)
    connects = "kafwire.connection.connects"
    assert connects not in names(telemetry.pushes[0])
    whole = [push.values().get(connects, 0) for push in telemetry.pushes]
    assert sum(whole) >= 1, "the first whole push has the connections made before"


def test_sums_are_cumulative_if_the_broker_wants_them(world: ClusterWorld) -> None:
    telemetry = subscribe(world, "kafwire.producer.records")
    telemetry.is_delta = False
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
        world.pass_time(40)
    assert len(telemetry.pushes) >= 3
    assert {push.values()["kafwire.producer.records"] for push in telemetry.pushes} == {1}


def test_a_consumer_pushes_the_required_metrics(world: ClusterWorld) -> None:
    telemetry = subscribe(world, f"{K}.", interval_ms=60_000)
    with kafwire.Producer(world.bootstrap, engine=world.engine, enable_metrics_push=False) as producer:
        producer.send("t", b"v").result(30)
    options: Any = {"auto_offset_reset": "earliest", "group_instance_id": "i", "engine": world.engine}
    with kafwire.Consumer(world.bootstrap, topics="t", group_id="g", **options) as consumer:
        assert consumer.poll(timeout=10.0)
        consumer.commit()
        consumer.poll(timeout=100.0)
        world.pass_time(200)  # without a read
        member_id = consumer.group_metadata().member_id
    pushes = telemetry.pushes
    assert {f"{K}.consumer.{name}" for name in CONSUMER} == set().union(*map(names, pushes))
    assert pushes[0].metrics.resource == {"group_id": "g", "group_instance_id": "i", "group_member_id": member_id}
    values = pushes[0].values()
    assert values[f"{K}.consumer.coordinator.assigned.partitions"] == 2
    assert values[f"{K}.consumer.coordinator.rebalance.latency.total"] > 0
    ratios = [push.values()[f"{K}.consumer.poll.idle.ratio.avg"] for push in pushes]
    assert ratios[0] > 0.5, "it waited for records"
    assert ratios[-2] < 0.1, "of the time since the last push"
    assert pushes[-1].is_terminating


def test_a_share_consumer_pushes(world: ClusterWorld) -> None:
    telemetry = subscribe(world)
    with kafwire.ShareConsumer(world.bootstrap, topics="t", group_id="s", engine=world.engine) as consumer:
        consumer.poll(timeout=30.0)
    assert telemetry.pushes[-1].is_terminating
    assert telemetry.pushes[0].metrics.resource["group_id"] == "s"
    assert names(telemetry.pushes[0]) >= {
        f"{K}.consumer.node.request.latency.avg",
        f"{K}.consumer.fetch.manager.fetch.latency.max",
        "kafwire.share.consumer.partitions",
    }


def test_only_requested_metrics_are_pushed(world: ClusterWorld) -> None:
    telemetry = subscribe(world, f"{K}.producer.connection.", "kafwire.producer.batches")
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
        world.pass_time(20)
    assert names(telemetry.pushes[0]) == {
        f"{K}.producer.connection.creation.rate",
        f"{K}.producer.connection.creation.total",
        "kafwire.producer.batches",
    }


def test_a_limit_of_bytes_keeps_the_required_metrics(world: ClusterWorld) -> None:
    telemetry = subscribe(world)
    telemetry.max_bytes, telemetry.compression_types = 2000, []
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        for _ in range(2):
            producer.send("t", b"v").result(30)
        world.pass_time(20)
    push = telemetry.pushes[0]
    assert push.compression_type == 0
    assert {f"{K}.producer.{name}" for name in PRODUCER} <= names(push)
    assert "kafwire.connection.requests" not in names(push)


def test_without_requested_metrics_nothing_is_pushed(world: ClusterWorld) -> None:
    telemetry = subscribe(world, "", interval_ms=10_000)
    telemetry.subscribe("s", [], interval_ms=10_000)
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
        world.pass_time(25)
        assert requests(world) == ["GetTelemetrySubscriptions"] * 3
        telemetry.subscribe("s", ["*"], interval_ms=10_000)
        world.pass_time(30)
        assert telemetry.pushes
    assert telemetry.pushes[-1].is_terminating


def test_a_changed_subscription_takes_effect_with_the_next_push(world: ClusterWorld) -> None:
    telemetry = subscribe(world, "kafwire.producer.records")
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
        world.pass_time(20)
        before = len(telemetry.pushes)
        subscribe(world, "kafwire.producer.batches")
        world.pass_time(30)
        assert [names(push) for push in telemetry.pushes[before:]][:1] == [{"kafwire.producer.batches"}]
        ids = {push.client_instance_id for push in telemetry.pushes}
    assert len(ids) == 1


def test_a_broker_that_stops_gives_way_to_another(world: ClusterWorld) -> None:
    telemetry = subscribe(world)
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v", partition=0).result(30)
        world.pass_time(20)
        stopped = telemetry.pushes[-1].node
        world.kill(stopped)
        world.pass_time(120)
        pushed = {push.node for push in telemetry.pushes}
        assert pushed == {1, 2}
        assert len({push.client_instance_id for push in telemetry.pushes}) == 1


def test_a_refusal_for_good_ends_the_pushes(world: ClusterWorld, caplog: pytest.LogCaptureFixture) -> None:
    telemetry = subscribe(world)

    def refuse(request: Any) -> Any:
        if request.name != "PushTelemetry":
            return None
        return type(request.message).response(error_code=ErrorCode.INVALID_RECORD)

    world.state.interceptors.append(refuse)
    with (
        caplog.at_level(logging.INFO, "kafwire"),
        kafwire.Producer(world.bootstrap, engine=world.engine) as producer,
    ):
        producer.send("t", b"v").result(30)
        world.pass_time(600)
    assert requests(world) == ["GetTelemetrySubscriptions", "PushTelemetry"]
    assert telemetry.pushes == []
    assert "refused metrics of this client for good" in caplog.text


def test_the_client_instance_id(world: ClusterWorld) -> None:
    telemetry = subscribe(world)
    options: Any = {"engine": world.engine}
    with (
        kafwire.Producer(world.bootstrap, **options) as producer,
        kafwire.Consumer(world.bootstrap, topics="t", **options) as consumer,
        kafwire.ShareConsumer(world.bootstrap, topics="t", group_id="s", **options) as sharing,
    ):
        producer.send("t", b"v").result(30)
        consumer.poll(timeout=1.0)
        sharing.poll(timeout=1.0)
        found = [client.client_instance_id(5) for client in (producer, consumer, sharing)]
        assert producer.client_instance_id(0) == found[0]
        world.pass_time(20)
    assert {push.client_instance_id for push in telemetry.pushes} == set(found)
    assert len(set(found)) == 3


@pytest.mark.parametrize("kind", [kafwire.Producer, kafwire.Consumer, kafwire.ShareConsumer])
def test_the_client_instance_id_before_any_other_call(world: ClusterWorld, kind: Any) -> None:
    subscribe(world)
    given = {} if kind is kafwire.Producer else {"topics": "t", "group_id": "g"}
    with kind(world.bootstrap, engine=world.engine, **given) as client:
        assert client.client_instance_id(5).version == 4


def test_a_cluster_without_a_plug_in_gives_no_client_instance_id(world: ClusterWorld) -> None:
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        with pytest.raises(KafkaTimeoutError, match="no client instance id within 2 s"):
            producer.client_instance_id(2)
        with pytest.raises(ConfigError, match="timeout=-1"):
            producer.client_instance_id(-1)
    options: Any = {"engine": world.engine, "enable_metrics_push": False}
    with (
        kafwire.Producer(world.bootstrap, **options) as producer,
        pytest.raises(ConfigError, match="pushes no metrics"),
    ):
        producer.client_instance_id(2)


def test_an_early_end_pushes_nothing(world: ClusterWorld) -> None:
    subscribe(world)
    with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
        producer.send("t", b"v").result(30)
    assert requests(world) == [], "the first request comes after half a second"


def test_a_hanging_broker_delays_the_close_by_a_second(world: ClusterWorld) -> None:
    subscribe(world)
    producer = kafwire.Producer(world.bootstrap, engine=world.engine)
    producer.send("t", b"v").result(30)
    world.pass_time(20)
    for node in world.nodes.values():
        node.silent = True
    before = world.engine.now_ms()
    producer.close()
    assert world.engine.now_ms() - before <= 1500


@pytest.mark.parametrize("timeout", [0, 5])
def test_the_last_push_has_the_time_of_the_close(world: ClusterWorld, timeout: float) -> None:
    telemetry = subscribe(world)
    producer = kafwire.Producer(world.bootstrap, engine=world.engine)
    producer.send("t", b"v").result(30)
    world.pass_time(20)
    producer.close(timeout)
    world.pass_time(5)
    assert telemetry.pushes[-1].is_terminating is bool(timeout)


@pytest.mark.parametrize("runs", [False, True], ids=["at the close", "before"])
def test_a_defect_keeps_no_client_open(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, runs: bool
) -> None:
    subscribe(world)

    def fail(_: object) -> Any:
        raise ValueError("a defect")

    consumer = kafwire.Consumer(world.bootstrap, topics="t", group_id="g", engine=world.engine)
    consumer.poll(timeout=20)
    monkeypatch.setattr(PushedConsumer, "reading", fail)
    if runs:
        world.pass_time(20)
    consumer.close()
    assert caplog.text.count("ValueError: a defect") == 1
    assert "pushing metrics failed, and ends" in caplog.text if runs else "the last push" in caplog.text
    assert all(not connection.is_ready for connection in consumer._core.cluster.connections)


@pytest.mark.parametrize("kind", [kafwire.Consumer, kafwire.ShareConsumer])
def test_an_interrupted_last_push_leaves_no_connection(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    subscribe(world)
    client = kind(world.bootstrap, topics="t", group_id="g", engine=world.engine)
    client.poll(timeout=20)

    async def interrupted(*_: object) -> None:
        raise asyncio.CancelledError

    async def close() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await client._core.close(10.0)

    monkeypatch.setattr(MetricsPush, "close", interrupted)
    world.run(close())
    assert client._core.cluster._closed
    client.close()


def test_own_metrics_are_read_only_for_a_subscription_to_them(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = subscribe(world, f"{K}.")
    with kafwire.Consumer(world.bootstrap, topics="t", group_id="g", engine=world.engine) as consumer:
        monkeypatch.setattr(type(consumer._core), "metrics", lambda _: pytest.fail("it was read"))
        consumer.poll(timeout=30)
    assert telemetry.pushes[0].metrics.resource["group_member_id"]


def test_metrics_of_many_partitions_are_encoded_off_the_engine(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    in_thread = type(world.engine).in_thread

    def spy(engine: Any, name: str, function: Any, *args: Any) -> Any:
        threads.append(name)
        return in_thread(engine, name, function, *args)

    monkeypatch.setattr(type(world.engine), "in_thread", spy)
    world.state.topics.create("wide", partitions=MANY_ROWS)
    telemetry = subscribe(world)
    options: Any = {"engine": world.engine, "auto_offset_reset": "earliest"}
    for topic, count in ("t", 0), ("wide", 1):
        with kafwire.Consumer(world.bootstrap, topics=topic, **options) as consumer:
            consumer.poll(timeout=14)
            found = threads.count("kafwire-metrics")
            assert min(found, 1) == count
    points = [point for point in telemetry.pushes[-1].metrics.points if point.name.endswith("partition.position")]
    assert len(points) == MANY_ROWS


def test_the_idle_ratio_is_of_the_time_since_the_last_push(world: ClusterWorld) -> None:
    unused: Any = None
    interval = PollInterval(world.engine, unused, unused, None)
    membership: Any = SimpleNamespace(counts=MembershipMetrics(), read_ms=interval.read_ms)
    interval.reads(world, begun=True)
    world.pass_time(100)  # without a broker
    interval.reads(world, begun=False)
    config = ConsumerConfig(bootstrap_servers=(("localhost", 9092),))
    cluster: Any = SimpleNamespace(engine=world.engine, connections=[], connects=0)
    source = PushedConsumer(cluster, config, dict, lambda: 0, str, membership=membership)
    world.pass_time(9)
    interval.reads(world, begun=True)
    world.pass_time(1)
    ratios = [source.reading().gauges["consumer.poll.idle.ratio.avg"]]
    interval.reads(world, begun=False)
    world.pass_time(10)
    ratios.append(source.reading().gauges["consumer.poll.idle.ratio.avg"])
    interval.reads(world, begun=True)
    interval.reads(source, begun=True)  # a second thread
    world.pass_time(10)
    ratios.append(source.reading().gauges["consumer.poll.idle.ratio.avg"])
    interval.reads(source, begun=False)
    world.pass_time(5)
    interval.reads(world, begun=False)
    world.pass_time(5)
    ratios.append(source.reading().gauges["consumer.poll.idle.ratio.avg"])
    assert ratios == [pytest.approx(ratio, abs=0.01) for ratio in (0.1, 0, 1, 0.5)], "of the time since the last one"


def test_a_reading_begins_new_maxima(world: ClusterWorld) -> None:
    connection: Any = SimpleNamespace(node=1, role="fetch", responses=1, latency_ms_sum=5.0, latency_ms_peak=5.0)
    group: Any = SimpleNamespace(commit_ms_sum=6.0, commit_requests=1, commit_ms_peak=6.0)
    counts = MembershipMetrics()
    counts.rebalances, counts.rebalance_ms_sum, counts.rebalance_ms_peak = 1, 7.0, 7.0
    membership: Any = SimpleNamespace(counts=counts, read_ms=float)
    cluster: Any = SimpleNamespace(engine=world.engine, connections=[connection], connects=0)
    config = ConsumerConfig(bootstrap_servers=(("localhost", 9092),))
    source = PushedConsumer(cluster, config, dict, lambda: 0, str, group, membership)
    for maxima in ([5.0, 6.0, 7.0], [0.0, 0.0, 0.0]):
        reading = source.reading()  # the second is of no new event
        assert [timing.longest for timing in reading.timings.values()] == maxima
        assert reading.nodes[1].longest == maxima[0]
