"""A relay that is killed at any of its steps: each row of an outbox in SQLite becomes one record, in order."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import kafwire
from kafwire.outbox import Step, dead_letter_schema, sqlite_schema
from kafwire.testing import KafkaCluster
from tests.support.outbox.relays import IN_TURN, OF_LEFTOVERS, Relays, by_key, relayed, relays

pytestmark = pytest.mark.either_kafka

KEYS = 3


def create(bootstrap: str, topic: str, partitions: int) -> None:
    with kafwire.Client(bootstrap) as client:
        client.create_topic(topic, partitions=partitions)


def written(path: Path, topic: str, numbers: range) -> list[tuple[bytes, bytes]]:
    """Write rows of several keys, two in each transaction, as (key, value)."""
    rows = [(b"%d" % (number % KEYS), b"%d" % number) for number in numbers]
    with closing(sqlite3.connect(path)) as database:
        for pair in zip(rows[::2], rows[1::2], strict=True):
            database.executemany(f"INSERT INTO outbox (topic, aggregate_key, payload) VALUES ('{topic}', ?, ?)", pair)
            database.commit()
    return rows


def left(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT count(*) FROM outbox WHERE relayed_at IS NULL").fetchone()[0])


def killed_at_each_step(cluster: KafkaCluster, path: Path, process: Relays, topic: str) -> list[tuple[bytes, bytes]]:
    """Rows, of which a relay that dies at each of its steps in turn relays some; all of them in the end."""
    rows = []
    for number, step in enumerate(Step):
        rows += written(path, topic, range(10 * number, 10 * number + 10))
        if step in OF_LEFTOVERS:
            assert process.run(Step.COMMITTED) == -9
        assert process.run(step) == -9, step
        before = left(path)
        assert process.run() == 0
        assert left(path) == 0 < before, step
        assert relayed(cluster.bootstrap, topic) == by_key(rows), step
    return rows


@pytest.mark.parametrize("keep_s", [None, 3600])
def test_a_relay_is_killed_at_each_step(
    cluster: KafkaCluster, tmp_path: Path, topic_name: str, keep_s: int | None
) -> None:
    path, topic = tmp_path / "shop.db", topic_name
    create(cluster.bootstrap, topic, 2)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(sqlite_schema())
    options = {"transactional_id": topic, "batch_rows": 4, "keep_s": keep_s, "retry_backoff_ms": 5}
    with relays(("sqlite3", str(path)), cluster.bootstrap, **options) as process:
        rows = killed_at_each_step(cluster, path, process, topic)
    with closing(sqlite3.connect(path)) as database:
        kept = database.execute("SELECT payload FROM outbox ORDER BY id").fetchall()
    assert kept == ([] if keep_s is None else [(value,) for _, value in rows])


def test_a_relay_is_killed_again_and_again(cluster: KafkaCluster, tmp_path: Path, topic_name: str) -> None:
    """Each at another step than the one before it, until nothing is left."""
    path, topic = tmp_path / "shop.db", topic_name
    create(cluster.bootstrap, topic, 1)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(sqlite_schema())
    rows = written(path, topic, range(30))
    died = []
    with relays(
        ("sqlite3", str(path)), cluster.bootstrap, transactional_id=topic, batch_rows=6, retry_backoff_ms=5
    ) as process:
        while left(path):
            died += [step for step in IN_TURN if process.run(step) == -9]
    assert relayed(cluster.bootstrap, topic) == by_key(rows)
    assert set(died) == set(Step)


@pytest.mark.parametrize("where", ["dead_letter_table", "dead_letter_topic"])
def test_a_relay_with_refused_rows_is_killed_at_each_step(
    cluster: KafkaCluster, tmp_path: Path, topic_name: str, where: str
) -> None:
    """One row of each ten cannot be sent: it becomes a dead letter once, and the others become records in order."""
    path, topic = tmp_path / "shop.db", topic_name
    letters = f"{topic}-letters" if where == "dead_letter_topic" else "letters"
    create(cluster.bootstrap, topic, 1)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(sqlite_schema() + dead_letter_schema("letters", database="sqlite"))
    if where == "dead_letter_topic":
        create(cluster.bootstrap, letters, 1)
    options = {"transactional_id": topic, "batch_rows": 4, "retry_backoff_ms": 5, where: letters}
    rows, bad = [], []
    with relays(("sqlite3", str(path)), cluster.bootstrap, **options) as process:
        for number, step in enumerate(IN_TURN):
            rows += written(path, topic, range(10 * number, 10 * number + 4))
            with closing(sqlite3.connect(path)) as database, database:
                bad.append(b"bad %d" % number)
                row = (topic, bad[-1], "{broken")
                database.execute("INSERT INTO outbox (topic, payload, headers) VALUES (?, ?, ?)", row)
            rows += written(path, topic, range(10 * number + 4, 10 * number + 10))
            for _ in range(2):  # rows before the refused one, and that one
                if step in OF_LEFTOVERS:
                    assert process.run(Step.COMMITTED) == -9
                assert process.run(step) == -9, step
            assert process.run() == 0
            assert left(path) == 0, step
    assert relayed(cluster.bootstrap, topic) == by_key(rows)
    if where == "dead_letter_topic":
        assert relayed(cluster.bootstrap, letters) == {None: bad}
    with closing(sqlite3.connect(path)) as database:
        moved = database.execute("SELECT payload FROM letters ORDER BY id").fetchall()
    assert moved == ([(value,) for value in bad] if where == "dead_letter_table" else [])
