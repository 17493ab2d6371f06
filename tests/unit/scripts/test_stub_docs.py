"""`stub_docs`: editors show the docstrings of compiled types, as Python does."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

import kafwire
from scripts.stub_docs import docstring, documented_stub, public_members, public_types, stub_of

PUBLIC = public_types()
CLASSES = [(module, name) for module, names in PUBLIC.items() for name in names]


def class_in_stub(module: str, name: str) -> ast.ClassDef:
    found = [node for node in ast.parse(stub_of(module).read_text()).body if getattr(node, "name", "") == name]
    assert len(found) == 1
    assert isinstance(found[0], ast.ClassDef)
    return found[0]


def parameters(function: Any) -> list[tuple[str, str]]:
    return [(name, each.kind.name) for name, each in inspect.signature(function).parameters.items()]


def test_the_types_that_users_meet_are_found() -> None:
    names = {name for _, name in CLASSES}
    assert names >= {"Batch", "BatchDelivery", "Delivery", "Record", "RecordBatch", "RecordSender"}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_stub_has_the_docstrings_of_its_module(module: str) -> None:
    source = stub_of(module).read_text()
    made = documented_stub(source, import_module(module), PUBLIC[module])
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(source)), "run python -m scripts.stub_docs"


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_every_public_name_of_a_stub_has_the_docstring_of_the_running_object(module: str, name: str) -> None:
    node, running = class_in_stub(module, name), getattr(import_module(module), name)
    assert ast.get_docstring(node) == docstring(running) != ""
    members = public_members(node)
    for member in members:
        doc = ast.get_docstring(member)
        assert doc, f"{name}.{member.name} has no docstring"
        assert doc == docstring(getattr(running, member.name)), f"{name}.{member.name}"
    fields = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and hasattr(item.target, "id")}
    assert not {field for field in fields if not field.startswith("_")}, "make it a property: a field has no docstring"


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_a_stub_has_the_parameters_of_the_running_method(module: str, name: str) -> None:
    running = getattr(import_module(module), name)
    for member in public_members(class_in_stub(module, name)):
        method = getattr(running, member.name)
        if callable(method):
            written: dict[str, Any] = {}
            exec(f"def method({ast.unparse(_bare(member.args))}): ...", {}, written)
            assert parameters(method) == parameters(written["method"]), f"{name}.{member.name}"


def _bare(arguments: ast.arguments) -> ast.arguments:
    """Arguments without their annotations, whose names are not known here."""
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        each.annotation = None
    return arguments


def test_help_for_record_shows_the_signature_of_its_stub() -> None:
    node = class_in_stub(kafwire.Record.__module__, "Record")
    (init,) = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    written = ast.unparse(_bare(init.args)).removeprefix("self, ")
    shown = re.match(r"Record\((.*?)\)\n\n", kafwire.Record.__doc__ or "", re.DOTALL)
    assert shown is not None
    assert " ".join(shown[1].split()) == written.replace(" = ", "=")


STUB = """class A:
    x: int
    @property
    def old(self) -> str:
        \"\"\"Another text.\"\"\"
    def take(
        self,
        a: int,
    ) -> None: ...  # a comment
    def _own(self) -> None: ...

class B: ...
class C(A): ...
"""
DOCUMENTED = '''class A:
    """A class ö.

    It has two paragraphs.
    """

    x: int
    @property
    def old(self) -> str:
        """A property."""
    def take(
        self,
        a: int,
    ) -> None:
        r"""Take a \\n."""  # a comment
    def _own(self) -> None: ...

class B: ...
class C(A):
    """Another."""
'''


def test_docstrings_go_into_a_stub_once() -> None:
    doc = "A class ö.\n\n    It has two paragraphs.\n    "
    method = type("Method", (), {"__doc__": "C.take(self)\n\nTake a \\n."})
    module = SimpleNamespace(
        A=type("A", (), {"__doc__": doc, "old": type("Old", (), {"__doc__": "A property."}), "take": method}),
        C=type("C", (), {"__doc__": "Another."}),
    )
    assert documented_stub(STUB, module, ["A", "C"]) == DOCUMENTED
    assert documented_stub(DOCUMENTED, module, ["A", "C"]) == DOCUMENTED
