"""The commands of docs/guide/porting/kcat.md: what kcat and kafwire print for them, and leave on a broker.

`tests/data/kcat.json` has what kcat prints, so that its side is known where it is not installed.
`python -m tests.support.kcat_commands` writes it, with the installed kcat.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import kafwire
from tests.support.doc_blocks import ADDRESS, ROOT, blocks
from tests.support.doc_names import rows, spans
from tests.support.ported_programs import PAGES, outcome, staged, transactions_end

RECORDED = ROOT / "tests" / "data" / "kcat.json"
PAGE = (PAGES / "kcat.md").read_text()
COMMANDS = [
    (theirs, ours)
    for theirs, ours in (
        [*spans(before), *spans(after)]
        for before, after in rows(PAGE.partition("\n## Commands")[2].partition("\n## ")[0])
        if "`" in before
    )
]
BEFORE, AFTER = [block.text for block in blocks("sh") if block.document == "kcat"]
TIMEOUT_S = 60


def prepared(folder: Path, address: str) -> dict[str, str]:
    """The files that the commands name, and an environment with `kafwire`; returns the environment."""
    program = folder / "bin" / "kafwire"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -W error -m kafwire "$@"\n')
    program.chmod(0o755)
    (folder / "bills.txt").write_text("lamp\nchair\n")
    (folder / "front.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "client.properties").write_text(f"bootstrap.servers={address}\nauto.offset.reset=earliest\n")
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8", "HOME": str(folder)}


def run(commands: Iterable[str], folder: Path) -> dict[str, Any]:
    """Run commands on one broker; returns what each printed, and what they left there.

    Commands that write run first, one after the other; then all others, some at the same time.
    """
    with ExitStack() as with_:
        kafka = staged(with_)
        environment = prepared(folder, kafka.bootstrap)

        def run_one(command: str) -> tuple[str, list[str]]:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command.replace(ADDRESS, kafka.bootstrap)],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="backslashreplace",
                timeout=TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
            return command, sorted(done.stdout.replace(kafka.bootstrap, "BROKER").splitlines())

        given = list(commands)
        writing = [command for command in given if re.search("kcat -P|kafwire produce", command)]
        printed = dict(map(run_one, writing))
        with kafwire.Client(kafka.bootstrap) as client:
            transactions_end(client)
        with ThreadPoolExecutor(4) as pool:
            printed |= dict(pool.map(run_one, [command for command in given if command not in writing]))
        left = outcome(kafka)
        return {"printed": printed, "records": plain(left["records"]), "committed": plain(left["committed"])}


def plain(value: Any) -> Any:
    """A value as JSON has it: keys as text, bytes escaped."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else repr(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return repr(value) if isinstance(value, bytes) else value


def kcat_version() -> str:
    """The first line of kcat's version, or nothing where it is not installed."""
    if shutil.which("kcat") is None:
        return ""
    done = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True)
    return "".join(re.findall(r"Version ([\d.]+)", done.stdout))


def of_kcat(folder: Path) -> dict[str, Any]:
    """The output of the installed kcat, in the form of the recorded file."""
    (folder / "commands").mkdir()
    (folder / "script").mkdir()
    usage = subprocess.run(["kcat", "-h"], capture_output=True, text=True, check=False)
    return {
        "version": kcat_version(),
        "options": sorted(set(re.findall(r"(?<![\w-])-[A-Za-z](?=[ ,\n])", usage.stdout + usage.stderr))),
        "commands": run([theirs for theirs, _ in COMMANDS], folder / "commands"),
        "script": run([BEFORE], folder / "script"),
    }


def main() -> None:
    """Record what kcat does."""
    with tempfile.TemporaryDirectory() as folder:
        RECORDED.write_text(f"{json.dumps(of_kcat(Path(folder)), indent=1)}\n")


if __name__ == "__main__":
    main()
