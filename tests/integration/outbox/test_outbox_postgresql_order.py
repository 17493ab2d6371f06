"""Which rows of PostgreSQL a relay chooses, and in which order: by ids, as they become visible.

Transactions commit in another order than they draw ids and transaction ids in. The tests show rows that simpler rules
would skip or misorder, and that the relay does not.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from kafwire.errors import ConfigError, ProducerFencedError
from kafwire.outbox import Outbox, Step
from kafwire.outbox.wakeup import Notifications
from kafwire.testing import KafkaCluster
from tests.support import deadlines
from tests.support.outbox import postgresql
from tests.support.outbox.relays import by_key, relays
from tests.support.outbox.stage import Stage, stages

postgresql.needed()

import psycopg  # noqa: E402 - it need not be there

pytestmark = pytest.mark.either_kafka


@pytest.fixture(scope="module")
def stage_of(cluster: KafkaCluster) -> Iterator[Callable[..., Stage]]:
    with stages(cluster.bootstrap) as made:
        yield made


def test_a_row_that_is_committed_after_one_with_a_higher_id(stage_of: Callable[..., Stage]) -> None:
    """Id 6 is relayed, and the relay dies, before id 5 is committed."""
    stage = stage_of()
    stage.commit(range(4))
    with (
        closing(stage.database.connect()) as slow,
        closing(stage.database.connect()) as fast,
        relays(("psycopg", stage.database.dsn), stage.bootstrap, **stage.options()) as process,
    ):
        stage.write(slow, ("a", "id 5"))
        stage.write(fast, ("b", "id 6"))
        fast.commit()
        assert stage.database.rows(f"SELECT max(id) FROM {stage.table}") == [(6,)]
        assert process.run(Step.COMMITTED) == -9
        slow.commit()
        assert process.run() == 0
    found = stage.relayed()
    assert (found[b"a"], found[b"b"]) == ([b"id 5"], [b"id 6"])
    assert stage.left() == 0


def changed(connection: Any, stage: Stage, value: str) -> None:
    """Change an aggregate, and then write a row for it."""
    connection.execute(f"UPDATE {stage.table}_aggregate SET value = %s", (value,))
    stage.write(connection, ("a", value))


def test_the_order_of_a_key_is_neither_that_of_transaction_ids_nor_kept_by_a_horizon(
    stage_of: Callable[..., Stage],
) -> None:
    """Of two transactions that change an aggregate, the first to commit has the higher transaction id; and a third one
    between them is open."""
    stage = stage_of()
    stage.database.execute(
        f"CREATE TABLE {stage.table}_aggregate (value text)",
        f"INSERT INTO {stage.table}_aggregate VALUES ('')",
        f"ALTER TABLE {stage.table} ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id()",
    )
    with (
        closing(stage.database.connect()) as older,
        closing(stage.database.connect()) as unrelated,
        closing(stage.database.connect()) as younger,
    ):
        for connection in (older, unrelated, younger):  # in this order they get their transaction ids
            connection.execute("SELECT pg_current_xact_id()")
        changed(younger, stage, "first")
        younger.commit()
        changed(older, stage, "second")
        older.commit()

        by_transaction = stage.database.rows(f"SELECT convert_from(payload, 'UTF8') FROM {stage.table} ORDER BY xid")
        assert by_transaction == [("second",), ("first",)]
        below_horizon = stage.database.rows(
            f"SELECT convert_from(payload, 'UTF8') FROM {stage.table} "
            "WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY id"
        )
        assert below_horizon == [("second",)]

        with stage.outbox() as outbox:
            assert outbox.relay() == 2
    assert stage.relayed() == {b"a": [b"first", b"second"]}


def write_in_thread(connection: Any, stage: Stage, value: str) -> threading.Thread:
    def write() -> None:
        stage.write(connection, ("a", value))
        connection.commit()

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.mark.parametrize("locks_keys", [False, True])
def test_transactions_that_do_not_wait_for_each_other(stage_of: Callable[..., Stage], locks_keys: bool) -> None:
    """Without a row that both lock, the order of a key is that of its ids; with `locks_keys` that of the commits."""
    stage = stage_of(locks_keys=locks_keys)
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with closing(stage.database.connect()) as one, closing(stage.database.connect()) as other:
        stage.write(one, ("a", "one"))
        thread = write_in_thread(other, stage, "other")
        if locks_keys:
            deadlines.until(lambda: stage.database.rows(waiting) == [(1,)])
        else:
            deadlines.ended(thread)
        one.commit()
        deadlines.ended(thread)
    commits = ["one", "other"] if locks_keys else ["other", "one"]
    with stage.outbox() as outbox:
        assert outbox.relay() == 2
    assert stage.relayed() == {b"a": [b"one", b"other"]}
    assert (commits == ["one", "other"]) is locks_keys


def test_locked_keys_have_their_ids_in_the_order_of_commits(stage_of: Callable[..., Stage]) -> None:
    """The column's default draws the second transaction's id before the first one's row comes."""
    stage = stage_of(locks_keys=True)
    with closing(stage.database.connect()) as one, closing(stage.database.connect()) as other:
        stage.write(one, ("a", "one"))
        thread = write_in_thread(other, stage, "two")
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        deadlines.until(lambda: stage.database.rows(waiting) == [(1,)])
        stage.write(one, ("a", "one more"))
        one.commit()
        deadlines.ended(thread)
    with stage.outbox() as outbox:
        assert outbox.relay() == 3
    assert stage.relayed() == {b"a": [b"one", b"one more", b"two"]}


