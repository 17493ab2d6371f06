"""Good values follow the rules of resolution, bad ones the choice of the user."""

from __future__ import annotations

import gc
import pickle
import threading
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.avro import AvroDecoder
from kafwire.errors import ConfigError, DecodeError, SchemaError
from kafwire.memory._buffer import pool_bytes
from kafwire.records import decode_batches, encode_batch
from tests.support.avro_samples import number
from tests.support.deadlines import ended

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


def record(*fields: tuple[str, Any], name: str = "R", **defaults: Any) -> dict[str, Any]:
    made = [{"name": key, "type": kind} for key, kind in fields]
    return {
        "type": "record",
        "name": name,
        "fields": [{**each, "default": defaults[each["name"]]} if each["name"] in defaults else each for each in made],
    }


def cause(schema: Any, data: bytes | None, **options: Any) -> str:
    with pytest.raises(DecodeError) as caught:
        AvroDecoder(schema, writer=schema, **options).decode([data])
    assert caught.value.row == 0
    assert str(caught.value) == f"row 0: {caught.value.cause}"
    return caught.value.cause


def read(writer: Any, reader: Any, *values: bytes, **options: Any) -> Any:
    array = pa.array(AvroDecoder(reader, writer=writer, **options).decode(list(values)))
    array.validate(full=True)
    return array.to_pylist()


@pytest.mark.parametrize(
    ("schema", "data", "said"),
    [
        ("int", b"", "the value ends too early: 5 bytes are needed here (byte 0)"),
        ("int", b"\x80\x80", "the value ends too early: 5 bytes are needed here (byte 0)"),
        ("int", b"\x80\x80\x80\x80\x10", "a number of more than 5 bytes (byte 0)"),
        ("long", b"\x80" * 10, "a number of more than 10 bytes (byte 0)"),
        ("double", b"1234567", "the value ends too early: 8 bytes are needed here (byte 0)"),
        ("boolean", b"\2", "the boolean 2 is neither 0 nor 1 (byte 0)"),
        ("string", b"\x01", "the length -1 is negative (byte 1)"),
        ("bytes", b"\x0aabc", "the value ends too early: 5 bytes are needed here (byte 1)"),
        ("string", b"\x04\xc3(", "a string that is not UTF-8 (byte 1)"),
        ("string", b"\x06\xed\xa0\x80", "a string that is not UTF-8 (byte 1)"),
        (ENUM, b"\x04", "the enum has no symbol 2 (byte 1)"),
        (ENUM, b"\x01", "the enum has no symbol -1 (byte 1)"),
        (["null", "int"], b"\x04", "the union has no branch 2 (byte 1)"),
        (["null", "int"], b"\x01", "the union has no branch -1 (byte 1)"),
        ("int", b"\x02\x00\x00", "2 bytes are left after the value (byte 1)"),
        ({"type": "array", "items": "int"}, number(1 << 62), "a block claims 4611686018427387904 items"),
        ({"type": "array", "items": "double"}, b"\x04" + bytes(15), "a block claims 2 items, more than"),
        ({"type": "map", "values": "null"}, b"\x06\x00\x00", "a block claims 3 items, more than"),
        ({"type": "array", "items": "int"}, number(-(1 << 63)), "a block claims -9223372036854775808 items"),
        ({"type": "array", "items": "int"}, b"\x01\x04\x02\x00", "a block ends -1 bytes after the size"),
        ({"type": "array", "items": "int"}, b"\x01\x01\x02\x00", "the length -1 is negative"),
        ({"type": "array", "items": "int"}, b"\x01\x08\x02\x00", "the value ends too early: 4 bytes"),
        ({"type": "array", "items": "null"}, number(10_001), "a block claims 10001 items without bytes"),
        ({"type": "array", "items": "null"}, number(-(1 << 62)) + b"\0", "a block claims 4611686018427387904 items w"),
        ({"type": "int", "logicalType": "time-millis"}, number(86_400_000), "the number 86400000 is out of range"),
        ({"type": "long", "logicalType": "time-micros"}, number(-1), "the number -1 is out of range"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\x00", "a decimal of 0 bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\x04\x03\xe8", "a decimal of 2 bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, b"\x04\xfc\x18", "a decimal of 2 bytes"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 76},
            b"\x42\x01" + bytes(32),
            "a decimal of 33 bytes",
        ),
    ],
)
def test_a_bad_value_is_an_error_with_its_cause(schema: Any, data: bytes, said: str) -> None:
    assert said in cause(schema, data)


