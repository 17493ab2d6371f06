"""Rules of the architecture that linters cannot check: layers of compiled modules, purity, stubs, the cost of `import
kafwire`; and how tests wait and take their chance."""

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafwire.errors import ErrorCode
from scripts.coverage import NOT, TESTS
from scripts.run_tests import EVERYDAY, ONLY, SHARDS, WITHOUT
from scripts.tree import COMPILED, imports_of
from tests.support.import_circles import circles, imports
from tests.support.parts import IN_TURN

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kafwire"

# Layers and pure modules are those of import-linter, which sees Python only; here compiled modules keep to the same.
_CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
LAYERS = [re.findall(r"kafwire\.\w+", layer) for layer in _CONTRACTS["Imports go down the layers only"]["layers"][::-1]]
PURE = _CONTRACTS["What decides takes time, chance and bytes as arguments"]["source_modules"]
# The codec lies beside the package whose part it is.
PART_OF = {"kafwire._codec": "kafwire.records", "kafwire._json_columns": "kafwire.json_columns"}
# Compiled modules that pure modules may use: none of it has a socket, a clock or a lock that is waited for.
PURE_COMPILED = {"kafwire.json_columns", "kafwire.memory", "kafwire.records", "kafwire.protocol"}
# When it is first asked for something of pyarrow's, it imports what knows how to make it.
ALSO_USES = {"kafwire.records._records": {"kafwire.arrow", "kafwire.records.html"}}

# Declarations that compiled modules cimport, without a module of their name.
DECLARATIONS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in PACKAGE.rglob("*.pxd")
    if not path.with_suffix(".pyx").exists()
}

# Where documented modules were before, and where they are.
ALIASES = {"kafwire.structs": "kafwire.types", "kafwire.wire.dump": "kafwire.protocol.dump"}

# An import of one of these hides time, chance or the outside world in values that have to be passed.
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
PURE_IN_TESTING = [f"faults/{name}.py" for name in ("conversation", "kinds", "line", "record_spans", "script")]
# Of the embedded broker all but what drives it, reads files or logs; `sasl_server` is given its `Random`.
NOT_PURE_IN_BROKER = {
    *("appending", "controls", "data_folder", "embedded", "embedded_security", "files", "frames", "log"),
    *("regular_expressions", "sasl_server", "server_tls", "socket_server", "state", "storage"),
    # The room's files that clusters of real brokers use too.
    *("ports", "certificate_authority", "certificates", "cluster_security", "tokens"),
}
PURE_IN_BROKER = [
    str(file.relative_to(PACKAGE))
    for file in sorted((PACKAGE / "broker").rglob("*.py"))
    if file.stem not in NOT_PURE_IN_BROKER
]

# Names of Kafka's error codes: the protocol's, and kafwire's own.
CODE_NAMES = {*ErrorCode.__members__, "UNKNOWN_TOPIC"} - {"NONE"}

HEAVY_MODULES = {
    *("asyncio", "concurrent.futures", "crc32c", "cramjam", "dask", "duckdb", "isal", "logging", "lz4", "numpy"),
    *("pandas", "polars", "pyarrow", "pyspark", "ssl", "zstandard"),
}
IMPORT_LIMIT_MS = 10
LONG_FILE_LINES = 450

