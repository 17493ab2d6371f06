"""The SQL of an outbox, run by SQLite; PostgreSQL's is run by tests/integration."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.outbox import postgresql_schema, sqlite_schema
from kafwire.outbox.statements import statements


def test_the_schema_of_sqlite_changes_nothing_where_it_is() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        for _ in range(2):
            database.executescript(sqlite_schema("o"))
            database.execute("INSERT INTO o (topic) VALUES ('t')")
        assert database.execute("SELECT id FROM o").fetchall() == [(1,), (2,)]


def test_ids_of_sqlite_do_not_come_again() -> None:
    """As they would without AUTOINCREMENT."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(sqlite_schema("o"))
        database.execute("INSERT INTO o (topic) VALUES ('t')")
        database.execute("DELETE FROM o")
        database.execute("INSERT INTO o (topic) VALUES ('t')")
        assert database.execute("SELECT id FROM o").fetchall() == [(2,)]


@pytest.mark.parametrize("keeps", [True, False])
def test_rows_are_chosen_without_sorting(*, keeps: bool) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(sqlite_schema("o"))
        plan = database.execute("EXPLAIN QUERY PLAN " + statements("sqlite", "o", keeps=keeps).choose, (1,)).fetchall()
    (step,) = (row[3] for row in plan)
    assert step.startswith("SCAN o")
    assert "o_waiting" in step


@pytest.mark.parametrize("keeps", [True, False])
def test_statements_of_postgresql_have_no_percent_sign(*, keeps: bool) -> None:
    found = statements("postgresql", "shop.outbox", keeps=keeps)
    assert not [statement for name in found.__slots__ if "%" in (statement := getattr(found, name))]
    assert "FROM shop.outbox" in found.choose


def test_a_database_that_outboxes_do_not_know() -> None:
    with pytest.raises(ConfigError, match='give database="postgresql"'):
        statements("other", "outbox", keeps=False)


@pytest.mark.parametrize("name", ["a b", "a;b", "", None])
def test_names_are_checked(name: Any) -> None:
    with pytest.raises(ConfigError, match="a name of letters"):
        statements("sqlite", name, keeps=False)
    with pytest.raises(ConfigError, match="a name of letters"):
        sqlite_schema(name)
    with pytest.raises(ConfigError, match="a name of letters"):
        postgresql_schema(name)
    if name is not None:
        with pytest.raises(ConfigError, match="a name of letters"):
            postgresql_schema(channel=name)


def test_sqlite_has_the_outbox_in_the_main_database() -> None:
    with pytest.raises(ConfigError, match="leave the schema out"):
        sqlite_schema("main.outbox")


def test_triggers_are_made_where_they_are_asked_for() -> None:
    assert "TRIGGER" not in postgresql_schema(channel=None)
    assert "pg_notify('orders', '')" in postgresql_schema(channel="orders")
    assert "pg_advisory_xact_lock" in postgresql_schema(channel=None, locks_keys=True)
