"""The embedded broker's state answers the scenarios of `tests/scenarios` as real brokers did, word for word."""

from __future__ import annotations

import pytest

from kafwire.testing.kafka import DEFAULT_VERSION, OLDEST_VERSION
from tests.scenarios.answers import judge, recorded
from tests.scenarios.embedded import KNOWN, EmbeddedState
from tests.scenarios.script import play, scenarios

VERSIONS = (OLDEST_VERSION, DEFAULT_VERSION)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_state_answers_as_kafka_does(version: str) -> None:
    real = recorded(version)
    said = {scenario.name: play(scenario, EmbeddedState(version)) for scenario in scenarios(version)}
    assert list(real) == list(said), "scenarios have changed: `python -m tests.scenarios.answers` asks real brokers"
    assert len(said) >= 50
    complaints = judge(version, real, said, KNOWN)
    assert not complaints, complaints
