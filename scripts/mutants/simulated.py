"""Plant mistakes, and ask which runs of the simulated world find: `python -m scripts.mutants.simulated --seeds 40`.

The mistakes are those of `planted.toml`. Each is tried in a process of its own, whose import hook changes the text of
one module; the tree stays as it is. Runs are those of `python -m kafwire.testing.simulation`, from seed 0 on, until one
fails: by a violation, an exception, a hang or a crash. Runs that fail without a mistake are left out, and so are those
that do not execute what a mistake alters.

With `--area groups` the mistakes are those of `planted_groups.toml`, and runs are the combined schedules of groups
(`tests/support/group/combinations.py`) of the mistake's theme, or those of share groups.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from scripts.mutants.reached import Reach, lines_of

ROOT = Path(__file__).resolve().parent.parent.parent
PLANTED = Path(__file__).parent / "planted.toml"
AREAS = {"simulation": PLANTED, "groups": Path(__file__).parent / "planted_groups.toml"}
TABLE = ROOT / "build" / "simulate" / "mutants.md"
RUN_SECONDS = 120.0  # simulated
LIMIT_S = 60  # of the processor's time, for one run
PATIENCE = 10  # times that, of any time
MEMORY = 4 << 30
# Most mistakes are found soon: all are tried with a few seeds before any is with many.
ROUNDS = (4, 12)
LONGEST = 140  # characters of a violation, in the table
COUNTS = re.compile(r"\w+=\d|not promised: ")


@dataclass(frozen=True, slots=True)
class Mistake:
    """In `file`, `after` stands where `before` should; `what` names the fault.

    `theme` names the schedules of groups that are tried; none: runs of the simulated world.
    """

    file: str
    before: str
    after: str
    what: str
    theme: str = ""

    @property
    def module(self) -> str:
        """The name that `file` is imported by."""
        return self.file.removesuffix(".py").replace("/", ".")

    def plant(self, source: str) -> str:
        """The file's text with the mistake. `ValueError` unless `before` stands in it once."""
        if source.count(self.before) != 1:
            raise ValueError(f"{self.file} has {source.count(self.before)} of {self.before!r}, not one ({self.what})")
        return source.replace(self.before, self.after)


@dataclass(slots=True)
class Trial:
    """The outcome of one mistake: `seed` is the run that found it, of `tried`, and `by` says how.

    `met` are the seeds of the runs that come past it.
    """

    mistake: Mistake
    met: list[int] = field(default_factory=list)
    tried: int = 0
    seed: int | None = None
    by: str = ""


def planted(path: Path = PLANTED) -> list[Mistake]:
    """The mistakes that are written down."""
    return [Mistake(**each) for each in tomllib.loads(path.read_text())["planted"]]


# --- in a process of its own


class Planter(MetaPathFinder):
    """An import hook: one module is loaded with a mistake in it."""

    def __init__(self, mistake: Mistake) -> None:
        self._mistake = mistake

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if fullname != self._mistake.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self._mistake)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mistake: Mistake) -> None:
        super().__init__(fullname, path)
        self._mistake = mistake

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, neither from a cache nor into it."""
        del fullname
        source = self.get_data(self.path).decode()
        code: CodeType = compile(self._mistake.plant(source), self.path, "exec")
        return code


def run_seeds(mistake: Mistake, seeds: Iterable[int], limit_s: int) -> None:
    """Run seeds with a mistake until one fails, and write a line for each: its number, and the violation, if any.

    A run that takes longer than `limit_s` of the processor's time ends the process, and so does one that blocks.
    """
    _prepare(mistake.theme)
    sys.meta_path.insert(0, Planter(mistake))
    for seed in seeds:
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        faulthandler.dump_traceback_later(limit_s * PATIENCE, exit=True)
        try:
            violation = _violation(seed, mistake.theme)
        except Exception as error:  # noqa: BLE001 - modules that cannot be imported are found too
            violation = f"{type(error).__name__}: {error}"
        print(json.dumps((seed, violation)), flush=True)
        if violation:
            return


def run_control(seeds: Iterable[int], area: str = "simulation", theme: str = "") -> None:
    """Run seeds without a mistake: a line for each, with its number, the violation and the mistakes it comes past."""
    _prepare(theme)
    mistakes = planted(AREAS[area])
    found = [(ROOT / mistake.file, mistake) for mistake in mistakes]
    reach = Reach([(str(path), lines_of(mistake, path.read_text())) for path, mistake in found])
    for seed in seeds:
        with reach.watch():
            violation = _violation(seed, theme)
        reached = [number for number in reach.reached if mistakes[number].theme == theme]
        print(json.dumps((seed, violation, reached)), flush=True)


def _prepare(theme: str) -> None:
    if theme:  # the judge of groups reads what members log
        logging.getLogger("kafwire").propagate = False
        logging.getLogger("asyncio").disabled = True
    else:
        logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _violation(seed: int, theme: str) -> str:
    if theme:
        from tests.support.group import combinations as group_combinations
        from tests.support.share import combinations as share_combinations

        play = share_combinations.run if theme == "share" else group_combinations.run
        return "".join(play(seed)[:1])
    from kafwire.testing.simulation.run import run
    from kafwire.testing.simulation.schedule import Schedule

    return "".join(run(Schedule.draw(seed, seconds=RUN_SECONDS)).violations[:1])


# --- from outside


def seeds_of(theme: str, count: int) -> list[int]:
    """The first seeds of a theme's schedules; all begin with 0 for runs that have no theme."""
    if theme in ("", "share"):
        return list(range(count))
    from tests.support.group.plan import Plan

    return list(itertools.islice((seed for seed in itertools.count() if Plan(seed).theme_name == theme), count))


