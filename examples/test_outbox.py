"""A shop that sends an event for each order, through an outbox in its own database, and its tests."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kafwire.outbox import Outbox, Step, sqlite_schema
from kafwire.testing import EmbeddedKafka

Connect = Callable[[], sqlite3.Connection]

# --- the app


def make_tables(connect: Connect) -> None:
    with closing(connect()) as database:
        database.executescript(sqlite_schema() + "CREATE TABLE orders (customer TEXT, what TEXT);")


def order(connect: Connect, customer: str, what: str) -> None:
    """Take an order: it and its event are committed together."""
    if not what:
        raise ValueError("nothing was ordered")
    with closing(connect()) as database, database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (customer, what))
        database.execute(
            "INSERT INTO outbox (topic, aggregate_key, payload) VALUES ('orders', ?, ?)",
            (customer, f"{customer} ordered {what}"),
        )
        if what == "a unicorn":
            raise LookupError("there are none")


def relay(connect: Connect, servers: str, on_step: Callable[[Step], object] | None = None) -> int:
    """Send the events that were not sent yet; how many."""
    with Outbox(connect, servers, transactional_id="shop-outbox", on_step=on_step) as outbox:
        return outbox.relay()


# --- its tests


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    def open_database() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "shop.db")

    make_tables(open_database)
    return open_database


def events(kafka: EmbeddedKafka) -> list[bytes | None]:
    return [record.value for record in kafka.records("orders", committed=True)]


def test_each_order_has_an_event(kafka: EmbeddedKafka, connect: Connect) -> None:
    kafka.create_topic("orders")
    order(connect, "ann", "2 books")
    order(connect, "bob", "a lamp")
    assert relay(connect, kafka.bootstrap) == 2
    assert relay(connect, kafka.bootstrap) == 0
    assert events(kafka) == [b"ann ordered 2 books", b"bob ordered a lamp"]


def test_an_order_that_is_rolled_back_has_none(kafka: EmbeddedKafka, connect: Connect) -> None:
    kafka.create_topic("orders")
    with pytest.raises(LookupError):
        order(connect, "ann", "a unicorn")
    assert relay(connect, kafka.bootstrap) == 0


@pytest.mark.parametrize("step", [Step.CHOSEN, Step.SENT, Step.COMMITTED, Step.REMOVED])
def test_a_relay_that_dies_loses_nothing_and_sends_nothing_twice(
    kafka: EmbeddedKafka, connect: Connect, step: Step
) -> None:
    kafka.create_topic("orders")
    order(connect, "ann", "2 books")

    def die(done: Step) -> None:
        if done is step:
            raise SystemExit

    with pytest.raises(SystemExit):
        relay(connect, kafka.bootstrap, on_step=die)
    relay(connect, kafka.bootstrap)
    assert events(kafka) == [b"ann ordered 2 books"]


def test_a_lost_response_sends_nothing_twice(kafka: EmbeddedKafka, connect: Connect) -> None:
    kafka.create_topic("orders")
    order(connect, "ann", "2 books")
    kafka.drop_response("Produce", topic="orders")
    relay(connect, kafka.bootstrap)
    assert events(kafka) == [b"ann ordered 2 books"]
