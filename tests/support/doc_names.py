"""Names in code spans of documents, looked up in a library: classes, attributes, arguments and options."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# A row of a table; a cell has no bar, unless a backslash stands before it.
_ROW = re.compile(r"^\|(.*)\|$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_SPAN = re.compile(r"`([^`]+)`")
_ABSENT = object()


def rows(text: str) -> Iterator[list[str]]:
    """The rows of all tables of a document, without the rows that separate the headings."""
    for found in _ROW.finditer(text):
        cells = [cell.strip() for cell in _CELL.split(found[1])]
        if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            yield cells


def spans(cell: str) -> list[str]:
    """The code spans of a cell."""
    return [span.replace("\\|", "|") for span in _SPAN.findall(cell)]


@dataclass(frozen=True)
class Library:
    """Names that a document may use."""

    names: Mapping[str, Any]  # classes, functions and constants
    variables: Mapping[str, Any]  # by the names that the document gives to them, their classes
    options: Collection[str]  # of clients
    free: Collection[str]  # names of the user's own objects

    def problems(self, span: str) -> list[str]:
        """The names of a code span that the library lacks."""
        if re.sub(r"=.*", "", span) in self.options:
            return []
        body = f"{span} ..." if span.endswith(":") else span
        try:
            tree = ast.parse(f"async def _():\n  {body}")
        except SyntaxError:
            return [f"{span}: no Python"]
        bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        found = [self._problem(node, bound) for node in ast.walk(tree)]
        return [f"{span}: {problem}" for problem in found if problem]

    def _problem(self, node: ast.AST, bound: Collection[str]) -> str:
        if isinstance(node, ast.Name) and node.id not in bound:
            known = node.id in self.names or node.id in self.variables or node.id in self.free
            return "" if known or hasattr(builtins, node.id) or node.id in self.options else f"{node.id} is unknown"
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            return "" if owner is _ABSENT or _has(owner, node.attr) else f"there is no {node.attr}"
        if isinstance(node, ast.Call):
            return self._misfit(node)
        return ""

    def _object(self, node: ast.AST) -> Any:
        """The object, or the class of the variable, that an expression names."""
        if isinstance(node, ast.Name):
            return self.variables.get(node.id, self.names.get(node.id, _ABSENT))
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            return _ABSENT if owner is _ABSENT else getattr(owner, node.attr, _ABSENT)
        return _ABSENT

    def _misfit(self, call: ast.Call) -> str:
        """Arguments that a function does not take; functions without a signature take all."""
        function = self._object(call.func)
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return ""
        named = {each.arg: None for each in call.keywords if each.arg}
        by_keyword = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
        if by_keyword:
            unknown = named.keys() - signature.parameters.keys() - set(self.options)
            if unknown:
                return f"there is no option {', '.join(sorted(unknown))}"
            named = {name: None for name in named if name in signature.parameters}
        places: list[Any] = [None] * len(call.args)
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            bound = call.func.value.id in self.variables and inspect.isroutine(function) and not _is_bound(function)
            places = [None, *places] if bound else places
        starred = any(isinstance(each, ast.Starred) for each in call.args) or any(
            not each.arg for each in call.keywords
        )
        if starred:
            return ""
        try:
            signature.bind(*places, **named)
        except TypeError as error:
            return str(error)
        return ""


def _is_bound(function: Any) -> bool:
    return getattr(function, "__self__", None) is not None


def _has(owner: Any, name: str) -> bool:
    """Fields of dataclasses without a default are no attributes of their class. Of several owners one may have it."""
    if isinstance(owner, tuple):
        return any(_has(each, name) for each in owner)
    return hasattr(owner, name) or any(name in vars(kind).get("__annotations__", {}) for kind in _mro(owner))


def _mro(owner: Any) -> tuple[type, ...]:
    return owner.__mro__ if isinstance(owner, type) else ()
