"""`python -m fuzz.chaos [--seconds N] [--seed S] [--actor NAME ...] [memory] [threads]`: clients under sanitizers.

`memory` is AddressSanitizer with UndefinedBehaviorSanitizer, `threads` is ThreadSanitizer. Each is built, and then runs
for `--seconds` against an embedded broker whose proxies inject faults. A seed repeats all choices, but not the order in
which threads run. The report of a find is kept in `build/fuzz/finds/`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from fuzz.chaos.build import SANITIZERS, build
from fuzz.chaos.run import keep, run
from fuzz.native.build import BuildError


def main() -> int:
    """Parse the command line, build and run."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sanitizers", nargs="*", metavar="SANITIZER", help=f"{', '.join(SANITIZERS)} (default: memory)")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each sanitizer, building apart (default: 20)")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time, printed")
    parser.add_argument("--actor", action="append", default=[], help="only these of `actors` (default: all)")
    options = parser.parse_args()
    if unknown := set(options.sanitizers) - set(SANITIZERS):
        parser.error(f"unknown sanitizer {', '.join(sorted(unknown))}; there are {', '.join(SANITIZERS)}")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"chaos: seed {seed}", flush=True)
    finds = 0
    for sanitizer in options.sanitizers or ["memory"]:
        began = time.monotonic()
        try:
            folder = build(sanitizer)
        except BuildError as error:
            print(error, file=sys.stderr)
            return 2
        built = time.monotonic()
        outcome = run(sanitizer, folder, seed, options.seconds, options.actor)
        finds += len(outcome.finds)
        print(
            f"chaos {sanitizer}: {len(outcome.finds)} finds in {time.monotonic() - built:.0f} s, built in "
            f"{built - began:.0f} s; faults {outcome.faults}; {outcome.counts}",
            flush=True,
        )
        for find in outcome.finds:
            print(f"  {find[:2000]}")
        if outcome.finds:
            print(f"  the report is in {keep(outcome, sanitizer, seed)}")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
