"""Which tables of SQLite give an id only once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from kafwire.database.connections import execute
from kafwire.outbox import sqlite_schema
from kafwire.outbox.sqlite_ids import gives_ids_once

CARELESS = sqlite_schema().replace(" AUTOINCREMENT", "")
NAMES = ["outbox", "OutBox", "main.outbox", "MAIN.OUTBOX"]


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ':memory:' AS shop")
    yield connection
    connection.close()


def gives(database: sqlite3.Connection, table: str) -> bool:
    def ask(statement: str, *parameters: object) -> list[Any]:
        return partial(execute, database, "qmark")(statement, *parameters)[0]

    return gives_ids_once(ask, table)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_gives_each_id_once(database: sqlite3.Connection, name: str) -> None:
    database.executescript(sqlite_schema())
    assert gives(database, name)
    database.text_factory = bytes
    assert gives(database, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_autoincrement_is_found_by_each_of_its_names(database: sqlite3.Connection, name: str) -> None:
    database.executescript(CARELESS)
    assert not gives(database, name)


@pytest.mark.parametrize(
    "column",
    [
        "id INTEGER PRIMARY KEY -- AUTOINCREMENT is slow\n",
        "id INTEGER PRIMARY KEY /* no\nAUTOINCREMENT */",
        "id INTEGER PRIMARY KEY CHECK (id <> 'AUTOINCREMENT')",
        'id INTEGER PRIMARY KEY, "AUTOINCREMENT" TEXT',
        "number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER",
        "id INTEGER UNIQUE",
    ],
)
def test_the_word_has_to_be_the_keyword_of_the_id(database: sqlite3.Connection, column: str) -> None:
    database.execute(f"CREATE TABLE outbox ({column})")
    assert not gives(database, "outbox")


def test_a_keyword_beside_comments_counts(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE outbox (-- it's ours\n id INTEGER PRIMARY KEY ASC autoincrement /* keep */)")
    assert gives(database, "outbox")


def test_a_name_without_a_schema_is_looked_up_as_sqlite_does(database: sqlite3.Connection) -> None:
    """SQLite looks in temp, then in main, then in attached databases."""
    database.execute("CREATE TABLE shop.outbox (id INTEGER PRIMARY KEY)")
    assert not gives(database, "outbox")
    assert not gives(database, "shop.outbox")
    database.executescript(sqlite_schema())
    assert gives(database, "outbox")
    assert not gives(database, "shop.outbox")
    database.execute("CREATE TEMP TABLE outbox (id INTEGER PRIMARY KEY)")
    assert not gives(database, "outbox")
    assert gives(database, "main.outbox")


def test_a_view_and_a_missing_table_give_none(database: sqlite3.Connection) -> None:
    database.execute("CREATE VIEW outbox AS SELECT 1 AS id -- AUTOINCREMENT")
    assert not gives(database, "outbox")
    assert not gives(database, "nowhere")
