"""Profiles of other servers: their data, and each difference that the embedded broker models."""

from __future__ import annotations

import socket
import sqlite3
import struct
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.broker import dispatch
from kafwire.broker.profiles import EVENT_HUBS, PROFILES, profile_of
from kafwire.broker.state import ClusterState
from kafwire.errors import BrokerError, ErrorCode, KafkaError, KafkaTimeoutError, ProtocolError, TransactionFatalError
from kafwire.outbox import Outbox, sqlite_schema
from kafwire.protocol import ApiVersionsRequest, MetadataRequest
from kafwire.testing import EmbeddedKafka
from scripts import server_tables
from tests.support.deadlines import until

servers = pytest.mark.parametrize("server", PROFILES)


@servers
def test_a_profile_names_apis_of_the_embedded_broker(server: str) -> None:
    profile = PROFILES[server]
    known = {each.name for each in dispatch.served().values()}
    assert set(profile.versions) <= known
    unshared = {its.name for its, _ in dispatch.offered(profile).values() if its.versions[0] > its.versions[1]}
    assert unshared == ({"OffsetForLeaderEpoch"} if server == "event-hubs" else set())


@servers
def test_each_difference_has_a_public_source(server: str) -> None:
    for each in PROFILES[server].differences:
        assert each.source.startswith("https://"), each
        assert each.text.endswith("."), each


def test_the_page_has_the_profiles() -> None:
    page = server_tables.PAGE.read_text()
    assert page == server_tables.written(page), "run python -m scripts.server_tables"
    assert page.count("Unverified;") == len(PROFILES)


def test_an_unknown_server_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"'redpand' is unknown \(is redpanda meant\?\): the servers are redpanda, event-"
    ):
        EmbeddedKafka(server="redpand")
    assert profile_of(EVENT_HUBS) is EVENT_HUBS


@servers
def test_a_client_learns_the_versions_of_the_profile(server: str) -> None:
    with EmbeddedKafka(server=server) as kafka, kafwire.Client(kafka.bootstrap) as client:
        response = client.call(ApiVersionsRequest(client_software_name="kafwire", client_software_version="1"))
        offered = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        levels = {each.name: each.max_version_level for each in response.finalized_features}
    table, usual = PROFILES[server].versions, dispatch.offered(None)
    hidden = {71, 72}  # a server without subscriptions offers no APIs of client metrics
    assert {key: found for key, found in offered.items() if key not in hidden} == {
        key: table[its.name] or usual[key][1]
        for key, its in dispatch.served().items()
        if its.name in table and key not in hidden
    }
    assert levels == PROFILES[server].features


@pytest.mark.parametrize(("server", "listed"), [("redpanda", 42), ("event-hubs", None), ("automq", 1)])
def test_an_unknown_version_of_api_versions(server: str, listed: int | None) -> None:
    """The response, in version 0, lists all APIs or ApiVersions alone; or the connection closes."""
    with EmbeddedKafka(server=server) as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), 30) as connection, connection.makefile("rb") as received:
            connection.sendall(bytes.fromhex("0000000b 0012 0006 00000001 ffff 00"))
            size = int.from_bytes(received.read(4), "big")
            code, count = struct.unpack_from("!hi", received.read(size), 4) if size else (0, None)
        assert (code, count) == (0 if listed is None else ErrorCode.UNSUPPORTED_VERSION, listed)
        with kafwire.Client(kafka.bootstrap) as client:
            assert client.metadata().brokers


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "snappy"])
def test_event_hubs_refuses_compressed_batches(codec: Any) -> None:
    with (
        EmbeddedKafka(server="event-hubs") as kafka,
        kafwire.Producer(kafka.bootstrap, compression_type=codec) as producer,
    ):
        with pytest.raises(KafkaError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT") as raised:
            producer.send("flights", b"x" * 1000).result(10)
        assert "try compression_type=none" in str(raised.value)


@pytest.mark.parametrize(("server", "error"), [("redpanda", ProtocolError), ("automq", BrokerError)])
def test_a_member_of_a_missing_protocol_of_groups_learns_the_remedy(server: str, error: type[KafkaError]) -> None:
    """Redpanda lacks the API; AutoMQ offers it, and refuses its requests."""
    options: dict[str, Any] = {"group_id": "g", "group_protocol": "consumer"}
    with EmbeddedKafka(server=server) as kafka:
        kafka.create_topic("flights")
        with (
            kafwire.Consumer(kafka.bootstrap, "flights", **options) as consumer,
            pytest.raises(error, match=r"take group_protocol=.classic. or .auto. for a consumer"),
        ):
            consumer.poll(5)


@pytest.mark.parametrize("server", ["warpstream", "automq"])
def test_a_replication_factor_has_no_effect(server: str) -> None:
    options = {"default.replication.factor": 3}
    with EmbeddedKafka(3, server=server, configs=options) as kafka, kafwire.Client(kafka.bootstrap) as client:
        client.create_topic("flights", partitions=2, replication_factor=3)
        client.call(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="created")]))
        for topic in client.call(MetadataRequest(topics=None)).topics:
            assert all(len(each.replica_nodes) == 1 for each in topic.partitions), topic


