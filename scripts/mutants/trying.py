"""Runs the unit tests on a break: the likely ones first, then all, up to the first that fails."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.mutants.copies import Copy, NotBuiltError
from scripts.mutants.site import Site
from scripts.mutants.testmap import PLUGIN, TESTS, TestMap, trail

# Seconds that tests take unbroken: the first, most likely ones; then more of those that enter the function.
QUICK_SECONDS = (2.0, 8.0, 30.0)
OPTIONS = ("-q", "-x", "--tb=line", "-p", "no:cacheprovider")
SLACK_SECONDS = 30.0  # for starting, and for a machine that is busy; and so many times as long as unbroken
SLACK_TIMES = 10
TOO_LONG = ("Timeout (>", "no end in sight")  # in the outcome of a test that may only have been slow


@dataclass(frozen=True)
class Outcome:
    """The outcome of a break: killed, survived, unsteady (a test failed, and passed when asked again), or not built."""

    status: str
    test: str = ""
    how: str = ""
    seconds: float = 0.0
    ran: int = 0


@dataclass(frozen=True)
class Sighting:
    """A test that failed, and how; `is_sure`: twice. Both empty if none did."""

    test: str = ""
    how: str = ""
    is_sure: bool = False


class Trial:
    """Tries breaks in one copy; `through` is put before what takes long; `deadline` bounds the tests of one break."""

    def __init__(
        self, copy: Copy, tests: TestMap, home: Path, *, through: Sequence[str], jobs: int, deadline: float
    ) -> None:
        self._copy = copy
        self._tests = tests
        self._plan = home / "plan.json"
        self._trail = home / "trail"
        self._through = list(through)
        self._jobs = jobs
        self._deadline = deadline

    def judge(self, site: Site, *, whole: bool) -> Outcome:
        """Break it, run tests, mend it. Without `whole` only the likely tests run: what survives these is "unseen"."""
        began = time.monotonic()
        try:
            self._copy.put(site)
            outcome = self._tried(site, whole=whole)
        except NotBuiltError as error:
            outcome = Outcome("not built", how=str(error))
        finally:
            self._copy.put_right()
        if outcome.status == "killed":
            self._tests.killed(site, outcome.test)
        return Outcome(outcome.status, outcome.test, outcome.how, round(time.monotonic() - began, 1), outcome.ran)

    def _tried(self, site: Site, *, whole: bool) -> Outcome:
        left = self._tests.order(site)
        done: list[str] = []
        unsteady = ""
        for seconds in QUICK_SECONDS:
            part, left = self._cut(left, seconds)
            if not part:
                break
            done += part
            while part:
                seen = self._run(part)
                if not seen.how:
                    break
                if not (seen.is_sure or self._again(part, seen.test)):
                    unsteady = seen.test
                    break
                if seen.test in part and self._fails_anyway(site, part, seen):
                    part.remove(seen.test)
                    continue
                return Outcome("killed", seen.test, seen.how, ran=len(done))
        if whole and not unsteady:
            seen = self._run_rest(done)
            if seen.how and self._run([seen.test]).how and self._passes_unbroken(seen.test):
                return Outcome("killed", seen.test, seen.how, ran=len(done))
            unsteady = seen.test
        if unsteady:
            return Outcome("unsteady", unsteady, "it failed once, and passed when asked again", ran=len(done))
        return Outcome("survived" if whole else "unseen", ran=len(done))

    def _again(self, part: list[str], test: str) -> bool:
        """True if the test that failed does so again: by itself, or behind those before it."""
        if test not in part:
            return bool(self._run(part).how)
        return bool(self._run([test]).how or self._run(part[: part.index(test) + 1]).how)

    def _fails_anyway(self, site: Site, part: list[str], seen: Sighting) -> bool:
        """True if a test fails without the break too: it takes too long now, or others leave something behind."""
        if any(word in seen.how for word in TOO_LONG):
            run = [seen.test]
        elif self._run([seen.test]).how:
            return False
        else:
            run = part[: part.index(seen.test) + 1]
        self._copy.put_right()
        fails = bool(self._run(run).how)
        self._copy.put(site)
        return fails

    def _passes_unbroken(self, test: str) -> bool:
        """True if a test passes without the break; of those that were watched it is known."""
        if test in self._tests.tests:
            return True
        self._copy.put_right()
        return not self._run([test]).how

    def _cut(self, tests: list[str], seconds: float) -> tuple[list[str], list[str]]:
        """The first tests, as many as fit into the time, and the rest."""
        fit, spent = 0, 0.0
        for test in tests:
            spent += self._tests.tests[test].seconds
            if spent > seconds and fit:
                break
            fit += 1
        return tests[:fit], tests[fit:]

    def _run(self, part: list[str]) -> Sighting:
        """Run these, in a child of a process that has pytest in memory."""
        files = list(dict.fromkeys(test.partition("::")[0] for test in part))
        expected = sum(self._tests.tests[test].seconds for test in part if test in self._tests.tests)
        environment = self._environment("MUTANTS_PLAN", part)
        longest = max((self._tests.tests[test].seconds for test in part if test in self._tests.tests), default=12.0)
        each = SLACK_SECONDS + SLACK_TIMES * longest
        options = [*OPTIONS, f"--timeout={each:.0f}", *PLUGIN, *files]
        seconds = 2 * each + SLACK_TIMES * expected
        return self._seen(*self._copy.runner.run(self._copy.home, environment, seconds, arguments=options), part)

    def _run_rest(self, done: list[str]) -> Sighting:
        """Run all unit tests but these, on all processors."""
        many = ["-n", str(self._jobs), "--maxschedchunk=4"] if self._jobs > 1 else []
        command = [*self._through, "timeout", "-k", "5", str(self._deadline), sys.executable, "-m", "pytest"]
        ended = subprocess.run(
            [*command, *OPTIONS, *PLUGIN, *many, str(TESTS)],
            cwd=self._copy.home,
            env=self._environment("MUTANTS_DONE", [*done, *self._tests.failing]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        return self._seen(ended.returncode, ended.stdout + ended.stderr, done)

    def _environment(self, variable: str, tests: list[str]) -> dict[str, str]:
        shutil.rmtree(self._trail, ignore_errors=True)
        self._trail.mkdir(parents=True)
        self._plan.write_text(json.dumps(tests))
        return self._copy.environment() | {"MUTANTS_TRAIL": str(self._trail), variable: str(self._plan)}

    def _seen(self, status: int | None, printed: str, part: list[str]) -> Sighting:
        """The outcome of a run, by its status and the lines that it wrote on the way."""
        if status in {0, 5}:
            return Sighting()
        said = trail(self._trail)
        failed = [test for what, test in said if what == "fails"]
        if failed:
            lines = [line for line in printed.splitlines() if ": " in line and line[:6] not in {"FAILED", "ERROR "}]
            return Sighting(failed[0], (lines[-1] if lines else "it failed")[:300], is_sure=failed.count(failed[0]) > 1)
        ended = {test for what, test in said if what != "begins"}
        running = [test for what, test in said if what == "begins" and test not in ended]
        how = TOO_LONG[1] if status in {None, 124, 137} else f"the process ended with {status}"
        if not said:
            how = f"{how}: {printed.strip()[-300:]}"
        return Sighting(running[-1] if running else (part or [""])[0], how)
