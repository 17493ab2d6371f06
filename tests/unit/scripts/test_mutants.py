"""Deliberate breaks: each pattern finds its spots and changes one thing, draws repeat, judgements outlive renames."""

import ast
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.mutants import compiled_sites, copies, drawing, python_sites, report, rules, testmap, tokens, trying
from scripts.mutants.site import Edit, Site

ROOT = Path(__file__).parents[3]

PYTHON = '''
import log
REFUSED = frozenset({6, 19, -1})
MOVED = {3, 5}

class Cursor:
    def __init__(self):
        self.position = 0
        self.end = 0
        self.paused = False
        self.topic = "flights"

    def advance(self, count: int, limit: int, *, force=False) -> bool:
        """Docstring, with 1 < 2 in it."""
        if self.position < limit:
            return True
        if not force and count:
            self.position += count
            log.warning("1 < %d", count)
        self.tell(True)
        return False

    async def wait(self, code, left):
        if code in (1, 6):
            raise ValueError(f"{left + 1}")
        while left > 0:
            left = max(0, min(left - 1, self.end))
            if code is None:
                continue
            if left == 7:
                self.paused = True
                break
            await self.sleep()
        try:
            del self.kept[0]
        except (KeyError, IndexError):
            self.kept = [x for x in self.kept if x and any(self.kept)]
        except OSError:
            log.info("gone")
            raise
        return self.kept[0] or self.queue.popleft() + self.end
'''


Scan = Callable[[str], list[Site]]


def found(source: str, scan: Scan = python_sites.scan) -> dict[str, list[str]]:
    sites: dict[str, list[str]] = {}
    for site in scan(source):
        sites.setdefault(site.pattern, []).append(f"{site.was} -> {site.becomes}")
    return sites


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("boundary moved", ["self.position < limit -> self.position <= limit", "left > 0 -> left >= 0"]),
        ("constant moved", ["left > 0 -> 1"]),
        (
            "comparison negated",
            ["code in (1, 6) -> code not in (1, 6)", "code is None -> code is not None", "left == 7 -> left != 7"],
        ),
        (
            "condition negated",
            [
                "self.position < limit -> (not (self.position < limit))",
                "not force and count -> (not (not force and count))",
                "left > 0 -> (not (left > 0))",
                "x and any(self.kept) -> (not (x and any(self.kept)))",
            ],
        ),
        (
            "guard dropped",
            [
                "self.position < limit -> False",
                "code in (1, 6) -> False",
                "code is None -> False",
                "left == 7 -> False",
            ],
        ),
        (
            "side dropped",
            [
                "not force and count -> ((count))",
                "not force and count -> ((not force))",
                "x and any(self.kept) -> ((any(self.kept)))",
                "x and any(self.kept) -> ((x))",
                "self.kept[0] or self.queue.popleft() + self.end -> ((self.kept[0]))",
                "self.kept[0] or self.queue.popleft() + self.end -> ((self.queue.popleft() + self.end))",
            ],
        ),
        ("effect dropped", ["self.tell(True) -> pass", "await self.sleep() -> pass", "del self.kept[0] -> pass"]),
        (
            "assignment dropped",
            [
                "self.position += count -> pass",
                "self.paused = True -> pass",
                "self.kept = [x for x in self.kept if x and any(self.kept)] -> pass",
            ],
        ),
        ("sign changed", ["self.position += count -> self.position -= count"]),
        ("term dropped", ["self.queue.popleft() + self.end -> (self.queue.popleft())"]),
        ("off by one", ["left - 1 -> (left)"]),
        ("min swapped", ["min(left - 1, self.end) -> max"]),
        (
            "max dropped",
            [
                "max(0, min(left - 1, self.end)) -> (0)",
                "max(0, min(left - 1, self.end)) -> (min(left - 1, self.end))",
            ],
        ),
        ("any swapped", ["any(self.kept) -> all"]),
        ("end swapped", ["self.kept[0] -> self.kept[-1]", "self.queue.popleft() -> self.queue.pop"]),
        (
            "flag flipped",
            [
                "self.paused = False -> True",
                "a default: force=False -> True",
                "return True -> False",
                "True -> False",
                "return False -> True",
                "self.paused = True -> False",
            ],
        ),
        ("exit dropped", ["break -> pass"]),
        ("exception not caught", ["(KeyError, IndexError) -> (IndexError,)", "(KeyError, IndexError) -> (KeyError,)"]),
        ("exception swallowed", ["except OSError: raise -> pass"]),
        (
            "handler dropped",
            ["except (KeyError, IndexError): self.kept = [x for x in self.kept if x and any(self.kept)] -> raise"],
        ),
        (
            "code removed",
            [
                *("6 in REFUSED -> removed", "19 in REFUSED -> removed", "-1 in REFUSED -> removed"),
                *("3 in MOVED -> removed", "5 in MOVED -> removed"),
                *("1 in code in (1, 6) -> removed", "6 in code in (1, 6) -> removed"),
            ],
        ),
        (
            "code moved",
            [
                *("6 in REFUSED -> in MOVED", "19 in REFUSED -> in MOVED", "-1 in REFUSED -> in MOVED"),
                *("3 in MOVED -> in REFUSED", "5 in MOVED -> in REFUSED"),
            ],
        ),
    ],
)  # fmt: skip
def test_a_pattern_finds_its_spots(pattern: str, expected: list[str]) -> None:
    assert sorted(found(PYTHON)[pattern]) == sorted(expected)