def test_event_hubs_closes_an_idle_connection_and_the_client_connects_again() -> None:
    assert EVENT_HUBS.configs["connections.max.idle.ms"] == "240000"
    options = {"connections.max.idle.ms": 100}
    with (
        EmbeddedKafka(server="event-hubs", configs=options) as kafka,
        kafwire.Producer(kafka.bootstrap) as producer,
    ):
        producer.send("flights", b"1").result(10)
        first = max(each.connection for each in kafka.requests("Produce"))
        until(lambda: not kafka.ask(lambda _: len(kafka._server._peers)), "all connections closed")
        producer.send("flights", b"2").result(10)
        assert max(each.connection for each in kafka.requests("Produce")) > first


def test_a_closed_connection_leaves_no_timer() -> None:
    def live(state: ClusterState) -> set[float]:
        return {timer.at_ms for *_, timer in state.timers._heap if timer.call is not None}

    with EmbeddedKafka() as kafka:
        before = kafka.ask(live)
        with kafwire.Client(kafka.bootstrap) as client:
            client.metadata()
            assert kafka.ask(live) > before
        until(lambda: not kafka.ask(lambda _: len(kafka._server._peers)), "all connections closed")
        assert kafka.ask(live) == before


@pytest.mark.parametrize(("server", "is_refused"), [(None, False), ("redpanda", True)])
def test_redpanda_takes_smaller_batches(server: str | None, is_refused: bool) -> None:
    value = bytes(1_048_512)  # a batch of 1,048,577 to 1,048,588 bytes with its headers
    with EmbeddedKafka(server=server) as kafka, kafwire.Producer(kafka.bootstrap, max_request_size=1 << 22) as producer:
        error = producer.send("flights", value).exception(10)
    assert isinstance(error, kafwire.RecordTooLargeError) == is_refused, error
    assert (error is None) == (not is_refused)


def test_a_connection_with_a_parked_request_is_not_idle() -> None:
    options: dict[str, Any] = {"group_id": None, "fetch_max_wait_ms": 400}
    with EmbeddedKafka(configs={"connections.max.idle.ms": 100}) as kafka:
        kafka.create_topic("flights")
        with kafwire.Consumer(kafka.bootstrap, "flights", **options) as consumer:
            consumer.poll(1.5)
            fetches = kafka.requests("Fetch")
    assert len(fetches) > 1
    assert len({each.connection for each in fetches}) == 1


def test_a_request_beyond_the_limit_of_event_hubs_fails_with_a_remedy() -> None:
    options: dict[str, Any] = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "linger_ms": 0}
    with (
        EmbeddedKafka(server="event-hubs") as kafka,
        kafwire.Producer(kafka.bootstrap, max_request_size=2 << 20, **options) as producer,
        pytest.raises(KafkaTimeoutError) as raised,
    ):
        producer.send("flights", b"x" * 1_046_600).result(10)
    assert "last: the connection to broker 1" in str(raised.value)
    assert "lower max_request_size (2097152); the batch has 10466" in str(raised.value)


@pytest.mark.parametrize("server", ["redpanda", "event-hubs"])
def test_topics_are_deleted_by_name_where_ids_are_unknown(server: str) -> None:
    """These servers have DeleteTopics up to version 5 or 2."""
    with (
        EmbeddedKafka(server=server) as kafka,
        kafwire.Client(kafka.bootstrap) as client,
        kafwire.Admin(kafka.bootstrap) as admin,
    ):
        for name in ("a", "b", "c"):
            kafka.create_topic(name)
        client.delete_topic("a")
        admin.delete_topics(["b"])
        assert [topic.name for topic in client.call(MetadataRequest(topics=None)).topics] == ["c"]
        with pytest.raises(KafkaError, match=r"deleting a topic by its id needs Kafka 2\.8 or newer"):
            admin.delete_topics([uuid.uuid4()])


def test_transactions_and_outboxes_end_where_their_apis_are_missing(tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "shop.db")

    lacking = r"AddPartitionsToTxn was refused: the broker does not offer AddPartitionsToTxnRequest \(api key 24\)"
    with EmbeddedKafka(server="event-hubs") as kafka:
        with (
            kafwire.Producer(kafka.bootstrap, transactional_id="t") as producer,
            pytest.raises(TransactionFatalError, match=lacking),
            producer.transaction(),
        ):
            producer.send("flights", b"EWR-IAH")
        with closing(connect()) as database, database:
            database.executescript(sqlite_schema())
            database.execute("INSERT INTO outbox (topic, aggregate_key, payload) VALUES ('flights', 'k', 'v')")
        with (
            Outbox(connect, kafka.bootstrap, transactional_id="o") as outbox,
            pytest.raises(TransactionFatalError, match=lacking),
        ):
            outbox.run()
        assert kafka.records("flights") == []


def test_operations_of_topics_name_the_kafka_that_has_them() -> None:
    with EmbeddedKafka(server="event-hubs") as kafka, kafwire.Admin(kafka.bootstrap) as admin:
        kafka.create_topic("a")
        with pytest.raises(KafkaError, match=r"authorized_operations=True needs Kafka 2\.3 or newer"):
            admin.describe_topics(["a"], authorized_operations=True)
