"""A share consumer's columns of acknowledgements, and the offsets of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafwire.consumer.share.held_batch import bytes_of
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.records._records import offsets_of

KINDS = [1, 2, 3, 1, 0]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(KINDS, pa.int8()),
        pa.array([3, *KINDS, 3], pa.uint8())[1:-1],
        np.array(KINDS, np.int8),
        np.array(KINDS, np.uint8),
        np.repeat(np.array(KINDS, np.int8), 2)[::2],
        bytes(KINDS),
        bytearray(KINDS),
    ],
    ids=["arrow", "arrow-slice", "numpy", "numpy-unsigned", "numpy-strided", "bytes", "bytearray"],
)
def test_a_column_of_bytes_is_taken_as_it_is(column: Any) -> None:
    assert bytes_of(column) == bytes(KINDS)


@pytest.mark.parametrize(
    "column",
    [
        KINDS,
        pa.array(KINDS),
        pa.array([1, None], pa.int8()),
        pa.chunked_array([pa.array(KINDS, pa.int8())]),
        pa.array(["accept"]),
        np.array(KINDS),
        np.array([[1, 2]], np.int8),
        np.array([True]),
        ["accept", "reject"],
    ],
    ids=["list", "int64", "null", "chunks", "text", "numpy-int64", "table", "bool", "names"],
)
def test_any_other_is_not(column: Any) -> None:
    assert bytes_of(column) is None


@pytest.mark.parametrize("bases", [[(5, 1)], [(5, 3)], [(5, 1), (7, 1)], [(5, 2), (9, 2)]])
def test_offsets_are_those_of_the_records(bases: list[tuple[int, int]]) -> None:
    wire = b"".join(encode_batch([b"v"] * count, base_offset=base) for base, count in bases)
    (batch,) = decode_chunks(wire, Layout("t", 0))
    assert list(offsets_of(batch)) == [base + at for base, count in bases for at in range(count)]
