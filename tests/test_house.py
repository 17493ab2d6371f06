"""House rules that linters cannot see: layers among the extensions, purity, stubs, what `import kafwire` costs, and how
tests wait and take their chance."""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kafwire"

# The layers of the extensions. Inside a group everything may use everything; a group uses the groups named after it.
GROUPS = {
    "buffers": ["_buffer"],
    "records": ["_libraries", "_compress", "_codec", "_legacy", "_arrow", "_encode", "_records", "_text"],
    "messages": ["_layout", "_compose", "_message"],
    "frames": ["_frame"],
    "io": ["_io"],
    "data plane": ["_fetch", "_slices", "_delivery", "_partition", "_express", "_produce"],
}
USES = {
    "buffers": set[str](),
    "records": {"buffers"},
    "messages": {"buffers"},
    "frames": {"buffers"},
    "io": {"buffers", "frames"},
    "data plane": {"buffers", "records", "messages", "frames", "io"},
    "kafwire/wire": {"buffers", "frames"},
    "kafwire/logic": {"records"},
    "kafwire/protocol": {"buffers", "messages"},
}
# The Python modules that an extension may import: those that import nothing themselves; and, when it is first asked for
# something of pyarrow's, what knows how to make it.
BELOW_EXTENSIONS = {"errors", "structs"}
ALSO_USES = {"_records": {"arrow"}}

# An import of one of these hides time, chance or the outside world in what has to be told of them.
IMPURE_MODULES = {
    *(
        "asyncio",
        "concurrent",
        "logging",
        "multiprocessing",
        "os",
        "random",
        "secrets",
        "select",
        "selectors",
        "signal",
    ),
    *("socket", "ssl", "subprocess", "threading", "time"),
}
IMPURE_CALLS = {"now", "utcnow", "today", "uuid1", "uuid4", "open", "print", "input"}
PURE = ["wire", "logic", "protocol"]
PURE_IN_TESTING = [f"faults/{name}.py" for name in ("conversation", "kinds", "line", "record_spans", "script")]

HEAVY_MODULES = {
    *("asyncio", "concurrent.futures", "crc32c", "cramjam", "isal", "logging", "lz4", "numpy", "pandas", "pyarrow"),
    *("pyspark", "ssl", "zstandard"),
}
IMPORT_LIMIT_MS = 40
LONG_FILE_LINES = 450

# What tests do not call, as it is written there, and why. `*.` is anything before the last dot, `()` without arguments.
NOT_IN_TESTS = {
    "random.SystemRandom": "seeds come from tests/seeds.py: a run can be repeated",
    "random.Random()": "seeds come from tests/seeds.py: a run can be repeated",
    "random.seed()": "seeds come from tests/seeds.py: a run can be repeated",
    "secrets.*": "seeds come from tests/seeds.py: a run can be repeated",
    "os.urandom": "seeds come from tests/seeds.py: a run can be repeated",
    "time.sleep": "wait for what can be seen: tests/waiting.py",
    "*.join()": "a wait has a deadline: tests/waiting.py",
    "*.wait()": "a wait has a deadline: tests/waiting.py",
    "*.acquire()": "a wait has a deadline",
    "*.communicate()": "a wait has a deadline",
}
# And where brokers and sockets are real. In the simulated world time is made up, and what is asked for is done already.
NOT_IN_REAL_TIME = {
    "*.result()": "a wait has a deadline",
    "asyncio.sleep": "wait for what can be seen, under asyncio.timeout",
}
REAL_TIME = ("tests/integration/", "tests/spark/", "tests/conformance/")
# Where they are right: file, call, how often, why.
RIGHT_IN_TESTS = [
    ("tests/seeds.py", "random.SystemRandom", 1, "the one place that draws"),
    ("tests/waiting.py", "time.sleep", 1, "the one place that looks again and again"),
    ("tests/waiting.py", "*.wait()", 1, "under asyncio.timeout"),
    ("tests/unit/test_sender.py", "*.wait()", 1, "of the simulated world's loop, which has a limit"),
    ("tests/unit/test_accumulator_interleaved.py", "*.wait()", 1, "its own, with a deadline"),
    ("tests/integration/scripted_broker.py", "*.wait()", 1, "a broker that says nothing until it is stopped"),
    (
        "tests/integration/test_three_acks.py",
        "time.sleep",
        1,
        "what waits in a paused node's socket cannot be seen",
    ),
    ("tests/integration/test_async_producer.py", "*.result()", 2, "an awaitable's, which does not wait"),
    ("tests/integration/test_async_producer.py", "asyncio.sleep", 2, "until it is cancelled, under a timeout"),
    ("tests/integration/test_async_scan.py", "asyncio.sleep", 1, "cancelled at various moments"),
    ("tests/integration/test_consumer_claims.py", "asyncio.sleep", 1, "cancelled at random moments"),
    ("tests/integration/test_consumer_claims.py", "time.sleep", 2, "keeps a thread busy, so that another is first"),
    (
        "tests/integration/test_produce_faults.py",
        "*.result()",
        1,
        "without a timeout is what it tests; a thread's end is",
    ),
    ("tests/integration/test_producing_on_broker.py", "asyncio.sleep", 1, "until it is cancelled, under a timeout"),
    ("tests/integration/test_serializers.py", "asyncio.sleep", 1, "until it is cancelled"),
    (
        "tests/integration/test_topic_creation.py",
        "time.sleep",
        1,
        "sends again and again, for as long as nothing may come",
    ),
    (
        "tests/integration/test_transaction_faults.py",
        "time.sleep",
        2,
        "a held request's time; a kill at a random moment",
    ),
]

