"""The embedded broker and a real one respond alike to random walks of a classic group's members, line by line."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

import kafwire
from kafwire import protocol
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.testing import KafkaCluster
from tests.support import deadlines as waiting
from tests.support import seeds
from tests.support.group.walk import Walk
from tests.support.real_topics import create

STEPS = 50
TOPIC = f"walked-{uuid.uuid4().hex[:8]}"
PATIENCE_MS = (25.0, 150.0, 600.0)  # a busy machine may respond late: a walk that differs is repeated


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic(TOPIC)
        yield running


@pytest.fixture(scope="module")
def real(cluster: KafkaCluster) -> str:
    with kafwire.Client(cluster.bootstrap) as client:
        request = protocol.FindCoordinatorRequest(coordinator_keys=["walk"], key_type=0)
        waiting.until(lambda: not client.call(request, version=4).coordinators[0].error_code, "groups are coordinated")
    create(cluster, TOPIC, 1)
    Walk(cluster.bootstrap, TOPIC, 0).play(STEPS)  # its first responses come late
    return cluster.bootstrap


def difference(real: list[str], own: list[str]) -> int | None:
    """The first line that is not the same; none where only the choice of another leader differs, which is arbitrary."""
    for number, lines in enumerate(zip(real, own, strict=False)):
        if lines[0] != lines[1]:
            leaders = [re.search(r"led by (\S+)", line) for line in lines]
            is_chosen = all(leaders) and len({each[1] for each in leaders if each}) == 2
            return None if is_chosen else number
    return None if len(real) == len(own) else min(len(real), len(own))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", seeds.sampled(range(16), 1, 2, 3, 5))
def test_responses_to_walks_are_alike(real: str, embedded: EmbeddedKafka, seed: int) -> None:
    for settle_ms in PATIENCE_MS:
        said = [Walk(where, TOPIC, seed, settle_ms=settle_ms).play(STEPS) for where in (real, embedded.bootstrap)]
        if difference(*said) is None:
            break
    first = difference(*said)
    assert first is None, "\n".join([*said[0][:first], "--- real:", said[0][first], "--- embedded:", said[1][first]])
