"""Histories of real producers, read back from a real broker by kafwire and by confluent-kafka."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

import kafwire
from kafwire.errors import BrokerError, KafkaTimeoutError
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.history import History, check, observe, observe_group
from kafwire.types import TopicPartition

pytestmark = pytest.mark.either_kafka

CLIENTS = ["kafwire", "confluent-kafka"]
LEVELS = ["read_uncommitted", "read_committed"]


def observe_all(history: History, bootstrap: str, topics: list[str]) -> list[int]:
    return [
        observe(history, bootstrap, topics, client=client, isolation_level=level)
        for client in CLIENTS
        for level in LEVELS
    ]


def send_with_kafwire(history: History, bootstrap: str, topic: str, count: int) -> None:
    writer = history.producer(1, "kafwire")
    with kafwire.Producer(bootstrap, linger_ms=1) as producer:
        keys = [n % 7 for n in range(count)]
        made = writer.invoke(keys, size=40)
        sent = [
            (sequence, producer.send(topic, value, key=b"%d" % key))
            for key, (sequence, value) in zip(keys, made, strict=True)
        ]
        for sequence, delivery in sent:
            meta = delivery.result(30)
            writer.ok(sequence, meta.topic, meta.partition, meta.offset)


def send_transactions(history: History, bootstrap: str, topic: str, outcomes: list[str]) -> None:
    """Send transactions with confluent-kafka over two partitions, each with an offset of a group."""
    writer = history.producer(2, "confluent-kafka")
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-writer"})
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-group"})
    producer.init_transactions(30)
    for number, outcome in enumerate(outcomes):
        transaction = writer.begin()
        producer.begin_transaction()
        for key, (sequence, value) in enumerate(writer.invoke(range(6), transaction=transaction)):

            def delivered(error: Any, message: Any, sequence: int = sequence) -> None:
                assert error is None
                writer.ok(sequence, message.topic(), message.partition(), message.offset())

            producer.produce(topic, value, partition=key % 2, on_delivery=delivered)
        producer.flush(30)
        takes = number + 1
        writer.offsets(transaction, f"{topic}-group", {TopicPartition(topic, 0): takes})
        producer.send_offsets_to_transaction(
            [ck.TopicPartition(topic, 0, takes)], consumer.consumer_group_metadata(), 30
        )
        if outcome == "abort":
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        writer.end(transaction, "unknown" if outcome == "unknown" else outcome)
    consumer.close()


def test_two_clients_and_two_observers_agree(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=3)
        client.create_topic(topic_name + "-empty")
    with History(path) as history:
        send_with_kafwire(history, cluster.bootstrap, topic_name, 500)
        outcomes = ["commit", "abort", "unknown", "commit", "abort"]
        send_transactions(history, cluster.bootstrap, topic_name, outcomes)
        counts = observe_all(history, cluster.bootstrap, [topic_name, topic_name + "-empty"])
        assert counts == [530, 518, 530, 518]
        taken = observe_group(history, cluster.bootstrap, f"{topic_name}-group", [TopicPartition(topic_name, 0)])
        assert taken == {TopicPartition(topic_name, 0): 4}
    report = check(path)
    assert report.ok, str(report)
    expected = {
        "invoked": 530,
        "acked": 530,
        "unread": 0,
        "committed": 2,
        "aborted": 2,
        "undecided": 1,
        "undecided_there": 1,
        "views": 4,
        "read": 530,
        "offsets": 1,
    }
    assert {name: report.counts[name] for name in expected} == expected


@pytest.mark.parametrize("client", CLIENTS)
def test_other_records_in_the_log_are_found(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path, client: str
) -> None:
    path = tmp_path / "history"
    with kafwire.Client(cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1)
    with History(path) as history, kafwire.Producer(cluster.bootstrap) as producer:
        writer = history.producer(1)
        (first, again), (lost, _), (_, unsure) = writer.invoke([1, 1, 1])
        values = [again, again, unsure, b"a stranger's", None]
        metas = [producer.send(topic_name, value, partition=0).result(30) for value in values]
        writer.ok(first, topic_name, 0, metas[0].offset)
        writer.ok(lost, topic_name, 0, 9)
        assert observe(history, cluster.bootstrap, topic_name, client=client, name="it") == 5
    report = check(path)
    found = [(finding.kind, finding.where) for finding in report.findings]
    where = f"{topic_name}-0"
    assert found == [
        ("duplicated", f"{where}@1"),
        ("phantom", f"{where}@3"),
        ("phantom", f"{where}@4"),
        ("lost", f"{where}@9"),
    ]
    assert "seen by it (view 0, read_uncommitted)" in str(report.findings[0])


def test_a_transaction_in_between_ends_the_judged_part(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    """Records behind the last stable offset are not withheld: no observer looked there."""
    path = tmp_path / "history"
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=2)
    producer = ck.Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": f"{topic_name}-open"})
    producer.init_transactions(30)
    with History(path) as history:
        writer = history.producer(2, "open")
        transaction = writer.begin()
        producer.begin_transaction()
        ((sequence, value),) = writer.invoke([1], transaction=transaction)
        producer.produce(topic_name, value, partition=0)
        producer.flush(30)
        writer.ok(sequence, topic_name, 0, 0)
        send_with_kafwire(history, cluster.bootstrap, topic_name, 100)
        counts = observe_all(history, cluster.bootstrap, [topic_name])
        assert counts[0] == counts[2] == 101
        assert counts[1] == counts[3] < 100
        report = check(path)
        assert report.ok, str(report)
        assert (report.counts["unread"], report.counts["unjudged"]) == (0, 1)
        producer.commit_transaction(30)
        writer.end(transaction, "commit")
        assert observe_all(history, cluster.bootstrap, [topic_name]) == [101] * 4
    report = check(path)
    assert report.ok, str(report)
    assert (report.counts["committed"], report.counts["unjudged"], report.counts["views"]) == (1, 0, 8)


def test_observers_report_errors(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with History(tmp_path / "history") as history:
        with pytest.raises(ValueError, match="one of kafwire, confluent-kafka, not 'kcat'"):
            observe(history, cluster.bootstrap, topic_name, client="kcat")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC"):
            observe(history, cluster.bootstrap, topic_name)
        with pytest.raises(ck.KafkaException, match="UNKNOWN_TOPIC"):
            observe(history, cluster.bootstrap, topic_name, client="confluent-kafka")
        with kafwire.Client(cluster.bootstrap) as client:
            client.create_topic(topic_name, partitions=2)

        class Silent(ck.Consumer):
            def consume(self, *_: Any) -> list[Any]:
                return []

        monkeypatch.setattr(ck, "Consumer", Silent)
        begin = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=f"did not come to the end of {topic_name}-0, {topic_name}-1"):
            observe(history, cluster.bootstrap, topic_name, client="confluent-kafka", timeout_s=2)
        assert time.monotonic() - begin < 20
    assert check(tmp_path / "history").counts["views"] == 0
