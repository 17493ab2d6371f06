"""Rows of docs/reference/expectations.md: kafwire's behaviour on the first day, and that of the installed peers."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import pickle
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest

import kafwire
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.config import ConsumerConfig, ProducerConfig

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources.read_text
    kafka: Any = import_module("kafka")  # it has no types

MISSPELT: Any = {"lingr_ms": 5}
KEYS = [b"%d" % number for number in range(200)]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("six", partitions=6)
        running.create_topic("small", max_message_bytes=100)
        yield running


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    """A topic of one partition with ten records."""
    name = f"flights-{uuid.uuid4()}"
    broker.create_topic(name)
    broker.append(name, [b"%d" % number for number in range(10)])
    return name


# --- kafwire ----------------------------------------------------------------------------------------------------------


def test_defaults() -> None:
    servers = {"bootstrap_servers": "127.0.0.1:1"}
    producer, consumer = ProducerConfig.build(servers), ConsumerConfig.build(servers)
    assert (producer.idempotent, producer.acks, producer.linger_ms, producer.delivery_timeout_ms) == (
        True,
        -1,
        5,
        120_000,
    )
    assert producer.ssl_endpoint_identification_algorithm == "https"
    assert (consumer.isolation_level, consumer.check_crcs, consumer.auto_offset_reset) == (
        *("read_uncommitted", True),
        "latest",
    )
    assert (consumer.allow_auto_create_topics, consumer.max_poll_interval_ms, consumer.max_poll_records) == (
        *(False, None),
        None,
    )


def test_a_plaintext_client_learns_that_the_port_expects_tls() -> None:
    with (
        EmbeddedKafka(security="SSL") as secured,
        pytest.raises(kafwire.KafkaConnectionError, match="the server speaks TLS.*set security_protocol=SSL"),
    ):
        kafwire.Consumer(secured.bootstrap, "flights", default_api_timeout_ms=500)


def test_a_good_run_logs_nothing_above_info(
    broker: EmbeddedKafka, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with kafwire.Producer(broker.bootstrap) as producer:
        producer.send(topic, b"EWR-IAH").result(timeout=10)
    with kafwire.Consumer(broker.bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"0"
        consumer.commit()
    lines = [record for record in caplog.records if record.name.startswith("kafwire")]
    assert [record.levelname for record in lines] == ["INFO"], caplog.text


def test_text_without_a_serializer_is_refused_with_the_call_to_write(broker: EmbeddedKafka, topic: str) -> None:
    with (
        kafwire.Producer(broker.bootstrap) as producer,
        pytest.raises(kafwire.ConfigError, match=r"the value is text: encode it first, as in value=text\.encode\(\)"),
    ):
        producer.send(topic, "EWR-IAH")


def test_a_record_without_key_and_value_is_sent(broker: EmbeddedKafka, topic: str) -> None:
    with kafwire.Producer(broker.bootstrap) as producer:
        assert producer.send(topic).result(timeout=10).offset == 10
    (batch,) = kafwire.scan(broker.bootstrap, topic, start=kafwire.Offset(10)).batches()
    assert (batch[0].key, batch[0].value) == (None, None)


def test_a_record_in_hand_at_an_exception_is_not_committed(broker: EmbeddedKafka, topic: str) -> None:
    def process() -> None:
        with kafwire.Consumer(broker.bootstrap, topic, group_id=topic, auto_offset_reset="earliest") as consumer:
            for record in consumer:
                if record.offset == 3:
                    raise LookupError(record.offset)

    with pytest.raises(LookupError):
        process()
    assert broker.committed(topic) == {(topic, 0): 3}


def test_poll_process_commit_commits_the_polled_records(broker: EmbeddedKafka, topic: str) -> None:
    options: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with kafwire.Consumer(broker.bootstrap, topic, **options) as consumer:
        assert sum(map(len, consumer.poll(10))) == 10
        consumer.commit()
    assert broker.committed(topic) == {(topic, 0): 10}


def test_a_second_thread_is_refused(broker: EmbeddedKafka, topic: str) -> None:
    errors: list[BaseException] = []
    with kafwire.Consumer(broker.bootstrap, topic, start="latest") as consumer:

        def read() -> None:
            try:
                next(iter(consumer))
            except kafwire.KafkaError as error:
                errors.append(error)
                consumer.stop()
            except StopIteration:
                pass

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert ["one reader at a time" in str(error) for error in errors] == [True]


# --- the peers --------------------------------------------------------------------------------------------------------


def test_defaults_of_the_peers() -> None:
    sends, reads = kafka.KafkaProducer.DEFAULT_CONFIG, kafka.KafkaConsumer.DEFAULT_CONFIG
    assert (sends["enable_idempotence"], sends["acks"], sends["linger_ms"], sends["delivery_timeout_ms"]) == (
        *(True, -1),
        *(0, 120_000),
    )
    assert (reads["isolation_level"], reads["check_crcs"], reads["max_poll_records"], reads["ssl_check_hostname"]) == (
        *("read_uncommitted", True),
        *(500, True),
    )
    assert (reads["allow_auto_create_topics"], reads["auto_offset_reset"]) == (True, "latest")
    sends = {name: each.default for name, each in inspect.signature(aiokafka.AIOKafkaProducer).parameters.items()}
    reads = {name: each.default for name, each in inspect.signature(aiokafka.AIOKafkaConsumer).parameters.items()}
    assert (sends["enable_idempotence"], sends["linger_ms"], sends["request_timeout_ms"]) == (False, 0, 40_000)
    assert (reads["isolation_level"], reads["check_crcs"], reads["auto_offset_reset"]) == (
        *("read_uncommitted", True),
        "latest",
    )


def test_types_and_metrics_of_the_peers() -> None:
    typed = {}
    for name in ("confluent_kafka", "aiokafka", "kafka"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        typed[name] = Path(spec.origin).with_name("py.typed").exists()
    assert typed == {"confluent_kafka": True, "aiokafka": False, "kafka": False}
    assert [hasattr(kind, "metrics") for kind in (confluent_kafka.Producer, aiokafka.AIOKafkaProducer)] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "lingr.ms": 5}), "KafkaException"),
        (lambda: kafka.KafkaProducer(bootstrap_servers="127.0.0.1:1", **MISSPELT), "ValueError"),
        (lambda: aiokafka.AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", **MISSPELT), "TypeError"),
        (lambda: kafwire.Producer("127.0.0.1:1", **MISSPELT), "ConfigError"),
    ],
    ids=["confluent-kafka", "kafka-python", "aiokafka", "kafwire"],
)
def test_a_misspelt_option(make: Callable[[], object], error: str) -> None:
    with pytest.raises(Exception, match=r"lingr[._]ms") as raised:
        make()
    assert type(raised.value).__name__ == error
    assert ("linger_ms" in str(raised.value)) == (error == "ConfigError")


def confluent_sends(servers: str, topic: str, records: list[dict[str, Any]]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(10) == 0


def kafka_python_sends(servers: str, topic: str, records: list[dict[str, Any]]) -> None:
    with kafka.KafkaProducer(bootstrap_servers=servers) as producer:
        for sent in [producer.send(topic, **record) for record in records]:
            sent.get(10)


def aiokafka_sends(servers: str, topic: str, records: list[dict[str, Any]]) -> None:
    async def main() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for record in records:
                await producer.send(topic, **record)

    asyncio.run(main())


def kafwire_sends(servers: str, topic: str, records: list[dict[str, Any]]) -> None:
    with kafwire.Producer(servers) as producer:
        for sent in [producer.send(topic, **record) for record in records]:
            sent.result(10)


SENDS = {
    "confluent-kafka": confluent_sends,
    "kafka-python": kafka_python_sends,
    "aiokafka": aiokafka_sends,
    "kafwire": kafwire_sends,
}


@pytest.mark.parametrize(
    ("record", "errors"),
    [
        ({"value": None}, {"kafka-python": ValueError, "aiokafka": AssertionError}),
        ({"value": b"EWR-IAH", "headers": {"a": "1"}}, {"kafka-python": TypeError, "aiokafka": TypeError}),
        ({"value": b"EWR-IAH", "headers": [("a", "1")]}, {"kafka-python": TypeError, "aiokafka": TypeError}),
        ({"value": "EWR-IAH"}, {"kafka-python": TypeError, "aiokafka": TypeError, "kafwire": kafwire.ConfigError}),
    ],
    ids=["no-key-no-value", "dict-of-text", "pairs-of-text", "text"],
)
def test_records_that_some_clients_refuse(
    broker: EmbeddedKafka, record: dict[str, Any], errors: dict[str, type[Exception]]
) -> None:
    for name, send in SENDS.items():
        if name in errors:
            with pytest.raises(errors[name]):
                send(broker.bootstrap, "six", [record])
        else:
            send(broker.bootstrap, "six", [record])


def test_partitions_of_keys(broker: EmbeddedKafka) -> None:
    for name, send in SENDS.items():
        send(broker.bootstrap, "six", [{"value": name.encode(), "key": key} for key in KEYS])
    found: dict[bytes, dict[bytes, int | None]] = {}
    for batch in kafwire.scan(broker.bootstrap, "six").batches():
        for record in batch:
            if record.key is not None:
                found.setdefault(record.value, {})[record.key] = record.partition
    like = {name: sum(found[name.encode()][key] == found[b"kafwire"][key] for key in KEYS) for name in SENDS}
    assert like == {"confluent-kafka": 34, "kafka-python": 200, "aiokafka": 200, "kafwire": 200}


FORGETS = {
    "confluent-kafka": """
        import confluent_kafka
        producer = confluent_kafka.Producer({"bootstrap.servers": servers})
        producer.produce(topic, bytes(2_000))
        producer.flush()
    """,
    "kafka-python": """
        import kafka
        with kafka.KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send(topic, bytes(2_000))
    """,
    "kafwire": """
        import kafwire
        with kafwire.Producer(servers) as producer:
            producer.send(topic, bytes(2_000))
    """,
}


@pytest.mark.parametrize(("name", "lines"), [("confluent-kafka", 0), ("kafka-python", 0), ("kafwire", 1)])
def test_a_refused_record_that_the_program_does_not_look_at(broker: EmbeddedKafka, name: str, lines: int) -> None:
    code = "import sys\nservers, topic = sys.argv[1:]\n" + inspect.cleandoc(FORGETS[name])
    command = [sys.executable, "-W", "ignore", "-c", code, broker.bootstrap, "small"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert len(done.stderr.splitlines()) == lines, done.stderr
    assert ("1 record(s) were not delivered" in done.stderr) == (name == "kafwire")


EXIT = {
    "confluent-kafka": """
        import confluent_kafka
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 200})
        for number in range(10):
            producer.produce(topic, b"x")
    """,
    "kafka-python": """
        import kafka
        producer = kafka.KafkaProducer(bootstrap_servers=servers, linger_ms=200)
        for number in range(10):
            producer.send(topic, b"x")
    """,
    "kafwire": """
        import kafwire
        producer = kafwire.Producer(servers, linger_ms=200)
        for number in range(10):
            producer.send(topic, b"x")
    """,
}


@pytest.mark.parametrize(("name", "sent"), [("confluent-kafka", 0), ("kafka-python", 10), ("kafwire", 10)])
def test_a_program_that_ends_without_close(broker: EmbeddedKafka, topic: str, name: str, sent: int) -> None:
    code = "import sys\nservers, topic = sys.argv[1:]\n" + inspect.cleandoc(EXIT[name])
    command = [sys.executable, "-W", "ignore", "-c", code, broker.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert sum(map(len, kafwire.scan(broker.bootstrap, topic, start=kafwire.Offset(10)).batches())) == sent
    assert ("Producer terminating with 10 messages" in done.stderr) == (name == "confluent-kafka")


def confluent_fails(servers: str, topic: str) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        while (message := consumer.poll(10)) is None or message.error():
            pass
        raise LookupError(message.offset())
    finally:
        consumer.close()


def kafka_python_fails(servers: str, topic: str) -> None:
    consumer = kafka.KafkaConsumer(topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest")
    try:
        for record in consumer:
            raise LookupError(record.offset)
    finally:
        consumer.close()


def aiokafka_fails(servers: str, topic: str) -> None:
    async def main() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            async for record in consumer:
                raise LookupError(record.offset)
        finally:
            await consumer.stop()

    asyncio.run(main())


@pytest.mark.parametrize("process", [confluent_fails, kafka_python_fails, aiokafka_fails])
def test_the_peers_commit_the_record_in_hand(
    broker: EmbeddedKafka, topic: str, process: Callable[[str, str], None]
) -> None:
    with pytest.raises(LookupError, match="0"):
        process(broker.bootstrap, topic)
    assert broker.committed(topic) == {(topic, 0): 1}


def test_a_record_that_confluent_kafka_cannot_deserialize_is_skipped(broker: EmbeddedKafka, topic: str) -> None:
    broker.append(topic, [b"{", b"11"])
    options: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    consumer = confluent_kafka.DeserializingConsumer(
        {**options, "value.deserializer": lambda data, ctx: json.loads(data)}
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    while not found or found[-1] != 11:
        try:
            message: Any = consumer.poll(10)
            if message is not None:
                found.append(message.value())
        except confluent_kafka.error.ValueDeserializationError:
            found.append("error")
    consumer.close()
    assert found == [*range(10), "error", 11]


def test_a_record_that_aiokafka_cannot_deserialize_comes_again(broker: EmbeddedKafka, topic: str) -> None:
    async def main() -> int:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", value_deserializer=refuse
        )
        await consumer.start()
        errors = 0
        try:
            for _ in range(3):
                try:
                    await asyncio.wait_for(consumer.getone(), 10)
                except ZeroDivisionError:
                    errors += 1
        finally:
            await consumer.stop()
        return errors

    def refuse(data: bytes) -> int:
        return 1 // int(data)

    assert asyncio.run(main()) == 3


def test_a_pickle_of_a_peer_names_no_reason(broker: EmbeddedKafka) -> None:
    with pytest.raises(TypeError, match=r"^cannot pickle 'cimpl\.Producer' object$"):
        pickle.dumps(confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap}))
    with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap) as producer, pytest.raises(TypeError, match="RLock"):
        pickle.dumps(producer)
    with kafwire.Producer(broker.bootstrap) as own, pytest.raises(TypeError, match="make one in each process"):
        pickle.dumps(own)


def test_a_full_queue_of_confluent_kafka_is_an_error() -> None:
    options: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 1, "log_level": 0}
    producer = confluent_kafka.Producer(options)
    producer.produce("flights", b"EWR-IAH")
    with pytest.raises(BufferError, match="Queue full"):
        producer.produce("flights", b"EWR-IAH")
    producer.purge()
