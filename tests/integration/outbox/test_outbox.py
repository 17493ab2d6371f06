"""An outbox in SQLite, and embedded brokers: records, errors, what passes and what does not."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.errors import (
    AuthorizationError,
    BrokerError,
    ConfigError,
    KafkaError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
)
from kafwire.outbox import Outbox, Step, sqlite_schema
from kafwire.outbox.wakeup import Wakeup
from kafwire.state_topic import TAILS
from kafwire.testing import EmbeddedKafka
from tests.support import deadlines


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("orders", 2)
        yield kafka


class Shop:
    """A database with an outbox."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.run(lambda database: database.executescript(sqlite_schema()))

    def connect(self, timeout: float = deadlines.PATIENCE_S) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=timeout)

    def run(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        with closing(self.connect()) as database, database:
            return work(database)

    def write(self, *values: str, topic: str = "orders", key: str | None = "k") -> None:
        rows = [(topic, key, value) for value in values]
        statement = "INSERT INTO outbox (topic, aggregate_key, payload) VALUES (?, ?, ?)"
        self.run(lambda database: database.executemany(statement, rows))

    def left(self) -> list[int]:
        rows = self.run(lambda database: database.execute("SELECT id FROM outbox WHERE relayed_at IS NULL").fetchall())
        return [row[0] for row in rows]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


OPTIONS: dict[str, Any] = {"transactional_id": "shop", "retry_backoff_ms": 1, "poll_interval": 1000}


def outbox_of(shop: Shop, kafka: EmbeddedKafka, **options: Any) -> Outbox:
    return Outbox(shop.connect, kafka.bootstrap, **{**OPTIONS, **options})


def values(kafka: EmbeddedKafka, topic: str = "orders") -> list[str]:
    return [(record.value or b"").decode() for record in kafka.records(topic, committed=True)]


@contextmanager
def running(outbox: Outbox) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=outbox.run)
    thread.start()
    yield thread
    outbox.stop()
    deadlines.ended(thread)


