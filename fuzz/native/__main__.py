"""`python -m fuzz.native`: long runs, in slices; they take up changes of the sources at each slice.

python -m fuzz.native run --seconds 36000 --slice 120      # all targets in turn; runs on under nohup
python -m fuzz.native totals                               # all that has been run, as a table
python -m fuzz.native replay FILE ...                      # inputs of the target that their folder is named after
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import signal
import sys
import time
from pathlib import Path

from fuzz.native.build import TARGETS, BuildError, build
from fuzz.native.run import Runner, environment, table


def rotate(targets: list[str], seconds: float, slice_s: float, seed: int) -> int:
    """Run the targets in turn; returns the number of finds."""
    runner = Runner()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, runner.stop)
    end = time.monotonic() + seconds
    programs: dict[str, Path] = {}
    finds = turn = 0
    print(f"seed {seed}: {', '.join(targets)} in slices of {slice_s:g} s for {seconds:g} s", flush=True)
    while (left := end - time.monotonic()) >= 1 and not runner.stopped:
        target = targets[turn % len(targets)]
        try:
            programs |= build([target], jobs=1)  # a long run takes one core
        except BuildError as error:  # sources in the middle of a change
            print(
                f"{target}: not built, {'the last one runs' if target in programs else 'left out'}: {error}", flush=True
            )
        if target in programs:
            try:
                finds += runner.slice(target, programs[target], min(slice_s, left), seed + turn)
            except RuntimeError as error:
                print(error, flush=True)
                time.sleep(1)
        turn += 1
    return finds


def replay(files: list[Path]) -> int:
    """Run inputs; returns the number that fail."""
    runner = Runner()
    programs = build(sorted({file.parent.name for file in files}))
    failed = 0
    for file in files:
        wrong = runner.replay(programs[file.parent.name], [file])
        failed += wrong is not None
        print(f"{file}: {wrong or 'fine'}")
    return failed


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.native", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run targets in turn")
    run.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    until = run.add_mutually_exclusive_group(required=True)
    until.add_argument("--seconds", type=float)
    until.add_argument("--until", metavar="HH:MM", help="UTC")
    run.add_argument("--slice", type=float, default=120.0, help="seconds (default: 120)")
    run.add_argument("--seed", type=int, help="default: another one each time, printed")
    commands.add_parser("totals", help="print what has been run so far")
    files = commands.add_parser("replay", help="run inputs")
    files.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    if options.command == "totals":
        print(f"{table(Runner().state.read())}\n\n{environment()}")
        return 0
    try:
        if options.command == "replay":
            return 1 if replay([file.resolve() for file in options.files]) else 0
    except (BuildError, KeyError) as error:
        parser.error(str(error))
    unknown = set(options.targets) - set(TARGETS)
    if unknown:
        parser.error(f"unknown target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    seconds = options.seconds
    if options.until:
        now = dt.datetime.now(dt.UTC)
        hour, minute = map(int, options.until.split(":"))
        seconds = (now.replace(hour=hour, minute=minute, second=0, microsecond=0) - now).total_seconds() % 86400
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    return 1 if rotate(options.targets or list(TARGETS), seconds, options.slice, seed) else 0


if __name__ == "__main__":
    sys.exit(main())
