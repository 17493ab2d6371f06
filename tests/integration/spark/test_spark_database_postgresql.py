"""A stream into PostgreSQL, whose driver is killed between both commits; and two drivers of one query."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafwire.database import DatabaseBatches
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S, until
from tests.support.outbox import postgresql

postgresql.needed()


@pytest.fixture(scope="module")
def server() -> Iterator[postgresql.PostgreSql]:
    with postgresql.PostgreSql() as server:
        yield server


@pytest.fixture
def database(server: postgresql.PostgreSql) -> postgresql.PostgreSql:
    server.execute("DROP TABLE IF EXISTS bills", "DROP TABLE IF EXISTS kafka_batches")
    return server


@pytest.mark.timeout(600)
def test_each_record_is_stored_once(database: postgresql.PostgreSql, tmp_path: Path) -> None:
    from tests.support.outbox.database_query import RECORDS, TABLE, run_alone

    database.execute(TABLE)
    with EmbeddedKafka() as kafka:
        kafka.create_topic("bills", partitions=1)
        kafka.append("bills", [b"%d" % number for number in range(RECORDS)], partition=0)
        place = (database.dsn, kafka.bootstrap, str(tmp_path / "checkpoint"))
        assert run_alone("psycopg", *place, die_after=1)
        assert database.rows("SELECT batch_id FROM kafka_batches") == [(1,)]
        assert not (tmp_path / "checkpoint" / "commits" / "1").exists()
        assert not run_alone("psycopg", *place, die_after=-1)
    assert database.rows("SELECT value FROM bills ORDER BY value") == [(number,) for number in range(RECORDS)]


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
@pytest.mark.parametrize("commits", [True, False])
def test_a_second_driver_waits_for_the_first_at_the_same_batch(
    database: postgresql.PostgreSql, driver: str, commits: bool
) -> None:
    batches = DatabaseBatches("q")
    found: list[bool] = []
    with closing(database.connect(driver)) as first, closing(database.connect(driver)) as second:
        batches.create_table(first)
        assert batches.begin(first, 0)
        other = threading.Thread(target=lambda: found.append(batches.begin(second, 0)), daemon=True)
        other.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: database.rows(waiting) == [(1,)], "the second driver waits")
        assert found == []
        first.commit() if commits else first.rollback()
        other.join(PATIENCE_S)
        assert found == [not commits]


def test_drivers_that_create_the_table_at_the_same_time_find_it(database: postgresql.PostgreSql) -> None:
    def create() -> None:
        with closing(database.connect()) as connection:
            DatabaseBatches("q").create_table(connection)
            made.append(True)

    made: list[bool] = []
    threads = [threading.Thread(target=create, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(made) == len(threads)
    assert database.rows("SELECT query_id, batch_id FROM kafka_batches") == [("q", -1)]
