"""An outbox in PostgreSQL whose broker is killed and comes back: each row becomes one record, in order by key."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafwire.outbox import Outbox, Step
from tests.support import deadlines, seeds
from tests.support.broker.either_kafka import IS_REAL
from tests.support.broker.killable_kafka import KillableKafka, killable_kafka
from tests.support.group.committed_reader import CommittedReader
from tests.support.outbox import postgresql
from tests.support.outbox.postgresql import PostgreSql
from tests.support.outbox.relays import IN_TURN, OF_LEFTOVERS, by_key, relays
from tests.support.outbox.stage import Stage
from tests.support.outbox.writers import Aggregates

postgresql.needed()

# Apache Kafka takes some seconds to come back.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSql]:
    with PostgreSql() as database:
        yield database


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableKafka]:
    with killable_kafka(tmp_path_factory.mktemp("kafka"), is_real=IS_REAL) as kafka:
        yield kafka


@contextmanager
def running(outbox: Outbox) -> Iterator[None]:
    with outbox:
        runner = threading.Thread(target=outbox.run)
        runner.start()
        try:
            yield
        finally:
            outbox.stop()
            deadlines.ended(runner)


@pytest.mark.parametrize("comes_back", ["before the next step", "later"])
def test_the_broker_is_killed_at_each_step(kafka: KillableKafka, database: PostgreSql, comes_back: str) -> None:
    """The relay goes on, whether it takes its next step while the broker is away or when it is there again."""
    stage = Stage(kafka.bootstrap, database)
    rows = []
    killed: list[Step] = []
    due: list[Step] = []

    def on_step(step: Step) -> None:
        if not due or step is not due[0]:
            return
        del due[0]
        if len(due) == 1:  # the relay loses the database, so that there are leftovers
            database.kill()
            database.start()
            return
        kafka.kill()
        killed.append(step)
        if comes_back != "later":
            kafka.start()

    def is_killed(step: Step) -> bool:
        return step in killed

    for number, step in enumerate(IN_TURN):
        rows += stage.commit(range(10 * number, 10 * number + 10))
        due += [Step.COMMITTED, step] if step in OF_LEFTOVERS else [step]
        with running(stage.outbox(batch_rows=4, on_step=on_step)):
            deadlines.until(lambda: is_killed(step))  # noqa: B023 - called before the next one
            if comes_back == "later":
                kafka.start()
            deadlines.until(lambda: stage.left() == 0)
        assert stage.relayed() == by_key(rows), step
    assert killed == IN_TURN


def relays_more(outbox: Outbox, aggregates: Aggregates, rows: int) -> None:
    """Let more rows be written, and return when `rows` more are relayed."""
    rows += outbox.metrics()["rows"]
    aggregates.permit(30)
    deadlines.until(lambda: outbox.metrics()["rows"] >= rows)


def judged(kafka: KillableKafka, database: PostgreSql, chance: random.Random, kills: int) -> None:
    """Kill the broker while a relay runs, writers write, and a consumer reads: it gets what the database has."""
    stage = Stage(kafka.bootstrap, database)
    aggregates = Aggregates(stage)
    outbox = stage.outbox(batch_rows=10, channel=stage.table, keep_s=3600)
    with CommittedReader(kafka.bootstrap, stage.table) as reader:
        with running(outbox):
            with aggregates.writing(chance):
                for _ in range(kills):
                    relays_more(outbox, aggregates, 30)
                    deadlines.until(lambda: stage.left() == 0)  # but for what long transactions have open
                    relays_more(outbox, aggregates, chance.randint(1, 30))
                    kafka.kill()
                    aggregates.permit(30)
                    kafka.start()
            deadlines.until(lambda: stage.left() == 0)
        expected = aggregates.expected()
        assert reader.wait(sum(map(len, expected.values()))) == expected
    assert stage.relayed() == expected
    assert sum(map(len, expected.values())) > 100 * kills
    later = f"{stage.table} one JOIN {stage.table} other ON one.id < other.id AND one.relayed_at > other.relayed_at"
    assert database.rows(f"SELECT count(DISTINCT one.id) FROM {later}")[0][0] > kills


@seeds.several(2)
def test_writers_at_once_while_the_broker_dies(kafka: KillableKafka, database: PostgreSql, seed: int) -> None:
    judged(kafka, database, random.Random(seed), kills=6)


def test_apache_kafka_dies_beside_writers(database: PostgreSql, tmp_path: Path) -> None:
    with killable_kafka(tmp_path, is_real=True) as kafka:
        judged(kafka, database, random.Random(seeds.of_test()), kills=1)


@seeds.several(1)
def test_all_three_die_beside_writers(kafka: KillableKafka, database: PostgreSql, seed: int) -> None:
    """The relay at a random step, the database, and the broker."""
    stage = Stage(kafka.bootstrap, database)
    chance = random.Random(seed)
    aggregates = Aggregates(stage)
    died, databases, brokers = 0, 0, 0
    with relays(("psycopg", database.dsn), kafka.bootstrap, **stage.options(batch_rows=30)) as process:
        with aggregates.writing(chance):
            while died < 15 or databases < 3 or brokers < 3:
                aggregates.permit(20)
                died += process.run(chance.choice(IN_TURN)) == -9
                victim = chance.random()
                if victim < 0.2:
                    database.kill()
                    database.start()
                    databases += 1
                elif victim < 0.4:
                    kafka.kill()
                    start = threading.Thread(target=kafka.start)
                    start.start()
                    died += process.run(chance.choice(IN_TURN)) == -9
                    deadlines.ended(start)
                    brokers += 1
        assert process.run() == 0
    expected = aggregates.expected()
    assert sum(map(len, expected.values())) > 50
    assert stage.relayed() == expected
    assert stage.left() == 0
