"""A stream into SQLite, whose driver is killed between the database's commit and the query's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafwire.spark.checkpoint import committed, open_checkpoint
from kafwire.testing import EmbeddedKafka
from tests.support.outbox.database_query import RECORDS, TABLE, run, run_alone

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("bills", partitions=1)
        running.append("bills", [b"%d" % number for number in range(RECORDS)], partition=0)
        yield running


def test_each_record_is_stored_once(kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path) -> None:
    database, checkpoint = str(tmp_path / "database"), str(tmp_path / "checkpoint")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(TABLE)
        assert run_alone("sqlite3", database, kafka.bootstrap, checkpoint, die_after=1)
        stored = connection.execute("SELECT batch_id FROM kafka_batches").fetchall()
        query = committed(open_checkpoint(checkpoint))
        assert query is not None
        assert (stored, query.batch) == ([(1,)], 0)  # the database has a batch more than the query
        run(spark, "sqlite3", database, kafka.bootstrap, checkpoint)
        values = [value for (value,) in connection.execute("SELECT value FROM bills ORDER BY value")]
    assert values == list(range(RECORDS))
