"""Metrics that clients push to a real broker, as a plug-in of Java's gets them (KIP-714)."""

from __future__ import annotations

import base64
import itertools
import subprocess
import time
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kafwire
from kafwire import protocol
from kafwire.broker.client_telemetry import ClientTelemetry
from kafwire.config import ClientConfig
from kafwire.testing import EmbeddedKafka, KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java
from tests.support.deadlines import until
from tests.support.java.client import compiled

SOURCE = Path(__file__).parents[2] / "java" / "MetricsToFile.java"
ADMIN = SOURCE.with_name("AdminPush.java")
CLIENT_METRICS = 16
K = "org.apache.kafka"
INTERVAL_MS = 500


class Line(NamedTuple):
    """One number, as the plug-in wrote it."""

    client_id: str
    instance_id: str
    is_terminating: str
    resource: str
    name: str
    kind: str
    value: str
    attributes: str
    start_ns: str
    time_ns: str


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, Path]]:
    """A broker with the plug-in and a subscription to all metrics, and the plug-in's file."""
    folder = tmp_path_factory.mktemp("plug-in")
    jar = folder / "plug-in.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: MetricsToFile\n")
        for file in compiled(SOURCE).iterdir():
            archive.write(file, file.name)
    properties = {"metric.reporters": "MetricsToFile", "metrics.to.file": str(folder / "metrics")}
    with KafkaCluster(properties=properties, jvm_options=[f"-javaagent:{jar}"]) as cluster:
        with kafwire.Client(cluster.bootstrap) as client:
            client.create_topic("t", partitions=1)
            request: Any = protocol.IncrementalAlterConfigsRequest
            values = {"metrics": "*", "interval.ms": str(INTERVAL_MS), "match": "client_id=pushing"}
            configs = [
                request.AlterableConfig(name=name, config_operation=0, value=text) for name, text in values.items()
            ]
            resource = request.AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="s", configs=configs)
            response = client.call(request(resources=[resource]))
            assert not response.responses[0].error_code, response
        yield cluster, folder / "metrics"


def lines_of(file: Path, kind: str) -> list[Line]:
    """The numbers of the clients of a kind."""
    if not file.exists():
        return []
    found = [Line(*line.split("\t")) for line in file.read_text().splitlines() if line.count("\t") == 9]
    instances = {line.instance_id for line in found if f"{kind}." in line.name}
    return [line for line in found if line.instance_id in instances]


def test_a_producers_numbers(plugged: tuple[KafkaCluster, Path]) -> None:
    cluster, file = plugged
    began_ns = time.time_ns()
    with kafwire.Producer(cluster.bootstrap, client_id="pushing", client_rack="r1", linger_ms=50) as producer:
        for _ in range(3):
            producer.send("t", b"v").result(30)
        until(lambda: len({line.time_ns for line in lines_of(file, "producer")}) >= 2, "two pushes")
        producer.send("t", b"v").result(30)
        snapshot = producer.metrics()
    found = lines_of(file, "producer")
    assert {line.client_id for line in found} == {"pushing"}
    assert len({line.instance_id for line in found}) == 1
    assert {line.resource for line in found} == {"{client_rack=r1}"}
    assert found[-1].is_terminating == "true"
    assert {line.kind for line in found} == {"GAUGE", "AGGREGATION_TEMPORALITY_DELTA"}
    assert all(began_ns <= int(line.time_ns) <= time.time_ns() for line in found)
    records = [line for line in found if line.name == "kafwire.producer.records"]
    assert sum(float(line.value) for line in records) == snapshot["producer"]["records"] == 4
    for before, after in itertools.pairwise(records):
        assert before.time_ns == after.start_ns, "deltas follow each other"
    connects = [line for line in found if line.name == f"{K}.producer.connection.creation.total"]
    assert sum(float(line.value) for line in connects) == sum(each["connects"] for each in snapshot["connections"])
    values = {line.name: line for line in reversed(found)}
    queued_ms = float(values[f"{K}.producer.record.queue.time.avg"].value)
    assert 40 <= queued_ms <= snapshot["producer"]["queue_ms_max"]
    latency = values[f"{K}.producer.node.request.latency.max"]
    longest = max(each["latency_ms_max"] for each in snapshot["connections"])
    assert latency.attributes == "{node_id=1}"
    assert 0 < float(latency.value) <= longest


