"""`Producer` and `AsyncProducer`: the same scenarios for both flavours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, ConfigError, ErrorCode, KafkaError, KafkaTimeoutError, RecordTooLargeError
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.broker import scripted_broker as scripted
from tests.support.broker.scripted_broker import ScriptedBroker
from tests.support.time_limits import within

QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50, "reconnect_backoff_ms": 10, "linger_ms": 0}
SMALL: dict[str, Any] = QUICK | {"buffer_memory": 5000, "batch_size": 2000}
MIB = 1 << 20


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as it:
        yield it


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2, "u": 1}, nodes=2) as running:
        yield running


def test_a_record_and_its_outcome(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.producer(broker.bootstrap, **QUICK) as producer, within(10):
        deliveries = [
            producer.send("t", b"v", key=b"k", headers=[("h", b"1")], timestamp_ms=17, partition=1),
            producer.send("t", None, partition=1),
        ]
        first, second = (delivery.result(10) for delivery in deliveries)
        assert first == kafwire.RecordMetadata("t", 1, 0, 17)
        assert second[:3] == ("t", 1, 1)
        assert all(delivery.done() for delivery in deliveries)
        assert "delivered" in repr(deliveries[0])
    assert broker.values("t", 1) == [b"v", None]


def test_nothing_is_known_without_acks(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.producer(broker.bootstrap, **QUICK, acks=0) as producer, within(10):
        assert producer.send("t", b"v", partition=0).result(10).offset == -1


@pytest.mark.parametrize("rows", [10, 3000], ids=["small", "large"])
def test_a_table(flavour: Flavour, broker: ScriptedBroker, rows: int) -> None:
    table = pa.table({"value": [b"%4d" % n * 25 for n in range(rows)], "partition": [n % 2 for n in range(rows)]})
    with flavour.producer(broker.bootstrap, **QUICK, batch_size=5000) as producer, within(20):
        sent = producer.send_batch("t", table)
        assert len(sent) == rows
        assert sorted(sent.result(10)) == [("t", p, 0, rows // 2) for p in range(2)]
        assert sent.done()
    for partition in range(2):
        assert broker.values("t", partition) == [b"%4d" % n * 25 for n in range(partition, rows, 2)]


def test_a_table_larger_than_the_buffer(flavour: Flavour, broker: ScriptedBroker) -> None:
    table = pa.table({"value": [b"%4d" % n * 25 for n in range(1000)]})
    with flavour.producer(broker.bootstrap, **SMALL) as producer, within(20):
        assert producer.send_batch("u", table).result(10) == [("u", 0, 0, 1000)]
    assert broker.values("u") == table["value"].to_pylist()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"topic": ""}, "topic"),
        ({"topic": 5}, "topic"),
        ({"value": "text"}, "value"),
        ({"key": 1}, "key"),
        ({"partition": 2}, "partition"),
        ({"partition": "0"}, "partition"),
        ({"timestamp_ms": "now"}, "timestamp_ms"),
        ({"headers": 5}, "headers"),
    ],
)
def test_wrong_arguments(flavour: Flavour, broker: ScriptedBroker, arguments: dict[str, Any], named: str) -> None:
    with flavour.producer(broker.bootstrap, **QUICK, max_block_ms=1000) as producer, within(10):
        producer.send("t", b"first", partition=0)
        with pytest.raises(ConfigError, match=named):
            producer.send(**{"topic": "t", "value": b"v", **arguments})
        producer.send("t", b"last", partition=0)
    assert broker.values("t", 0) == [b"first", b"last"]


@pytest.mark.parametrize("name", ["\udcff", "x" * 40_000], ids=["surrogate", "long"])
def test_a_name_that_no_request_can_carry_spoils_no_other(flavour: Flavour, broker: ScriptedBroker, name: str) -> None:
    with flavour.producer(broker.bootstrap, **QUICK) as producer, within(10):
        with pytest.raises(ConfigError, match="cannot be sent"):
            producer.send(name, b"v").result(5)
        assert producer.send("u", b"v").result(5).topic == "u"


def test_a_topic_that_does_not_exist_is_not_asked_for_again(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.producer(broker.bootstrap, **QUICK) as producer, within(10):
        with pytest.raises(BrokerError, match="does not exist"):
            producer.send("nowhere", b"v").result(5)
        producer.send("u", b"v").result(5)
    asked = [{topic.name for topic in request.message.topics} for request in broker.seen("Metadata")]
    assert "nowhere" in asked[0]
    assert asked[-1] == {"u"}


def test_wrong_options(flavour: Flavour) -> None:
    with pytest.raises(ConfigError, match="linger"):
        flavour.producer_from({"bootstrap.servers": "h:1", "linger.ms": "soon"})
    with pytest.raises(ConfigError, match="bootstrap"):
        flavour.producer_from({"linger.ms": 5})


def test_rows_that_cannot_be_sent(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.producer(broker.bootstrap, **QUICK, max_block_ms=1000) as producer, within(10):
        with pytest.raises(ConfigError, match="row 1: its partition"):
            producer.send_batch("t", pa.table({"value": [b"v"] * 2, "partition": [0, 7]}))
        with pytest.raises(KafkaError, match="value"):
            producer.send_batch("t", pa.table({"other": [1]}))
        with pytest.raises(ConfigError, match="partition"):
            producer.send_batch("t", pa.table({"value": [b"v"]}), partition="0")
        assert producer.send_batch("t", pa.table({"value": [b"v"]}), partition=1).result(10) == [("t", 1, 0, 1)]


def test_a_topic_that_does_not_exist(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.producer(broker.bootstrap, **QUICK, max_block_ms=1000) as producer, within(20):
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC"):
            producer.send("unheard", b"v")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC"):
            producer.send_batch("unheard", pa.table({"value": [b"v"]}))


def test_a_record_too_large(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.producer(broker.bootstrap, **QUICK) as producer, within(10):
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            producer.send("t", bytes(MIB), partition=0)
        assert producer.send("t", bytes(MIB // 2), partition=0).result(10).offset == 0


def test_a_refused_record(flavour: Flavour, broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.error(ErrorCode.INVALID_RECORD, "not like this"))
    with flavour.producer(broker.bootstrap, **QUICK) as producer, within(10):
        bad = producer.send("t", b"bad", partition=0)
        for _ in range(2):
            with pytest.raises(BrokerError, match="not like this"):
                bad.result(10)
        assert bad.done()
        assert isinstance(bad.exception(), BrokerError)
        good = producer.send("t", b"good", partition=0)
        assert good.result(10).offset == 0
        assert good.exception() is None
    assert broker.values("t", 0) == [b"good"]


@pytest.mark.parametrize(
    "step", [scripted.lose_response, scripted.close, scripted.error(ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_faults_on_the_way_are_mended(flavour: Flavour, broker: ScriptedBroker, step: scripted.Step) -> None:
    broker.script("Produce", *[scripted.behave, step] * 6)
    with flavour.producer(broker.bootstrap, **QUICK, batch_size=1) as producer, within(20):
        deliveries = [producer.send("t", b"%d" % n, partition=0) for n in range(20)]
        assert [delivery.result(20).offset for delivery in deliveries] == list(range(20))
    assert broker.values("t", 0) == [b"%d" % n for n in range(20)]


def test_no_room(flavour: Flavour, broker: ScriptedBroker) -> None:
    broker.always("Produce", scripted.no_response)
    producer = flavour.producer_from({"bootstrap.servers": broker.bootstrap, **SMALL, "max.block.ms": 300})
    with within(10, at_least=0.3):
        for _ in range(4):
            producer.send("t", bytes(1000), partition=0)
        with pytest.raises(KafkaTimeoutError, match="buffer_memory"):
            producer.send("t", bytes(1000), partition=0)
    with within(10, at_least=0.3), pytest.raises(KafkaTimeoutError, match="buffer_memory"):
        producer.send_batch("t", pa.table({"value": [bytes(1000)]}), partition=0)
    with pytest.raises(KafkaTimeoutError, match=r"4 record\(s\)"):
        producer.close(0)


def test_room_comes_with_acknowledgements(flavour: Flavour, broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.after(0.3))
    with flavour.producer(broker.bootstrap, **SMALL) as producer, within(20, at_least=0.3):
        for n in range(20):
            producer.send("t", b"%d" % n * 1000, partition=0)
        producer.flush(10)
        assert [value[:1] for value in broker.values("t", 0) if value] == [(b"%d" % n)[:1] for n in range(20)]


def test_flush(flavour: Flavour, broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.after(0.2))
    with flavour.producer(broker.bootstrap, **QUICK | {"linger_ms": 60_000}) as producer, within(20):
        producer.flush()
        deliveries = [producer.send(topic, b"v", partition=0) for topic in "tu"]
        with pytest.raises(KafkaTimeoutError):
            producer.flush(0.05)
        producer.flush(10)
        assert all(delivery.done() for delivery in deliveries)


def test_closing(flavour: Flavour, broker: ScriptedBroker) -> None:
    broker.always("Produce", scripted.no_response)
    with within(10):
        producer = flavour.producer_from({"bootstrap.servers": broker.bootstrap, **QUICK})
        deliveries = [producer.send("t", b"v", partition=p) for p in (0, 0, 1)]
        with pytest.raises(KafkaTimeoutError, match=r"3 record\(s\)"):
            producer.close(0.2)
        for delivery in deliveries:
            with pytest.raises(KafkaError, match="may or may not|before"):
                delivery.result(10)
        producer.close()
        for call in (lambda: producer.send("t", b"v"), lambda: producer.send("new", b"v"), producer.flush):
            with pytest.raises(KafkaError, match="closed"):
                call()
        with pytest.raises(KafkaError, match="closed"):
            producer.send_batch("t", pa.table({"value": [b"v"]}))


def test_metrics(flavour: Flavour, broker: ScriptedBroker) -> None:
    with flavour.producer(broker.bootstrap, **QUICK) as producer, within(10):
        for partition in (0, 1, 1):
            producer.send("t", b"v", partition=partition).result(10)
        found = producer.metrics()
        assert found["producer"]["records_delivered"] == 3
        assert found["partitions"]["t-1"]["records"] == 2
    with pytest.raises(KafkaError, match="closed"):
        producer.metrics()


def test_transactions_need_an_id(flavour: Flavour) -> None:
    producer = flavour.producer_from({"bootstrap.servers": "127.0.0.1:1"})
    for call in (producer.transaction, producer.begin_transaction, producer.commit_transaction):
        with pytest.raises(ConfigError, match="transactional_id"):
            call()
    producer.close()


def test_an_error_in_the_block_still_delivers(flavour: Flavour, broker: ScriptedBroker) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        flavour.producer(broker.bootstrap, **QUICK | {"linger_ms": 60_000}) as producer,
    ):
        producer.send("t", b"v", partition=0)
        raise ZeroDivisionError
    assert broker.values("t", 0) == [b"v"]
