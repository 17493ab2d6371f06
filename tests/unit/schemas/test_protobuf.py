"""The format `Protobuf` against a registry of this machine: subjects, framings, imports, bad records."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.wrappers_pb2 import BoolValue, Int64Value

import kafwire
from kafwire.bad_records import BadRecord
from kafwire.errors import ConfigError, DecodeError, SchemaError, UnknownSchemaError
from kafwire.registry import SchemaRegistry
from kafwire.registry.framing import (
    ApicurioHeader,
    ApicurioPrefix,
    ConfluentHeader,
    ConfluentPrefix,
    Framing,
    GluePrefix,
)
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support.protobuf_classes import FLIGHT, Field, classes, message
from tests.support.schema_registry import RegistryServer

FRAMINGS: list[Framing] = [
    ConfluentPrefix(),
    ConfluentHeader(),
    ApicurioPrefix(id_bytes=8),
    ApicurioPrefix(id_bytes=4),
    ApicurioHeader(),
]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, timeout_s=10)


@pytest.fixture
def flight() -> Any:
    (kind,) = classes(FLIGHT)
    return kind


def record(topic: str = "flights", field: str = "value") -> SerializationContext:
    return SerializationContext(topic, field, [])


@pytest.mark.parametrize("framing", FRAMINGS, ids=repr)
def test_rows_and_columns_in_each_framing(registry: SchemaRegistry, flight: Any, framing: Framing) -> None:
    made = kafwire.Protobuf(registry, flight, framing=framing, register=True)
    rows = [flight(carrier="UA", distance=1_400), flight()]
    contexts = [record() for _ in rows]
    data = [made.serialize(row, ctx) for row, ctx in zip(rows, contexts, strict=True)]
    assert [made.deserialize(each, ctx) for each, ctx in zip(data, contexts, strict=True)] == rows
    struct = pa.array([{"carrier": "UA", "distance": 1_400}, {"carrier": "", "distance": 0}], made.arrow_type(record()))
    ctx = record()
    encoded = made.serialize_column(struct, ctx)
    assert [bytes(each.as_py()) for each in encoded] == data
    assert ctx.headers == contexts[0].headers
    headers = pa.array([each.headers for each in contexts], pa.map_(pa.string(), pa.binary()))
    column = ColumnContext("flights", "value", 0, headers)
    assert made.deserialize_column(pa.array(data, pa.binary()), column).equals(struct)


def test_the_indexes_of_a_nested_message_follow_the_id(registry: SchemaRegistry) -> None:
    made = kafwire.Protobuf(registry, Int64Value, register=True)
    data = made.serialize(Int64Value(value=7), record())
    assert data == b"\0\0\0\0\1\2\4\x08\7"  # the third message of its file
    other = kafwire.Protobuf(registry, BoolValue)
    with pytest.raises(DecodeError, match="another message of schema 1 than google.protobuf.BoolValue"):
        other.deserialize(data, record())
    with pytest.raises(DecodeError, match="another message of its schema, with the index 2"):
        other.deserialize_column(pa.array([data]), ColumnContext("flights", "value", 0, None))


def test_apicurios_framings_have_the_name_of_the_message(registry: SchemaRegistry, flight: Any) -> None:
    """The forms of Apicurio 2's `ProtobufKafkaSerializer`: a delimited `Ref`, or a header."""
    (other,) = classes(message("Other", carrier=Field.TYPE_STRING))
    made = kafwire.Protobuf(registry, flight, framing=ApicurioPrefix(id_bytes=4), register=True)
    data = made.serialize(flight(carrier="UA"), record())
    assert data == b"\0\0\0\0\1" + b"\x08\x0a\x06Flight" + b"\x0a\2UA"
    assert made.deserialize(b"\0\0\0\0\1" + b"\0" + b"\x0a\2UA", record()) == flight(carrier="UA")
    with pytest.raises(DecodeError, match="another message of schema 1 than t.Other"):
        kafwire.Protobuf(registry, other, framing=ApicurioPrefix(id_bytes=4)).deserialize(data, record())
    made = kafwire.Protobuf(registry, flight, framing=ApicurioHeader())
    ctx = record()
    assert made.serialize(flight(carrier="UA"), ctx) == b"\x0a\2UA"
    assert ("apicurio.protobuf.type", b"Flight") in ctx.headers
    with pytest.raises(DecodeError, match="another message of schema 1 than t.Other"):
        kafwire.Protobuf(registry, other, framing=ApicurioHeader()).deserialize(b"\x0a\2UA", ctx)
    made = kafwire.Protobuf(registry, flight, framing=ApicurioHeader(id_bytes=4))  # a record of before the headers
    assert made.deserialize(data, record()) == flight(carrier="UA")
    with pytest.raises(DecodeError, match="another message of schema 1 than t.Other"):
        kafwire.Protobuf(registry, other, framing=ApicurioHeader(id_bytes=4)).deserialize(data, record())


