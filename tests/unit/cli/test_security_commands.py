"""`kafwire acls`, `quotas` and `users` on an embedded broker: lists, changes, and plans of removals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire import protocol
from kafwire.broker.security.credentials import Credentials, ScramCredential, credential_from_salted
from kafwire.broker.state import ClusterState
from kafwire.cli import main
from kafwire.secret import Secret
from kafwire.security.scram_passwords import salted_password
from kafwire.testing import EmbeddedKafka

PLAN = "this is only the plan: add --execute to apply it"


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(acls=(), configs={"super.users": "User:ANONYMOUS"}) as running:
        yield running


def run(kafka: EmbeddedKafka, words: str, **more: Any) -> Result:
    group, command, *rest = words.split()
    return CliRunner().invoke(main, [group, command, "-b", kafka.bootstrap, *rest], **more)


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.stdout.splitlines()][1:]


def test_rules_are_added_listed_and_removed(kafka: EmbeddedKafka) -> None:
    added = run(kafka, "acls add --resource topic:orders --principal User:alice --operation read --operation WRITE")
    both = [["Topic", "orders", "Literal", "User:alice", "*", name, "Allow"] for name in ("Read", "Write")]
    assert rows(added) == both
    prefix = ["Topic", "ord", "Prefixed", "User:bob", "10.0.0.1", "All", "Deny"]
    more = "--pattern prefixed --principal User:bob --operation All --deny --host 10.0.0.1"
    assert rows(run(kafka, f"acls add --resource Topic:ord {more}")) == [prefix]
    assert rows(run(kafka, "acls list")) == [prefix, *both]
    assert rows(run(kafka, "acls list --deny")) == [prefix]
    assert rows(run(kafka, "acls list --resource Topic:orders --pattern match --operation All")) == [prefix]
    plan = run(kafka, "acls remove --principal User:alice --operation Read")
    assert (rows(plan), PLAN in plan.stderr) == (both[:1], True)
    assert len(rows(run(kafka, "acls list"))) == 3
    done = run(kafka, "acls remove --principal User:alice --operation Read --execute")
    assert (rows(done), done.stderr) == (both[:1], "")
    assert rows(run(kafka, "acls list")) == [prefix, both[1]]
    none = run(kafka, "acls remove --principal User:carol --execute")
    assert (none.exit_code, none.stderr) == (1, "kafwire acls remove: no rule matches\n")


def test_rules_as_json(kafka: EmbeddedKafka) -> None:
    added = run(kafka, "acls add --resource Cluster:kafka-cluster --principal User:alice --operation Alter -J")
    assert json.loads(added.stdout) == {
        "resourceType": "Cluster",
        "resource": "kafka-cluster",
        "patternType": "Literal",
        "principal": "User:alice",
        "host": "*",
        "operation": "Alter",
        "permission": "Allow",
    }


def test_quotas_are_set_listed_and_removed(kafka: EmbeddedKafka) -> None:
    set_one = run(kafka, "quotas set --user alice producer_byte_rate=1000 request_percentage=0.5")
    alices = [["alice", "producer_byte_rate", "1000"], ["alice", "request_percentage", "0.5"]]
    assert rows(set_one) == alices
    both = run(kafka, "quotas set --default user --client-id app consumer_byte_rate=5 -J")
    assert json.loads(both.stdout) == {
        "user": "<default>",
        "clientId": "app",
        "quota": "consumer_byte_rate",
        "limit": 5,
    }
    assert rows(run(kafka, "quotas list --user alice")) == alices
    assert rows(run(kafka, "quotas list --any user --strict")) == alices
    assert rows(run(kafka, "quotas list --default user")) == [["<default>", "app", "consumer_byte_rate", "5"]]
    plan = run(kafka, "quotas remove --user alice request_percentage")
    assert (rows(plan), PLAN in plan.stderr) == (alices[1:], True)
    assert rows(run(kafka, "quotas list --user alice")) == alices
    assert rows(run(kafka, "quotas remove --user alice request_percentage --execute")) == alices[1:]
    assert rows(run(kafka, "quotas list --user alice")) == alices[:1]
    missing = run(kafka, "quotas remove --user alice request_percentage --execute")
    assert (missing.exit_code, "user 'alice' has no quota 'request_percentage'" in missing.stderr) == (1, True)
    assert rows(run(kafka, "quotas remove --user alice --execute")) == alices[:1]
    assert run(kafka, "quotas remove --user alice --execute").exit_code == 1


def test_quotas_that_are_no_finite_numbers_are_listed(kafka: EmbeddedKafka) -> None:
    """Other clients may set them."""
    request: Any = protocol.AlterClientQuotasRequest
    entry = request.EntryData(
        entity=[request.EntityData(entity_type="user", entity_name="alice")],
        ops=[request.OpData(key="request_percentage", value=float("inf"))],
    )
    with kafwire.Client(kafka.bootstrap) as client:
        client.call(request(entries=[entry]))
    assert rows(run(kafka, "quotas list")) == [["alice", "request_percentage", "inf"]]
    assert json.loads(run(kafka, "quotas list -J").stdout)["limit"] == "inf"


def test_passwords_are_set_and_removed(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    asked = run(kafka, "users set alice", input="canary\ncanary\n")
    assert rows(asked)[-1] == ["alice", "SCRAM-SHA-512", "4096"]
    assert "canary" not in asked.output
    file = tmp_path / "password"
    file.write_bytes(b"canary\r\nmore\r\n")
    sha_256 = run(kafka, f"users set alice --mechanism SCRAM-SHA-256 --iterations 5000 --password-file {file} -J")
    assert json.loads(sha_256.stdout) == {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 5000}
    piped = run(kafka, "users set bob --password-file -", input="canary\n")
    assert rows(piped) == [["bob", "SCRAM-SHA-512", "4096"]]

    def stored(state: ClusterState) -> dict[tuple[str, str], ScramCredential]:
        return dict(state.part(Credentials).scram)

    known = kafka.ask(stored)
    assert known["SCRAM-SHA-256", "alice"].iterations == 5000
    for (mechanism, _), each in known.items():
        salted = salted_password(mechanism, Secret("canary"), each.salt, each.iterations)
        assert credential_from_salted(mechanism, each.salt, salted, each.iterations) == each
    assert rows(run(kafka, "users list bob")) == [["bob", "SCRAM-SHA-512", "4096"]]
    unknown = run(kafka, "users list bob carol")
    assert (unknown.exit_code, "RESOURCE_NOT_FOUND" in unknown.stderr, "'carol'" in unknown.stderr) == (1, True, True)
    plan = run(kafka, "users remove alice --mechanism SCRAM-SHA-256")
    assert (rows(plan), PLAN in plan.stderr) == ([["alice", "SCRAM-SHA-256", "5000"]], True)
    assert len(rows(run(kafka, "users list"))) == 3
    assert len(rows(run(kafka, "users remove alice --execute"))) == 2
    assert rows(run(kafka, "users list")) == [["bob", "SCRAM-SHA-512", "4096"]]
    other = run(kafka, "users remove bob --mechanism SCRAM-SHA-256 --execute")
    assert (other.exit_code, "bob has no credential of SCRAM-SHA-256" in other.stderr) == (1, True)


def test_a_password_that_is_not_utf_8_is_refused_without_showing_it(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"canary\xe9\n")
    for given, piped in ((file, None), ("-", b"canary\xe9\n")):
        result = run(kafka, f"users set alice --password-file {given}", input=piped)
        assert (result.exit_code, "canary" in result.output) == (1, False)
        assert result.stderr.endswith(f"{given}: the password is not UTF-8 text\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("acls add --principal User:a --operation Read", "--resource TYPE:NAME is missing"),
        ("acls add --resource Topic --principal User:a --operation Read", "--resource TYPE:NAME is missing"),
        ("acls remove --execute", "give an option that chooses rules"),
        ("quotas set --user alice x", "it must be QUOTA=NUMBER"),
        ("quotas set producer_byte_rate=5", "give --user, --client-id, --ip or --default"),
        ("quotas set --user a --default user producer_byte_rate=5", "--default user: another option names"),
        ("quotas remove", "give --user"),
        ("users set alice --iterations 5", "4096<=x<=16384"),
    ],
)
def test_wrong_usage(kafka: EmbeddedKafka, words: str, text: str) -> None:
    result = run(kafka, words)
    assert result.exit_code == 2, result.output
    assert text in result.stderr


def test_a_wrong_operation_is_one_line(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "acls add --resource Topic:t --principal User:a --operation Reed")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafwire: operation='Reed': it must be one of All, Read")
    assert len(result.stderr.splitlines()) == 1
