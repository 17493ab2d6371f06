"""The flights of the demo as Avro values with a schema id."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa

from demo.flights import load_flights

ROWS = 100_000
SCHEMA_ID = 7
FOUR = ("carrier", "hour", "dep_delay", "distance")


def schema() -> dict[str, Any]:
    """The flights' schema: 19 fields, each of which may be null."""
    kinds = {pa.string(): "string", pa.int64(): "long", pa.float64(): "double"}
    fields = [{"name": each.name, "type": ["null", kinds[each.type]]} for each in load_flights().schema]
    return {"type": "record", "name": "Flight", "fields": fields}


def four_fields() -> dict[str, Any]:
    """A reader's schema that needs four of them."""
    return {**schema(), "fields": [each for each in schema()["fields"] if each["name"] in FOUR]}


def values(rows: int = ROWS) -> list[bytes]:
    """The first flights as values."""
    parsed = fastavro.parse_schema(schema())
    out = []
    for row in load_flights().slice(0, rows).to_pylist():
        file = io.BytesIO()
        file.write(b"\0" + SCHEMA_ID.to_bytes(4, "big"))
        fastavro.schemaless_writer(file, parsed, row)
        out.append(file.getvalue())
    return out
