"""Columns leave over the Arrow C data interface: schema, types, ownership."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from kafwire.errors import ConfigError, ProtocolError
from kafwire.memory._buffer import pool_bytes
from kafwire.records import Batch, decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support.deadlines import ended

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestamp_type", pa.int8()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
ROWS: list[Any] = [(b"k", b"v", 1_700_000_000_123, [("h", b"1")]), (None, None), (b"", b"", 5)]


def chunk(layout: Layout, rows: list[Any] | None = None) -> Batch:
    (batch,) = decode_chunks(encode_batch(ROWS if rows is None else rows), layout)
    return batch


def test_the_schema_is_the_documented_one() -> None:
    arrow = chunk(Layout("flights", 7)).to_arrow()
    assert arrow.schema.equals(SCHEMA, check_metadata=True)
    assert pa.schema(Layout("flights", 7)).equals(SCHEMA)
    assert [arrow.schema.field(i).nullable for i in range(8)] == [True] * 8


def test_a_batch_of_bytes_has_no_topic_and_partition() -> None:
    (batch,) = decode_batches(encode_batch(ROWS))
    assert batch.to_arrow().schema.names == SCHEMA.names[2:]


def test_values() -> None:
    arrow = chunk(Layout("flights", 7)).to_arrow()
    arrow.validate(full=True)
    rows = arrow.to_pydict()
    rows["timestamp"] = arrow.column("timestamp").cast(pa.int64()).to_pylist()
    assert rows == {
        "topic": ["flights"] * 3,
        "partition": [7] * 3,
        "offset": [0, 1, 2],
        "timestamp": [1_700_000_000_123, None, 5],
        "timestamp_type": [0, None, 0],
        "key": [b"k", None, b""],
        "value": [b"v", None, b""],
        "headers": [[{"key": "h", "value": b"1"}], [], []],
    }


def test_the_layout_of_spark() -> None:
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers"]
    layout = Layout("t", 1, columns=columns, names={"timestamp_type": "timestampType"}, timestamp_unit="us",
                    timestamp_type="int32")  # fmt: skip
    arrow = chunk(layout).to_arrow()
    arrow.validate(full=True)
    assert arrow.schema.names == [*columns[:6], "timestampType", "headers"]
    assert arrow.schema.field("timestamp").type == pa.timestamp("us", "UTC")
    assert arrow.schema.field("timestampType").type == pa.int32()
    assert arrow.column("timestamp").cast(pa.int64()).to_pylist() == [1_700_000_000_123_000, None, 5000]
    assert arrow.column("timestampType").to_pylist() == [0, None, 0]


@pytest.mark.parametrize("timestamp", [9_223_372_036_854_776, -9_223_372_036_854_776, (1 << 63) - 1])
def test_a_timestamp_that_does_not_fit_in_microseconds_is_an_error(timestamp: int) -> None:
    layout = Layout("t", 0, timestamp_unit="us")
    batch = chunk(layout, [(None, b"", timestamp)])
    for _ in range(2):  # the layout keeps its constant columns from the first time on
        live, _ = pool_bytes()
        with pytest.raises(ProtocolError, match="microseconds"):
            batch.__arrow_c_array__()
    assert pool_bytes()[0] <= live
    fits = chunk(layout, [(None, b"", 9_223_372_036_854_775), (None, b"")]).to_arrow()
    assert fits.column("timestamp").cast(pa.int64()).to_pylist() == [9_223_372_036_854_775_000, None]


def test_layouts_name_unknown_columns() -> None:
    with pytest.raises(ConfigError, match="'vlaue'"):
        Layout(columns=["vlaue"])
    with pytest.raises(ConfigError, match="twice"):
        Layout(columns=["key", "key"])
    with pytest.raises(ConfigError, match="ns"):
        Layout(timestamp_unit="ns")
    with pytest.raises(ConfigError, match="31 bytes"):
        Layout(columns=["key"], names={"key": "k" * 32})


def test_header_keys_that_are_not_utf8_become_replacement_characters() -> None:
    keys = [
        b"ok",
        b"\xff",
        b"caf\xe9!",
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98x",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
        b"",
    ]
    arrow = chunk(Layout("t", 0), [(None, b"", 1, [(key, None) for key in keys])]).to_arrow()
    arrow.validate(full=True)
    assert [pair["key"] for pair in arrow.column("headers").to_pylist()[0]] == [
        key.decode("utf-8", "replace") for key in keys
    ]


def test_constant_columns_are_built_once_and_grow() -> None:
    layout = Layout("flights", 2)
    sizes = [1, 500, 20, 0, 3000, 2]
    arrows = [chunk(layout, [(None, b"v")] * size).to_arrow() for size in sizes]
    for size, arrow in zip(sizes, arrows, strict=True):
        arrow.validate(full=True)
        assert arrow.column("topic").to_pylist() == ["flights"] * size
        assert arrow.column("partition").to_pylist() == [2] * size
    assert arrows[1].column("topic").buffers()[2].address == arrows[2].column("topic").buffers()[2].address


def test_without_a_topic_the_column_is_null() -> None:
    arrow = chunk(Layout(None, 0, columns=["topic", "value"])).to_arrow()
    arrow.validate(full=True)
    assert arrow.column("topic").to_pylist() == [None] * 3


def test_children_may_be_moved_out_and_released_apart() -> None:
    batch = chunk(Layout("t", 0), [(b"k", b"v" * 100, 1, [("h", b"1")])] * 5000)
    columns = batch.to_arrow().columns
    del batch
    threads = []
    for _ in range(len(columns)):
        holder = [columns.pop()]
        thread = threading.Thread(target=holder.clear)
        del holder
        threads.append(thread)
        thread.start()
    ended(*threads)
    gc.collect()


def test_unused_capsules_are_released() -> None:
    batch = chunk(Layout("t", 0), [(b"k", b"v" * 100, 1)] * 5000)
    live, _ = pool_bytes()
    for _ in range(20):
        batch.__arrow_c_array__()
        batch.__arrow_c_schema__()
    gc.collect()
    assert pool_bytes()[0] <= live + (1 << 20)


def test_pyarrow_reads_the_schema_of_a_layout_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    read = pa.schema

    def schema(source: Any) -> pa.Schema:
        asked.append(source)
        return read(source)

    monkeypatch.setattr(pa, "schema", schema)
    layout = Layout("t", 0)
    first, second = chunk(layout).to_arrow(), chunk(layout, [b"v"]).to_arrow()
    assert asked == [layout]
    assert first.schema.equals(second.schema)
    assert (first.num_rows, second.num_rows) == (3, 1)


def test_an_array_that_pyarrow_refuses_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    def importer(schema: object) -> Any:
        def refuse(address: int) -> Any:
            raise ValueError("refused")

        return refuse

    monkeypatch.setattr("kafwire.arrow.importer", importer)
    layout = Layout("t", 0, columns=["value"])
    gc.collect()
    before = pool_bytes()[0]
    batch = chunk(layout, [b"x" * 100_000])
    for _ in range(3):
        with pytest.raises(ValueError, match="refused"):
            batch.to_arrow()
    assert batch[0].value == b"x" * 100_000
    del batch
    assert pool_bytes()[0] == before


def test_without_pyarrow_the_way_to_get_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"kafwire\[arrow\]"):
        chunk(Layout("t", 0)).to_arrow()


def test_polars_and_duckdb_take_batches_as_they_are() -> None:
    batch = chunk(Layout("flights", 7))
    frame = pl.DataFrame(batch)
    assert frame["value"].to_list() == [b"v", None, b""]
    assert frame["offset"].to_list() == [0, 1, 2]
    arrow = batch.to_arrow()
    relation: Any = duckdb.sql('select count(*), sum("offset") from arrow where key is not null')
    assert relation.fetchall() == [(2, 2)]
    assert arrow.num_rows == 3


def test_decoding_needs_no_arrow_library() -> None:
    code = (
        "import sys; from kafwire.records import *; from kafwire.records import _arrow\n"
        "(b,) = decode_batches(encode_batch([b'v'])); b.__arrow_c_array__(); list(b)\n"
        "assert not {'pyarrow', 'numpy', 'lz4', 'zstandard', 'asyncio', 'ssl'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("transient", [False, True])
def test_a_transient_layout_keeps_no_constant_columns(*, transient: bool) -> None:
    layouts = [Layout("topic", number, transient=transient) for number in range(20)]
    data = encode_batch([b""] * 1000)
    gc.collect()
    before = pool_bytes()[0]
    for number, layout in enumerate(layouts):
        (chunk,) = decode_chunks(data, layout, topic="topic", partition=number)
        table = pa.record_batch(chunk)
        assert table.column("partition").to_pylist() == [number] * 1000
        assert table.column("topic").to_pylist() == ["topic"] * 1000
        assert table.column("timestamp_type").null_count == 1000
        del chunk, table
    gc.collect()
    kept = pool_bytes()[0] - before
    assert kept == 0 if transient else kept > 20 * 1000 * (5 + 4 + 4)