def test_ids_that_sessions_draw_in_advance_are_refused(stage_of: Callable[..., Stage]) -> None:
    stage = stage_of()
    stage.database.execute(f"ALTER TABLE {stage.table} ALTER id SET CACHE 10")
    with stage.outbox() as outbox, pytest.raises(ConfigError, match="must have no CACHE"):
        outbox.relay()


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
@pytest.mark.parametrize("case", ["lower", "title"])
def test_a_notification_wakes_the_relay(stage_of: Callable[..., Stage], driver: str, case: str) -> None:
    channel = getattr("new_rows", case)()
    stage = stage_of(channel=channel)
    with stage.outbox(driver, channel=channel, poll_interval=1000) as outbox:
        runner = threading.Thread(target=outbox.run)
        runner.start()
        deadlines.until(lambda: outbox.metrics()["connections"])
        for number in range(20):
            stage.commit(range(2 * number, 2 * number + 2))
            deadlines.until(lambda: stage.left() == 0)
        outbox.stop()
        deadlines.ended(runner)
    assert sum(map(len, stage.relayed().values())) == 40


@pytest.mark.parametrize("driver", postgresql.DRIVERS)
def test_a_notification_that_comes_with_a_query_result_is_known(stage_of: Callable[..., Stage], driver: str) -> None:
    """The notification is no longer in the socket on which the relay waits."""
    database = stage_of().database
    with closing(database.connect(driver)) as connection:
        connection.cursor().execute("LISTEN shop")
        connection.commit()
        notifications = Notifications(connection)
        for _ in range(3):
            assert not notifications.take()
            database.execute("NOTIFY shop")
            deadlines.until(lambda: select.select([notifications], [], [], 0)[0])
            connection.cursor().execute("SELECT 1")
            connection.commit()
            assert not select.select([notifications], [], [], 0)[0]
            assert notifications.take()


def test_the_database_goes_while_the_relay_waits(stage_of: Callable[..., Stage]) -> None:
    stage = stage_of()
    with stage.outbox(channel=stage.table, poll_interval=1000) as outbox:
        runner = threading.Thread(target=outbox.run)
        runner.start()
        deadlines.until(lambda: outbox.metrics()["connections"])
        for number in range(3):
            stage.database.kill()
            stage.database.start()
            stage.commit(range(2 * number, 2 * number + 2))
            deadlines.until(lambda: stage.left() == 0)
        outbox.stop()
        deadlines.ended(runner)
        assert outbox.metrics()["connections"] >= 4


def test_an_older_relay_is_fenced(stage_of: Callable[..., Stage]) -> None:
    """The older relay had chosen rows that the newer one relays."""
    stage = stage_of()
    stage.commit(range(4))

    def on_step(step: Step) -> None:
        if step is Step.CHOSEN:
            with stage.outbox() as newer:
                assert newer.relay() == 4

    with stage.outbox(on_step=on_step) as older, pytest.raises(ProducerFencedError):
        older.run()
    assert sum(map(len, stage.relayed().values())) == 4


def test_other_rows_with_the_ids_of_relayed_ones(
    stage_of: Callable[..., Stage], caplog: pytest.LogCaptureFixture
) -> None:
    """The table is emptied and begins with id 1 again, after a relay died between its commits."""
    stage = stage_of()
    with relays(("psycopg", stage.database.dsn), stage.bootstrap, **stage.options()) as process:
        stage.commit(range(2))
        assert process.run(Step.COMMITTED) == -9
    stage.database.execute(f"TRUNCATE {stage.table} RESTART IDENTITY")
    stage.commit(range(2, 6))
    with caplog.at_level(logging.WARNING, "kafwire"), stage.outbox() as outbox:
        assert outbox.relay() == 4
    assert "rows [1, 2] changed since rows" in caplog.text
    assert sum(map(len, stage.relayed().values())) == 6


def test_a_row_that_was_changed_after_it_was_relayed(stage_of: Callable[..., Stage]) -> None:
    """No other row is sent again."""
    stage = stage_of()
    with relays(("psycopg", stage.database.dsn), stage.bootstrap, **stage.options()) as process:
        stage.commit(range(4))
        assert process.run(Step.COMMITTED) == -9
    stage.database.execute(f"UPDATE {stage.table} SET payload = 'changed' WHERE id = 2")
    with stage.outbox() as outbox:
        assert outbox.relay() == 1
        assert outbox.metrics()["leftovers"] == 3
    assert stage.relayed() == {b"0": [b"0", b"3"], b"1": [b"1", b"changed"], b"2": [b"2"]}


