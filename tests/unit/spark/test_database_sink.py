"""Batches into a database, given frames without a session."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.database_sink import to_database

Connect = Callable[[], sqlite3.Connection]


class Frame:
    """The rows of a batch of the query `query_id`; `fetched` counts how often they were asked for."""

    def __init__(
        self, rows: list[tuple[Any, ...]], query_id: str | None = "id", fails_after: int | None = None
    ) -> None:
        self._rows, self._fails_after, self.fetched = rows, fails_after, 0
        context = SimpleNamespace(getLocalProperty={"sql.streaming.queryId": query_id}.get)
        self.sparkSession = SimpleNamespace(sparkContext=context)

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[tuple[Any, ...]]:  # noqa: N803
        assert prefetchPartitions
        self.fetched += 1
        for number, row in enumerate(self._rows):
            if number == self._fails_after:
                raise RuntimeError("a task failed")
            yield row


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    def opened() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "d")

    with closing(opened()) as database:
        database.execute("CREATE TABLE rows (name TEXT, value INTEGER)")
    return opened


def stored(connect: Connect) -> list[tuple[Any, ...]]:
    with closing(connect()) as database:
        return database.execute("SELECT * FROM rows ORDER BY value").fetchall()


def give(sink: Any, frame: Frame, batch: int) -> None:
    sink(frame, batch)


INSERT = "INSERT INTO rows VALUES (?, ?)"


def test_a_batch_is_stored_once_and_its_second_delivery_not_even_run(connect: Connect) -> None:
    rows = [("a", number) for number in range(2500)]
    give(to_database(connect, INSERT), Frame(rows), 0)
    again = Frame(rows)
    give(to_database(connect, INSERT), again, 0)  # the driver was restarted
    assert again.fetched == 0
    give(to_database(connect, INSERT), Frame([("b", 9999)]), 1)
    assert stored(connect) == [*rows, ("b", 9999)]


def test_a_batch_that_fails_stores_nothing_and_is_delivered_again(connect: Connect) -> None:
    sink = to_database(connect, INSERT)
    with pytest.raises(RuntimeError, match="a task failed"):
        give(sink, Frame([("a", number) for number in range(1500)], fails_after=1200), 0)
    assert stored(connect) == []
    give(sink, Frame([("a", 1)]), 0)
    assert stored(connect) == [("a", 1)]


def test_queries_are_distinguished_by_spark_s_id_or_by_name(connect: Connect) -> None:
    give(to_database(connect, INSERT), Frame([("a", 1)], "one"), 0)
    give(to_database(connect, INSERT), Frame([("a", 2)], "two"), 0)
    give(to_database(connect, INSERT, query="name"), Frame([("a", 3)], None), 0)
    give(to_database(connect, INSERT, query="name"), Frame([("a", 4)], "three"), 0)
    assert [value for _, value in stored(connect)] == [1, 2, 3]
    with pytest.raises(ConfigError, match="does not say which query"):
        give(to_database(connect, INSERT), Frame([("a", 5)], None), 0)


def test_a_function_may_store_the_rows(connect: Connect) -> None:
    def upsert(database: sqlite3.Connection, rows: Iterator[tuple[str, int]]) -> None:
        for name, value in rows:
            database.execute("DELETE FROM rows WHERE name = ?", (name,))
            database.execute(INSERT, (name, value))

    sink = to_database(connect, upsert)
    give(sink, Frame([("a", 1), ("b", 2)]), 0)
    give(sink, Frame([("a", 3)]), 1)
    assert stored(connect) == [("b", 2), ("a", 3)]


def test_a_wrong_argument_is_named(connect: Connect) -> None:
    wrong: Any = 3
    with pytest.raises(ConfigError, match="connect=3"):
        to_database(wrong, INSERT)
    for store in (wrong, " "):
        with pytest.raises(ConfigError, match="a statement, or a function"):
            to_database(connect, store)
    with pytest.raises(ConfigError, match="letters, digits and _"):
        to_database(connect, INSERT, table="no name")
