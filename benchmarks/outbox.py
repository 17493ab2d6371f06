"""The speed of an outbox: `python -m benchmarks.outbox [--short] [PART ...]`, into docs/internals/results/pipelines.md.

One Apache Kafka on this machine, a PostgreSQL server on a socket of its own, and a file of SQLite. Rows have 100 bytes
and one of 1000 keys. Rates are beside a floor: the same rows by a plain SELECT, and by the same producer in as large
transactions, without progress and without removing a row. Latencies are from the end of a commit to the record in a
reader of committed records, beside that of a transaction of one record which this process sends.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import kafwire
from kafwire.outbox import Outbox, postgresql_schema, sqlite_schema
from kafwire.testing import KafkaCluster
from tests.support.outbox.postgresql import PostgreSql

PAYLOAD = b"v" * 100
KEYS = 1000
PARTITIONS = 2
POLL_S = 0.1
LIMIT_S = 60.0
_numbers = itertools.count()


class Shop:
    """A database.

    Args:
        name: which.
        connect: opens a connection.
        schema: the statements that make a table of a name.
        mark: how a statement marks a parameter.
    """

    def __init__(self, name: str, connect: Callable[[], Any], schema: Callable[[str], list[str]], mark: str) -> None:
        self.name = name
        self.connect = connect
        self._schema = schema
        self._mark = mark

    def create(self, bootstrap: str) -> str:
        """Make an outbox, and a topic of its name."""
        name = f"outbox_{next(_numbers)}"
        with closing(self.connect()) as connection:
            for statement in self._schema(name):
                connection.cursor().execute(statement)
            connection.commit()
        with kafwire.Client(bootstrap) as client:
            client.create_topic(name, partitions=PARTITIONS)
        return name

    def write(self, connection: Any, table: str, payloads: list[bytes]) -> None:
        """Write rows, in one transaction."""
        statement = f"INSERT INTO {table} (topic, aggregate_key, payload) VALUES (?, ?, ?)".replace("?", self._mark)
        rows = [(table, str(number % KEYS), payload) for number, payload in enumerate(payloads)]
        connection.cursor().executemany(statement, rows)
        connection.commit()

    def fill(self, table: str, rows: int) -> None:
        """Write rows, and let the database know how many there are."""
        with closing(self.connect()) as connection:
            self.write(connection, table, [PAYLOAD] * rows)
            connection.cursor().execute(f"ANALYZE {table}")
            connection.commit()

    def select(self, table: str) -> str:
        """A statement that has the rows behind an id, at most so many."""
        return f"SELECT id, topic, aggregate_key, payload FROM {table} WHERE id > ? ORDER BY id LIMIT ?".replace(
            "?", self._mark
        )


def postgresql(server: PostgreSql) -> Shop:
    """A server's, with triggers that notify."""
    return Shop("PostgreSQL", server.connect, lambda name: [postgresql_schema(name, channel=name)], "%s")


def sqlite(folder: Path) -> Shop:
    """A file's, with a write-ahead log, and commits that reach the disk."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(folder / "shop.db", timeout=LIMIT_S)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    return Shop("SQLite", connect, lambda name: sqlite_schema(name).split(";"), "?")


# -- rates


def floor(shop: Shop, bootstrap: str, rows: int, batch_rows: int) -> float:
    """Rows per second without an outbox."""
    table = shop.create(bootstrap)
    shop.fill(table, rows)
    with (
        closing(shop.connect()) as connection,
        kafwire.Producer(bootstrap, transactional_id=table) as producer,
    ):
        producer.init_transactions()
        began, last = time.perf_counter(), 0
        while True:
            found = connection.cursor().execute(shop.select(table), (last, batch_rows)).fetchall()
            connection.rollback()
            if not found:
                return rows / (time.perf_counter() - began)
            last = found[-1][0]
            with producer.transaction():
                for _, topic, key, payload in found:
                    producer.send(topic, payload, key=key.encode())


def relay(shop: Shop, bootstrap: str, rows: int, batch_rows: int, **options: Any) -> float:
    """Rows per second of a relay."""
    table = shop.create(bootstrap)
    named: dict[str, Any] = {"table": table, "transactional_id": table, "batch_rows": batch_rows, **options}
    with Outbox(shop.connect, bootstrap, **named) as outbox:
        assert outbox.relay() == 0  # it has begun
        shop.fill(table, rows)
        began = time.perf_counter()
        while outbox.relay():
            pass
        seconds = time.perf_counter() - began
    assert outbox.metrics()["rows"] == rows
    return rows / seconds


def rates(shops: list[Shop], bootstrap: str, rounds: int, rows: int) -> None:
    """Rows that are there already."""
    for shop in shops:
        for batch_rows in (500, 5000):
            found: dict[str, list[float]] = {"floor": [], "deleted": [], "kept": []}
            for turn in range(rounds + 1):
                figures = {
                    "floor": floor(shop, bootstrap, rows, batch_rows),
                    "deleted": relay(shop, bootstrap, rows, batch_rows),
                    "kept": relay(shop, bootstrap, rows, batch_rows, keep_s=3600),
                }
                for name, figure in figures.items() if turn else ():  # the first one of each warms caches
                    found[name].append(figure)
            floors = statistics.median(found["floor"])
            for name, each in found.items():
                median = statistics.median(each)
                print(
                    f"{shop.name}, {batch_rows} rows to a transaction, {name:8} {median:10,.0f} rows/s "
                    f"({min(each):,.0f} to {max(each):,.0f}), {median / floors:.2f} of the floor",
                    flush=True,
                )


# -- latencies


class Reader:
    """When a reader of committed records got each record of a topic, by its number."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        partitions = [kafwire.TopicPartition(topic, number) for number in range(PARTITIONS)]
        self._consumer = kafwire.Consumer(
            bootstrap, assign=partitions, start="earliest", isolation_level="read_committed"
        )
        self._seen: dict[int, float] = {}
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for record in self._consumer:
            now = time.perf_counter()
            with self._news:
                self._seen[int(record.value or b"")] = now
                self._news.notify()

    def seen(self, number: int) -> float:
        """When it came; waits for it."""
        with self._news:
            assert self._news.wait_for(lambda: number in self._seen, LIMIT_S), "a record did not come"
            return self._seen[number]

    def close(self) -> None:
        """Stop."""
        self._consumer.stop()
        self._thread.join(LIMIT_S)
        self._consumer.close()


