"""Results and offsets in one transaction of PostgreSQL, which is killed, as its consumer is."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from kafwire.database import DatabaseOffsets
from kafwire.errors import ConfigError, OffsetsFencedError
from kafwire.testing import EmbeddedKafka
from tests.support import deadlines
from tests.support.outbox import postgresql
from tests.support.outbox.database_reader import ORDERS, STEPS, expected, fill, read, read_and_die, results, tables

postgresql.needed()

from psycopg import OperationalError  # noqa: E402 - it need not be there

RESULTS = "SELECT part, value FROM bills ORDER BY value::int"


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        fill(kafka)
        yield kafka


@pytest.fixture(scope="module")
def server() -> Iterator[postgresql.PostgreSql]:
    with postgresql.PostgreSql() as server:
        yield server


@pytest.fixture
def database(server: postgresql.PostgreSql) -> postgresql.PostgreSql:
    """The server, with tables that are empty."""
    server.execute("DROP TABLE IF EXISTS bills", "DROP TABLE IF EXISTS kafka_offsets, kafka_offsets_former_topics")
    with closing(server.connect()) as connection:
        tables(connection)
    return server


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_a_consumer_that_is_killed_counts_each_record_once(
    kafka: EmbeddedKafka, database: postgresql.PostgreSql, driver: str
) -> None:
    steps = (*range(1, 1 + len(STEPS)), 7, 0)
    died = [read_and_die(driver, database.dsn, kafka.bootstrap, at) for at in steps]
    assert died == [*([True] * (len(steps) - 1)), False]
    assert results(database.rows(RESULTS)) == expected()


def test_the_database_is_killed_at_each_step(kafka: EmbeddedKafka, database: postgresql.PostgreSql) -> None:
    """The consumer starts over from the offsets in the database."""
    due = [*STEPS, *STEPS]

    def on_step(step: str) -> None:
        if due and step == due[0]:
            del due[0]
            database.kill()
            database.start()

    failed = 0
    for _ in range(20):
        try:
            read("psycopg", database.dsn, kafka.bootstrap, on_step)
        except OperationalError:
            failed += 1
        else:
            break
    assert not due
    assert failed > len(STEPS)  # one that comes before another statement of the batch is noticed together with the next
    assert results(database.rows(RESULTS)) == expected()


def test_a_second_reader_waits_for_the_first_and_is_refused(database: postgresql.PostgreSql) -> None:
    """The row of a partition is locked until the first one commits."""
    offsets = DatabaseOffsets("billing")
    refused: list[OffsetsFencedError] = []
    with closing(database.connect()) as one, closing(database.connect("psycopg2")) as other:
        offsets.store(one, {ORDERS[0]: 3})
        one.commit()
        offsets.store(one, {ORDERS[0]: 9})

        def store() -> None:
            try:
                offsets.store(other, {ORDERS[0]: 6})
            except OffsetsFencedError as error:
                refused.append(error)

        thread = threading.Thread(target=store)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        deadlines.until(lambda: database.rows(waiting) == [(1,)])
        one.commit()
        deadlines.ended(thread)
    assert [error.offset for error in refused] == [9]


def test_two_first_readers_do_not_both_store(database: postgresql.PostgreSql) -> None:
    """There is no row yet that could be locked: the database refuses the second one."""
    offsets = DatabaseOffsets("billing")
    errors: list[OffsetsFencedError] = []
    with closing(database.connect()) as one, closing(database.connect()) as other:
        offsets.store(one, {ORDERS[0]: 3})

        def store() -> None:
            try:
                offsets.store(other, {ORDERS[0]: 6})
            except OffsetsFencedError as error:
                errors.append(error)

        thread = threading.Thread(target=store)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        deadlines.until(lambda: database.rows(waiting) == [(1,)])
        one.commit()
        deadlines.ended(thread)
        assert [error.offset for error in errors] == [3]
        other.rollback()
        assert offsets.positions(other, ORDERS) == {ORDERS[0]: 3}


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_second_reader_with_a_snapshot_of_its_own_is_refused_by_the_database(
    database: postgresql.PostgreSql, level: str
) -> None:
    """`store` refuses it, too, when it tries again."""
    offsets = DatabaseOffsets("billing")
    with closing(database.connect()) as one, closing(database.connect()) as other:
        for connection in (one, other):
            connection.execute(f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")
            connection.commit()
        assert offsets.positions(other, ORDERS) == {}
        offsets.store(one, {ORDERS[0]: 6})
        one.commit()
        with pytest.raises(OperationalError, match="could not serialize access"):
            offsets.store(other, {ORDERS[0]: 3})
        other.rollback()
        with pytest.raises(OffsetsFencedError, match="offset 6 was stored"):
            offsets.store(other, {ORDERS[0]: 3})


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_a_connection_that_commits_by_itself_is_refused(database: postgresql.PostgreSql, driver: str) -> None:
    """The connection is taken if a transaction was begun on it."""
    offsets = DatabaseOffsets("billing")
    with closing(database.connect(driver)) as connection:
        connection.autocommit = True
        with pytest.raises(ConfigError, match="commits each statement by itself"):
            offsets.store(connection, {ORDERS[0]: 6})
        connection.cursor().execute("BEGIN")
        offsets.store(connection, {ORDERS[0]: 6})
        connection.cursor().execute("ROLLBACK")
        assert offsets.positions(connection, ORDERS) == {}


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_a_zombie_of_a_former_topic_is_refused(database: postgresql.PostgreSql, driver: str) -> None:
    old, new = (DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=number)}) for number in (1, 2))
    with closing(database.connect(driver)) as connection, closing(database.connect(driver)) as zombie:
        old.store(zombie, {ORDERS[0]: 6})
        zombie.commit()
        assert new.positions(connection, ORDERS) == {}
        new.store(connection, {ORDERS[0]: 2})
        connection.commit()
        with pytest.raises(OffsetsFencedError, match="the topic was recreated"):
            old.store(zombie, {ORDERS[0]: 9})
        zombie.rollback()
        with pytest.raises(OffsetsFencedError, match="the topic was recreated"):
            old.positions(zombie, ORDERS)
        zombie.rollback()
        new.store(connection, {ORDERS[0]: 3})
        connection.commit()
        assert new.positions(connection, ORDERS) == {ORDERS[0]: 3}


def test_a_zombie_that_waits_for_the_reader_of_the_new_topic_is_refused(database: postgresql.PostgreSql) -> None:
    old, new = (DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=number)}) for number in (1, 2))
    errors: list[OffsetsFencedError] = []
    with closing(database.connect()) as one, closing(database.connect()) as zombie:
        old.store(one, {ORDERS[0]: 3})
        one.commit()
        new.store(one, {ORDERS[0]: 1})

        def store() -> None:
            try:
                old.store(zombie, {ORDERS[0]: 6})
            except OffsetsFencedError as error:
                errors.append(error)

        thread = threading.Thread(target=store)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        deadlines.until(lambda: database.rows(waiting) == [(1,)])
        one.commit()
        deadlines.ended(thread)
        zombie.rollback()
        assert [error.offset for error in errors] == [1]
        assert new.positions(one, ORDERS) == {ORDERS[0]: 1}


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_a_table_of_before_is_completed(database: postgresql.PostgreSql, driver: str) -> None:
    """The error says so, and the next transaction has all that is needed."""
    old, new = (DatabaseOffsets("billing", topic_ids={"orders": uuid.UUID(int=number)}) for number in (1, 2))
    database.execute("DROP TABLE kafka_offsets_former_topics")
    with closing(database.connect(driver)) as connection:
        old.store(connection, {ORDERS[0]: 6})
        connection.commit()
        with pytest.raises(ConfigError, match=r"kafka_offsets_former_topics is missing: roll back"):
            new.positions(connection, ORDERS)
        connection.rollback()
        new.create_table(connection)
        assert old.positions(connection, ORDERS) == {ORDERS[0]: 6}
        assert new.positions(connection, ORDERS) == {}
        new.store(connection, {ORDERS[0]: 2})
        connection.commit()
