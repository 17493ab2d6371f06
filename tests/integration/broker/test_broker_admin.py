"""Administration of the embedded broker and of a real one by three clients: the same steps have the same results."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.broker.admin_script import by_confluent, by_java, by_kafwire, normalised

# The configs with which `KafkaCluster` starts its nodes.
CONFIGS = {"log.retention.ms": -1, "log.retention.bytes": -1, "auto.create.topics.enable": False}


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(configs=CONFIGS) as kafka:
        yield kafka


@pytest.mark.parametrize("script", [by_kafwire, by_confluent, by_java])
def test_administration_has_the_same_results(
    script: Callable[[str, str], list[str]], cluster: KafkaCluster, embedded: EmbeddedKafka
) -> None:
    prefix = f"t{uuid.uuid4().hex[:8]}"
    real = normalised(script(cluster.bootstrap, prefix), prefix)
    ours = normalised(script(embedded.bootstrap, prefix), prefix)
    assert len(real) == len(ours)
    different = "\n".join(f"Kafka: {r}\nhere:  {o}" for r, o in zip(real, ours, strict=True) if r != o)
    assert not different, different
    assert len(real) > 10
