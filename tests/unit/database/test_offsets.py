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
from kafwire.records import Batch, decode_batches, encode_batch
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
    """The second goes further than the first: only the beginning of its batch shows the conflict."""
    few, more = batches_of(4, each=2), batches_of(4, each=4)
    offsets.store(database, few[0])
    with pytest.raises(OffsetsFencedError, match="the records from 0 to 4"):
        offsets.store(database, more)
    offsets.store(database, few[1])
    assert offsets.positions(database, [WHERE]) == {WHERE: 4}


def test_several_batches_of_a_partition_are_one_piece(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    offsets.store(database, batches_of(6, each=2))
    assert offsets.positions(database, [WHERE]) == {WHERE: 6}


def test_a_recreated_topic(database: sqlite3.Connection, caplog: pytest.LogCaptureFixture) -> None:
    old, new = uuid.UUID(int=1), uuid.UUID(int=2)
    before = DatabaseOffsets("billing", topic_ids={"orders": old})
    before.store(database, {WHERE: 5})
    assert before.positions(database, [WHERE]) == {WHERE: 5}
    after = DatabaseOffsets("billing", topic_ids={"orders": new})
    with caplog.at_level(logging.WARNING, "kafwire"):
        assert after.start(database, [WHERE]) == {WHERE: "earliest"}
    assert "topic 'orders' was recreated since offset 5 of partition 0" in caplog.text
    after.store(database, {WHERE: 2})
    assert after.positions(database, [WHERE]) == {WHERE: 2}
    with pytest.raises(OffsetsFencedError):
        after.store(database, {WHERE: 1})


OLD, NEW, NEWER = (uuid.UUID(int=number) for number in (1, 2, 3))


def reader(topic_id: uuid.UUID) -> DatabaseOffsets:
    return DatabaseOffsets("billing", topic_ids={"orders": topic_id})


@pytest.mark.parametrize("rewind", [False, True])
def test_a_zombie_of_a_former_topic_is_refused(database: sqlite3.Connection, *, rewind: bool) -> None:
    """Whatever offset it has, and whenever it began."""
    zombie, began_before = reader(OLD), reader(OLD)
    began_before.positions(database, [WHERE])
    zombie.store(database, {WHERE: 5})
    new = reader(NEW)
    assert new.positions(database, [WHERE]) == {}
    new.store(database, {WHERE: 2})
    for old in (zombie, began_before, reader(OLD)):
        for offset in (1, 2, 9):
            with pytest.raises(OffsetsFencedError, match="the topic was recreated") as caught:
                old.store(database, {WHERE: offset}, rewind=rewind)
        assert caught.value.offset == 2
        with pytest.raises(OffsetsFencedError, match="make a new DatabaseOffsets"):
            old.positions(database, [WHERE])
    new.store(database, {WHERE: 3})
    assert new.positions(database, [WHERE]) == {WHERE: 3}


def test_a_zombie_that_has_stored_nothing_is_refused_if_it_has_looked(database: sqlite3.Connection) -> None:
    zombie = reader(OLD)
    assert zombie.start(database, [WHERE]) == {WHERE: "earliest"}
    reader(NEW).store(database, {WHERE: 2})
    with pytest.raises(OffsetsFencedError, match=f"topic id {NEW}, and this reader has {OLD}"):
        zombie.store(database, {WHERE: 9})
    with pytest.raises(OffsetsFencedError, match="make a new DatabaseOffsets"):
        zombie.positions(database, [WHERE])
    assert reader(NEW).positions(database, [WHERE]) == {WHERE: 2}


def test_a_topic_is_recreated_again_and_again(database: sqlite3.Connection) -> None:
    for topic_id in (OLD, NEW, NEWER):
        reader(topic_id).store(database, {WHERE: 5})
    for topic_id in (OLD, NEW):
        with pytest.raises(OffsetsFencedError):
            reader(topic_id).store(database, {WHERE: 9})
    assert reader(NEWER).positions(database, [WHERE]) == {WHERE: 5}
    assert database.execute("SELECT topic_id FROM kafka_offsets_former_topics ORDER BY 1").fetchall() == [
        (str(OLD),),
        (str(NEW),),
    ]


def test_former_topics_of_other_groups_and_partitions_do_not_count(database: sqlite3.Connection) -> None:
    for topic_id in (OLD, NEW):
        reader(topic_id).store(database, {WHERE: 5})
    reader(OLD).store(database, {OTHER: 5})
    DatabaseOffsets("shipping", topic_ids={"orders": OLD}).store(database, {WHERE: 5})
    assert reader(OLD).positions(database, [OTHER]) == {OTHER: 5}


def test_a_rollback_takes_a_new_topic_with_it(database: sqlite3.Connection) -> None:
    reader(OLD).store(database, {WHERE: 5})
    database.commit()
    new = reader(NEW)
    for end in (database.rollback, database.commit):
        assert new.positions(database, [WHERE]) == {}
        new.store(database, {WHERE: 2})
        end()
        database.commit()
    assert new.positions(database, [WHERE]) == {WHERE: 2}


def test_a_generation_does_not_fall_with_a_new_topic(database: sqlite3.Connection) -> None:
    reader(OLD).store(database, {WHERE: 5}, generation=2)
    with pytest.raises(OffsetsFencedError, match="under generation 2 already"):
        reader(NEW).store(database, {WHERE: 2}, generation=1)
    reader(NEW).store(database, {WHERE: 2}, generation=2)


def test_another_reader_replaces_the_topic_first(another: OfAnotherDriver) -> None:
    """Between the look and the UPDATE of this one."""
    reader(OLD).store(another, {WHERE: 5})

    def replace_first(statement: str) -> None:
        if statement.startswith("UPDATE") and "topic_id = ? AND generation" in statement:
            another.before = lambda _: None
            reader(NEWER).store(another, {WHERE: 7})

    another.before = replace_first
    with pytest.raises(OffsetsFencedError) as caught:
        reader(NEW).store(another, {WHERE: 2})
    assert caught.value.offset == 7
    assert reader(NEWER).positions(another, [WHERE]) == {WHERE: 7}


def test_a_table_of_before_is_completed_and_keeps_its_offsets(database: sqlite3.Connection) -> None:
    """An older table is used as it is until a topic is recreated; then the error says what to do."""
    reader(OLD).store(database, {WHERE: 5})
    database.execute("DROP TABLE kafka_offsets_former_topics")
    reader(OLD).store(database, {WHERE: 6})
    for call in (lambda: reader(NEW).positions(database, [WHERE]), lambda: reader(NEW).store(database, {WHERE: 2})):
        with pytest.raises(ConfigError, match=r"kafka_offsets_former_topics is missing: roll back, and call create_t"):
            call()
    reader(OLD).create_table(database)
    assert reader(OLD).positions(database, [WHERE]) == {WHERE: 6}
    reader(NEW).store(database, {WHERE: 2})
    with pytest.raises(OffsetsFencedError):
        reader(OLD).store(database, {WHERE: 7})


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

    def execute(self, statement: str, *parameters: Any) -> Any:
        """Run a statement, after what comes before it."""
        connection = self.connection
        assert isinstance(connection, OfAnotherDriver)
        connection.before(statement)
        return super().execute(statement, *parameters)

    @property
    def rowcount(self) -> int:
        """How many."""
        connection = self.connection
        assert isinstance(connection, OfAnotherDriver)
        return connection.count(super().rowcount)


class OfAnotherDriver(sqlite3.Connection):
    """A connection whose `count` says how many rows an UPDATE has changed."""

    count: Callable[[int], int]
    before: Callable[[str], object] = staticmethod(lambda _: None)

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


def test_a_driver_that_counts_no_rows_is_an_error(another: OfAnotherDriver, offsets: DatabaseOffsets) -> None:
    """An unknown outcome does not count as stored."""
    another.count = lambda changed: -1
    with pytest.raises(ConfigError, match="does not report how many rows an UPDATE has changed"):
        offsets.store(another, {WHERE: 5})


def test_a_driver_that_counts_only_rows_that_differ(another: OfAnotherDriver, offsets: DatabaseOffsets) -> None:
    """MySQL's drivers do so: storing the same offset again changes nothing, and no reader fences itself."""
    known = DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=1)})
    known.store(another, {WHERE: 5}, generation=2)
    another.count = lambda changed: 0
    known.store(another, {WHERE: 5}, generation=2)
    offsets.store(another, {WHERE: 5}, generation=2)
    known.store(another, {WHERE: 5}, generation=2, rewind=True)
    for done, generation in (({WHERE: 5}, 1), ({WHERE: 4}, 2), (batches_of(5, each=5), 2)):
        with pytest.raises(OffsetsFencedError):
            offsets.store(another, done, generation=generation)


