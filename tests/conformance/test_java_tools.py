"""docs/reference/cli.md, Kafka's tools: the tables have each option that the tools' own help has."""

from __future__ import annotations

import re
import subprocess

import pytest

from kafwire.testing.cluster.kafka import class_path, java
from tests.support.doc_names import spans
from tests.support.kafka_tools import rows_of_tools

COMMON = {"--help", "--version", "--bootstrap-server", "--bootstrap-controller", "--command-config"}
CLASSES = {
    "kafka-acls": "AclCommand",
    "kafka-configs": "ConfigCommand",
    "kafka-reassign-partitions": "reassign.ReassignPartitionsCommand",
}


def help_of(name: str, *words: str) -> str:
    command = [java(), "-cp", class_path(), f"org.apache.kafka.tools.{name}", *words, "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return run.stdout + run.stderr


def options_in(text: str) -> set[str]:
    return set(re.findall(r"--[\w-]*\w", text)) - COMMON


@pytest.mark.parametrize("tool", CLASSES)
def test_each_option_has_a_row(tool: str) -> None:
    options = set(re.findall(r"^(--[a-z-]*[a-z])", help_of(CLASSES[tool]), re.MULTILINE)) - COMMON
    assert options == options_in(" ".join(row[0] for row in rows_of_tools()[tool]))


def test_each_option_of_transactions_has_a_row() -> None:
    table: dict[str, str] = {}
    for row in rows_of_tools()["kafka-transactions"]:
        word = spans(row[0])[0].split()[0]
        table[word] = f"{table.get(word, '')} {row[0]}"
    text = help_of("TransactionsCommand")
    assert set(re.findall(r"^ {4}([a-z][\w-]+)", text.partition("COMMAND\n")[2], re.MULTILINE)) == table.keys()
    for word, cells in table.items():
        text = help_of("TransactionsCommand", "--bootstrap-server", "127.0.0.1:1", word)
        assert options_in(" ".join(re.findall(r"^  (--\S+)", text, re.MULTILINE))) == options_in(cells), word
