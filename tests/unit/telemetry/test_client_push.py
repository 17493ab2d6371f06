"""Pushes of clients, admins and scans, which have no records of their own to count (KIP-714)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

import kafwire
from kafwire.broker.client_telemetry import ClientTelemetry
from kafwire.config import ClientConfig, ConsumerConfig, ProducerConfig, ScanConfig, ShareConsumerConfig
from kafwire.errors import ConfigError
from kafwire.testing import EmbeddedKafka
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support.deadlines import until

K = "org.apache.kafka"
OF_CONNECTIONS = {
    *("connection.creation.rate", "connection.creation.total"),
    *("node.request.latency.avg", "node.request.latency.max"),
}
FETCHES = {f"{K}.consumer.fetch.manager.fetch.latency.avg", f"{K}.consumer.fetch.manager.fetch.latency.max"}


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    with ClusterWorld(brokers=2, seed=1) as world:
        world.state.topics.create("t", partitions=2)
        yield world


def subscribe(world: ClusterWorld, *metrics: str) -> ClientTelemetry:
    telemetry: ClientTelemetry = world.state.part(ClientTelemetry)
    telemetry.subscribe("s", metrics or ["*"], interval_ms=1_000)
    return telemetry


def requests(world: ClusterWorld) -> list[str]:
    return [each.api for each in world.state.requests if "Telemetry" in each.api]


def write(world: ClusterWorld) -> None:
    with kafwire.Producer(world.bootstrap, engine=world.engine, enable_metrics_push=False) as producer:
        producer.send("t", b"v").result(30)


def test_the_defaults_are_those_of_java() -> None:
    kinds = (ClientConfig, ProducerConfig, ConsumerConfig, ShareConsumerConfig, ScanConfig)
    found = [kind.__dataclass_fields__["enable_metrics_push"].default for kind in kinds]
    assert found == [False, True, True, True, True]


@pytest.mark.parametrize("kind", [kafwire.Client, kafwire.Admin])
def test_clients_and_admins_push_the_metrics_of_javas_admin(world: ClusterWorld, kind: Any) -> None:
    telemetry = subscribe(world, f"{K}.")
    with kind(world.bootstrap, engine=world.engine, enable_metrics_push=True, client_rack="r") as client:
        found = client.client_instance_id(5)
        world.pass_time(5)
    assert {push.client_instance_id for push in telemetry.pushes} == {found}
    assert [push.is_terminating for push in telemetry.pushes[-2:]] == [False, True]
    assert telemetry.pushes[0].metrics.resource == {"client_rack": "r"}
    names = {point.name for point in telemetry.pushes[0].metrics.points}
    assert names == {f"{K}.admin.client.{name}" for name in OF_CONNECTIONS}


def test_own_metrics_of_a_client_are_those_of_its_connections(world: ClusterWorld) -> None:
    telemetry = subscribe(world, "kafwire.")
    with kafwire.Client(world.bootstrap, engine=world.engine, enable_metrics_push=True) as client:
        client.client_instance_id(5)
        world.pass_time(5)
    connects = [push.values()["kafwire.connection.connects"] for push in telemetry.pushes]
    assert sum(connects) >= 1
    assert {point.name.split(".")[1] for push in telemetry.pushes for point in push.metrics.points} == {"connection"}


@pytest.mark.parametrize("kind", [kafwire.Client, kafwire.Admin])
def test_clients_push_nothing_by_default(world: ClusterWorld, kind: Any) -> None:
    subscribe(world)
    with kind(world.bootstrap, engine=world.engine) as client:
        client._run(client._cluster.refresh)
        world.pass_time(30)
        with pytest.raises(ConfigError, match="enable_metrics_push is False"):
            client.client_instance_id(5)
    assert requests(world) == []


def test_a_dropped_client_pushes_no_more(world: ClusterWorld) -> None:
    telemetry = subscribe(world)
    client = kafwire.Client(world.bootstrap, engine=world.engine, enable_metrics_push=True)
    client.client_instance_id(5)
    world.pass_time(5)
    assert telemetry.pushes
    del client
    gc.collect()
    world.pass_time(1)
    before = len(telemetry.pushes)
    world.pass_time(30)
    assert len(telemetry.pushes) == before


def test_a_scan_over_its_own_connections_is_a_consumer(world: ClusterWorld) -> None:
    telemetry = subscribe(world, f"{K}.")
    write(world)
    with kafwire.scan(world.bootstrap, "t", engine=world.engine) as scan:
        world.pass_time(5)
        assert [record.value for record in scan] == [b"v"]
    world.pass_time(2)
    names = {point.name for push in telemetry.pushes for point in push.metrics.points}
    assert names == FETCHES | {f"{K}.consumer.{name}" for name in OF_CONNECTIONS}
    assert telemetry.pushes[-1].is_terminating


def test_a_scan_over_a_clients_connections_is_part_of_the_client(world: ClusterWorld) -> None:
    telemetry = subscribe(world, f"{K}.")
    write(world)
    with kafwire.Client(world.bootstrap, engine=world.engine, enable_metrics_push=True) as client:
        client.client_instance_id(5)
        with client.scan("t") as scan:
            assert [record.value for record in scan] == [b"v"]
        world.pass_time(5)
    names = {point.name for push in telemetry.pushes for point in push.metrics.points}
    assert names == FETCHES | {f"{K}.admin.client.{name}" for name in OF_CONNECTIONS}
    assert len({push.client_instance_id for push in telemetry.pushes}) == 1


@pytest.mark.parametrize("kind", [kafwire.AsyncClient, kafwire.AsyncAdmin])
def test_asyncio_clients_push_and_close_with_a_last_push(kind: Any) -> None:
    async def main(kafka: EmbeddedKafka) -> None:
        async with kind(kafka.bootstrap, enable_metrics_push=True) as client:
            await client.client_instance_id(10)
            await asyncio.to_thread(until, lambda: kafka.ask(pushes), "a push")
        assert client._cluster.is_closed

    def pushes(state: Any) -> list[bool]:
        return [push.is_terminating for push in state.part(ClientTelemetry).pushes]

    with EmbeddedKafka() as kafka:
        kafka.ask(lambda state: state.part(ClientTelemetry).subscribe("all", ["*"], interval_ms=100))
        asyncio.run(main(kafka))
        assert kafka.ask(pushes)[-1]
