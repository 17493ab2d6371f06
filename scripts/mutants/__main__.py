"""Draw breaks and ask which the unit tests see: `python -m scripts.mutants --seed 1 --count 60 --area net`."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.mutants.copies import Copy
from scripts.mutants.drawing import Key, all_sites, draws, judged, shares
from scripts.mutants.report import COUNTED, Report, diff
from scripts.mutants.rules import AREAS, Area
from scripts.mutants.site import Site
from scripts.mutants.testmap import TestMap, digest
from scripts.mutants.trying import Outcome, Trial

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "build" / "mutants"
EQUIVALENTS = Path(__file__).parent / "equivalents.toml"
DEADLINE = 900.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts.mutants", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--seed", type=int, help="which breaks (default: by chance, and said)")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--area", action="append", choices=[area.name for area in AREAS], help="only of these")
    parser.add_argument("--function", default="", help="only of functions whose qualified names have this in them")
    parser.add_argument("--quick", action="store_true", help="only the tests most likely to see each break")
    parser.add_argument("--as-watched", action="store_true", help="watch no tests: go by those that were")
    parser.add_argument("--check-equivalents", action="store_true", help="run the tests for these too")
    parser.add_argument("--list", action="store_true", help="only say what would be tried")
    parser.add_argument("--home", type=Path, default=HOME, help="a folder for the copy and reports; one run at a time")
    parser.add_argument("--through", type=shlex.split, default=[], help="a command to run what takes long through")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes for the whole unit run")
    parser.add_argument("--deadline", type=float, default=DEADLINE, help="seconds that tests get for one break")
    return parser.parse_args()


def program() -> str:
    """A digest of all that can be broken."""
    files = sorted({path for area in AREAS for glob in area.sources for path in ROOT.glob(glob)})
    return hashlib.sha256("".join(map(digest, files)).encode()).hexdigest()[:16]


def digest_of_tests(tests: TestMap, outcome: Outcome) -> str:
    """The digest of the test file that killed a break; of all of them if none did."""
    if outcome.test:
        path = ROOT / outcome.test.partition("::")[0]
        return digest(path) if path.exists() else ""
    paths = sorted({ROOT / test.partition("::")[0] for test in tests.tests})
    return hashlib.sha256("".join(digest(path) for path in paths if path.exists()).encode()).hexdigest()[:16]


def main() -> int:
    said = arguments()
    said.home = said.home.resolve()
    seed: int = random.SystemRandom().randrange(1_000_000) if said.seed is None else said.seed
    areas = [area for area in AREAS if not said.area or area.name in said.area]
    everything = all_sites(ROOT)
    sites = [site for site in everything if said.function in site.function]
    judgements = judged(EQUIVALENTS, everything)
    named = "-".join(
        ["seed", str(seed), str(said.count), *(said.area or []), *([said.function] if said.function else [])]
    )
    report = Report(said.home / f"{named}.json", seed, said.count, [area.name for area in areas], program())
    report.possible = {area.name: sum(site.area == area.name for site in sites) for area in areas}
    report.wrong = judgements.wrong
    print(f"seed {seed}: {said.count} of {sum(report.possible.values())} breaks: {report.possible}", flush=True)
    for wrong in judgements.wrong:
        print(f"{EQUIVALENTS.name}: {wrong}")
    wanted = shares(said.count, areas)
    if said.list:
        for area in areas:
            for _, site in zip(range(wanted[area.name]), draws(sites, area.name, seed), strict=False):
                print(f"{site.area}: {site.name}{' (equivalent)' if site.key in judgements.reasons else ''}")
        return 0
    said.home.mkdir(parents=True, exist_ok=True)
    report.load()
    with Copy(ROOT, said.home / "copy", said.through) as copy:
        try_all(copy, areas, sites, judgements.reasons, report, said)
    report.save()
    print(report.text().partition("\nkilled by:")[0])
    print(f"{report.path}, and .txt")
    summary = report.summary()
    return 1 if judgements.wrong or any(summary.get(status) for status in ("survived", "unseen", "unsteady")) else 0


def try_all(
    copy: Copy,
    areas: Sequence[Area],
    sites: Sequence[Site],
    reasons: dict[Key, str],
    report: Report,
    said: argparse.Namespace,
) -> None:
    """Draw until each area has its share."""
    wanted = shares(said.count, areas)
    tests = TestMap(ROOT, said.home)
    if not said.as_watched:
        tests.update(copy, said.through, said.jobs)
    for test in tests.failing:
        print(f"fails without any break, and is not asked: {test}")
    trial = Trial(copy, tests, said.home, through=said.through, jobs=said.jobs, deadline=said.deadline)
    done = 0
    for area in areas:
        taken = 0
        for site in draws(sites, area.name, report.seed):
            if taken == wanted[area.name]:
                break
            outcome = _of(site, report, reasons, tests, trial, said)
            taken += outcome.status in COUNTED
            done += outcome.status in COUNTED
            print(
                f"[{done}/{said.count}] {outcome.status}: {site.area}: {site.name}"[:300].replace("\n", " "), flush=True
            )
            if outcome.test:
                print(f"    {outcome.test} ({outcome.seconds:.0f} s)", flush=True)


def _of(
    site: Site, report: Report, reasons: dict[Key, str], tests: TestMap, trial: Trial,
    said: argparse.Namespace,
) -> Outcome:  # fmt: skip
    """The outcome of a break; an earlier run may have recorded it."""
    reason = reasons.get(site.key)
    if reason is not None and not said.check_equivalents:
        outcome = Outcome("equivalent", how=reason)
        report.add(site, outcome, diff(site, (said.home / "copy" / site.path).read_text()), "")
        return outcome
    known = report.known(site)
    if known is not None and known["status"] not in {"equivalent", *([] if said.quick else ["unseen"])}:
        outcome = Outcome(*(known[name] for name in ("status", "test", "how", "seconds", "ran")))
        if known["tests"] == digest_of_tests(tests, outcome):
            return outcome
    outcome = trial.judge(site, whole=not said.quick)
    report.add(site, outcome, diff(site, (said.home / "copy" / site.path).read_text()), digest_of_tests(tests, outcome))
    return outcome


if __name__ == "__main__":
    began = time.monotonic()
    status = main()
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(status)