def test_a_batch_has_its_limit_and_the_rest_follows(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write(*map(str, range(7)))
    with outbox_of(shop, kafka, batch_rows=3) as outbox:
        assert [outbox.relay() for _ in range(4)] == [3, 3, 1, 0]
        assert outbox.metrics() == {
            "rows": 7,
            "transactions": 3,
            "leftovers": 0,
            "aborted": 0,
            "batch_rows": 3,
            "dead_letters": 0,
            "retries": 0,
            "connections": 1,
            "purged": 0,
            "longest_transaction_s": 0.0,
        }
    assert values(kafka) == list(map(str, range(7)))


def test_an_empty_outbox_sends_nothing(shop: Shop, kafka: EmbeddedKafka) -> None:
    with outbox_of(shop, kafka) as outbox:
        assert outbox.relay() == 0
    assert kafka.requests("Produce") == []
    assert kafka.requests("EndTxn") == []


def test_run_looks_when_it_is_woken_and_ends_when_it_is_stopped(shop: Shop, kafka: EmbeddedKafka) -> None:
    with outbox_of(shop, kafka, batch_rows=2) as outbox, running(outbox):
        for number in range(5):
            shop.write(*(f"{number}{letter}" for letter in "abc"))
            outbox.wake()
            deadlines.until(lambda: not shop.left())
    assert len(values(kafka)) == 15


def test_run_looks_again_by_itself(shop: Shop, kafka: EmbeddedKafka) -> None:
    with outbox_of(shop, kafka, poll_interval=0.005) as outbox, running(outbox):
        deadlines.until(lambda: outbox.metrics()["connections"])
        shop.write("a")
        deadlines.until(lambda: not shop.left())


def test_an_outbox_stopped_before_it_runs_does_not_run(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write("a")
    with outbox_of(shop, kafka) as outbox:
        outbox.stop()
        outbox.run()
        assert shop.left() == [1]
        with running(outbox):
            deadlines.until(lambda: not shop.left())


def test_topics_are_chosen_by_the_type_of_the_aggregate(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write("a", topic="order")
    with outbox_of(shop, kafka, topics={"order": "orders"}) as outbox:
        assert outbox.relay() == 1
        shop.write("b", topic="bill")
        with pytest.raises(ConfigError, match="row 2 of the outbox is for 'bill'"):
            outbox.run()
        assert shop.left() == [2]
    assert values(kafka) == ["a"]


# --- what passes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["InitProducerId", "Produce", "EndTxn", "ListOffsets", "CreateTopics"])
def test_a_lost_response_changes_nothing(shop: Shop, kafka: EmbeddedKafka, api: str) -> None:
    shop.write("a", "b")
    lost = kafka.drop_response(api)
    with outbox_of(shop, kafka) as outbox, running(outbox):
        deadlines.until(lambda: not shop.left())
    assert lost.times == 1
    assert values(kafka) == ["a", "b"]


def test_a_commit_without_a_response_in_time_is_repeated(
    shop: Shop, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    shop.write("a", "b")
    with outbox_of(shop, kafka, max_block_ms=100) as outbox:
        with caplog.at_level(logging.WARNING, "kafwire"), kafka.hold("EndTxn") as held:
            runner = threading.Thread(target=outbox.run)
            runner.start()
            kafka.wait_for_fault(held)
            deadlines.until(lambda: outbox.metrics()["retries"] >= 2)
            assert shop.left() == [1, 2]
        deadlines.until(lambda: not shop.left())
        outbox.stop()
        deadlines.ended(runner)
        assert outbox.metrics()["transactions"] == 1
    assert "retrying in" in caplog.text
    assert values(kafka) == ["a", "b"]


def test_a_transaction_that_cannot_be_committed_is_sent_again(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write("a", "b")
    aborted = kafka.fail_next("Produce", "TRANSACTION_ABORTABLE", topic="orders")
    with outbox_of(shop, kafka) as outbox, running(outbox):
        deadlines.until(lambda: not shop.left())
        assert outbox.metrics()["aborted"] == 1
    assert aborted.times == 1
    assert values(kafka) == ["a", "b"]


def test_brokers_may_go(shop: Shop, tmp_path: Path) -> None:
    with EmbeddedKafka(nodes=3) as kafka:
        kafka.create_topic("orders", 2, replicas=3)
        with outbox_of(shop, kafka, state_replication_factor=3) as outbox, running(outbox):
            for number in (1, 2, 3):
                shop.write(f"{number}")
                kafka.stop_node(number)
                outbox.wake()
                deadlines.until(lambda: not shop.left())
                kafka.start_node(number)
        assert sorted(values(kafka)) == ["1", "2", "3"]


def test_a_database_that_is_busy_when_rows_are_to_be_removed(
    shop: Shop, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture
) -> None:
    """They are in Kafka by then, and nothing is sent again."""
    shop.write("a", "b")
    writer = sqlite3.connect(shop.path, check_same_thread=False)

    def on_step(step: Step) -> None:
        if step is Step.COMMITTED:
            writer.execute("BEGIN IMMEDIATE")

    busy = Outbox(lambda: shop.connect(timeout=0), kafka.bootstrap, **OPTIONS, on_step=on_step)
    with caplog.at_level(logging.WARNING, "kafwire"), busy as outbox:
        with running(outbox):
            deadlines.until(lambda: outbox.metrics()["retries"] >= 2)
            writer.rollback()
            deadlines.until(lambda: not shop.left())
        assert outbox.metrics()["transactions"] == 1
        assert outbox.metrics()["leftovers"] == 2
    writer.close()
    assert "database is locked" in caplog.text
    assert values(kafka) == ["a", "b"]


def test_a_wait_that_fails_backs_off_and_is_reported_once(
    shop: Shop, kafka: EmbeddedKafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay itself succeeds in each round."""
    waits: list[float] = []

    def wait(_: Wakeup, seconds: float, *connection: object) -> None:
        waits.append(seconds)
        if connection:
            raise ValueError("filedescriptor out of range")

    with caplog.at_level(logging.WARNING, "kafwire"), outbox_of(shop, kafka, retry_backoff_max_ms=8) as outbox:
        monkeypatch.setattr(Wakeup, "wait", wait)
        with running(outbox):
            deadlines.until(lambda: outbox.metrics()["retries"] >= 6)
        assert outbox.metrics()["connections"] <= outbox.metrics()["retries"] + 1
    rounds = "".join("w" if seconds == OPTIONS["poll_interval"] else "b" for seconds in waits)
    assert "ww" not in rounds, "each failed wait is followed by a back-off"
    assert max(seconds for seconds in waits if seconds != OPTIONS["poll_interval"]) > 0.004, "and the back-off grows"
    (warning,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("outbox")]
    assert "the wait on the database connection failed: filedescriptor out of range" in warning


def test_the_database_does_not_take_a_lower_id_later(shop: Shop) -> None:
    """In SQLite one transaction writes at a time, so ids are in the order of commits."""
    with closing(shop.connect()) as one, closing(shop.connect(timeout=0)) as other:
        one.execute("INSERT INTO outbox (topic, payload) VALUES ('orders', 'a')")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("INSERT INTO outbox (topic, payload) VALUES ('orders', 'b')")


# --- what does not pass ----------------------------------------------------------------------------------------------


def test_a_row_that_cannot_be_sent_is_named_and_holds_back_the_rows_behind_it(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write("a")
    shop.run(lambda database: database.execute("INSERT INTO outbox (topic, headers) VALUES ('orders', '{')"))
    shop.write("b")
    with outbox_of(shop, kafka) as outbox:
        for _ in range(2):
            with pytest.raises(ConfigError, match="row 2 of the outbox cannot be sent") as caught:
                outbox.run()
            assert caught.value.__notes__ == ["this was row 2 of the outbox, for topic 'orders'"]
            assert (values(kafka), shop.left()) == (["a"], [2, 3])
        shop.run(lambda database: database.execute("UPDATE outbox SET headers = '{}' WHERE id = 2"))
        assert outbox.relay() == 2
    assert sorted(values(kafka)) == ["", "a", "b"]


def test_a_topic_that_does_not_exist(shop: Shop) -> None:
    with EmbeddedKafka(configs={"auto.create.topics.enable": False}) as kafka:
        kafka.create_topic("orders")
        shop.write("a", topic="bills")
        with outbox_of(shop, kafka) as outbox:
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC") as caught:
                outbox.run()
            assert "this was row 1 of the outbox, for topic 'bills'" in caught.value.__notes__
            kafka.create_topic("bills")
            assert outbox.relay() == 1


def test_a_record_that_is_too_large(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write("a" * 2000)
    with outbox_of(shop, kafka, max_request_size=1000) as outbox, pytest.raises(RecordTooLargeError) as caught:
        outbox.run()
    assert "this was row 1 of the outbox, for topic 'orders'" in caught.value.__notes__


def test_a_record_that_the_broker_refuses(shop: Shop, kafka: EmbeddedKafka) -> None:
    kafka.create_topic("compacted", cleanup_policy="compact")
    shop.write("a", topic="compacted", key=None)
    with outbox_of(shop, kafka) as outbox, pytest.raises(TransactionAbortableError, match="key"):
        outbox.run()
    assert shop.left() == [1]


def test_operations_that_acls_do_not_permit(shop: Shop) -> None:
    with EmbeddedKafka(acls=[]) as kafka, outbox_of(shop, kafka) as outbox, pytest.raises(AuthorizationError):
        outbox.run()


def test_another_relay_takes_over(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write("a")
    with outbox_of(shop, kafka) as older, outbox_of(shop, kafka) as newer:
        assert older.relay() == 1
        shop.write("b")
        assert newer.relay() == 1
        shop.write("c")
        with pytest.raises(ProducerFencedError):
            older.run()
        assert newer.relay() == 1
    assert values(kafka) == ["a", "b", "c"]


def test_an_interrupt_in_the_middle(shop: Shop, kafka: EmbeddedKafka) -> None:
    """The Kafka transaction is aborted, and the next call sends the rows."""
    shop.write("a")
    interrupts = [Step.TAKEN_OVER, Step.PROGRESS_READ, Step.SENT, Step.ACKNOWLEDGED, Step.COMMITTED]

    def on_step(step: Step) -> None:
        if interrupts and step is interrupts[0]:
            del interrupts[0]
            raise KeyboardInterrupt

    with outbox_of(shop, kafka, on_step=on_step) as outbox:
        while interrupts:
            with pytest.raises(KeyboardInterrupt):
                outbox.run()
        assert outbox.relay() == 0
        assert outbox.metrics()["leftovers"] == 1
    assert values(kafka) == ["a"]


# --- the table, and its rows that are kept ---------------------------------------------------------------------------


def test_rows_are_kept_for_a_while(shop: Shop, kafka: EmbeddedKafka) -> None:
    def kept() -> int:
        return int(shop.run(lambda database: database.execute("SELECT count(*) FROM outbox").fetchone()[0]))

    shop.write("a", "b")
    with outbox_of(shop, kafka, keep_s=3600) as outbox, running(outbox):
        deadlines.until(lambda: not shop.left())
    assert kept() == 2
    shop.run(lambda database: database.execute("UPDATE outbox SET relayed_at = relayed_at - 3601 WHERE id = 1"))
    with outbox_of(shop, kafka, keep_s=3600) as outbox, running(outbox):
        deadlines.until(lambda: outbox.metrics()["purged"] == 1)
    assert kept() == 1
    with outbox_of(shop, kafka) as outbox, running(outbox):  # which keeps none, and sends none of them again
        deadlines.until(lambda: outbox.metrics()["purged"] == 1)
    assert kept() == 0
    assert values(kafka) == ["a", "b"]


def test_a_table_that_is_not_there(shop: Shop, kafka: EmbeddedKafka) -> None:
    with outbox_of(shop, kafka, table="nowhere") as outbox, pytest.raises(ConfigError, match="sqlite_schema"):
        outbox.run()


@pytest.mark.parametrize("table", ["careless", "main.careless", "CARELESS"])
def test_a_table_whose_ids_come_again(shop: Shop, kafka: EmbeddedKafka, table: str) -> None:
    made = sqlite_schema("careless").replace(" AUTOINCREMENT", "")
    shop.run(lambda database: database.executescript(made))
    with outbox_of(shop, kafka, table=table) as outbox, pytest.raises(ConfigError, match="AUTOINCREMENT"):
        outbox.run()


def test_a_table_with_its_schema_is_relayed(shop: Shop, kafka: EmbeddedKafka) -> None:
    shop.write("a")
    with outbox_of(shop, kafka, table="main.outbox") as outbox:
        assert outbox.relay() == 1
    assert values(kafka) == ["a"]


def test_a_channel_needs_a_database_that_notifies(shop: Shop, kafka: EmbeddedKafka) -> None:
    """Rather than polling without a word."""
    with outbox_of(shop, kafka, channel="outbox") as outbox, pytest.raises(ConfigError, match="this driver is sqlite3"):
        outbox.run()


def test_a_database_that_cannot_be_opened_at_first_is_an_error(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "no" / "shop.db")

    with (
        Outbox(connect, kafka.bootstrap, transactional_id="shop") as outbox,
        pytest.raises(sqlite3.OperationalError),
    ):
        outbox.run()


# --- the state topic -------------------------------------------------------------------------------------------------


def test_a_state_topic_that_forgets_is_refused(shop: Shop, kafka: EmbeddedKafka) -> None:
    kafka.create_topic("forgets", cleanup_policy="delete")
    with outbox_of(shop, kafka, state_topic="forgets") as outbox, pytest.raises(ConfigError, match="set it to compact"):
        outbox.run()


def test_the_state_topic_is_compacted(shop: Shop, kafka: EmbeddedKafka) -> None:
    with outbox_of(shop, kafka) as outbox:
        outbox.relay()
    with kafwire.Client(kafka.bootstrap) as client:
        assert client.topic_config("outbox-state")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("others", TAILS[:2])
def test_progress_is_found_behind_that_of_others(shop: Shop, kafka: EmbeddedKafka, others: int) -> None:
    """The second look finds it, and the last one. The relay waits for a transaction that another has open before it."""

    def on_step(step: Step) -> None:
        if step is Step.COMMITTED:
            raise KeyboardInterrupt

    with kafwire.Producer(kafka.bootstrap, transactional_id="other") as other:
        with outbox_of(shop, kafka, on_step=on_step) as outbox:
            assert outbox.relay() == 0
            other.begin_transaction()
            other.send("outbox-state", b"{}", key=b"other").result(10)
            shop.write("a")
            with pytest.raises(KeyboardInterrupt):
                outbox.run()
        kafka.append("outbox-state", [{"key": b"other", "value": b"{}"}] * others)
        with outbox_of(shop, kafka) as outbox, running(outbox):
            kafka.wait_for_request("Fetch", topic="outbox-state")
            assert shop.left() == [1]
            other.commit_transaction()
            deadlines.until(lambda: outbox.metrics()["leftovers"] == 1)
    assert values(kafka) == ["a"]


def test_progress_that_cannot_be_read(shop: Shop, kafka: EmbeddedKafka) -> None:
    kafka.create_topic("outbox-state", cleanup_policy="compact")
    kafka.append("outbox-state", [{"key": b"shop", "value": b"?"}])
    with outbox_of(shop, kafka) as outbox, pytest.raises(kafwire.ProtocolError, match="cannot be read"):
        outbox.run()


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"transactional_id": None}, "needs a transactional_id"),
        ({"transactional_id": ""}, "transactional_id"),
        ({"table": "a b"}, "only letters, digits"),
        ({"channel": "a b"}, "only letters, digits"),
        ({"channel": "c" * 64}, "truncates names after 63"),
        ({"state_topic": ""}, "state_topic"),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"batch_rows": 10_001}, "batch_rows=10001"),
        ({"batch_rows": "many"}, "batch_rows='many'"),
        ({"poll_interval": -1}, "poll_interval=-1"),
        ({"keep_s": True}, "keep_s=True"),
        ({"long_transaction_s": "1"}, "long_transaction_s='1'"),
        ({"value_serializer": str}, "value_serializer"),
        ({"acks": 1}, "acks"),
        ({"lingering_ms": 1}, "lingering_ms"),
        ({"paramstyle": "dollar"}, "paramstyle"),
    ],
)
def test_arguments_are_checked(shop: Shop, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        Outbox(shop.connect, "localhost:1", **{"transactional_id": "shop", **options})


def test_a_connection_is_no_function(shop: Shop) -> None:
    connection: Any = shop.connect()
    with pytest.raises(ConfigError, match="a function that opens a connection"):
        Outbox(connection, "localhost:1", transactional_id="shop")
    connection.close()


def test_a_closed_outbox_says_so(shop: Shop, kafka: EmbeddedKafka) -> None:
    outbox = outbox_of(shop, kafka)
    outbox.close()
    outbox.close()
    outbox.stop()
    for call in (outbox.run, outbox.relay):
        with pytest.raises(KafkaError, match="closed"):
            call()