IMPORT = re.compile(r"^\s*(?:from\s+kafwire\.(\w+)\S*\s+c?import|c?import\s+kafwire\.(\w+))", re.MULTILINE)


def extensions() -> list[str]:
    return sorted(file.stem for file in PACKAGE.glob("_*.pyx"))


def group_of(extension: str) -> str:
    found = [group for group, members in GROUPS.items() if extension in members]
    assert found, f"{extension}.pyx has no place in GROUPS above"
    return found[0]


def imported(file: Path) -> set[str]:
    """Modules of kafwire, by their first name, that a Python or Cython file imports or cimports."""
    return {first or second for first, second in IMPORT.findall(file.read_text())}


def source_files() -> Iterator[Path]:
    """Text files that are, or are about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        file = ROOT / name
        if file.is_file() and b"\0" not in file.read_bytes()[:8192]:
            yield file


@pytest.mark.parametrize("extension", extensions())
def test_extension_uses_lower_layers_only(extension: str) -> None:
    group = group_of(extension)
    for suffix in (".pyx", ".pxd"):
        file = PACKAGE / f"{extension}{suffix}"
        for name in imported(file) if file.exists() else ():
            if name.startswith("_"):
                assert group_of(name) in {group, *USES[group]}, f"{file.name} may not use {name}"
            else:
                allowed = BELOW_EXTENSIONS | ALSO_USES.get(extension, set())
                assert name in allowed, f"{file.name} may not use kafwire.{name}"


@pytest.mark.parametrize("folder", PURE)
def test_pure_packages_use_only_extensions_without_sockets(folder: str) -> None:
    for file in (PACKAGE / folder).rglob("*.py"):
        used = {group_of(name) for name in imported(file) if name.startswith("_")}
        assert used <= USES[f"kafwire/{folder}"], f"{file.relative_to(ROOT)} uses {used}"


@pytest.mark.parametrize(
    "pattern", [f"{folder}/**/*.py" for folder in PURE] + [f"testing/{f}" for f in PURE_IN_TESTING]
)
def test_pure_files_take_time_chance_and_bytes_as_arguments(pattern: str) -> None:
    found = list(PACKAGE.glob(pattern))
    assert found
    for file in found:
        for node in ast.walk(ast.parse(file.read_text())):
            where = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            wrong = {name for name in modules if name.partition(".")[0] in IMPURE_MODULES}
            assert not wrong, f"{where} imports {wrong}"
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                assert name not in IMPURE_CALLS, f"{where} calls {name}()"


def test_every_extension_is_built_and_typed() -> None:
    listed = set(re.findall(r'^    "(_\w+)":', (ROOT / "setup.py").read_text(), re.MULTILINE))
    assert listed == set(extensions())
    missing = [name for name in extensions() if not (PACKAGE / f"{name}.pyi").exists()]
    assert not missing, f"without a .pyi: {missing}"


@pytest.mark.parametrize("extension", extensions())
def test_stub_and_extension_have_the_same_names(extension: str) -> None:
    module = importlib.import_module(f"kafwire.{extension}")
    declared: dict[str, set[str]] = {}
    for node in ast.parse((PACKAGE / f"{extension}.pyi").read_text()).body:
        if isinstance(node, ast.ClassDef):
            body = node.body
            names = {item.name for item in body if isinstance(item, ast.FunctionDef)}
            names |= {
                item.target.id for item in body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            }
            declared[node.name] = names
        elif isinstance(node, ast.FunctionDef):
            declared[node.name] = set()
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            declared[node.target.id] = set()
    for name, members in declared.items():
        if name.startswith("_") and not hasattr(module, name):
            continue  # a type variable or an alias of the stub's own
        assert hasattr(module, name), f"{extension}.pyi has {name}, the extension has not"
        members -= {"__buffer__"}  # visible from Python 3.12 on
        absent = [member for member in members if not hasattr(getattr(module, name), member)]
        assert not absent, f"{extension}.pyi: {name} lacks {absent}"
    exported = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and callable(value)
        # a class that only Cython code can do anything with needs no stub
        and not (isinstance(value, type) and all(member.startswith("_") for member in vars(value)))
    }
    assert exported <= set(declared), f"not in {extension}.pyi: {sorted(exported - set(declared))}"


def test_no_machine_paths_registry_addresses_or_leftovers() -> None:
    wrong = re.compile(
        r"(?<![\w.])[/](?:root|work|home/\w+|Users/\w+)/"
        r"|repo1?[.]maven|files[.]pythonhosted|pypi[.]org|registry[.]npmjs|deb[.]debian"
        r"|\b(?:TO"
        r"DO|FIX"
        r"ME)\b"
    )
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in source_files()
        if file != Path(__file__) and (match := wrong.search(file.read_text(errors="replace")))
    ]
    assert not found, "\n".join(found)


def test_import_is_light_and_starts_nothing() -> None:
    program = (
        "import json, os, sys, time; before = set(sys.modules); start = time.perf_counter(); import kafwire;"
        "spent = time.perf_counter() - start;"
        "print(json.dumps([spent * 1000, sorted(set(sys.modules) - before), len(os.listdir('/proc/self/task'))]))"
    )
    command = [sys.executable, "-c", program]
    spent = []
    for _ in range(7):
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        milliseconds, modules, threads = json.loads(answer.stdout)
        spent.append(milliseconds)
        assert not HEAVY_MODULES & set(modules)
        assert threads == 1
    assert min(spent) <= IMPORT_LIMIT_MS, f"import kafwire: {sorted(spent)} ms"


def test_long_files_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A note for the reader of the log, not a failure: a long file may have its reasons."""
    code = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".java"}
    counts = {file: len(file.read_text().splitlines()) for file in source_files() if file.suffix in code}
    with capsys.disabled():
        for file, lines in sorted(counts.items()):
            if lines > LONG_FILE_LINES:
                print(f"\nlong file: {file.relative_to(ROOT)}, {lines} lines", end="")


