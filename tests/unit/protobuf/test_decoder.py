"""What a decoder does with types, framings and values that random ones do not have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import BoolValue, BytesValue, Int64Value, StringValue

from kafwire.errors import ConfigError, DecodeError, SchemaError, UnknownSchemaError
from kafwire.protobuf import ProtobufDecoder
from kafwire.protobuf.program import indexes_of
from tests.support.protobuf_classes import FLIGHT, Field, classes, message


def rows(decoder: ProtobufDecoder, *values: bytes | None) -> list[Any]:
    found: list[Any] = decoder.decode(list(values)).to_arrow().to_pylist()
    return found


def cause(decoder: ProtobufDecoder, value: bytes) -> str:
    with pytest.raises(DecodeError) as found:
        decoder.decode([value])
    return str(found.value)


# --- framing --------------------------------------------------------------------------------------------------------


def test_a_framed_value_has_the_indexes_of_its_message() -> None:
    outer = message("Outer", n=Field.TYPE_INT32)
    outer.nested_type.append(message("A", n=Field.TYPE_INT32))
    outer.nested_type.append(message("B", n=Field.TYPE_INT32))
    first, second = classes(FLIGHT, outer)
    inner = second.DESCRIPTOR.nested_types_by_name["B"]
    assert indexes_of(first.DESCRIPTOR) == b"\0"
    assert indexes_of(second.DESCRIPTOR) == b"\2\2"
    assert indexes_of(inner) == b"\4\2\2"
    value = b"\x08\x07"
    assert rows(ProtobufDecoder(inner, framed=True), b"\0\0\0\0\1\4\2\2" + value) == [{"n": 7}]
    assert rows(ProtobufDecoder(second, framed=True), b"\0\0\0\0\1\2\2" + value) == [{"n": 7}]
    flight = b"\0\0\0\0\1\0\x0a\2UA", b"\0\0\0\0\1\2\0\x0a\2UA"  # both forms of the first message
    assert rows(ProtobufDecoder(first, framed=True), *flight) == 2 * [{"carrier": "UA", "distance": 0}]


@pytest.mark.parametrize(
    ("kind", "indexes", "text"),
    [
        ("first", b"\2\2", r"the value is another message of its schema, with the index 1 \(byte 6\)"),
        ("first", b"\4\0\2", r"another message of its schema, with the index 1 \(byte 7\)"),  # [0, 1]
        ("inner", b"\4\0\2", r"another message of its schema, with the index 0 \(byte 6\)"),
        ("inner", b"\0", r"another message of its schema, with the index 0 \(byte 5\)"),
        ("inner", b"\2\2", r"the value is an outer message of its schema: its indexes lack 1 \(byte 5\)"),
        ("inner", b"\1", r"an outer message of its schema: its indexes lack 2 \(byte 5\)"),  # of a count of -1
        ("first", b"\2", r"the value ends too early: 1 bytes are needed here \(byte 6\)"),
        ("first", b"\4\0", r"the value ends too early: 1 bytes are needed here \(byte 7\)"),
        ("inner", b"\4\2\x80", r"the value ends too early: 2 bytes are needed here \(byte 7\)"),
        ("first", 11 * b"\x80", r"a number of more than 10 bytes \(byte 5\)"),
    ],
)
def test_the_cause_names_the_first_index_that_differs(kind: str, indexes: bytes, text: str) -> None:
    outer = message("Outer", n=Field.TYPE_INT32)
    outer.nested_type.extend([message("A", n=Field.TYPE_INT32), message("B", n=Field.TYPE_INT32)])
    first, second = classes(FLIGHT, outer)
    kinds = {"first": first, "inner": second.DESCRIPTOR.nested_types_by_name["B"]}
    with pytest.raises(DecodeError, match=text):
        ProtobufDecoder(kinds[kind], framed=True).decode([b"\0\0\0\0\1" + indexes])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\1\0\0\0\1\0", "the first byte is 1"),
        (b"\0\0\0", "3 bytes are too short for a schema id"),
        (b"\0\xff\0\0\0\0", "the schema id -16777216 is negative"),
        (b"\0\0\0\0\1", "the value ends too early"),
    ],
)
def test_a_value_with_a_wrong_frame_is_bad(value: bytes, text: str) -> None:
    assert text in cause(ProtobufDecoder(Int64Value, framed=True), value)


def test_schema_ids_are_checked_once_and_unknown_ones_again() -> None:
    asked: list[int] = []

    def check(number: int) -> None:
        asked.append(number)
        if number == 8:
            raise UnknownSchemaError("schema 8: the registry does not have it", status=404, code=40403)
        if number == 9:
            raise SchemaError("it is a schema of type AVRO")

    (kind,) = classes(FLIGHT)
    decoder = ProtobufDecoder(kind, framed=True, check_id=check, on_bad="null")
    values = [b"\0\0\0\0" + bytes([number]) + b"\0\x10\1" for number in (7, 8, 9, 7, 8, 9)]
    for _ in range(2):
        decoded = decoder.decode(values)
        assert [each.row for each in decoded.bad] == [1, 2, 4, 5]
        assert decoded.bad[1].cause == "schema 9: it is a schema of type AVRO"
    assert asked == [7, 8, 9, 8]


# --- types ----------------------------------------------------------------------------------------------------------


def test_groups_are_messages_between_two_tags() -> None:
    made = message("M", before=Field.TYPE_INT32)
    made.nested_type.append(message("G", n=Field.TYPE_INT32))
    for name, number, label in (("g", 2, Field.LABEL_OPTIONAL), ("h", 300, Field.LABEL_REPEATED)):
        made.field.add(name=name, number=number, label=label, type=Field.TYPE_GROUP, type_name=".t.M.G")
    (kind,) = classes(made, syntax="proto2")
    value = kind(before=1)
    value.g.n = 7
    for number in (8, 9):
        value.h.add().n = number
    data = value.SerializeToString()
    expected = {"before": 1, "g": {"n": 7}, "h": [{"n": 8}, {"n": 9}]}
    assert rows(ProtobufDecoder(kind), data) == [expected]
    nested = b"\x13\xa3\x06\x13\x14\xa4\x06\x08\x07\x14"  # an unknown group in it, which contains one of its number
    assert rows(ProtobufDecoder(kind), nested) == [{"before": None, "g": {"n": 7}, "h": []}]
    assert "a group of field 2 has no begin or no end" in cause(ProtobufDecoder(kind), data[:5])
    assert "a group of field 2 has no begin or no end" in cause(ProtobufDecoder(kind), b"\x14")


def test_an_entry_of_a_map_has_a_key_and_a_value() -> None:
    made = message("M", legs={"type": Field.TYPE_MESSAGE, "type_name": ".t.M.LegsEntry", "label": Field.LABEL_REPEATED})
    entry = message("LegsEntry", key=Field.TYPE_STRING, value={"type": Field.TYPE_MESSAGE, "type_name": ".t.Flight"})
    entry.options.map_entry = True
    made.nested_type.append(entry)
    _, kind = classes(FLIGHT, made)
    for data in (b"\x0a\0", b"\x0a\3\x0a\1k", b"\x0a\2\x12\0"):
        [[(key, value)]] = [each["legs"] for each in rows(ProtobufDecoder(kind), data)]
        assert {key: (value["carrier"], value["distance"])} == {
            name: (each.carrier, each.distance) for name, each in kind.FromString(data).legs.items()
        }


def test_enums_are_text_a_dictionary_or_numbers() -> None:
    enum = descriptor_pb2.EnumDescriptorProto(name="E")
    for name, number in (("NONE", 0), ("BIG", 7_000), ("NEGATIVE", -5)):
        enum.value.add(name=name, number=number)
    (kind,) = classes(message("M", e={"type": Field.TYPE_ENUM, "type_name": ".t.E"}), enums=[enum])
    values = [kind(e=number).SerializeToString() for number in (0, 7_000, -5, 3)]
    assert rows(ProtobufDecoder(kind), *values) == [{"e": "NONE"}, {"e": "BIG"}, {"e": "NEGATIVE"}, {"e": "3"}]
    decoded = ProtobufDecoder(kind, enums="dictionary").decode(values).to_arrow()
    assert decoded["e"].to_pylist() == ["NONE", "BIG", "NEGATIVE", None]
    assert decoded.schema.field("e").type == pa.dictionary(pa.int32(), pa.string())
    assert [each["e"] for each in rows(ProtobufDecoder(kind, enums="number"), *values)] == [0, 7_000, -5, 3]


def test_an_unknown_number_of_a_closed_enum_is_absent() -> None:
    enum = descriptor_pb2.EnumDescriptorProto(name="E")
    for number, name in enumerate(("NONE", "BIG")):
        enum.value.add(name=name, number=number)
    of = {"type": Field.TYPE_ENUM, "type_name": ".t.E"}
    made = message("M", e=of, several={**of, "label": Field.LABEL_REPEATED})
    (kind,) = classes(made, syntax="proto2", enums=[enum])
    for data in (b"\x08\x07\x10\x01\x10\x09", b"\x08\x01\x08\x07\x12\x03\x01\x07\x00"):
        theirs = kind.FromString(data)
        expected = {
            "e": enum.value[theirs.e].name if theirs.HasField("e") else None,
            "several": [enum.value[number].name for number in theirs.several],
        }
        assert rows(ProtobufDecoder(kind), data) == [expected]


@pytest.mark.parametrize("enums", ["string", "dictionary", "number"])
def test_an_unknown_number_of_a_closed_enum_drops_an_entry_of_a_map(enums: Any) -> None:
    enum = descriptor_pb2.EnumDescriptorProto(name="E")
    for number, name in enumerate(("NONE", "BIG")):
        enum.value.add(name=name, number=number)
    of = {"type": Field.TYPE_ENUM, "type_name": ".t.E"}
    made = message("M", at={"type": Field.TYPE_MESSAGE, "type_name": ".t.M.AtEntry", "label": Field.LABEL_REPEATED})
    entry = message("AtEntry", key=Field.TYPE_STRING, value=of)
    entry.options.map_entry = True
    made.nested_type.append(entry)
    (kind,) = classes(made, syntax="proto2", enums=[enum])
    entries = [b"\x0a\5\x0a\1k\x10\x09", b"\x0a\5\x0a\1l\x10\1", b"\x0a\3\x0a\1m", b"\x0a\7\x0a\1n\x10\1\x10\x09"]
    decoder = ProtobufDecoder(kind, enums=enums)
    for data in (b"".join(entries), b"".join(reversed(entries)), *entries):
        theirs = dict(kind.FromString(data).at)
        named = {key: number if enums == "number" else enum.value[number].name for key, number in theirs.items()}
        assert [dict(row["at"]) for row in rows(decoder, data)] == [named]


def test_times_have_the_chosen_unit() -> None:
    (kind,) = classes(message("M", at={"type": Field.TYPE_MESSAGE, "type_name": ".google.protobuf.Timestamp"}))

    def at(seconds: int, nanos: int = 0) -> bytes:
        made = kind()
        made.at.seconds, made.at.nanos = seconds, nanos
        data: bytes = made.SerializeToString()
        return data

    value = at(-1, 999_999_999)
    micros = ProtobufDecoder(kind).decode([value]).to_arrow()["at"]
    assert micros.type == pa.timestamp("us", "UTC")
    assert micros[0].value == -1
    nanos = ProtobufDecoder(kind, times="ns").decode([value]).to_arrow()["at"]
    assert (nanos.type, nanos[0].value) == (pa.timestamp("ns", "UTC"), -1)
    zero_of_go = at(-62_135_596_800)
    assert rows(ProtobufDecoder(kind), zero_of_go) == [{"at": datetime(1, 1, 1, tzinfo=UTC)}]
    assert "at: the time is out of range: -62135596800" in cause(ProtobufDecoder(kind, times="ns"), zero_of_go)


def test_a_known_type_alone_is_a_struct() -> None:
    assert rows(ProtobufDecoder(StringValue), StringValue(value="x").SerializeToString(), b"") == [
        {"value": "x"},
        {"value": ""},
    ]
    assert rows(ProtobufDecoder(Timestamp), Timestamp(seconds=3, nanos=4).SerializeToString()) == [
        {"seconds": 3, "nanos": 4}
    ]


def test_types_without_columns_are_refused() -> None:
    (empty,) = classes(message("Empty"))
    with pytest.raises(SchemaError, match="t.Empty has no fields"):
        ProtobufDecoder(empty)
    with pytest.raises(SchemaError, match=r"fields\[\]\.value\.struct_value.*Struct contains itself"):
        ProtobufDecoder(Struct)


def test_a_type_with_too_many_columns_is_refused() -> None:
    levels = [message("L0", **{f"f{i}": Field.TYPE_INT32 for i in range(10)})]
    for depth in range(1, 5):
        inner = {"type": Field.TYPE_MESSAGE, "type_name": f".t.L{depth - 1}"}
        levels.append(message(f"L{depth}", **{f"f{i}": inner for i in range(10)}))
    with pytest.raises(SchemaError, match="more than 10000 columns"):
        ProtobufDecoder(classes(*levels)[-1])
    chain = [message("C0", n=Field.TYPE_INT32)]
    chain += [
        message(f"C{depth}", n={"type": Field.TYPE_MESSAGE, "type_name": f".t.C{depth - 1}"}) for depth in range(1, 70)
    ]
    with pytest.raises(SchemaError, match="nested more than 64 deep"):
        ProtobufDecoder(classes(*chain)[-1])


# --- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x0a\5UA", "carrier: the value ends too early: 5 bytes are needed here (byte 1)"),
        (b"\x0a\2\xff\xfe", "carrier: a string that is not UTF-8 (byte 2)"),
        (b"\x10" + b"\x80" * 10 + b"\1", "distance: a number of more than 10 bytes (byte 1)"),
        (b"\x10\x80", "distance: the value ends too early: 2 bytes are needed here (byte 1)"),
        (b"\x00\1", "no field begins with the byte 0 (byte 0)"),
        (b"\x0f", "no field begins with the byte 15 (byte 0)"),
        (b"\x0a" + b"\xff" * 9 + b"\1", "carrier: a number of more than 5 bytes (byte 1)"),
        (b"\x0a\x80\x80\x80\x80\x80\0", "carrier: a number of more than 5 bytes (byte 1)"),
        (b"\x0a\xff\xff\xff\xff\x0f", "carrier: the value ends too early: 4294967295 bytes are needed here (byte 1)"),
        (b"\x7a\x80\x80\x80\x80\x80\0", "a number of more than 5 bytes (byte 1)"),
        (b"\x1b" * 101 + b"\x1c" * 101, "groups are nested more than 100 deep (byte 101)"),
        (b"\x1b\x1c\x1c", "a group of field 3 has no begin or no end (byte 3)"),
    ],
)
def test_a_cause_has_field_and_byte(value: bytes, text: str) -> None:
    (kind,) = classes(FLIGHT)
    assert text in cause(ProtobufDecoder(kind), value)


def test_a_member_of_a_oneof_that_another_replaces_may_be_bad() -> None:
    inner = message("I", s=Field.TYPE_STRING)
    outer = message("O", i={"type": Field.TYPE_MESSAGE, "type_name": ".t.I"}, n=Field.TYPE_INT32)
    outer.oneof_decl.add(name="one")
    for each in outer.field:
        each.oneof_index = 0
    _, kind = classes(inner, outer)
    decoder = ProtobufDecoder(kind)
    assert rows(decoder, b"\x0a\3\x0a\1x\x10\7") == [{"i": None, "n": 7}]
    assert rows(decoder, b"\x0a\3\x0a\1x\x10\7\x0a\0") == [{"i": {"s": ""}, "n": None}]
    assert "i.s: a string that is not UTF-8" in cause(decoder, b"\x0a\3\x0a\1\xff\x10\7")


def test_a_bad_value_is_an_error_a_null_or_no_row() -> None:
    values = [Int64Value(value=1).SerializeToString(), b"\x08", None, Int64Value(value=4).SerializeToString()]
    with pytest.raises(DecodeError, match="row 1"):
        ProtobufDecoder(Int64Value).decode(values)
    nulls = ProtobufDecoder(Int64Value, on_bad="null").decode(values)
    assert nulls.to_arrow()["value"].to_pylist() == [1, None, None, 4]
    assert pa.array(nulls).is_null().to_pylist() == [False, True, True, False]
    dropped = ProtobufDecoder(Int64Value, on_bad="drop", null_values="bad").decode(values)
    assert dropped.to_arrow()["value"].to_pylist() == [1, 4]
    assert [(each.row, each.cause) for each in dropped.bad] == [
        (1, "value: the value ends too early: 1 bytes are needed here (byte 1)"),
        (2, "the value is null"),
    ]


def test_half_a_message_leaves_nothing_behind() -> None:
    inner = message("I", n={"type": Field.TYPE_INT32, "label": Field.LABEL_REPEATED}, s=Field.TYPE_STRING)
    outer = message("O", i={"type": Field.TYPE_MESSAGE, "type_name": ".t.I", "label": Field.LABEL_REPEATED})
    _, kind = classes(inner, outer)
    value = kind(i=[{"n": [1, 2], "s": "a"}, {"n": [3]}]).SerializeToString()
    values = [value[:at] for at in range(len(value))]
    decoded = ProtobufDecoder(kind, on_bad="drop").decode([*values, value]).to_arrow()
    decoded.validate(full=True)
    assert decoded.to_pylist()[-1] == {"i": [{"n": [1, 2], "s": "a"}, {"n": [3], "s": ""}]}


def test_values_that_exceed_the_memory_come_in_parts() -> None:
    values = [BytesValue(value=bytes(1000)).SerializeToString()] * 50
    decoder = ProtobufDecoder(BytesValue, max_bytes=10_000)
    parts = list(decoder.parts(values))
    assert len(parts) > 3
    assert sum(map(len, parts)) == 50
    with pytest.raises(ConfigError, match="call parts"):
        decoder.decode(values)
    with pytest.raises(DecodeError, match="takes more memory than max_bytes"):
        decoder.decode([BytesValue(value=bytes(20_000)).SerializeToString()])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"message": 7}, "message is a generated Protobuf class or its descriptor, not int"),
        ({"enums": "text"}, "enums is 'string', 'dictionary' or 'number', not 'text'"),
        ({"times": "ms"}, "times is 'us' or 'ns', not 'ms'"),
        ({"on_bad": "skip"}, "on_bad"),
        ({"null_values": "drop"}, "null_values is 'null' or 'bad', not 'drop'"),
        ({"max_bytes": 0}, "max_bytes is at least 1, not 0"),
        ({"check_id": print}, "check_id needs framed=True"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ProtobufDecoder(**{"message": BoolValue, **arguments})
