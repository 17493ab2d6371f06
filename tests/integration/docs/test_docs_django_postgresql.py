"""The shop of docs/guide/django.md on PostgreSQL: each event of an order comes once."""

from __future__ import annotations

from pathlib import Path

from kafwire.testing import EmbeddedKafka
from tests.support.outbox import postgresql
from tests.support.outbox.django_shop import each_event_comes_once, shop

postgresql.needed()


def test_each_event_of_an_order_comes_once(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with postgresql.PostgreSql() as database:
        default = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "kafwire",
            "HOST": str(database.folder),
        }
        with shop(kafka, tmp_path, f"DATABASES = {{'default': {default!r}}}") as server:
            each_event_comes_once(kafka, server)
        assert database.rows("SELECT count(*) FROM outbox") == [(0,)]
