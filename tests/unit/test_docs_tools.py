"""docs/reference/cli.md, Kafka's tools: each command, option and method that it names for kafwire exists."""

from __future__ import annotations

import click
import pytest

import kafwire
from kafwire.cli import main
from tests.support.doc_names import spans
from tests.support.kafka_tools import rows_of_tools

ROWS = [(tool, row) for tool, table in rows_of_tools().items() for row in table]


@pytest.mark.parametrize(("tool", "row"), ROWS, ids=[f"{tool} {row[0]}" for tool, row in ROWS])
def test_the_equals_exist(tool: str, row: list[str]) -> None:
    del tool
    command: click.Command = main
    found = 0
    for span in spans(row[1]):
        owner, _, method = span.partition(".")
        if owner == "Admin":
            assert callable(getattr(kafwire.Admin, method))
            found += 1
        elif span.startswith("kafwire "):
            _, first, *words = span.split()
            command = import_command(first, words)
            options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
            assert {word for word in words if word.startswith("-")} <= options, span
            found += 1
    assert found or row[1].startswith(("no equal", "the only behaviour"))


def import_command(first: str, words: list[str]) -> click.Command:
    """Return the subcommand that the first word, or the first two, name."""
    context = click.Context(main)
    command = main.get_command(context, first)
    assert command is not None, first
    with command.make_context(first, [words[0], "--help"], resilient_parsing=True) as made:
        if isinstance(command, click.Group):
            inner = command.get_command(made, words[0])
            assert inner is not None, words
            return inner
        assert made.command is not command, words
        return made.command
