"""Positions in the user's own database: here SQLite's."""

from __future__ import annotations

import logging
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from kafwire import TopicPartition
from kafwire.database import DatabaseOffsets
from kafwire.errors import ConfigError, OffsetsFencedError
from kafwire.records import Batch
from kafwire.testing import EmbeddedKafka

WHERE = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    DatabaseOffsets("billing").create_table(connection)
    connection.commit()
    yield connection
    connection.close()


@pytest.fixture
def offsets() -> DatabaseOffsets:
    return DatabaseOffsets("billing")


def batches_of(count: int, *, each: int) -> list[Batch]:
    """Batches of the first partition, as a consumer hands them out."""
    import kafwire

    with EmbeddedKafka() as kafka:
        kafka.create_topic(WHERE.topic)
        for first in range(0, count, each):
            kafka.append(WHERE.topic, [str(number) for number in range(first, first + each)])
        with kafwire.Consumer(kafka.bootstrap, assign=[WHERE], start="earliest", chunk_bytes=1) as consumer:
            found: list[Batch] = []
            for batch in consumer.batches(timeout=10):
                found.append(batch)
                if batch.next_offset == count:
                    return found
    raise AssertionError("not all came")


def test_a_partition_begins_where_it_was_left(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    assert offsets.start(database, [WHERE]) == {WHERE: "earliest"}
    offsets.store(database, {WHERE: 5, OTHER: 7})
    offsets.store(database, {WHERE: 9})
    assert offsets.positions(database, [WHERE, OTHER, ("bills", 0)]) == {WHERE: 9, OTHER: 7}
    assert offsets.start(database, [WHERE, ("bills", 0)], otherwise="latest") == {WHERE: 9, ("bills", 0): "latest"}


def test_groups_are_apart(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, {WHERE: 5})
    assert DatabaseOffsets("shipping").positions(database, [WHERE]) == {}


def test_a_rollback_takes_offsets_with_it(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, {WHERE: 5})
    database.commit()
    offsets.store(database, {WHERE: 9})
    database.rollback()
    assert offsets.positions(database, [WHERE]) == {WHERE: 5}


def test_offsets_go_back_only_where_that_is_asked(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, {WHERE: 5})
    offsets.store(database, {WHERE: 5})
    with pytest.raises(OffsetsFencedError, match="another reader has this partition") as caught:
        offsets.store(database, {WHERE: 4})
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 0, 5)
    assert str(caught.value).endswith("stop reading it. To read records again, store them with rewind=True")
    offsets.store(database, {WHERE: 4}, rewind=True)
    assert offsets.positions(database, [WHERE]) == {WHERE: 4}


def test_a_generation_does_not_fall(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, {WHERE: 5}, generation=2)
    for rewind in (False, True):
        with pytest.raises(OffsetsFencedError, match="under generation 2 already") as caught:
            offsets.store(database, {WHERE: 9}, generation=1, rewind=rewind)
        assert caught.value.generation == 2
        assert str(caught.value).endswith("stop reading it"), "which is no way around a generation"
    offsets.store(database, {WHERE: 6}, generation=2)
    offsets.store(database, {WHERE: 7}, generation=3)
    with pytest.raises(OffsetsFencedError):
        offsets.store(database, {WHERE: 8}, generation=2)


def test_two_readers_of_a_partition_do_not_both_store(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    """The second goes further than the first: only the beginning of what it read tells."""
    few, more = batches_of(4, each=2), batches_of(4, each=4)
    offsets.store(database, few[0])
    with pytest.raises(OffsetsFencedError, match="what was read from 0 to 4"):
        offsets.store(database, more)
    offsets.store(database, few[1])
    assert offsets.positions(database, [WHERE]) == {WHERE: 4}


def test_several_batches_of_a_partition_are_one_piece(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, batches_of(6, each=2))
    assert offsets.positions(database, [WHERE]) == {WHERE: 6}


def test_a_topic_that_was_made_anew(database: sqlite3.Connection, caplog: pytest.LogCaptureFixture) -> None:
    old, new = uuid.UUID(int=1), uuid.UUID(int=2)
    before = DatabaseOffsets("billing", topic_ids={"orders": old})
    before.store(database, {WHERE: 5})
    assert before.positions(database, [WHERE]) == {WHERE: 5}
    after = DatabaseOffsets("billing", topic_ids={"orders": new})
    with caplog.at_level(logging.WARNING, "kafwire"):
        assert after.start(database, [WHERE]) == {WHERE: "earliest"}
    assert "topic 'orders' was made anew since offset 5 of partition 0" in caplog.text
    after.store(database, {WHERE: 2})
    assert after.positions(database, [WHERE]) == {WHERE: 2}
    with pytest.raises(OffsetsFencedError):
        after.store(database, {WHERE: 1})


def test_ids_are_kept_and_learnt(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    """Offsets that were stored without an id count; and no id makes them go back."""
    offsets.store(database, {WHERE: 5})
    known = DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=1)})
    assert known.positions(database, [WHERE]) == {WHERE: 5}
    with pytest.raises(OffsetsFencedError):
        known.store(database, {WHERE: 4})
    known.store(database, {WHERE: 6})
    with pytest.raises(OffsetsFencedError):
        offsets.store(database, {WHERE: 5})
    offsets.store(database, {WHERE: 7})
    other = DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=2)})
    assert other.positions(database, [WHERE]) == {}


