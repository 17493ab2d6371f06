"""`Client` and `AsyncClient`: the same scenarios for both flavours, and what only an event loop can ask."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import kafwire
from kafwire.errors import BrokerError, ConfigError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.broker.scripted_broker import ScriptedBroker, after, close, closed_port, no_response
from tests.support.deadlines import ended
from tests.support.kafka_versions import CLUSTERS
from tests.support.time_limits import within

pytestmark = pytest.mark.either_kafka


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as it:
        yield it


@pytest.fixture(params=seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param).bootstrap)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2}) as running:
        yield running


def all_brokers(topics: Any = None) -> Any:
    return kafwire.protocol.MetadataRequest(topics=topics)


# -- with a real Kafka


def test_a_topic_from_its_making_to_its_end(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    with flavour.client(bootstrap) as client:
        client.create_topic(topic_name, partitions=3, replication_factor=1, config={"retention.ms": "86400000"})
        info = client.topic(topic_name)
        assert (info.name, sorted(info.partitions)) == (topic_name, [0, 1, 2])
        assert info.topic_id != uuid.UUID(int=0)
        response = client.metadata([topic_name])
        assert [(topic.name, topic.topic_id) for topic in response.topics] == [(topic_name, info.topic_id)]
        client.create_partitions(topic_name, 5)
        assert client.partitions_for(topic_name) == set(range(5))
        with pytest.raises(BrokerError, match=f"INVALID_PARTITIONS.*adding partitions to topic '{topic_name}'"):
            client.create_partitions(topic_name, 5)
        assert topic_name in {topic.name for topic in client.metadata().topics}
        config = client.topic_config(topic_name)
        assert config["retention.ms"] == "86400000"
        assert "cleanup.policy" in config
        with pytest.raises(BrokerError, match=f"TOPIC_ALREADY_EXISTS.*creating topic '{topic_name}'"):
            client.create_topic(topic_name)
        client.delete_topic(topic_name)
        with pytest.raises(BrokerError, match=f"UNKNOWN_TOPIC_OR_PARTITION.*deleting topic '{topic_name}'"):
            client.delete_topic(topic_name)
        with pytest.raises(BrokerError, match="describing topic"):
            client.topic_config(f"{topic_name}-never")
        with pytest.raises(BrokerError, match=f"'{topic_name}-never' does not exist"):
            client.topic(f"{topic_name}-never")


def test_offsets_by_time(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    with flavour.client(bootstrap) as client:
        client.create_topic(topic_name, partitions=2)
        with kafwire.Producer(bootstrap) as producer:
            for number in range(5):
                producer.send(topic_name, b"x", partition=0, timestamp_ms=1_000 + number)
        first, second = (TopicPartition(topic_name, number) for number in range(2))
        assert client.offsets([first, second]) == {first: 5, second: 0}
        assert client.offsets([first, second], "earliest") == {first: 0, second: 0}
        assert client.offsets([first, second], 1_003) == {first: 3, second: -1}
        assert client.offsets(iter([first]), isolation_level="read_committed") == {first: 5}
        with pytest.raises(ConfigError, match=f"topic '{topic_name}' has partitions 0 to 1, not 2"):
            client.offsets([TopicPartition(topic_name, 2)])


def test_any_request_to_any_broker_in_any_version(flavour: Flavour, bootstrap: str) -> None:
    with flavour.client(bootstrap) as client:
        (node,) = [each.node_id for each in client.metadata().brokers]
        response = client.call(all_brokers([]), broker=node)
        assert response.cluster_id
        old = client.call(all_brokers([]), version=1)
        assert [each.node_id for each in old.brokers] == [node]
        assert old.cluster_id is None, "version 1 has no cluster id"


# -- with a scripted broker


def test_options_in_kafkas_spelling(broker: ScriptedBroker) -> None:
    kind: Any
    for kind in (kafwire.Client, kafwire.AsyncClient):
        client = kind.from_config({"bootstrap.servers": broker.bootstrap, "request.timeout.ms": 1_234})
        assert client._cluster.config.request_timeout_ms == 1_234
        with pytest.raises(ConfigError, match="unknown option 'client_idd'.*did you mean 'client_id'"):
            kind(broker.bootstrap, client_idd="x")


def test_wrong_arguments_are_named_before_a_request_is_sent(flavour: Flavour) -> None:
    with flavour.client(closed_port()) as client, within(3):
        with pytest.raises(ConfigError, match="'nope' is not a request message"):
            client.call("nope")
        with pytest.raises(ConfigError, match="'soon' is not 'earliest', 'latest'"):
            client.offsets([], "soon")
        with pytest.raises(ConfigError, match="isolation_level='dirty'.*allowed: read_uncommitted, read_committed"):
            client.offsets([], isolation_level="dirty")


def test_the_users_iterables_are_read_in_the_users_thread(flavour: Flavour, broker: ScriptedBroker) -> None:
    threads = set()

    def names() -> Iterator[str]:
        threads.add(threading.current_thread())
        yield "t"

    def partitions() -> Iterator[TopicPartition]:
        threads.add(threading.current_thread())
        yield TopicPartition("t", 0)

    with flavour.client(broker.bootstrap) as client:
        client.metadata(names())
        client.offsets(partitions())
    assert threads == {threading.current_thread()}


def test_no_server_listens(flavour: Flavour) -> None:
    address = closed_port()
    with (
        flavour.client(address, default_api_timeout_ms=400, reconnect_backoff_max_ms=100) as client,
        within(5),
        pytest.raises(KafkaConnectionError, match=f"within 0.4 s.*{address}.*refused.*is it running"),
    ):
        client.metadata()


def test_a_broker_id_that_does_not_exist(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.client(broker.bootstrap) as client:
        with within(5), pytest.raises(KafkaConnectionError, match=r"broker 77 is not in .* \(known: 1\)"):
            client.call(all_brokers(), broker=77, timeout=0.5)
        assert client.call(all_brokers(), broker=1).cluster_id == "scripted"


def test_lost_connections_are_tried_again(flavour: Flavour, broker: ScriptedBroker) -> None:
    broker.script("Metadata", close, close)
    with flavour.client(broker.bootstrap) as client, within(10):
        assert client.metadata().cluster_id == "scripted"


def test_a_call_given_up_does_not_spoil_the_next(flavour: Flavour, broker: ScriptedBroker) -> None:
    gate = threading.Event()
    broker.script("Metadata", after(gate))
    with flavour.client(broker.bootstrap) as client, within(10):
        with pytest.raises(KafkaTimeoutError, match="MetadataRequest did not succeed within 0.3 s"):
            client.call(all_brokers([]), timeout=0.3)
        gate.set()  # its response comes before that of the next, and is not taken for it
        assert len(client.metadata(["t"]).topics) == 1


def test_a_closed_client_refuses(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.client(broker.bootstrap) as client:
        client.topic("t")
        client.close()
        client.close()
        for call in (
            lambda: client.call(all_brokers()),
            lambda: client.topic("t"),
            client.metadata,
            lambda: client.offsets([]),
            lambda: client.create_topic("x"),
            lambda: client.create_partitions("x", 2),
            lambda: client.delete_topic("x"),
            lambda: client.topic_config("x"),
        ):
            with pytest.raises(KafkaError, match="this client is closed"):
                call()


# -- in an event loop


def test_the_loop_goes_on_while_a_call_waits(broker: ScriptedBroker) -> None:
    gate = threading.Event()
    broker.script("Metadata", after(gate))

    async def main() -> None:
        async with kafwire.AsyncClient(broker.bootstrap) as client:
            waiting = asyncio.ensure_future(client.metadata())
            await asyncio.to_thread(broker.wait_for_requests, "Metadata")
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
            gate.set()
            assert (await waiting).cluster_id == "scripted"

    asyncio.run(main())


def test_calls_at_once_share_a_connection(broker: ScriptedBroker) -> None:
    async def main() -> None:
        async with kafwire.AsyncClient(broker.bootstrap) as client:
            responses = await asyncio.gather(*(client.metadata(["t"]) for _ in range(50)))
        assert {topic.name for response in responses for topic in response.topics} == {"t"}

    asyncio.run(main())
    assert len([r for r in broker.requests if r.api == "ApiVersions"]) == 1


def test_a_call_that_is_cancelled_ends_and_the_client_goes_on(broker: ScriptedBroker) -> None:
    gate = threading.Event()
    broker.script("Metadata", after(gate))

    async def main() -> None:
        async with kafwire.AsyncClient(broker.bootstrap) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.metadata()
            gate.set()  # the response that no call waits for any more comes first
            assert sorted((await client.topic("t")).partitions) == [0, 1]

    with within(10):
        asyncio.run(main())


def test_a_call_that_waits_while_the_client_is_closed_fails(broker: ScriptedBroker) -> None:
    broker.always("Metadata", no_response)

    async def main() -> None:
        client = kafwire.AsyncClient(broker.bootstrap)
        waiting = asyncio.ensure_future(client.metadata())
        await asyncio.to_thread(broker.wait_for_requests, "Metadata")
        await client.close()
        with pytest.raises(KafkaError, match="closed"):
            await waiting

    with within(10):
        asyncio.run(main())


def test_a_close_that_is_cancelled_closes_all_the_same(broker: ScriptedBroker) -> None:
    async def main() -> None:
        client = kafwire.AsyncClient(broker.bootstrap)
        await client.topic("t")
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert client._engine.run(asyncio.sleep, 0, client._cluster._closed)

    asyncio.run(main())


def test_one_client_serves_loop_after_loop_and_loops_beside_each_other(broker: ScriptedBroker) -> None:
    client = kafwire.AsyncClient(broker.bootstrap)
    problems: list[BaseException] = []

    def body() -> None:
        try:
            for _ in range(5):
                assert len(asyncio.run(client.topic("t")).partitions) == 2
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=body) for _ in range(3)]
    for thread in threads:
        thread.start()
    ended(*threads)
    asyncio.run(client.close())
    assert not problems
