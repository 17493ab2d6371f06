"""Public docstrings are complete, and the examples in them that need no broker run."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from enum import EnumType
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

import kafwire
from tests.support.public_names import Documented, documented, run_example

DOCUMENTED = {str(one): one for one in documented()}
# A line of Args or Raises.
ENTRY = re.compile(r"^    ([\w.]+): ", re.MULTILINE)
# Python's errors, and those that kafwire's modules declare.
ERRORS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
} | {
    node.name
    for path in Path(kafwire.__file__).parent.rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
}
SECTIONS = ("Args", "Returns", "Raises", "Example")
# An object whose arguments, result and errors are described elsewhere names the place.
REFERENCE = re.compile(r"as `(\w+\.\w+)` does")
# A method that asks the engine to do something raises a KafkaError if that fails.
ASKS = re.compile(r"\b(?:_engine\.run|_run|on_engine)\(")
# Of a class that users do not make.
MADE = re.compile(r"\bmakes it\b")
# The log reports errors at the end of a client's life.
SILENT = ("close", "__aexit__")
# Written by scripts/option_types.py, whose names and types are all there is; `kafwire.config` describes each.
GENERATED = tuple(f"kafwire.{kind}Options" for kind in ("Client", "Consumer", "Producer", "Scan", "ShareConsumer"))
# Users call these first.
FIRST = {
    "kafwire.Client": ["call", "topic", "metadata", "offsets", "scan", "create_topic", "delete_topic", "topic_config"],
    "kafwire.AsyncClient": ["call", "offsets", "scan", "create_topic"],
    "kafwire.Consumer": [
        "batches",
        "__iter__",
        "poll",
        "arrow_stream",
        "partition_stream",
        "seek",
        "commit",
        "lag",
        "partitions",
        "for_each_partition",
    ],
    "kafwire.AsyncConsumer": ["batches", "__aiter__", "poll", "arrow_stream", "partition_stream", "seek", "commit"],
    "kafwire.PartitionStream": ["complete"],
    "kafwire.Producer": ["send", "send_batch", "flush", "transaction", "send_offsets", "close"],
    "kafwire.AsyncProducer": ["send", "send_and_wait", "send_batch", "flush", "transaction"],
    "kafwire.Scan": ["batches", "split", "to_reader"],
    "kafwire.AsyncScan": ["batches"],
    "kafwire.Batch": ["to_arrow"],
}


def sections(doc: str) -> dict[str, str]:
    """The sections of a docstring in Google's style, by their headings."""
    found = re.split(rf"^({'|'.join(SECTIONS)}):\n", doc, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def named(reference: re.Match[str]) -> Documented:
    """The object that a reference names."""
    places = ("kafwire", "kafwire.registry", "kafwire.testing")
    return next(DOCUMENTED[name] for place in places if (name := f"{place}.{reference[1]}") in DOCUMENTED)


def described(one: Documented, section: str) -> str:
    """A section of its own, or of what its docstring refers to."""
    own = sections(one.doc).get(section, "")
    reference = REFERENCE.search(one.doc)
    if own or reference is None:
        return own
    return sections(named(reference).doc).get(section, "")


def is_error(one: Documented) -> bool:
    """True if it is an exception: users catch it, and make none."""
    return inspect.isclass(one.value) and issubclass(one.value, BaseException)


def parameters(one: Documented) -> list[str]:
    """The arguments that users may give it."""
    if isinstance(one.value, property | EnumType) or is_error(one) or str(one) in GENERATED:
        return []
    if inspect.isclass(one.value) and MADE.search(one.doc):
        return []
    if inspect.isclass(one.value) and (
        (one.value.__init__ is object.__init__ and "__new__" not in vars(one.value))
        or getattr(one.value, "_is_protocol", False)
    ):
        return list(getattr(one.value, "_fields", ()))
    try:
        found = inspect.signature(one.function)
    except ValueError:  # a compiled class
        written = re.match(r"\w+\((.*?)\)\n\n", one.value.__doc__, re.DOTALL)
        found = inspect.signature(eval(f"(lambda {written[1]}: 0)")) if written else inspect.Signature()
    return [name for name in found.parameters if name not in {"self", "cls"} and not name.startswith("_")]


def returns(one: Documented) -> bool:
    """True if a function has to say what it returns; a bool needs no word."""
    if inspect.isclass(one.value) or isinstance(one.value, property):
        return False
    nothing = {"None", "bool", None, bool, "Coroutine[Any, Any, None]"}
    return getattr(one.function, "__annotations__", {}).get("return", "None") not in nothing


def raises(one: Documented) -> bool:
    """True if its own code raises something, or asks the engine."""
    if inspect.isclass(one.value) or isinstance(one.value, property) or one.function.__name__ in SILENT:
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(one.function)))
    except (OSError, TypeError):  # compiled
        return False
    made = any(isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) for node in ast.walk(tree))
    return made or ASKS.search(ast.unparse(tree)) is not None


