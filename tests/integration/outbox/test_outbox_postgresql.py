"""An outbox in PostgreSQL, which is killed, as its relay is: each row becomes one record, in the order of commits."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kafwire.outbox import Step
from kafwire.testing import KafkaCluster
from tests.support import deadlines, seeds
from tests.support.outbox import postgresql
from tests.support.outbox.relays import IN_TURN, OF_LEFTOVERS, by_key, committed, relays
from tests.support.outbox.stage import Stage, stages
from tests.support.outbox.writers import Aggregates

postgresql.needed()

pytestmark = pytest.mark.either_kafka


@pytest.fixture(scope="module")
def stage_of(cluster: KafkaCluster) -> Iterator[Callable[..., Stage]]:
    with stages(cluster.bootstrap) as made:
        yield made


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_rows_become_records(stage_of: Callable[..., Stage], driver: str) -> None:
    stage = stage_of()
    table = stage.table
    stage.database.execute(
        f"INSERT INTO {table} (topic, aggregate_key, payload, headers) VALUES"
        f"('{table}', 'k', 'v', '{{\"a\": \"b\", \"c\": null}}'), ('{table}', NULL, NULL, NULL)"
    )
    with stage.outbox(driver) as outbox:
        assert outbox.relay() == 2
        assert outbox.relay() == 0
    found = Counter((one.key, one.value, tuple(one.headers)) for one in committed(stage.bootstrap, table))
    assert found == Counter([(b"k", b"v", (("a", b"b"), ("c", None))), (None, None, ())])
    assert stage.left() == 0


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_a_relay_is_killed_at_each_step(stage_of: Callable[..., Stage], driver: str) -> None:
    stage = stage_of()
    rows = stage.commit(range(60))
    died = []
    database = (driver, stage.database.dsn)
    with relays(database, stage.bootstrap, **stage.options(batch_rows=6)) as process:
        for step in IN_TURN:
            rows += stage.commit(range(len(rows), len(rows) + 2))
            if process.run(step) == -9:
                died.append(step)
        assert process.run() == 0
    assert died == IN_TURN
    assert stage.relayed() == by_key(rows)
    assert stage.left() == 0


@pytest.mark.parametrize("keep_s", [None, 3600])
def test_the_database_is_killed_at_each_step(stage_of: Callable[..., Stage], keep_s: int | None) -> None:
    """The relay goes on, over a new connection."""
    stage = stage_of()
    rows = []
    killed: list[Step] = []
    due: list[Step] = []

    def is_done() -> bool:
        return not due and stage.left() == 0

    def on_step(step: Step) -> None:
        if due and step is due[0]:
            stage.database.kill()
            stage.database.start()
            killed.append(due.pop(0))

    for number, step in enumerate(IN_TURN):
        rows += stage.commit(range(10 * number, 10 * number + 10))
        due += [Step.COMMITTED, step] if step in OF_LEFTOVERS else [step]
        with stage.outbox(batch_rows=4, keep_s=keep_s, on_step=on_step) as outbox:
            runner = threading.Thread(target=outbox.run)
            runner.start()
            deadlines.until(is_done)
            outbox.stop()
            deadlines.ended(runner)
        assert stage.relayed() == by_key(rows), step
    assert set(killed) == set(Step)
    kept = stage.database.rows(f"SELECT payload FROM {stage.table} ORDER BY id")
    assert kept == ([] if keep_s is None else [(value,) for _, value in rows])


@seeds.several(2)
def test_writers_at_once_while_relays_and_the_database_die(stage_of: Callable[..., Stage], seed: int) -> None:
    stage = stage_of()
    chance = random.Random(seed)
    aggregates = Aggregates(stage)
    died, kills = 0, 0
    with relays(("psycopg", stage.database.dsn), stage.bootstrap, **stage.options(batch_rows=30)) as process:
        with aggregates.writing(chance):
            while died < 15 or kills < 3:
                aggregates.permit(20)
                died += process.run(chance.choice(IN_TURN)) == -9
                if chance.random() < 0.2:
                    stage.database.kill()
                    stage.database.start()
                    kills += 1
        assert process.run() == 0
    expected = aggregates.expected()
    assert sum(map(len, expected.values())) > 50
    assert stage.relayed() == expected
    assert stage.left() == 0