def test_the_cause_names_the_field() -> None:
    inner = record(("code", ["null", "string"]), name="Airport")
    schema = record(("at", "long"), ("stops", {"type": "array", "items": inner}))
    assert cause(schema, b"\x02\x02\x02\x01\xff\x00").startswith("stops[].code: the length -1 is negative")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes are too short for a schema id"),
        (b"\0\0\0\1", "4 bytes are too short for a schema id"),
        (b"\1\0\0\0\1\2", "the first byte is 1, not the 0 of a value with a schema id"),
        (b'{"a": 1}', "the first byte is 123"),
        (b"\0\xff\xff\xff\xff\2", "the schema id -1 is negative"),
    ],
)
def test_a_frame_that_is_none(data: bytes, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        AvroDecoder("int", schema_of={1: "int"}.__getitem__).decode([data])


def test_a_null_value_is_a_null_row_or_a_bad_one() -> None:
    assert read("int", "int", b"\2") == [{"value": 1}]
    decoded = AvroDecoder("int", writer="int").decode([b"\2", None])
    assert (pa.array(decoded).to_pylist(), decoded.bad) == ([{"value": 1}, None], [])
    assert cause("int", None, null_values="bad") == "the value is null"


def test_bad_values_become_null_rows_or_no_rows() -> None:
    values = [b"\2", b"", b"\4", None, b"\x80"]
    nulls = AvroDecoder("int", writer="int", on_bad="null", null_values="bad").decode(values)
    assert nulls.to_arrow()["value"].to_pylist() == [1, None, 2, None, None]
    assert [each.row for each in nulls.bad] == [1, 3, 4]
    assert nulls.good().to_pylist() == [True, False, True, False, False]
    dropped = AvroDecoder("int", writer="int", on_bad="drop").decode(values)
    assert dropped.to_arrow()["value"].to_pylist() == [1, 2, None]
    assert pa.array(values).filter(dropped.good()).to_pylist() == [b"\2", b"\4", None]
    assert [each.cause for each in dropped.bad] == ["the value ends too early: 5 bytes are needed here (byte 0)"] * 2


def test_ids_are_mixed_and_each_schema_is_asked_for_once() -> None:
    old, new = record(("a", "int")), record(("b", "string"), ("a", "long"))
    reader = record(("a", "long"), ("b", ["null", "string"]), b=None)
    asked: list[int] = []

    def schema_of(number: int) -> Any:
        asked.append(number)
        return {1: old, 2: new}[number]

    decoder = AvroDecoder(reader, schema_of=schema_of)
    frames = [b"\0\0\0\0\1\2", b"\0\0\0\0\2\2x\4", b"\0\0\0\0\1\4"] * 2
    rows = [{"a": 1, "b": None}, {"a": 2, "b": "x"}, {"a": 2, "b": None}]
    for _ in range(2):
        assert decoder.decode(frames).to_arrow().to_pylist() == rows * 2
    assert asked == [1, 2]


def test_a_schema_that_does_not_match_makes_its_values_bad() -> None:
    decoder = AvroDecoder(
        record(("a", "int")), schema_of={1: record(("a", "int")), 2: record()}.__getitem__, on_bad="null"
    )
    decoded = decoder.decode([b"\0\0\0\0\1\2", b"\0\0\0\0\2"])
    assert decoded.to_arrow()["a"].to_pylist() == [1, None]
    assert decoded.bad[0].schema_id == 2
    assert (
        "schema 2: the writer's Avro schema does not match the reader's: a: the writer's record R has no such field"
        in (decoded.bad[0].cause)
    )
    with pytest.raises(SchemaError, match="a: string cannot be read as int"):
        AvroDecoder(record(("a", "int")), writer=record(("a", "string")))


def test_an_error_of_the_function_ends_the_call_and_is_not_kept() -> None:
    responses: list[Any] = [OSError("down"), "int"]

    def schema_of(number: int) -> Any:
        found = responses.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    decoder = AvroDecoder("int", schema_of=schema_of, on_bad="drop")
    with pytest.raises(OSError, match="down"):
        decoder.decode([b"\0\0\0\0\1\2"])
    assert len(decoder.decode([b"\0\0\0\0\1\2"])) == 1


@pytest.mark.parametrize(
    ("writer", "reader", "data", "found"),
    [
        ("int", "double", b"\x03", -2.0),
        ("long", "float", number(1 << 40), float(1 << 40)),
        ("float", "double", b"\0\0\0\x3f", 0.5),
        ("string", "bytes", b"\4\xc3\xa9", b"\xc3\xa9"),
        ("bytes", "string", b"\4\xc3\xa9", "é"),
        ("int", ["null", "string", "double", "long"], b"\2", {"member0": None, "member1": None, "member2": 1}),
        ("int", ["double", "int"], b"\2", {"member0": None, "member1": 1}),
        (["int", "null"], "long", b"\0\2", 1),
        (["null"], ["null"], b"\0", None),
        (ENUM, {**ENUM, "symbols": ["B", "Z"], "default": "Z"}, b"\0", "Z"),
        (ENUM, {**ENUM, "name": "other", "aliases": ["E"]}, b"\2", "B"),
        (record(("a", "int"), name="n.Old"), record(("a", "int"), name="m.New"), b"\2", {"a": 1}),
        (
            record(("b", "int"), ("a", "int")),
            {**record(("x", "int")), "fields": [{"name": "a", "type": "int", "aliases": ["b"]}]},
            b"\2\4",
            {"a": 2},
        ),
    ],
)
def test_schema_resolution(writer: Any, reader: Any, data: bytes, found: Any) -> None:
    row = read(writer, reader, data)[0]
    assert row == (found if isinstance(reader, dict) and reader["type"] == "record" else {"value": found})


def test_a_branch_without_a_counterpart_is_bad_only_where_it_comes() -> None:
    decoder = AvroDecoder(record(("a", "int")), writer=record(("a", ["int", "string"])), on_bad="null")
    decoded = decoder.decode([b"\0\2", b"\2\2x"])
    assert decoded.to_arrow()["a"].to_pylist() == [1, None]
    assert decoded.bad[0].cause.startswith("a: a: string cannot be read as int: a branch of a union")


@pytest.mark.parametrize(
    ("writer", "reader", "data", "found"),
    [
        ("timestamp-millis", "timestamp-micros", number(3), pa.scalar(3000, pa.timestamp("us", "UTC"))),
        ("timestamp-millis", "timestamp-nanos", number(-3), pa.scalar(-3_000_000, pa.timestamp("ns", "UTC"))),
        ("local-timestamp-millis", "local-timestamp-micros", number(3), pa.scalar(3000, pa.timestamp("us"))),
        ("time-millis", "time-micros", number(3), pa.scalar(3000, pa.time64("us"))),
    ],
)
def test_times_are_read_in_a_finer_unit(writer: str, reader: str, data: bytes, found: Any) -> None:
    kinds = {"time-millis": "int"}
    decoder = AvroDecoder(
        {"type": "long", "logicalType": reader}, writer={"type": kinds.get(writer, "long"), "logicalType": writer}
    )
    assert pa.record_batch(decoder.decode([data]).to_arrow())["value"][0] == found


def test_times_that_would_be_misread_are_refused() -> None:
    def long(name: str) -> dict[str, str]:
        return {"type": "long", "logicalType": name}

    for writer, reader in [("timestamp-micros", "timestamp-millis"), ("timestamp-millis", "local-timestamp-millis")]:
        with pytest.raises(SchemaError, match=f"{writer} cannot be read as {reader}"):
            AvroDecoder(long(reader), writer=long(writer))
    decoder = AvroDecoder(long("timestamp-nanos"), writer=long("timestamp-millis"))
    with pytest.raises(DecodeError, match="out of range"):
        decoder.decode([number(1 << 62)])


def test_an_enum_as_a_dictionary() -> None:
    reader = record(("e", ["null", ENUM]))
    batch = AvroDecoder(reader, writer=reader, enums="dictionary").decode([b"\2\2", b"\0", b"\2\0"]).to_arrow()
    assert batch["e"].type == pa.dictionary(pa.int32(), pa.string())
    assert batch["e"].to_pylist() == ["B", None, "A"]
    assert batch["e"].dictionary.to_pylist() == ["A", "B"]


def test_the_schema_is_there_before_any_value() -> None:
    reader = record(("a", "int"), ("b", {"type": "map", "values": ["int", "string"]}))
    decoder = AvroDecoder(reader, writer=reader)
    empty = decoder.decode([]).to_arrow()
    assert empty.schema == pa.schema(decoder)
    assert empty.schema.field("b").type == pa.map_(
        pa.string(), pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    )


def test_columns_from_everywhere() -> None:
    decoder = AvroDecoder("string", writer="string")
    values = [b"\4UA", None, b"\4DL"]
    (batch,) = decode_batches(encode_batch([(None, value) for value in values]))
    for source in (
        values,
        tuple(values),
        pa.array(values, pa.binary()),
        pa.array([b"\0", *values], pa.large_binary())[1:],
        pa.array(values, pa.binary_view()),
        pa.array(values).dictionary_encode(),
        pa.chunked_array([values], pa.binary()),
        pa.record_batch({"value": pa.array(values)}),
        batch,
    ):
        assert decoder.decode(source).to_arrow()["value"].to_pylist() == ["UA", None, "DL"]
    with pytest.raises(ConfigError, match="must be binary or string"):
        decoder.decode(pa.array([1]))
    with pytest.raises(ConfigError, match="is not Arrow data"):
        decoder.decode(3)


def test_parts_of_large_columns() -> None:
    values = [number(100) + bytes(100)] * 1_000
    decoder = AvroDecoder("bytes", writer="bytes", max_bytes=30_000)
    parts = list(decoder.parts(pa.chunked_array([values, values])))
    assert len(parts) > 8
    assert sum(len(part) for part in parts) == 2_000
    assert [part.stop for part in parts if part.stop < 1_000] == [part.first for part in parts if part.first][
        : len([part for part in parts if part.stop < 1_000])
    ]
    assert all(set(part.to_arrow()["value"].to_pylist()) == {bytes(100)} for part in parts)
    with pytest.raises(ConfigError, match=r"call parts\(\)"):
        decoder.decode(values)


def test_a_value_that_alone_is_too_large_is_bad() -> None:
    values = [b"\2x", number(50_000) + bytes(50_000), b"\2y"]
    decoder = AvroDecoder("bytes", writer="bytes", max_bytes=30_000, on_bad="drop")
    parts = list(decoder.parts(values))
    assert [row for part in parts for row in part.to_arrow()["value"].to_pylist()] == [b"x", b"y"]
    assert next(each for part in parts for each in part.bad)[:2] == (
        1,
        "the value alone takes more memory than max_bytes (byte 3)",
    )


def test_lying_counts_take_no_memory() -> None:
    reader = record(("a", {"type": "array", "items": record(name="E")}), ("b", {"type": "array", "items": "long"}))
    reader["fields"][0]["type"]["items"] = record(("t", "string"), name="E", t="x" * 100)
    writer = record(("a", {"type": "array", "items": record(name="E")}), ("b", {"type": "array", "items": "long"}))
    decoder = AvroDecoder(reader, writer=writer, on_bad="drop")
    before = sum(pool_bytes())
    lies = [number(1 << 40) + b"\0\0", b"\0" + number(1 << 40), b"\0" + number(-(1 << 40)) + number(1 << 40)] * 10
    decoded = decoder.decode(lies)
    assert len(decoded.bad) == len(lies)
    assert sum(pool_bytes()) - before < 1 << 20


def test_memory_goes_back_when_arrow_releases_it() -> None:
    reader = record(("a", {"type": "array", "items": "string"}))
    decoder = AvroDecoder(reader, writer=reader)
    gc.collect()
    before = pool_bytes()[0]
    batch = decoder.decode([b"\2\4UA\0"] * 1_000).to_arrow()
    kept = batch["a"].values
    assert pool_bytes()[0] > before
    del batch
    gc.collect()
    assert kept[999].as_py() == "UA"
    del kept
    gc.collect()
    assert pool_bytes()[0] == before


def test_threads_decode_at_once() -> None:
    schemas = {number: record(("a", "int"), (f"x{number}", "string")) for number in range(20)}
    decoder = AvroDecoder(record(("a", "long")), schema_of=schemas.__getitem__)
    frames = [b"\0" + number.to_bytes(4, "big") + b"\x02\x02z" for number in range(20)] * 50
    found: list[int] = []

    def work(first: int) -> None:
        rows = decoder.decode(frames[first:] + frames[:first]).to_arrow()["a"].to_pylist()
        found.append(sum(rows))

    threads = [threading.Thread(target=work, args=(3 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    ended(*threads)
    assert found == [1_000] * 6


def schema_of(number: int) -> str:
    return {7: "int"}[number]


def test_a_decoder_is_pickled_with_its_options() -> None:
    decoder = pickle.loads(pickle.dumps(AvroDecoder("long", schema_of=schema_of, on_bad="null")))
    assert decoder.decode([b"\0\0\0\0\7\2", b""]).to_arrow()["value"].to_pylist() == [1, None]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either schema_of"),
        ({"writer": "int", "schema_of": schema_of}, "either schema_of"),
        ({"writer": "int", "on_bad": "skip"}, "on_bad is one of 'error', 'null', 'drop'"),
        ({"writer": "int", "null_values": "drop"}, "null_values is 'null' or 'bad'"),
        ({"writer": "int", "enums": "int"}, "enums is 'string' or 'dictionary'"),
        ({"writer": "int", "max_bytes": 0}, "max_bytes is at least 1"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(kafwire.errors.ConfigError, match=said):
        AvroDecoder("int", **options)


def test_rows_count_from_the_first_value_of_all_chunks() -> None:
    column = pa.chunked_array([[b"\2", b"\4"], [b"", b"\6"], [b"\x08", b""]], pa.binary())
    parts = list(AvroDecoder("int", writer="int", on_bad="drop").parts(column))
    assert [(part.first, part.stop, [each.row for each in part.bad]) for part in parts] == [
        (0, 2, []),
        (2, 4, [2]),
        (4, 6, [5]),
    ]
    kept = [chunk.filter(part.good()).to_pylist() for chunk, part in zip(column.chunks, parts, strict=True)]
    assert kept == [[b"\2", b"\4"], [b"\6"], [b"\x08"]]


def test_more_rows_than_max_bytes_holds_are_parts_and_none_is_bad() -> None:
    schema = record(*[(f"c{i}", "long") for i in range(20)], ("f", {"type": "fixed", "name": "F", "size": 1_000}))
    value = b"".join(number(i) for i in range(20)) + bytes(1_000)
    decoder = AvroDecoder(schema, writer=schema, max_bytes=400_000)
    parts = list(decoder.parts([value] * 3_000))
    assert sum(len(part) for part in parts) == 3_000
    assert len(parts) < 30


@pytest.mark.parametrize(("values", "on_bad"), [([None], "error"), ([b"", b"\2"], "null")])
def test_a_null_row_that_max_bytes_does_not_hold_is_an_error(values: list[bytes | None], on_bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"max_bytes \(1\) has no room for the columns of one null row"):
        AvroDecoder("long", writer="long", max_bytes=1, on_bad=on_bad).decode(values)


def test_limits_may_be_larger_than_any_memory() -> None:
    decoder = AvroDecoder("long", writer="long", max_bytes=10**30, max_empty_items=10**30)
    assert decoder.decode([b"\2", None]).to_arrow().to_pydict() == {"value": [1, None]}


@pytest.mark.parametrize("value", [1, True, "text"])
def test_a_list_of_other_than_bytes_is_refused(value: Any) -> None:
    """`bytes(1)` is a zero byte: an int would become a value."""
    with pytest.raises(ConfigError, match=f"bytes and None, not {type(value).__name__}"):
        AvroDecoder("long", writer="long").decode([value])


def test_a_column_without_chunks_has_no_rows() -> None:
    decoder = AvroDecoder("long", writer="long")
    values = pa.chunked_array([], pa.binary())
    assert decoder.decode(values).to_arrow().to_pydict() == {"value": []}
    assert len(decoder.to_column(values)[0]) == 0
