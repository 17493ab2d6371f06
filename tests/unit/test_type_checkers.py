"""Type checkers and public names: each is known, a misspelt one is an error, and so is one of a class."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from scripts.tree import ROOT
from tests.support.public_names import MODULES

PUBLIC = (*MODULES, "kafwire.config.typed_options", "kafwire.protocol")
# These take the checkers seconds, with what they import.
SLOW = {"kafwire.protocol", "kafwire.spark", *(name for name in PUBLIC if name.startswith("kafwire.testing"))}
RUNS = [
    pytest.param(tuple(name for name in PUBLIC if name not in SLOW), id="most"),
    pytest.param(PUBLIC, id="all", marks=pytest.mark.long),
]
MANY = 100  # a module with more names, such as that of Kafka's messages, has some of them tried


def misspelt(name: str, names: list[str]) -> str:
    """The name with two letters in the wrong order, from the end on."""
    for i in range(len(name) - 2, -1, -1):
        wrong = name[:i] + name[i + 1] + name[i] + name[i + 2 :]
        if wrong not in names and wrong != name:
            return wrong
    raise AssertionError(f"{name} has no misspelling")


@dataclass(frozen=True)
class Program:
    """A file, its lines, and whether each is right."""

    path: Path
    lines: list[tuple[str, bool]]

    def check(self, reported: set[int], printed: str) -> None:
        """Compare the lines with errors with those that are wrong."""
        assert reported, printed
        wrong = {number for number, (_, is_right) in enumerate(self.lines, 1) if not is_right}
        assert [self.lines[number - 1][0] for number in sorted(wrong - reported)] == [], "passes"
        assert [self.lines[number - 1][0] for number in sorted(reported - wrong)] == [], printed


UNTYPED_BASE = {"TopicDataset"}  # a subclass of pyarrow's, which has no types


def lines_of(modules: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    """Uses of the public names of these modules, right and wrong."""
    for module in modules:
        yield f"import {module}", True
    yield "def use(value: object) -> None: ...", True
    for number, module in enumerate(modules):
        names: list[str] = import_module(module).__all__
        for name in names[:: 1 + len(names) // MANY]:
            wrong = misspelt(name, names)
            yield f"use({module}.{name})", True
            yield f"use({module}.{wrong})", False
            if inspect.isclass(getattr(import_module(module), name)) and name not in UNTYPED_BASE:
                yield f"use({module}.{name}.no_such_name)", False
        yield f"from {module} import {names[-1]} as right_{number}", True
        yield f"from {module} import {misspelt(names[-1], names)} as wrong_{number}", False
    yield from [
        ("def on_delivery(delivery: kafwire.Delivery) -> None:", True),
        ("    use((delivery.result().offset, delivery.exception(), delivery.done()))", True),
        ("    use(delivery.reslut())", False),
        ("def on_batch(delivery: kafwire.BatchDelivery) -> None:", True),
        ("    use(delivery.result()[0][3] + len(delivery))", True),
        ("    use(delivery.metadata)", False),
        ("async def on_async(one: kafwire.AsyncDelivery, rows: kafwire.AsyncBatchDelivery) -> None:", True),
        ("    use(((await one).offset, (await rows)[0][3]))", True),
        ("    use((await one).ofset)", False),
        ("with kafwire.Producer('localhost:9092') as producer:", True),
        ("    producer.send('t', b'v').add_done_callback(on_delivery)", True),
        ("    producer.send('t', b'v').add_done_callback(on_batch)", False),
        ("    producer.nonsense()", False),
        ("try:", True),
        ("    pass", True),
        ("except kafwire.KafkaErorr:", False),
        ("    pass", True),
    ]


@pytest.fixture(scope="module", params=RUNS)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("typing") / "names.py"
    lines = list(lines_of(request.param))
    path.write_text("".join(f"{line}\n" for line, _ in lines))
    return Program(path, lines)


def run(*command: str, folder: Path) -> str:
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 1, done.stderr + done.stdout
    return done.stdout


def test_mypy_reports_every_misspelt_name_and_no_other(program: Program) -> None:
    pytest.importorskip("mypy")
    options = ["--config-file=", "--strict", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir=cache"]
    printed = run("mypy", *options, program.path.name, folder=program.path.parent)
    found = re.findall(rf"^{program.path.name}:(\d+): error", printed, re.MULTILINE)
    program.check({int(number) for number in found}, printed)


def test_pyright_reports_every_misspelt_name_and_no_other(program: Program) -> None:
    pytest.importorskip("basedpyright")
    settings = {"include": [program.path.name], "typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    (program.path.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    printed = run("basedpyright", "--outputjson", "--pythonpath", sys.executable, folder=program.path.parent)
    found = [each for each in json.loads(printed)["generalDiagnostics"] if each["severity"] == "error"]
    program.check({each["range"]["start"]["line"] + 1 for each in found}, printed)


def module_level(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """The functions of a module that type checkers see."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) != "not TYPE_CHECKING":
            yield from module_level(node.body + node.orelse)


def test_no_module_shows_type_checkers_its_getattr() -> None:
    """A checker would take every name of the module for what `__getattr__` returns."""
    shown = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "kafwire").rglob("*.py")
        for function in module_level(ast.parse(path.read_text()).body)
        if function.name == "__getattr__"
    }
    assert shown == set(), "write it below `if not TYPE_CHECKING`"