def test_a_consumers_numbers(plugged: tuple[KafkaCluster, Path]) -> None:
    cluster, file = plugged
    options: Any = {"client_id": "pushing", "auto_offset_reset": "earliest"}
    with kafwire.Producer(cluster.bootstrap) as producer:
        producer.send("t", b"v").result(30)
    with kafwire.Consumer(cluster.bootstrap, topics="t", group_id="g", **options) as consumer:
        assert consumer.poll(timeout=30.0)
        consumer.commit()
        consumer.poll(timeout=3.0)
        member_id = consumer.group_metadata().member_id
        rebalanced_ms = consumer.metrics()["group"]["rebalance_ms_sum"]
    found = lines_of(file, "consumer")
    names = {line.name for line in found}
    standard = {"coordinator.commit.latency.avg", "fetch.manager.fetch.latency.max", "poll.idle.ratio.avg"}
    assert {f"{K}.consumer.{name}" for name in standard} <= names
    assert f"{{group_id=g, group_member_id={member_id}}}" in {line.resource for line in found}
    totals = [line for line in found if line.name == f"{K}.consumer.coordinator.rebalance.latency.total"]
    assert sum(float(line.value) for line in totals) == pytest.approx(rebalanced_ms, abs=1)
    partitions = [float(line.value) for line in found if line.name.endswith("assigned.partitions")]
    assert 1.0 in partitions
    assert found[-1].is_terminating == "true"


def numbers_of(file: Path, instance_id: uuid.UUID | str) -> list[Line]:
    """The numbers of one admin client."""
    if isinstance(instance_id, uuid.UUID):
        instance_id = base64.urlsafe_b64encode(instance_id.bytes).decode()[:22]
    return [line for line in lines_of(file, "admin.client") if line.instance_id == instance_id]


@pytest.mark.parametrize("kind", [kafwire.Client, kafwire.Admin])
def test_an_admins_numbers_have_the_names_of_javas(plugged: tuple[KafkaCluster, Path], kind: Any) -> None:
    cluster, file = plugged
    command = [java(), "-cp", f"{compiled(ADMIN)}:{class_path()}", "AdminPush", cluster.bootstrap, "pushing"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        default, java_id = (process.stdout.readline().strip() for _ in range(2))
        until(lambda: numbers_of(file, java_id), "a push of Java's")
        process.stdin.close()
    assert default == str(ClientConfig.__dataclass_fields__["enable_metrics_push"].default).lower()
    with kind(cluster.bootstrap, client_id="pushing", enable_metrics_push=True) as client:
        own_id = client.client_instance_id()
        until(lambda: len({line.time_ns for line in numbers_of(file, own_id)}) >= 2, "two pushes")
    own = numbers_of(file, own_id)
    standard = {line.name for line in own if line.name.startswith(K)}
    assert len(standard) == 4
    assert standard <= {line.name for line in numbers_of(file, java_id)}
    assert own[-1].is_terminating == "true"


def test_a_broker_without_a_plug_in_is_not_asked(cluster: KafkaCluster) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        keys = client.call(protocol.ApiVersionsRequest(client_software_name="s", client_software_version="1")).api_keys
    assert not {key.api_key for key in keys} & {71, 72}


def walk(client: kafwire.Client) -> list[object]:
    """The responses to a client instance that keeps to no rule; after each error it waits until it may ask again."""
    found: list[object] = []
    known: Any = protocol.GetTelemetrySubscriptionsResponse(client_instance_id=uuid.UUID(int=0))

    def ask() -> int:
        nonlocal known
        request = protocol.GetTelemetrySubscriptionsRequest(client_instance_id=known.client_instance_id)
        response = client.call(request, broker=1)
        known = response if not response.error_code else known
        return int(response.error_code)

    def push(**fields: Any) -> int:
        request = protocol.PushTelemetryRequest(
            client_instance_id=known.client_instance_id, subscription_id=known.subscription_id
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return int(client.call(request, broker=1).error_code)

    found += [push(), ask(), ask()]
    subscription = known.requested_metrics, known.push_interval_ms, known.accepted_compression_types
    found += [*subscription, known.telemetry_max_bytes, known.delta_temporality]
    wrong = [
        {"subscription_id": known.subscription_id ^ 1},
        {"compression_type": 9},
        {"metrics": bytes(known.telemetry_max_bytes + 1)},
        {"metrics": b"\x0f"},
        {"metrics": b"\x0f", "compression_type": 4},
        {"client_instance_id": uuid.UUID(int=1)},
        {},
    ]
    for fields in wrong:
        found += [push(**fields), ask()]
        until(lambda: not ask(), "the interval is over")
    found += [push(), push(), push(terminating=True), push(), ask()]
    return found


def test_the_embedded_broker_responds_as_kafka_does(plugged: tuple[KafkaCluster, Path]) -> None:
    with kafwire.Client(plugged[0].bootstrap, client_id="pushing") as client:
        expected = walk(client)
    with EmbeddedKafka() as kafka, kafwire.Client(kafka.bootstrap, client_id="pushing") as client:
        kafka.ask(
            lambda state: state.part(ClientTelemetry).subscribe(
                "s", ["*"], interval_ms=INTERVAL_MS, match={"client_id": "pushing"}
            )
        )
        assert walk(client) == expected
