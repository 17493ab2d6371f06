"""Plant mistakes, and ask which runs of the simulated world find: `python -m scripts.mutants.simulated --seeds 40`.

The mistakes are those of `planted.toml`. Each is tried in a process of its own, whose import hook changes the text of
one module; the tree stays as it is. Runs are those of `python -m kafwire.testing.simulation`, from seed 0 on, until one
fails: by a violation, an exception, a hang or a crash. Seeds that fail without a mistake are left out.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent
PLANTED = Path(__file__).parent / "planted.toml"
TABLE = ROOT / "build" / "simulate" / "mutants.md"
RUN_SECONDS = 120.0  # simulated
LIMIT_S = 60  # of the processor's time, for one run
PATIENCE = 10  # times that, of any time
MEMORY = 4 << 30
# Most mistakes are found soon: all are tried with a few seeds before any is with many.
ROUNDS = (4, 12)
LONGEST = 140  # characters of a violation, in the table


@dataclass(frozen=True, slots=True)
class Mistake:
    """In `file`, `after` stands where `before` should; `what` says what is wrong then."""

    file: str
    before: str
    after: str
    what: str

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
    """What became of one mistake: `seed` is the run that found it, of `tried`, and `by` says how."""

    mistake: Mistake
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


def run_seeds(mistake: Mistake | None, seeds: Iterable[int], limit_s: int, *, keep_going: bool = False) -> None:
    """Run seeds until one fails, and write a line for each: its number, and the violation, if any.

    A run that takes longer than `limit_s` of the processor's time ends the process, and so does one that blocks.
    """
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if mistake is not None:
        sys.meta_path.insert(0, Planter(mistake))
    try:
        from kafwire.testing.simulation.run import run
        from kafwire.testing.simulation.schedule import Schedule
    except Exception as error:  # noqa: BLE001 - whatever a mistake does
        print(json.dumps((next(iter(seeds)), f"{type(error).__name__}: {error}")), flush=True)
        return
    for seed in seeds:
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        faulthandler.dump_traceback_later(limit_s * PATIENCE, exit=True)
        violations = run(Schedule.draw(seed, seconds=RUN_SECONDS)).violations
        print(json.dumps((seed, violations[0] if violations else "")), flush=True)
        if violations and not keep_going:
            return


# --- from outside


def outcomes(
    mistake: Mistake | None, seeds: Sequence[int], limit_s: int = LIMIT_S, *, keep_going: bool = False
) -> Iterator[tuple[int, str]]:
    """Run seeds in a process of their own: the number of each, and its violation, up to the first that fails."""
    given = {
        "mistake": None if mistake is None else asdict(mistake),
        "seeds": list(seeds),
        "limit_s": limit_s,
        "keep_going": keep_going,
    }
    command = [sys.executable, "-m", "scripts.mutants.simulated", "--run", json.dumps(given)]
    left = list(seeds)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seed, violation = json.loads(line)
            left.remove(seed)
            yield seed, violation
            if violation and not keep_going:
                return
    if left:
        hung = process.returncode in (-signal.SIGPROF, 1)
        yield left[0], "a hang" if hung else f"the process ended with {process.returncode}"


def advance(trial: Trial, seeds: Sequence[int], limit_s: int = LIMIT_S) -> Trial:
    """Run these seeds too, if the mistake was not found yet."""
    if trial.seed is None and seeds:
        for seed, violation in outcomes(trial.mistake, seeds, limit_s):
            trial.tried += 1
            if violation:
                trial.seed, trial.by = seed, violation
    return trial


def table(trials: Sequence[Trial], control: str) -> str:
    """What was found, and what not, as Markdown."""
    found = [trial for trial in trials if trial.seed is not None]
    soon = sum(trial.tried <= ROUNDS[0] for trial in found)
    lines = [
        f"{len(found)} of {len(trials)} mistakes found, {soon} of them within {ROUNDS[0]} runs. {control}",
        "",
        "| mistake | module | found | by |",
        "|---|---|---|---|",
    ]
    for trial in trials:
        where = trial.mistake.file.removeprefix("kafwire/").removesuffix(".py")
        seen = f"not in {trial.tried} runs" if trial.seed is None else f"in run {trial.tried} (seed {trial.seed})"
        lines.append(f"| {trial.mistake.what} | `{where}` | {seen} | {_short(trial.by)} |")
    return "\n".join(lines) + "\n"


def _short(violation: str) -> str:
    text = " ".join(violation.split()).replace("|", "/")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the planted mistakes, and write the table; 1 if one is not found."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants.simulated", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40, help="runs for each mistake at most (default: 40)")
    parser.add_argument("--only", type=int, help="the mistake of that number alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="processor seconds of one run (default: 60)")
    parser.add_argument("--minutes", type=float, help="begin no process after so long")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.run is not None:
        given = dict(chosen.run)
        mistake = given.pop("mistake")
        run_seeds(None if mistake is None else Mistake(**mistake), **given)
        return 0
    trials = [Trial(mistake) for mistake in planted()]
    if chosen.only is not None:
        trials = [trials[chosen.only]]
    began = time.monotonic()
    bad = [seed for seed, violation in outcomes(None, range(chosen.seeds), chosen.limit, keep_going=True) if violation]
    seeds = [seed for seed in range(chosen.seeds) if seed not in bad]
    control = f"Without a mistake {len(seeds)} of {chosen.seeds} runs find nothing" + (
        f"; left out: {', '.join(map(str, bad))}." if bad else "."
    )
    print(control, flush=True)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    for first, last in zip((0, *ROUNDS), (*ROUNDS, len(seeds)), strict=True):
        part = seeds[first:last]

        def go_on(trial: Trial, part: Sequence[int] = part) -> Trial:
            if chosen.minutes is not None and time.monotonic() - began > chosen.minutes * 60:
                return trial
            return advance(trial, part, chosen.limit)

        open_trials = [trial for trial in trials if trial.seed is None]
        with ThreadPoolExecutor(chosen.jobs) as pool:
            for trial in pool.map(go_on, open_trials):
                seen = f"not found in {trial.tried}" if trial.seed is None else f"seed {trial.seed}: {_short(trial.by)}"
                passed_s = time.monotonic() - began
                print(f"{passed_s:6.0f} s  {trials.index(trial)}  {trial.mistake.what}: {seen}", flush=True)
                TABLE.write_text(table(trials, control))
    print(table(trials, control))
    return 1 if any(trial.seed is None for trial in trials) else 0


if __name__ == "__main__":
    sys.exit(main())
