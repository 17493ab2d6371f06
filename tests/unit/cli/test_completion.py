"""Completion in a shell, by the lines of docs/reference/cli.md: commands, options and files in bash."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a shell that finds a `kafwire` of this interpreter in the folder."""
    command = folder / "kafwire"
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom kafwire.cli import main\nmain(prog_name='kafwire')\n")
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["to"], ["topics"]),
        (["topics", ""], ["alter", "configs", "create", "delete", "describe", "list"]),
        (["topics", "orders", "de"], []),
        (["topics", "alter", "orders", "--config"], ["--config"]),
        (["groups", "reset"], ["reset-offsets"]),
        (["acls", "remove", "--ex"], ["--execute"]),
        (["produce", "--acks", "a"], ["all"]),
        (["decode", "x"], ["files"]),
        (["consume", "-F", ""], ["files"]),
        (["copy", "orders", "--to", ""], ["folders"]),
    ],
)
def test_bash_completes(tmp_path: Path, words: list[str], found: list[str]) -> None:
    line = re.search(r"^eval .*=bash_source kafwire.*$", DOCS, re.MULTILINE)
    assert line is not None
    script = """
        compopt() { case $2 in default) COMPREPLY=(files);; dirnames) COMPREPLY=(folders);; esac; }
        COMP_WORDS=(kafwire "$@") COMP_CWORD=$#
        _kafwire_completion kafwire
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    run = subprocess.run(
        ["bash", "-c", f"{line.group()}\n{script}", "bash", *words],
        env=environment_of(tmp_path),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (run.stdout.split(), run.stderr) == (found, "")


@pytest.mark.parametrize(("shell", "start"), [("zsh", "#compdef kafwire"), ("fish", "function _kafwire_completion")])
def test_other_shells_have_a_script(tmp_path: Path, shell: str, start: str) -> None:
    assert f"_KAFWIRE_COMPLETE={shell}_source kafwire" in DOCS
    environment = environment_of(tmp_path) | {"_KAFWIRE_COMPLETE": f"{shell}_source"}
    run = subprocess.run(
        ["kafwire"], env=environment, executable=tmp_path / "kafwire", capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(start)
