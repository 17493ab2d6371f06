"""A relay whose coordinator has forgotten its transactional id, or aborted its transaction, as it took too long."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.error_codes import ErrorCode
from kafwire.errors import ProducerFencedError
from kafwire.outbox import Outbox, Step, sqlite_schema
from kafwire.protocol import DescribeTransactionsRequest
from tests.support import deadlines
from tests.support.broker.either_kafka import either_kafka
from tests.support.outbox.relays import relayed

pytestmark = pytest.mark.either_kafka


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker that forgets what was not used for a second, and looks often."""
    properties: dict[str, object] = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
        "transactional.id.expiration.ms": 1000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 100,
    }
    with either_kafka(properties) as kafka:
        yield kafka.bootstrap


class Shop:
    """A database with an outbox, and a topic."""

    def __init__(self, path: Path, bootstrap: str, topic: str) -> None:
        self._path = path
        self._bootstrap = bootstrap
        self._topic = topic
        self._client = kafwire.Client(bootstrap)
        self._client.create_topic(topic)
        with closing(self.connect()) as database:
            database.executescript(sqlite_schema())

    def close(self) -> None:
        self._client.close()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=deadlines.PATIENCE_S)

    def write(self, value: str) -> None:
        with closing(self.connect()) as database, database:
            row = (self._topic, "k", value)
            database.execute("INSERT INTO outbox (topic, aggregate_key, payload) VALUES (?, ?, ?)", row)

    def left(self) -> int:
        with closing(self.connect()) as database:
            return int(database.execute("SELECT count(*) FROM outbox").fetchone()[0])

    def outbox(self, on_step: Callable[[Step], object] | None = None, **options: Any) -> Outbox:
        made: dict[str, Any] = {
            "retry_backoff_ms": 5,
            "retry_backoff_max_ms": 100,
            "poll_interval": 0.02,
            "on_step": on_step,
            **options,
        }
        return Outbox(self.connect, self._bootstrap, transactional_id=self._topic, **made)

    def _described(self) -> Any:
        return self._client.call(DescribeTransactionsRequest(transactional_ids=[self._topic])).transaction_states[0]

    def is_forgotten(self) -> bool:
        """True if the coordinator does not know the transactional id."""
        return bool(self._described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def is_aborted(self) -> bool:
        """True if it has aborted a transaction."""
        return bool(self._described().transaction_state == "CompleteAbort")

    def relayed(self) -> list[bytes]:
        """The values in the topic."""
        values: list[bytes] = relayed(self._bootstrap, self._topic).get(b"k", [])
        return values


@pytest.fixture
def shop(tmp_path: Path, bootstrap: str, topic_name: str) -> Iterator[Shop]:
    with closing(Shop(tmp_path / "shop.db", bootstrap, topic_name)) as shop:
        yield shop


def run(outbox: Outbox, shop: Shop) -> None:
    """Let a relay run until nothing is left; its error is the test's."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(outbox.run)
        deadlines.until(lambda: shop.left() == 0 or running.done())
        outbox.stop()
        running.result(deadlines.PATIENCE_S)


def test_a_relay_that_was_idle_for_long_goes_on(shop: Shop) -> None:
    with shop.outbox() as outbox:
        for value in "abc":
            shop.write(value)
            run(outbox, shop)
            deadlines.until(shop.is_forgotten)
    assert shop.relayed() == [b"a", b"b", b"c"]


def test_it_does_not_send_rows_that_another_relay_has_sent_meanwhile(shop: Shop) -> None:
    """The other one died before it removed its row, and was forgotten too."""

    def on_step(step: Step) -> None:
        if step is Step.COMMITTED:
            raise KeyboardInterrupt

    with shop.outbox() as idle:
        shop.write("a")
        run(idle, shop)
        deadlines.until(shop.is_forgotten)
        shop.write("b")
        with shop.outbox(on_step) as other, pytest.raises(KeyboardInterrupt):
            other.relay()
        deadlines.until(shop.is_forgotten)
        run(idle, shop)
        assert idle.metrics()["leftovers"] == 1
        shop.write("c")
        run(idle, shop)
    assert shop.relayed() == [b"a", b"b", b"c"]


def test_it_is_fenced_by_a_relay_that_was_not_forgotten(shop: Shop) -> None:
    errors: list[BaseException] = []

    def on_step(step: Step) -> None:
        if step is Step.ACKNOWLEDGED:  # an open transaction is not forgotten
            with pytest.raises(ProducerFencedError) as caught:
                idle.run()
            errors.append(caught.value)

    with shop.outbox() as idle:
        shop.write("a")
        assert idle.relay() == 1
        deadlines.until(shop.is_forgotten)
        shop.write("b")
        with shop.outbox(on_step) as other:
            assert other.relay() == 1
    assert len(errors) == 1
    assert shop.relayed() == [b"a", b"b"]


@pytest.mark.parametrize("late", [Step.SENT, Step.ACKNOWLEDGED])
def test_a_transaction_that_took_too_long_is_made_again(shop: Shop, late: Step) -> None:
    due = [late]

    def on_step(step: Step) -> None:
        if due and step is due[0]:
            del due[0]
            deadlines.until(shop.is_aborted)

    with shop.outbox(on_step, transaction_timeout_ms=1000) as outbox:
        shop.write("a")
        run(outbox, shop)
        assert outbox.metrics()["aborted"] >= 1
    assert shop.relayed() == [b"a"]


def test_a_batch_that_is_too_long_for_its_transaction_is_relayed_in_parts(shop: Shop) -> None:
    rooms: list[int] = []

    def on_step(step: Step) -> None:
        if step is Step.ACKNOWLEDGED:
            rooms.append(outbox.metrics()["batch_rows"])
            if rooms[-1] > 2:
                deadlines.until(shop.is_aborted)

    for value in "abcde":
        shop.write(value)
    with shop.outbox(on_step, transaction_timeout_ms=1000, batch_rows=8, poll_interval=600.0) as outbox:
        run(outbox, shop)
    assert rooms[:5] == [8, 4, 2, 4, 2]
    assert shop.relayed() == [b"a", b"b", b"c", b"d", b"e"]


def test_an_older_relay_whose_transaction_another_one_has_aborted(shop: Shop) -> None:
    """Aborting shows that it is fenced."""

    def on_step(step: Step) -> None:
        if step is Step.ACKNOWLEDGED:
            with shop.outbox() as newer:
                assert newer.relay() == 1

    shop.write("a")
    with shop.outbox(on_step) as older, pytest.raises(ProducerFencedError):
        older.run()
    assert shop.relayed() == [b"a"]
