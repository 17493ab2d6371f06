"""Serializers that other clients ship, in kafwire's clients, as they are."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import confluent_kafka.serialization as confluent
import pytest

import kafwire
from kafwire.testing import KafkaCluster
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.known_topics import make_topic
from tests.support.time_limits import within

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, of importlib.resources
    import kafka.serializer as kafka_python

pytestmark = pytest.mark.either_kafka


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as found:
        yield found


@pytest.mark.parametrize(
    ("serializers", "deserializers", "stored"),
    [
        (
            {"key_serializer": str.encode, "value_serializer": lambda v: json.dumps(v).encode()},
            {"key_deserializer": bytes.decode, "value_deserializer": lambda b: json.loads(b.decode())},
            b'{"a": 1}',
        ),
        (
            {"key_serializer": kafka_python.DefaultSerializer(), "value_serializer": kafka_python.JsonSerializer()},
            {"key_deserializer": kafka_python.DefaultSerializer(), "value_deserializer": kafka_python.JsonSerializer()},
            b'{"a": 1}',
        ),
        (
            {"key_serializer": confluent.StringSerializer("utf_8"), "value_serializer": json.dumps},
            {"key_deserializer": confluent.StringDeserializer("utf_8"), "value_deserializer": json.loads},
            b'{"a": 1}',
        ),
    ],
    ids=["functions", "kafka-python", "confluent-kafka"],
)
def test_there_and_back(
    flavour: Flavour,
    cluster: KafkaCluster,
    topic_name: str,
    serializers: dict[str, Any],
    deserializers: dict[str, Any],
    stored: bytes,
) -> None:
    topic = make_topic(cluster.bootstrap, topic_name)
    with flavour.producer(cluster.bootstrap, **serializers) as producer, within(30):
        producer.send(topic, {"a": 1}, key="grün").result(10)
        producer.send(topic, None, key="grün").result(10)
    with kafwire.scan(cluster.bootstrap, topic) as scan:
        assert [(record.key, record.value) for batch in scan.batches() for record in batch] == [
            ("grün".encode(), stored),
            ("grün".encode(), None),
        ]
    with flavour.consumer(cluster.bootstrap, topics=topic, start="earliest", **deserializers) as consumer, within(30):
        records = iter(consumer)
        assert [(record.key, record.value) for record in (next(records), next(records))] == [
            ("grün", {"a": 1}),
            ("grün", None),
        ]
