"""Columns that fit a schema, columns that do not, and values that the schema does not allow."""

from __future__ import annotations

import datetime as dt
import io
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kafwire.avro import AvroDecoder, AvroEncoder
from kafwire.errors import ConfigError, SchemaError


def record(**fields: Any) -> str:
    made = [
        {"name": name, **(kind if isinstance(kind, dict) and "of" in kind else {"type": kind})}
        for name, kind in fields.items()
    ]
    for each in made:
        if "of" in each:
            each["type"] = each.pop("of")
    return json.dumps({"type": "record", "name": "R", "fields": made})


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def written(schema: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return file.getvalue()


def encoded(schema: Any, column: Any) -> list[bytes | None]:
    return AvroEncoder(schema).encode(column).to_arrow().to_pylist()  # type: ignore[no-any-return]


# --- columns that fit -------------------------------------------------------------------------------------------------


def test_times_and_decimals_are_those_of_fastavro() -> None:
    utc = dt.UTC
    moment = dt.datetime(2013, 1, 1, 5, 17, 3, 123000, utc)
    cases: list[tuple[Any, pa.DataType, Any]] = [
        (logical("int", "date"), pa.date32(), dt.date(1969, 7, 20)),
        (logical("int", "date"), pa.date64(), dt.date(2013, 1, 1)),
        (logical("int", "time-millis"), pa.time32("s"), dt.time(23, 59, 59)),
        (logical("int", "time-millis"), pa.time32("ms"), dt.time(1, 2, 3, 4000)),
        (logical("long", "time-micros"), pa.time64("us"), dt.time(1, 2, 3, 4)),
        (logical("int", "time-millis"), pa.time64("ns"), dt.time(1, 2, 3, 4000)),
        (logical("long", "timestamp-millis"), pa.timestamp("ns", "UTC"), moment),
        (logical("long", "timestamp-millis"), pa.timestamp("ms", "Europe/Berlin"), moment),
        (logical("long", "timestamp-micros"), pa.timestamp("ms", "UTC"), moment),
        (logical("long", "local-timestamp-micros"), pa.timestamp("us"), moment.replace(tzinfo=None)),
    ]
    for schema, kind, value in cases:
        assert encoded(json.dumps(schema), pa.array([value, None], kind)) == [written(schema, value), None], schema
    for text in ("-12.80", "12.80", "0.00", "-0.01", "327.67", "-327.68"):
        for kind in (
            logical("bytes", "decimal", precision=9, scale=2),
            {**logical("fixed", "decimal", precision=9, scale=2), "name": "F", "size": 5},
        ):
            for column in (pa.decimal128(9, 2), pa.decimal256(9, 2)):
                value = Decimal(text)
                assert encoded(json.dumps(kind), pa.array([value], column)) == [written(kind, value)], text


def test_decimals_at_the_edges_of_bytes_are_those_of_fastavro() -> None:
    numbers = [sign * (1 << bits) + more for bits in range(126) for sign in (1, -1) for more in (-1, 0, 1)]
    wide = [*numbers, *(sign * (1 << bits) for bits in (191, 192, 251) for sign in (1, -1))]
    for precision, values, column in ((38, numbers, pa.decimal128(38, 0)), (76, wide, pa.decimal256(76, 0))):
        schema = logical("bytes", "decimal", precision=precision, scale=0)
        expected = [written(schema, Decimal(each)) for each in values]
        assert encoded(json.dumps(schema), pa.array([Decimal(each) for each in values], column)) == expected


def test_a_field_without_a_column_gets_its_default() -> None:
    schema = record(a="long", b={"of": ["null", "string"], "default": None}, c={"of": "string", "default": "new"})
    assert encoded(schema, pa.record_batch({"a": [1]})) == [b"\x02\x00\x06new"]


def test_a_column_of_one_type_takes_its_branch() -> None:
    schema = json.dumps(["null", "string", "int", "long"])
    assert encoded(schema, pa.array([5, None])) == [b"\x06\x0a", None]
    assert encoded(schema, pa.array([5], pa.int32())) == [b"\x04\x0a"]
    assert encoded(schema, pa.array(["a"])) == [b"\x02\x02a"]
    in_record = record(u=["string", "null", "long"])
    assert encoded(in_record, pa.record_batch({"u": pa.array(["a", None])})) == [b"\x00\x02a", b"\x02"]


def test_all_null_columns_are_null() -> None:
    assert encoded(record(a="long"), pa.nulls(3, pa.struct([("a", pa.int64())]))) == [None] * 3
    assert encoded(record(a="long"), pa.nulls(3)) == [None] * 3
    assert encoded(record(a=["long", "null"]), pa.record_batch({"a": pa.nulls(2)})) == [b"\x02"] * 2
    assert encoded(record(a="null"), pa.record_batch({"a": pa.nulls(2)})) == [b""] * 2


def test_no_rows_are_no_values() -> None:
    assert encoded(record(a="long"), pa.record_batch({"a": pa.array([], pa.int64())})) == []


def test_chunks_are_parts() -> None:
    table = pa.table({"a": pa.chunked_array([[1], [2, 3]])})
    encoder = AvroEncoder(record(a="long"))
    assert [part.to_arrow().to_pylist() for part in encoder.parts(table)] == [[b"\x02"], [b"\x04", b"\x06"]]
    with pytest.raises(ConfigError, match=r"2 chunks: call parts\(\)"):
        encoder.encode(table)


def test_an_encoder_pickles() -> None:
    again = pickle.loads(pickle.dumps(AvroEncoder("long", prefix=b"x")))
    assert again.encode(pa.array([1])).to_arrow().to_pylist() == [b"x\x02"]


def test_values_outlive_the_encoder_and_export_once() -> None:
    made = AvroEncoder("long").encode(pa.array([1]))
    array = made.to_arrow()
    with pytest.raises(ConfigError, match="already exported"):
        made.to_arrow()
    del made
    assert array.to_pylist() == [b"\x02"]


# --- columns that do not fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "columns", "why"),
    [
        (record(a="long"), {"b": [1]}, "no field 'b': leave out the column"),
        (record(a="long", b="int"), {"a": [1]}, "^.*: b: there is no such column, and the schema has no default"),
        (record(a="long"), {"a": ["x"]}, "a: the Arrow format 'u' is not written as long"),
        (record(a="float"), {"a": [0.5]}, "a: the Arrow format 'g' is not written as float"),
        (record(a="string"), {"a": [b"x"]}, "cast the column to string"),
        (record(a="null"), {"a": [1]}, "'l' is not written as null"),
        (record(a=["null", "int"]), {"a": ["x"]}, "a: .* is not written as int"),
        (record(a=["string", "int"]), {"a": [0.5]}, "a: .* is not written as union"),
        (record(a={"type": "array", "items": "int"}), {"a": [1]}, "a: .* as array"),
        (record(a={"type": "array", "items": "int"}), {"a": [["x"]]}, r"a\[\]: .* as int"),
        (record(a={"type": "map", "values": "int"}), {"a": [[1]]}, "a: .* as map"),
        (record(a=logical("long", "timestamp-millis")), {"a": pa.array([1], pa.timestamp("ms"))}, "has no time zone"),
        (record(a="long"), {"a": pa.array([1], pa.timestamp("ms", "UTC"))}, "'tsm:UTC' is not written as long"),
        (
            record(a=logical("long", "local-timestamp-millis")),
            {"a": pa.array([1], pa.timestamp("ms", "UTC"))},
            "has a time zone",
        ),
        (
            record(a=logical("bytes", "decimal", precision=5, scale=2)),
            {"a": pa.array([1], pa.decimal128(5, 1))},
            "the schema's scale is 2",
        ),
        (record(a={"type": "fixed", "name": "F", "size": 3}), {"a": pa.array([b"xx"], pa.binary(2))}, "3 bytes"),
        (
            record(a=["null", "int", "string"]),
            {"a": pa.array([{"member2": 1}])},
            "the union has no 'member2'",
        ),
    ],
)
def test_columns_that_do_not_fit(schema: str, columns: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        AvroEncoder(schema).encode(pa.record_batch(columns))


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(SchemaError, match="two fields of one name"):
        AvroEncoder(record(a="long")).encode(twice)


def test_what_is_no_arrow_data_is_refused() -> None:
    with pytest.raises(ConfigError, match="list is not Arrow data"):
        AvroEncoder("long").encode([1])
    with pytest.raises(ConfigError, match="prefix is bytes, not str"):
        AvroEncoder("long", prefix="x")  # type: ignore[arg-type]


# --- values that the schema does not allow ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "column", "why"),
    [
        ("long", pa.array([1, None]), "row 1, a: a null, which the schema does not allow"),
        ("string", pa.array(["x", None]), "row 1, a: a null"),
        ("boolean", pa.array([True, None]), "row 1, a: a null"),
        ("long", pa.nulls(2), "row 0, a: a null"),
        ({"type": "array", "items": "int"}, pa.array([[1], [1, None]]), r"row 1, a\[\]: a null"),
        ("int", pa.array([0, 1 << 31]), "row 1, a: the number 2147483648 is out of the schema's range"),
        ("int", pa.array([0, -(1 << 31) - 1]), "row 1, a: the number -2147483649 is out"),
        ("long", pa.array([0, 1 << 63], pa.uint64()), "row 1, a: the number .* is out of the schema's range"),
        (logical("int", "time-millis"), pa.array([0, 86_400_000]), "row 1, a: the number 86400000 is out"),
        (logical("int", "time-millis"), pa.array([1_500_000], pa.time64("ns")), "row 0, a: the time 1500000 is finer"),
        (
            logical("long", "timestamp-micros"),
            pa.array([1 << 62], pa.timestamp("s", "UTC")),
            "row 0, a: the number .* is out of the schema's range",
        ),
        ({"type": "fixed", "name": "F", "size": 3}, pa.array([b"abc", b"ab"]), "row 1, a: 2 bytes, which is not the"),
        ({"type": "enum", "name": "E", "symbols": ["A", "BC"]}, pa.array(["BC", "BD"]), "row 1, a: a text of 2 bytes"),
        (
            logical("bytes", "decimal", precision=3, scale=0),
            pa.array([Decimal(999), Decimal(-1000)], pa.decimal128(5, 0)),
            "row 1, a: a decimal beyond",
        ),
        (
            ["int", "string"],
            pa.array([{"member0": 1, "member1": None}, {"member0": 1, "member1": "x"}]),
            "row 1, a: a union with more than one",
        ),
        (
            ["int", "string"],
            pa.array(
                [{"member0": None, "member1": None}], pa.struct([("member0", pa.int32()), ("member1", pa.string())])
            ),
            "row 0, a: a null",
        ),
        (
            "string",
            pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None])),
            "row 1, a: a null",
        ),
        (
            "string",
            pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int8()), pa.array(["x"]), safe=False),
            "row 1, a: an index outside",
        ),
    ],
)
def test_values_that_do_not_fit_name_row_and_field(kind: Any, column: pa.Array, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        AvroEncoder(record(a=kind)).encode(pa.RecordBatch.from_arrays([column], ["a"]))


@pytest.mark.parametrize("number", [0, 1])
def test_a_null_among_a_dictionarys_values_leaves_a_member_unset(number: int) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array([number], pa.int8()), pa.array(["x", None]))
    members = pa.StructArray.from_arrays(
        [pa.array([None if number == 0 else 7], pa.int32()), text], ["member0", "member1"]
    )
    schema = ["int", "string"]
    assert encoded(schema, members) == [written(schema, "x" if number == 0 else 7)]


