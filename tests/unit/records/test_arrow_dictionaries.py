"""Dictionary-encoded columns (categoricals) and the index of a pandas frame, on their way into Kafka."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import kafwire
from kafwire.records import decode_batches, encode_batch
from kafwire.records._arrow_rows import RowsReader
from tests.support import seeds
from tests.support.arrow_records import EXPECTED, HEADERS, PAIR, records

INDEXES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
KINDS = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()]
WORDS = [b"one", None, b"", b"a value of more than twelve bytes"]
ROWS = [3, 0, None, 1, 2, 0, 3, None]
VALUES = [None if row is None else WORDS[row] for row in ROWS]


def column(kind: Any, index: Any = None, rows: list[int | None] = ROWS) -> Any:
    """A null in the index, and a null among the values."""
    is_text = "string" in str(kind)
    words = [word if word is None or not is_text else word.decode() for word in WORDS]
    return pa.DictionaryArray.from_arrays(pa.array(rows, index or pa.int32()), pa.array(words, kind))


def values(source: Any) -> list[bytes | None]:
    return [record.value for record in records(source)]


@pytest.mark.parametrize("index", INDEXES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_value_and_of_index(kind: Any, index: Any) -> None:
    made = column(kind, index)
    table = pa.table({"value": made, "key": column(kind, index, ROWS[::-1])})
    assert values(table) == VALUES
    assert [record.key for record in records(table)] == VALUES[::-1]
    for start in range(len(ROWS)):
        assert values(table.slice(start, 3)) == VALUES[start : start + 3]
    assert values(made) == VALUES, "a column on its own"
    assert values(made.slice(2)) == VALUES[2:]


def test_fixed_size_values_and_values_of_nothing() -> None:
    fixed = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array([b"abc", b"xyz"], pa.binary(3)))
    nothing = pa.DictionaryArray.from_arrays(pa.array([0, 0, None]), pa.nulls(1))
    table = pa.table({"value": fixed, "key": nothing})
    assert [(r.key, r.value) for r in records(table)] == [(None, b"xyz"), (None, b"abc"), (None, None)]


def test_a_sliced_dictionary() -> None:
    words = pa.array([b"left out", b"a", b"b", b"left out too"]).slice(1, 2)
    assert values(pa.DictionaryArray.from_arrays(pa.array([1, 0]), words)) == [b"b", b"a"]


def test_a_dictionary_of_a_dictionary() -> None:
    inner = pa.DictionaryArray.from_arrays(pa.array([2, 0, None], pa.int8()), pa.array([b"a", b"b", b"c"]))
    outer = pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, None], pa.uint16()), inner)
    assert values(pa.table({"value": outer})) == [b"a", None, b"c", None]


def test_partitions_and_timestamps_as_categories() -> None:
    stamps = pa.array([5_000, None, 7_000], pa.timestamp("us"))
    table = pa.table(
        {
            "value": [b"a", b"b", b"c", b"d"],
            "timestamp": pa.DictionaryArray.from_arrays(pa.array([2, 1, None, 0], pa.int8()), stamps),
        }
    )
    assert [record.timestamp_ms for record in records(table)] == [7, None, None, 5]


def test_headers_of_categories() -> None:
    plain: Any = pa.array(HEADERS, pa.list_(PAIR))
    pairs = pa.StructArray.from_arrays(
        [plain.values.field("key").dictionary_encode(), plain.values.field("value").dictionary_encode()],
        names=["key", "value"],
    )
    made = pa.ListArray.from_arrays(plain.offsets, pairs, mask=plain.is_null())
    table = pa.table({"value": [b"v"] * 4, "headers": made})
    assert [record.headers for record in records(table)] == EXPECTED
    assert [record.headers for record in records(table.slice(3))] == EXPECTED[3:]
    assert [record.headers for record in records(table.slice(1, 1))] == EXPECTED[1:2]


@seeds.several(20)
def test_random_columns_are_as_their_plain_ones(seed: int) -> None:
    chance = random.Random(seed)
    kind, index = chance.choice(KINDS), chance.choice(INDEXES)
    words = [bytes(chance.choices(range(97, 123), k=chance.choice((0, 5, 12, 13, 300)))) for _ in range(100)]
    picks = [None if chance.random() < 0.1 else chance.randrange(100) for _ in range(5_000)]
    texts: list[Any] = [word.decode() for word in words] if "string" in str(kind) else words
    made = pa.DictionaryArray.from_arrays(pa.array(picks, index), pa.array(texts, kind))
    start, count = chance.randrange(4_000), chance.randrange(1_000)
    got = [record.value for batch in decode_batches(encode_batch(made.slice(start, count))) for record in batch]
    assert got == [None if pick is None else words[pick] for pick in picks[start : start + count]], f"seed {seed}"


@pytest.mark.parametrize(
    ("wrong", "index"),
    [(4, pa.int8()), (-1, pa.int8()), (200, pa.uint8()), (1 << 40, pa.int64()), (1 << 63, pa.uint64())],
)
@pytest.mark.parametrize("name", ["value", "key"])
def test_an_index_without_a_value_names_the_row(name: str, wrong: int, index: Any) -> None:
    made = pa.DictionaryArray.from_arrays(pa.array([0, 1, wrong], index), pa.array(["a"] * 4), safe=False)
    table = pa.table({"value": ["v"] * 3} | {name: made})
    with pytest.raises(kafwire.ConfigError, match=rf"column '{name}', row 2: its index is outside .* 4 values"):
        encode_batch(table)
    assert len(records(table.slice(0, 2))) == 2, "rows that are not sent are not looked at"
    with pytest.raises(kafwire.ConfigError, match=rf"column '{name}', row 1: "):
        encode_batch(table.slice(1))


def test_an_index_without_a_value_in_a_header() -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a"]), safe=False)
    pairs = pa.StructArray.from_arrays([keys, pa.array([b"1", b"2"])], names=["key", "value"])
    table = pa.table({"value": [b"v"] * 2, "headers": pa.ListArray.from_arrays(pa.array([0, 1, 2]), pairs)})
    with pytest.raises(kafwire.ConfigError, match=r"column 'headers.key', row 1: its index is outside"):
        encode_batch(table)
    assert records(table.slice(0, 1))[0].headers == [("a", b"1")]


def test_a_null_s_index_may_be_anything() -> None:
    index = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.array([0, 77], pa.int32()).buffers()[1]])
    assert values(pa.DictionaryArray.from_arrays(index, pa.array(["a"]), safe=False)) == [b"a", None]


def test_headers_whose_lists_or_structs_are_encoded_are_refused() -> None:
    lists = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(HEADERS[:1], pa.list_(PAIR)))
    with pytest.raises(kafwire.ConfigError, match="cast them to a plain type"):
        list(RowsReader(pa.table({"value": [b"v"], "headers": lists})))


def test_categories_of_every_library() -> None:
    expected = [b"EWR", b"JFK", b"EWR", None]
    frame = pl.DataFrame({"value": ["EWR", "JFK", "EWR", None]})
    assert values(frame.with_columns(pl.col("value").cast(pl.Categorical))) == expected
    assert values(frame.with_columns(pl.col("value").cast(pl.Enum(["JFK", "EWR"])))) == expected
    assert values(pd.DataFrame({"value": ["EWR", "JFK", "EWR", None]}, dtype="category")) == expected
    rows = "(VALUES ('EWR'), ('JFK'), ('EWR'), (NULL)) AS t(value)"
    assert values(duckdb.sql(f"SELECT value::ENUM('JFK', 'EWR') AS value FROM {rows}")) == expected


# ---- pandas


FRAME = pd.DataFrame({"value": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]})


def test_a_filtered_frame() -> None:
    filtered = FRAME[FRAME.n != 2][["value"]]
    assert "__index_level_0__" in pa.table(filtered).column_names
    assert values(filtered) == [b"a", b"c", b"d"]


def test_an_index_with_a_name() -> None:
    assert values(FRAME.set_index("n")) == [b"a", b"b", b"c", b"d"]
    assert [(r.key, r.value) for r in records(FRAME[:3].assign(key=["x", "y", "z"]).set_index(["key", "n"]))] == [
        (b"x", b"a"),
        (b"y", b"b"),
        (b"z", b"c"),
    ], "an index that has a column's name is that column"


def test_an_index_of_several_levels() -> None:
    frame = FRAME[:3][["value"]].set_index(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]))
    assert {"__index_level_0__", "__index_level_1__"} <= set(pa.table(frame).column_names)
    assert values(frame) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("name", ["__index_level_0", "__index_level_x__", "index", "x__index_level_0__", "n"])
def test_other_columns_are_still_unknown(name: str) -> None:
    with pytest.raises(kafwire.ConfigError, match=f"unknown column '{name}'"):
        encode_batch(pa.table({"value": [b"v"], name: [1]}))


@pytest.mark.parametrize(
    "note",
    [b"", b"[]", b"5", b"{}", b"\xff\xfe", b'{"index_columns": 5}', b'{"index_columns": ["m"]}'],
)
def test_a_note_that_says_nothing_of_it_changes_nothing(note: bytes) -> None:
    table = pa.table({"value": [b"v"], "n": [1]}).replace_schema_metadata({b"other": b"x" * 300, b"pandas": note})
    with pytest.raises(kafwire.ConfigError, match="unknown column 'n'"):
        encode_batch(table)
