"""Many runs of the simulated world: `python -m kafwire.testing.simulation --seeds 200`.

The campaign shortens the schedules of runs that fail. The report says which runs were made, which fault met which state
of the clients, and how to repeat each failure. For a run that fails, files hold the shortened schedule and its
timeline.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafwire.testing.simulation.run import Outcome, run
from kafwire.testing.simulation.schedule import Schedule
from kafwire.testing.simulation.shrink import shrink

RUN_SECONDS = 300.0
RUNS_OF_A_PROCESS = 50
GARBAGE = 50_000  # allocated objects before the garbage collector looks at them


@dataclass
class Tally:
    """Totals over the runs of a campaign."""

    runs: int = 0
    failed: list[int] = field(default_factory=list)
    events: int = 0
    simulated_s: float = 0.0
    real_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count one run."""
        self.runs += 1
        self.events += len(outcome.schedule.events)
        self.simulated_s += outcome.simulated_s
        self.real_s += outcome.real_s
        self.counts.update(outcome.counts)
        self.met.update(outcome.met)
        if not outcome.is_good:
            self.failed.append(outcome.schedule.seed)

    def matrix(self) -> str:
        """Return a table of how often each fault met each state: faults in rows, states in columns."""
        states = [state for state, _ in Counter({s: 0 for _, s in self.met}).items()]
        totals: Counter[str] = Counter()
        for (_, state), count in self.met.items():
            totals[state] += count
        states = [state for state, _ in totals.most_common() if not state.startswith("beside ")]
        kinds = sorted({kind for kind, _ in self.met})
        lines = ["| fault | " + " | ".join(states) + " | beside another fault |", "|---" * (len(states) + 2) + "|"]
        for kind in kinds:
            beside = sum(count for (k, s), count in self.met.items() if k == kind and s.startswith("beside "))
            cells = [str(self.met[kind, state] or "") for state in states]
            lines.append(f"| {kind.replace('_', ' ')} | " + " | ".join(cells) + f" | {beside or ''} |")
        return "\n".join(lines)

    def summary(self) -> str:
        """Return a few lines about all runs."""
        return (
            f"{self.runs} runs, {self.simulated_s:,.0f} simulated seconds in {self.real_s:,.0f} s of processes "
            f"({self.simulated_s / max(self.real_s, 1e-9):,.0f} per second), {self.events:,} faults, "
            f"{self.counts['acknowledged']:,} records acknowledged, {self.counts['read']:,} read live, "
            f"{self.counts['committed']:,} transactions committed, {self.counts['in doubt']:,} records in doubt; "
            f"{len(self.failed)} runs failed"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds, print the totals, and return 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m kafwire.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many runs (default: 200)")
    parser.add_argument("--seed", help="the first seed, or `random` (default: 0)", default="0")
    parser.add_argument("--only", type=int, help="this seed alone, with its timeline")
    parser.add_argument("--schedule", type=Path, help="a schedule from a file, with its timeline")
    parser.add_argument("--seconds", type=float, default=RUN_SECONDS, help="simulated time of each run (default: 300)")
    parser.add_argument("--every", type=float, help="seconds between two faults (default: drawn)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--keep-going", action="store_true", help="run all seeds, though some fail")
    parser.add_argument("--no-shrink", action="store_true", help="do not shorten the schedules of failures")
    parser.add_argument("--minutes", type=float, help="start no run after this many minutes")
    parser.add_argument("--folder", type=Path, default=Path("build/simulate"), help="for failures and the report")
    chosen = parser.parse_args(arguments)
    if chosen.only is not None or chosen.schedule is not None:
        schedule = (
            Schedule.from_json(chosen.schedule.read_text())
            if chosen.schedule is not None
            else Schedule.draw(chosen.only, seconds=chosen.seconds, every_s=chosen.every)
        )
        return _one(schedule)
    first = random.SystemRandom().randrange(1 << 31) if chosen.seed == "random" else int(chosen.seed)
    print(f"seeds {first} to {first + chosen.seeds - 1}", flush=True)
    tally = Tally()
    began = printed = time.monotonic()
    try:
        for outcome in _outcomes(range(first, first + chosen.seeds), chosen, began):
            tally.add(outcome)
            if not outcome.is_good:
                print(f"seed {outcome.schedule.seed} fails: {outcome.violations[0][:300]}", flush=True)
                _keep(outcome, chosen.folder, shorten=not chosen.no_shrink)
                if not chosen.keep_going:
                    break
            if time.monotonic() - printed > 30:
                printed = time.monotonic()
                print(f"{printed - began:7.0f} s  {tally.summary()}", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    (chosen.folder / "report.md").write_text(f"{tally.summary()}\n\n{tally.matrix()}\n")
    print(tally.matrix())
    print(tally.summary())
    return 1 if tally.failed else 0


def _one(schedule: Schedule) -> int:
    print(schedule.load)
    outcome = run(schedule)
    print("\n".join(outcome.timeline))
    print(json.dumps(dict(sorted(outcome.counts.items()))))
    print("\n".join(outcome.violations) or "nothing is wrong")
    print(f"{outcome.simulated_s:.0f} simulated seconds in {outcome.real_s:.2f} s")
    return 0 if outcome.is_good else 1


def _outcomes(seeds: Iterable[int], chosen: argparse.Namespace, began: float) -> Iterable[Outcome]:
    def drawn() -> Iterable[Schedule]:
        for seed in seeds:
            if chosen.minutes is not None and time.monotonic() - began > chosen.minutes * 60:
                return
            yield Schedule.draw(seed, seconds=chosen.seconds, every_s=chosen.every)

    if chosen.jobs <= 1:
        yield from map(run, drawn())
        return
    with multiprocessing.get_context("spawn").Pool(chosen.jobs, _prepare, maxtasksperchild=RUNS_OF_A_PROCESS) as pool:
        waiting = []
        for schedule in drawn():
            waiting.append(pool.apply_async(run, (schedule,)))
            if len(waiting) >= 2 * chosen.jobs:
                yield waiting.pop(0).get()
        for result in waiting:
            yield result.get()


def _prepare() -> None:
    """Prepare a process for runs.

    Cycles within one run need no early garbage collection. The parent process handles the terminal's interrupt.
    """
    gc.set_threshold(GARBAGE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _keep(outcome: Outcome, folder: Path, *, shorten: bool) -> None:
    """Write the files that repeat a failure: its shortened schedule, and a timeline of that."""
    folder.mkdir(parents=True, exist_ok=True)
    schedule = outcome.schedule
    if shorten:
        schedule = shrink(schedule, lambda candidate: not run(candidate).is_good)
        outcome = run(schedule)
    path = folder / f"seed-{schedule.seed}.json"
    path.write_text(schedule.to_json())
    lines = [str(schedule.load), *map(str, schedule.events), "", *outcome.timeline, "", *outcome.violations]
    path.with_suffix(".txt").write_text("\n".join(lines) + "\n")
    print(f"again: python -m kafwire.testing.simulation --schedule {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
