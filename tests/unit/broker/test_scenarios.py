"""The embedded broker's state responds to the scenarios of `tests/scenarios` as real brokers did, word for word."""

from __future__ import annotations

import random

import pytest

from kafwire.testing.cluster.kafka import DEFAULT_VERSION, OLDEST_VERSION, PREVIOUS_VERSION
from tests.scenarios.embedded import KNOWN, EmbeddedState
from tests.scenarios.random_requests import Step, draw, first_difference, play_steps, shrink
from tests.scenarios.responses import Difference, judge, recorded
from tests.scenarios.script import play, scenarios

VERSIONS = (OLDEST_VERSION, PREVIOUS_VERSION, DEFAULT_VERSION)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_state_responds_as_kafka_does(version: str) -> None:
    real = recorded(version)
    said = {scenario.name: play(scenario, EmbeddedState(version)) for scenario in scenarios(version)}
    assert list(real) == list(said), "scenarios have changed: `python -m tests.scenarios.responses` asks real brokers"
    assert len(said) >= 50
    complaints = judge(version, real, said, KNOWN)
    assert not complaints, complaints


@pytest.mark.parametrize("version", VERSIONS)
def test_random_requests_get_the_same_responses_each_time(version: str) -> None:
    steps = draw(random.Random(7), 1, version)
    first, again = (play_steps(EmbeddedState(version), steps, 1) for _ in range(2))
    assert first == again
    assert len(first) >= len(steps)


def test_a_scenario_with_another_response_is_shown() -> None:
    real = {"a": ["1 -> 2", "3 -> 4"]}
    assert not judge("v", real, {"a": ["1 -> 2", "3 -> 4"]}, [])
    assert "3 -> 5" in judge("v", real, {"a": ["1 -> 2", "3 -> 5"]}, [])
    assert "3 -> 4" in judge("v", real, {"a": ["1 -> 2"]}, [])
    assert "1 -> 2" in judge("v", real, {}, [])


def test_a_difference_that_is_known_is_let_pass_and_one_that_is_gone_is_not() -> None:
    real = {"a": ["1 -> 2", "3 -> 4"]}
    known = [Difference("v", "a", "3 -> 4", "3 -> 5", "why")]
    assert not judge("v", real, {"a": ["1 -> 2", "3 -> 5"]}, known)
    assert "no longer" in judge("v", real, {"a": ["1 -> 2", "3 -> 4"]}, known)
    assert "3 -> 5" in judge("w", real, {"a": ["1 -> 2", "3 -> 5"]}, known)
    assert "3 -> 6" in judge("v", real, {"a": ["1 -> 2", "3 -> 6"]}, known)


def test_a_difference_is_shrunk() -> None:
    steps = [Step("n", (number,)) for number in range(25)]
    fewest = shrink(steps, lambda some: {3, 17} <= {step.arguments[0] for step in some})
    assert [step.arguments[0] for step in fewest] == [3, 17]
    assert first_difference(["a", "b"], ["a", "b"]) == ""
    assert first_difference(["a", "b"], ["a", "c"]).splitlines() == ["    a", "    Kafka: b", "    here:  c"]
