"""Rows of topics as frames, to compare a library's filter of them with the bounds of a read."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa

import kafwire
from kafwire.scanner.row_filter import Bounds, Column, RowFilter

START_MS = 1_357_016_400_000
RECORDS = 60
NAMES: dict[str, Column] = {"topic": "topic", "number": "partition", "offset": "offset", "at": "timestamp"}
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("number", pa.int32()),
        ("offset", pa.int64()),
        ("at", pa.timestamp("ms", "UTC")),
        ("value", pa.binary()),
    ]
)
Row = dict[str, Any]


def time_at(ms: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)


def drawn_rows(chance: random.Random) -> pa.Table:
    """Two topics of three partitions, whose times are in no order."""
    rows = [
        {
            "topic": topic,
            "number": number,
            "offset": offset,
            "at": chance.choice([None, time_at(0), time_at(START_MS + chance.randrange(10))]),
            "value": chance.choice([None, b"", b"9"]),
        }
        for topic in "ab"
        for number in range(3)
        for offset in range(10)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def drawn_value(chance: random.Random, column: str) -> Any:
    """A value to compare a column with."""
    if column == "topic":
        return chance.choice(["a", "b", "c"])
    if column == "at":
        return time_at(chance.choice([-5, 0, 1.5, *(START_MS + n * 0.5 for n in range(-3, 25))]))
    return chance.randrange(-2, 13) if column == "offset" else chance.randrange(-1, 4)


def rows_within(rows: list[Row], row_filter: RowFilter) -> list[Row]:
    """The rows that a read has which the filter bounds."""
    whole = row_filter.bounds()
    bounds = {place: row_filter.bounds(*place) for place in {(row["topic"], row["number"]) for row in rows}}
    return [row for row in rows if _has(whole, row) and _has(bounds[row["topic"], row["number"]], row)]


def _has(bounds: Bounds, row: Row) -> bool:
    if row["at"] is None:
        timed = bounds.with_null
    else:
        timed = bounds.since <= round(row["at"].timestamp() * 1000) < bounds.until
    return timed and bounds.first <= row["offset"] < bounds.stop


def fill(bootstrap: str, topic: str, chance: random.Random) -> None:
    """Two partitions of `RECORDS` records, in small batches, whose times are roughly in order."""
    with kafwire.Client(bootstrap) as client:
        client.create_topic(topic, partitions=2)
    with kafwire.Producer(bootstrap, linger_ms=0, batch_size=300) as producer:
        for number in range(2 * RECORDS):
            late = START_MS + 1000 * (number // 2) + chance.randrange(-3000, 3000)
            producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=late)
