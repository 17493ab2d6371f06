"""Real brokers respond to the scenarios as recorded, and to random requests as the embedded broker's state does.

KAFWIRE_SEED=7 KAFWIRE_EXAMPLES=20 pytest tests/integration/test_scenarios.py     # others, and twenty times as many
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

import kafwire
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, OLDEST_VERSION
from tests.scenarios.embedded import EmbeddedState
from tests.scenarios.random_requests import Step, compare, draw, play_steps
from tests.scenarios.real import OwnCluster, RealKafka
from tests.scenarios.responses import judge, recorded
from tests.scenarios.script import Restart, play, play_together, scenarios
from tests.support import seeds
from tests.support.kafka_versions import CLUSTERS


@pytest.fixture
def kafka(request: pytest.FixtureRequest, version: str) -> Iterator[RealKafka]:
    cluster = request.getfixturevalue(CLUSTERS[version])
    with kafwire.Client(cluster.bootstrap) as client:
        yield RealKafka(cluster, client)


@pytest.mark.parametrize("version", seeds.sampled(CLUSTERS, DEFAULT_VERSION, OLDEST_VERSION))
def test_real_brokers_respond_as_recorded(kafka: RealKafka, version: str) -> None:
    listed = scenarios(version, needs=())
    assert len(listed) >= 40
    said = {scenario.name: play(scenario, kafka) for scenario in listed}
    real = {name: lines for name, lines in recorded(version).items() if name in said}
    complaints = judge(version, real, said, [])
    assert not complaints, complaints


@pytest.mark.parametrize("version", seeds.sampled(CLUSTERS, DEFAULT_VERSION))
def test_real_brokers_that_end_or_pause_respond_as_recorded(version: str) -> None:
    listed = [scenario for scenario in scenarios(version) if scenario.needs]
    said: dict[str, list[str]] = {}
    with OwnCluster(version) as cluster, kafwire.Client(cluster.bootstrap) as client:
        kafka = RealKafka(cluster, client)
        for how in (None, *Restart):
            some = [scenario for scenario in listed if scenario.restart is how]
            said |= zip((scenario.name for scenario in some), play_together(some, kafka), strict=True)
    real = {name: lines for name, lines in recorded(version).items() if name in said}
    complaints = judge(version, real, said, [])
    assert not complaints, complaints


@pytest.mark.parametrize(
    ("version", "transaction_version"), [(DEFAULT_VERSION, 1), (DEFAULT_VERSION, 2), (OLDEST_VERSION, 1)]
)
def test_the_embedded_broker_responds_to_random_requests_as_kafka_does(
    kafka: RealKafka, version: str, transaction_version: int
) -> None:
    first = seeds.of_test()
    for seed in range(first, first + seeds.examples(10)):
        steps = draw(random.Random(seed), transaction_version, version)

        def here(some: Sequence[Step]) -> list[str]:
            return play_steps(EmbeddedState(version), some, transaction_version)

        difference = compare(lambda some: play_steps(kafka, some, transaction_version), here, steps)
        assert not difference, f"KAFWIRE_SEED={seed}\n{difference}"
