"""Calls to kafwire as type checkers judge them. Nothing here is run.

A call that must be wrong has a comment that silences mypy and pyright; both report a comment that silences nothing, so
a mistake that they no longer see fails the linting.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any, assert_type

import kafwire
from kafwire import Client, Consumer, Offset, Producer, Tail, TopicPartition, scan
from kafwire.frames import dataset
from kafwire.polars import scan_kafka

SERVERS = "localhost:9092"
WHERE = TopicPartition("t", 0)


def right() -> None:
    Producer(SERVERS, linger_ms=5, acks="all", compression_type="lz4", compression_level=3, partitioner="murmur2")
    Producer([SERVERS], acks=1, enable_idempotence=None, partitioner=lambda *args: 0, metrics_hook=print)
    Consumer(SERVERS, topics="t", start=Tail(5), fetch_strategy="per_node", group_id=None)
    Consumer(SERVERS, assign=[WHERE], start={WHERE: Offset(5)}, isolation_level="read_committed")
    Client(SERVERS, client_id="me", request_timeout_ms=1000)
    scan(SERVERS, "t", start=dt.datetime.now(dt.UTC), end={WHERE: "latest"}, check_crcs=False, columns=["value"])
    dataset(SERVERS, "t", start=Tail(5), columns=["value"], isolation_level="read_committed")
    scan_kafka(SERVERS, ["t"], partitions=[0], timestamps=(0, None), check_crcs=False)
    options: kafwire.ProducerOptions = {"linger_ms": 5}
    Producer(SERVERS, **options)
    read: dict[str, Any] = {"bootstrap_servers": SERVERS, "linger_ms": 5}
    Producer(**read)
    kafwire.AsyncProducer(SERVERS, linger_ms=5)
    kafwire.AsyncConsumer(SERVERS, topics=["t"], auto_offset_reset="earliest")
    kafwire.AsyncClient(SERVERS, metadata_max_age_ms=1000)
    Producer(SERVERS, linger_ms=0.5, compression_type=None, client_id=None, partitioner=None)
    assert_type(Consumer(SERVERS, "t", consumer_timeout_ms=float("inf")), Consumer)
    assert_type(kafwire.AsyncConsumer(SERVERS, ["t", "u"]), kafwire.AsyncConsumer)
    kafwire.ShareConsumer(SERVERS, "t", group_id="workers")


def misspelt(client: Client, awaited: kafwire.AsyncClient) -> None:
    Producer(SERVERS, lingr_ms=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Consumer(SERVERS, topics="t", fetch_stategy="hybrid")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Client(SERVERS, linger_ms=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    scan(SERVERS, "t", chunk_byte=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    dataset(SERVERS, "t", colums=["value"])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    scan_kafka(SERVERS, "t", chunk_byte=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.scan("t", chunk_byte=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    _ = awaited.scan("t", chunk_byte=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    kafwire.AsyncProducer(SERVERS, lingr_ms=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    kafwire.AsyncConsumer(SERVERS, topic="t")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    kafwire.AsyncClient(SERVERS, client="me")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def of_other_clients(producer: Producer, client: Client, consumer: kafwire.AsyncConsumer) -> None:
    producer.produce("t", b"v")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    client.create_topics([])  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    consumer.assignment()  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
    Consumer("t", bootstrap_servers=SERVERS)  # type: ignore[misc]  # pyright: ignore[reportCallIssue]


def of_the_wrong_type() -> None:
    Producer(SERVERS, linger_ms="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Producer(SERVERS, compression_type="lz5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Producer(SERVERS, acks="quorum")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Consumer(SERVERS, topics="t", start=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    dataset(SERVERS, "t", start=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    scan(SERVERS, "t", start=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def metadata_is_typed(client: Client) -> None:
    found = client.metadata()
    assert_type(found, kafwire.ClusterMetadata)
    assert_type(found.brokers[0].host, str)
    assert_type(found.topics[0].topic_id, uuid.UUID)
    assert_type(found.topics[0].partitions[0].leader_id, int)
    print(found.topics[0].partitons)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
