"""Facts about a DB-API 2.0 connection: its kind, its parameter style, its errors. Opens no connection."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Literal, Protocol

from kafwire.errors import ConfigError

Kind = Literal["sqlite", "postgresql", "other"]
PARAMSTYLES = ("qmark", "format", "pyformat", "numeric", "named")
_KINDS: dict[str, Kind] = {"sqlite3": "sqlite", "psycopg": "postgresql", "psycopg2": "postgresql"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?")


class Cursor(Protocol):
    """A cursor of DB-API 2.0."""

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""

    def execute(self, statement: str, parameters: Any = ..., /) -> Any:
        """Run a statement."""

    def executemany(self, statement: str, parameters: Any, /) -> Any:
        """Run a statement for each of several parameters."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""

    def close(self) -> None:
        """Close the cursor."""


class DatabaseConnection(Protocol):
    """A connection of DB-API 2.0."""

    def cursor(self) -> Any:
        """Make a `Cursor`."""

    def commit(self) -> Any:
        """Commit the open transaction, if there is one."""

    def rollback(self) -> Any:
        """Roll the open transaction back, if there is one."""

    def close(self) -> Any:
        """Close the connection."""


def driver_of(connection: object) -> str:
    """Return the DB-API 2.0 module of a connection, found by its `paramstyle`; "" if there is none."""
    for kind in type(connection).__mro__:
        parts = kind.__module__.split(".")
        for length in range(len(parts), 0, -1):
            name = ".".join(parts[:length])
            if hasattr(sys.modules.get(name), "paramstyle"):
                return name
    return ""


def kind_of(connection: object) -> Kind:
    """Return the kind of database of a connection, by its driver."""
    return _KINDS.get(driver_of(connection), "other")


def paramstyle_of(connection: object) -> str:
    """Return the parameter style of a connection's statements, by PEP 249.

    Raises:
        ConfigError: the driver has none.
    """
    name = driver_of(connection)
    if not name:
        raise ConfigError(
            f"the driver of this {type(connection).__name__} has no paramstyle: give paramstyle=, "
            f"one of {', '.join(PARAMSTYLES)}"
        )
    return check_paramstyle(sys.modules[name].paramstyle)


def check_paramstyle(style: object) -> str:
    """Return a valid parameter style.

    Raises:
        ConfigError: it is none of PEP 249's.
    """
    if style not in PARAMSTYLES:
        raise ConfigError(f"paramstyle={style!r}: allowed: {', '.join(PARAMSTYLES)}")
    return str(style)


def check_name(name: object) -> str:
    """Return the name of a table or channel, which becomes part of statements: an identifier, optionally with a schema.

    Raises:
        ConfigError: it would need quotes.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r}: a name must have only letters, digits and _, optionally after a schema and a dot")
    return name


def marked(statement: str, style: str) -> str:
    """Convert a statement with `?` parameters to another style. It has no other `?`, and no `%`."""
    first, *rest = statement.split("?")
    marks = {
        "qmark": "?",
        "format": "%s",
        "pyformat": "%s",
        "numeric": ":{number}",
        "named": ":p{number}",
    }[style]
    return first + "".join(marks.format(number=number) + part for number, part in enumerate(rest, start=1))


def bound(parameters: Sequence[object], style: str) -> Any:
    """Return the parameters of a statement in the form of its style."""
    if style == "named":
        return {f"p{number}": value for number, value in enumerate(parameters, start=1)}
    return tuple(parameters)


def execute(connection: DatabaseConnection, style: str, statement: str, *parameters: object) -> tuple[list[Any], int]:
    """Run a statement with `?` parameters; return the rows of a SELECT, and how many rows it changed.

    Rows are tuples, even if the user's connection makes other objects. Raises `ConfigError` for an async connection.
    """
    cursor: Cursor = _not_awaitable(connection.cursor(), connection)
    given = (marked(statement, style), bound(parameters, style)) if parameters else (statement,)
    _not_awaitable(cursor.execute(*given), connection)  # an async cursor is not closed: that would need an await
    try:
        rows = cursor.fetchall() if statement.startswith("SELECT") else []
        if rows and type(rows[0]) is not tuple:  # all rows have one form, and there are thousands
            rows = [tuple(row.values() if isinstance(row, Mapping) else row) for row in rows]
        return rows, cursor.rowcount
    finally:
        cursor.close()


def _not_awaitable(result: Any, connection: object) -> Any:
    if not isinstance(result, Awaitable):
        return result
    if isinstance(result, Coroutine):
        result.close()
    name = type(connection).__name__
    raise ConfigError(f"this {name} is async, and its calls are not awaited here: give a DB-API 2.0 connection")


def commits_by_itself(connection: Any) -> bool:
    """True if the next statement would be committed at once, as far as the connection's kind shows it."""
    kind = kind_of(connection)
    if kind == "sqlite":
        mode = getattr(connection, "autocommit", -1)  # before Python 3.12, or if -1, the isolation level decides
        by_itself = mode is True or (mode == -1 and connection.isolation_level is None)
        return by_itself and not connection.in_transaction
    return kind == "postgresql" and bool(connection.autocommit) and connection.info.transaction_status == 0


def all_errors(connection: object) -> tuple[type[Exception], ...]:
    """Return the driver's base class of errors, PEP 249's `Error`."""
    found = getattr(sys.modules.get(driver_of(connection)), "Error", None)
    return (found,) if isinstance(found, type) else ()


def is_missing_table(connection: object, error: Exception) -> bool:
    """Return True if a connection raised this error because a table, or a column, does not exist."""
    programming = getattr(sys.modules.get(driver_of(connection)), "ProgrammingError", None)
    return (isinstance(programming, type) and isinstance(error, programming)) or "no such table" in str(error)


def passing_errors(connection: object) -> tuple[type[Exception], ...]:
    """Return the errors of a database that cannot be reached, or is busy: a retry may help."""
    module = sys.modules.get(driver_of(connection))
    found = (getattr(module, name, None) for name in ("OperationalError", "InterfaceError"))
    return tuple(error for error in found if isinstance(error, type))
