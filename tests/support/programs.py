"""Python programs in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.deadlines import PATIENCE_S

_ROOT = Path(__file__).parents[2]


@contextmanager
def program(begin: str, code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs `begin` and `code`, where warnings are errors; killed if it still runs at the end."""
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", begin + textwrap.dedent(code), *arguments]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def run(begin: str, code: str, *arguments: str) -> tuple[int, str, str]:
    """(exit code, output, error output) of a program that ends by itself."""
    with program(begin, code, *arguments) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err
