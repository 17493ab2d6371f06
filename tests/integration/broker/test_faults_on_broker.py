"""Faults before real brokers: the client sees exactly the one that was aimed, and without any nothing is different."""

import asyncio
import os
import random
import signal
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import confluent_kafka as ck
import pyarrow as pa
import pytest

import kafwire
from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.config import ClientConfig
from kafwire.errors import CorruptBatchError, KafkaConnectionError, KafkaTimeoutError
from kafwire.runtime.engine import default_engine
from kafwire.testing.cluster import ClusterError, KafkaCluster
from kafwire.testing.faults import (
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Fault,
    FaultProxy,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Rule,
    Throttle,
)
from kafwire.testing.pytest_plugin import ClusterFactory
from tests.support.deadlines import until
from tests.support.known_topics import make_topic
from tests.support.real_topics import QUICK
from tests.support.time_limits import within

TIMEOUT_MS = 400
LATE = 0.3


@pytest.fixture(scope="module")
def proxied() -> Iterator[KafkaCluster]:
    with KafkaCluster(proxies=True) as running:
        yield running


@pytest.fixture
def proxy(proxied: KafkaCluster) -> Iterator[FaultProxy]:
    proxied.proxy.restart()
    print("seed", proxied.proxy.seed)
    yield proxied.proxy
    proxied.proxy.restart()


@pytest.fixture
def connections(proxy: FaultProxy) -> Iterator[list[BrokerConnection]]:
    """Two connections that retry nothing, as two clients."""
    host, port = proxy.addresses[1].split(":")
    made = [
        BrokerConnection(
            default_engine(),
            ClientConfig.build({"bootstrap_servers": proxy.bootstrap, "client_id": name}),
            host,
            int(port),
            name,
            1,
        )
        for name in ("one", "two")
    ]
    for connection in made:
        run(connection.open())
    yield made

    async def close() -> None:
        for connection in made:
            connection.close()

    run(close())


def run(coroutine: Any) -> Any:
    return default_engine().run(lambda: coroutine)


async def ask(connection: BrokerConnection, timeout_ms: int = 10_000) -> str:
    """The id of the cluster."""
    response = await connection.call(protocol.MetadataRequest(topics=[]), timeout_ms=timeout_ms)
    return str(response.cluster_id)


def values(cluster: KafkaCluster, topic: str) -> list[bytes]:
    """The values in the log, read past the proxies."""
    return list(pa.table(kafwire.scan(cluster.direct, topic, columns=["value"]))["value"].to_pylist())


def confluent_producer(bootstrap: str, **options: Any) -> ck.Producer:
    known = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0, "retry.backoff.ms": 10, "client.id": "ck"}
    return ck.Producer({**known, **options})


def confluent_read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    options = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "client.id": "ck"}
    consumer = ck.Consumer(options)
    try:
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while len(found) < count and (messages := consumer.consume(count, 20)):
            assert not any(message.error() for message in messages)
            found += [message.value() or b"" for message in messages]
        return found
    finally:
        consumer.close()


# -- without faults


def test_ten_thousand_records_pass_unchanged(proxied: KafkaCluster, proxy: FaultProxy, topic_name: str) -> None:
    make_topic(proxied.bootstrap, topic_name)
    expected = [b"%06d" % number + bytes(number % 300) for number in range(10_000)]
    with kafwire.Producer(proxied.bootstrap, client_id="kw", batch_size=20_000) as producer:
        deliveries = [producer.send(topic_name, value) for value in expected[:5_000]]
        producer.flush(30)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(5_000))
    other = confluent_producer(proxied.bootstrap)
    for value in expected[5_000:]:
        other.produce(topic_name, value)
    assert other.flush(30) == 0
    read = pa.table(kafwire.scan(proxied.bootstrap, topic_name, columns=["value"], client_id="kw"))
    assert read["value"].to_pylist() == expected
    assert confluent_read(proxied.bootstrap, topic_name, 10_000) == expected
    assert values(proxied, topic_name) == expected
    assert not proxy.events
    seen = {(client, api) for _, client, api in proxy.requests}
    assert {("kw", "Produce"), ("kw", "Fetch"), ("ck", "Produce"), ("ck", "Fetch")} <= seen


# -- what one connection sees