# Calls that tests do not make, as written, and why. `*.` is anything before the last dot, `()` without arguments.
NOT_IN_TESTS = {
    "random.SystemRandom": "seeds come from tests/support/seeds.py: a run can be repeated",
    "random.Random()": "seeds come from tests/support/seeds.py: a run can be repeated",
    "random.seed()": "seeds come from tests/support/seeds.py: a run can be repeated",
    "secrets.*": "seeds come from tests/support/seeds.py: a run can be repeated",
    "os.urandom": "seeds come from tests/support/seeds.py: a run can be repeated",
    "time.sleep": "wait for what can be seen: tests/support/deadlines.py",
    "*.join()": "a wait has a deadline: tests/support/deadlines.py",
    "*.wait()": "a wait has a deadline: tests/support/deadlines.py",
    "*.acquire()": "a wait has a deadline",
    "*.communicate()": "a wait has a deadline",
}
# And where brokers and sockets are real. In the simulated world time is made up, and a wait ends at once.
NOT_IN_REAL_TIME = {
    "*.result()": "a wait has a deadline",
    "asyncio.sleep": "wait for what can be seen, under asyncio.timeout",
}
REAL_TIME = ("tests/integration/", "tests/spark/", "tests/conformance/")
# Packages of tests that tests import: helpers, and programs, which are tested themselves.
IMPORTED_OF_TESTS = {"support", "soak", "scenarios"}
# The private fields that tests still set, by file.
PRIVATE_FIELDS_SET: dict[str, list[str]] = {
    "tests/unit/producer/buffer/test_batch_delivery.py": [
        "_accumulator",
        "_closed",
        "_config",
        "_core",
        "_engine",
        "_loops",
    ],
}
# No test, but a program that runs for hours and prints its seed.
PROGRAMS = ("tests/soak/",)
# Where they are right: file, call, how often, why.
RIGHT_IN_TESTS = [
    ("tests/support/seeds.py", "random.SystemRandom", 1, "the one place that draws"),
    ("tests/support/deadlines.py", "time.sleep", 1, "the one place that looks again and again"),
    ("tests/support/deadlines.py", "*.wait()", 1, "under asyncio.timeout"),
    ("tests/unit/producer/send/test_dispatcher.py", "*.wait()", 1, "of the simulated world's loop, which has a limit"),
    ("tests/unit/producer/buffer/test_rows_interleaved.py", "*.wait()", 1, "its own, with a deadline"),
    ("tests/support/broker/scripted_broker.py", "*.wait()", 1, "a broker that says nothing until it is stopped"),
    (
        "tests/integration/cluster/test_three_acks.py",
        "time.sleep",
        1,
        "requests in a paused node's socket cannot be seen",
    ),
    ("tests/integration/broker/test_broker_files.py", "time.sleep", 1, "kills at random moments"),
    ("tests/integration/broker/test_broker_groups.py", "time.sleep", 1, "for as long as no rebalance may come"),
    ("tests/integration/broker/test_broker_sasl.py", "time.sleep", 1, "until a session has ended"),
    (
        "tests/integration/broker/test_broker_tls.py",
        "time.sleep",
        2,
        "a reader that is slow; what has been read of half a request cannot be seen",
    ),
    ("tests/unit/broker/groups/test_classic_group.py", "*.join()", 2, "a member's request"),
    ("tests/integration/producer/test_async_producer.py", "*.result()", 2, "an awaitable's, which does not wait"),
    ("tests/integration/producer/test_async_producer.py", "asyncio.sleep", 2, "until it is cancelled, under a timeout"),
    ("tests/integration/consumer/test_async_scan.py", "asyncio.sleep", 1, "cancelled at various moments"),
    (
        "tests/integration/stream/test_stream_groups.py",
        "asyncio.sleep",
        2,
        "orders come one by one and take time",
    ),
    ("tests/integration/consumer/test_consumer_claims.py", "asyncio.sleep", 1, "cancelled at random moments"),
    (
        "tests/integration/consumer/test_consumer_claims.py",
        "time.sleep",
        2,
        "keeps a thread busy: another is first",
    ),
    (
        "tests/integration/producer/test_produce_faults.py",
        "*.result()",
        1,
        "without a timeout is what it tests; a thread's end is",
    ),
    (
        "tests/integration/producer/test_producing_on_broker.py",
        "asyncio.sleep",
        1,
        "until it is cancelled, under a timeout",
    ),
    ("tests/integration/producer/test_serializers.py", "asyncio.sleep", 1, "until it is cancelled"),
    (
        "tests/integration/producer/test_topic_creation.py",
        "time.sleep",
        1,
        "sends again and again, for as long as nothing may come",
    ),
    (
        "tests/integration/producer/test_transaction_faults.py",
        "time.sleep",
        2,
        "a held request's time; a kill at a random moment",
    ),
]


def level(module: str) -> int:
    """The layer of a module: 0 is the lowest."""
    package = package_of(module)
    found = [number for number, layer in enumerate(LAYERS) if package in layer]
    assert found, f"{package} has no place in the layers of pyproject.toml"
    return found[0]


def package_of(module: str) -> str:
    return PART_OF.get(module, ".".join(module.split(".")[:2]))


