"""Rows in PostgreSQL that Kafka refuses: they go to a table or a topic once, wherever a relay dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

import kafwire
from kafwire.errors import ConfigError
from kafwire.outbox import Step, dead_letter_schema
from kafwire.testing import KafkaCluster
from tests.support.outbox import postgresql
from tests.support.outbox.relays import IN_TURN, OF_LEFTOVERS, by_key, committed, relays
from tests.support.outbox.stage import Stage, stages

postgresql.needed()

pytestmark = pytest.mark.either_kafka

COLUMNS = "id, topic, aggregate_key, payload, headers, created_at"


@pytest.fixture(scope="module")
def stage_of(cluster: KafkaCluster) -> Iterator[Callable[..., Stage]]:
    with stages(cluster.bootstrap) as made:
        yield made


def letters_of(stage: Stage, where: str) -> str:
    """A table or a topic of dead letters."""
    letters = f"{stage.table}_letters"
    if where == "dead_letter_table":
        stage.database.execute(*2 * [dead_letter_schema(letters, database="postgresql")])
    else:
        with kafwire.Client(stage.bootstrap) as client:
            client.create_topic(letters, partitions=1)
    return letters


def commit_bad(stage: Stage, value: str) -> None:
    """Commit a row whose headers are a number."""
    row = (stage.table, "k", value.encode())
    with closing(stage.database.connect()) as connection:
        statement = f"INSERT INTO {stage.table} (topic, aggregate_key, payload, headers) VALUES (%s, %s, %s, '7')"
        connection.execute(statement, row)
        connection.commit()


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_a_row_is_moved_as_it_is(stage_of: Callable[..., Stage], driver: str) -> None:
    stage = stage_of()
    letters = letters_of(stage, "dead_letter_table")
    rows = stage.commit(range(4))
    commit_bad(stage, "bad")
    rows += stage.commit(range(4, 8))
    before = stage.database.rows(f"SELECT {COLUMNS} FROM {stage.table} WHERE id = 5")
    with stage.outbox(driver, dead_letter_table=letters) as outbox:
        assert [outbox.relay() for _ in range(4)] == [4, 1, 4, 0]
    assert stage.database.rows(f"SELECT {COLUMNS} FROM {letters}") == before
    ((reason,),) = stage.database.rows(f"SELECT reason FROM {letters} WHERE refused_at > created_at")
    assert "headers are not a JSON object" in reason
    assert stage.relayed() == by_key(rows)
    assert stage.left() == 0


def test_a_row_that_is_kept_is_moved_too(stage_of: Callable[..., Stage]) -> None:
    stage = stage_of()
    letters = letters_of(stage, "dead_letter_table")
    commit_bad(stage, "bad")
    with stage.outbox(dead_letter_table=letters, keep_s=3600) as outbox:
        assert [outbox.relay() for _ in range(2)] == [1, 0]
    assert stage.database.rows(f"SELECT payload FROM {letters}") == [(b"bad",)]
    assert stage.database.rows(f"SELECT id FROM {stage.table}") == []


def test_a_table_that_is_not_there_is_named(stage_of: Callable[..., Stage]) -> None:
    with stage_of().outbox(dead_letter_table="nowhere") as outbox, pytest.raises(ConfigError, match="dead_letter_sch"):
        outbox.run()


@pytest.mark.parametrize("where", ["dead_letter_table", "dead_letter_topic"])
def test_a_relay_is_killed_at_each_step(stage_of: Callable[..., Stage], where: str) -> None:
    stage = stage_of()
    letters = letters_of(stage, where)
    rows, bad = [], []
    with relays(("psycopg", stage.database.dsn), stage.bootstrap, **stage.options(**{where: letters})) as process:
        for number, step in enumerate(IN_TURN):
            rows += stage.commit(range(2 * number, 2 * number + 2))
            commit_bad(stage, f"bad {number}")
            bad.append(b"bad %d" % number)
            for _ in range(2):  # the rows before the refused one, and that one
                if step in OF_LEFTOVERS:
                    assert process.run(Step.COMMITTED) == -9
                assert process.run(step) == -9, step
            assert process.run() == 0
            assert stage.left() == 0, step
    assert stage.relayed() == by_key(rows)
    if where == "dead_letter_table":
        assert stage.database.rows(f"SELECT payload FROM {letters} ORDER BY id") == [(value,) for value in bad]
    else:
        assert [record.value for record in committed(stage.bootstrap, letters)] == bad