@pytest.mark.parametrize("one", DOCUMENTED.values(), ids=str)
def test_docstring_is_complete(one: Documented) -> None:
    lines = one.doc.splitlines()
    assert lines, "no docstring"
    assert lines[0].endswith("."), "no summary of one line"
    assert not lines[1:] or not lines[1], "no summary of one line"
    assert set(re.findall(r"^(\w+):$", one.doc, re.MULTILINE)) <= set(SECTIONS)
    names = re.findall(r"^    (\w+): ", described(one, "Args"), re.MULTILINE)
    assert sorted(set(parameters(one)) - set(names)) == [], "not in Args"
    assert bool(described(one, "Returns")) or not returns(one)
    assert bool(described(one, "Raises")) or not raises(one)


def raised(one: Documented) -> set[str]:
    """The classes of errors that its own code raises by their names; abstract methods raise none."""
    if inspect.isclass(one.value) or isinstance(one.value, property):
        return set()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(one.function)))
    except (OSError, TypeError):  # compiled
        return set()
    made = (node.exc.func for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call))
    return {name.id for name in made if isinstance(name, ast.Name) and name.id in ERRORS} - {"NotImplementedError"}


def differences(one: Documented) -> list[str]:
    """The places where a docstring does not fit its signature and its code."""
    found = sections(one.doc)
    args = ENTRY.findall(found.get("Args", ""))
    errors = ENTRY.findall(found.get("Raises", ""))
    nothing = getattr(one.function, "__annotations__", {}).get("return", ...) in {"None", None}
    return [
        *(["Args has other names, or another order"] if args != [n for n in parameters(one) if n in args] else []),
        *(["Returns of a class, or of a function that returns None"] if "Returns" in found and nothing else []),
        *(f"Raises has {name}, which is no error" for name in errors if name.rpartition(".")[2] not in ERRORS),
        *(f"raises {name}, which is not in Raises" for name in raised(one) if name not in described(one, "Raises")),
    ]


@pytest.mark.parametrize("one", DOCUMENTED.values(), ids=str)
def test_docstring_fits_the_signature(one: Documented) -> None:
    assert differences(one) == []


def _planted(first: int, second: int = 0) -> None:
    if first > second:
        raise ValueError(first)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ("Args:\n    first: x.\n    second: x.\n\nRaises:\n    ValueError: x.", []),
        (
            "Args:\n    first: x.\n    third: x.\n\nRaises:\n    ValueError: x.",
            ["Args has other names, or another order"],
        ),
        (
            "Args:\n    second: x.\n    first: x.\n\nRaises:\n    ValueError: x.",
            ["Args has other names, or another order"],
        ),
        (
            "Args:\n    first: x.\n    first: x.\n\nRaises:\n    ValueError: x.",
            ["Args has other names, or another order"],
        ),
        ("Returns:\n    x.\n\nRaises:\n    ValueError: x.", ["Returns of a class, or of a function that returns None"]),
        ("Raises:\n    ValueError: x.\n    ValuError: x.", ["Raises has ValuError, which is no error"]),
        ("Raises:\n    TypeError: x.", ["raises ValueError, which is not in Raises"]),
    ],
)
def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch, sections: str, expected: list[str]) -> None:
    monkeypatch.setattr(_planted, "__doc__", f"Do it.\n\n{sections}\n")
    assert differences(Documented("planted", _planted)) == expected


@pytest.mark.parametrize(
    "one",
    [one for one in DOCUMENTED.values() if one.owner is None and not is_error(one) and str(one) not in GENERATED],
    ids=str,
)
def test_a_class_or_function_has_an_example(one: Documented) -> None:
    assert ">>> " in sections(one.doc).get("Example", "")


@pytest.mark.parametrize("name", [f"{cls}.{method}" for cls, methods in FIRST.items() for method in methods])
def test_first_calls_of_users_have_examples(name: str) -> None:
    assert ">>> " in sections(DOCUMENTED[name].doc).get("Example", "")


def test_references_lead_somewhere() -> None:
    for one in DOCUMENTED.values():
        reference = REFERENCE.search(one.doc)
        if reference is not None and one.owner is not None:
            other = named(reference)
            assert set(parameters(one)) <= set(parameters(other)), f"{one} takes more than {other}"


@pytest.mark.parametrize("one", [one for one in DOCUMENTED.values() if ">>> " in one.doc], ids=str)
def test_example_is_in_its_section_and_found(one: Documented) -> None:
    assert one.doc.count(">>> ") == sections(one.doc)["Example"].count(">>> ")


def names() -> dict[str, Any]:
    # A session costs a JVM: its calls are made to a stand-in here, and to Spark in tests/spark.
    return {"kafwire": kafwire, "pa": pa, "spark": MagicMock(name="spark")}


@pytest.mark.parametrize(
    "one", [one for one in DOCUMENTED.values() if not one.needs_broker and ">>> " in one.doc], ids=str
)
def test_example_runs(one: Documented) -> None:
    assert run_example(one, names()) == ""