def files_of(module: str) -> list[Path]:
    """The Python files of a module, or of a package and all in it."""
    path = ROOT / Path(*module.split("."))
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


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


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_module_uses_lower_layers_only(name: str) -> None:
    for used in COMPILED[name].imports - ALSO_USES.get(name, set()):
        same = package_of(used) == package_of(name)
        assert same or level(used) < level(name), f"{name} may not use {used}"
        if used not in COMPILED:
            light = {
                f"kafwire.{each}"
                for each in (
                    *("errors", "handles", "peer_names", "runtime.log", "runtime.patched", "runtime.stream_threads"),
                    *("secret", "types"),
                )
            }
            is_declaration = used in DECLARATIONS or used.startswith("kafwire.protocol.api.")  # a message's versions
            assert is_declaration or used in light, f"{name} is compiled and may not use {used}"


def test_modules_import_in_no_circle() -> None:
    """Type imports, imports inside functions and cimports count."""
    found = [sorted(circle) for circle in circles(imports())]
    assert not found, (
        f"these modules import each other: {found}. Declare a protocol in the lower module, or move the shared fact "
        "down: an import inside a function or under TYPE_CHECKING is part of a circle too"
    )


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        pytest.param("kafwire.broker.frames", "kafwire.errors", id="at the top"),
        pytest.param("kafwire.broker.frames", "kafwire.broker.dispatch", id="a module of a package"),
        pytest.param("kafwire.cli.broker", "kafwire.broker.security.security", id="inside a function"),
        pytest.param("kafwire.testing", "kafwire.testing.cluster", id="under TYPE_CHECKING"),
        pytest.param("kafwire.records._records", "kafwire.memory._buffer", id="a cimport"),
    ],
)
def test_imports_are_found(importer: str, imported: str) -> None:
    assert imported in imports()[importer]


@pytest.mark.parametrize(
    ("uses", "found"),
    [
        ({"a": "b", "b": "c", "c": ""}, []),
        ({"a": "b", "b": "a", "c": "a"}, [{"a", "b"}]),
        ({"a": "b", "b": "c", "c": "ad", "d": ""}, [{"a", "b", "c"}]),
        ({"a": "b", "b": "a", "c": "bd", "d": "c"}, [{"a", "b"}, {"c", "d"}]),
    ],
)
def test_circles_are_found(uses: dict[str, str], found: list[set[str]]) -> None:
    assert circles(uses) == found


def test_the_picture_of_the_tree_is_the_tree() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    picture = text.partition("```\n")[2].partition("```")[0]
    drawn = Counter[str]()
    for line in picture.splitlines():
        names = line.partition("; api/, a file")[0].partition(": old names")[0]
        drawn.update(re.findall(r"\w+(?![\w/])", names))
        drawn.update(f"{name}/" for name in re.findall(r"(\w+)/", line))
    folders = {path.parent for suffix in ("py", "c") for path in PACKAGE.rglob(f"*.{suffix}")}
    inner = {PACKAGE / "testing" / name for name in ("faults", "history", "fuzzer", "strategies")}
    inner |= {PACKAGE / "protocol" / "api", PACKAGE / "broker" / "api"}
    files = {
        path.with_suffix("")
        for suffix in ("py", "pyx", "c", "h")
        for path in PACKAGE.rglob(f"*.{suffix}")
        if path.parent not in inner and (path.stem != "__init__" or path.parent == PACKAGE)
    }
    assert drawn == Counter(f"{path.name}/" for path in folders) + Counter(path.name for path in files)
    marked = set(re.findall(r"(\w+)\*", picture))
    pure = {file.stem for module in PURE for file in files_of(module) if file.parent not in inner}
    assert marked == pure - {"__init__"}


def test_the_table_of_packages_has_each_of_the_tree() -> None:
    _, header, table = (ROOT / "docs" / "design.md").read_text().partition("| package | modules |\n")
    assert header
    named = {
        name for line in table.partition("\n\n")[0].splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"wire"}  # an old name
    assert packages <= named


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_take_time_chance_and_bytes_as_arguments(module: str) -> None:
    files = files_of(module)
    assert files
    for file in files:
        compiled = {package_of(used) for used in imports_of(file.read_text()) if used in COMPILED}
        assert compiled <= PURE_COMPILED, f"{file.relative_to(ROOT)} uses {compiled - PURE_COMPILED}"
        check_purity(file)


