"""Hints of the command line: each with a case in which its condition holds, and one in which it does not."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kafwire.cli import main
from kafwire.cli.diagnosis import _change_for
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaTimeoutError, broker_error


def said(*arguments: str) -> str:
    found = CliRunner().invoke(main, list(arguments), prog_name="kafwire")
    assert found.exit_code == 2
    return found.stderr


@pytest.mark.parametrize(
    ("words", "holds", "fails"),
    [
        (
            "did you mean '--offsets'?",
            ["topics t --ofsets", "topics --ofsets t"],
            ["topics t --partitions 6", "topics t --zzz"],
        ),
        (
            "'--partitions': 'kafwire topics create'",
            ["topics t --partitions 6", "topics -b h:1 t --partitions 6"],
            ["consume t --partitions 6", "topics t --zzz"],
        ),
        ("'kafwire topics delete' has it", ["topics t --yes"], ["topics t --zzz", "consume t --yes"]),
        ("kcat's modes are commands", ["-C -t t", "-b h:1 -L", "-L", "-X list"], ["--zzz", "-a", "consume -C t"]),
        ("it is 'kafwire produce'", ["consume -P t"], ["produce -P", "consume -a"]),
        ("'kafwire consume' says it", ["consume -C t"], ["produce -C -t t", "consume -a"]),
        ("it is '--timeout' here", ["consume -m 5 t", "topics -m 5"], ["groups list -m 5", "consume -a t"]),
        ("it is 'kafwire offsets'", ["topics -Q"], ["offsets -Q t", "topics -a"]),
        ("did you mean 'topics'?", ["topic"], ["xyz", "list"]),
        ("did you mean Metadata?", ["messages Metadat"], ["messages Zzz"]),
        ("'kafwire messages' lists all", ["messages Zzz"], ["messages Metadat"]),
    ],
)
def test_a_hint_stands_behind_its_condition_alone(words: str, holds: list[str], fails: list[str]) -> None:
    for line in holds:
        assert words in said(*line.split()), line
    for line in fails:
        assert words not in said(*line.split()), line


@pytest.mark.parametrize(
    "line", ["topics t --partitions 6", "consume t --pretty", "consume t --prety", "topics t --zzz"]
)
def test_an_option_is_not_guessed(line: str) -> None:
    assert "did you mean" not in said(*line.split()).lower()


def test_a_version_is_not_guessed() -> None:
    text = said("messages", "3", "--version", "99")
    assert "has no version 99, it has 0 to" in text
    assert "did you mean" not in text


@pytest.mark.parametrize("code", [code for code in ErrorCode if code])
def test_the_log_is_named_for_errors_that_brokers_log(code: ErrorCode) -> None:
    logged = {"UNKNOWN_SERVER_ERROR", "KAFKA_STORAGE_ERROR", "INVALID_REQUEST"}
    change = _change_for(broker_error(code))
    assert (change == "see the broker's log") is (code.name in logged)
    assert change.startswith("this may be temporary") is (code.retriable and code.name not in logged)
    assert ("with an ACL" in change) is code.name.endswith("AUTHORIZATION_FAILED")
    assert ("default.replication.factor" in change) is (code.name == "INVALID_REPLICATION_FACTOR")
    assert ("policy" in change) is (code.name == "POLICY_VIOLATION")


def test_an_unknown_cause_has_no_change() -> None:
    assert _change_for(KafkaTimeoutError("no response within 5 s")) == ""
    assert _change_for(TimeoutError()) == ""
