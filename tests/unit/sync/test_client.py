"""`Client` and `AsyncClient`, by one body, in the simulated world."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.log.producer_state import ProducerEntry
from kafwire.errors import BrokerError, ConfigError, KafkaError
from kafwire.testing.simulation.calls import NEVER, Call, Response
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import fill, log_of
from tests.support.simulated.flavours import Flavour, never, rows

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("call", (protocol.MetadataRequest(topics=[]),)),
    ("topic", ("t",)),
    ("partitions_for", ("t",)),
    ("metadata", ()),
    ("offsets", ([T0],)),
    ("scan", ("t",)),
    ("create_topic", ("new",)),
    ("delete_topic", ("t",)),
    ("topic_config", ("t",)),
]


@pytest.mark.parametrize(("method", "args"), CALLS)
def test_a_closed_client_refuses(flavour: Flavour, method: str, args: tuple[Any, ...]) -> None:
    client = flavour.client()
    flavour.get(client.close())
    with pytest.raises(KafkaError, match="this client is closed"):
        flavour.get(getattr(client, method)(*args))
    assert not flavour.world.calls


@pytest.mark.parametrize(("method", "args"), CALLS)
def test_a_client_from_before_a_fork_refuses(flavour: Flavour, method: str, args: tuple[Any, ...]) -> None:
    client = flavour.client()
    flavour.engine.forked = True
    with pytest.raises(KafkaError, match="before a fork"):
        flavour.get(getattr(client, method)(*args))
    assert not flavour.world.calls


def test_a_topic_and_its_partitions(flavour: Flavour) -> None:
    fill(flavour.world, "t", partitions=3)
    client = flavour.client()
    info = flavour.get(client.topic("t"))
    assert (info.name, info.topic_id) == ("t", flavour.world.topics["t"].topic_id)
    assert flavour.get(client.partitions_for("t")) == {0, 1, 2}
    for method in ("topic", "partitions_for"):
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            flavour.get(getattr(client, method)("nowhere"))


def test_metadata_of_all_topics_or_of_some(flavour: Flavour) -> None:
    fill(flavour.world, "t", partitions=2)
    fill(flavour.world, "u")
    client = flavour.client()
    everything = flavour.get(client.metadata())
    assert {topic.name: len(topic.partitions) for topic in everything.topics} == {"t": 2, "u": 1}
    assert [(broker.node_id, broker.port) for broker in everything.brokers] == [(1, 9092), (2, 9092)]
    some = flavour.get(client.metadata(iter(["u", "x"])))
    assert {topic.name: topic.error_code for topic in some.topics} == {"u": 0, "x": 3}
    assert flavour.get(client.metadata([])).topics == ()


def test_a_call_goes_to_the_broker_that_is_named_in_the_version_that_is_wanted(flavour: Flavour) -> None:
    client = flavour.client()
    for node in (1, 2):
        response = flavour.get(client.call(protocol.MetadataRequest(topics=[]), broker=node, version=7))
        assert response.cluster_id == "simulated"
        assert (flavour.world.calls[-1].node, flavour.world.calls[-1].version) == (node, 7)
    with pytest.raises(ConfigError, match="not a request message"):
        flavour.get(client.call("Metadata"))


def test_a_call_takes_no_longer_than_it_may(flavour: Flavour) -> None:
    client = flavour.client()
    flavour.get(client.metadata())
    flavour.world.on("Metadata", lambda _: NEVER)
    began = flavour.world.loop.time()
    with pytest.raises(KafkaError):
        flavour.get(client.call(protocol.MetadataRequest(topics=[]), broker=1, timeout=3.0))
    assert 2.9 < flavour.world.loop.time() - began < 4.0


def test_offsets_by_time_and_isolation(flavour: Flavour) -> None:
    fill(flavour.world, "t", partitions=2, batches=2, records=3)
    client = flavour.client()
    assert flavour.get(client.offsets(iter([T0, T1]))) == {T0: 6, T1: 6}
    assert flavour.get(client.offsets([T1], "earliest")) == {T1: 0}
    assert flavour.get(client.offsets([T0], dt.datetime(2100, 1, 1, tzinfo=dt.UTC))) == {T0: -1}
    log = log_of(flavour.world)
    log.producers.entries[7] = ProducerEntry(first_offset=3)
    assert flavour.get(client.offsets([T0], isolation_level="read_committed")) == {T0: log.last_stable_offset}
    assert log.last_stable_offset == 3
    with pytest.raises(ConfigError, match="isolation_level='committed'"):
        flavour.get(client.offsets([T0], isolation_level="committed"))


def test_a_topic_is_made_and_deleted(flavour: Flavour) -> None:
    asked: list[Any] = []

    def create(call: Call) -> Response:
        topic = call.message.topics[0]
        asked.append((topic.num_partitions, topic.replication_factor, [(c.name, c.value) for c in topic.configs]))
        response: Any = protocol.CreateTopicsResponse
        if topic.name in flavour.world.topics:
            return response(topics=[response.CreatableTopicResult(name=topic.name, error_code=36, error_message="so")])
        flavour.world.create_topic(topic.name, partitions=max(1, topic.num_partitions))
        return response(topics=[response.CreatableTopicResult(name=topic.name)])

    def delete(call: Call) -> Response:
        name = call.message.topics[0].name
        code = 0 if name in flavour.world.topics else 3
        if not code:
            flavour.world.delete_topic(name)
        response: Any = protocol.DeleteTopicsResponse
        return response(responses=[response.DeletableTopicResult(name=name, error_code=code)])

    flavour.world.on("CreateTopics", create)
    flavour.world.on("DeleteTopics", delete)
    client = flavour.client()
    flavour.get(client.create_topic("new", partitions=3, replication_factor=1, config={"a": "b"}))
    assert asked == [(3, 1, [("a", "b")])]
    assert flavour.get(client.partitions_for("new")) == {0, 1, 2}
    with pytest.raises(BrokerError, match="creating topic 'new': so"):
        flavour.get(client.create_topic("new"))
    assert asked[1] == (-1, -1, [])
    flavour.get(client.delete_topic("new"))
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        flavour.get(client.topic("new"))
    with pytest.raises(BrokerError, match="deleting topic 'new'"):
        flavour.get(client.delete_topic("new"))


def test_a_topics_configuration(flavour: Flavour) -> None:
    def describe(call: Call) -> Response:
        [asked] = call.message.resources
        assert (asked.resource_type, asked.resource_name, asked.configuration_keys) == (2, "t", None)
        response: Any = protocol.DescribeConfigsResponse
        entry = response.DescribeConfigsResourceResult
        configs = [entry(name="retention.ms", value="5"), entry(name="secret", value=None)]
        return response(results=[response.DescribeConfigsResult(resource_type=2, resource_name="t", configs=configs)])

    flavour.world.on("DescribeConfigs", describe)
    assert flavour.get(flavour.client().topic_config("t")) == {"retention.ms": "5", "secret": None}


def test_a_scan_goes_over_the_clients_connections_and_leaves_them_open(flavour: Flavour) -> None:
    fill(flavour.world, "t", partitions=2, batches=2, records=3)
    client = flavour.client(client_id="mine")
    scan = flavour.get(client.scan("t", start="earliest", partitions=[1], columns=["offset", "value"]))
    assert [(r.topic, r.partition, r.start, r.end) for r in scan.ranges] == [("t", 1, 0, 6)]
    scan._start()
    flavour.world.pass_time(1)
    batches = flavour.all(scan.batches())
    assert rows(batches) == {1: [0, 1, 2, 3, 4, 5]}
    assert batches[0].to_arrow().schema.names == ["offset", "value"]
    flavour.world.pass_time(1)
    assert [c for c in flavour.world.connections if not c.closed], "the client's own"
    assert flavour.get(client.partitions_for("t")) == {0, 1}


def test_a_close_closes_all_connections_once(flavour: Flavour, monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = flavour.client()
    assert flavour.enter(with_it) is with_it
    flavour.get(with_it.metadata())
    assert any(not connection.closed for connection in flavour.world.connections)
    flavour.leave(with_it)
    flavour.world.pass_time(0.1)
    assert all(connection.closed for connection in flavour.world.connections)
    monkeypatch.setattr(flavour.engine, "start", never)
    monkeypatch.setattr(flavour.engine, "run", never)
    flavour.get(with_it.close())


@pytest.mark.parametrize("over", ["forked", "ended"])
def test_a_close_in_a_fork_or_at_the_end_leaves_all_alone(flavour: Flavour, over: str) -> None:
    client = flavour.client()
    flavour.get(client.metadata())
    setattr(flavour.engine, over, True)
    flavour.get(client.close())
    flavour.world.pass_time(0.1)
    assert any(not connection.closed for connection in flavour.world.connections)
