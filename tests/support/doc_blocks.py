"""The code blocks of README and docs: where they stand, and running one as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w/]+\.py)\n")  # the first line of a block that other blocks import, or a server loads
TIMEOUT_S = 250  # Spark takes long to start; pytest has a limit of its own
ADDRESS = "localhost:9092"  # where the documents have their broker

# Blocks with `await` outside of a function run as in `python -m asyncio`.
RUN = """
import ast, asyncio, inspect, sys
with open(sys.argv[1]) as file:
    code = compile(file.read(), sys.argv[1], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, {"__name__": "__main__"}))
else:
    exec(code, {"__name__": "__main__"})
"""


@dataclass(frozen=True)
class Block:
    """A code block; `language` is what stands behind its fence."""

    document: str
    number: int  # among the blocks of its language in the document, from 1
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, which its first line says."""
        found = FILE.match(self.text)
        return found and found[1]

    def __str__(self) -> str:
        return f"{self.document}-{self.language or 'plain'}-{self.number}"


def blocks(language: str) -> Iterator[Block]:
    """All blocks of a language, in the order in which they are read."""
    for document in DOCS:
        text = document.read_text()
        number = 0
        for found in BLOCK.finditer(text):
            if found[1] == language:
                number += 1
                line = text.count("\n", 0, found.start()) + 2
                yield Block(document.stem, number, line, language, found[2])


def write_files(document: str, folder: Path, address: str) -> None:
    """Write the blocks of a document that are files, for a broker at `address`; those that exist stay."""
    for block in blocks("python"):
        if block.document == document and block.file is not None and not (file := folder / block.file).exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text.replace(ADDRESS, address))


def environment() -> dict[str, str]:
    """The environment of a block: this tree's kafwire, from whichever folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}


def run_python(block: Block, setup: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block in an interpreter of its own, after `setup`, with warnings as errors; tests by pytest."""
    file = folder / f"{block}.py"
    file.write_text(setup + block.text)
    command = [sys.executable, "-W", "error", "-c", RUN, str(file)]
    if re.search(r"^def test_", block.text, re.MULTILINE):
        plugins = ["-p", "kafwire.testing.pytest_plugin", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugins, str(file)]
    if re.search(r"^if __name__", block.text, re.MULTILINE):  # processes it starts import it as a file
        command = [sys.executable, "-W", "error", str(file)]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
