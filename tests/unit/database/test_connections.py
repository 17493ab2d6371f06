"""The properties of a connection of DB-API 2.0, whatever its driver."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from kafwire.database.connections import (
    PARAMSTYLES,
    bound,
    check_name,
    check_paramstyle,
    driver_of,
    execute,
    kind_of,
    marked,
    paramstyle_of,
    passing_errors,
)
from kafwire.errors import ConfigError


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    yield connection
    connection.close()


class Ours(sqlite3.Connection):
    """A subclass as programs have it, to set options once."""


def test_sqlite_is_known(database: sqlite3.Connection) -> None:
    assert (driver_of(database), kind_of(database), paramstyle_of(database)) == ("sqlite3", "sqlite", "qmark")
    assert passing_errors(database) == (sqlite3.OperationalError, sqlite3.InterfaceError)


def test_a_class_of_the_users_own_is_its_drivers() -> None:
    connection = sqlite3.connect(":memory:", factory=Ours)
    assert driver_of(connection) == "sqlite3"
    connection.close()


def connection_of(monkeypatch: pytest.MonkeyPatch, name: str, paramstyle: str) -> object:
    """One of a driver that is not installed here."""
    root, _, _ = name.partition(".")
    driver = ModuleType(root)
    driver.__dict__["paramstyle"] = paramstyle
    monkeypatch.setitem(sys.modules, root, driver)
    made: object = type("connection", (), {"__module__": name})()
    return made


@pytest.mark.parametrize(
    ("name", "driver", "kind"),
    [
        ("psycopg", "psycopg", "postgresql"),
        ("psycopg2.extensions", "psycopg2", "postgresql"),
        ("mysqldriver.cursors", "mysqldriver", "other"),
    ],
)
def test_a_driver_is_found_by_the_module_of_the_class(
    monkeypatch: pytest.MonkeyPatch, name: str, driver: str, kind: str
) -> None:
    connection = connection_of(monkeypatch, name, "pyformat")
    assert (driver_of(connection), kind_of(connection), paramstyle_of(connection)) == (driver, kind, "pyformat")
    assert passing_errors(connection) == ()


def test_a_connection_that_says_nothing_of_its_parameters() -> None:
    with pytest.raises(ConfigError, match="give paramstyle=, one of qmark, format"):
        paramstyle_of(object())


def test_a_style_that_pep_249_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="paramstyle='dollar'"):
        paramstyle_of(connection_of(monkeypatch, "odddriver", "dollar"))
    with pytest.raises(ConfigError, match="paramstyle=7"):
        check_paramstyle(7)


@pytest.mark.parametrize(
    ("style", "statement", "parameters"),
    [
        ("qmark", "a = ? AND b = ?", (1, 2)),
        ("format", "a = %s AND b = %s", (1, 2)),
        ("pyformat", "a = %s AND b = %s", (1, 2)),
        ("numeric", "a = :1 AND b = :2", (1, 2)),
        ("named", "a = :p1 AND b = :p2", {"p1": 1, "p2": 2}),
    ],
)
def test_parameters_in_each_style(style: str, statement: str, parameters: object) -> None:
    assert marked("a = ? AND b = ?", style) == statement
    assert bound([1, 2], style) == parameters
    assert style in PARAMSTYLES


@pytest.mark.parametrize("name", ["outbox", "shop.outbox", "_a1"])
def test_names_of_tables(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a;b", 'a"b', "a.b.c", "1a", "a.", None, 7, "a\n", "ä"])
def test_names_that_would_have_to_be_quoted(name: Any) -> None:
    with pytest.raises(ConfigError, match="only letters, digits"):
        check_name(name)


@pytest.mark.parametrize("style", ["qmark", "named"])  # of numbers from Python 3.14 on it takes none in order
def test_statements_run_in_the_styles_of_sqlite(database: sqlite3.Connection, style: str) -> None:
    execute(database, style, "CREATE TABLE t (a, b)")
    assert execute(database, style, "INSERT INTO t VALUES (?, ?)", 1, "x")[1] == 1
    assert execute(database, style, "UPDATE t SET b = ? WHERE a = ?", "y", 1)[1] == 1
    assert execute(database, style, "SELECT a, b FROM t WHERE b = ?", "y")[0] == [(1, "y")]


def test_rows_are_tuples_whatever_the_user_has_made_them(database: sqlite3.Connection) -> None:
    database.row_factory = lambda cursor, row: dict(zip([column[0] for column in cursor.description], row, strict=True))
    assert execute(database, "qmark", "SELECT 1 AS b, 2 AS a")[0] == [(1, 2)]
    database.row_factory = sqlite3.Row
    assert execute(database, "qmark", "SELECT 1 AS b, 2 AS a")[0] == [(1, 2)]


class AsyncCursor:
    """Its calls have to be awaited."""

    async def execute(self, *_: object) -> None:
        """Do nothing."""


async def cursor() -> AsyncCursor:
    return AsyncCursor()


@pytest.mark.parametrize("make", [AsyncCursor, cursor])
def test_an_async_connection_is_refused(make: Any) -> None:
    """Nothing would be stored, without an error."""
    connection: Any = type("AsyncConnection", (), {"cursor": lambda self: make()})()
    with pytest.raises(ConfigError, match="this AsyncConnection is async"):
        execute(connection, "qmark", "SELECT 1")
