"""Results and offsets in one transaction of the user's database: each record counts once, whenever a consumer dies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.database import DatabaseOffsets
from kafwire.errors import OffsetsFencedError
from kafwire.testing import EmbeddedKafka
from tests.support.outbox.database_reader import ORDERS, STEPS, expected, fill, read_and_die, results, tables


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        fill(kafka)
        yield kafka


def test_a_consumer_that_is_killed_counts_each_record_once(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    path = tmp_path / "bills.db"
    with closing(sqlite3.connect(path)) as database:
        tables(database)
    steps = (*range(1, 1 + len(STEPS)), 7, 0)
    died = [read_and_die("sqlite3", str(path), kafka.bootstrap, at) for at in steps]
    assert died == [*([True] * (len(steps) - 1)), False]
    with closing(sqlite3.connect(path)) as database:
        assert results(database.execute("SELECT part, value FROM bills ORDER BY rowid").fetchall()) == expected()


def test_a_zombie_stores_nothing(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """The zombie has read a partition that another consumer has taken over from the database's offset."""
    offsets = DatabaseOffsets("billing")
    with closing(sqlite3.connect(tmp_path / "bills.db")) as database:
        offsets.create_table(database)

        def consumer(**options: Any) -> kafwire.Consumer:
            start = offsets.start(database, ORDERS[:1])
            return kafwire.Consumer(kafka.bootstrap, assign=ORDERS[:1], start=start, **options)

        with consumer() as zombie, consumer(chunk_bytes=1) as newer:
            read = next(zombie.batches(timeout=10))
            offsets.store(database, next(newer.batches(timeout=10)))
            database.commit()
            assert read.next_offset > offsets.positions(database, ORDERS)[ORDERS[0]]
            with pytest.raises(OffsetsFencedError, match="the records from 0 to 30"):
                offsets.store(database, read)
            database.rollback()
            offsets.store(database, next(newer.batches(timeout=10)))


def test_a_consumer_goes_where_the_database_says(kafka: EmbeddedKafka) -> None:
    """One that has begun already: `seek`, and into the middle of a batch."""
    offsets = DatabaseOffsets("billing")
    with closing(sqlite3.connect(":memory:")) as database:
        offsets.create_table(database)
        offsets.store(database, {ORDERS[0]: 4})
        with kafwire.Consumer(kafka.bootstrap, assign=ORDERS[:1], start="latest") as consumer:
            for where, offset in offsets.positions(database, consumer.assignment).items():
                consumer.seek(where, offset)
            batch = next(consumer.batches(timeout=10))
            assert batch[0].offset == 4
            offsets.store(database, batch)
            offsets.store(database, consumer.processed() | {ORDERS[0]: batch.next_offset})
            assert offsets.positions(database, ORDERS) == {ORDERS[0]: batch.next_offset}
