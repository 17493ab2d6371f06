"""Writes the docstrings of public compiled types into their stubs (`.pyi`), where editors read them.

The `.pyx` owns each docstring. `python -m scripts.stub_docs` copies them; a test says when that is due.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.tree import COMPILED, ROOT
from tests.support.public_names import Documented, documented


def public_types() -> dict[str, list[str]]:
    """The compiled classes behind the public names, bases included, by their modules."""
    found: dict[str, set[str]] = {}
    for one in documented():
        for base in getattr(one.value, "__mro__", ()):
            if base.__module__ in COMPILED:
                found.setdefault(base.__module__, set()).add(base.__name__)
    return {module: sorted(names) for module, names in sorted(found.items())}


def stub_of(module: str) -> Path:
    """The stub's path."""
    return (ROOT / COMPILED[module].pyx).with_suffix(".pyi")


def public_members(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods and properties that users see."""
    return [item for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]


def docstring(value: Any) -> str:
    """A docstring without its indentation, and without a signature."""
    return Documented("", value).doc


def documented_stub(source: str, module: Any, names: list[str]) -> str:
    """The text of a stub, in which these classes and their public members have the docstrings of the module."""
    text = Text(source)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            owner = getattr(module, node.name)
            text.document(node, docstring(owner))
            for member in public_members(node):
                text.document(member, docstring(getattr(owner, member.name)))
    return text.changed()


class Text:
    """The text of a stub and the changes to it."""

    def __init__(self, source: str) -> None:
        self._source = source.encode()  # the columns of `ast` count bytes
        self._starts = [0]
        for line in self._source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._changes: list[tuple[int, int, str]] = []

    def document(self, node: ast.ClassDef | ast.FunctionDef, doc: str) -> None:
        """Put a docstring in the place of an old one or of `...`, or before all else in a class."""
        first = node.body[0]
        line = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))])
        start = self._starts[line - 1] + first.col_offset
        end = self._starts[(first.end_lineno or 0) - 1] + (first.end_col_offset or 0)
        new = f"\n{_literal(doc, node.col_offset + 4)}"
        if isinstance(node, ast.ClassDef) and not _is_constant(first):
            end, new = start, f"{new}\n\n{' ' * first.col_offset}"
        self._changes.append((len(self._source[:start].rstrip()), end, new if doc else " ..."))

    def changed(self) -> str:
        """The whole text."""
        made = self._source
        for start, end, new in sorted(self._changes, reverse=True):
            made = made[:start] + new.encode() + made[end:]
        return made.decode()


def _is_constant(node: ast.stmt) -> bool:
    """True for a docstring, and for `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _literal(text: str, indent: int) -> str:
    """A docstring as it is written, at this indentation."""
    margin = " " * indent
    body = "\n".join(margin + line if line else "" for line in text.splitlines()).lstrip()
    end = f"\n{margin}" if "\n" in body else ""
    return f'{margin}{"r" if chr(92) in body else ""}"""{body}{end}"""'


def main() -> None:
    """Write all of them."""
    for module, names in public_types().items():
        stub = stub_of(module)
        stub.write_text(documented_stub(stub.read_text(), import_module(module), names))


if __name__ == "__main__":
    main()