SEEN: dict[str, tuple[Fault, str]] = {
    "reset": (Reset(), "Connection reset by peer"),
    "hold": (Hold(LATE), "Connection reset by peer"),
    "drop": (DropResponse(), "Connection reset by peer"),
    "cut": (Cut(0.5), "the peer closed the connection in the middle of a frame"),
    "cut by reset": (Cut(0.5, reset=True), "Connection reset by peer"),
    "cut request": (Cut(0.5, "request"), "the peer closed the connection$"),
    "corrupt": (Corrupt(where="anywhere", spot=0.0, mask=1), r"correlation id 1677\d+, but the oldest"),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_connection_breaks_as_its_rule_says(
    proxy: FaultProxy, connections: list[BrokerConnection], name: str
) -> None:
    """One client's second request meets the fault; the first, and another client, do not."""
    fault, says = SEEN[name]
    proxy.add(Rule(fault, api="Metadata", client_id="one", skip=1, count=1))
    assert run(ask(connections[0])) == run(ask(connections[1]))
    with within(10), pytest.raises(KafkaConnectionError, match=says):
        run(ask(connections[0]))
    assert run(ask(connections[1])) == run(ask(connections[0]))
    (event,) = proxy.events
    assert (event.broker, event.client_id, event.api, event.fault) == (1, "one", "Metadata", fault)


@pytest.mark.parametrize("way", ["request", "response"])
def test_a_connection_is_late_as_its_rule_says(
    proxy: FaultProxy, connections: list[BrokerConnection], way: Any
) -> None:
    proxy.add(Rule(Delay(LATE, way), api="Metadata", count=1))
    with within(10, at_least=LATE):
        run(ask(connections[0]))
    with within(LATE):
        run(ask(connections[0]))
    assert [event.fault for event in proxy.events] == [Delay(LATE, way)]


def test_a_connection_gets_a_response_twice(proxy: FaultProxy, connections: list[BrokerConnection]) -> None:
    proxy.add(Rule(Duplicate(), api="Metadata", count=1))
    assert run(ask(connections[0]))
    until(lambda: not connections[0].is_ready)  # no client may go on behind a response to nothing
    assert run(ask(connections[0]))
    assert [event.kind for event in proxy.events] == ["Duplicate"]


def test_a_connection_gets_responses_in_the_wrong_order(proxy: FaultProxy, connections: list[BrokerConnection]) -> None:
    proxy.add(Rule(Reorder(10.0), api="Metadata", count=1))

    async def both() -> Sequence[object]:
        return await asyncio.gather(ask(connections[0]), ask(connections[0]), return_exceptions=True)

    for error in run(both()):
        assert isinstance(error, KafkaConnectionError)
        assert "correlation id 3, but the oldest pending request has 2" in str(error)
    assert [event.fault for event in proxy.events] == [Reorder(10.0)]


@pytest.mark.parametrize("way", ["request", "response", "both"])
def test_a_connection_falls_silent(proxy: FaultProxy, connections: list[BrokerConnection], way: Any) -> None:
    proxy.add(Rule(BlackHole(way), api="Metadata", count=1))
    with within(10, at_least=TIMEOUT_MS / 1000), pytest.raises(KafkaTimeoutError, match="no response from broker 1"):
        run(ask(connections[0], TIMEOUT_MS))
    assert run(ask(connections[0]))  # on a connection of its own
    assert [event.fault for event in proxy.events] == [BlackHole(way)]


def test_a_broker_falls_silent_for_all_connections(proxy: FaultProxy, connections: list[BrokerConnection]) -> None:
    proxy.play(BlackHole(scope="broker"))
    for connection in connections:
        with pytest.raises(KafkaTimeoutError):
            run(ask(connection, TIMEOUT_MS))
    proxy.heal()
    for connection in connections:
        assert run(ask(connection))


def test_a_connection_is_slow(proxied: KafkaCluster, proxy: FaultProxy, topic_name: str) -> None:
    make_topic(proxied.direct, topic_name)
    with kafwire.Producer(proxied.direct, batch_size=10_000) as producer:
        producer.send_batch(topic_name, pa.table({"value": [random.randbytes(1000)] * 100})).result(20)
    proxy.add(Rule(Throttle(200_000.0, "response"), api="Fetch", client_id="slow"))
    with within(20, at_least=0.4):
        assert pa.table(kafwire.scan(proxied.bootstrap, topic_name, client_id="slow")).num_rows == 100
    assert pa.table(kafwire.scan(proxied.bootstrap, topic_name, client_id="fast")).num_rows == 100
    assert {event.client_id for event in proxy.events} == {"slow"}
    assert {event.fault for event in proxy.events} == {Throttle(200_000.0, "response")}


def test_a_broker_refuses_connections(proxy: FaultProxy, connections: list[BrokerConnection]) -> None:
    proxy.add(Rule(Refuse(), api="Metadata", count=1))
    assert run(ask(connections[0]))
    run_later(connections[1].fail, "for a new connection")
    with pytest.raises(KafkaConnectionError, match="Connection refused"):
        run(ask(connections[1]))
    assert run(ask(connections[0]))  # its own stays
    proxy.heal()
    assert run(ask(connections[1]))


def run_later(function: Any, *arguments: object) -> None:
    async def call() -> None:
        function(*arguments)

    run(call())


# -- what records see


@pytest.mark.parametrize("client", ["kafwire", "confluent"])
@pytest.mark.parametrize(
    "fault",
    [
        Reset(),
        DropResponse(),
        Cut(0.7, "request"),
        Cut(0.3),
        Delay(LATE, "request"),
        Delay(LATE),
        Hold(LATE),
        Corrupt("request", spot=0.95),  # in the record: brokers treat a header that is damaged elsewhere in other ways
    ],
    ids=repr,
)
def test_records_arrive_once_in_spite_of_a_fault(
    proxied: KafkaCluster, proxy: FaultProxy, topic_name: str, client: str, fault: Fault
) -> None:
    make_topic(proxied.direct, topic_name)
    proxy.add(Rule(fault, api="Produce", skip=1, count=1))
    expected = [b"%d" % number for number in range(20)]
    if client == "kafwire":
        with kafwire.Producer(proxied.bootstrap, **QUICK, linger_ms=0) as producer:
            assert [producer.send(topic_name, value).result(20).offset for value in expected] == list(range(20))
    else:
        other = confluent_producer(proxied.bootstrap, **{"enable.idempotence": True})
        for value in expected:
            other.produce(topic_name, value)
            assert other.flush(20) == 0
    assert values(proxied, topic_name) == expected
    (event,) = proxy.events
    assert (event.api, event.kind) == ("Produce", type(fault).__name__)


@pytest.mark.parametrize("fault", [DropResponse(), Hold(LATE)], ids=repr)
def test_without_idempotence_a_record_is_there_twice(
    proxied: KafkaCluster, proxy: FaultProxy, topic_name: str, fault: Fault
) -> None:
    """The broker did get the request whose response was lost, and the one that was long on its way."""
    make_topic(proxied.direct, topic_name)
    proxy.add(Rule(fault, api="Produce", count=1))
    producer = confluent_producer(proxied.bootstrap, **{"enable.idempotence": False})
    producer.produce(topic_name, b"x")
    assert producer.flush(20) == 0
    until(lambda: values(proxied, topic_name) == [b"x", b"x"])


def test_damaged_records_are_seen(proxied: KafkaCluster, proxy: FaultProxy, topic_name: str) -> None:
    make_topic(proxied.direct, topic_name)
    with kafwire.Producer(proxied.direct) as producer:
        producer.send(topic_name, b"x").result(20)
    proxy.add(Rule(Corrupt(spot=0.95), api="Fetch", count=1))  # in the record: a wrong count of them is another error
    with pytest.raises(CorruptBatchError, match="CRC-32C"):
        list(kafwire.scan(proxied.bootstrap, topic_name).batches())
    assert pa.table(kafwire.scan(proxied.bootstrap, topic_name)).num_rows == 1
    assert [event.api for event in proxy.events] == ["Fetch"]


def test_a_transaction_whose_end_is_not_confirmed(proxied: KafkaCluster, proxy: FaultProxy, topic_name: str) -> None:
    make_topic(proxied.direct, topic_name)
    for api in ("InitProducerId", "AddPartitionsToTxn", "EndTxn"):
        proxy.add(Rule(DropResponse(), api=api, count=1))
    producer = confluent_producer(proxied.bootstrap, **{"transactional.id": topic_name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"x")
    producer.commit_transaction(30)
    assert [event.api for event in proxy.events] == ["InitProducerId", "AddPartitionsToTxn", "EndTxn"]
    assert proxy.requests[1, "ck", "EndTxn"] >= 2
    read = kafwire.scan(proxied.direct, topic_name, columns=["value"], isolation_level="read_committed")
    assert pa.table(read)["value"].to_pylist() == [b"x"]


# -- nodes that come and go


@pytest.mark.long
def test_a_killed_node_comes_back_behind_its_proxy(make_cluster: ClusterFactory, topic_name: str) -> None:
    cluster = make_cluster(proxies=True, fault_seed=7)
    node, bootstrap = cluster.node(1), cluster.bootstrap
    assert cluster.proxy.seed == 7
    assert bootstrap != cluster.direct == node.address
    make_topic(bootstrap, topic_name)
    host, port = bootstrap.split(":")
    with within(120), kafwire.Producer(bootstrap, **QUICK, linger_ms=0) as producer:
        producer.send(topic_name, b"before").result(20)
        node.kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        waiting = producer.send(topic_name, b"between")
        node.start()
        assert waiting.result(30).offset == 1
        pid = node.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)  # behind the helper's back
        until(lambda: node.pid is None)
        node.start()
        assert producer.send(topic_name, b"after").result(30).offset == 2
        with kafwire.Client(bootstrap) as client:
            brokers = client.metadata().brokers
        assert [(broker.host, broker.port) for broker in brokers] == [(host, int(port))]
    assert values(cluster, topic_name) == [b"before", b"between", b"after"]
    cluster.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_without_proxies_there_is_none(cluster: KafkaCluster) -> None:
    assert not cluster.proxied
    assert cluster.bootstrap == cluster.direct
    with pytest.raises(ClusterError, match="proxies=True"):
        _ = cluster.proxy