def test_kept_rows_that_cannot_be_deleted_hold_nothing_up(stage_of: Callable[..., Stage]) -> None:
    """The database ends a transaction by an error: the next one is over another connection."""
    stage = stage_of()
    stage.commit(range(2))

    def connect() -> Any:
        return psycopg.connect(stage.database.dsn, options="-c lock_timeout=20ms")

    outbox = Outbox(connect, stage.bootstrap, **stage.options(keep_s=0, poll_interval=0.02))
    with outbox, closing(stage.database.connect()) as locking:
        assert outbox.relay() == 2
        locking.execute(f"SELECT FROM {stage.table} FOR UPDATE")
        runner = threading.Thread(target=outbox.run)
        runner.start()
        deadlines.until(lambda: outbox.metrics()["retries"])
        stage.commit(range(2, 4))
        deadlines.until(lambda: stage.left() == 0)
        outbox.stop()
        deadlines.ended(runner)


def locked_out(stage: Stage, step: Step | None) -> tuple[Outbox, Any]:
    """A relay, and a connection that locks all rows of its table: at once, or when the relay has taken a step."""
    locking = stage.database.connect()

    def lock() -> None:
        locking.execute(f"SELECT FROM {stage.table} FOR UPDATE")

    if step is None:
        locking.execute(f"LOCK TABLE {stage.table}")
    return stage.outbox(on_step=lambda taken: lock() if taken is step else None), locking


@pytest.mark.parametrize("step", [None, Step.COMMITTED])
def test_stop_does_not_wait_for_a_lock_of_another_transaction(
    stage_of: Callable[..., Stage], step: Step | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A table or rows that a transaction has locked which does not end."""
    stage = stage_of()
    with stage.outbox() as outbox:
        assert outbox.relay() == 0
    rows = stage.commit(range(4))
    outbox, locking = locked_out(stage, step)
    with outbox, closing(locking), caplog.at_level(logging.WARNING, "kafwire"):
        runner = threading.Thread(target=outbox.run)
        runner.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        deadlines.until(lambda: stage.database.rows(waiting) == [(1,)])
        outbox.stop()
        deadlines.ended(runner)
    assert "canceling statement due to lock timeout" in caplog.text
    with stage.outbox() as outbox:
        while outbox.relay():
            pass
    assert stage.relayed() == by_key(rows)
    assert stage.left() == 0


@pytest.mark.parametrize(("given", "then"), [("0", "1s"), ("5s", "1s"), ("20ms", "20ms")])
def test_locks_are_waited_for_no_longer_than_a_second(stage_of: Callable[..., Stage], given: str, then: str) -> None:
    stage = stage_of()
    found: list[Any] = []

    def connect() -> Any:
        found.append(psycopg.connect(stage.database.dsn, options=f"-c lock_timeout={given}"))
        return found[-1]

    with Outbox(connect, stage.bootstrap, **stage.options()) as outbox:
        assert outbox.relay() == 0
        assert found[0].execute("SHOW lock_timeout").fetchone() == (then,)


@pytest.mark.parametrize(("given", "then"), [("off", "on"), ("remote_apply", "remote_apply")])
def test_a_removal_is_on_disk_when_it_is_done(stage_of: Callable[..., Stage], given: str, then: str) -> None:
    stage = stage_of()
    found: list[Any] = []

    def connect() -> Any:
        found.append(psycopg.connect(stage.database.dsn, options=f"-c synchronous_commit={given}"))
        return found[-1]

    with Outbox(connect, stage.bootstrap, **stage.options()) as outbox:
        assert outbox.relay() == 0
        assert found[0].execute("SHOW synchronous_commit").fetchone() == (then,)


@pytest.mark.parametrize("kind", ["dict_row", "namedtuple_row"])
def test_rows_of_other_shapes(stage_of: Callable[..., Stage], kind: str) -> None:
    stage = stage_of()
    stage.commit(range(4))

    def connect() -> Any:
        return psycopg.connect(stage.database.dsn, row_factory=getattr(psycopg.rows, kind))

    with Outbox(connect, stage.bootstrap, **stage.options()) as outbox:
        assert outbox.relay() == 4
    assert sum(map(len, stage.relayed().values())) == 4


def test_a_long_transaction_is_logged(stage_of: Callable[..., Stage], caplog: pytest.LogCaptureFixture) -> None:
    """The long transaction does not hold rows back."""
    stage = stage_of()
    with closing(stage.database.connect()) as long:
        process = long.execute("SELECT pg_backend_pid(), pg_current_xact_id()").fetchone()[0]
        stage.commit(range(2))
        with caplog.at_level(logging.WARNING, "kafwire"), stage.outbox(long_transaction_s=0) as outbox:
            runner = threading.Thread(target=outbox.run)
            runner.start()
            deadlines.until(lambda: outbox.metrics()["longest_transaction_s"])
            deadlines.until(lambda: stage.left() == 0)
            outbox.stop()
            deadlines.ended(runner)
    assert f"process {process} of the database has had a transaction open" in caplog.text
