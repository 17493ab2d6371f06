"""A consumer that stores results and offsets in a database, for tests that kill it, or the database, at any step."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from typing import Any

import kafwire
from kafwire.database import DatabaseOffsets
from kafwire.testing import EmbeddedKafka
from tests.support import programs

ORDERS = [kafwire.TopicPartition("orders", number) for number in range(2)]
RECORDS = 60
STEPS = ("read", "inserted", "stored", "committed")
_INSERT = {"sqlite3": "INSERT INTO bills (part, value) VALUES (?, ?)"}
_INSERT_ELSEWHERE = "INSERT INTO bills (part, value) VALUES (%s, %s)"


def fill(kafka: EmbeddedKafka) -> None:
    """Make the topic; each of its batches has three records."""
    kafka.create_topic("orders", 2)
    for first in range(0, RECORDS, 6):
        for partition in range(2):
            kafka.append("orders", [str(first + 2 * number + partition) for number in range(3)], partition)


def expected() -> dict[int, list[int]]:
    """The values of each partition, in order."""
    return {partition: list(range(partition, RECORDS, 2)) for partition in range(2)}


def tables(database: Any) -> None:
    """Make the tables of results and offsets."""
    DatabaseOffsets("billing").create_table(database)
    database.cursor().execute("CREATE TABLE bills (part INTEGER, value TEXT)")
    database.commit()


def results(rows: list[tuple[int, str]]) -> dict[int, list[int]]:
    """Rows of (partition, value), by partitions."""
    return {partition: [int(value) for where, value in rows if where == partition] for partition in range(2)}


def read(driver: str, where: str, bootstrap: str, on_step: Callable[[str], object]) -> None:
    """Go on from the offsets in the database, to the end; the reader calls `on_step` at each step of each batch."""
    with closing(import_module(driver).connect(where)) as database, kafwire.Client(bootstrap) as client:
        ends = client.offsets(ORDERS)
        offsets = DatabaseOffsets("billing", topic_ids={"orders": client.topic("orders").topic_id})
        start = offsets.start(database, ORDERS)
        database.rollback()
        left = {order for order in ORDERS if start[order] == "earliest" or start[order] != ends[order]}
        with kafwire.Consumer(bootstrap, assign=sorted(left), start=start, chunk_bytes=1) as consumer:
            while left:
                for batch in consumer.poll(10.0):
                    on_step("read")
                    for record in batch:
                        insert = _INSERT.get(driver, _INSERT_ELSEWHERE)
                        database.cursor().execute(insert, (batch.partition, record.value.decode()))
                    on_step("inserted")
                    offsets.store(database, batch)
                    on_step("stored")
                    database.commit()
                    on_step("committed")
                    if batch.partition is not None and batch.next_offset >= ends[ORDERS[batch.partition]]:
                        left.discard(ORDERS[batch.partition])


def read_and_die(driver: str, where: str, bootstrap: str, at: int) -> bool:
    """`read` in a process of its own, which SIGKILL ends at a step, counted from 1: whether it came so far."""
    code = "from tests.support.outbox.database_reader import main; main()"
    returned, _, errors = programs.run("", code, driver, where, bootstrap, str(at))
    assert returned in (0, -signal.SIGKILL), errors
    return returned != 0


def main() -> None:
    """The program of `read_and_die`."""
    driver, where, bootstrap, at = sys.argv[1:]
    steps = 0

    def on_step(_: str) -> None:
        nonlocal steps
        steps += 1
        if steps == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

    read(driver, where, bootstrap, on_step)