@pytest.mark.parametrize(
    "name", [name for name in COMPILED if package_of(name) in {"kafwire.consumer", "kafwire.producer"}]
)
def test_compiled_modules_of_clients_take_time_and_chance_from_the_engine(name: str) -> None:
    text = "".join((ROOT / file).read_text() for file in COMPILED[name].files)
    assert not re.findall(r"^\s*(?:import|from) (?:time|random|socket)\b", text, flags=re.MULTILINE)
    assert "kafwire.runtime._io" not in COMPILED[name].imports, "the native I/O thread is behind the interfaces"


@pytest.mark.parametrize("name", [*(f"testing/{name}" for name in PURE_IN_TESTING), *PURE_IN_BROKER])
def test_pure_files_of_the_broker_and_of_testing_take_time_and_chance_as_arguments(name: str) -> None:
    check_purity(PACKAGE / name)


def test_the_brokers_files_are_found() -> None:
    assert len(PURE_IN_BROKER) > 100


def check_purity(file: Path) -> None:
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


def test_every_compiled_module_has_a_stub_a_name_of_its_own_and_its_c_sources() -> None:
    names = [module.pyx.stem for module in COMPILED.values()]
    assert len(set(names)) == len(names), "KAFWIRE_EXT chooses by these names"
    for module in COMPILED.values():
        assert (ROOT / module.pyx).with_suffix(".pyi").exists(), f"{module.pyx} has no .pyi"
        missing = [str(path) for path in module.c_sources if not (ROOT / path).exists()]
        assert not missing, f"{module.pyx} links missing sources: {missing}"
    linked = {path for module in COMPILED.values() for path in module.c_sources}
    unused = {path.relative_to(ROOT) for path in PACKAGE.rglob("*.c")} - linked
    assert not unused, f"linked by no extension: {unused}"


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_module_can_be_the_first_that_is_imported(name: str) -> None:
    code = f"import sys, {name}; print(*{{'asyncio', 'ssl', 'socket', 'pyarrow'}} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "\n"), ran.stderr + ran.stdout


def test_no_variable_of_ours_stands_in_two_extensions() -> None:
    """Each would have a value of its own."""
    if shutil.which("nm") is None:
        pytest.fail("no nm, which comes with every C compiler: install the Debian package binutils")
    declared = re.compile(r"^(?:static )?(?!typedef|return)[\w ]+[ *](\w+)(?:\[.*\])?(?: = .*)?;", re.MULTILINE)
    ours = {name for path in PACKAGE.rglob("*.c") for name in declared.findall(path.read_text())}
    found: dict[str, list[str]] = {}
    for module in COMPILED.values():
        built = importlib.import_module(module.name).__file__
        assert built is not None
        said = subprocess.run(["nm", built], capture_output=True, text=True, check=True).stdout
        for symbol in set(re.findall(r" [bBdD] (\w+)(?:\.\d+)?$", said, re.MULTILINE)) & ours:
            found.setdefault(symbol, []).append(module.name)
    assert "all_pools" in found
    twice = {symbol: names for symbol, names in found.items() if len(names) > 1}
    assert not twice


@pytest.mark.parametrize("old", ALIASES)
def test_old_names_of_modules_go_on(old: str) -> None:
    module, new = importlib.import_module(old), importlib.import_module(ALIASES[old])
    for name in new.__all__:
        assert getattr(module, name) is getattr(new, name)


@pytest.mark.parametrize("name", COMPILED)
def test_stub_and_compiled_module_have_the_same_names(name: str) -> None:
    module = importlib.import_module(name)
    stub = (ROOT / COMPILED[name].pyx).with_suffix(".pyi")
    declared: dict[str, set[str]] = {}
    for node in ast.parse(stub.read_text()).body:
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
    for item, members in declared.items():
        if item.startswith("_") and not hasattr(module, item):
            continue  # a type variable or an alias of the stub's own
        assert hasattr(module, item), f"{stub.name} has {item}, the extension has not"
        members -= {"__buffer__"}  # visible from Python 3.12 on
        absent = [member for member in members if not hasattr(getattr(module, item), member)]
        assert not absent, f"{stub.name}: {item} lacks {absent}"
    exported = {
        item
        for item, value in vars(module).items()
        if not item.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and callable(value)
        # a class that only Cython code can do anything with needs no stub
        and not (isinstance(value, type) and all(member.startswith("_") for member in vars(value)))
    }
    assert exported <= set(declared), f"not in {stub.name}: {sorted(exported - set(declared))}"


