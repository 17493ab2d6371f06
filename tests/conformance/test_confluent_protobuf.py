"""confluent-kafka's Protobuf serializer and deserializer read what kafwire writes, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.type_pb2 import EnumValue, Option
from google.protobuf.wrappers_pb2 import Int64Value

from kafwire.registry import SchemaRegistry
from kafwire.registry.framing import ConfluentHeader, ConfluentPrefix, Framing
from kafwire.schemas.protobuf import Protobuf
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support.schema_registry import RegistryServer

MISSING = "confluent-kafka[protobuf,schemaregistry] is not installed"
theirs: Any = pytest.importorskip("confluent_kafka.schema_registry", reason=MISSING, exc_type=ImportError)
protobuf: Any = pytest.importorskip("confluent_kafka.schema_registry.protobuf", reason=MISSING, exc_type=ImportError)

VALUES = [Int64Value(value=7), Option(name="x"), EnumValue(name="A", number=1 << 30)]


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
    options: dict[str, Any] = {"use.deprecated.format": False}
    if isinstance(framing, ConfluentHeader):
        options["schema.id.serializer"] = theirs.header_schema_id_serializer
    serializer = protobuf.ProtobufSerializer(kind, client, options)
    deserializer = protobuf.ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    given_headers: list[Any] = []
    given = serializer(value, context(given_headers))
    ours = Protobuf(SchemaRegistry(server.url, timeout_s=10), kind, framing=framing)
    ctx = SerializationContext("flights", "value", [])
    made = ours.serialize(value, ctx)  # their schema is registered, and found
    assert (made, ctx.headers) == (given, given_headers)
    assert ours.deserialize(given, SerializationContext("flights", "value", given_headers)) == value
    assert deserializer(made, context(list(ctx.headers))) == value
    rows = pa.array([given_headers], pa.map_(pa.string(), pa.binary()))
    column = ours.deserialize_column(pa.array([given]), ColumnContext("flights", "value", 0, rows))
    writing = ColumnContext("flights", "value")
    assert ours.serialize_column(column, writing).to_pylist() == [given]
    assert writing.headers == given_headers