def test_a_field_is_replaced_by_another_of_its_type() -> None:
    replaced = found(PYTHON)["field replaced"]
    assert "self.position in if self.position < limit -> self.end" in replaced
    assert "limit in if self.position < limit -> count" in replaced
    assert not any("topic" in each or "paused" in each.partition("->")[2] for each in replaced)


def test_every_break_is_one_change_that_can_be_read() -> None:
    for site in python_sites.scan(PYTHON):
        broken = site.apply(PYTHON)
        assert broken != PYTHON
        ast.parse(broken)
        assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(PYTHON)), site.name
        assert len(site.edits) == 1 + (site.pattern == "code moved")
        start = min(edit.start for edit in site.edits)
        end = max(edit.end for edit in site.edits)
        assert broken[:start] == PYTHON[:start]
        assert broken.endswith(PYTHON[end:])


def test_messages_and_assertions_are_left_alone() -> None:
    source = '''
def f(x, now_ms, due_ms):
    """x < 1"""
    assert x < 2
    if TYPE_CHECKING:
        import x
    log.info("a", x < 3)
    if x is None:
        raise AssertionError("never")
    if now_ms < due_ms:
        g()
    if x:
        raise ValueError(x or "nothing", x + 1)
def __repr__(self):
    return self.a or self.b
'''
    assert set(found(source)) == {"condition negated", "guard dropped", "effect dropped"}
    assert found(source)["guard dropped"] == ["x -> False"]
    assert found(source)["effect dropped"] == ["g() -> pass"]


def test_letters_of_several_bytes_shift_nothing() -> None:
    source = 'def f(a):\n    return g("é", a < 1), "→", a > 2\n'
    (first, second) = (site for site in python_sites.scan(source) if site.pattern == "boundary moved")
    assert first.apply(source) == source.replace("<", "<=")
    assert second.apply(source) == source.replace(">", ">=")


def test_a_loop_that_ends_anyway_has_no_exit_to_drop() -> None:
    source = """
def f(a):
    for x in a:
        if x:
            g()
            continue
        h()
    for x in a:
        if x:
            g()
            continue
        else:
            h()
            return
"""
    assert [site.edits[0].start for site in python_sites.scan(source) if site.pattern == "exit dropped"] == [
        source.index("continue"),
        source.index("return"),
    ]


