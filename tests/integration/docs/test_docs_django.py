"""The shop of docs/guide/django.md on SQLite: an order and its event are stored together, and each event comes once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from kafwire.testing import EmbeddedKafka
from tests.support.outbox.django_shop import each_event_comes_once, shop

REFUSE = """
CREATE TRIGGER refuse BEFORE INSERT ON outbox WHEN CAST(NEW.payload AS TEXT) LIKE '%sofa%'
BEGIN SELECT RAISE(ABORT, 'no sofas'); END
"""


def test_each_event_of_an_order_comes_once(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with shop(kafka, tmp_path) as server:
        each_event_comes_once(kafka, server)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        assert database.execute("SELECT count(*) FROM outbox").fetchall() == [(0,)]


def test_an_order_without_its_event_is_not_stored(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with shop(kafka, tmp_path) as server, closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute(REFUSE)
        assert server.ask("POST", "/orders", b"a sofa")[0] == 500
        assert server.ask("POST", "/orders", b" ")[0] == 400
        assert server.ask("POST", "/orders/7/pay")[0] == 404
        assert server.ask("POST", "/orders", b"a lamp")[0] == 201
        assert database.execute("SELECT what FROM shop_order").fetchall() == [("a lamp",)]
