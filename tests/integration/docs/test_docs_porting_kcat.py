"""docs/guide/porting/kcat.md: each command and the script print what kcat prints, and leave what it leaves."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from kafwire.cli import main
from tests.support.doc_names import rows, spans
from tests.support.kcat_commands import AFTER, BEFORE, COMMANDS, PAGE, RECORDED, kcat_version, of_kcat, run

pytestmark = pytest.mark.timeout(300)  # thirty commands, each a process

KCAT: dict[str, Any] = json.loads(RECORDED.read_text())
OF_AVRO = {"-r"}  # of a kcat that is built with Avro, which Debian's is not


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of the right column."""
    return run([ours for _, ours in COMMANDS], tmp_path_factory.mktemp("commands"))


def shared(printed: list[str], command: str) -> Any:
    """The common output of both forms of a command: the broker that responded and the cluster are one's own."""
    if " -J" in command:
        return [json.loads(line) for line in printed]
    if re.search("kcat -Q|kafwire offsets", command):
        return printed[-1].split()[-1]
    return [re.sub(r"\((from broker .*|cluster .*)\)", "()", line) for line in printed]


def likeness(ours: Any, theirs: Any) -> Any:
    """`ours` with the keys that `theirs` has, wherever there is an object."""
    if isinstance(theirs, dict):
        return {key: likeness(ours.get(key), value) for key, value in theirs.items()}
    if isinstance(theirs, list) and len(ours) == len(theirs):
        return [likeness(one, other) for one, other in zip(ours, theirs, strict=True)]
    return ours


def without_broker(printed: Any) -> Any:
    """The objects of kcat without the broker that responded, which docs/reference/cli.md names as missing."""
    if not isinstance(printed, list):
        return printed
    return [
        {key: value for key, value in line.items() if key not in ("broker", "originating_broker")}
        if isinstance(line, dict)
        else line
        for line in printed
    ]


@pytest.mark.parametrize(("theirs", "ours"), COMMANDS)
def test_a_command_prints_the_output_of_kcat(theirs: str, ours: str, commands: dict[str, Any]) -> None:
    expected = without_broker(shared(KCAT["commands"]["printed"][theirs], theirs))
    assert likeness(shared(commands["printed"][ours], ours), expected) == expected
    if "kcat -P" not in theirs and "-o end" not in theirs:
        assert expected


def test_the_commands_leave_the_records_of_kcat(commands: dict[str, Any]) -> None:
    assert commands["records"] == KCAT["commands"]["records"]
    assert commands["committed"] == KCAT["commands"]["committed"]
    assert len(commands["records"]["bills"]) == 5
    assert commands["committed"].keys() == {"billing", "board"}


def test_both_forms_of_the_script_do_the_same(tmp_path: Path) -> None:
    done, expected = run([AFTER], tmp_path), KCAT["script"]
    assert done["printed"][AFTER] == expected["printed"][BEFORE] != []
    assert done["records"] == expected["records"]
    assert done["committed"] == expected["committed"] != {}


def test_kcat_does_as_recorded(tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("no kcat here")
    if kcat_version() != KCAT["version"]:
        pytest.skip(f"kcat {kcat_version()} here, not {KCAT['version']}")
    assert of_kcat(tmp_path) == KCAT, "python -m tests.support.kcat_commands records it"


def options_of(command: click.Command) -> set[str]:
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"-h", "--version"}


def test_each_option_and_command_of_the_tables_exists() -> None:
    modes = {name: main.get_command(click.Context(main), name) for name in main.list_commands(click.Context(main))}
    known = set.union(*(options_of(command) for command in modes.values() if command is not None))
    table = [row for row in rows(PAGE.partition("\n## Options")[2]) if "`" in row[0]]
    assert len(table) > 10
    for theirs, ours in table:
        named = {word for span in spans(theirs) for word in span.split() if word.startswith("-")}
        assert named <= {*KCAT["options"], *OF_AVRO}, theirs
        for span in spans(ours):
            assert {word for word in span.split() if re.match("-[A-Za-z-]", word)} <= known, span
            if span.startswith("kafwire "):
                assert span.split()[1] in modes, span


def test_each_option_of_kcat_is_in_the_tables() -> None:
    named = {span.split()[0] for row in rows(PAGE.partition("\n## Options")[2]) for span in spans(row[0])}
    assert set(KCAT["options"]) - named == set()
