"""Many random schedules of groups, simulated: `python -m tests.soak.group_schedules [--seeds N] [--seed S] [--kind K]`.

| kind | schedules | judge |
|---|---|---|
| `plain` | `tests/support/group/schedule.py`: consumers alone, brokers that fail | in itself |
| `combined` | `tests/support/group/combinations.py`: all kinds of programs and faults | `support/group/judge.py` |
| `share` | `tests/support/share/combinations.py`: share groups with slow brokers | `support/share/judge.py` |

Each seed plays one schedule of each kind. A schedule that fails prints its events, and the command that repeats it.
0: nothing was found; 1: something was.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import random
import sys
import time
from collections import Counter

from tests.support.group import combinations as group_combinations
from tests.support.group import schedule as group_schedule
from tests.support.share import combinations as share_combinations

KINDS = {"plain": group_schedule.run, "combined": group_combinations.run, "share": share_combinations.run}
RUNS_OF_A_PROCESS = 500
_TELL_EVERY = 1_000

Case = tuple[str, int]


def judged(case: Case) -> tuple[Case, list[str], float]:
    """A schedule, its findings, and the seconds of the processor that it took."""
    kind, seed = case
    began = time.process_time()
    try:
        wrong = KINDS[kind](seed)
    except Exception as error:  # others run on
        wrong = [repr(error)]
    return case, wrong, time.process_time() - began


def _quiet() -> None:
    # Judges read what members log; the terminal does not need it.
    logging.getLogger("kafwire").propagate = False
    logging.getLogger("kafwire").addHandler(logging.NullHandler())
    logging.getLogger("asyncio").disabled = True


def main() -> int:
    """Run many, in a process for each core; 0 when nothing went wrong."""
    parser = argparse.ArgumentParser(description="Random schedules of what befalls a group, decided by their seeds.")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--seed", default="0", help="the first one, or `random`")
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all", help="which schedules")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    chosen = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 31) if chosen.seed == "random" else int(chosen.seed)
    seeds = range(first, first + chosen.seeds)
    kinds = [*KINDS] if chosen.kind == "all" else [chosen.kind]
    cases = [(kind, seed) for seed in seeds for kind in kinds]
    began, failed, seconds = time.monotonic(), Counter[str](), 0.0
    context = multiprocessing.get_context("spawn")
    with context.Pool(chosen.jobs, _quiet, maxtasksperchild=RUNS_OF_A_PROCESS) as pool:
        for done, ((kind, seed), wrong, took) in enumerate(pool.imap_unordered(judged, cases), start=1):
            seconds += took
            if not done % _TELL_EVERY:
                print(f"{done} of {len(cases)}, {seconds:,.0f} s of processors: {failed.total()} failed", flush=True)
            if wrong:
                failed[kind] += 1
                print(f"{kind} schedule, seed {seed}:", *wrong, sep="\n    ")
                print(
                    f"    again: python -m tests.soak.group_schedules --kind {kind} --seeds 1 --seed {seed}", flush=True
                )
    what = f"{len(cases)} schedules of groups ({', '.join(kinds)}), seeds {seeds[0]} to {seeds[-1]}"
    took_s = f"{time.monotonic() - began:,.0f} s, {seconds:,.0f} s of processors"
    print(f"{what}, {took_s}: {failed.total()} failed{f' {dict(failed)}' if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
