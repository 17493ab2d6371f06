"""What kafwire needs to know of a DB-API 2.0 connection: its kind, its parameter style, its errors. It opens none."""

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
        """The rows that are left."""

    def close(self) -> None:
        """Give it up."""


class Connection(Protocol):
    """A connection of DB-API 2.0."""

    def cursor(self) -> Any:
        """Make a `Cursor`."""

    def commit(self) -> Any:
        """Commit the open transaction, if there is one."""

    def rollback(self) -> Any:
        """Roll the open transaction back, if there is one."""

    def close(self) -> Any:
        """Close it."""


def driver_of(connection: object) -> str:
    """The module of DB-API 2.0 that a connection comes from: it has a `paramstyle`; "" if there is none."""
    for kind in type(connection).__mro__:
        parts = kind.__module__.split(".")
        for length in range(len(parts), 0, -1):
            name = ".".join(parts[:length])
            if hasattr(sys.modules.get(name), "paramstyle"):
                return name
    return ""


def kind_of(connection: object) -> Kind:
    """Which database a connection leads to, by its driver."""
    return _KINDS.get(driver_of(connection), "other")


def paramstyle_of(connection: object) -> str:
    """How a connection's statements mark their parameters, as PEP 249 calls it.

    Raises:
        ConfigError: nothing says so.
    """
    name = driver_of(connection)
    if not name:
        raise ConfigError(
            f"the driver of this {type(connection).__name__} has no paramstyle: give paramstyle=, "
            f"one of {', '.join(PARAMSTYLES)}"
        )
    return check_paramstyle(sys.modules[name].paramstyle)


def check_paramstyle(style: object) -> str:
    """A parameter style.

    Raises:
        ConfigError: it is none of PEP 249's.
    """
    if style not in PARAMSTYLES:
        raise ConfigError(f"paramstyle={style!r}: allowed: {', '.join(PARAMSTYLES)}")
    return str(style)


def check_name(name: object) -> str:
    """The name of a table or of a channel, which becomes part of statements: an identifier, also with a schema.

    Raises:
        ConfigError: it would have to be quoted.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r}: a name of letters, digits and _ is needed, which may follow a schema and a dot")
    return name


def marked(statement: str, style: str) -> str:
    """A statement whose parameters are written as `?`, in another style. It has no other `?`, and no `%`."""
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
    """The parameters of a statement in the form in which its style takes them."""
    if style == "named":
        return {f"p{number}": value for number, value in enumerate(parameters, start=1)}
    return tuple(parameters)


def execute(connection: Connection, style: str, statement: str, *parameters: object) -> tuple[list[Any], int]:
    """Run a statement whose parameters are written as `?`: the rows that a SELECT returns, and how many it changed.

    Rows are tuples, whatever the user's connection makes of them. Raises `ConfigError` for a connection whose calls
    have to be awaited.
    """
    cursor: Cursor = _not_awaitable(connection.cursor(), connection)
    given = (marked(statement, style), bound(parameters, style)) if parameters else (statement,)
    _not_awaitable(cursor.execute(*given), connection)  # an async cursor is not closed either: that would be awaited
    try:
        rows = cursor.fetchall() if statement.startswith("SELECT") else []
        if rows and type(rows[0]) is not tuple:  # all of them have one shape, and thousands are asked for
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
    """Whether the next statement would be committed at once, as far as is known of the connection's kind."""
    kind = kind_of(connection)
    if kind == "sqlite":
        mode = getattr(connection, "autocommit", -1)  # before Python 3.12, and with -1 there, the isolation level says
        by_itself = mode is True or (mode == -1 and connection.isolation_level is None)
        return by_itself and not connection.in_transaction
    return kind == "postgresql" and bool(connection.autocommit) and connection.info.transaction_status == 0


def all_errors(connection: object) -> tuple[type[Exception], ...]:
    """What a connection raises, as PEP 249 has it: the driver's `Error`."""
    found = getattr(sys.modules.get(driver_of(connection)), "Error", None)
    return (found,) if isinstance(found, type) else ()


def is_missing_table(connection: object, error: Exception) -> bool:
    """Return whether a connection raised this error because a table, or a column, does not exist."""
    programming = getattr(sys.modules.get(driver_of(connection)), "ProgrammingError", None)
    return (isinstance(programming, type) and isinstance(error, programming)) or "no such table" in str(error)


def passing_errors(connection: object) -> tuple[type[Exception], ...]:
    """What a connection raises when the database cannot be reached, or is busy: trying again may help."""
    module = sys.modules.get(driver_of(connection))
    found = (getattr(module, name, None) for name in ("OperationalError", "InterfaceError"))
    return tuple(error for error in found if isinstance(error, type))
