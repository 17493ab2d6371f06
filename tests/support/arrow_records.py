"""Rows of Arrow as records, and headers in Arrow's forms."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafwire.records import Record, decode_batches, encode_batch


def records(source: Any) -> list[Record]:
    (batch,) = decode_batches(encode_batch(source))
    return list(batch)


PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: list[Any] = [
    [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    None,
    [],
    [{"key": "c", "value": b""}],
]
EXPECTED = [[("a", b"1"), ("b", None)], [], [], [("c", b"")]]
