"""confluent-kafka's Protobuf serializer and deserializer read what kafwire writes, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kafwire.registry import SchemaRegistry
from kafwire.registry.framing import ConfluentHeader, ConfluentPrefix, Framing
from kafwire.schemas.protobuf import Protobuf
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support.protobuf_classes import FLIGHT, Field, classes, message
from tests.support.schema_registry import RegistryServer

MISSING = "confluent-kafka[protobuf,schemaregistry] is not installed"
theirs: Any = pytest.importorskip("confluent_kafka.schema_registry", reason=MISSING, exc_type=ImportError)
protobuf: Any = pytest.importorskip("confluent_kafka.schema_registry.protobuf", reason=MISSING, exc_type=ImportError)

# Their deserializer refuses less than six bytes.
FIRST, SECOND = classes(FLIGHT, message("Airport", code=Field.TYPE_STRING, feet=Field.TYPE_SINT64))
VALUES = [FIRST(carrier="United", distance=1_400), SECOND(code="Denver", feet=-5)]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def context(headers: list[Any]) -> Any:
    from confluent_kafka.serialization import MessageField
    from confluent_kafka.serialization import SerializationContext as Theirs

    return Theirs("flights", MessageField.VALUE, headers)


@pytest.mark.parametrize("framing", [ConfluentPrefix(), ConfluentHeader()], ids=repr)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_cross_both_ways(server: RegistryServer, value: Any, framing: Framing) -> None:
    client = theirs.SchemaRegistryClient({"url": server.url})
    kind = type(value)
    ours = Protobuf(SchemaRegistry(server.url, timeout_s=10), kind, framing=framing, register=True)
    ctx = SerializationContext("flights", "value", [])
    made = ours.serialize(value, ctx)
    options: dict[str, Any] = {"use.deprecated.format": False, "auto.register.schemas": False}
    if isinstance(framing, ConfluentHeader):  # the response about the latest version has the GUID
        options |= {"schema.id.serializer": theirs.header_schema_id_serializer, "use.latest.version": True}
    serializer = protobuf.ProtobufSerializer(kind, client, options)
    given_headers: list[Any] = []
    given = serializer(value, context(given_headers))
    assert (made, ctx.headers) == (given, given_headers)
    assert ours.deserialize(given, SerializationContext("flights", "value", given_headers)) == value
    dual = {"use.deprecated.format": False, "schema.id.deserializer": theirs.dual_schema_id_deserializer}
    assert protobuf.ProtobufDeserializer(kind, dual)(made, context(list(ctx.headers))) == value
    rows = pa.array([given_headers], pa.map_(pa.string(), pa.binary()))
    column = ours.deserialize_column(pa.array([given]), ColumnContext("flights", "value", 0, rows))
    writing = ColumnContext("flights", "value")
    assert ours.serialize_column(column, writing).to_pylist() == [given]
    assert writing.headers == given_headers


def test_their_registration_is_found(server: RegistryServer) -> None:
    client = theirs.SchemaRegistryClient({"url": server.url})
    given = protobuf.ProtobufSerializer(SECOND, client, {"use.deprecated.format": False})(VALUES[1], context([]))
    ours = Protobuf(SchemaRegistry(server.url, timeout_s=10), SECOND)
    assert ours.serialize(VALUES[1], SerializationContext("flights", "value", [])) == given
