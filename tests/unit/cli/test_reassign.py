"""`kafwire reassign` on an embedded broker: plans, moves that begin, lists and cancellations."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from kafwire.cli import main
from kafwire.testing import EmbeddedKafka


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(nodes=3) as running:
        running.ask(lambda state: state.topics.create("orders", 3, assignments=[[1], [1], [1]]))
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    first, *rest = arguments
    return CliRunner().invoke(main, ["reassign", first, "-b", kafka.bootstrap, *rest])


def replicas(kafka: EmbeddedKafka) -> list[list[int]]:
    return kafka.ask(lambda state: [list(each.replicas) for each in state.topics.by_name["orders"].partitions])


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_a_plan_changes_nothing(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "move", "orders", "--to", "1,2,3")
    assert result.exit_code == 0
    assert lines(result) == [
        ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
        ["orders", "1", "1", "2"],
        ["orders", "2", "1", "3"],
    ]
    assert "this is only the plan: add --execute to apply it" in result.stderr
    assert replicas(kafka) == [[1], [1], [1]]


def test_a_move_is_executed(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "move", "orders:0,2", "--to", "2,3", "--replication-factor", "2", "--execute", "-J")
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["partition"] for line in result.stdout.splitlines()] == [0, 2]
    assert [sorted(each) for each in replicas(kafka)] == [[2, 3], [1], [2, 3]]


def test_moves_are_listed_and_cancelled(kafka: EmbeddedKafka) -> None:
    kafka.stop_node(3)
    assert run(kafka, "move", "orders:0", "--to", "3", "--execute").exit_code == 0
    assert lines(run(kafka, "list"))[1:] == [["orders", "0", "3,1", "3", "1"]]
    (found,) = (json.loads(line) for line in run(kafka, "list", "-J").stdout.splitlines())
    assert found == {"topic": "orders", "partition": 0, "assigned": [3, 1], "adding": [3], "removing": [1]}
    plan = run(kafka, "cancel", "orders")
    assert lines(plan)[1:] == [["orders", "0", "3,1", "1"]]
    assert "only the plan" in plan.stderr
    assert replicas(kafka)[0] == [3, 1]
    assert run(kafka, "cancel", "orders:1,2", "--execute").exit_code == 1
    assert replicas(kafka)[0] == [3, 1]
    assert run(kafka, "cancel", "orders:0", "--execute").exit_code == 0
    assert replicas(kafka)[0] == [1]


def test_nothing_to_move_is_no_error(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "move", "orders", "--to", "1", "--execute")
    assert (result.exit_code, lines(result)) == (0, [["TOPIC", "PARTITION", "BEFORE", "AFTER"]])
    assert run(kafka, "cancel", "--execute").exit_code == 0
    result = run(kafka, "cancel", "orders")
    assert (result.exit_code, "have no reassignment in progress" in result.stderr) == (1, True)


def test_a_refused_move_is_an_error(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "move", "orders:0", "--to", "9", "--execute")
    assert result.exit_code == 1
    assert "kafwire reassign move: orders-0: INVALID_REPLICA_ASSIGNMENT" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("orders", "--to", "one"), "expected the ids of brokers"),
        (("orders", "--to", "1", "--replication-factor", "2"), "2 replicas of a partition need 2 brokers"),
        (("orders:7", "--to", "1"), "has no partition 7"),
        (("orders:x", "--to", "1"), "expected TOPIC, or TOPIC:0,3"),
        (("orders",), "--to"),
    ],
)
def test_wrong_usage(kafka: EmbeddedKafka, arguments: tuple[str, ...], text: str) -> None:
    result = run(kafka, "move", *arguments)
    assert result.exit_code == 2
    assert text in result.stderr
