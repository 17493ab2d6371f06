"""JSON on standard output: one value per line, or indented for people.

Lazy values are created while they are written.
"""

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from json.encoder import encode_basestring
from typing import Any, BinaryIO, TypeVar

import click

from kafwire.foreign_text import printable
from kafwire.protocol.lazy_json import Elements, Text

__all__ = [
    "JsonWriter",
    "escaped_controls",
    "pretty_option",
    "print_rows",
    "print_table",
    "say",
    "time_text",
    "write_json",
]

F = TypeVar("F", bound=Callable[..., Any])

# Marks lazy values in the encoded text. No string of a message has a lone surrogate, as that is not valid UTF-8.
_MARK = "\ud800"
_CHUNK = 1 << 16  # of characters
# Control characters, which a terminal may execute. JSON itself escapes those below this range.
_CONTROLS = re.compile("[\x7f-\x9f]")


class JsonWriter:
    """Writes values to standard output, as UTF-8."""

    def __init__(self, pretty: bool | None = None, stream: BinaryIO | None = None) -> None:
        """Create the writer. `pretty` indents; None: if standard output is a terminal."""
        self._stream = stream or sys.stdout.buffer
        self._pretty = sys.stdout.isatty() if pretty is None else pretty
        self._lazy: list[Elements | Text] = []  # of the value being encoded
        self._encode = json.JSONEncoder(
            default=self._put_off,
            ensure_ascii=False,
            allow_nan=False,
            indent=2 if self._pretty else None,
            separators=None if self._pretty else (",", ":"),
        ).encode

    def write(self, value: Any) -> None:
        """Write one value and a line end."""
        waiting, size = [], 0
        for text in self._parts(value, ""):
            waiting.append(text)
            size += len(text)
            if size > _CHUNK:
                self._put("".join(waiting))
                waiting, size = [], 0
        waiting.append("\n")
        self._put("".join(waiting))

    def flush(self) -> None:
        """Flush the buffered output."""
        self._stream.flush()

    def _put(self, text: str) -> None:
        self._stream.write(escaped_controls(text).encode())

    def _parts(self, value: Any, indent: str) -> Iterator[str]:
        text = self._encode(value)
        if indent:
            text = text.replace("\n", "\n" + indent)
        if not self._lazy:
            yield text
            return
        put_off, self._lazy = self._lazy, []
        first, *others = text.split(f'"{_MARK}"')
        yield first
        line = first.rpartition("\n")[2]
        for lazy, following in zip(put_off, others, strict=True):
            if isinstance(lazy, Text):
                yield '"'
                for piece in lazy.pieces():
                    yield encode_basestring(piece)[1:-1]
                yield '"'
            else:
                yield from self._array(lazy, line[: len(line) - len(line.lstrip(" "))])
            yield following
            line = following.rpartition("\n")[2] if "\n" in following else line

    def _put_off(self, value: Any) -> str:
        """Replace a lazy value by a mark."""
        if not isinstance(value, Elements | Text):
            raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
        self._lazy.append(value)
        return _MARK

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


def write_json(values: Iterable[Any]) -> None:
    """Write one value per line to standard output."""
    writer = JsonWriter(pretty=False)
    for value in values:
        writer.write(value)
    writer.flush()


def escaped_controls(text: str) -> str:
    """Return JSON with control characters escaped, which a terminal may execute."""
    return _CONTROLS.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def pretty_option(function: F) -> F:
    """Add `--pretty/--compact`."""
    return click.option(
        "--pretty/--compact",
        default=None,
        help="Indented, or one value per line. By default indented on a terminal.",
    )(function)


def say(text: str, *, err: bool = False) -> None:
    """Print one line, without control characters: names and texts from the wire must not control the terminal."""
    click.echo(printable(text), err=err)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as necessary; empty columns are left out."""
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]  # names come from the wire
    kept = [n for n, name in enumerate(header) if not rows or any(row[n] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in kept]
    for line in lines:
        click.echo("  ".join(line[n].ljust(width) for n, width in zip(kept, widths, strict=True)).rstrip())


def print_rows(
    header: Sequence[str], keys: Sequence[str], rows: Iterable[Sequence[Any]], *, as_json: bool, none: str = ""
) -> None:
    """Print rows as a table, with the text `none` for None, or as a line of JSON each."""
    if as_json:
        write_json(dict(zip(keys, row, strict=True)) for row in rows)
    else:
        print_table(header, [[none if cell is None else str(cell) for cell in row] for row in rows])


def time_text(ms: int | None) -> str:
    """Return a timestamp as a time in UTC; "" for none, and the number if it is beyond the years that dates have."""
    if ms is None or ms < 0:
        return ""
    try:
        time = dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    return time.isoformat("T", "milliseconds").replace("+00:00", "Z")
