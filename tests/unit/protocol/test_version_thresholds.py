"""The versions from which APIs behave differently stand on the requests' classes, and nowhere else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafwire.protocol import FetchRequest, ProduceRequest
from kafwire.protocol.spec import Request, Response, Struct, field, int32, since

PACKAGE = Path(__file__).parents[3] / "kafwire"
# Not versions of an API: of schemas, TLS, libraries, files of kafwire's own; the protocol's files say what a layout is.
OTHER_VERSIONS = (
    "avro",
    "cli/spark_diagnosis.py",
    "database",
    "outbox",
    "protocol",
    "registry",
    "security",
    "spark",
    "testing/cluster/kafka.py",
)


class EchoResponse(Response, key=99, versions="0-5"):
    """A response for this test."""


class EchoRequest(Request[EchoResponse], key=99, versions="0-5"):
    """A request for this test."""

    class Part(Struct):
        number: int32 = field("0+")
        rack: str = field("3+")

    parts: list[Part] = field("0+")
    reason: str = field("2-4")

    RACKS = since(Part.rack)
    LEAST = REASON = since(reason)


def test_a_threshold_is_the_first_version_with_its_field() -> None:
    assert (EchoRequest.RACKS, EchoRequest.REASON) == (3, 2)
    assert since(EchoRequest.Part.rack) == 3
    assert FetchRequest.BY_TOPIC_ID == since(FetchRequest.FetchTopic.topic_id) == 13
    assert FetchRequest.NAMES_LEADERS == 16, "a field of the response"


def test_thresholds_are_no_fields() -> None:
    assert [each.name for each in EchoRequest.__fields__] == ["parts", "reason"]
    assert "RACKS" not in EchoRequest().to_dict()


def test_clients_send_no_version_below_least() -> None:
    assert EchoRequest.LEAST == 2
    assert ProduceRequest.LEAST == ProduceRequest.min_version == 3


def is_a_version(side: ast.expr) -> bool:
    name: str = getattr(side, "attr", getattr(side, "id", ""))
    return bool(re.search(r"(^|_)(version|at_most)$", name, re.IGNORECASE))


def bare_versions(tree: ast.AST) -> Iterator[int]:
    """The lines that compare a version with a number above 0, or limit one to a number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            numbers = [side.value for side in sides if isinstance(side, ast.Constant)]
            if any(map(is_a_version, sides)) and any(isinstance(each, int) and each > 0 for each in numbers):
                yield node.lineno
        elif isinstance(node, ast.keyword) and node.arg == "at_most" and isinstance(node.value, ast.Constant):
            if node.value.value is not None:
                yield node.value.lineno
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if any(re.search(r"(FIRST|LAST)_VERSION|VERSION_WITH|_VERSION$", name) for name in names):
                yield node.lineno


BARE_IN_C = re.compile(r"version\s*[<>]=?\s*\d|\d\s*[<>]=?\s*version|(FIRST|LAST)_VERSION\s*=\s*\d")


def test_no_version_is_compared_with_a_number() -> None:
    """A number that is raised in one place, and forgotten in another, disarms a fast path silently."""
    found = []
    for file in sorted(PACKAGE.rglob("*.*")):
        place = file.relative_to(PACKAGE).as_posix()
        if place.startswith(OTHER_VERSIONS):
            continue
        if file.suffix == ".py":
            found += [f"{place}:{line}" for line in bare_versions(ast.parse(file.read_text()))]
        elif file.suffix in (".pyx", ".pxd", ".h") or (file.suffix == ".c" and "native" in place):
            text = file.read_text()
            found += [f"{place}:{text.count(chr(10), 0, hit.start()) + 1}" for hit in BARE_IN_C.finditer(text)]
    assert not found, f"compare with a constant of the request's class in kafwire/protocol/api: {found}"


@pytest.mark.parametrize(
    ("code", "is_bare"),
    [
        ("by_id = version >= 13", True),
        ("if request.version < 4: pass", True),
        ("ok = 4 <= version <= 18", True),
        ("LAST_VERSION = 18", True),
        ("FIRST_VERSION_WITH_TOPIC_IDS = 13", True),
        ("f(connection, at_most=12)", True),
        ("by_id = version >= FetchRequest.BY_TOPIC_ID", False),
        ("if request.version < 0: pass", False),
        ("f(connection, at_most=request.BY_TOPIC_ID - 1)", False),
        ("f(connection, at_most=None)", False),
    ],
)
def test_a_bare_version_is_found(code: str, is_bare: bool) -> None:
    assert bool([*bare_versions(ast.parse(code))]) is is_bare


@pytest.mark.parametrize(
    "code", ["cdef bint flexible = version >= 12", "if not 4 <= version <= 18:", "enum { LAST_VERSION = 18 };"]
)
def test_a_bare_version_in_compiled_code_is_found(code: str) -> None:
    assert BARE_IN_C.search(code)
