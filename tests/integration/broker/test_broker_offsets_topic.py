"""`__consumer_offsets` of the embedded broker and of a real one, as Kafka's own formatters show it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import kafwire
from kafwire.testing import EmbeddedKafka, KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java

FORMATTERS = "org.apache.kafka.tools.consumer."
# As in a test cluster. The console consumer is in a group: in one partition its own records follow all others.
CONFIGS = {"offsets.topic.num.partitions": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """One of this module's own: an open transaction of another test would hide all that follows in the topic."""
    with KafkaCluster() as running:
        yield running


def use_groups(bootstrap: str, topic: str) -> None:
    """Commit as a group's only member, alone, and in transactions."""
    with kafwire.Client(bootstrap) as client:
        client.create_topic(topic, partitions=1)
    with kafwire.Producer(bootstrap, linger_ms=0) as writer:
        writer.send(topic, b"v").result(30)
    group = {"bootstrap.servers": bootstrap, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    place = TopicPartition(topic, 0, 7)
    member = Consumer({**group, "group.id": f"{topic}-member", "group.instance.id": "one", "client.id": "c"})
    member.subscribe([topic])
    message = member.poll(30)
    assert message is not None
    member.commit(message=message, asynchronous=False)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for ends in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 30)
        ends(30)
    member.close()
    alone = Consumer({**group, "group.id": f"{topic}-alone"})
    alone.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    alone.close()


def shown(bootstrap: str, formatter: str, topic: str) -> list[dict[str, Any]]:
    """The committed records as Kafka's console consumer shows them, without times and ids."""
    with kafwire.scan(bootstrap, "__consumer_offsets", isolation_level="read_committed") as scan:
        count = sum(len(batch) for batch in scan.batches())
    ran = subprocess.run(
        [
            *(java(), "-cp", class_path(), f"{FORMATTERS}ConsoleConsumer", "--bootstrap-server", bootstrap),
            *("--topic", "__consumer_offsets", "--from-beginning", "--isolation-level", "read_committed"),
            *("--max-messages", str(count), "--timeout-ms", "40000", "--formatter", FORMATTERS + formatter),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    found = [each for each in documents(ran.stdout) if topic in json.dumps(each)]
    for each in found:
        data = (each["value"] or {"data": {}})["data"]
        for name in ("commitTimestamp", "currentStateTimestamp", "topicId", "leader"):
            data.pop(name, None)
        for member in data.get("members", ()):
            del member["memberId"]
    # A new group has a record before its first generation in Kafka alone.
    made = [each for each in found if not (each["value"] and each["value"]["data"].get("generation") == 0)]
    return sorted(made, key=lambda each: str(each["key"]["data"]["group"]))


def documents(text: str) -> Iterator[dict[str, Any]]:
    """JSON documents that follow one another without a line's end."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        document, position = decoder.raw_decode(text, position)
        yield document


@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_kafka_s_formatters_show_the_same(cluster: KafkaCluster, topic_name: str, formatter: str) -> None:
    topic = f"{topic_name[-12:]}"
    with EmbeddedKafka(configs=CONFIGS) as embedded:
        for bootstrap in (embedded.bootstrap, cluster.bootstrap):
            use_groups(bootstrap, topic)
        ours, real = (shown(each, formatter, topic) for each in (embedded.bootstrap, cluster.bootstrap))
    assert len(real) >= 1
    assert ours == real
