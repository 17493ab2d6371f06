"""The options that DescribeConfigs lists for a broker, as Kafka 4.4.0 does, and what holds in an option's place."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.state import ClusterState
from tests.support.broker.driver import ask

INT, LONG, LIST, CLASS, PASSWORD, UNKNOWN = 3, 5, 7, 8, 9, 0
STATIC, DEFAULT, DYNAMIC_DEFAULT = 4, 5, 3


def described(state: ClusterState, kind: int = 4, name: str = "1") -> dict[str, Any]:
    request = protocol.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (result,) = ask(state, request(resources=[resource], include_synonyms=True)).results
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


def test_all_of_kafka_s_options_are_listed() -> None:
    found = described(ClusterState())
    assert len(found) == 350
    facts = {name: (e.value, e.config_type, e.read_only, e.is_sensitive, e.config_source) for name, e in found.items()}
    assert facts["log.cleaner.threads"] == ("1", INT, False, False, DEFAULT)
    assert facts["node.id"] == ("1", INT, True, False, STATIC)
    assert facts["ssl.keystore.password"] == (None, PASSWORD, False, True, DEFAULT)
    assert facts["principal.builder.class"][1:] == (CLASS, False, False, DEFAULT)
    assert facts["sasl.oauthbearer.expected.audience"] == ("", LIST, True, False, DEFAULT)
    assert facts["log.roll.ms"] == (None, LONG, False, False, DEFAULT)
    assert facts["group.initial.rebalance.delay.ms"] == ("0", INT, True, False, STATIC)
    assert "super.users" not in found


def test_values_of_passwords_and_of_unknown_options_are_hidden() -> None:
    configs = {"super.users": "User:a", "sasl.jaas.config": "canary", "no.such.option": "canary"}
    found = described(ClusterState(configs=configs))
    for name, kind in (("super.users", UNKNOWN), ("sasl.jaas.config", PASSWORD), ("no.such.option", UNKNOWN)):
        entry = found[name]
        assert (entry.value, entry.is_sensitive, entry.config_type, entry.config_source) == (None, True, kind, STATIC)
        assert [(each.value, each.source) for each in entry.synonyms] == [(None, STATIC)]
    assert found["super.users"].read_only


@pytest.mark.parametrize(
    ("configs", "ms", "synonyms"),
    [
        ({}, 604_800_000, [("log.retention.hours", "168", DEFAULT)]),
        (
            {"log.retention.hours": "2"},
            7_200_000,
            [("log.retention.hours", "2", STATIC), ("log.retention.hours", "168", DEFAULT)],
        ),
        (
            {"log.retention.hours": "2", "log.retention.minutes": "3"},
            180_000,
            [
                ("log.retention.minutes", "3", STATIC),
                ("log.retention.hours", "2", STATIC),
                ("log.retention.hours", "168", DEFAULT),
            ],
        ),
        ({"log.retention.hours": "-1"}, -1, None),
        ({"log.retention.ms": "5", "log.retention.hours": "2"}, 5, None),
    ],
)
def test_coarser_options_hold_where_the_finer_one_is_not_set(
    configs: dict[str, str], ms: int, synonyms: list[tuple[str, str, int]] | None
) -> None:
    state = ClusterState(configs=configs)
    topic = state.topics.create("t")
    assert state.topic_config(topic, "retention.ms") == str(ms)
    entry = described(state, 2, "t")["retention.ms"]
    assert entry.value == str(ms)
    if synonyms is not None:
        assert [(each.name, each.value, each.source) for each in entry.synonyms] == synonyms
    of_broker = described(state)["log.retention.ms"].value
    assert of_broker == (configs.get("log.retention.ms"))


def test_an_option_that_is_not_heeded_is_kept_and_checked() -> None:
    state = ClusterState()
    request = protocol.IncrementalAlterConfigsRequest
    config = request.AlterableConfig

    def alter(name: str, value: str) -> int:
        resource = request.AlterConfigsResource(
            resource_type=4, resource_name="", configs=[config(name=name, config_operation=0, value=value)]
        )
        return int(ask(state, request(resources=[resource])).responses[0].error_code)

    assert alter("log.cleaner.threads", "2") == 0
    entry = described(state)["log.cleaner.threads"]
    assert (entry.value, entry.config_source) == ("2", DYNAMIC_DEFAULT)
    assert alter("log.cleaner.threads", "many") != 0
    assert alter("queued.max.requests", "5") != 0, "Kafka alters it only by a restart"