CYTHON = '''
"""1 < 2"""
from libc.stdlib cimport free
cdef extern from "native/x.h":
    int kw_less(int a) if 1 < 2

cdef enum:
    LIMIT = 1 < 2

cdef class Reader:
    cdef int at
    def take(self, int size):
        cdef int left = <int> self.end - self.at
        # size < 1
        if size < 0 or size > left:
            raise ValueError("1 < 2")
        if self.buf is NULL:
            raise MemoryError
        self.at += size
        self.done[0] = True
        pass_on(<char *> self.data, min(size,
                                       left - 1))
        free(self.data)
        while left >= 2:
            left -= 1
            if left == 4:
                self.tell()
                continue
            self.more()
        return False

cdef inline bint fits(int a) noexcept nogil:
    if not a: return True
    return a < <int>LIMIT
'''


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (
            "boundary moved",
            [
                *("size < 0 -> <=", "size > left -> >=", "left >= 2 -> >", "a < <int>LIMIT -> <="),
            ],
        ),
        ("constant moved", ["size < 0 -> 1", "left >= 2 -> 3"]),
        ("comparison negated", ["left == 4 -> !="]),
        (
            "condition negated",
            [
                "size < 0 or size > left -> not (size < 0 or size > left)",
                "left >= 2 -> not (left >= 2)",
                "not a -> a",
            ],
        ),
        ("guard dropped", ["size < 0 or size > left -> False", "left == 4 -> False", "not a -> False"]),
        (
            "side dropped",
            ["size < 0 or size > left -> (size > left)", "size < 0 or size > left -> (size < 0)"],
        ),
        (
            "effect dropped",
            [
                "pass_on(<char *>self.data, min(size, left - 1)) -> pass",
                "self.tell() -> pass",
                "self.more() -> pass",
            ],
        ),
        ("assignment dropped", ["self.at += size -> pass", "self.done[0] = True -> pass"]),
        ("sign changed", ["self.at += size -> -=", "left -= 1 -> +="]),
        ("flag flipped", ["self.done[0] = True -> False", "return False -> True"]),
        ("min swapped", ["min(size, left - 1) -> max"]),
        ("off by one", ["left - 1 -> "]),
        ("exit dropped", ["continue -> pass"]),
    ],
)
def test_a_pattern_finds_its_spots_in_cython(pattern: str, expected: list[str]) -> None:
    assert sorted(found(CYTHON, compiled_sites.scan_cython)[pattern]) == sorted(expected)


def test_cython_functions_have_their_names() -> None:
    assert {site.function for site in compiled_sites.scan_cython(CYTHON)} == {"Reader.take", "fits"}


C = """
#include "a.h" /* 1 < 2 */
#define LESS(a) \\
    (a < 1)
enum { LIMIT = 1 < 2 };
struct place { int at; };
// 1 < 2
static int put(struct place *p, const char *text, int n) {
    int room = n > 3 ? n : 3;
    char *copy = malloc(n);
    if (!copy) return -1;
    if (n < 1 || !p) {
        free(copy);
        return -1;
    }
    if (n == 2) p->at = n + 1;
    else p->at++;
    for (int i = 0; i < n; i++) tell(p, "1 < 2; }");
    while (room && p->at <= 4) {
        if (text[room] != '<') continue;
        room--;
    }
    pthread_mutex_lock(&p->lock);
again:
    return room < 5;
}
"""


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("boundary moved", ["n > 3 -> >=", "n < 1 -> <=", "i < n -> <=", "p->at <= 4 -> <", "room < 5 -> <="]),
        ("comparison negated", ["n == 2 -> !=", "text[room] != '<' -> =="]),
        ("condition negated", ["n < 1 || !p -> ! (n < 1 || !p)", "room && p->at <= 4 -> ! (room && p->at <= 4)"]),
        ("guard dropped", ["n < 1 || !p -> 0", "text[room] != '<' -> 0"]),
        (
            "side dropped",
            [
                *("n < 1 || !p -> (!p)", "n < 1 || !p -> (n < 1)"),
                *("room && p->at <= 4 -> (p->at <= 4)", "room && p->at <= 4 -> (room)"),
            ],
        ),
        ("assignment dropped", ["p->at = n + 1; -> ;", "p->at ++; -> ;"]),
        ("effect dropped", ['tell(p, "1 < 2; }"); -> ;']),
        ("off by one", ["n + 1 -> "]),
    ],
)
def test_a_pattern_finds_its_spots_in_c(pattern: str, expected: list[str]) -> None:
    assert sorted(found(C, compiled_sites.scan_c)[pattern]) == sorted(expected)


@pytest.mark.parametrize(("source", "scan"), [(CYTHON, compiled_sites.scan_cython), (C, compiled_sites.scan_c)])
def test_every_compiled_break_is_one_change(source: str, scan: Scan) -> None:
    sites = scan(source)
    assert len({site.key for site in sites}) == len(sites)
    for site in sites:
        (edit,) = site.edits
        broken = site.apply(source)
        assert broken != source
        assert broken == source[: edit.start] + edit.text + source[edit.end :]
        before = [token.text for token in tokens.words(source[: edit.start], cython=source is CYTHON)]
        assert [token.text for token in tokens.words(broken, cython=source is CYTHON)][: len(before)] == before


@pytest.fixture(scope="module")
def everything() -> list[Site]:
    return drawing.all_sites(ROOT)


