"""Each fault of the test kit is seen, and survived as documented, by kafwire, confluent-kafka and aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import kafwire
from kafwire.broker.faults import Fault
from kafwire.testing import EmbeddedKafka
from tests.support.doc_blocks import environment

TOPIC = "flights"


class Client(Protocol):
    """The calls of each of the clients; `read` as a member of a group, if it can be one, that commits."""

    has_groups: bool

    def write(self, servers: str, values: list[bytes]) -> list[bytes]: ...

    def read(self, servers: str, count: int) -> list[bytes]: ...


class Kafwire:
    has_groups = False  # it is in no group yet: its partitions are assigned, and their offsets committed

    def write(self, servers: str, values: list[bytes]) -> list[bytes]:
        failed = []
        with kafwire.Producer(servers, client_id="app", request_timeout_ms=10_000) as producer:
            for value in values:
                try:
                    producer.send(TOPIC, value).result(30)
                except kafwire.errors.KafkaError:
                    failed.append(value)
        return failed

    def read(self, servers: str, count: int) -> list[bytes]:
        found: list[bytes] = []
        with kafwire.Consumer(
            servers,
            assign=[kafwire.TopicPartition(TOPIC, 0)],
            group_id="readers",
            client_id="app",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            for batch in consumer.batches(timeout=20):
                found += [record.value or b"" for record in batch]
                consumer.commit(batch)
                if len(found) >= count:
                    break
        return found


class Confluent:
    has_groups = True

    def write(self, servers: str, values: list[bytes]) -> list[bytes]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "app",
                "enable.idempotence": True,
                "message.timeout.ms": 20_000,
                "log_level": 0,
            }
        )
        failed: list[bytes] = []

        def on_delivery(error: object, message: Any) -> None:
            if error is not None:
                failed.append(message.value())

        for value in values:
            producer.produce(TOPIC, value, on_delivery=on_delivery)
            producer.flush(30)
        return failed

    def read(self, servers: str, count: int) -> list[bytes]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "client.id": "app",
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,  # closing waits for it
                "log_level": 0,
            }
        )
        consumer.subscribe([TOPIC])
        found: list[bytes] = []
        ends = time.monotonic() + 30
        while len(found) < count and time.monotonic() < ends:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                found.append(message.value() or b"")
        while time.monotonic() < ends:
            try:
                consumer.commit(asynchronous=False)
                break
            except confluent_kafka.KafkaException as error:
                assert error.args[0].retriable(), error
        consumer.close()
        return found


class AioKafka:
    has_groups = True

    def write(self, servers: str, values: list[bytes]) -> list[bytes]:
        async def writing() -> list[bytes]:
            failed = []
            producer = AIOKafkaProducer(
                bootstrap_servers=servers, client_id="app", enable_idempotence=True, request_timeout_ms=5000
            )
            await producer.start()
            try:
                for value in values:
                    try:
                        await producer.send_and_wait(TOPIC, value)
                    except Exception:
                        failed.append(value)
            finally:
                await producer.stop()
            return failed

        return asyncio.run(asyncio.wait_for(writing(), 60))

    def read(self, servers: str, count: int) -> list[bytes]:
        async def reading() -> list[bytes]:
            consumer = AIOKafkaConsumer(
                TOPIC,
                bootstrap_servers=servers,
                client_id="app",
                group_id="readers",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                request_timeout_ms=5000,
            )
            await consumer.start()
            found: list[bytes] = []
            try:
                while len(found) < count:
                    record = await consumer.getone()
                    found.append(record.value)
                await consumer.commit()
            finally:
                await consumer.stop()
            return found

        return asyncio.run(asyncio.wait_for(reading(), 60))


CLIENTS: list[Client] = [Kafwire(), Confluent(), AioKafka()]


@pytest.fixture(params=CLIENTS, ids=lambda client: type(client).__name__.lower())
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.param
    return found


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic(TOPIC)
        yield running


@pytest.fixture
def two() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(2) as running:
        running.create_topic(TOPIC, replicas=2)
        yield running


def stored(kafka: EmbeddedKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records(TOPIC)]


# --- writing

WRITING: dict[str, Callable[[EmbeddedKafka], Fault]] = {
    "retriable": lambda kafka: kafka.fail_next("Produce", "NOT_ENOUGH_REPLICAS", times=2),
    "moved": lambda kafka: kafka.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", topic=TOPIC, partition=0),
    "lost": lambda kafka: kafka.drop_response("Produce"),
    "closed": lambda kafka: kafka.hang_up("Produce", times=2),
    "late": lambda kafka: kafka.delay("Produce", 0.3),
    "metadata": lambda kafka: kafka.fail_next("Metadata", "LEADER_NOT_AVAILABLE", topic=TOPIC),
    "id": lambda kafka: kafka.fail_next("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
}


@pytest.mark.parametrize("fault", WRITING.values(), ids=WRITING)
def test_writers_survive(kafka: EmbeddedKafka, client: Client, fault: Callable[[EmbeddedKafka], Fault]) -> None:
    made = fault(kafka)
    assert client.write(kafka.bootstrap, [b"EWR-IAH", b"JFK-MIA"]) == []
    assert made.times > 0
    assert stored(kafka) == [b"EWR-IAH", b"JFK-MIA"]


def test_writers_get_the_error_of_a_refused_record(kafka: EmbeddedKafka, client: Client) -> None:
    fault = kafka.fail_next("Produce", "INVALID_RECORD")
    assert client.write(kafka.bootstrap, [b"EWR-IAH", b"JFK-MIA"]) == [b"EWR-IAH"]
    assert fault.times == 1
    assert stored(kafka) == [b"JFK-MIA"]


def test_the_rest_of_a_request_is_stored(kafka: EmbeddedKafka) -> None:
    """Other clients send partitions in requests of their own."""
    kafka.create_topic("trains")
    with kafwire.Producer(kafka.bootstrap, linger_ms=60_000) as producer:
        producer.send("trains", b"w")
        producer.send(TOPIC, b"w")
        producer.flush(30)  # both topics are known now
        before = len(kafka.requests("Produce"))
        first = kafka.fail_next("Produce", "INVALID_RECORD", topic="trains", message="no trains today")
        train, flight = producer.send("trains", b"x"), producer.send(TOPIC, b"y")
        producer.flush(30)
        assert flight.result(30).offset == 1
        with pytest.raises(kafwire.errors.BrokerError, match="no trains today"):
            train.result(30)
    assert first.times == 1
    assert len(kafka.requests("Produce")) == before + 1
    assert stored(kafka) == [b"w", b"y"]


# --- reading

READING: dict[str, Callable[[EmbeddedKafka], Fault]] = {
    "moved": lambda kafka: kafka.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", topic=TOPIC),
    "fenced": lambda kafka: kafka.fail_next("Fetch", "FENCED_LEADER_EPOCH"),
    "session": lambda kafka: kafka.fail_next("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
    "lost": lambda kafka: kafka.drop_response("Fetch"),
    "closed": lambda kafka: kafka.hang_up("Fetch"),
    "late": lambda kafka: kafka.delay("Fetch", 0.3, times=3),
    "offsets": lambda kafka: kafka.fail_next("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
    "coordinator": lambda kafka: kafka.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2),
    "committed": lambda kafka: kafka.fail_next("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
    "commit": lambda kafka: kafka.fail_next("OffsetCommit", "NOT_COORDINATOR"),
    "commit lost": lambda kafka: kafka.drop_response("OffsetCommit"),
}


@pytest.mark.parametrize("fault", READING.values(), ids=READING)
def test_readers_survive(kafka: EmbeddedKafka, client: Client, fault: Callable[[EmbeddedKafka], Fault]) -> None:
    kafka.append(TOPIC, ["EWR-IAH", "JFK-MIA"])
    made = fault(kafka)
    assert client.read(kafka.bootstrap, 2) == [b"EWR-IAH", b"JFK-MIA"]
    assert made.times > 0
    assert kafka.committed("readers") == {(TOPIC, 0): 2}


@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
@pytest.mark.parametrize("client", [each for each in CLIENTS if each.has_groups], ids=["confluent", "aiokafka"])
def test_members_of_groups_survive(kafka: EmbeddedKafka, client: Client, api: str) -> None:
    kafka.append(TOPIC, ["EWR-IAH"])
    made = [kafka.fail_next(api, "NOT_COORDINATOR"), kafka.hang_up(api)]
    assert client.read(kafka.bootstrap, 1) == [b"EWR-IAH"]
    assert [fault.times for fault in made] == [1, 1]
    assert kafka.committed("readers") == {(TOPIC, 0): 1}


# --- brokers, leaders, coordinators


def test_a_broker_that_stops_and_comes_back(two: EmbeddedKafka, client: Client) -> None:
    ports = two.bootstrap
    two.stop_node(1)
    assert client.write(two.bootstrap, [b"EWR-IAH"]) == []
    assert {request.node for request in two.requests()} == {2}
    two.start_node(1)
    two.stop_node(2)
    assert client.read(two.bootstrap, 1) == [b"EWR-IAH"]
    two.start_node(2)
    assert two.bootstrap == ports
    assert client.write(two.bootstrap, [b"JFK-MIA"]) == []
    assert stored(two) == [b"EWR-IAH", b"JFK-MIA"]


def test_leaders_and_coordinators_move(two: EmbeddedKafka, client: Client) -> None:
    two.move_leader(TOPIC, 0, 2)
    two.move_coordinator("readers", 1)
    assert client.write(two.bootstrap, [b"EWR-IAH"]) == []
    assert client.read(two.bootstrap, 1) == [b"EWR-IAH"]
    assert {request.node for request in two.requests("Produce")} == {2}
    assert {request.node for request in two.requests("OffsetCommit")} == {1}
    two.move_leader(TOPIC, 0, 1)
    two.move_coordinator("readers", 2)
    two.append(TOPIC, ["JFK-MIA"])
    assert client.read(two.bootstrap, 1) == [b"JFK-MIA"]
    assert {request.node for request in two.requests("OffsetCommit")} == {1, 2}


# --- holding, the log of requests


def test_a_held_request_is_done_later(kafka: EmbeddedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap, client_id="app") as producer:
        with kafka.hold("Produce", client_id="app") as fault:
            delivery = producer.send(TOPIC, b"EWR-IAH")
            kafka.wait_for_fault(fault)
            assert not delivery.done()
            assert stored(kafka) == []
        assert delivery.result(30).offset == 0


def test_requests_are_waited_for(kafka: EmbeddedKafka) -> None:
    with pytest.raises(TimeoutError, match=r"0 of 1 requests Produce came within 0.05 s"):
        kafka.wait_for_request("Produce", timeout=0.05)
    Kafwire().write(kafka.bootstrap, [b"EWR-IAH"])
    seen = kafka.wait_for_request("Produce", topic=TOPIC)
    assert (seen.api, seen.node, seen.client_id, seen.principal) == ("Produce", 1, "app", "User:ANONYMOUS")
    assert seen.partitions == [(TOPIC, 0)]
    assert seen.message.acks == -1
    with pytest.raises(TimeoutError):
        kafka.wait_for_request("Produce", after=seen.number, timeout=0.05)
    kafka.forget_requests()
    assert kafka.requests() == []
    with pytest.raises(ValueError, match="did you mean Produce"):
        kafka.wait_for_request("Prodce")
    fault = kafka.hang_up("Fetch")
    with pytest.raises(TimeoutError, match=r"the fault \(Fetch connection closed\) was met 0 of 1 times"):
        kafka.wait_for_fault(fault, timeout=0.05)


def test_topics_and_their_records(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("trains", partitions=2, cleanup_policy="compact")
    for wrong in ({"cleanup_policy": "x"}, {"no_such_option": 1}):
        with pytest.raises(ValueError, match=r"cleanup.policy|no.such.option"):
            kafka.create_topic("ships", **wrong)
    with pytest.raises(ValueError, match="already"):
        kafka.create_topic("trains")
    began = time.time() * 1000
    assert kafka.append("trains", [b"a", "b"], partition=1) == 0
    assert kafka.append("trains", [{"value": None, "key": b"k", "timestamp_ms": 5}], partition=1) == 2
    first, second, third = kafka.records("trains", partition=1)
    assert (first.value, second.value, second.partition, third.key, third.timestamp_ms) == (b"a", b"b", 1, b"k", 5)
    assert began - 1000 < (first.timestamp_ms or 0) < began + 10_000
    assert kafka.records("trains", partition=0) == []
    with kafwire.Consumer(kafka.bootstrap, topics=["trains"], start="earliest") as consumer:
        batch = next(consumer.batches(timeout=10))
    assert [record.value for record in batch] == [b"a", b"b", None]
    kafka.delete_topic("trains")
    with pytest.raises(KeyError, match="no topic trains"):
        kafka.records("trains")
    with pytest.raises(KeyError, match="no partition flights-7"):
        kafka.append(TOPIC, [b"x"], partition=7)
    assert kafka.committed("nobody") == {}


def test_connections_are_closed(kafka: EmbeddedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap, client_id="app") as producer:
        producer.send(TOPIC, b"EWR-IAH").result(30)
        before = {request.connection for request in kafka.requests()}
        kafka.disconnect()
        producer.send(TOPIC, b"JFK-MIA").result(30)
    assert {request.connection for request in kafka.requests()} > before
    assert stored(kafka) == [b"EWR-IAH", b"JFK-MIA"]


# --- the plugin


def run_pytest(folder: Path, text: str, *options: str) -> str:
    (folder / "conftest.py").write_text('pytest_plugins = ["kafwire.testing.pytest_plugin"]\n')
    (folder / "test_it.py").write_text(textwrap.dedent(text))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        *options,
        str(folder),
    ]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_failed_test_shows_the_requests(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        """
        import kafwire, pytest

        @pytest.mark.kafka(nodes=2)
        def test_it(kafka):
            assert len(kafka.bootstrap.split(",")) == 2
            kafka.hang_up("Produce")
            with kafwire.Producer(kafka.bootstrap, client_id="app") as producer:
                producer.send("flights", b"EWR-IAH").result(10)
            assert not kafka.records("flights")
        """,
    )
    assert "1 failed" in said
    assert "The last requests to Kafka at 127.0.0.1:" in said
    assert "of app  flights-0  [connection closed]" in said


def test_modules_that_a_test_does_not_use_are_not_imported(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        """
        import sys

        def test_it(kafka):
            kafka.create_topic("flights")
            kafka.append("flights", ["EWR-IAH"])
            assert [record.value for record in kafka.records("flights")] == [b"EWR-IAH"]
            for name in ("pyspark", "hypothesis", "confluent_kafka", "aiokafka", "pyarrow"):
                assert name not in sys.modules
            assert "kafwire.testing.cluster.kafka_cluster" not in sys.modules
        """,
        "-p",
        "no:hypothesispytest",
    )
    assert "1 passed" in said, said


def test_a_cluster_that_cannot_be_is_skipped_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = run_pytest(tmp_path, "def test_it(kafka_cluster): pass")
    assert "1 skipped" in said, said
    assert "no Kafka cluster here: no `java` in JAVA_HOME or on the PATH" in said


def test_a_simulation_is_a_world_of_the_test(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        """
        import kafwire, pytest
        from kafwire.broker.faults import Faults

        @pytest.mark.kafka(nodes=3)
        def test_it(kafka_simulation):
            world = kafka_simulation
            world.state.topics.create("flights", replicas=3)
            world.state.part(Faults).delay("Produce", 3600)
            with kafwire.Producer(world.bootstrap, engine=world.engine, request_timeout_ms=7_200_000,
                                  delivery_timeout_ms=8_000_000) as producer:
                assert producer.send("flights", b"EWR-IAH").result().offset == 0
            assert world.state.now_ms > 3_600_000
        """,
    )
    assert "1 passed" in said, said


def test_a_cluster_of_the_session(kafka_cluster: Any, cluster: Any) -> None:
    assert kafka_cluster is cluster


def test_examples_of_mistakes(kafka: EmbeddedKafka) -> None:
    with pytest.raises(ValueError, match="did you mean NOT_ENOUGH_REPLICAS"):
        kafka.fail_next("Produce", "NOT_ENOUGH_REPLICA")
    with pytest.raises(ValueError, match="no broker 2"):
        kafka.stop_node(2)
    with contextlib.suppress(ZeroDivisionError), kafka.hold("Produce"):
        raise ZeroDivisionError
    assert Kafwire().write(kafka.bootstrap, [b"x"]) == []  # a hold ends with its block
    kafka.hang_up("Produce", times=None)
    kafka.clear_faults()
    assert Kafwire().write(kafka.bootstrap, [b"y"]) == []
