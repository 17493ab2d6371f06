"""`kafwire copy` in a process that ends before or after one of its steps, as kill -9 ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.deadlines import PATIENCE_S

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import os, signal, sys
{imports}
left = [int(sys.argv.pop(1))]
def step(owner, name):
    whole = getattr(owner, name)
    def call(*arguments, **options):
        for is_after in range(2):
            if is_after:
                result = whole(*arguments, **options)
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(owner, name, call)
for owner, name in ({steps}):
    step(owner, name)
from kafwire.cli import main
main()
"""


def copy(
    imports: str,
    steps: Iterable[str],
    words: Iterable[str],
    *,
    step: int = 0,
    prefix: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command.

    Args:
        imports: a statement that imports the owners of the steps.
        steps: the functions that are steps, as `owner.name`.
        words: the words of the command, behind `copy`.
        step: the place, counted before and after each call of a step, where the process ends; 0: it does not.
        prefix: the words of a command that starts it.
        environment: variables besides those of this process.
    """
    pairs = (each.rpartition(".") for each in steps)
    program = _PROGRAM.format(imports=imports, steps="".join(f'({owner}, "{name}"), ' for owner, _, name in pairs))
    return subprocess.run(
        [*prefix, sys.executable, "-W", "error", "-c", program, str(step), "copy", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=os.environ | (environment or {}) | {"PYTHONPATH": str(ROOT)},
    )
