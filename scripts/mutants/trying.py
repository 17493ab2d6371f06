"""Whether the unit tests see a break: the likely ones first, then all, up to the first that fails."""

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
from scripts.mutants.testmap import PLUGIN, TestMap, trail

# Seconds that tests take unbroken: the first, most likely ones; then more of those that enter the function.
QUICK_SECONDS = (8.0, 30.0)
TEST_SECONDS = 120  # for one test
SLACK_SECONDS = 120  # for starting, and for a machine that is busy


@dataclass(frozen=True)
class Outcome:
    """What came of a break: killed, survived, unsteady (a test failed, and passed when asked again), or not built."""

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
            self._copy.put_right(site)
        if outcome.status == "killed":
            self._tests.killed(site, outcome.test)
        return Outcome(outcome.status, outcome.test, outcome.how, round(time.monotonic() - began, 1), outcome.ran)

    def _tried(self, site: Site, *, whole: bool) -> Outcome:
        likely, others = self._tests.order(site)
        ran, unsteady = 0, ""
        left = likely
        parts: list[tuple[list[str], bool]] = []
        for seconds in QUICK_SECONDS:
            part, left = self._cut(left, seconds)
            parts.append((part, False))
        if whole:
            parts.append((left + others, True))
        spent = 0.0
        for part, is_long in parts:
            if not part or spent > self._deadline:
                continue
            began = time.monotonic()
            seen = self._run(part, is_long=is_long)
            ran += len(part)
            if seen.how and (seen.is_sure or self._again(part, seen.test, is_long=is_long)):
                return Outcome("killed", seen.test, seen.how, ran=ran)
            unsteady = seen.test or unsteady
            spent += time.monotonic() - began
        if unsteady:
            return Outcome("unsteady", unsteady, "it failed once, and passed when asked again", ran=ran)
        return Outcome("survived" if whole else "unseen", ran=ran)

    def _again(self, part: list[str], test: str, *, is_long: bool) -> bool:
        """Whether the test that failed does so again: by itself, or behind those before it."""
        if test not in part:
            return bool(self._run(part, is_long=is_long).how)
        if self._run([test], is_long=False).how:
            return True
        return not is_long and bool(self._run(part[: part.index(test) + 1], is_long=False).how)

    def _cut(self, tests: list[str], seconds: float) -> tuple[list[str], list[str]]:
        """As many of the first as fit into so much time, and the rest."""
        fit, spent = 0, 0.0
        for test in tests:
            spent += self._tests.tests[test].seconds
            if spent > seconds and fit:
                break
            fit += 1
        return tests[:fit], tests[fit:]

    def _run(self, part: list[str], *, is_long: bool) -> Sighting:
        shutil.rmtree(self._trail, ignore_errors=True)
        self._trail.mkdir(parents=True)
        self._plan.write_text(json.dumps(part))
        files = list(dict.fromkeys(test.partition("::")[0] for test in part))
        many = ["-n", str(self._jobs), "--maxschedchunk=4"] if is_long and self._jobs > 1 else []
        expected = sum(self._tests.tests[test].seconds for test in part)
        seconds = SLACK_SECONDS + 3 * expected
        if is_long:
            seconds = min(seconds, self._deadline)
        options = [
            "-q",
            "-x",
            "--tb=line",
            f"--timeout={TEST_SECONDS}",
            "-p",
            "no:cacheprovider",
            *PLUGIN,
            *many,
            *files,
        ]
        environment = self._copy.environment() | {"MUTANTS_TRAIL": str(self._trail), "MUTANTS_PLAN": str(self._plan)}
        if is_long:
            status, printed = self._run_long(options, environment, seconds)
        else:
            status, printed = self._copy.runner.run(self._copy.home, environment, seconds, arguments=options)
        if status in {0, 5}:
            return Sighting()
        said = trail(self._trail)
        failed = [test for what, test in said if what == "fails"]
        if failed:
            lines = [line for line in printed.splitlines() if ": " in line and line[:6] not in {"FAILED", "ERROR "}]
            return Sighting(failed[0], (lines[-1] if lines else "it failed")[:300], is_sure=failed.count(failed[0]) > 1)
        running = [test for what, test in said if what == "begins" and ("passes", test) not in said]
        how = "no end in sight" if status in {None, 124, 137} else f"the process ended with {status}"
        if not said:
            how = f"{how}: {printed.strip()[-300:]}"
        return Sighting(running[-1] if running else part[0], how)

    def _run_long(self, options: list[str], environment: dict[str, str], seconds: float) -> tuple[int | None, str]:
        command = [*self._through, "timeout", "-k", "5", str(seconds), sys.executable, "-m", "pytest", *options]
        ended = subprocess.run(
            command,
            cwd=self._copy.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        return ended.returncode, ended.stdout + ended.stderr
