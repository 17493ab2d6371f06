"""The speed of the simulated world: `python -m benchmarks.simulation`, into docs/internals/results/simulation.md.

Three brokers, one idempotent producer and one consumer at 200 records a second, a fault every ten seconds: simulated
seconds for each second of this process's processor time, best of some seeds.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time

from kafwire.testing.simulation.run import run
from kafwire.testing.simulation.schedule import Load, Schedule

SECONDS = 300.0


def main() -> None:
    """Measure, and print a line for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many runs (default: 3)")
    parser.add_argument("--profile", action="store_true", help="say where the time goes; it takes longer by that")
    chosen = parser.parse_args()
    for seed in range(chosen.seeds):
        schedule = schedule_of(seed)
        profile = cProfile.Profile()
        began = time.process_time()
        if chosen.profile:
            profile.enable()
        outcome = run(schedule)
        profile.disable()
        took_s = time.process_time() - began
        assert outcome.is_good, outcome.violations
        print(
            f"seed {seed}: {outcome.simulated_s / took_s:6.0f} simulated seconds a second; "
            f"{outcome.simulated_s:.0f} s, {outcome.counts['acknowledged']} records, {len(schedule.events)} faults",
            flush=True,
        )
        if chosen.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(45)


def schedule_of(seed: int) -> Schedule:
    """The faults of a seed, with the load that is measured."""
    drawn = Schedule.draw(seed, seconds=SECONDS, every_s=10.0)
    options = {"compression_type": "none", "fetch_strategy": "hybrid"}
    load = Load(seconds=SECONDS, records_per_s=200.0, linger_ms=5, is_alone=True, options=options)
    kept = tuple(event for event in drawn.events if event.kind not in ("unclean_election", "crash_unflushed"))
    return Schedule(seed, load, kept)


if __name__ == "__main__":
    main()
