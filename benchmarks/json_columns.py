"""Rows a second of JSON documents to Arrow columns: kafwire's decoder beside pyarrow's reader and msgspec.

`python -m benchmarks.json_columns` prints a line for each, of one core and its CPU time, in one run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pyarrow.json

from kafwire.json_columns import JsonDecoder

ROWS = 200_000
TIMES = 5
SCHEMA = pa.schema(
    [
        *(("carrier", pa.string()), ("flight", pa.int64()), ("delay", pa.int32()), ("origin", pa.string())),
        *(("dest", pa.string()), ("distance", pa.float64()), ("tail", pa.string())),
    ]
)


class Flight(msgspec.Struct):
    """A document as an object of Python."""

    carrier: str
    flight: int
    delay: int
    origin: str
    dest: str
    distance: float
    tail: str


def document(number: int) -> bytes:
    names = {"carrier": "UA", "flight": number, "delay": number % 60, "origin": "EWR", "dest": "IAH"}
    return json.dumps({**names, "distance": 1400.5 + number, "tail": f"N{number:05}"}).encode()


def rate(call: Callable[[], object]) -> float:
    """Millions of rows in a second of CPU time, the best of some calls."""
    found = []
    for _ in range(TIMES):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return ROWS / min(found) / 1e6


def main() -> None:
    documents = [document(number) for number in range(ROWS)]
    column, text = pa.array(documents, pa.binary()), b"\n".join(documents)
    decoder, one = JsonDecoder(SCHEMA), msgspec.json.Decoder(Flight).decode
    reading = pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parsing = pyarrow.json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")
    print(f"documents of {len(text) / ROWS:.0f} bytes, {len(SCHEMA)} fields")
    print(f"kafwire.json_columns  {rate(lambda: decoder.decode(column)):.2f} M rows/s")
    print(
        f"pyarrow.json          {rate(lambda: pyarrow.json.read_json(pa.BufferReader(text), reading, parsing)):.2f} M/s"
    )
    print(f"msgspec, objects      {rate(lambda: [one(each) for each in documents]):.2f} M/s")


if __name__ == "__main__":
    main()