def test_rows_count_from_the_first_chunk() -> None:
    with pytest.raises(ConfigError, match="row 2, a: a null"):
        list(AvroEncoder(record(a="long")).parts(pa.table({"a": pa.chunked_array([[1, 2], [None]], pa.int64())})))


def test_a_column_without_chunks_has_no_values() -> None:
    encoder = AvroEncoder(record(a="long"))
    assert encoder.encode(pa.chunked_array([], pa.struct([("a", pa.int64())]))).to_arrow() == pa.array([], pa.binary())
    assert AvroEncoder("long").encode(pa.chunked_array([], pa.int64())).to_arrow() == pa.array([], pa.binary())
    with pytest.raises(SchemaError, match="'u' is not written as long"):
        encoder.encode(pa.chunked_array([], pa.struct([("a", pa.string())])))


# --- hostile schemas --------------------------------------------------------------------------------------------------


def nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def widened(levels: int) -> Any:
    """Records of which each has ten fields of the next."""
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int", "default": 0}]}
    for level in range(1, levels):
        first = {"name": "f0", "type": schema}
        others = [{"name": f"f{i}", "type": f"R{level - 1}"} for i in range(1, 10)]
        schema = {"type": "record", "name": f"R{level}", "fields": [first, *others]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        lambda: nested(65),
        lambda: nested(100_000),
    ],
)
def test_hostile_schemas_are_refused(schema: Callable[[], Any]) -> None:
    with pytest.raises(SchemaError):
        AvroEncoder(schema())


def test_a_default_that_repeats_itself_is_refused() -> None:
    schema = {"type": "record", "name": "Out", "fields": [{"name": "a", "type": widened(7), "default": {}}]}
    schema["fields"].append({"name": "b", "type": "long"})  # type: ignore[attr-defined]
    with pytest.raises(SchemaError):
        AvroEncoder(schema).encode(pa.record_batch({"b": [1]}))


def test_a_decoder_reads_what_polars_wrote() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1, 2], "b": ["x", None], "c": [[1.5], []]})
    schema = record(a="long", b=["null", "string"], c={"type": "array", "items": "double"})
    made = AvroEncoder(schema).encode(frame)
    assert AvroDecoder(schema, writer=schema).decode(made).to_arrow().to_pylist() == frame.to_dicts()


def test_a_branch_without_columns_does_not_hinder_the_others() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 0}
    values = AvroEncoder(["null", "string", decimal]).encode(pa.array(["a"])).to_arrow()
    assert values.to_pylist() == [b"\x02\x02a"]
