"""The SQL of an outbox, run by SQLite; PostgreSQL's is run by tests/integration."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.outbox import dead_letter_schema, postgresql_schema, sqlite_schema
from kafwire.outbox.statements import letter_statements, listen_statement, statements


def test_the_schema_of_sqlite_changes_nothing_where_it_is() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        for _ in range(2):
            database.executescript(sqlite_schema("o"))
            database.execute("INSERT INTO o (topic) VALUES ('t')")
        assert database.execute("SELECT id FROM o").fetchall() == [(1,), (2,)]


def test_ids_of_sqlite_do_not_come_again() -> None:
    """Without AUTOINCREMENT they would."""
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
    assert not [name for name in found.__slots__ if "%" in str(getattr(found, name))]
    assert "FROM shop.outbox" in found.choose


def test_a_database_that_outboxes_do_not_know() -> None:
    with pytest.raises(ConfigError, match='give database="postgresql"'):
        statements("other", "outbox", keeps=False)


@pytest.mark.parametrize("name", ["a b", "a;b", "", None])
def test_names_are_checked(name: Any) -> None:
    with pytest.raises(ConfigError, match="only letters, digits"):
        statements("sqlite", name, keeps=False)
    with pytest.raises(ConfigError, match="only letters, digits"):
        sqlite_schema(name)
    with pytest.raises(ConfigError, match="only letters, digits"):
        postgresql_schema(name)
    if name is not None:
        with pytest.raises(ConfigError, match="only letters, digits"):
            postgresql_schema(channel=name)


def test_a_channel_keeps_its_case_on_both_sides() -> None:
    assert listen_statement("NewRows") == 'LISTEN "NewRows"'
    assert "pg_notify('NewRows', '')" in postgresql_schema(channel="NewRows")


def test_a_channel_that_postgresql_would_cut_is_refused() -> None:
    assert listen_statement("c" * 63)
    with pytest.raises(ConfigError, match="truncates names after 63 characters"):
        listen_statement("c" * 64)
    with pytest.raises(ConfigError, match="truncates names after 63 characters"):
        postgresql_schema(channel="c" * 64)


def test_sqlite_has_the_outbox_in_the_main_database() -> None:
    with pytest.raises(ConfigError, match="remove the schema"):
        sqlite_schema("main.outbox")


def test_triggers_are_made_where_they_are_asked_for() -> None:
    assert "TRIGGER" not in postgresql_schema(channel=None)
    assert "pg_notify('orders', '')" in postgresql_schema(channel="orders")
    assert "pg_advisory_xact_lock" in postgresql_schema(channel=None, locks_keys=True)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_dead_letters_have_a_table_of_each_database(database: Any) -> None:
    assert dead_letter_schema("shop.letters", database=database).startswith("CREATE TABLE IF NOT EXISTS shop.letters (")
    with pytest.raises(ConfigError, match="only letters, digits"):
        dead_letter_schema("a b", database=database)


def test_dead_letters_of_another_database() -> None:
    other: Any = "oracle"
    with pytest.raises(ConfigError, match="allowed: 'postgresql', 'sqlite'"):
        dead_letter_schema(database=other)


def test_a_row_is_moved_with_all_of_its_columns() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(sqlite_schema("o") + 2 * dead_letter_schema("d", database="sqlite"))
        database.execute("INSERT INTO o (topic, aggregate_key, payload, headers) VALUES ('t', 17, x'00', '{')")
        database.execute("INSERT INTO o (topic) VALUES ('other')")
        columns = "id, topic, aggregate_key, payload, headers, created_at"
        before = database.execute(f"SELECT {columns} FROM o WHERE id = 1").fetchall()
        moving = letter_statements("o", "d")
        assert database.execute(moving.exists).fetchall() == []
        for _ in range(2):  # the second time there is no such row
            database.execute(moving.insert, ("large", 1))
            database.execute(moving.remove, (1,))
        assert database.execute(f"SELECT {columns} FROM d").fetchall() == before
        assert database.execute("SELECT reason, refused_at > '2020' FROM d").fetchall() == [("large", 1)]
        assert database.execute("SELECT id FROM o").fetchall() == [(2,)]
