"""Runs of `kafwire copy` that begin in milliseconds: a process with all imports forks each, and can kill it at a step.

A program: it reads a line of JSON from its input, a list of `[words, step, steps]`, runs these at the same time, and
writes a line `[[code, output, errors], ...]`. It runs no thread, so a child is as a new process would be.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from tests.support.deadlines import PATIENCE_S

ROOT = Path(__file__).parents[2]
PRELOADED = (
    *("kafwire.cli", "kafwire.cli.copy", "kafwire.lake.iceberg_copy", "kafwire.lake.iceberg_tables"),
    *("kafwire.lake.parquet_copy", "kafwire.lake.topic_copy", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"),
)
# The steps of each target: before and after each of them a run can end.
STEPS = {
    "folder": (
        *("pyarrow.parquet:ParquetWriter.__init__", "pyarrow.parquet:ParquetWriter.write_table"),
        *("pyarrow.parquet:ParquetWriter.close", "os:fsync", "pathlib:Path.rename", "pathlib:Path.unlink"),
        "pathlib:Path.mkdir",
    ),
    "iceberg": (
        *("pyiceberg.catalog.sql:SqlCatalog.create_table", "pyarrow.parquet:ParquetWriter.write"),
        *("pyarrow.parquet:ParquetWriter.close", "pyiceberg.table.update.snapshot:write_manifest_list"),
        *("pyiceberg.catalog.sql:SqlCatalog.commit_table", "sqlalchemy.orm:Session.commit"),
    ),
    "topic": (
        *("kafwire:Client.create_topic", "kafwire:Producer.init_transactions", "kafwire:Producer.begin_transaction"),
        *("kafwire:Producer.send_batch", "kafwire:Producer.send", "kafwire:Producer.commit_transaction"),
    ),
}
Ran = tuple[int, str, str]


class Copies:
    """The program, from outside. Folders of copies are in `home`, and so is a catalog with the namespace `lake`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._properties = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}"}
        self.catalog.create_namespace("lake")
        environment = {f"PYICEBERG_CATALOG__MAIN__{name.upper()}": value for name, value in self._properties.items()}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.support.copy_zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | environment | {"PYTHONPATH": str(ROOT)},
        )

    @property
    def catalog(self) -> Catalog:
        """The catalog, as it is now."""
        return load_catalog("main", **self._properties)

    def run(self, *calls: tuple[Sequence[str], int, str]) -> list[Ran]:
        """Run the command with each of these words at the same time; end it at a step of a target, if not 0."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(calls) + "\n")
        self._process.stdin.flush()
        return [(code, output, errors) for code, output, errors in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        """End the program."""
        self._process.communicate(timeout=PATIENCE_S)


def _end_at(step: int, steps: Sequence[str]) -> None:
    left = [step]
    for each in steps:
        module, _, path = each.partition(":")
        owner: Any = importlib.import_module(module)
        *inner, name = path.split(".")
        for part in inner:
            owner = getattr(owner, part)
        setattr(owner, name, _stepped(getattr(owner, name), left))


def _stepped(whole: Any, left: list[int]) -> Any:
    def count() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def call(*arguments: Any, **options: Any) -> Any:
        count()
        result = whole(*arguments, **options)
        count()
        return result

    return call


def _child(words: Sequence[str], step: int, target: str) -> None:
    if step:
        _end_at(step, STEPS[target])
    from kafwire.cli import main

    sys.argv = ["kafwire", "copy", *words]
    main()


def _started(call: Any) -> tuple[int, int, int]:
    output, errors = os.memfd_create("output"), os.memfd_create("errors")
    pid = os.fork()
    if pid:
        return pid, output, errors
    code = 70
    try:
        os.dup2(output, 1)
        os.dup2(errors, 2)
        _child(*call)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 70
    except BaseException as error:  # a traceback of the command is one of the test
        os.write(2, f"Traceback of {error!r}".encode())
    finally:
        sys.stdout.flush()
        os._exit(code)


def _text(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


def _serve() -> None:
    for module in PRELOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        ran = []
        for pid, output, errors in [_started(call) for call in json.loads(line)]:
            _, status = os.waitpid(pid, 0)
            ran.append((os.waitstatus_to_exitcode(status), _text(output), _text(errors)))
        sys.stdout.write(json.dumps(ran) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
