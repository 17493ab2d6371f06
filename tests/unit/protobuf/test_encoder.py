"""Columns that fit a message, columns that do not, and values that the message does not allow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from kafwire.errors import ConfigError, SchemaError
from kafwire.protobuf import ProtobufEncoder
from tests.support.protobuf_classes import FLIGHT, Field, classes, message

REPEATED = Field.LABEL_REPEATED


def only(**fields: Any) -> type[Any]:
    """A class with these fields."""
    (kind,) = classes(message("M", **fields))
    return kind


def read(kind: type[Any], columns: Any) -> list[Any]:
    return [
        None if each is None else kind.FromString(each)
        for each in ProtobufEncoder(kind).encode(columns).to_arrow().to_pylist()
    ]


def test_a_field_without_a_column_or_value_is_absent() -> None:
    (kind,) = classes(FLIGHT)
    batch = pa.record_batch({"distance": pa.array([1400, None, 0], pa.int16())})
    assert read(kind, batch) == [kind(distance=1400), kind(), kind()]
    assert ProtobufEncoder(kind, prefix=b"\0\0\0\0\7\0").encode(batch).to_arrow().to_pylist() == [
        b"\0\0\0\0\7\0\x10\xf8\x0a",
        *2 * [b"\0\0\0\0\7\0"],
    ]


def test_a_column_without_chunks_has_no_values() -> None:
    columns = pa.chunked_array([], pa.struct([("distance", pa.int16())]))
    assert read(classes(FLIGHT)[0], columns) == []


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [
        (Field.TYPE_STRING, pa.array(["UA", "ä"], pa.large_string()), ["UA", "ä"]),
        (Field.TYPE_STRING, pa.array(["UA", "x" * 50], pa.string_view()), ["UA", "x" * 50]),
        (Field.TYPE_STRING, pa.array(["UA", "DL", "UA"]).dictionary_encode(), ["UA", "DL", "UA"]),
        (Field.TYPE_BYTES, pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
        (Field.TYPE_BYTES, pa.array(["ab", ""]), [b"ab", b""]),
        (Field.TYPE_UINT64, pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
        (Field.TYPE_INT64, pa.array([255], pa.uint8()), [255]),
        (Field.TYPE_SINT32, pa.array([-(2**31)], pa.int64()), [-(2**31)]),
        (Field.TYPE_DOUBLE, pa.array([1.5], pa.float32()), [1.5]),
        (Field.TYPE_FLOAT, pa.array([-0.0], pa.float32()), [-0.0]),
    ],
)
def test_columns_of_narrower_types_fit(kind: int, column: pa.Array, values: list[Any]) -> None:
    made = only(n=kind)
    found = [each.n for each in read(made, pa.record_batch({"n": column}))]
    assert repr(found) == repr(values)


def test_lists_of_each_kind_fit() -> None:
    kind = only(n={"type": Field.TYPE_INT32, "label": REPEATED}, s={"type": Field.TYPE_STRING, "label": REPEATED})
    lists = pa.array([[1, 2, 300], [], None], pa.large_list(pa.int32()))
    texts = pa.array([["a", ""], ["b", "c"], ["d", "e"]], pa.list_(pa.string(), 2))
    assert read(kind, pa.record_batch({"n": lists, "s": texts})) == [
        kind(n=[1, 2, 300], s=["a", ""]),
        kind(s=["b", "c"]),
        kind(s=["d", "e"]),
    ]


def test_a_long_message_has_a_long_length() -> None:
    inner, outer = message("I", s=Field.TYPE_STRING), message("O", i={"type": Field.TYPE_MESSAGE, "type_name": ".t.I"})
    _, kind = classes(inner, outer)
    for size in (0, 125, 126, 127, 128, 16_380, 16_384, 3_000_000):
        batch = pa.record_batch({"i": pa.array([{"s": "x" * size}])})
        assert read(kind, batch) == [kind(i={"s": "x" * size})], size


def test_times_are_written_in_each_unit() -> None:
    kind = only(at={"type": Field.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"})
    moments = [datetime(1969, 12, 31, 23, 59, 58, 500_000, UTC), datetime(2013, 1, 1, tzinfo=UTC)]
    for unit in ("ms", "us", "ns"):
        for zone in ("UTC", "Europe/Berlin"):
            found = read(kind, pa.record_batch({"at": pa.array(moments, pa.timestamp(unit, zone))}))
            assert [each.at.ToDatetime(UTC) for each in found] == moments
    before = only(d={"type": Field.TYPE_MESSAGE, "type_name": ".google.protobuf.Duration"})
    spans = [timedelta(seconds=-1, milliseconds=-500), timedelta(0), timedelta(days=3)]
    written = [each.d for each in read(before, pa.record_batch({"d": pa.array(spans, pa.duration("ms"))}))]
    assert [(each.seconds, each.nanos) for each in written] == [(-1, -500_000_000), (0, 0), (259_200, 0)]


def test_two_members_of_a_oneof_are_an_error() -> None:
    made = message("M", a=Field.TYPE_INT32, n=Field.TYPE_INT32, b=Field.TYPE_STRING, c=Field.TYPE_STRING)
    made.oneof_decl.add(name="one")
    for name in ("a", "b", "c"):
        next(each for each in made.field if each.name == name).oneof_index = 0
    (kind,) = classes(made)
    columns = {"a": [1, None, None], "b": [None, "x", None], "c": pa.array([None, None, ""]), "n": [1, 1, 1]}
    assert [each.WhichOneof("one") for each in read(kind, pa.record_batch(columns))] == ["a", "b", "c"]
    columns["c"] = pa.array([None, None, None], pa.string())
    columns["a"] = [1, 2, None]
    with pytest.raises(ConfigError, match="row 1, b: two fields of a oneof are set"):
        read(kind, pa.record_batch(columns))
    columns = {"a": [1], "c": ["x"]}
    with pytest.raises(ConfigError, match="row 0, c: two fields of a oneof are set"):
        read(kind, pa.record_batch(columns))


def test_required_fields_are_there() -> None:
    made = message("M", n={"type": Field.TYPE_INT32, "label": Field.LABEL_REQUIRED}, s=Field.TYPE_STRING)
    (kind,) = classes(made, syntax="proto2")
    with pytest.raises(SchemaError, match="n: there is no such column, and the field is required"):
        read(kind, pa.record_batch({"s": ["x"]}))
    with pytest.raises(ConfigError, match="row 1, n: a null, which the message does not allow here"):
        read(kind, pa.record_batch({"n": pa.array([0, None], pa.int32())}))


@pytest.mark.parametrize(
    ("kind", "column", "text"),
    [
        (Field.TYPE_INT32, pa.array([2**31]), "row 0, n: the number 2147483648 is out of the schema's range"),
        (Field.TYPE_UINT32, pa.array([1, -1]), "row 1, n: the number -1 is out of the schema's range"),
        (Field.TYPE_UINT64, pa.array([-1]), "row 0, n: the number -1 is out of"),
        (Field.TYPE_INT64, pa.array([2**63], pa.uint64()), "row 0, n: the number -9223372036854775808 is out of"),
    ],
)
def test_values_out_of_range_are_errors(kind: int, column: pa.Array, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read(only(n=kind), pa.record_batch({"n": column}))


def test_symbols_are_those_of_the_enum() -> None:
    for syntax, allowed in (("proto3", True), ("proto2", False)):
        enum = descriptor_pb2.EnumDescriptorProto(name="E")
        for number, name in enumerate(("NONE", "BIG", "TINY")):
            enum.value.add(name=name, number=number)
        (kind,) = classes(message("M", e={"type": Field.TYPE_ENUM, "type_name": ".t.E"}), syntax=syntax, enums=[enum])
        assert [each.e for each in read(kind, pa.record_batch({"e": ["TINY", "NONE"]}))] == [2, 0]
        if allowed:
            assert [each.e for each in read(kind, pa.record_batch({"e": ["7", "-2147483648"]}))] == [7, -(2**31)]
        for wrong in ["HUGE", "", "-", "2147483648", *([] if allowed else ["7"])]:
            with pytest.raises(ConfigError, match="row 0, e: a text of .* none of the enum's symbols"):
                read(kind, pa.record_batch({"e": [wrong]}))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"carier": ["UA"]}, "t.Flight has no field 'carier': leave out the column"),
        ({"carrier": [b"UA"]}, "carrier: the Arrow format 'z' is not written as string"),
        ({"distance": ["far"]}, "distance: the Arrow format 'u' is not written as int32"),
        ({"distance": [[1]]}, "distance: the Arrow format '\\+l' is not written as int32"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, Any], text: str) -> None:
    (kind,) = classes(FLIGHT)
    with pytest.raises(SchemaError, match=text):
        read(kind, pa.record_batch(columns))


def test_a_column_alone_is_no_message() -> None:
    (kind,) = classes(FLIGHT)
    with pytest.raises(SchemaError, match="the fields of a message are the columns of a struct"):
        read(kind, pa.array(["UA"]))


def test_nulls_within_lists_are_errors() -> None:
    kind = only(n={"type": Field.TYPE_INT32, "label": REPEATED})
    with pytest.raises(ConfigError, match=r"row 1, n\[\]: a null"):
        read(kind, pa.record_batch({"n": pa.array([[1], [2, None]], pa.list_(pa.int32()))}))
