"""Which planted mistakes a run comes past: one whose text is not executed cannot be found, and need not be tried."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Protocol


class Change(Protocol):
    """The outcome of a mistake: the functions that run it, and their tests."""

    @property
    def before(self) -> str:
        """The text that it replaces."""

    @property
    def after(self) -> str:
        """The replacement."""


def lines_of(change: Change, source: str) -> frozenset[int]:
    """The lines of the statements that a change alters; none if they are executed by the import alone."""
    tree = ast.parse(source)
    altered = _altered(change, source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not any(f.lineno < line <= (f.end_lineno or 0) for f in functions for line in altered):
        return frozenset()
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    found: set[int] = set()
    around = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in statements]
    for line in altered:
        found.update(*sorted((lines for lines in around if line in lines), key=len)[:1])
    return frozenset(found)


def _altered(change: Change, source: str) -> range:
    """The lines of `before` that are not in `after` too, at its beginning or end."""
    before, after = change.before.splitlines(), change.after.splitlines()
    most = min(len(before), len(after))
    head = next((n for n in range(most) if before[n] != after[n]), most)
    tail = next((n for n in range(most - head) if before[-1 - n] != after[-1 - n]), most - head)
    first = source.count("\n", 0, source.index(change.before)) + 1
    return range(first + head, first + max(len(before) - tail, head + 1))


class Reach:
    """Notes which lines of some files are executed."""

    def __init__(self, wanted: Sequence[tuple[str, frozenset[int]]]) -> None:
        """`wanted`: a file's path and lines, for each mistake."""
        self._wanted = wanted
        self._lines: dict[str, set[int]] = {}
        for path, lines in wanted:
            self._lines.setdefault(path, set()).update(lines)
        self._of_code: dict[CodeType, frozenset[tuple[str, int]]] = {}
        self._seen: set[tuple[str, int]] = set()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Note the code that runs meanwhile, in this thread, and nothing of before."""
        self._seen.clear()
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(None)

    @property
    def reached(self) -> list[int]:
        """The mistakes of which a line was executed, or that are none of a function's."""
        return [
            number
            for number, (path, lines) in enumerate(self._wanted)
            if not lines or any((path, line) in self._seen for line in lines)
        ]

    def _on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        del event, arg
        code = frame.f_code
        found = self._of_code.get(code)
        if found is None:
            wanted = self._lines.get(code.co_filename, ())
            found = frozenset(
                (code.co_filename, line) for _, _, line in code.co_lines() if line is not None and line in wanted
            )
            self._of_code[code] = found
        return None if found <= self._seen else self._on_line

    def _on_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        del arg
        if event == "line":
            self._seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._on_line
