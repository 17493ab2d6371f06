"""`kafwire cluster` on an embedded broker: brokers, features, the quorum and log directories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafwire import protocol
from kafwire.cli import main
from kafwire.testing import EmbeddedKafka


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(nodes=2) as running:
        running.create_topic("orders", partitions=2)
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    first, *rest = arguments
    return CliRunner().invoke(main, ["cluster", first, "-b", kafka.bootstrap, *rest])


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_brokers_are_shown(kafka: EmbeddedKafka) -> None:
    title, header, first, second = lines(run(kafka, "describe"))
    assert title[0] == "cluster"
    assert header == ["BROKER", "HOST", "PORT", "STATE"]
    assert (first[0], first[-1], second[0], len(second)) == ("1", "controller", "2", 3)
    kafka.stop_node(2)
    assert [each["broker"] for each in objects(run(kafka, "describe", "-J"))] == [1]
    found = objects(run(kafka, "describe", "--fenced", "-J"))
    assert [(each["broker"], each["controller"], each["fenced"]) for each in found] == [
        (1, True, False),
        (2, False, True),
    ]
    assert lines(run(kafka, "describe", "--fenced"))[-1][-1] == "fenced"


def test_features_are_shown_once_if_brokers_agree(kafka: EmbeddedKafka) -> None:
    table = {row[0]: row[1:] for row in lines(run(kafka, "features"))}
    assert table["FEATURE"] == ["FINALIZED", "SUPPORTED", "BROKERS"]
    assert table["share.version"] == ["2", "0", "to", "2", "1,2"]
    found = {each["feature"]: each for each in objects(run(kafka, "features", "-J"))}
    assert found["share.version"] == {
        "feature": "share.version",
        "finalized": 2,
        "supported": {"min": 0, "max": 2},
        "supportedBy": [1, 2],
    }


def test_brokers_that_support_other_levels_have_a_row_of_their_own(kafka: EmbeddedKafka) -> None:
    def of_two(request: Any) -> Any:
        if request.name != "ApiVersions" or request.node != 2:
            return None
        kind: Any = protocol.ApiVersionsResponse
        keys = [kind.ApiVersion(api_key=key, min_version=0, max_version=high) for key, high in ((3, 12), (18, 4))]
        return kind(
            api_keys=keys, supported_features=[kind.SupportedFeatureKey(name="new", min_version=0, max_version=1)]
        )

    kafka.ask(lambda state: state.interceptors.append(of_two))
    found = {(each["feature"], tuple(each["supportedBy"])): each for each in objects(run(kafka, "features", "-J"))}
    assert found["new", (1,)]["supported"] is None
    assert found["new", (2,)]["supported"] == {"min": 0, "max": 1}
    assert found["share.version", (1,)]["finalized"] == 2, "from the broker with the newest levels"
    assert ["new", "0", "-", "1"] in lines(run(kafka, "features"))


def test_the_quorum_is_shown(kafka: EmbeddedKafka) -> None:
    found = objects(run(kafka, "quorum", "-J"))
    assert [(each["node"], each["role"], each["lag"]) for each in found] == [(1, "leader", 0), (2, "observer", 0)]
    assert len(found[0]["endpoints"]) == 1
    title, header, leader, observer = lines(run(kafka, "quorum"))
    assert title[:2] == ["leader", "1"]
    assert header[:4] == ["NODE", "ROLE", "END", "LAG"]
    assert (leader[:2], observer[:2]) == (["1", "leader"], ["2", "observer"])


def test_log_directories_are_shown(kafka: EmbeddedKafka) -> None:
    found = objects(run(kafka, "log-dirs", "-J"))
    assert [(each["broker"], each["directory"], each["state"]) for each in found] == [
        (1, "/embedded/node-1", "online"),
        (2, "/embedded/node-2", "online"),
    ]
    assert sum(each["replicaCount"] for each in found) == 2
    assert [row[0] for row in lines(run(kafka, "log-dirs", "2"))] == ["BROKER", "2"]


def test_a_broker_that_fails_is_an_error_beside_the_others(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "log-dirs", "1", "7")
    assert result.exit_code == 1
    assert [row[0] for row in lines(result)] == ["BROKER", "1"]
    assert "kafwire cluster log-dirs: broker 7: broker 7 is not in the cluster" in result.stderr
