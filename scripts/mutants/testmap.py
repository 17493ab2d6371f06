"""Which tests are likely to see a break: those that enter its function, the quick and narrow ones first.

The functions that tests enter are watched once, and again for test files that changed (see `watch`). Of compiled
functions nothing is known so: there the words that a test file has in common with the source decide, and what saw
breaks before.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.mutants.copies import Copy
from scripts.mutants.site import Site

TESTS = Path("tests/unit")
WORD = re.compile(r"[A-Za-z_]\w{2,}")
# Tests of these names take long, and what they enter others enter too: they are not watched, and run last.
LONG = ("many_partitions", "thousand_part", "random", "schedules", "truncated_logs", "interrupt")
PLUGIN = ("-p", "scripts.mutants.watch")


@dataclass(frozen=True)
class Seen:
    """The seconds and functions of a test."""

    seconds: float
    functions: frozenset[str]


def digest(path: Path) -> str:
    """The digest of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class TestMap:
    """Kept in `home` from run to run."""

    __test__ = False

    def __init__(self, root: Path, home: Path) -> None:
        self._root = root
        self._home = home
        self._file = home / "seen.json"
        self.tests: dict[str, Seen] = {}
        self.failing: list[str] = []
        self._digests: dict[str, str] = {}
        self._killers: list[tuple[str, str, str]] = []  # path, function, test
        if self._file.exists():
            self._load()
        if self._killers_file.exists():
            self._killers = [tuple(each) for each in json.loads(self._killers_file.read_text())]

    @property
    def _killers_file(self) -> Path:
        return self._home / "killers.json"

    def _load(self) -> None:
        said = json.loads(self._file.read_text())
        names: list[str] = said["functions"]
        self._digests = said["files"]
        self.failing = said["failing"]
        self.tests = {
            test: Seen(seconds, frozenset(names[number] for number in numbers))
            for test, (seconds, numbers) in said["tests"].items()
        }

    def _save(self) -> None:
        names = sorted({name for seen in self.tests.values() for name in seen.functions})
        numbers = {name: number for number, name in enumerate(names)}
        tests = {t: (s.seconds, sorted(numbers[name] for name in s.functions)) for t, s in self.tests.items()}
        said = {"functions": names, "files": self._digests, "failing": self.failing, "tests": tests}
        self._file.write_text(json.dumps(said))

    def update(self, copy: Copy, through: Sequence[str], jobs: int) -> None:
        """Watch the tests that are new or changed, in the unbroken copy."""
        now = {str(path.relative_to(self._root)): digest(path) for path in self._root.glob(f"{TESTS}/**/test_*.py")}
        changed = sorted(path for path, known in now.items() if self._digests.get(path) != known)
        gone = {path for path in self._digests if path not in now}
        self.tests = {t: s for t, s in self.tests.items() if t.partition("::")[0] not in {*changed, *gone}}
        self.failing = [test for test in self.failing if test.partition("::")[0] not in {*changed, *gone}]
        self._digests = now
        if not changed:
            return
        print(f"watching what the tests of {len(changed)} file(s) enter", flush=True)
        folder = self._home / "seen"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        many = ["-n", str(jobs), "--maxschedchunk=8"] if len(changed) > 4 else []
        wrapped = list(through) if many else []
        command = [*wrapped, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN, *many, *changed]
        command += ["-k", f"not ({' or '.join(LONG)})"]
        subprocess.run(
            command,
            cwd=copy.home,
            env=copy.environment() | {"MUTANTS_SEEN": str(folder)},
            capture_output=True,
            check=False,
        )
        failed = self.take(folder)
        if failed:  # watched, tests are slow: those that fail unwatched too fail without any break
            plan = self._home / "plan.json"
            plan.write_text(json.dumps(failed))
            again = folder / "again"
            again.mkdir()
            files = sorted({test.partition("::")[0] for test in failed})
            subprocess.run(
                [*through, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN, *files],
                cwd=copy.home,
                env=copy.environment() | {"MUTANTS_TRAIL": str(again), "MUTANTS_PLAN": str(plan)},
                capture_output=True,
                check=False,
            )
            fails = Counter(test for what, test in trail(again) if what == "fails")
            self.failing += sorted(test for test, times in fails.items() if times > 1)
        self._save()

    def take(self, folder: Path) -> list[str]:
        """Read what the plugin wrote; those that failed."""
        failed = []
        for path in folder.iterdir():
            if path.is_file():
                for line in path.read_text().splitlines():
                    said = json.loads(line)
                    functions = frozenset(name.replace(".<locals>", "") for name in said["functions"])
                    self.tests[said["test"]] = Seen(said["seconds"], functions)
                    if said["failed"]:
                        failed.append(said["test"])
        return failed

    # --- which first ------------------------------------------------------------------------------------------------

    def killed(self, site: Site, test: str) -> None:
        """Remember which test found the break."""
        self._killers.append((str(site.path), site.function, test))
        self._killers = self._killers[-2000:]
        self._killers_file.write_text(json.dumps(self._killers))

    def order(self, site: Site) -> list[str]:
        """The tests that may see a break, of those that were watched; the most likely first."""
        usable = {test: seen for test, seen in self.tests.items() if test not in self.failing}
        likely = self._entering(site, usable) if site.path.suffix == ".py" else self._alike(site, usable)
        before = self._before(site, usable)
        return list(dict.fromkeys([*before, *likely]))

    def _before(self, site: Site, usable: Mapping[str, Seen]) -> list[str]:
        """Tests that found a break of this function; and then those that found one of this file."""
        here = Counter(
            test for path, function, test in self._killers if (path, function) == (str(site.path), site.function)
        )
        near = Counter(test for path, _, test in self._killers if path == str(site.path))
        found = [test for test, _ in here.most_common(4)] + [test for test, _ in near.most_common(3)]
        return [test for test in dict.fromkeys(found) if test in usable and usable[test].seconds < 10]

    @staticmethod
    def _entering(site: Site, usable: Mapping[str, Seen]) -> list[str]:
        path, function = str(site.path), site.function
        entering = [t for t, seen in usable.items() if f"{path}:{function}" in seen.functions] if function else []
        if not entering:  # a module's constant, or a class's: tests that enter the module
            entering = [t for t, seen in usable.items() if any(name.startswith(f"{path}:") for name in seen.functions)]
        return cheapest(entering, usable, {site.path.stem, *function.lower().split(".")})

    def _alike(self, site: Site, usable: Mapping[str, Seen]) -> list[str]:
        source = (self._root / site.path).read_text()
        files = {test.partition("::")[0] for test in usable}
        written = {file: set(WORD.findall((self._root / file).read_text())) for file in files}
        common: Counter[str] = Counter(word for found in written.values() for word in found)
        stem = site.path.stem
        wanted = dict.fromkeys(WORD.findall(source), 1.0) | dict.fromkeys(WORD.findall(site.was), 4.0)
        wanted |= dict.fromkeys(WORD.findall(site.function), 6.0) | {stem: 8.0, f"kafwire.{stem}": 8.0}
        score = {
            file: sum(weight * math.log(len(files) / common[word]) for word, weight in wanted.items() if word in found)
            for file, found in written.items()
        }
        users = self._users(site)
        for file in files:
            if stem.strip("_") in file or any(user in file for user in users):
                score[file] += 40
        ranked = sorted(files, key=lambda file: -score[file])
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in usable:
            by_file[test.partition("::")[0]].append(test)
        return [test for file in ranked[:30] for test in cheapest(by_file[file], usable, set())]

    def _users(self, site: Site) -> set[str]:
        """Extensions whose C is this file."""
        if site.path.suffix not in {".c", ".h"}:
            return set()
        name = site.path.with_suffix(".h").name
        found = {path.stem for path in self._root.glob("kafwire/**/*.p[yx][xd]") if f'/{name}"' in path.read_text()}
        return {stem.strip("_") for stem in found}


def cheapest(tests: Iterable[str], usable: Mapping[str, Seen], words: set[str]) -> list[str]:
    """Narrow and quick tests first, those of the same name first, and of one test's many shapes not all at once."""
    cost = {}
    for test in tests:
        seen = usable[test]
        near = any(len(word) > 3 and word in test.lower() for word in words)
        cost[test] = (seen.seconds + 0.02) * math.sqrt(len(seen.functions) + 5) / (4 if near else 1)
    shapes: Counter[str] = Counter()
    found = []
    for test in sorted(cost, key=lambda test: (cost[test], test)):
        whole = test.partition("[")[0]
        found.append((cost[test] * (1 + shapes[whole]), test))
        shapes[whole] += 1
    return [test for _, test in sorted(found)]


def trail(folder: Path) -> list[tuple[str, str]]:
    """The lines that the plugin wrote while tests ran: (begins, passes or fails; the test)."""
    found = []
    for path in sorted(folder.iterdir()):
        for line in path.read_text().splitlines():
            what, test = json.loads(line)
            found.append((what, test))
    return found