def lines_from(given: dict[str, Any]) -> Iterator[list[Any]]:
    """The lines that a process of this module writes; at last its return code, as a line of its own."""
    command = [sys.executable, "-m", "scripts.mutants.simulated", "--run", json.dumps(given)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
    yield [process.returncode]


def advance(trial: Trial, seeds: Sequence[int], limit_s: int = LIMIT_S) -> Trial:
    """Run these seeds too, if the mistake was not found yet."""
    left = list(seeds)
    if trial.seed is not None or not left:
        return trial
    for line in lines_from({"mistake": asdict(trial.mistake), "seeds": left, "limit_s": limit_s}):
        if len(line) > 1:
            trial.tried += 1
            left.remove(line[0])
            if line[1]:
                trial.seed, trial.by = line
        elif left and trial.seed is None:
            trial.tried += 1
            trial.seed = left[0]
            trial.by = "a hang" if line[0] in (-signal.SIGPROF, 1) else f"the process ended with {line[0]}"
    return trial


def table(trials: Sequence[Trial], control: str) -> str:
    """The found mistakes, and the others, as Markdown."""
    found = [trial for trial in trials if trial.seed is not None]
    met = [trial for trial in trials if trial.met]
    lines = [
        f"{len(found)} of {len(trials)} mistakes found; {len(trials) - len(met)} are met by no run. {control}",
        "",
        "| mistake | module | runs that meet it | found | by |",
        "|---|---|---|---|---|",
    ]
    for trial in trials:
        where = trial.mistake.file.removeprefix("kafwire/").removesuffix(".py")
        seen = "no" if trial.seed is None else f"seed {trial.seed}"
        if trial.seed is None and trial.tried < len(trial.met):
            seen = f"not in {trial.tried}"
        lines.append(f"| {trial.mistake.what} | `{where}` | {len(trial.met)} | {seen} | {_short(trial.by)} |")
    return "\n".join(lines) + "\n"


def _short(violation: str) -> str:
    # A report of the history begins with how much was judged, and how much of each kind was found.
    lines = [line for line in violation.splitlines() if not COUNTS.match(line)] or [violation]
    text = " ".join(lines[0].split()).replace("|", "/")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the planted mistakes, and write the table; 1 if one is not found."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants.simulated", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40, help="runs for each mistake at most (default: 40)")
    parser.add_argument("--area", choices=AREAS, default="simulation", help="which mistakes (default: simulation)")
    parser.add_argument("--only", type=int, help="the mistake of that number alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="processor seconds of one run (default: 60)")
    parser.add_argument("--minutes", type=float, help="begin no process after so long")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.run is not None:
        if "mistake" in chosen.run:
            run_seeds(Mistake(**chosen.run["mistake"]), chosen.run["seeds"], chosen.run["limit_s"])
        else:
            run_control(**chosen.run)
        return 0
    began = time.monotonic()
    trials = [Trial(mistake) for mistake in planted(AREAS[chosen.area])]
    if chosen.only is not None:
        trials = [trials[chosen.only]]
    numbers = {mistake: number for number, mistake in enumerate(planted(AREAS[chosen.area]))}
    by_number = {numbers[trial.mistake]: trial for trial in trials}
    bad, runs = [], 0
    for theme in sorted({trial.mistake.theme for trial in trials}):
        seeds = seeds_of(theme, chosen.seeds)
        runs += len(seeds)
        for seed, *rest in lines_from({"seeds": seeds, "area": chosen.area, "theme": theme}):
            if not rest and seed:
                print(f"the runs without a mistake ended with {seed}")
                return 1
            if rest and rest[0]:
                bad.append(f"{theme} {seed}".strip())
            for number in rest[1] if rest and not rest[0] else ():
                if number in by_number:
                    by_number[number].met.append(seed)
    control = f"Without a mistake {runs - len(bad)} of {runs} runs find nothing" + (
        f"; left out: {', '.join(bad)}." if bad else "."
    )
    print(f"{time.monotonic() - began:6.0f} s  {control}", flush=True)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    for first, last in zip((0, *ROUNDS), (*ROUNDS, chosen.seeds), strict=True):

        def go_on(trial: Trial, first: int = first, last: int = last) -> Trial:
            if chosen.minutes is not None and time.monotonic() - began > chosen.minutes * 60:
                return trial
            return advance(trial, trial.met[first:last], chosen.limit)

        with ThreadPoolExecutor(chosen.jobs) as pool:
            for trial in pool.map(go_on, [trial for trial in trials if trial.seed is None and len(trial.met) > first]):
                seen = f"not found in {trial.tried}" if trial.seed is None else f"seed {trial.seed}: {_short(trial.by)}"
                print(f"{time.monotonic() - began:6.0f} s  {trial.mistake.what}: {seen}", flush=True)
                TABLE.write_text(table(trials, control))
    print(table(trials, control))
    return 1 if any(trial.seed is None for trial in trials) else 0


if __name__ == "__main__":
    sys.exit(main())