def calls(file: Path) -> Iterator[tuple[str, bool]]:
    """What is called as something's attribute, as it is written, and whether without arguments; no `sleep(0)`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if not (node.func.attr == "sleep" and isinstance(first, ast.Constant) and first.value == 0):
                yield ast.unparse(node.func), not node.args and not node.keywords


def is_meant(rule: str, called: str, *, is_bare: bool) -> bool:
    name = rule.removesuffix("()")
    if rule.endswith("()") and not is_bare:
        return False
    if name.startswith("*."):
        return called.endswith(name[1:])
    return called.startswith(name[:-1]) if name.endswith("*") else called == name


def test_tests_take_chance_from_one_place_and_wait_with_a_deadline() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for file in sorted((ROOT / "tests").rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        rules = NOT_IN_TESTS | (NOT_IN_REAL_TIME if name.startswith(REAL_TIME) else {})
        for called, is_bare in calls(file):
            found.update((name, rule) for rule in rules if is_meant(rule, called, is_bare=is_bare))
    right = {(name, rule): count for name, rule, count, _ in RIGHT_IN_TESTS}
    why = NOT_IN_TESTS | NOT_IN_REAL_TIME
    wrong = [
        f"{place}, {count} times: {why[place[1]]}" for place, count in found.items() if count > right.get(place, 0)
    ]
    assert not wrong, "\n".join(wrong)
    stale = [place for place, count in right.items() if found[place] < count]
    assert not stale, f"RIGHT_IN_TESTS lists what is not there: {stale}"
