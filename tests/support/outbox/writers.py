"""Writers of an outbox that work at once, and what has to be in its topic whatever became of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tests.support.deadlines import PATIENCE_S, ended
from tests.support.outbox.stage import Stage

SHARED = "1234"


class Aggregates:
    """The versions that several threads change at once: each key has one, which a row of the outbox names.

    Whatever became of a commit whose reply was lost, the versions that the database has in the end are those that have
    to be in the topic.

    Args:
        stage: where the outbox is.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.table = f"{stage.table}_aggregates"
        self._lost = import_module("psycopg").OperationalError
        self._stop = threading.Event()
        self._permits = threading.Semaphore(0)
        stage.database.execute(f"CREATE TABLE {self.table} (key text PRIMARY KEY, version bigint NOT NULL)")

    @contextmanager
    def writing(self, chance: random.Random, writers: int = 3) -> Iterator[None]:
        """Run threads that write as long as the context lasts, and not more than `permit` allows."""
        threads = [
            threading.Thread(target=self._write, args=(str(number), random.Random(chance.random())))
            for number in range(writers)
        ]
        keys = [*SHARED, *(f"own {number}" for number in range(writers))]
        for key in keys:
            self.stage.database.execute(f"INSERT INTO {self.table} VALUES ('{key}', 0)")
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self.permit(writers)
            ended(*threads)

    def permit(self, transactions: int) -> None:
        """Let the writers write so many pairs of transactions."""
        self._permits.release(transactions)

    def _write(self, name: str, chance: random.Random) -> None:
        """Change aggregates, with new connections where one was lost."""
        connections: list[Any] = []  # of the long transactions, and of the short ones
        while self._permits.acquire(timeout=PATIENCE_S) and not self._stop.is_set():
            try:
                while len(connections) < 2:
                    connections.append(self.stage.database.connect())
                self._change(connections[0], connections[1], f"own {name}", chance)
            except self._lost:
                close(connections)
        close(connections)  # open transactions are rolled back

    def _change(self, long: Any, short: Any, own: str, chance: random.Random) -> None:
        """A short transaction, beside a long one that has drawn an id before it and is committed after it.

        The long one locks rows that no other writer locks, so no writer waits for it.
        """
        self._raise_version(long, own)
        for key in sorted(chance.sample(SHARED, chance.randint(1, 3))):  # so no two writers wait for each other
            self._raise_version(short, key)
        short.commit()
        if chance.random() < 0.2:
            long.commit()

    def _raise_version(self, connection: Any, key: str) -> None:
        statement = f"UPDATE {self.table} SET version = version + 1 WHERE key = %s RETURNING version"
        (version,) = connection.execute(statement, (key,)).fetchone()
        self.stage.write(connection, (key, str(version)))

    def expected(self) -> dict[bytes, list[bytes]]:
        """All versions of each."""
        rows = self.stage.database.rows(f"SELECT key, version FROM {self.table} WHERE version > 0")
        return {key.encode(): [b"%d" % version for version in range(1, last + 1)] for key, last in rows}


def close(connections: list[Any]) -> None:
    """Close all, and forget them."""
    while connections:
        connections.pop().close()