class FirstReader:
    """Another reader, which stores an offset between the UPDATE and the INSERT of a first `store`."""

    def __init__(self, connection: OfAnotherDriver) -> None:
        self._connection = connection
        connection.before = self

    def __call__(self, statement: str) -> None:
        if statement.startswith("INSERT"):
            self._connection.before = lambda _: None
            DatabaseOffsets("billing").store(self._connection, {WHERE: 9})


def test_the_second_of_two_first_readers_is_refused(another: OfAnotherDriver, offsets: DatabaseOffsets) -> None:
    """The database has it wait, and then inserts nothing."""
    FirstReader(another)
    with pytest.raises(OffsetsFencedError, match="offset 9 was stored") as caught:
        offsets.store(another, {WHERE: 5})
    assert caught.value.offset == 9
    assert offsets.positions(another, [WHERE]) == {WHERE: 9}


def test_a_driver_that_does_not_count_inserted_rows_is_an_error(
    another: OfAnotherDriver, offsets: DatabaseOffsets
) -> None:
    """An insert that did nothing would count as stored."""
    counts = iter([0, 0, -1])  # of the UPDATE, the SELECT and the INSERT
    another.count = lambda _: next(counts, 1)
    with pytest.raises(ConfigError, match="does not report how many rows"):
        offsets.store(another, {WHERE: 5})


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
    """No partition starts over because it is not recognised."""
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
def test_values_that_are_no_offset(database: sqlite3.Connection, offsets: DatabaseOffsets, offset: Any) -> None:
    with pytest.raises(ConfigError, match="of orders-0 must be a whole number from 0 to 2"):
        offsets.store(database, {WHERE: offset})


@pytest.mark.parametrize("generation", [-1, 1.5, True, "5", 1 << 63])
def test_values_that_are_no_generation(database: sqlite3.Connection, offsets: DatabaseOffsets, generation: Any) -> None:
    with pytest.raises(ConfigError, match="generation="):
        offsets.store(database, {WHERE: 5}, generation=generation)


def test_arguments_are_checked(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    with pytest.raises(ConfigError, match="group=''"):
        DatabaseOffsets("")
    with pytest.raises(ConfigError, match="only letters, digits"):
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


def test_a_batch_without_a_topic_is_refused(database: sqlite3.Connection, offsets: DatabaseOffsets) -> None:
    (decoded,) = decode_batches(encode_batch([(b"key", b"value")]))
    with pytest.raises(ConfigError, match="names no topic and partition: store batches of a consumer or a scan"):
        offsets.store(database, [decoded])  # type: ignore[list-item]
    assert offsets.positions(database, [WHERE]) == {}
