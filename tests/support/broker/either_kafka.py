"""Brokers for tests of clients that prove the same on both: embedded in the everyday run, Apache Kafka with KAFKA=real.

KAFKA=redpanda, or another name of `kafwire.broker.profiles`, gives the embedded brokers that profile, but for the
codecs that it refuses: many tests compress, and `tests/unit/broker/test_profiles.py` has the refusal.

A module says so by `pytestmark = pytest.mark.either_kafka`, and its fixture `cluster` follows. Tests of the wire, of
Kafka itself or of the embedded broker have no mark: they have Apache Kafka in every run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from kafwire.broker.profiles import profile_of
from kafwire.testing import EmbeddedKafka, KafkaCluster

_WANTED = os.environ.get("KAFKA", "")
IS_REAL = _WANTED == "real"
SERVER = None if IS_REAL or not _WANTED else replace(profile_of(_WANTED), codecs=None)
# As nodes of test clusters have them.
CONFIGS: dict[str, object] = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "group.streams.initial.rebalance.delay.ms": 0,
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
        with EmbeddedKafka(configs=CONFIGS | (properties or {}), server=SERVER) as kafka:
            yield kafka