class Cursor(sqlite3.Cursor):
    """Counts rows as another driver does."""

    @property
    def rowcount(self) -> int:
        """How many."""
        connection = self.connection
        assert isinstance(connection, OfAnotherDriver)
        return connection.count(super().rowcount)


class OfAnotherDriver(sqlite3.Connection):
    """A connection whose `count` says how many rows an UPDATE has changed."""

    count: Callable[[int], int]

    def cursor(self, *args: Any, **options: Any) -> Any:
        """Make a cursor that counts so."""
        return super().cursor(Cursor)


@pytest.fixture
def another() -> Iterator[OfAnotherDriver]:
    connection = sqlite3.connect(":memory:", factory=OfAnotherDriver)
    connection.count = lambda changed: changed
    DatabaseOffsets("billing").create_table(connection)
    connection.commit()
    yield connection
    connection.close()


def test_a_driver_that_counts_no_rows_is_told_of(another: OfAnotherDriver, offsets: DatabaseOffsets) -> None:
    """What is not known to be stored does not count as stored."""
    another.count = lambda changed: -1
    with pytest.raises(ConfigError, match="does not tell how many rows an UPDATE has changed"):
        offsets.store(another, {WHERE: 5})


def test_a_driver_that_counts_only_rows_that_differ(another: OfAnotherDriver, offsets: DatabaseOffsets) -> None:
    """Such as those of MySQL: to store what is there already changes nothing, and nobody is fenced by himself."""
    known = DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=1)})
    known.store(another, {WHERE: 5}, generation=2)
    another.count = lambda changed: 0
    known.store(another, {WHERE: 5}, generation=2)
    offsets.store(another, {WHERE: 5}, generation=2)
    known.store(another, {WHERE: 5}, generation=2, rewind=True)
    for done, generation in (({WHERE: 5}, 1), ({WHERE: 4}, 2), (batches_of(5, each=5), 2)):
        with pytest.raises(OffsetsFencedError):
            offsets.store(another, done, generation=generation)


def test_a_connection_that_commits_by_itself_is_refused(offsets: DatabaseOffsets) -> None:
    """Results and offsets would not be one transaction."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        offsets.create_table(database)
        with pytest.raises(ConfigError, match="commits each statement by itself"):
            offsets.store(database, {WHERE: 5})
        assert offsets.positions(database, [WHERE]) == {}
        database.execute("BEGIN")
        offsets.store(database, {WHERE: 5})
        database.execute("ROLLBACK")
        assert offsets.positions(database, [WHERE]) == {}


def test_text_that_comes_as_bytes(database: sqlite3.Connection) -> None:
    """Nothing begins anew as no partition is recognised."""
    offsets = DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=1)})
    offsets.store(database, {WHERE: 5})
    database.text_factory = bytes
    assert offsets.start(database, [WHERE], otherwise="latest") == {WHERE: 5}
    with pytest.raises(OffsetsFencedError):
        offsets.store(database, {WHERE: 4})


def test_a_savepoint_takes_its_offsets_with_it(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, {WHERE: 5})
    database.execute("SAVEPOINT second")
    offsets.store(database, {WHERE: 9})
    database.execute("ROLLBACK TO second")
    offsets.store(database, {OTHER: 2})
    database.commit()
    assert offsets.positions(database, [WHERE, OTHER]) == {WHERE: 5, OTHER: 2}


def test_epochs_are_stored(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, {WHERE: 5, OTHER: 6}, leader_epochs={WHERE: 3})
    rows = database.execute("SELECT leader_epoch FROM kafka_offsets ORDER BY partition_number").fetchall()
    assert rows == [(3,), (-1,)]


@pytest.mark.parametrize("offset", [-1, 1.5, True, "5", 1 << 63])
def test_what_is_no_offset(database: sqlite3.Connection, offsets: DatabaseOffsets, offset: Any) -> None:
    with pytest.raises(ConfigError, match="of orders-0: a whole number from 0"):
        offsets.store(database, {WHERE: offset})


@pytest.mark.parametrize("generation", [-1, 1.5, True, "5", 1 << 63])
def test_what_is_no_generation(database: sqlite3.Connection, offsets: DatabaseOffsets, generation: Any) -> None:
    with pytest.raises(ConfigError, match="generation="):
        offsets.store(database, {WHERE: 5}, generation=generation)


def test_arguments_are_checked(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    with pytest.raises(ConfigError, match="group=''"):
        DatabaseOffsets("")
    with pytest.raises(ConfigError, match="a name of letters"):
        DatabaseOffsets("g", table="a b")
    with pytest.raises(ConfigError, match="otherwise='oldest'"):
        offsets.start(database, [WHERE], otherwise="oldest")
    with pytest.raises(ConfigError, match="paramstyle='dollar'"):
        DatabaseOffsets("g", paramstyle="dollar")


def test_the_error_travels_between_processes(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    import pickle

    offsets.store(database, {WHERE: 5})
    with pytest.raises(OffsetsFencedError) as caught:
        offsets.store(database, {WHERE: 4})
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), vars(copy)) == (str(caught.value), vars(caught.value))