def numbers_in(node: ast.AST) -> bool:
    """True if a number other than 0 is written there, alone or among others."""
    if isinstance(node, ast.UnaryOp):
        return numbers_in(node.operand)
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        return any(map(numbers_in, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value != 0


def name_of(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def named_codes(tree: ast.AST) -> Iterator[int]:
    """The lines where a number gets the name of an error code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and numbers_in(node.value):
            for target in node.targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                if any(name_of(name).lstrip("_") in CODE_NAMES for name in names):
                    yield node.lineno


def bare_codes(tree: ast.AST) -> Iterator[int]:
    """The lines where an error code is named, compared or made by its number. 0, no error, is as good as false."""
    yield from named_codes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(re.search(r"(^|_)code$", name_of(side)) for side in sides) and any(map(numbers_in, sides)):
                yield node.lineno
        elif isinstance(node, ast.Call):
            made = node.args[:1] if name_of(node.func) == "broker_error" else []
            made += [each.value for each in node.keywords if each.arg == "error_code"]
            if any(map(numbers_in, made)):
                yield node.lineno


def test_error_codes_have_their_numbers_in_one_place() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file != PACKAGE / "error_codes.py"
        for line in bare_codes(ast.parse(file.read_text()))
    ]
    found += [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for line in named_codes(ast.parse(file.read_text()))
    ]
    named = re.compile(rf"^\s*_?({'|'.join(CODE_NAMES)}) = -?\d|error_code [!=]= -?[1-9]", re.MULTILINE)
    found += [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for suffix in ("pyx", "pxd", "h", "c")
        for file in sorted(PACKAGE.rglob(f"*.{suffix}"))
        for match in named.finditer(file.read_text())
    ]
    assert not found, f"write ErrorCode.<name>: {found}"


@pytest.mark.parametrize(
    ("code", "is_bare"),
    [
        ("UNKNOWN_TOPIC = 3", True),
        ("A, _NOT_COORDINATOR = 1, 2", True),
        ("if part.error_code == -1: pass", True),
        ("ok = code in (0, 5)", True),
        ("raise broker_error(3, 'x')", True),
        ("Topic(error_code=3)", True),
        ("if part.error_code == 0: pass", False),
        ("if code == ErrorCode.NOT_COORDINATOR: pass", False),
        ("LIMIT = 3", False),
    ],
)
def test_a_bare_error_code_is_found(code: str, is_bare: bool) -> None:
    assert bool([*bare_codes(ast.parse(code))]) is is_bare


def unnamed_requests(tree: ast.AST) -> Iterator[int]:
    """The lines where an error is made from a code of a response, and not by which request: `AuthorizationError` needs
    it. A code that is written down is none of these.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) == "broker_error" and node.args:
            is_fixed = isinstance(node.args[0], ast.Attribute) and name_of(node.args[0].value) == "ErrorCode"
            if not is_fixed and not any(each.arg == "api" for each in node.keywords):
                yield node.lineno


def test_errors_of_responses_name_the_request() -> None:
    # Errors without an ACL behind them: before authentication, and an error that is raised again.
    exempt = {"cluster/authentication.py", "cluster/broker_connection.py", "producer/outcome/outcomes.py:doubtful"}
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and not exempt & {
                *(name, f"{name}:{function.name}"),
            }:
                found += [f"{name}:{line}" for line in unnamed_requests(function)]
    assert not found, f"give broker_error api=, and what the request was about: {found}"


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("broker_error(answer.error_code, 'x')", True),
        ("broker_error(code, 'x', api='Fetch')", False),
        ("broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 'x')", False),
    ],
)
def test_an_error_without_a_request_is_found(code: str, is_found: bool) -> None:
    assert bool([*unnamed_requests(ast.parse(code))]) is is_found


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
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        milliseconds, modules, threads = json.loads(result.stdout)
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
    """The calls of attributes, as they are written, and whether without arguments; no `sleep(0)`."""
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