@contextmanager
def reading(bootstrap: str, topic: str) -> Iterator[Reader]:
    """A reader that has begun."""
    reader = Reader(bootstrap, topic)
    try:
        yield reader
    finally:
        reader.close()


def bare(shop: Shop, bootstrap: str, commits: int) -> list[float]:
    """Milliseconds of a transaction of one record."""
    table = shop.create(bootstrap)
    found = []
    with reading(bootstrap, table) as reader, kafwire.Producer(bootstrap, transactional_id=table) as producer:
        producer.init_transactions()
        for number in range(commits + 1):
            began = time.perf_counter()
            with producer.transaction():
                producer.send(table, b"%d" % number, key=b"%d" % (number % KEYS))
            found.append(1000 * (reader.seen(number) - began))
    return found[1:]


def committed(shop: Shop, bootstrap: str, commits: int, *, wakes: bool, **options: Any) -> list[float]:
    """Milliseconds from a commit to its record; where nothing wakes the relay, commits come at any time."""
    table = shop.create(bootstrap)
    chance = random.Random(commits)
    found = []
    named: dict[str, Any] = {"table": table, "transactional_id": table, **options}
    if wakes and shop.name == "PostgreSQL":
        named["channel"] = table
    with reading(bootstrap, table) as reader, Outbox(shop.connect, bootstrap, **named) as outbox:
        runner = threading.Thread(target=outbox.run)
        runner.start()
        with closing(shop.connect()) as connection:
            for number in range(commits + 1):
                if not wakes and number:
                    time.sleep(chance.uniform(0, 2 * POLL_S))
                shop.write(connection, table, [b"%d" % number])
                began = time.perf_counter()
                if wakes and shop.name != "PostgreSQL":
                    outbox.wake()
                found.append(1000 * (reader.seen(number) - began))
        outbox.stop()
        runner.join(LIMIT_S)
    return found[1:]


def latencies(shops: list[Shop], bootstrap: str, rounds: int, commits: int) -> None:
    """Single rows, each committed when the one before it was read."""
    for shop in shops:
        woken = "LISTEN/NOTIFY" if shop.name == "PostgreSQL" else "wake()"
        found: dict[str, list[list[float]]] = {"one transaction alone": [], woken: [], f"polling, {POLL_S:g} s": []}
        for turn in range(rounds + 1):
            figures = (
                bare(shop, bootstrap, commits),
                committed(shop, bootstrap, commits, wakes=True, poll_interval=10.0),
                committed(shop, bootstrap, commits // 3, wakes=False, poll_interval=POLL_S),
            )
            for name, figure in zip(found, figures, strict=True) if turn else ():
                found[name].append(figure)
        for name, each in found.items():
            medians = [statistics.median(one) for one in each]
            pooled = sorted(itertools.chain(*each))
            print(
                f"{shop.name}, {name:22} median {statistics.median(pooled):7.1f} ms ({min(medians):.1f} to "
                f"{max(medians):.1f}), p99 {pooled[len(pooled) * 99 // 100]:.1f} ms, of {len(pooled)}",
                flush=True,
            )


PARTS = ("rates", "latencies")


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--short", action="store_true", help="two rounds of each, and fewer rows")
    chosen = parser.parse_args()
    rounds, rows, commits = (2, 2000, 30) if chosen.short else (5, 20_000, 200)
    print(f"load at the start: {os.getloadavg()}")
    with (
        KafkaCluster() as cluster,
        PostgreSql(fsync=True) as server,
        tempfile.TemporaryDirectory(prefix="kafwire-bench-") as folder,
    ):
        shops = [postgresql(server), sqlite(Path(folder))]
        if "rates" in (chosen.parts or PARTS):
            rates(shops, cluster.bootstrap, rounds, rows)
        if "latencies" in (chosen.parts or PARTS):
            latencies(shops, cluster.bootstrap, rounds, commits)
    print(f"load at the end: {os.getloadavg()}")


if __name__ == "__main__":
    main()
