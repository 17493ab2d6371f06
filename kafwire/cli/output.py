"""JSON on standard output: one value a line, or indented for people. Long arrays may come element by element."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, TypeVar

import click

__all__ = ["Elements", "JsonWriter", "pretty_option"]

F = TypeVar("F", bound=Callable[..., Any])

# Stands in the text of a value where `Elements` come. No string of a message has a lone surrogate, as that is no UTF-8.
_MARK = "\ud800"
# Characters that a terminal may take for commands. JSON's own escapes end before them.
_CONTROLS = re.compile("[\x7f-\x9f]")


class Elements:
    """An array in a value to be written, whose elements are made when it is their turn."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements = elements


class JsonWriter:
    """Writes values, as UTF-8, to standard output."""

    def __init__(self, pretty: bool | None = None, stream: BinaryIO | None = None) -> None:
        """`pretty` is whether to indent; None: when standard output is a terminal."""
        self._stream = stream or sys.stdout.buffer
        self._pretty = sys.stdout.isatty() if pretty is None else pretty

    def write(self, value: Any) -> None:
        """Write one value and the end of its line."""
        for text in self._parts(value, ""):
            self._stream.write(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text).encode())
        self._stream.write(b"\n")

    def flush(self) -> None:
        """Hand over what is written so far."""
        self._stream.flush()

    def _parts(self, value: Any, indent: str) -> Iterator[str]:
        put_off: list[Elements] = []

        def mark(other: Any) -> str:
            if not isinstance(other, Elements):
                raise TypeError(f"a {type(other).__name__} has no form in JSON")
            put_off.append(other)
            return _MARK

        text = json.dumps(
            value,
            default=mark,
            ensure_ascii=False,
            allow_nan=False,
            indent=2 if self._pretty else None,
            separators=None if self._pretty else (",", ":"),
        )
        if indent:
            text = text.replace("\n", "\n" + indent)
        first, *others = text.split(f'"{_MARK}"')
        yield first
        line = first.rpartition("\n")[2]
        for array, following in zip(put_off, others, strict=True):
            yield from self._array(array, line[: len(line) - len(line.lstrip(" "))])
            yield following
            line = following.rpartition("\n")[2] if "\n" in following else line

    def _array(self, array: Elements, indent: str) -> Iterator[str]:
        inner = indent + "  "
        start = "["
        for element in array.elements:
            yield start
            if self._pretty:
                yield "\n" + inner
            yield from self._parts(element, inner if self._pretty else "")
            start = ","
        if start == "[":
            yield "[]"
        else:
            yield f"\n{indent}]" if self._pretty else "]"


def pretty_option(function: F) -> F:
    """Add `--pretty/--compact`."""
    return click.option(
        "--pretty/--compact",
        default=None,
        help="Indented, or one value a line. By default indented on a terminal.",
    )(function)
