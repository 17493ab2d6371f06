"""Rows that Kafka refuses, with embedded brokers: rows before them are relayed, and they go where the outbox says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafwire.errors import ConfigError, KafkaError, RecordTooLargeError
from kafwire.outbox import Outbox, dead_letter_schema, sqlite_schema
from kafwire.testing import EmbeddedKafka

LARGE = "x" * 5000
# Rows that are refused, as (topic, key, payload, headers), and what the reason names.
REFUSED = {
    "no record": (("orders", "k", "bad", "{broken"), "row 41 of the outbox cannot be sent"),
    "a name that no topic has": (("no such topic!", "k", "bad", None), "INVALID_TOPIC_EXCEPTION"),
    "no topic": (("missing", "k", "bad", None), "UNKNOWN_TOPIC_OR_PARTITION"),
    "too large for the broker": (("small", "k", LARGE, None), "MESSAGE_TOO_LARGE"),
    "too large for the producer": (("orders", "k", 20 * LARGE, None), "max_request_size"),
    "no key": (("compacted", None, "bad", None), "INVALID_RECORD"),
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(configs={"auto.create.topics.enable": False}) as kafka:
        for topic in ("orders", "letters"):
            kafka.create_topic(topic)
        kafka.create_topic("small", max_message_bytes=1000)
        kafka.create_topic("compacted", cleanup_policy="compact")
        yield kafka


class Shop:
    """An outbox of 60 rows for one topic, of which one is replaced by a row that is refused."""

    def __init__(self, path: Path, kafka: EmbeddedKafka, why: str) -> None:
        self._path = path
        self._kafka = kafka
        self._begins = {topic: len(kafka.records(topic)) for topic in ("orders", "small", "compacted", "letters")}
        self.bad, self.reason = REFUSED[why]
        self.topic = self.bad[0] if self.bad[0] in self._begins else "orders"
        rows: list[Any] = [(self.topic, "k", str(number), None) for number in range(60)]
        rows[40] = self.bad
        with closing(self.connect()) as database, database:
            database.executescript(sqlite_schema() + dead_letter_schema(database="sqlite"))
            statement = "INSERT INTO outbox (topic, aggregate_key, payload, headers) VALUES (?, ?, ?, ?)"
            database.executemany(statement, rows)

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path)

    def outbox(self, **options: Any) -> Outbox:
        made: dict[str, Any] = {"transactional_id": str(self._path), "max_block_ms": 300, "max_request_size": 50_000}
        return Outbox(self.connect, self._kafka.bootstrap, **made, **options)

    def rows(self, statement: str) -> list[Any]:
        with closing(self.connect()) as database:
            return database.execute(statement).fetchall()

    def relayed(self, topic: str) -> list[Any]:
        return self._kafka.records(topic, committed=True)[self._committed_before(topic) :]

    def _committed_before(self, topic: str) -> int:
        old = self._kafka.records(topic)[: self._begins[topic]]
        last = old[-1].offset if old else -1
        return sum(record.offset <= last for record in self._kafka.records(topic, committed=True))


@pytest.fixture(params=REFUSED)
def shop(request: pytest.FixtureRequest, tmp_path: Path, kafka: EmbeddedKafka) -> Shop:
    return Shop(tmp_path / "shop.db", kafka, request.param)


def numbers(shop: Shop, *but: int) -> list[bytes]:
    return [b"%d" % number for number in range(60) if number not in but]


def test_the_rows_before_it_are_relayed_and_it_is_named(shop: Shop) -> None:
    for _ in range(2):
        with shop.outbox() as outbox, pytest.raises(KafkaError) as caught:
            outbox.run()
        assert f"this was row 41 of the outbox, for topic {shop.bad[0]!r}" in caught.value.__notes__
        assert shop.reason in str(caught.value)
        assert [record.value for record in shop.relayed(shop.topic)] == numbers(shop)[:40]
    assert [row[0] for row in shop.rows("SELECT id FROM outbox ORDER BY id")] == list(range(41, 61))


def test_a_refused_row_goes_to_a_table(shop: Shop) -> None:
    with shop.outbox(dead_letter_table="outbox_dead_letters") as outbox:
        while outbox.relay():
            pass
        assert (outbox.metrics()["rows"], outbox.metrics()["dead_letters"]) == (59, 1)
    assert [record.value for record in shop.relayed(shop.topic)] == numbers(shop, 40)
    ((number, *columns, reason),) = shop.rows(
        "SELECT id, topic, aggregate_key, payload, headers, reason FROM outbox_dead_letters"
    )
    assert (number, tuple(columns)) == (41, shop.bad)
    assert shop.reason in reason
    assert shop.rows("SELECT id FROM outbox") == []


def test_a_refused_row_goes_to_a_topic(shop: Shop) -> None:
    with shop.outbox(dead_letter_topic="letters") as outbox:
        if len(shop.bad[2] or "") > 50_000:
            with pytest.raises(RecordTooLargeError) as caught:
                outbox.run()
            assert "row 41 of the outbox was refused, and is meant for topic 'letters'" in caught.value.__notes__[0]
            assert [row[0] for row in shop.rows("SELECT id FROM outbox ORDER BY id")] == list(range(41, 61))
            return
        while outbox.relay():
            pass
    assert [record.value for record in shop.relayed(shop.topic)] == numbers(shop, 40)
    (letter,) = shop.relayed("letters")
    assert letter.value == (shop.bad[2] or "").encode()
    headers = dict(letter.headers)
    assert (headers["kafwire.origin.topic"], headers["kafwire.outbox.id"]) == ((shop.bad[0] or "").encode(), b"41")
    assert shop.reason in headers["kafwire.error.message"].decode()
    assert shop.rows("SELECT id FROM outbox") == []


def test_a_letter_is_sent_again_from_its_table(tmp_path: Path, kafka: EmbeddedKafka) -> None:
    """The statement is that of docs/guide/outbox.md; the row's new id comes after those of later rows."""
    shop = Shop(tmp_path / "shop.db", kafka, "no record")
    with shop.outbox(dead_letter_table="outbox_dead_letters") as outbox:
        while outbox.relay():
            pass
        with closing(shop.connect()) as database, database:
            database.execute("UPDATE outbox_dead_letters SET headers = NULL")
            database.execute(
                "INSERT INTO outbox (topic, aggregate_key, payload, headers) "
                "SELECT topic, aggregate_key, payload, headers FROM outbox_dead_letters WHERE id = 41"
            )
            database.execute("DELETE FROM outbox_dead_letters WHERE id = 41")
        assert outbox.relay() == 1
    assert shop.relayed("orders")[-1].value == b"bad"


def test_a_table_of_dead_letters_that_is_not_there(tmp_path: Path, kafka: EmbeddedKafka) -> None:
    shop = Shop(tmp_path / "shop.db", kafka, "no record")
    with (
        shop.outbox(dead_letter_table="nowhere") as outbox,
        pytest.raises(ConfigError, match=r"dead_letter_table='nowhere': the table does not exist.*dead_letter_schema"),
    ):
        outbox.run()


def test_a_topic_of_dead_letters_that_is_not_there(tmp_path: Path, kafka: EmbeddedKafka) -> None:
    shop = Shop(tmp_path / "shop.db", kafka, "no record")
    with shop.outbox(dead_letter_topic="nowhere") as outbox, pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
        outbox.run()
    assert len(shop.rows("SELECT id FROM outbox")) == 20
