"""Brokers that are not there: every call ends in time, with an error that says where it tried and what to look at."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from tests.support.broker.scripted_broker import ScriptedBroker, black_hole, closed_port, error, no_response
from tests.support.deadlines import ended
from tests.support.socket_server import SocketServer
from tests.support.time_limits import within

TABLE = pa.table({"value": [b"x"]})
LIMIT_MS = 400
# Attempts of less than the limit each, so that the last error names the cause.
CLIENT: dict[str, Any] = {
    "default_api_timeout_ms": LIMIT_MS,
    "socket_connection_setup_timeout_ms": 200,
    "reconnect_backoff_max_ms": 100,
}
PRODUCER: dict[str, Any] = {**CLIENT, "max_block_ms": LIMIT_MS}


def client_call(bootstrap: str) -> None:
    with kafwire.Client(bootstrap, **CLIENT) as client:
        client.metadata()


def client_topic(bootstrap: str) -> None:
    with kafwire.Client(bootstrap, **CLIENT) as client:
        client.topic("t")


def scan(bootstrap: str) -> None:
    kafwire.scan(bootstrap, "t", **CLIENT)


def send(bootstrap: str) -> None:
    with kafwire.Producer(bootstrap, **PRODUCER) as producer:
        producer.send("t", b"x")


def send_batch(bootstrap: str) -> None:
    with kafwire.Producer(bootstrap, **PRODUCER) as producer:
        producer.send_batch("t", TABLE)


calls = pytest.mark.parametrize("call", [client_call, client_topic, scan, send, send_batch])


@calls
def test_no_server_listens(call: Callable[[str], None]) -> None:
    address = closed_port()
    with within(5), pytest.raises(KafkaConnectionError, match=f"{address}.*refused.*is it running") as caught:
        call(address)
    assert f"{LIMIT_MS / 1000:g} s" in str(caught.value)


@calls
def test_a_server_listens_and_says_nothing(call: Callable[[str], None]) -> None:
    with black_hole() as address, within(5), pytest.raises(KafkaConnectionError, match=f"{address}.*no response"):
        call(address)


@calls
def test_the_name_cannot_be_resolved(call: Callable[[str], None]) -> None:
    with within(30), pytest.raises(KafkaConnectionError, match=r"no-such-host\.invalid.*check the host name"):
        call("no-such-host.invalid:9092")


@calls
def test_a_server_listens_that_is_no_broker(call: Callable[[str], None]) -> None:
    def greet(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with SocketServer(greet) as server, within(5), pytest.raises(KafkaError, match=server.address) as caught:
        call(server.address)
    assert isinstance(caught.value, KafkaConnectionError)


@calls
def test_no_attempt_ends_before_the_time_is_up(call: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    for options in (CLIENT, PRODUCER):
        monkeypatch.setitem(options, "socket_connection_setup_timeout_ms", 30_000)
    with black_hole() as address, within(5), pytest.raises(KafkaTimeoutError, match=f"{address}"):
        call(address)


@calls
def test_the_second_bootstrap_server_does(call: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    for options in (CLIENT, PRODUCER):
        monkeypatch.setitem(options, "default_api_timeout_ms", 30_000)
    monkeypatch.setitem(PRODUCER, "max_block_ms", 30_000)
    with ScriptedBroker({"t": 1}) as broker, within(10):
        call(f"{closed_port()},{broker.bootstrap}")


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2}) as running:
        yield running


@pytest.mark.parametrize("call", [client_topic, scan, send, send_batch])
def test_a_topic_that_does_not_exist_is_named(call: Callable[[str], None]) -> None:
    with ScriptedBroker() as broker, within(10), pytest.raises(BrokerError, match=r"topic 't'") as caught:
        call(broker.bootstrap)
    assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert broker.bootstrap in str(caught.value) or "within" in str(caught.value)


def test_an_unknown_topic_leaves_the_producer_of_use(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap) as producer:
        for send_it in (producer.send, lambda topic, _: producer.send_batch(topic, TABLE)):
            with within(10), pytest.raises(BrokerError, match="'nope' does not exist"):
                send_it("nope", b"x")
        assert producer.send("t", b"x", partition=0).result(10).offset == 0


def test_a_topic_that_is_not_allowed_is_an_error_at_once(broker: ScriptedBroker) -> None:
    broker.always("Metadata", error(29))
    with within(5), pytest.raises(BrokerError, match="'t'") as caught:
        kafwire.scan(broker.bootstrap, "t")
    assert caught.value.name == "TOPIC_AUTHORIZATION_FAILED"


def test_partitions_that_do_not_exist(broker: ScriptedBroker) -> None:
    with within(10):
        with pytest.raises(ValueError, match="topic 't' has partitions 0 to 1, not 2"):
            kafwire.scan(broker.bootstrap, "t", partitions=[2])
        with pytest.raises(ValueError, match="topic 't' has partitions 0 to 1, not 2"):
            kafwire.scan(broker.bootstrap, "t", start={kafwire.TopicPartition("t", 2): 0})
        with kafwire.Client(broker.bootstrap) as client:
            with pytest.raises(ValueError, match="topic 't' has partitions 0 to 1, not 2"):
                client.offsets([kafwire.TopicPartition("t", 2)])
            with pytest.raises(BrokerError, match="'nope' does not exist"):
                client.offsets([kafwire.TopicPartition("nope", 0)])
        with kafwire.Producer(broker.bootstrap, max_block_ms=500) as producer:
            for partition in (2, -1):
                with pytest.raises(ValueError, match=f"topic 't' has partitions 0 to 1, not {partition}"):
                    producer.send("t", b"x", partition=partition)
                with pytest.raises(ValueError, match=f"topic 't' has partitions 0 to 1, not {partition}"):
                    producer.send_batch("t", TABLE, partition=partition)
            with pytest.raises(ValueError, match="row 1.* topic 't' has 0 to 1"):
                producer.send_batch("t", pa.table({"value": [b"x", b"y"], "partition": [1, 2]}))


def test_a_broker_id_that_does_not_exist(broker: ScriptedBroker) -> None:
    request: Any = kafwire.protocol.MetadataRequest(topics=None)
    with kafwire.Client(broker.bootstrap) as client:
        with within(5), pytest.raises(KafkaConnectionError, match=r"broker 77 is not in .* \(known: 1\)"):
            client.call(request, broker=77, timeout=0.5)
        assert client.call(request, broker=1).cluster_id == "scripted"


def test_a_broker_that_hangs_is_given_up_after_request_timeout_ms(broker: ScriptedBroker) -> None:
    """The connection with the pending request is closed, and the call goes on over another."""
    broker.script("ListOffsets", no_response)
    with within(10, at_least=0.3):
        stream = kafwire.scan(broker.bootstrap, "t", partitions=[0], request_timeout_ms=300)
    assert [(r.start, r.end) for r in stream.ranges] == [(0, 0)]
    broker.always("ListOffsets", no_response)
    with within(10), pytest.raises(KafkaError, match=r"within 0.8 s: .*broker 1 at 127.*request_timeout_ms \(300\)"):
        kafwire.scan(broker.bootstrap, "t", request_timeout_ms=300, default_api_timeout_ms=800)


def test_a_call_given_up_does_not_spoil_the_next(broker: ScriptedBroker) -> None:
    """A metadata request of a call that was given up must not be taken for the next one's."""
    with kafwire.Client(broker.bootstrap, default_api_timeout_ms=300) as client:
        client.topic("t")
        broker.topics["late"] = 3
        broker.script("Metadata", no_response)
        with within(5), pytest.raises(KafkaTimeoutError):
            client.topic("late")
    with kafwire.Client(broker.bootstrap, request_timeout_ms=400) as client:
        gate = threading.Event()
        waiting = threading.Thread(target=lambda: client.topic("late"))
        broker.script("Metadata", lambda exchange: (gate.set(), no_response(exchange)))  # type: ignore[func-returns-value,arg-type]
        waiting.start()
        assert gate.wait(10)
        with within(10):
            assert len(client.topic("late").partitions) == 3
        ended(waiting)
