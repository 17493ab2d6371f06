"""`kafka_tools`: stand-ins for Kafka's scripts, against an embedded broker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kafwire.broker.security.acls import Acl
from kafwire.testing import EmbeddedKafka
from scripts.foreign_suites.kafka_tools import bindings, main, read_options, write_tools


@pytest.mark.parametrize(
    ("words", "acls"),
    [
        (
            "--add --allow-principal User:test --operation Describe --operation Read --topic a",
            [Acl("User:test", "Describe", "Topic", "a"), Acl("User:test", "Read", "Topic", "a")],
        ),
        (
            "--add --deny-principal User:* --deny-host 10.0.0.1 --transactional-id t",
            [Acl("User:*", "All", "TransactionalId", "t", permission="Deny", host="10.0.0.1")],
        ),
        (
            "--allow-principal User:test --topic a --group g --consumer",
            [
                Acl("User:test", "Read", "Topic", "a"),
                Acl("User:test", "Describe", "Topic", "a"),
                Acl("User:test", "Read", "Group", "g"),
            ],
        ),
        (
            "--deny-principal User:test --operation Create --cluster",
            [Acl("User:test", "Create", "Cluster", permission="Deny")],
        ),
        ("--list", []),
    ],
)
def test_options_name_acls(words: str, acls: list[Acl]) -> None:
    assert list(bindings(read_options(words.split()))) == acls


def test_topics_and_acls_of_a_broker_change() -> None:
    with EmbeddedKafka(acls=[], configs={"super.users": "User:ANONYMOUS"}) as kafka:

        def run(text: str) -> int:
            tool, *words = text.split()
            return main([tool, "--bootstrap-server", kafka.bootstrap, *words])

        created = "kafka-topics.sh --create --topic a --partitions 2 --replication-factor 1 --config retention.ms=5"
        assert run(created) == 0
        assert run("kafka-topics.sh --alter --topic a --partitions 3") == 0
        topic = kafka.ask(lambda state: state.topics.by_name["a"])
        assert len(topic.partitions) == 3
        assert topic.configs["retention.ms"] == "5"
        assert run(created) == 1
        assert run("kafka-topics.sh --alter --topic a --partitions 2") == 1
        acl = "--force --deny-principal User:* --operation Read --topic a"
        assert run(f"kafka-acls.sh --add {acl}") == 0
        assert kafka.ask(lambda state: state.authorizer.all()) == [
            Acl("User:*", "Read", "Topic", "a", permission="Deny")
        ]
        assert run(f"kafka-acls.sh --remove {acl}") == 0
        assert kafka.ask(lambda state: state.authorizer.all()) == []
        assert run("kafka-topics.sh --delete --topic a") == 0
        assert "a" not in kafka.ask(lambda state: set(state.topics.by_name))


def test_a_tool_is_a_command_whose_exit_code_says_if_it_worked(tmp_path: Path) -> None:
    tool = write_tools(tmp_path / "kafka") / "bin/kafka-topics.sh"
    with EmbeddedKafka() as kafka:
        command = [str(tool), "--bootstrap-server", kafka.bootstrap, "--delete", "--topic", "no such topic"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "kafka-topics.sh: UNKNOWN_TOPIC_OR_PARTITION" in done.stderr
    assert "Traceback" not in done.stderr
