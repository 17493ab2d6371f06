"""The benchmark's programs on a real broker: what they write and read, in several partitions too, and the plot.

Nothing is measured here; the figures of such small runs say nothing.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import kafwire
from benchmarks.counted import counted_broker
from benchmarks.measure import converse
from benchmarks.payload import split_pool, write_pool
from benchmarks.programs import build_floor, build_rdkafka
from benchmarks.replayed import TOPIC_NAME, Replayed, replay_server, tls_options
from benchmarks.row import Topic
from benchmarks.rows import CONSUMERS
from benchmarks.strategies import VALUE_BYTES, Runner
from benchmarks.strategies_report import draw
from benchmarks.topics import Topics
from kafwire.broker.security.certificates import Certificates, make_certificates
from kafwire.testing.cluster import KafkaCluster
from tests.support.certificates import Authority

RECORDS = 1003  # not to be divided evenly


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.mark.parametrize("partitions", [1, 8])
def test_the_floor_and_librdkafka_read_the_records_of_the_floor(
    cluster: KafkaCluster, topic_name: str, folder: Path, partitions: int
) -> None:
    floor, payload = build_floor(folder), write_pool(folder, 100)
    Topics(cluster.bootstrap, floor).create(topic_name, partitions)
    where = [f"bootstrap={cluster.bootstrap}", f"topic={topic_name}", f"records={RECORDS}", f"partitions={partitions}"]
    shape = [f"payload={payload}", "value_bytes=100", "key_bytes=11", "batch_bytes=5000", "codec=none"]
    subprocess.run([floor, "fill", *where, *shape], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(subprocess.check_output([floor, "inspect", *where]))
    assert (found["records"], found["partitions"]) == (RECORDS, partitions)

    values = split_pool(payload.read_bytes(), 100)[:RECORDS]
    with kafwire.scan(cluster.bootstrap, topic_name) as stream:
        records = [record for batch in stream.batches() for record in batch]
    assert sorted(record.value or b"" for record in records) == sorted(values)
    assert all(record.key == (record.value or b"")[21:32] for record in records)
    sizes = [sum(record.partition == number for record in records) for number in range(partitions)]
    assert max(sizes) - min(sizes) <= 1

    expected = (RECORDS, RECORDS * 100, sum(value[-1] for value in values))
    # A broker fills a response up to max_bytes: the small one needs all turns of the rotation.
    readers = [[str(floor), "consume", "decode=1", f"max_bytes={most}"] for most in (4000, 8 << 20)]
    options = [f"{name}={value}" for name, value in CONSUMERS["defaults"].items()]
    for command in (*readers, [str(build_rdkafka(folder)), "consume", *options]):
        (once,) = converse([*command, *where, "seconds=0"])["passes"]
        assert (once["records"], once["bytes"], once["checksum"]) == expected


@pytest.fixture(scope="module")
def filled(cluster: KafkaCluster, folder: Path) -> str:
    """A topic of 8 partitions."""
    floor, name = build_floor(folder), "benchmark-workers"
    Topics(cluster.bootstrap, floor).create(name, 8)
    where = [f"bootstrap={cluster.bootstrap}", f"topic={name}", f"records={RECORDS}", "partitions=8"]
    shape = [f"payload={write_pool(folder, 100)}", "value_bytes=100", "batch_bytes=5000", "codec=none"]
    subprocess.run([floor, "fill", *where, *shape], check=True, capture_output=True)
    return name


@pytest.mark.parametrize(
    ("program", "task"),
    [
        ("kafwire", "scan"),
        ("kafwire_consumer", "arrow"),
        ("kafwire_consumer", "stream"),
        ("kafwire_consumer", "records"),
        ("kafwire_consumer", "records_of_batches"),
        ("kafwire_async", "arrow"),
        ("kafwire_async", "records"),
        ("confluent", "consume"),
        ("confluent", "consume_keys"),
        ("confluent", "poll_keys"),
    ],
)
def test_readers_read_every_record_of_every_partition(
    cluster: KafkaCluster, filled: str, folder: Path, program: str, task: str
) -> None:
    options = {"bootstrap": cluster.bootstrap, "topic": filled, "records": RECORDS, "partitions": 8, "seconds": 0}
    (once,) = converse(worker(program, task, options))["passes"]
    assert (once["records"], once["bytes"]) == (RECORDS, RECORDS * 100)
    values = split_pool(write_pool(folder, 100).read_bytes(), 100)[:RECORDS]
    assert once.get("checksum", -1) in {sum(value[-1] for value in values), -1}


@pytest.mark.parametrize("program", ["kafwire_consumer", "kafwire_async", "confluent"])
def test_delays_are_those_of_records_that_come_from_another_process(
    cluster: KafkaCluster, topic_name: str, folder: Path, program: str
) -> None:
    Topics(cluster.bootstrap, build_floor(folder)).create(topic_name, 3)
    pace = {"records": 100, "warmup": 50, "interval_us": 500, "value_bytes": 64, "seconds": 0}
    where = {"bootstrap": cluster.bootstrap, "topic": topic_name, "partitions": 3}
    (once,) = converse(worker(program, "latency", pace | where))["passes"]
    assert (once["records"], once["bytes"]) == (150, 150 * 64)
    figures = once["figures"]
    assert 0 < figures["p50"] <= figures["p99"] <= figures["worst"] < 60_000


@pytest.mark.parametrize(
    "program", ["kafwire", "kafwire_async", "kafwire_floor", "confluent", "aiokafka", "floor", "rdkafka"]
)
def test_waits_are_those_of_records_that_are_in_the_log(
    cluster: KafkaCluster, topic_name: str, folder: Path, program: str
) -> None:
    floor = build_floor(folder)
    topics = Topics(cluster.bootstrap, floor)
    topics.create(topic_name)
    options = {
        "bootstrap": cluster.bootstrap,
        "topic": topic_name,
        "payload": write_pool(folder, 100),
        "value_bytes": 100,
        "warmup": 20,
        "records": 100,
        "seconds": 0,
        "idempotent": "true",
    }
    command = worker(program, "wait", options)
    if program in {"floor", "rdkafka"}:
        native = floor if program == "floor" else build_rdkafka(folder)
        command = [str(native), "wait", *(f"{name}={value}" for name, value in options.items())]
    (once,) = converse(command)["passes"]
    assert (once["records"], once["bytes"]) == (120, 120 * 100)
    assert 0 < once["figures"]["p50"] <= once["figures"]["p99"] < 60_000
    assert topics.inspect(topic_name)["records"] == 120


@pytest.mark.parametrize(
    ("program", "task", "options"),
    [
        ("kafwire", "pressure", {"conf.buffer_memory": 300_000, "conf.max_block_ms": 50}),
        ("kafwire", "pressure_batch", {"conf.buffer_memory": 3_000_000, "conf.max_block_ms": 50}),
        ("confluent", "pressure", {"conf.queue.buffering.max.messages": 1000}),
    ],
)
def test_records_accepted_beside_a_broker_that_stands_still_are_delivered_later(
    cluster: KafkaCluster, topic_name: str, folder: Path, program: str, task: str, options: dict[str, object]
) -> None:
    topics = Topics(cluster.bootstrap, build_floor(folder))
    topics.create(topic_name)
    common = {
        "bootstrap": cluster.bootstrap,
        "topic": topic_name,
        "payload": write_pool(folder, 100),
        "value_bytes": 100,
        "broker_pid": cluster.node(1).pid,
        "seconds": 0,
        "held_seconds": 1,
    }
    (once,) = converse(worker(program, task, common | options))["passes"]
    figures = once["figures"]
    assert figures["refused"] > 0
    assert once["records"] <= topics.inspect(topic_name)["records"] <= once["records"] + figures.get("unsure", 0)


@pytest.mark.long
def test_strategies_are_counted_at_the_broker(folder: Path) -> None:
    with counted_broker(folder, heap="512m", properties={}) as broker:
        topics = Topics(broker.bootstrap, build_floor(folder))
        runner = Runner(broker, topics, folder, write_pool(folder, VALUE_BYTES), 0.1, 0.01)
        alone = runner.run("per_partition", 3, "flood")
        assert alone["connections"] > runner.run("single_socket", 3, "flood")["connections"] == 1
        assert alone["mb_per_second"] > 0
        quiet = runner.run("hybrid", 3, "quiet")
        # A record is asked for by one request at most.
        assert 0 < quiet["requests"] < 3
        assert quiet["request_bytes"] < 1000


def worker(program: str, task: str, options: Mapping[str, object]) -> list[str]:
    """The command of a worker; a broker is asked by confluent-kafka without joining its group."""
    own = {"conf.group.id": "benchmark"} if program == "confluent" else {}
    arguments = [f"{name}={value}" for name, value in {**options, **own}.items()]
    return [sys.executable, "-m", f"benchmarks.workers.{program}", task, *arguments]


def test_the_plot_is_drawn_with_the_available_rows(folder: Path) -> None:
    rounds = [{"mb_per_second": 1.0, "requests_per_second": 0.0, "connections": 2.0}]
    cells = [
        {
            "strategy": name,
            "partitions": count,
            "scenario": "flood",
            "rounds": rounds,
            "error": "no" if count > 1 else "",
        }
        for name in ("hybrid", "per_node")
        for count in (1, 10)
    ]
    path = folder / "plot.png"
    draw({"cells": cells}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 100_000


@pytest.fixture(scope="module", params=[1, 8])
def replayed(folder: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Replayed, Certificates, int]]:
    """The server that replays, its certificates, and how many partitions it has."""
    (certificates := folder / f"certificates-{request.param}").mkdir()
    made = make_certificates(certificates)
    topic = Topic(100, "none", 5000, request.param, key_bytes=11)
    with replay_server(folder, topic, RECORDS, write_pool(folder, 100), made.server_pem) as running:
        yield running, made, request.param


@pytest.mark.parametrize(
    ("program", "tls"),
    [(program, tls) for program in ("floor", "rdkafka", "confluent", "kafwire_consumer") for tls in (False, True)],
)
def test_readers_read_the_replayed_records(
    replayed: tuple[Replayed, Certificates, int], folder: Path, program: str, tls: bool
) -> None:
    server, certificates, partitions = replayed
    options: dict[str, object] = {
        "bootstrap": server.tls if tls else server.plain,
        "topic": TOPIC_NAME,
        "records": RECORDS,
        "partitions": partitions,
        "seconds": 0,
        **(tls_options(program, certificates.ca_pem) if tls else {}),
    }
    if program == "floor":
        command = [str(build_floor(folder)), "consume", "max_bytes=12000"]
    elif program == "rdkafka":
        options |= CONSUMERS["defaults"]
        command = [str(build_rdkafka(folder)), "consume"]
    else:
        task = "arrow" if program == "kafwire_consumer" else "consume"
        command = worker(program, task, {})
    (once,) = converse([*command, *(f"{name}={value}" for name, value in options.items())])["passes"]
    values = split_pool(write_pool(folder, 100).read_bytes(), 100)[:RECORDS]
    expected = (RECORDS, RECORDS * 100, sum(value[-1] for value in values))
    assert (once["records"], once["bytes"], once.get("checksum", expected[2])) == expected


def test_the_floor_verifies_the_server(replayed: tuple[Replayed, Certificates, int], folder: Path) -> None:
    server, _, _ = replayed
    other = Authority.new().write(folder / "other-ca.pem")
    command = [str(build_floor(folder)), "ready", f"bootstrap={server.tls}", f"topic={TOPIC_NAME}", f"ca={other}"]
    response = subprocess.run(command, capture_output=True, text=True, check=False)
    assert response.returncode
    assert "certificate verify failed" in response.stderr


def test_sent_records_are_acknowledged_and_dropped(replayed: tuple[Replayed, Certificates, int], folder: Path) -> None:
    server, certificates, _ = replayed
    shape = [f"payload={write_pool(folder, 100)}", "value_bytes=100", "batch_bytes=5000", "codec=none"]
    where = [f"bootstrap={server.tls}", f"ca={certificates.ca_pem}", f"topic={TOPIC_NAME}", f"records={RECORDS}"]
    subprocess.run([build_floor(folder), "fill", *where, *shape], check=True, capture_output=True)
    with kafwire.Producer(server.plain, linger_ms=0) as producer:
        assert producer.send(TOPIC_NAME, b"value", partition=0).result(timeout=30).offset >= RECORDS