def test_all_sources_of_the_program_are_read(everything: list[Site]) -> None:
    sites = everything
    assert {site.area for site in sites} == {area.name for area in rules.AREAS}
    assert len({(site.path, site.key) for site in sites}) == len(sites)
    assert {site.function for site in sites} >= {"Sequencer.outcome", "is_aborted", "kw_fast_path_take"}


# --- drawing --------------------------------------------------------------------------------------------------------


def made(area: str, pattern: str, function: str, count: int) -> list[Site]:
    return [
        Site(pattern, function, f"{function} {n}", "", (Edit(n, n + 1, ""),), Path(f"{area}.py"), area)
        for n in range(count)
    ]


def test_a_seed_draws_the_same_wherever_files_lie() -> None:
    sites = [*made("net", "guard dropped", "f", 40), *made("net", "side dropped", "g", 3), *made("wire", "x", "h", 9)]
    first = [site.key for site in drawing.draws(sites, "net", 7)]
    assert len(set(first)) == len(first) == 43
    moved = [replace(site, path=Path("elsewhere") / site.path) for site in reversed(sites)]
    assert [site.key for site in drawing.draws(moved, "net", 7)] == first
    assert [site.key for site in drawing.draws(sites, "net", 8)] != first


def test_a_frequent_pattern_hides_nothing() -> None:
    sites = [*made("net", "guard dropped", "f", 1000), *made("net", "side dropped", "g", 1)]
    early = [site for seed in range(40) for _, site in zip(range(4), drawing.draws(sites, "net", seed), strict=False)]
    assert sum(site.function == "g" for site in early) > 20


def test_shares_add_up() -> None:
    for count in (*range(1, 12), 60, 61, 100):
        assert sum(drawing.shares(count).values()) == count
    of_sixty = drawing.shares(60)
    assert 14 <= of_sixty["cython"] + of_sixty["native"] <= 16
    assert drawing.shares(5, rules.AREAS[:1]) == {"cluster": 5}


def test_a_judgement_holds_for_one_spot_and_says_when_it_is_stale(tmp_path: Path) -> None:
    sites = [*made("net", "p", "f", 2), *made("wire", "p", "f", 1), *made("net", "p", "g", 1)]
    path = tmp_path / "equivalents.toml"
    entries = [("f", "f 1", "known"), ("f", "f 0", "in two files"), ("h", "h 0", "gone"), ("g", "g 0", "also known")]
    path.write_text(
        "".join(
            f'[[equivalent]]\nfunction="{function}"\npattern="p"\nwas="{was}"\nbecomes=""\nreason="{reason}"\n'
            for function, was, reason in [*entries, entries[-1]]
        )
    )
    judgements = drawing.judged(path, sites)
    assert judgements.reasons == {("f", "p", "f 1", "", 0): "known", ("g", "p", "g 0", "", 0): "also known"}
    assert [wrong.partition(",")[0].partition(":")[0] for wrong in judgements.wrong] == [
        "ambiguous",
        "stale",
        "there twice",
    ]


def test_no_judgement_is_stale(everything: list[Site]) -> None:
    assert drawing.judged(ROOT / "scripts" / "mutants" / "equivalents.toml", everything).wrong == []


# --- trying ---------------------------------------------------------------------------------------------------------

