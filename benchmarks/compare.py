"""This tree beside another commit: `python -m benchmarks.compare BASE [ROW ...]`. See README.md in this folder.

The base's tree is built below `build`. Both libraries run this tree's programs, in processes that take turns on one
broker. A row for something that the base lacks says so.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.base_tree import BaseTree, BaseTreeError, build_base_tree, check_library, link_sides
from benchmarks.environment import describe
from benchmarks.measure import ROOT, Bench
from benchmarks.programs import BuildError
from benchmarks.ratios import LEAST, Comparison, as_json, compare, own_contenders, render
from benchmarks.row import Row
from benchmarks.rows import choose
from benchmarks.run import BUILD, open_bench, tell

TREES = ROOT / "build" / "base"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write JSON.

    1 if a row is slower than it may be, or failed, or could not be measured; 2 for arguments that are wrong.
    """
    chosen = _parser().parse_args(arguments)
    try:
        rows = choose(chosen.rows, short=chosen.short)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if chosen.rounds < 1:
        print(f"--rounds {chosen.rounds}: at least one pair of rounds is needed", file=sys.stderr)
        return 2
    seconds, scale = (0.2, 0.1) if chosen.short else (chosen.seconds, 1.0)
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    environment = describe(ROOT)
    try:
        base = build_base_tree(ROOT, chosen.base, TREES)
        folders = _sides(base, folder)
        environment["base"] = base.commit
        environment["form"] = {"pairs": chosen.rounds, "seconds": seconds, "short": chosen.short}
        with open_bench(rows, folder, seconds, scale, chosen.bootstrap) as opened:
            environment["broker"] = opened.broker
            comparisons = _measure(chosen, rows, opened.bench, folders)
    except (BaseTreeError, BuildError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"this tree ({environment['commit']}) beside {base.commit[:12]}; above 1: this tree is faster\n")
    print(render(comparisons, chosen.least), end="")
    output: Path = chosen.output or folder / "compare.json"
    found = {"environment": environment, "topics": opened.topics, "rows": as_json(comparisons, chosen.least)}
    output.write_text(json.dumps(found, indent=1) + "\n")
    tell(f"written: {output}")
    return int(any(one.verdict(chosen.least) in {"slower", "failed"} for one in comparisons))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a row, how rows begin, or a pattern (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of rounds per contender (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="least seconds per round (default: 2)")
    parser.add_argument(
        "--least", type=float, default=LEAST, help=f"the ratio that counts as slower (default: {LEAST})"
    )
    parser.add_argument("--short", action="store_true", help="small topics, short rounds, fewer rows: a smoke test")
    parser.add_argument("--all", action="store_true", help="with contenders that are shown for context only")
    parser.add_argument("--contender", action="append", metavar="NAME", help="only contenders whose name starts so")
    parser.add_argument("--bootstrap", help="a single broker that runs already (default: one is started)")
    parser.add_argument("--folder", type=Path, default=BUILD, help="for programs, payloads, results")
    parser.add_argument("--output", type=Path, help="the JSON file (default: compare.json in the folder)")
    return parser


def _sides(base: BaseTree, folder: Path) -> tuple[Path, Path]:
    """Where the workers of this tree and of the base start."""
    found = []
    for name, library in (("this", ROOT), ("base", base.folder)):
        side = link_sides(ROOT, library, folder / "sides" / name)
        check_library(side, library)
        found.append(side)
    this, other = found
    return this, other


def _measure(
    chosen: argparse.Namespace, rows: Sequence[Row], bench: Bench, folders: tuple[Path, Path]
) -> list[Comparison]:
    comparisons: list[Comparison] = []
    for row in rows:
        for contender in own_contenders(row, context=chosen.all, only=chosen.contender):
            try:
                comparisons.append(compare(row, contender, chosen.rounds, bench.measure, tell, folders))
            except KeyboardInterrupt:
                tell("interrupted: the pairs up to here follow")
                return comparisons
    return comparisons


if __name__ == "__main__":
    sys.exit(main())
