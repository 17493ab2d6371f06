"""Which batch of a query a database holds: here SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafwire.database import BatchGapError, DatabaseBatches
from kafwire.errors import ConfigError


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        DatabaseBatches("q").create_table(connection)
        yield connection


def test_a_batch_is_begun_once_and_skipped_after_its_commit(database: sqlite3.Connection) -> None:
    batches = DatabaseBatches("q")
    assert batches.begin(database, 0)
    assert database.in_transaction
    database.commit()
    assert not batches.begin(database, 0)
    assert not database.in_transaction
    assert batches.begin(database, 1)


def test_a_batch_that_was_rolled_back_is_begun_again(database: sqlite3.Connection) -> None:
    batches = DatabaseBatches("q")
    assert batches.begin(database, 0)
    database.rollback()
    assert batches.begin(database, 0)


def test_a_query_may_begin_at_any_batch_and_others_do_not_count(database: sqlite3.Connection) -> None:
    assert DatabaseBatches("q").begin(database, 40)
    database.commit()
    other = DatabaseBatches("other")
    other.create_table(database)
    assert other.begin(database, 3)


@pytest.mark.parametrize(
    ("batch", "wrong"), [(12, "has batch 7 .* batches 8 to 11 are missing"), (3, "the query has gone back")]
)
def test_database_and_checkpoint_of_different_moments_are_an_error(
    database: sqlite3.Connection, batch: int, wrong: str
) -> None:
    batches = DatabaseBatches("q")
    assert batches.begin(database, 7)
    database.commit()
    with pytest.raises(BatchGapError, match=wrong):
        batches.begin(database, batch)
    assert not database.in_transaction
    assert batches.begin(database, 8)


def test_a_table_that_exists_keeps_its_rows(database: sqlite3.Connection) -> None:
    batches = DatabaseBatches("q")
    assert batches.begin(database, 7)
    database.commit()
    batches.create_table(database)
    assert not batches.begin(database, 7)


def test_a_table_or_connection_without_exactly_once_is_refused(database: sqlite3.Connection, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no row of query other: call create_table"):
        DatabaseBatches("other").begin(database, 0)
    with closing(sqlite3.connect(tmp_path / "d", isolation_level=None)) as by_itself:
        DatabaseBatches("q").create_table(by_itself)
        with pytest.raises(ConfigError, match="commits each statement by itself"):
            DatabaseBatches("q").begin(by_itself, 0)
    with pytest.raises(ConfigError, match="query=''"):
        DatabaseBatches("")
    with pytest.raises(ConfigError, match="letters, digits and _"):
        DatabaseBatches("q", table="a; DROP TABLE b")
    with pytest.raises(ConfigError, match="paramstyle='percent'"):
        DatabaseBatches("q", paramstyle="percent")


def test_an_error_of_the_database_is_raised(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"no database at all" * 100)
    with closing(sqlite3.connect(tmp_path / "d")) as broken, pytest.raises(sqlite3.DatabaseError):
        DatabaseBatches("q").create_table(broken)
