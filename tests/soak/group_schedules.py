"""Many random schedules of groups, simulated: `python -m tests.soak.group_schedules [--seeds N] [--seed S]`.

What is in them, and what must hold: `tests/support/group_schedule.py`. 0: nothing was found; 1: something was.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import sys
import time

from tests.support.group_schedule import run

RUNS_OF_A_PROCESS = 500
_TELL_EVERY = 1_000


def judged(seed: int) -> tuple[int, list[str], float]:
    """A seed, what went wrong, and the seconds of the processor that it took."""
    began = time.process_time()
    try:
        wrong = run(seed)
    except Exception as error:  # others run on
        wrong = [repr(error)]
    return seed, wrong, time.process_time() - began


def main() -> int:
    """Run many, in a process for each core; 0 when nothing went wrong."""
    parser = argparse.ArgumentParser(description="Random schedules of what befalls a group, decided by their seeds.")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--seed", default="0", help="the first one, or `random`")
    chosen = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 31) if chosen.seed == "random" else int(chosen.seed)
    seeds = range(first, first + chosen.seeds)
    failed, seconds = 0, 0.0
    context = multiprocessing.get_context("spawn")
    silent = (logging.CRITICAL,)  # what befalls members is told by them
    with context.Pool(os.cpu_count(), logging.disable, silent, maxtasksperchild=RUNS_OF_A_PROCESS) as pool:
        for done, (seed, wrong, took) in enumerate(pool.imap_unordered(judged, seeds), start=1):
            seconds += took
            if not done % _TELL_EVERY:
                print(f"{done} of {len(seeds)}, {seconds:,.0f} s of processors: {failed} failed", flush=True)
            if wrong:
                failed += 1
                print(f"seed {seed}: {'; '.join(wrong)}", flush=True)
    what = f"{len(seeds)} schedules of groups, seeds {seeds[0]} to {seeds[-1]}, {seconds:,.0f} s of processors"
    print(f"{what}: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