PROGRAM = "def smaller(a, b):\n    if a < b:\n        return a\n    return b\n\n\ndef twice(a):\n    return a + a\n"
TESTS = """
import os
from kafwire.cluster.numbers import smaller, twice
def test_smaller(): assert smaller(1, 2) == 1
def test_dies(): assert smaller(1, 2) == 1 or os._exit(3)
def test_twice(): assert twice(2) == 4
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small program with tests, under version control, and the plugin that watches."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p pytest_timeout")
    root = tmp_path / "tree"
    files = {
        "kafwire/__init__.py": "",
        "kafwire/cluster/__init__.py": "",
        "kafwire/cluster/numbers.py": PROGRAM,
        "tests/unit/test_numbers.py": TESTS,
        "scripts/mutants/__init__.py": "",
        "scripts/mutants/watch.py": (ROOT / "scripts/mutants/watch.py").read_text(),
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        ".gitignore": "build/\n__pycache__/\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


Tried = tuple[trying.Trial, testmap.TestMap, list[Site]]


@pytest.fixture
def trial_in() -> Iterator[Callable[[Path], Tried]]:
    """Watches the tests of a tree; what tries its breaks, what it knows, and the breaks."""
    with contextlib.ExitStack() as stack:

        def begin(root: Path) -> Tried:
            home = root / "build" / "mutants"
            copy = stack.enter_context(copies.Copy(root, home / "copy"))
            tests = testmap.TestMap(root, home)
            tests.update(copy, (), 1)
            trial = trying.Trial(copy, tests, home, through=(), jobs=1, deadline=60)
            return trial, tests, drawing.all_sites(root, rules.AREAS[:1])

        yield begin


def test_breaks_are_tried_in_a_copy_by_the_tests_that_enter_them(tree: Path, trial_in: Callable[[Path], Tried]) -> None:
    trial, tests, sites = trial_in(tree)
    by_pattern = {site.pattern: site for site in sites}
    assert tests.failing == []
    guard = by_pattern["guard dropped"]
    likely = tests.order(guard)
    names = [f"tests/unit/test_numbers.py::test_{name}" for name in ("smaller", "dies", "twice")]
    assert sorted(likely) == sorted(names[:2])
    outcome = trial.judge(guard, whole=True)
    assert (outcome.status, outcome.test) == ("killed", likely[0])
    same = trial.judge(by_pattern["boundary moved"], whole=False)  # the smaller of two that are equal
    assert (same.status, same.ran) == ("unseen", 2)
    assert trial.judge(by_pattern["boundary moved"], whole=True).status == "survived"
    assert trial.judge(by_pattern["term dropped"], whole=True).test == names[2]
    assert (tree / "kafwire/cluster/numbers.py").read_text() == PROGRAM
    assert (tree / "build/mutants/copy/kafwire/cluster/numbers.py").read_text() == PROGRAM


def test_a_process_that_dies_of_a_break_saw_it(tree: Path, trial_in: Callable[[Path], Tried]) -> None:
    (tree / "tests/unit/test_numbers.py").write_text(TESTS.replace("def test_smaller(): assert smaller(1, 2) == 1", ""))
    trial, _, sites = trial_in(tree)
    outcome = trial.judge(next(site for site in sites if site.pattern == "guard dropped"), whole=True)
    assert (outcome.status, outcome.test) == ("killed", "tests/unit/test_numbers.py::test_dies")
    assert outcome.how == "the process ended with 3"


def test_a_test_that_fails_once_is_no_proof(tree: Path, trial_in: Callable[[Path], Tried]) -> None:
    flaky = """
import pathlib
def test_flaky() -> None:
    twice(1)
    path = pathlib.Path("count")
    n = int(path.read_text()) if path.exists() else 0
    path.write_text(str(n + 1))
    assert n != 1
"""
    (tree / "tests/unit/test_numbers.py").write_text(TESTS.replace("def test_twice(): assert twice(2) == 4", flaky))
    trial, _, sites = trial_in(tree)
    outcome = trial.judge(next(site for site in sites if site.pattern == "term dropped"), whole=True)
    assert (outcome.status, outcome.test) == ("unsteady", "tests/unit/test_numbers.py::test_flaky")


@pytest.mark.long
def test_a_test_that_fails_by_leftovers_of_others_is_no_proof(tree: Path, trial_in: Callable[[Path], Tried]) -> None:
    left = """