def private_fields_set(tree: ast.AST) -> Iterator[str]:
    """The private fields of other objects that are set or deleted, by a statement or by `setattr`."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = [each for target in node.targets for each in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            field: ast.expr = target
            while isinstance(field, ast.Subscript):
                field = field.value
            if isinstance(field, ast.Attribute) and ast.unparse(field.value) not in {"self", "cls"}:
                yield from filter(is_private, [field.attr])
        if isinstance(node, ast.Call) and re.search(r"(set|del)attr$", ast.unparse(node.func)):
            texts = [str(each.value) for each in node.args[:2] if isinstance(each, ast.Constant)]
            yield from (text for text in texts if is_private(text.rpartition(".")[2]))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("made._next = 3", ["_next"]),
        ("a.b, made._x['k'] = 1, 2", ["_x"]),
        ("made._count += 1", ["_count"]),
        ("del made._known[1]", ["_known"]),
        ("monkeypatch.setattr(module, '_LIMIT', 3)", ["_LIMIT"]),
        ("patch.setattr('kafwire.cli.produce._LIMIT', 3)", ["kafwire.cli.produce._LIMIT"]),
        ("self._x = made._x", []),
        ("Schema._fields_ = []", []),
        ("monkeypatch.setattr(module, 'LIMIT', 3)", []),
    ],
)
def test_a_private_field_that_is_set_is_found(code: str, found: list[str]) -> None:
    assert [*private_fields_set(ast.parse(code))] == found


def test_tests_set_no_private_field() -> None:
    """They come to a state as users do, or by an argument or a constant that is there for it."""
    found = {
        file.relative_to(ROOT).as_posix(): sorted(set(private_fields_set(ast.parse(file.read_text()))))
        for file in sorted((ROOT / "tests").rglob("*.py"))
    }
    assert {name: fields for name, fields in found.items() if fields} == PRIVATE_FIELDS_SET


def test_tests_import_their_helpers_from_support_only() -> None:
    """Programs of tests, too, that they run as text."""
    imported = re.compile(r"^\s*(?:from|import) (tests[\w.]*)", re.MULTILINE)
    wrong = [
        f"{name} imports {module}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        for module in imported.findall(file.read_text())
        for name in [file.relative_to(ROOT).as_posix()]
        if f"{module}.".split(".")[1] not in IMPORTED_OF_TESTS
    ]
    assert not wrong, "helpers live in tests/support:\n" + "\n".join(wrong)


def test_the_files_that_commits_run_in_turn_exist() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name in IN_TURN if not any(file.startswith(name) for file in files)] == []
    assert ONLY in SHARDS[0].command
    assert all(WITHOUT in step.command for step in EVERYDAY[:2])


def test_the_line_coverage_of_decoders_names_tests_that_exist() -> None:
    tests = [ROOT / "tests" / "unit" / name for name in TESTS]
    assert [str(path) for path in tests if not path.exists()] == []
    files = [file for path in tests for file in (path.rglob("test_*.py") if path.is_dir() else [path])]
    names = " ".join(name for file in files for name in re.findall(r"def (test_\w+)", file.read_text()))
    assert [part for part in NOT if part not in names] == []


def test_a_unit_test_names_its_module_by_its_path() -> None:
    """The module with which a file's docstring begins: "`consumer.fetch.cursor`: ..."."""
    modules = {
        ".".join(file.relative_to(ROOT / "kafwire").with_suffix("").parts).removesuffix(".__init__")
        for file in (ROOT / "kafwire").rglob("*.py*")
    }
    packages = {module.split(".")[0] for module in modules}
    opening = re.compile(r'"""`(?:kafwire\.)?([a-z_]+(?:\.[a-z_]+)+)`')
    named = {
        file.relative_to(ROOT).as_posix(): match[1]
        for file in sorted((ROOT / "tests/unit").rglob("test_*.py"))
        if (match := opening.match(file.read_text())) and match[1].split(".")[0] in packages
    }
    assert {file: name for file, name in named.items() if name not in modules} == {}


def test_tests_take_chance_from_one_place_and_wait_with_a_deadline() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for file in sorted((ROOT / "tests").rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name.startswith(PROGRAMS):
            continue
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
    assert not stale, f"RIGHT_IN_TESTS lists calls that are gone: {stale}"
