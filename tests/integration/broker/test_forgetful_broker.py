"""A broker that restarts has forgotten what a producer stored: what was not acknowledged is not stored twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.faults import BlackHole, Rule
from tests.support import seeds
from tests.support.deadlines import until
from tests.support.known_topics import make_topic
from tests.support.time_limits import within

QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 100, "reconnect_backoff_ms": 10}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(proxies=True) as running:
        yield running


def rows(cluster: KafkaCluster, topic: str) -> list[tuple[int, bytes]]:
    table = pa.table(kafwire.scan(cluster.direct, topic, columns=["offset", "value"]))
    return list(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True))


def has_rows(cluster: KafkaCluster, topic: str, count: int) -> bool:
    return len(rows(cluster, topic)) == count


@pytest.mark.parametrize("timestamp_ms", [None, 1_600_000_000_000], ids=["now", "old"])
@pytest.mark.parametrize("how", seeds.sampled(["stop", "kill"], "stop"))
def test_responses_lost_before_a_restart(
    cluster: KafkaCluster, topic_name: str, how: str, timestamp_ms: int | None
) -> None:
    """A snapshot has one batch of each producer, and none whose last timestamp is older than a day.

    Three batches are stored, and their responses do not arrive.
    """
    make_topic(cluster.direct, topic_name)
    proxy, node = cluster.proxy, cluster.node(1)
    proxy.restart()
    print("seed", proxy.seed)
    with kafwire.Producer(cluster.bootstrap, **QUICK, linger_ms=1) as producer, within(120):
        options: dict[str, Any] = {"partition": 0, "timestamp_ms": timestamp_ms}
        assert producer.send(topic_name, b"first", **options).result(30).offset == 0
        proxy.add(Rule(BlackHole("response"), api="Produce"))
        deliveries = []
        for value in (b"a", b"b", b"c"):
            stored = len(rows(cluster, topic_name))
            deliveries.append(producer.send(topic_name, value, **options))
            until(partial(has_rows, cluster, topic_name, stored + 1))
        getattr(node, how)()
        proxy.restart()
        node.start()
        deliveries.append(producer.send(topic_name, b"after", **options))
        offsets = [delivery.result(90).offset for delivery in deliveries]
    assert offsets == [1, 2, 3, 4]
    assert rows(cluster, topic_name) == list(enumerate([b"first", b"a", b"b", b"c", b"after"]))


@pytest.mark.parametrize("timestamp_ms", seeds.sampled([None, 1_600_000_000_000], None), ids=["now", "old"])
def test_the_very_first_response_is_lost_before_a_restart(
    cluster: KafkaCluster, topic_name: str, timestamp_ms: int | None
) -> None:
    make_topic(cluster.direct, topic_name)
    proxy, node = cluster.proxy, cluster.node(1)
    proxy.restart()
    print("seed", proxy.seed)
    with kafwire.Producer(cluster.bootstrap, **QUICK, linger_ms=1) as producer, within(120):
        proxy.add(Rule(BlackHole("response"), api="Produce"))
        delivery = producer.send(topic_name, b"first", timestamp_ms=timestamp_ms)
        until(partial(has_rows, cluster, topic_name, 1))
        node.stop()
        proxy.restart()
        node.start()
        assert delivery.result(90).offset == 0
        assert producer.send(topic_name, b"after", timestamp_ms=timestamp_ms).result(30).offset == 1
    assert rows(cluster, topic_name) == [(0, b"first"), (1, b"after")]
