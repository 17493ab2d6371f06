"""`python -m fuzz [--seconds N] [--seed S] [TARGET ...]`: hostile bytes into everything that reads a stranger's bytes.

Mutation targets (`fuzz/targets.py`) run in this interpreter, on the extensions as they are; native targets
(`fuzz/native`) are built with sanitizers and guided by coverage; Python targets (`fuzz/atheris`) are guided by the
interpreter's branches, where atheris is installed. A find is kept under `build/fuzz/`.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import sys
import time
from pathlib import Path

from fuzz.atheris.run import TARGETS as PYTHON
from fuzz.atheris.run import available, run_python
from fuzz.mutate import Mutator
from fuzz.native.build import TARGETS as NATIVE
from fuzz.native.build import BuildError, build
from fuzz.native.run import Runner
from fuzz.targets import TARGETS, Broken

FINDS = Path("build/fuzz")
SLOWEST_ALLOWED_S = 1.0


def run(name: str, seed: int, *, seconds: float = math.inf, limit: float = math.inf) -> int:
    """Run one target for `seconds`, or for as many executions as `limit` says; returns the number of finds."""
    target = TARGETS[name]
    chance = random.Random(f"{name}-{seed}")
    mutate = Mutator(target.corpus(), chance)
    executions = finds = 0
    slowest = 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end and executions < limit:
        data = next(mutate)
        begun = time.thread_time()  # of the processor: a busy machine makes nothing slow
        try:
            target.check(data, chance)
            problem = None
        except Broken as error:
            problem = str(error)
        except Exception as error:
            problem = f"{type(error).__name__} escaped: {error}"
        took = time.thread_time() - begun
        slowest = max(slowest, took)
        if problem is None and took > SLOWEST_ALLOWED_S:
            problem = f"took {took:.1f} s"
        executions += 1
        if problem is not None:
            finds += 1
            FINDS.mkdir(parents=True, exist_ok=True)
            path = FINDS / f"{name}-{seed}-{finds}.bin"
            path.write_bytes(data)
            print(f"{name}: {problem} ({len(data)} bytes in {path})")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {executions} executions from seed {seed}, {finds} finds, "
        f"slowest {slowest * 1000:.0f} ms, peak {peak_mib:.0f} MiB"
    )
    return finds


def run_native(programs: dict[str, Path], seed: int, seconds: float) -> int:
    """Run native targets for `seconds` each; returns the number of finds."""
    runner = Runner()
    return sum(runner.slice(name, program, seconds, seed) for name, program in programs.items())


def main() -> int:
    """Parse the command line, run the targets one after the other."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [*TARGETS, *NATIVE, *(PYTHON if available() else ())]
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"{', '.join(TARGETS)}; native: {', '.join(NATIVE)}; with atheris: {', '.join(PYTHON)}",
    )
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="for all targets together, building apart (default: 30)"
    )
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time, printed")
    options = parser.parse_args()
    unknown = set(options.targets) - set(every)
    if unknown:
        parser.error(f"unknown target {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    names = options.targets or every
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    share = options.seconds / len(names)
    print(f"seed {seed}", flush=True)
    try:
        programs = build([name for name in names if name in NATIVE])
        finds = sum(run(name, seed, seconds=share) for name in names if name in TARGETS)
        finds += run_native(programs, seed, share)
        finds += run_python([name for name in names if name in PYTHON], seed, share)
    except (BuildError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
