"""Topics of a real cluster: made, and read again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafwire
from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import until

# How long a follower's fetch is parked at its leader (replica.fetch.wait.max.ms).
PARKED_MS = 200


def all_up(cluster: KafkaCluster) -> KafkaCluster:
    """Resume and start all nodes."""
    for node in cluster.nodes:
        node.resume()
        node.start(wait=False)
    for node in cluster.nodes:
        node.wait_ready()
    return cluster


def committed(cluster: KafkaCluster, topic: str) -> list[bytes]:
    """The committed records, once all markers are written: a commit is decided before that."""
    return committed_at(cluster.bootstrap, topic)


def committed_at(bootstrap: str, *topics: str, **options: Any) -> list[bytes]:
    """`committed`, of the cluster that is found at an address."""
    with kafwire.Client(bootstrap, **options) as client:
        places = [kafwire.TopicPartition(topic, part) for topic in topics for part in client.partitions_for(topic)]
        ends = client.offsets(places, "latest")
        with client.scan(list(topics), end=ends, isolation_level="read_committed") as found:
            return sorted(pa.table(found)["value"].to_pylist())


def offset_of(cluster: KafkaCluster, group: str, where: kafwire.TopicPartition) -> int | None:
    options: dict[str, Any] = {"group_id": group, "isolation_level": "read_committed", "enable_auto_commit": False}
    with kafwire.Consumer(cluster.bootstrap, assign=[where], auto_offset_reset="earliest", **options) as consumer:
        return consumer.committed()[where]


def create(cluster: KafkaCluster, topic: str, partitions: int, *, settled: bool = True, **config: str) -> None:
    """Create a topic; `settled`: and wait until the broker serves all of it.

    While a broker is still making a partition, it refuses a producer's first batch and may take the second. Then the
    Java client repeats the first in vain until its time is up.
    """
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    options = {name.replace("_", "."): value for name, value in config.items()}
    (created,) = client.create_topics([NewTopic(topic, partitions, 1, config=options)]).values()
    created.result(timeout=30)
    if settled:
        with watching(cluster.bootstrap) as consumer:
            for partition in range(partitions):
                until(partial(serves, consumer, topic, partition), f"{topic}-{partition} is served")


def serves(consumer: Consumer, topic: str, partition: int) -> bool:
    """True if the broker serves the partition."""
    try:
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    except KafkaException:
        return False
    return True


@contextmanager
def watching(bootstrap: str) -> Iterator[Consumer]:
    """A consumer of confluent-kafka that belongs to no group."""
    options = {"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0, "enable.auto.commit": False}
    consumer = Consumer(options)
    try:
        yield consumer
    finally:
        consumer.close()


SOON: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200, "reconnect_backoff_max_ms": 200}


def values(bootstrap: str, topic: str) -> list[bytes]:
    return list(pa.table(kafwire.scan(bootstrap, topic, columns=["value"]))["value"].to_pylist())


QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 100, "reconnect_backoff_ms": 10}


def cluster_leader(cluster: KafkaCluster, topic: str) -> int:
    with kafwire.Client(cluster.direct) as client:
        return int(client.topic(topic).partitions[0].leader)
