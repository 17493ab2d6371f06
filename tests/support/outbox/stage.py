"""An outbox in a real PostgreSQL, with a broker of either kind: what tests write there, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import kafwire
from kafwire.outbox import Outbox, postgresql_schema
from tests.support.outbox.postgresql import PostgreSql
from tests.support.outbox.relays import relayed

KEYS = 3
_numbers = count(1)


class Stage:
    """A table, and a topic of the same name.

    Args:
        bootstrap: the brokers' address.
        database: the server.
        schema: arguments of `postgresql_schema`.
    """

    def __init__(self, bootstrap: str, database: PostgreSql, **schema: Any) -> None:
        self.bootstrap = bootstrap
        self.database = database
        self.table = f"outbox_{os.getpid()}_{next(_numbers)}"  # processes of a test run may share a broker
        with kafwire.Client(bootstrap) as client:
            client.create_topic(self.table, partitions=2)
        database.execute(postgresql_schema(self.table, **{"channel": self.table, **schema}))

    def write(self, connection: Any, *rows: tuple[str, str]) -> list[tuple[bytes, bytes]]:
        """Write rows of (key, value) in the transaction that is open."""
        statement = f"INSERT INTO {self.table} (topic, aggregate_key, payload) VALUES (%s, %s, %s)"
        connection.cursor().executemany(statement, [(self.table, key, value.encode()) for key, value in rows])
        return [(key.encode(), value.encode()) for key, value in rows]

    def commit(self, numbers: range) -> list[tuple[bytes, bytes]]:
        """Commit rows of several keys, two in each transaction."""
        connection = self.database.connect()
        rows = []
        for number in numbers[::2]:
            rows += self.write(connection, *((str(n % KEYS), str(n)) for n in (number, number + 1)))
            connection.commit()
        connection.close()
        return rows

    def left(self) -> int:
        """How many rows are there that were not relayed."""
        return int(self.database.rows(f"SELECT count(*) FROM {self.table} WHERE relayed_at IS NULL")[0][0])

    def relayed(self) -> dict[Any, list[Any]]:
        """The values of each key in the topic, in order."""
        return relayed(self.bootstrap, self.table)

    def options(self, **options: Any) -> dict[str, Any]:
        """Those of an outbox here."""
        return {"transactional_id": self.table, "table": self.table, "retry_backoff_ms": 5, **options}

    def outbox(self, driver: str = "psycopg", **options: Any) -> Outbox:
        """A relay that looks often."""
        made = self.options(**{"poll_interval": 0.02, **options})
        return Outbox(lambda: self.database.connect(driver), self.bootstrap, **made)


@contextmanager
def stages(bootstrap: str) -> Iterator[Callable[..., Stage]]:
    """A server, and what makes a `Stage` there."""
    with PostgreSql() as database:
        yield lambda **schema: Stage(bootstrap, database, **schema)
