"""GUIDs in headers, beside confluent-kafka's serializers: three formats, keys and values, both ways, byte for byte.

The registry of this machine numbers schemas by Confluent's rule, and its response to a registration has the GUID.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kafwire
from kafwire.protobuf.program import indexes_of
from kafwire.registry import ConfluentHeader, SchemaRegistry
from kafwire.serialization import SerializationContext
from tests.support.protobuf_classes import FLIGHT, Field, classes, message
from tests.support.schema_registry import RegistryServer

REASON = "confluent-kafka[avro,protobuf,schemaregistry] is not installed"
theirs: Any = pytest.importorskip("confluent_kafka.schema_registry", reason=REASON, exc_type=ImportError)
avro: Any = pytest.importorskip("confluent_kafka.schema_registry.avro", reason=REASON, exc_type=ImportError)
json: Any = pytest.importorskip("confluent_kafka.schema_registry.json_schema", reason=REASON, exc_type=ImportError)
protobuf: Any = pytest.importorskip("confluent_kafka.schema_registry.protobuf", reason=REASON, exc_type=ImportError)
serde: Any = pytest.importorskip("confluent_kafka.schema_registry.serde", reason=REASON, exc_type=ImportError)

FIRST, SECOND = classes(FLIGHT, message("Airport", code=Field.TYPE_STRING, feet=Field.TYPE_SINT64))
AVRO = '{"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}'
JSON = '{"title": "Flight", "type": "object", "properties": {"carrier": {"type": "string"}}}'
ROW = {"carrier": "United"}
WRITES = {"schema.id.serializer": theirs.header_schema_id_serializer}
READS = {"schema.id.deserializer": theirs.dual_schema_id_deserializer}
NEWER = {"use.deprecated.format": False}


class Case(NamedTuple):
    value: Any
    ours: Callable[[SchemaRegistry], Any]
    serializer: Callable[[Any], Any]
    deserializer: Callable[[Any], Any]


def of_message(value: Any) -> Case:
    return Case(
        value,
        lambda registry: kafwire.Protobuf(registry, type(value), framing=ConfluentHeader(), register=True),
        lambda client: protobuf.ProtobufSerializer(type(value), client, {**NEWER, **WRITES}),
        lambda client: protobuf.ProtobufDeserializer(type(value), {**NEWER, **READS}, client),
    )


CASES = {
    "avro": Case(
        ROW,
        lambda registry: kafwire.Avro(registry, AVRO, framing=ConfluentHeader(), register=True),
        lambda client: avro.AvroSerializer(client, AVRO, conf=WRITES),
        lambda client: avro.AvroDeserializer(client, AVRO, conf=READS),
    ),
    "json": Case(
        ROW,
        lambda registry: kafwire.JsonSchema(registry, JSON, framing=ConfluentHeader(), register=True),
        lambda client: json.JSONSerializer(JSON, client, conf=WRITES),
        lambda client: json.JSONDeserializer(JSON, schema_registry_client=client, conf=READS),
    ),
    "protobuf": of_message(FIRST(carrier="United", distance=1_400)),
    "protobuf-second": of_message(SECOND(code="Denver", feet=-5)),
}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def context(part: str, headers: list[Any]) -> Any:
    from confluent_kafka.serialization import MessageField
    from confluent_kafka.serialization import SerializationContext as Theirs

    return Theirs("flights", MessageField.KEY if part == "key" else MessageField.VALUE, headers)


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("name", CASES)
def test_both_register_and_write_the_same_and_read_each_others(server: RegistryServer, name: str, part: str) -> None:
    case = CASES[name]
    headers: list[Any] = [("trace", b"1")]
    data = case.serializer(theirs.SchemaRegistryClient({"url": server.url}))(case.value, context(part, headers))
    ctx = SerializationContext("flights", part, [("trace", b"1")])
    ours = case.ours(SchemaRegistry(server.url, timeout_s=10))
    made = ours.serialize(case.value, ctx)
    if name == "json":  # their JSON has spaces
        assert made == data.replace(b": ", b":")
    else:
        assert made == data
    assert ctx.headers == headers
    assert [key for key, _ in headers] == ["trace", f"__{part}_schema_id"]
    assert ours.deserialize(data, SerializationContext("flights", part, headers)) == case.value
    client = theirs.SchemaRegistryClient({"url": server.url})
    assert case.deserializer(client)(made, context(part, list(ctx.headers))) == case.value


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    guid=st.uuids(),
    payload=st.binary(max_size=20),
    part=st.sampled_from(["key", "value"]),
    indexes=st.none() | st.lists(st.integers(0, 300), min_size=1, max_size=4),
)
def test_the_functions_agree(guid: Any, payload: bytes, part: str, indexes: list[int] | None) -> None:
    kind = "AVRO" if indexes is None else "PROTOBUF"
    theirs_headers: list[Any] = []
    schema_id = serde.SchemaId(kind, None, str(guid), indexes)
    assert theirs.header_schema_id_serializer(payload, context(part, theirs_headers), schema_id) == payload
    ((_, header),) = theirs_headers
    encoded = header[17:]
    ctx = SerializationContext("flights", part, [])
    assert ConfluentHeader().write(guid, payload, ctx, indexes=encoded) == payload
    assert ctx.headers == theirs_headers
    assert ConfluentHeader().read(payload, ctx) == (guid, encoded + payload)
    found = serde.SchemaId(kind)
    assert theirs.dual_schema_id_deserializer(payload, context(part, ctx.headers), found).read() == payload
    assert (found.guid, found.message_indexes) == (guid, indexes)


def test_message_indexes_are_theirs() -> None:
    for kind, indexes in ((FIRST, [0]), (SECOND, [1])):
        header: list[Any] = []
        theirs.header_schema_id_serializer(
            b"", context("value", header), serde.SchemaId("PROTOBUF", None, str(GUID), indexes)
        )
        assert header[0][1][17:] == indexes_of(kind.DESCRIPTOR)


GUID = "89791762-2336-4186-9674-299b90a802e2"


def test_the_registry_of_tests_has_confluents_guids(server: RegistryServer) -> None:
    server.register("flights-value", AVRO)
    found = SchemaRegistry(server.url).latest("flights-value").guid
    assert found is not None
    assert found.bytes == hashlib.md5(AVRO.encode(), usedforsecurity=False).digest()
