"""`kafwire topics configs` and `kafwire topics alter` on an embedded broker, and the notes of their plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire.admin import ConfigResource, NewTopic
from kafwire.cli import main
from kafwire.cli.topic_configs import note_of
from kafwire.testing import EmbeddedKafka

ORDERS = ConfigResource.topic("orders")
OWN = "DYNAMIC_TOPIC_CONFIG"
ONLY_PLAN = "records could be lost: this is only the plan: add --execute to apply it"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        with kafwire.Admin(running.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", config={"retention.ms": "5000"}), "payments"])
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    first, *rest = arguments
    return CliRunner().invoke(main, ["topics", first, "-b", kafka.bootstrap, *rest])


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def own(kafka: EmbeddedKafka) -> dict[str, str | None]:
    """The options that are set for the topic."""
    with kafwire.Admin(kafka.bootstrap) as admin:
        found = admin.describe_configs([ORDERS])[ORDERS]
    return {name: entry.value for name, entry in found.items() if entry.source == OWN}


def partitions(kafka: EmbeddedKafka) -> int:
    with kafwire.Admin(kafka.bootstrap) as admin:
        return len(admin.describe_topics(["orders"])["orders"].partitions)


def test_options_of_topics_are_shown(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "configs", "orders", "payments")
    assert result.exit_code == 0
    assert lines(result) == [["TOPIC", "OPTION", "VALUE", "SOURCE"], ["orders", "retention.ms", "5000", OWN]]
    every = lines(run(kafka, "configs", "payments", "--all"))[1:]
    assert ["payments", "cleanup.policy", "delete", "DEFAULT_CONFIG"] in every
    assert [row[1] for row in every] == sorted(row[1] for row in every)


def test_options_are_shown_as_json(kafka: EmbeddedKafka) -> None:
    found = [json.loads(line) for line in run(kafka, "configs", "orders", "-J").stdout.splitlines()]
    assert found == [{"topic": "orders", "option": "retention.ms", "value": "5000", "source": OWN}]


def test_a_topic_that_does_not_exist_hides_no_other(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "configs", "missing", "orders")
    assert result.exit_code == 1
    assert lines(result)[1:] == [["orders", "retention.ms", "5000", OWN]]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in result.stderr


def test_harmless_changes_are_made_at_once(kafka: EmbeddedKafka) -> None:
    result = run(
        kafka, "alter", "orders", "--config", "retention.ms=9000", "--config", "segment.ms=7", "--partitions", "3"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines(result)[1:] == [
        ["orders", "retention.ms", "5000", "9000"],
        ["orders", "segment.ms", "604800000", "7"],
        ["orders", "partitions", "1", "3"],
    ]
    assert own(kafka) == {"retention.ms": "9000", "segment.ms": "7"}
    assert partitions(kafka) == 3
    assert run(kafka, "alter", "orders", "--delete-config", "segment.ms").exit_code == 0
    assert own(kafka) == {"retention.ms": "9000"}


def test_a_change_that_may_lose_records_is_only_planned(kafka: EmbeddedKafka) -> None:
    change = "alter", "orders", "--config", "retention.ms=1000", "--config", "segment.ms=7", "--partitions", "3"
    result = run(kafka, *change)
    assert result.exit_code == 0
    assert ONLY_PLAN in result.stderr
    assert ["orders", "retention.ms", "5000", "1000", "deletes", "more", "records"] in lines(result)
    assert (own(kafka), partitions(kafka)) == ({"retention.ms": "5000"}, 1), "nothing of it is made"
    result = run(kafka, *change, "--execute")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (own(kafka), partitions(kafka)) == ({"retention.ms": "1000", "segment.ms": "7"}, 3)


def test_a_dry_run_changes_nothing(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "alter", "orders", "--config", "segment.ms=7", "--dry-run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines(result)[1:] == [["orders", "segment.ms", "604800000", "7"]]
    assert own(kafka) == {"retention.ms": "5000"}


def test_lists_grow_and_shrink(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "alter", "orders", "--append", "cleanup.policy=compact", "-J")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {
            "topic": "orders",
            "option": "cleanup.policy",
            "from": "delete",
            "to": "delete,compact",
            "note": "deletes all but the last record of each key",
        }
    ]
    assert ONLY_PLAN in result.stderr
    assert run(kafka, "alter", "orders", "--append", "cleanup.policy=compact", "--execute").exit_code == 0
    assert own(kafka)["cleanup.policy"] == "delete,compact"
    assert run(kafka, "alter", "orders", "--subtract", "cleanup.policy=delete").stderr == ""
    assert own(kafka)["cleanup.policy"] == "compact"


def test_the_default_is_part_of_the_plan(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "alter", "orders", "--delete-config", "retention.ms")
    assert lines(result)[1:] == [["orders", "retention.ms", "5000", "604800000"]]
    assert own(kafka) == {}
    result = run(kafka, "alter", "orders", "--delete-config", "segment.ms")
    assert lines(result)[1:] == [["orders", "segment.ms", "604800000", "604800000"]]


def test_a_refused_change_is_an_error_in_the_plan_too(kafka: EmbeddedKafka) -> None:
    for more in ((), ("--dry-run",), ("--execute",)):
        result = run(kafka, "alter", "orders", "missing", "--config", "retention.ms=soon", *more)
        assert result.exit_code == 1
        assert "INVALID_CONFIG" in result.stderr
        assert "UNKNOWN_TOPIC_OR_PARTITION" in result.stderr
    result = run(kafka, "alter", "orders", "--partitions", "1")
    assert (result.exit_code, "INVALID_PARTITIONS" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "no change is given"),
        (("--config", "retention.ms"), "--config retention.ms: it must be NAME=VALUE"),
        (("--append", "cleanup.policy"), "--append cleanup.policy: it must be NAME=VALUE"),
        (("--delete-config", ""), "the name of an option is empty"),
        (("--config", "a=1", "--delete-config", "a"), "a: give one change of each option"),
        (("--config", "a=1", "--execute", "--dry-run"), "give either --execute or --dry-run"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], reason: str) -> None:
    result = CliRunner().invoke(main, ["topics", "alter", "orders", "-b", "nowhere:1", *arguments])
    assert result.exit_code == 2
    assert reason in result.stderr


LOSS: list[tuple[str, Any, Any, str]] = [
    ("retention.ms", "5000", "4999", "deletes more records"),
    ("retention.ms", "5000", "-1", ""),
    ("retention.ms", "-1", "5000", "deletes more records"),
    ("retention.bytes", "5", None, "deletes more records"),
    ("cleanup.policy", "delete", "compact", "deletes all but the last record of each key"),
    ("cleanup.policy", "compact", "compact,delete", "deletes old records"),
    ("cleanup.policy", "compact, delete", "delete,compact", ""),
    ("min.insync.replicas", "2", "1", "acknowledged records are on fewer replicas"),
    ("min.insync.replicas", "1", "2", ""),
    ("unclean.leader.election.enable", "false", "true", "an election may lose records"),
    ("unclean.leader.election.enable", "true", "false", ""),
    ("remote.storage.enable", "true", "false", "records in remote storage may be deleted"),
    ("remote.storage.enable", "false", "true", ""),
    ("segment.ms", "5", "1", ""),
]


@pytest.mark.parametrize(("name", "old", "new", "note"), LOSS)
def test_a_plan_notes_how_records_could_be_lost(name: str, old: Any, new: Any, note: str) -> None:
    assert note_of(name, old, new) == note
    assert note_of(name, old, old) == ""