left = []
def test_leaves(): left.append(twice(0))
def test_needs_none(): assert twice(0) == 0 and not left
"""
    (tree / "tests/unit/test_numbers.py").write_text(TESTS.replace("def test_twice(): assert twice(2) == 4", left))
    trial, tests, sites = trial_in(tree)
    tests.failing.clear()  # as if it had been watched by itself
    site = next(site for site in sites if site.pattern == "term dropped")
    assert [test.rpartition("::")[2] for test in tests.order(site)] == ["test_leaves", "test_needs_none"]
    assert trial.judge(site, whole=False).status == "unseen"


def test_a_test_that_fails_without_any_break_is_not_asked(tree: Path, trial_in: Callable[[Path], Tried]) -> None:
    (tree / "tests/unit/test_numbers.py").write_text(TESTS + "def test_never(): assert twice(2) == 5\n")
    trial, tests, sites = trial_in(tree)
    assert tests.failing == ["tests/unit/test_numbers.py::test_never"]
    assert (
        trial.judge(next(site for site in sites if site.pattern == "boundary moved"), whole=True).status == "survived"
    )


def test_a_mistake_that_cannot_be_imported_is_drawn_again(tree: Path, trial_in: Callable[[Path], Tried]) -> None:
    trial, _, sites = trial_in(tree)
    site = replace(sites[0], edits=(Edit(0, 0, "import nothing_like_it\n"),))
    outcome = trial.judge(site, whole=True)
    assert outcome.status == "not built"
    assert "nothing_like_it" in outcome.how


def test_a_changed_test_file_is_watched_again(tree: Path, trial_in: Callable[[Path], Tried]) -> None:
    trial_in(tree)
    path = tree / "tests/unit/test_numbers.py"
    path.write_text(path.read_text().replace("test_twice", "test_double"))
    _, tests, _ = trial_in(tree)
    assert sorted(tests.tests) == [f"tests/unit/test_numbers.py::test_{name}" for name in ("dies", "double", "smaller")]


def test_a_header_is_compiled_with_its_includers(tmp_path: Path) -> None:
    files = {
        "kafwire/native/low.h": "",
        "kafwire/native/high.h": '#include "low.h"\n',
        "kafwire/native/high.c": '#include "high.h"\n',
        "kafwire/native/other.c": "",
        "kafwire/_a.pxd": 'cdef extern from "native/high.h" nogil:\n    pass\n',
        "kafwire/_b.pyx": "from kafwire._a cimport f\n",
        "kafwire/_c.pyx": "from kafwire._b import f\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    seen = {path.name for path in copies.includers(tmp_path, Path("kafwire/native/low.h"))}
    assert seen == {"high.h", "high.c", "_a.pxd", "_a.pyx", "_b.pyx"}


def test_a_report_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (site,) = made("net", "p", "f", 1)
    path = tmp_path / "seed-1.json"
    one = report.Report(path, 1, 2, ["net"], "digest")
    one.add(site, trying.Outcome("survived"), "the patch", "tests")
    again = report.Report(path, 1, 2, ["net"], "digest")
    again.load()
    known = again.known(site)
    assert known is not None
    assert known["status"] == "survived"
    assert json.loads(path.read_text())["summary"]["survived"] == 1
    assert "the patch" in path.with_suffix(".txt").read_text()
    other = report.Report(path, 1, 2, ["net"], "another program")
    other.load()
    assert other.known(site) is None


SETUP = """
from Cython.Build import cythonize
from setuptools import Extension, setup
setup(ext_modules=cythonize([Extension("kafwire._low", ["kafwire/_low.pyx"])], build_dir="build/cython"))
"""
LOW = "def low(int a, int b):\n    if a < b:\n        return a\n    return b\n"
LOW_TESTS = "from kafwire._low import low\ndef test_low(): assert low(1, 2) == 1 and low(2, 1) == 1\n"


@pytest.mark.long
def test_compiled_breaks_are_built_in_the_copy_and_mended(
    tree: Path, trial_in: Callable[[Path], Tried], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"setup.py": SETUP, "kafwire/_low.pyx": LOW, "tests/unit/test_low.py": LOW_TESTS}
    for name, text in files.items():
        (tree / name).write_text(text)
    with (tree / ".gitignore").open("a") as file:
        file.write("*.so\n")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (built,) = tree.glob("kafwire/*.so")
    trial, _, _ = trial_in(tree)
    compiled = next(area for area in rules.AREAS if area.name == "cython")
    by_pattern = {site.pattern: site for site in drawing.all_sites(tree, [compiled])}
    outcome = trial.judge(by_pattern["guard dropped"], whole=False)
    assert (outcome.status, outcome.test) == ("killed", "tests/unit/test_low.py::test_low")
    # The C file of one break is not taken for that of the next.
    made = tree / "build" / "mutants" / "copy" / "build" / "cython" / "kafwire" / "_low.c"
    later = time.time() + 3600
    os.utime(made, (later, later))
    monkeypatch.setattr(time, "time", lambda: later)
    outcome = trial.judge(by_pattern["boundary moved"], whole=False)
    assert (outcome.status, outcome.test) == ("unseen", "")  # the smaller of two that are equal
    wrong = replace(by_pattern["guard dropped"], edits=(Edit(0, 0, "no such word\n"),))
    assert trial.judge(wrong, whole=False).status == "not built"
    copied = tree / "build" / "mutants" / "copy" / "kafwire" / built.name
    assert copied.read_bytes() == built.read_bytes()
