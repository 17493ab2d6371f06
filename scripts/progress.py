"""Shows the steps of long commands, with their time.

    python scripts/progress.py "install packages" -- pip install numpy

A terminal shows one line, which counts the seconds. Elsewhere (logs of CI, pipes) a step that lasts prints a line now
and then. At its end each step is one line. The output of a command is its latest line meanwhile, and is printed if the
command fails. This file needs nothing but Python's standard library: `make` runs it before anything is installed.
"""

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

TERMINAL_S = 0.2  # between two pictures of the line
FIRST_S, NEXT_S = 5.0, 15.0  # elsewhere: until the first line, and between two


class Step:
    """A step that runs: its title, and a text about its state."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._text = ""
        self._look: Callable[[], str] | None = None

    def __call__(self, text: str) -> None:
        """Show `text` beside the title from now on."""
        self._text, self._look = text, None

    def follow(self, look: Callable[[], str]) -> None:
        """Show the result of `look()` beside the title at each moment. It must not raise."""
        self._look = look

    def line(self, seconds: float) -> str:
        """The line of this moment."""
        text = self._text if self._look is None else self._look()
        return f"{seconds:7.2f} s  {self.title}{f': {text}' if text else ''}"


def is_terminal(out: TextIO) -> bool:
    """True if a line can be drawn again there. Parallel steps of make would draw over each other."""
    is_parallel = "--jobserver" in os.environ.get("MAKEFLAGS", "")
    return out.isatty() and os.environ.get("TERM") != "dumb" and not is_parallel


@contextmanager
def step(title: str, out: TextIO | None = None) -> Iterator[Step]:
    """Show a step for as long as the block runs, and its line at the end; an error leaves a line, too."""
    running, began, ended = Step(title), time.monotonic(), threading.Event()
    out = sys.stdout if out is None else out
    show = _draw if is_terminal(out) else _log
    shower = threading.Thread(target=show, args=(running, began, ended, out), daemon=True)
    shower.start()
    failed = " (failed)"
    try:
        yield running
        failed = ""
    finally:
        ended.set()
        shower.join()
        print(f"{running.line(time.monotonic() - began)}{failed}", file=out, flush=True)


def _draw(running: Step, began: float, ended: threading.Event, out: TextIO) -> None:
    while not ended.wait(TERMINAL_S):
        line = running.line(time.monotonic() - began)
        print(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K", end="", file=out, flush=True)
    print("\r\x1b[K", end="", file=out, flush=True)


def _log(running: Step, began: float, ended: threading.Event, out: TextIO) -> None:
    wait_s = FIRST_S
    while not ended.wait(wait_s):
        print(f"{running.line(time.monotonic() - began)} ...", file=out, flush=True)
        wait_s = NEXT_S


def run(title: str, command: Sequence[str]) -> int:
    """Run a command as a step; returns its exit code, and prints its output if that is not 0.

    Standard input is empty: a prompt without a line end, such as pip's for a password, would wait unseen.
    """
    lines: list[str] = []
    pipe, empty = subprocess.PIPE, subprocess.DEVNULL
    with step(title) as running:
        with subprocess.Popen(
            command, stdin=empty, stdout=pipe, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                running(line.strip())
        running("" if process.returncode == 0 else f"exit code {process.returncode}")
    if process.returncode:
        print(f"$ {shlex.join(command)}", *lines, sep="\n", file=sys.stderr)
    return process.returncode


def main(arguments: Sequence[str]) -> int:
    """`TITLE -- COMMAND`."""
    if len(arguments) < 3 or arguments[1] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    title, _, *command = arguments
    try:
        return run(title, command)
    except FileNotFoundError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
