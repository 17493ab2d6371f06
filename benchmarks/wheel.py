"""A wheel beside this tree's own build: `python -m benchmarks.wheel WHEEL`. See README.md in this folder.

Two processes, one with each library, repeat the rows of `workers/compiled.py` in turns. A process's figure is the least
processor time of a repeat, so other work on the machine moves it little. The addresses of its memory move it too: by
some hundredths in most processes, by a fifth in a rare one. So a row has several pairs of processes, one below the
limit has more of them, and the row is slower only if both the least figures and the medians of all processes say so:
a rare fast process changes the former, two equally common kinds of processes change the latter.
"""

import argparse
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.base_tree import BaseTreeError, check_library, link_sides
from benchmarks.measure import ENVIRONMENT, ROOT
from benchmarks.ratios import LEAST
from benchmarks.run import BUILD
from benchmarks.workers.compiled import ROWS

PAIRS, MOST_PAIRS, TURNS = 2, 8, 6
SLICE_S = 0.02
Measure = Callable[[str], float]
Open = Callable[[], AbstractContextManager[Measure]]


@dataclass(slots=True)
class Figures:
    """The least seconds of a repeat of one row in each process, with each library."""

    name: str
    tree: list[float] = field(default_factory=list)
    wheel: list[float] = field(default_factory=list)

    @property
    def times(self) -> tuple[float, float]:
        """The seconds with each library: the least of the processes or the median, by which the wheel does better."""
        pairs = [(of(self.tree), of(self.wheel)) for of in (min, statistics.median)]
        return max(pairs, key=lambda pair: pair[0] / pair[1])

    @property
    def ratio(self) -> float:
        """The speed of the wheel by that of the tree: below 1, the wheel is slower."""
        tree, wheel = self.times
        return tree / wheel

    def begin(self) -> None:
        """Begin the turns of a new pair of processes."""
        self.tree.append(float("inf"))
        self.wheel.append(float("inf"))

    def turn(self, tree: Measure, wheel: Measure, *, tree_first: bool) -> None:
        """Measure both once more."""
        for of_tree in (tree_first, not tree_first):
            found, measure = (self.tree, tree) if of_tree else (self.wheel, wheel)
            found[-1] = min(found[-1], measure(self.name))


def compare(names: Sequence[str], tree: Open, wheel: Open, least: float) -> list[Figures]:
    """Measure the rows by `PAIRS` pairs of processes, and those that are below `least` by up to `MOST_PAIRS`."""
    found = [Figures(name) for name in names]
    for pair in range(MOST_PAIRS):
        left = [one for one in found if pair < PAIRS or one.ratio < least]
        if not left:
            break
        for one in left:
            one.begin()
        with tree() as of_tree, wheel() as of_wheel:
            for turn in range(TURNS):
                for one in left:
                    one.turn(of_tree, of_wheel, tree_first=turn % 2 == 0)
    return found


def render(found: Sequence[Figures], least: float) -> str:
    """A line for each row, and the list of those that are slower."""
    lines = ["| row | this tree, us | wheel, us | ratio | |", "|---|---:|---:|---:|---|"]
    for one in found:
        verdict = "" if one.ratio >= least else "SLOWER"
        tree, wheel = one.times
        lines.append(f"| {one.name} | {tree * 1e6:.1f} | {wheel * 1e6:.1f} | {one.ratio:.3f} | {verdict} |")
    slower = [one.name for one in found if one.ratio < least]
    lines += ["", f"below {least:.0%} of this tree's build: {', '.join(slower) or 'none'}"]
    return "\n".join(lines) + "\n"


@contextmanager
def worker(side: Path) -> Iterator[Measure]:
    """A process with the library of a side."""
    command = [sys.executable, "-m", "benchmarks.workers.compiled"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=side, env=ENVIRONMENT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pipes = process.stdin, process.stdout

        def ask(line: str) -> str:
            if line:
                print(line, file=pipes[0], flush=True)
            result = pipes[1].readline()
            if not result:
                raise BaseTreeError(f"the process in {side} ended at the row {line or 'none'}")
            return result

        try:
            ask("")
            yield lambda name: float(ask(f"{name} {SLICE_S}"))
        finally:
            process.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table; 1 if a row of the wheel is slower than it may be, or nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wheel", description=__doc__)
    parser.add_argument("wheel", type=Path, metavar="WHEEL", help="a wheel for this interpreter")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)} (default: all)")
    parser.add_argument(
        "--least", type=float, default=LEAST, help=f"the ratio that counts as slower (default: {LEAST})"
    )
    parser.add_argument("--folder", type=Path, default=BUILD, help="for the unpacked wheel")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    unpacked = chosen.folder / "wheel" / chosen.wheel.stem
    with zipfile.ZipFile(chosen.wheel) as archive:
        archive.extractall(unpacked)
    try:
        tree = link_sides(ROOT, ROOT, chosen.folder / "sides" / "tree")
        wheel = link_sides(ROOT, unpacked, chosen.folder / "sides" / "wheel")
        check_library(wheel, unpacked)
        found = compare(chosen.rows or list(ROWS), partial(worker, tree), partial(worker, wheel), chosen.least)
    except BaseTreeError as error:
        print(error, file=sys.stderr)
        return 1
    print(render(found, chosen.least), end="")
    return int(any(one.ratio < chosen.least for one in found))


if __name__ == "__main__":
    sys.exit(main())
