"""Brokers for tests of clients that prove the same on both: embedded in the everyday run, Apache Kafka with KAFKA=real.

A module says so by `pytestmark = pytest.mark.either_kafka`, and its fixture `cluster` follows. Tests of the wire, of
Kafka itself or of the embedded broker have no mark: they have Apache Kafka in every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafwire.testing import EmbeddedKafka, KafkaCluster

IS_REAL = os.environ.get("KAFKA") == "real"
# As nodes of test clusters have them.
CONFIGS: dict[str, object] = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.ms": -1,
    "log.retention.bytes": -1,
    "num.partitions": 1,
}


@contextmanager
def either_kafka(properties: dict[str, object] | None = None) -> Iterator[KafkaCluster | EmbeddedKafka]:
    """One node with these properties."""
    if IS_REAL:
        with KafkaCluster(properties=properties) as cluster:
            yield cluster
    else:
        with EmbeddedKafka(configs=CONFIGS | (properties or {})) as kafka:
            yield kafka
