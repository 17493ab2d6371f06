"""`python -m fuzz.atheris`: the Python surface under atheris, guided by its branches.

python -m fuzz.atheris run --seconds 600 --seed 7          # all targets, one after the other
python -m fuzz.atheris run py-json py-config --seconds 60
python -m fuzz.atheris replay fuzz/cases/py-json/*         # cases, or finds in build/fuzz/finds

The corpus is kept in `build/fuzz/corpus/<target>/`, finds in `build/fuzz/finds/`; `python -m fuzz.native totals` prints
what these targets have run too.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from pathlib import Path

from fuzz.atheris.run import TARGETS, PythonRunner


def run(names: list[str], seconds: float, seed: int) -> int:
    """Run targets in turn, `seconds` for all together; returns the number of finds."""
    runner = PythonRunner()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, runner.stop)
    print(f"seed {seed}", flush=True)
    made = runner.programs(names)
    finds = 0
    broken: list[str] = []
    for name in names:
        if not runner.stopped:
            try:
                finds += runner.slice(name, made[name], seconds / len(names), seed)
            except RuntimeError as error:
                broken.append(str(error))
                print(error, file=sys.stderr)
    if broken:
        raise RuntimeError(f"{len(broken)} of {len(names)} targets did not run to their end")
    return finds


def target_of(file: Path) -> str:
    """Return whose input a file is: a case's folder says it, or the beginning of a find's name."""
    for name in TARGETS:
        if file.parent.name == name or file.name.startswith(f"{name}-"):
            return name
    raise SystemExit(f"{file}: neither its folder nor its name says which target it is for: {', '.join(TARGETS)}")


def replay(files: list[Path]) -> int:
    """Check inputs in this process; returns the number that fail."""
    failed = 0
    for file in files:
        try:
            TARGETS[target_of(file)](file.read_bytes())
        except Exception as error:
            failed += 1
            print(f"{file}: {type(error).__name__}: {error}")
        else:
            print(f"{file}: fine")
    return failed


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.atheris", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="run targets in turn")
    running.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    running.add_argument("--seconds", type=float, default=60.0, help="for all targets together (default: 60)")
    running.add_argument("--seed", type=int, help="default: another one each time, printed")
    files = commands.add_parser("replay", help="check inputs again")
    files.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    if options.command == "replay":
        return 1 if replay(options.files) else 0
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"unknown target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 1 << 31)
    try:
        return 1 if run(options.targets or list(TARGETS), options.seconds, seed) else 0
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