def test_nothing_is_registered_unless_asked_for(registry: SchemaRegistry, flight: Any) -> None:
    with pytest.raises(UnknownSchemaError, match="let the format do so by register=True"):
        kafwire.Protobuf(registry, flight).serialize(flight(), record())
    kafwire.Protobuf(registry, flight, register=True).serialize(flight(), record())
    assert kafwire.Protobuf(registry, flight).serialize(flight(), record()) == b"\0\0\0\0\1\0"
    latest = registry.latest("flights-value")
    assert latest.schema_type == "PROTOBUF"
    assert base64.b64decode(latest.text) == flight.DESCRIPTOR.file.serialized_pb


def test_subjects_have_the_name_of_the_message(registry: SchemaRegistry, flight: Any) -> None:
    for subject, expected in (("record", "t.Flight"), ("topic-record", "flights-t.Flight")):
        kafwire.Protobuf(registry, flight, subject=subject, register=True).serialize(flight(), record())  # type: ignore[arg-type]
        assert expected in registry.subjects()


def test_imported_files_are_references(server: RegistryServer, registry: SchemaRegistry) -> None:
    pool = descriptor_pool.DescriptorPool()
    airport = descriptor_pb2.FileDescriptorProto(name="a/airport.proto", package="a", syntax="proto3")
    airport.message_type.append(message("Airport", code=Field.TYPE_STRING))
    leg = descriptor_pb2.FileDescriptorProto(name="a/leg.proto", package="a", syntax="proto3")
    leg.dependency.append(airport.name)
    leg.message_type.append(message("Leg", origin={"type": Field.TYPE_MESSAGE, "type_name": ".a.Airport"}))
    trip = descriptor_pb2.FileDescriptorProto(name="a/trip.proto", package="a", syntax="proto3")
    trip.dependency.extend([leg.name, airport.name])
    legs = {"type": Field.TYPE_MESSAGE, "type_name": ".a.Leg", "label": Field.LABEL_REPEATED}
    trip.message_type.append(message("Trip", legs=legs, home={"type": Field.TYPE_MESSAGE, "type_name": ".a.Airport"}))
    for file in (airport, leg, trip):
        pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("a.Trip"))
    value = kind(home={"code": "EWR"})
    made = kafwire.Protobuf(registry, kind, register=True)
    data = made.serialize(value, record())
    # The registration, once, and the lookup of its version.
    assert [path for path in server.paths if "airport" in path] == [
        "/subjects/a%2Fairport.proto/versions",
        "/subjects/a%2Fairport.proto",
    ]
    found = registry.latest("flights-value")
    assert [(each.name, each.subject, each.version, each.is_direct) for each in found.references] == [
        ("a/airport.proto", "a/airport.proto", 1, True),  # before the file that imports it, too
        ("a/leg.proto", "a/leg.proto", 1, True),
    ]
    again = kafwire.Protobuf(registry, kind)
    assert again.serialize(value, record()) == data
    assert again.deserialize(data, record()) == value


def test_the_version_of_an_import_takes_one_request(server: RegistryServer, registry: SchemaRegistry) -> None:
    """However many versions its subject has: here the second of three."""
    pool = descriptor_pool.DescriptorPool()
    files = [descriptor_pb2.FileDescriptorProto(name="airport.proto", package=name, syntax="proto3") for name in "xay"]
    for file in files:
        file.message_type.append(message("Airport", code=Field.TYPE_STRING))
    trip = descriptor_pb2.FileDescriptorProto(
        name="trip.proto", package="a", syntax="proto3", dependency=[files[0].name]
    )
    trip.message_type.append(message("Trip", home={"type": Field.TYPE_MESSAGE, "type_name": ".a.Airport"}))
    for file in (files[1], trip):
        pool.AddSerializedFile(file.SerializeToString())
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("a.Trip"))
    for file in files:
        text = base64.b64encode(file.SerializeToString()).decode()
        SchemaRegistry(server.url).register("airport.proto", text, "PROTOBUF")
    kafwire.Protobuf(registry, kind, register=True).serialize(kind(), record())
    assert [(each.name, each.version) for each in registry.latest("flights-value").references] == [("airport.proto", 2)]
    before = len(server.paths)
    kafwire.Protobuf(SchemaRegistry(server.url), kind).serialize(kind(), record())
    assert server.paths[before:] == ["/subjects/airport.proto", "/subjects/flights-value"]


