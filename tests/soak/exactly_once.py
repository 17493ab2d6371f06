"""`python -m tests.soak.exactly_once --schedules 60000` runs the random model of Spark's exactly-once sink for long.

0: every promise held; 1: a schedule broke one, and is printed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from tests.support.exactly_once_model import faults_of, run_schedule


def main() -> int:
    """Run the schedules, and print a line of figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=60_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    logging.getLogger("kafwire.spark").setLevel(logging.ERROR)
    begun = time.monotonic()
    ends: Counter[str] = Counter()
    steps = 0
    for seed in range(given.first, given.first + given.schedules):
        try:
            world = run_schedule(seed)
        except Exception as error:
            print(f"run_schedule({seed}): {type(error).__name__}: {error}\n  {faults_of(seed)}")
            return 1
        ends[f"transaction.version {world.faults.version}"] += 1
        ends["stopped, with the partitions named" if world.stopped else "committed in whole"] += 1
        ends["two drivers"] += world.faults.drivers > 1
        steps += world.now
    figures = ", ".join(f"{name}: {count:,}" for name, count in sorted(ends.items()))
    print(
        f"{given.schedules:,} schedules, {steps:,} steps, seeds from {given.first:,}: no row lost, none repeated; "
        f"{figures}; {time.monotonic() - begun:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
