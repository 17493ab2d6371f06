"""House rules of the tests themselves: where chance comes from, and how they wait."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

# What a test does not call, as it is written there, and why. `()` behind a name: without arguments.
FORBIDDEN = {
    "random.SystemRandom": "seeds come from tests/seeds.py, so that a run can be repeated",
    "random.Random()": "seeds come from tests/seeds.py, so that a run can be repeated",
    "secrets.*": "seeds come from tests/seeds.py, so that a run can be repeated",
    "os.urandom": "seeds come from tests/seeds.py, so that a run can be repeated",
    "time.sleep": "wait for what can be seen: tests/waiting.py",
    "*.join()": "a wait has a deadline: tests/waiting.py",
    "*.wait()": "a wait has a deadline: tests/waiting.py",
    "*.acquire()": "a wait has a deadline",
    "*.communicate()": "a wait has a deadline",
}
# Only where there are real brokers and sockets: in the simulated world everything is done already, and time is made up.
FORBIDDEN_IN_REAL_TIME = {
    "*.result()": "a wait has a deadline",
    "asyncio.sleep": "wait for what can be seen, under asyncio.timeout",
}
REAL_TIME = ["tests/integration", "tests/spark", "tests/conformance"]

# Where they are right nevertheless: the file, the call, how often, and why.
ALLOWED: list[tuple[str, str, int, str]] = []


def calls(file: Path) -> Iterator[tuple[str, bool, int]]:
    """Each call: what is called, as it is written, whether without arguments, and the line."""
    tree = ast.parse(file.read_text())
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            del awaited
            awaited = set()
            yield ast.unparse(node.func), not node.args and not node.keywords, node.lineno


def is_meant(rule: str, called: str, *, is_bare: bool) -> bool:
    """Whether a rule is about this call."""
    name = rule.removesuffix("()")
    if rule.endswith("()") and not is_bare:
        return False
    if name.startswith("*."):
        return called.endswith(name[1:])
    return called.startswith(name[:-1]) if name.endswith("*") else called == name


def found(file: Path) -> Iterator[tuple[str, int]]:
    """What a file calls that is forbidden, and where."""
    name = file.relative_to(ROOT).as_posix()
    rules = FORBIDDEN | (FORBIDDEN_IN_REAL_TIME if name.startswith(tuple(REAL_TIME)) else {})
    for called, is_bare, line in calls(file):
        for rule in rules:
            if is_meant(rule, called, is_bare=is_bare):
                yield rule, line


def test_x() -> None:
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for rule, line in found(file):
            print(f"{file.relative_to(ROOT)}:{line} {rule}   {file.read_text().splitlines()[line - 1].strip()}")
    raise AssertionError
