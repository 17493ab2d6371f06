"""Checks that SQLite uses the ids of a table only once. Pure, apart from the caller's queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# A comment, a string or a quoted name: none of them contains a keyword.
_NOT_KEYWORDS = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\]", re.DOTALL
)
_AUTOINCREMENT = re.compile(r"\bAUTOINCREMENT\b", re.IGNORECASE)


def gives_ids_once(ask: Callable[..., list[Any]], table: str) -> bool:
    """Return True if `id` is the INTEGER PRIMARY KEY AUTOINCREMENT of a table.

    Without AUTOINCREMENT, SQLite reuses the id of the last row after that row was deleted.

    Args:
        ask: runs a SELECT whose parameters are written as `?`, and returns its rows.
        table: the table's name, optionally with a schema: that of an attached database.
    """
    schema, _, name = table.rpartition(".")
    # SQLite resolves a name without a schema in this order: temp, main, then attached databases.
    attached = [_text(row[0]) for row in ask("SELECT name FROM pragma_database_list ORDER BY name <> 'temp', seq")]
    for known in [schema] if schema else attached:
        quoted = known.replace('"', '""')
        found = ask(f'SELECT type, sql FROM "{quoted}".sqlite_master WHERE lower(name) = lower(?)', name)
        if not found:
            continue
        kind, made = map(_text, found[0])
        keys = [
            _text(row[0]) for row in ask("SELECT lower(name) FROM pragma_table_info(?, ?) WHERE pk > 0", name, known)
        ]
        return kind == "table" and bool(_AUTOINCREMENT.search(_NOT_KEYWORDS.sub(" ", made))) and keys == ["id"]
    return False


def _text(value: str | bytes) -> str:
    """Return a column as text; some connections return bytes."""
    return value if isinstance(value, str) else value.decode()
