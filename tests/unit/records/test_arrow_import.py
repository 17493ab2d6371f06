"""Rows to produce come in over the Arrow C data interface, from any library and in any layout it may choose."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from kafwire.errors import ConfigError
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._arrow_rows import RowsReader
from kafwire.records._record_batches import decode_chunks
from tests.support.arrow_records import EXPECTED, HEADERS, PAIR, records

VALUES = [b"one", b"", None, b"a value of more than twelve bytes", b"x" * 1000]


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_every_kind_of_bytes(kind: pa.DataType) -> None:
    plain = [
        value if value is None or pa.types.is_binary(kind) or "binary" in str(kind) else value.decode()
        for value in VALUES
    ]
    table = pa.table({"value": pa.array(plain, kind), "key": pa.array(plain[::-1], kind)})
    assert [record.value for record in records(table)] == VALUES
    assert [record.key for record in records(table)] == VALUES[::-1]
    assert [record.value for record in records(table.slice(1, 3))] == VALUES[1:4]


def test_fixed_size_binary_and_columns_of_nulls() -> None:
    table = pa.table({"value": pa.array([b"abc", None, b"xyz"], pa.binary(3)), "key": pa.nulls(3)})
    assert [(record.key, record.value) for record in records(table)] == [(None, b"abc"), (None, None), (None, b"xyz")]
    assert [record.value for record in records(table.slice(2))] == [b"xyz"]


def test_a_plain_array_has_the_values() -> None:
    assert [record.value for record in records(pa.array([b"a", None]))] == [b"a", None]
    assert [record.value for record in records(pa.chunked_array([[b"a"], [b"b"]]))] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([5, -1, None, -7], pa.int64()), [5, None, None, -7]),
        (pa.array([5, 6], pa.int32()), [5, 6]),
        (pa.array([1, -2], pa.timestamp("s")), [1000, -2000]),
        (pa.array([1, 2], pa.timestamp("ms", "UTC")), [1, 2]),
        (pa.array([1999, -1999, -1000, 0], pa.timestamp("us", "UTC")), [1, -2, None, 0]),
        (pa.array([1_999_999, -1], pa.timestamp("ns")), [1, None]),
        (pa.array([2, -1], pa.date32()), [172_800_000, -86_400_000]),
        (pa.array([86_400_000], pa.date64()), [86_400_000]),
        (pa.array([7], pa.uint64()), [7]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_every_kind_of_timestamp(column: pa.Array[Any], expected: list[int | None]) -> None:
    table = pa.table({"value": pa.array([b""] * len(column)), "timestamp": column})
    assert [record.timestamp_ms for record in records(table)] == expected
    assert [record.timestamp_ms for record in records(table.slice(1))] == expected[1:] or len(column) == 1


@pytest.mark.parametrize(
    "column", [pa.array([1 << 62], pa.timestamp("s")), pa.array([1 << 63], pa.uint64())], ids=["seconds", "unsigned"]
)
def test_a_timestamp_out_of_range_names_the_row(column: pa.Array[Any]) -> None:
    with pytest.raises(ConfigError, match="row 0"):
        encode_batch(pa.table({"value": [b""], "timestamp": column}))


@pytest.mark.parametrize("kind", [pa.list_(PAIR), pa.large_list(PAIR)], ids=["list", "large_list"])
def test_headers(kind: pa.DataType) -> None:
    table = pa.table({"value": [b"v"] * 4, "headers": pa.array(HEADERS, kind)})
    assert [record.headers for record in records(table)] == EXPECTED
    assert [record.headers for record in records(table.slice(3))] == EXPECTED[3:]


def test_headers_as_a_map() -> None:
    table = pa.table({"value": [b"v"], "headers": pa.array([[("a", b"1")]], pa.map_(pa.string(), pa.binary()))})
    assert records(table)[0].headers == [("a", b"1")]


def test_a_header_without_a_key_names_the_row() -> None:
    headers = pa.array([[], [{"key": None, "value": b""}]], pa.list_(PAIR))
    with pytest.raises(ConfigError, match="row 1"):
        encode_batch(pa.table({"value": [b"", b""], "headers": headers}))


@pytest.mark.parametrize("sliced", [0, 1])
def test_a_header_that_is_null_has_no_key_whatever_lies_under_it(sliced: int) -> None:
    pairs = pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c"]), pa.array([b"1", b"2", b"3"])],
        names=["key", "value"],
        mask=pa.array([False, False, True]),
    )
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pairs)
    table = pa.table({"value": [b""] * 3, "headers": headers})
    assert [record.headers for record in records(table.slice(sliced, 2 - sliced))] == [[("a", b"1")], [("b", b"2")]][
        sliced:
    ]
    with pytest.raises(ConfigError, match=f"row {2 - sliced}"):
        encode_batch(table.slice(sliced))


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (pa.table({"key": [b""]}), "no column 'value'"),
        (pa.table({"value": [b""], "valeu": [b""]}), "'valeu'"),
        (pa.table({"value": [1]}), "binary or string"),
        (pa.table({"value": [b""], "key": [1.5]}), "'key'"),
        (pa.table({"value": [b""], "timestamp": ["now"]}), "'timestamp'"),
        (pa.table({"value": [b""], "partition": ["0"]}), "'partition'"),
        (pa.table({"value": [b""], "headers": [["a"]]}), "'headers'"),
        (pa.table({"value": [b""], "headers": [[{"name": "a"}]]}), "'key' and 'value'"),
        (pa.table({"value": pa.array([1]).dictionary_encode()}), "binary or string"),
        ({"value": [b""]}, "dict is not Arrow data"),
    ],
)
def test_columns_that_cannot_be_produced_are_named(table: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        list(RowsReader(table))


def test_every_library_s_frames() -> None:
    expected = [(b"k1", b"v1"), (b"k2", None)]
    table = pa.table({"key": [b"k1", b"k2"], "value": pa.array([b"v1", None], pa.binary())})
    sources = [table, table.to_batches()[0], table.to_reader(), pl.from_arrow(table), duckdb.from_arrow(table)]
    for source in sources:
        assert [(record.key, record.value) for record in records(source)] == expected, type(source)


def test_chunks_of_a_stream_come_one_by_one_and_once() -> None:
    table = pa.concat_tables([pa.table({"value": [b"%d" % i] * i}) for i in (1, 2, 3)])
    assert [len(rows) for rows in RowsReader(table)] == [1, 2, 3]
    reader = RowsReader(table.to_reader())
    assert sum(len(rows) for rows in reader) == 6
    assert list(reader) == []


def test_a_failing_stream_raises_its_own_message() -> None:
    def batches() -> Any:
        yield pa.record_batch({"value": [b"v"]})
        raise ValueError("the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())
    with pytest.raises(OSError, match="the source broke"):
        encode_batch(reader)


def test_records_that_were_read_can_be_written() -> None:
    first = encode_batch([(b"k", b"v", 1_700_000_000_000, [("h", b"1")]), (None, None)])
    (batch,) = decode_chunks(first, Layout("t", 4))
    again = records(batch.to_arrow())
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in again] == [
        (b"k", b"v", 1_700_000_000_000, [("h", b"1")]),
        (None, None, None, []),
    ]
    when = pa.table({"value": [b""], "timestamp": [datetime(2013, 1, 1, tzinfo=UTC)]})
    assert records(when)[0].timestamp_ms == 1_356_998_400_000
