"""Records as an HTML table, which notebooks show for a batch. Bounded: so many rows, and so much of each cell."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Protocol

ROWS = 20
CELL = 200  # characters of a key, a value or headers
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


class _ShownRecord(Protocol):
    """A record whose key and value are the bytes that were read."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> list[tuple[str, bytes | None]]: ...


def html_table(caption: str, records: Iterable[_ShownRecord], total: int) -> str:
    """Return a table of records; `caption` names them, and `total` counts those that the table leaves out, too."""
    rows = [_row((str(each.offset), _time(each.timestamp_ms), *_contents(each)), "td") for each in records]
    if len(rows) < total:
        rows.append(f'<tr><td colspan="{len(_COLUMNS)}">{total - len(rows)} more</td></tr>')
    head = f"<caption>{escape(caption)}</caption><thead>{_row(_COLUMNS, 'th')}</thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def _row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _contents(record: _ShownRecord) -> tuple[str, str, str]:
    # A name that is not UTF-8 has surrogate escapes, which HTML has not.
    pairs = ((name.encode("utf-8", "surrogateescape"), value) for name, value in record.headers)
    headers = ", ".join(f"{_text(name)}: {_text(value)}" for name, value in pairs)
    return _text(record.key), _text(record.value), _cut(headers)


def _text(value: bytes | None) -> str:
    """Return bytes as UTF-8 text, or as Python writes them."""
    if value is None:
        return "None"
    beginning = value[: 4 * CELL + 4]  # UTF-8 takes up to four bytes for a character, which the cut may divide
    try:
        return _cut(getincrementaldecoder("utf-8")().decode(beginning, final=len(beginning) == len(value)))
    except UnicodeDecodeError:
        return _cut(repr(beginning))


def _cut(text: str) -> str:
    return text if len(text) <= CELL else f"{text[:CELL]}..."


def _time(ms: int | None) -> str:
    """Return a timestamp in UTC; as its number, if it lies beyond Python's years."""
    if ms is None:
        return "None"
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(sep=" ", timespec="milliseconds")
    except OverflowError:
        return str(ms)
