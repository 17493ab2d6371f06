"""A row of an outbox table, and its record. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafwire.errors import ConfigError
from kafwire.integers import integer

Headers = tuple[tuple[str, bytes | None], ...]


class OutboxRow(NamedTuple):
    """A row of an outbox table, ready to be sent.

    Args:
        id: its id.
        topic: the column `topic`.
        key: the aggregate's key, or None.
        value: the payload; None: a tombstone.
        headers: the record's headers.
        check: a CRC-32 of all columns.
        problem: why the row cannot become a record; `key`, `value` and `headers` are then the unchanged columns.
    """

    id: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    check: int
    problem: ConfigError | None = None


# The header for a column `headers` that is neither a JSON object nor a list of pairs.
HEADERS = "kafwire.outbox.headers"


def read_row(columns: Sequence[Any]) -> OutboxRow:
    """Like `row_of`, but return a row that cannot become a record with its `problem`.

    Raises:
        ConfigError: the id is not a number of 1 or more.
    """
    try:
        return row_of(columns)
    except ConfigError as problem:
        number, topic, *others = columns
        found = integer(number)
        if found is None or found < 1:
            raise
        number = found
        key, value, headers, created_at = (_plain(column) for column in others)
        check = zlib.crc32(repr((number, topic, key, value, headers, created_at)).encode("utf-8", "surrogatepass"))
        raw = () if headers is None else ((HEADERS, headers),)
        return OutboxRow(number, f"{topic}", key, value, raw, check, problem)


def _plain(column: Any) -> bytes | None:
    """Convert a column of any type to bytes: text and bytes as they are, others as JSON."""
    if isinstance(column, str):
        return column.encode("utf-8", "surrogatepass")
    if column is None or isinstance(column, bytes | bytearray | memoryview):
        return _bytes(column, "")
    return json.dumps(column, default=str).encode()


def row_of(columns: Sequence[Any]) -> OutboxRow:
    """Make a row from its columns id, topic, aggregate_key, payload, headers and created_at, the last one as text.

    Raises:
        ConfigError: a column has a value that a record cannot have; the text names the row.
    """
    number, topic, key, value, headers, created_at = columns
    try:
        if number < 1 or int(number) != number:
            raise ValueError("its id is not a number of 1 or more")
        if not isinstance(topic, str) or not topic:
            raise TypeError("its topic is not text")
        number = int(number)
        key = _bytes(key, "aggregate_key")
        value = _bytes(value, "payload")
        headers = () if headers is None else _headers(headers)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"row {number} of the outbox cannot be sent: {error}; correct or delete it") from None
    check = zlib.crc32(repr((number, topic, key, value, headers, created_at)).encode())
    return OutboxRow(number, topic, key, value, headers, check)


def _bytes(value: Any, column: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, memoryview | bytearray):  # psycopg2 returns these for a bytea
        return bytes(value)
    raise TypeError(f"{column} is of type {type(value).__name__}, not bytes or text")


def _headers(value: Any) -> Headers:
    """Parse headers from JSON: an object, or a list of pairs, of strings. The database driver may have decoded it."""
    found = json.loads(value) if isinstance(value, str | bytes) else value
    if found is None:
        return ()
    pairs: Iterable[Any] = found.items() if isinstance(found, Mapping) else found
    if not isinstance(found, Mapping | list):
        raise TypeError("headers are not a JSON object or a list of pairs")
    made = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError(f"headers have {pair!r}, which is not a pair of a name and a text")
        if not isinstance(pair[1], str | None):
            raise TypeError(f"header {pair[0]!r} is of type {type(pair[1]).__name__}, not text or null")
        pair[0].encode()  # a lone surrogate is an error here, not when the record is sent
        made.append((pair[0], None if pair[1] is None else pair[1].encode()))
    return tuple(made)