def test_a_schema_of_another_type_makes_bad_records(registry: SchemaRegistry, flight: Any) -> None:
    number = registry.register("text", '"string"')
    seen: list[BadRecord] = []
    made = kafwire.Protobuf(registry, flight, on_bad=seen.append)
    data = b"\0" + number.to_bytes(4, "big") + b"\0"
    assert made.deserialize(data, record()) is None
    column = pa.array([data, None, b"\0\0\0\0\x63\0", b"x"])
    assert made.deserialize_column(column, ColumnContext("flights", "value", 0, None)).null_count == 4
    assert [each.schema_id for each in seen] == [number, number, 99, None]
    assert "it is a schema of type AVRO, not PROTOBUF" in seen[0].cause
    assert "it is a schema of type AVRO, not PROTOBUF" in seen[1].cause
    assert [each.data for each in seen[1:]] == [data, b"\0\0\0\0\x63\0", b"x"]


@pytest.mark.parametrize("field", ["key", "value"])
def test_bad_rows_of_a_header_framing_are_in_order_and_have_ids(
    registry: SchemaRegistry, flight: Any, field: str
) -> None:
    seen: list[BadRecord] = []
    made = kafwire.Protobuf(registry, flight, framing=ApicurioHeader(), register=True, on_bad=seen.append)
    ctx = record(field=field)
    data = made.serialize(flight(carrier="UA"), ctx)
    assert dict(ctx.headers)[f"apicurio.protobuf.type{'.key' if field == 'key' else ''}"] == b"Flight"
    named = [(f"apicurio.{field}.globalId", bytes(7) + bytes([number])) for number in (1, 99)]
    headers = pa.array([[], [named[0]], [named[1]], ctx.headers], pa.map_(pa.string(), pa.binary()))
    column = made.deserialize_column(
        pa.array(["?", data[:-1], data, data], pa.binary()), ColumnContext("flights", field, 0, headers)
    )
    assert column.is_valid().to_pylist() == [False, False, False, True]
    assert [(each.row, each.schema_id) for each in seen] == [(0, None), (1, 1), (2, 99)]


def test_bytes_that_are_no_message_are_bad(registry: SchemaRegistry, flight: Any) -> None:
    made = kafwire.Protobuf(registry, flight, register=True)
    data = made.serialize(flight(carrier="UA"), record())
    with pytest.raises(DecodeError):
        made.deserialize(data[:-1], record())
    with pytest.raises(DecodeError, match="carrier: the value ends too early"):
        made.deserialize_column(pa.array([data, data[:-1]]), ColumnContext("flights", "value", 0, None))


def test_without_a_registry_a_record_is_a_message(flight: Any) -> None:
    made = kafwire.Protobuf(None, flight)
    assert made.serialize(flight(carrier="UA"), record()) == b"\x0a\2UA"
    assert made.deserialize(b"\x0a\2UA", record()) == flight(carrier="UA")
    ctx = ColumnContext("flights", "value", 0, None)
    column = made.deserialize_column(pa.array([b"\x0a\2UA", None]), ctx)
    assert column.to_pylist() == [{"carrier": "UA", "distance": 0}, None]
    assert made.serialize_column(column, ctx).to_pylist() == [b"\x0a\2UA", None]


def test_a_guid_behind_a_one_is_read_by_rows(registry: SchemaRegistry, flight: Any) -> None:
    made = kafwire.Protobuf(registry, flight, register=True)
    data = made.serialize(flight(carrier="UA"), record())
    guid = registry.registered(1).guid
    assert guid is not None
    with_guid = b"\1" + guid.bytes + data[5:]
    column = made.deserialize_column(pa.array([data, with_guid]), ColumnContext("flights", "value", 0, None))
    assert column.to_pylist() == 2 * [{"carrier": "UA", "distance": 0}]


def test_a_format_pickles(registry: SchemaRegistry) -> None:
    made = pickle.loads(pickle.dumps(kafwire.Protobuf(registry, Int64Value, register=True)))
    assert made.deserialize(made.serialize(Int64Value(value=7), record()), record()) == Int64Value(value=7)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"message": 7}, "message is a generated Protobuf class or its descriptor, not int"),
        ({"message": Int64Value.DESCRIPTOR}, "message is a generated Protobuf class, not a descriptor"),
        ({"registry": None, "register": True}, "framing and register need a registry"),
        ({"framing": GluePrefix()}, "has another number of a message"),
        ({"subject": "name"}, "subject is"),
        ({"enums": "text"}, "enums is"),
        ({"on_bad": "skip"}, "on_bad is"),
    ],
)
def test_wrong_arguments_are_refused(registry: SchemaRegistry, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        kafwire.Protobuf(**{"registry": registry, "message": Int64Value, **arguments})


def test_a_message_without_columns_is_refused(registry: SchemaRegistry) -> None:
    (empty,) = classes(message("Empty"))
    with pytest.raises(SchemaError, match="has no fields"):
        kafwire.Protobuf(registry, empty)


def test_a_value_is_a_message_of_the_class(registry: SchemaRegistry, flight: Any) -> None:
    with pytest.raises(TypeError, match="a t.Flight is needed, not Int64Value"):
        kafwire.Protobuf(registry, flight, register=True).serialize(Int64Value(), record())
