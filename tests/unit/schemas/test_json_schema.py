"""`JsonSchema` with a registry: framing, validation both ways, references, columns, and beside confluent-kafka's."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.bad_records import BadRecord
from kafwire.errors import ConfigError, DecodeError, SchemaError, UnknownSchemaError
from kafwire.registry import Reference
from kafwire.registry.framing import ApicurioPrefix, ConfluentHeader
from kafwire.schemas.json_types import MAX_DEPTH, arrow_type
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support.schema_registry import RegistryServer

pytest.importorskip("jsonschema_rs")

FLIGHT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Flight",
    "type": "object",
    "properties": {
        "carrier": {"type": "string", "minLength": 2},
        "delay": {"type": ["integer", "null"], "minimum": -60},
    },
    "required": ["carrier"],
}
ROWS: list[dict[str, Any]] = [{"carrier": "UA", "delay": 2}, {"carrier": "AA", "delay": None}]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        server.register("flights-value", FLIGHT, kind="JSON")
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> kafwire.SchemaRegistry:
    return kafwire.SchemaRegistry(server.url)


def context(topic: str = "flights", field: str = "value") -> SerializationContext:
    return SerializationContext(topic, field, [], 0, 7)


def columns(topic: str = "flights") -> ColumnContext:
    return ColumnContext(topic, "value", 0, None, pa.array(range(10, 30), pa.int64()))


def test_rows_and_columns_go_there_and_back(registry: kafwire.SchemaRegistry) -> None:
    made = kafwire.JsonSchema(registry, FLIGHT)
    data = [made.serialize(row, context()) for row in ROWS]
    assert data[0] == b'\0\0\0\0\1{"carrier":"UA","delay":2}'
    assert [made.deserialize(each, context()) for each in data] == ROWS
    typed = pa.array([*ROWS, None], pa.struct([("carrier", pa.string()), ("delay", pa.int64())]))
    binary = made.serialize_column(typed, columns())
    assert binary.to_pylist() == [*data, None]
    for validate in (True, False):
        reader = kafwire.JsonSchema(registry, validate=validate)
        assert reader.arrow_type(columns()) == typed.type
        assert reader.deserialize_column(binary, columns()).equals(typed)
        assert pickle.loads(pickle.dumps(reader)).deserialize_column(binary, columns()).equals(typed)


def test_documents_are_validated_both_ways(registry: kafwire.SchemaRegistry) -> None:
    made = kafwire.JsonSchema(registry)
    with pytest.raises(
        ValueError, match=r"the document is not valid: -61 is less than the minimum of -60 at \['delay'\]"
    ):
        made.serialize({"carrier": "UA", "delay": -61}, context())
    unchecked = kafwire.JsonSchema(registry, validate=False)
    data = unchecked.serialize({"delay": 1}, context())
    with pytest.raises(DecodeError, match='"carrier" is a required property') as caught:
        made.deserialize(data, context())
    assert caught.value.schema_id == 1
    assert unchecked.deserialize(data, context()) == {"delay": 1}
    with pytest.raises(DecodeError, match=r"row 1: .*required property"):
        made.deserialize_column(pa.array([None, data]), columns())


def test_bad_records_are_null_or_given_to_a_function(registry: kafwire.SchemaRegistry) -> None:
    good = kafwire.JsonSchema(registry).serialize(ROWS[0], context())
    bad = [b"", b"\0\0\0\0\1{", b"\1\2\3", b"\0\0\0\0\1{}", b"\0\0\0\0\x63{}", b"\0\0\0\0\1\xff", b'\0\0\0\0\1"x"']
    values = pa.array([good, None, *bad], pa.binary())
    made = kafwire.JsonSchema(registry, on_bad="null")
    assert [made.deserialize(each, context()) for each in bad] == [None] * len(bad)
    expected = [ROWS[0], None, *[None] * len(bad)]
    assert made.deserialize_column(values, columns()).to_pylist() == expected
    letters: list[BadRecord] = []
    made = kafwire.JsonSchema(registry, on_bad=letters.append)
    assert made.deserialize_column(values, columns()).to_pylist() == expected
    assert [letter.data for letter in letters] == bad
    assert [letter.offset for letter in letters] == list(range(12, 12 + len(bad)))
    assert [letter.schema_id for letter in letters] == [None, 1, None, 1, 99, 1, 1]


def test_columns_without_validation_name_bad_rows(registry: kafwire.SchemaRegistry) -> None:
    letters: list[BadRecord] = []
    made = kafwire.JsonSchema(registry, validate=False, on_bad=letters.append)
    good = b'\0\0\0\0\1{"carrier":"UA"}'
    for rows in (1, 2, 4):
        assert made.deserialize_column(pa.array(rows * [good]), columns()).null_count == 0
    for bad in (b"\0\0\0\0\1{", b"\0\0", b"\1\0\0\0\1{}", b"\0\0\0\0\1\xff"):
        found = made.deserialize_column(pa.array([good, bad, good]), columns())
        assert [row is None for row in found.to_pylist()] == [False, True, False]
        assert (letters[-1].data, letters[-1].offset) == (bad, 11)
    assert [letter.schema_id for letter in letters] == [1, None, None, 1]


def test_a_schema_of_another_type_is_refused(server: RegistryServer) -> None:
    number = server.register("names-value", '"string"')
    made = kafwire.JsonSchema(kafwire.SchemaRegistry(server.url))
    with pytest.raises(DecodeError, match=f"schema {number} is a schema of type AVRO, not JSON"):
        made.deserialize(b"\0" + number.to_bytes(4, "big") + b"{}", context("names"))
    assert made.arrow_type(columns("names")) == pa.string()
    assert made.arrow_type(columns("")) is None


def test_references_are_resolved_among_the_registered_schemas(server: RegistryServer) -> None:
    server.register("code", {"type": "string", "pattern": "^[A-Z]{3}$"}, kind="JSON")
    airport = {"type": "object", "properties": {"code": {"$ref": "code.json"}}, "required": ["code"]}
    server.register("airport", airport, kind="JSON", references=[("code.json", "code", 1)])
    route = {"$id": "http://x.example/route.json", "type": "object", "properties": {"to": {"$ref": "airport.json"}}}
    number = server.register("routes-value", route, kind="JSON", references=[("airport.json", "airport", 1)])
    registry = kafwire.SchemaRegistry(server.url)
    airport_reference = Reference("airport.json", "airport", 1)
    made = kafwire.JsonSchema(registry, route, references=[airport_reference])
    data = made.serialize({"to": {"code": "IAH"}}, context("routes"))
    assert data[:5] == b"\0" + number.to_bytes(4, "big")
    with pytest.raises(ValueError, match="does not match"):
        made.serialize({"to": {"code": "iah"}}, context("routes"))
    assert made.deserialize(data, context("routes")) == {"to": {"code": "IAH"}}


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "other.json"])
def test_no_reference_is_fetched(server: RegistryServer, uri: str) -> None:
    number = server.register("flights-value", {"$ref": uri}, kind="JSON")
    made = kafwire.JsonSchema(kafwire.SchemaRegistry(server.url))
    with pytest.raises(DecodeError, match=f"schema {number} refers to {uri}, which is not among its references"):
        made.deserialize(b"\0" + number.to_bytes(4, "big") + b"{}", context())


@pytest.mark.parametrize(
    ("schema", "error"),
    [("{", SchemaError), ("[]", SchemaError), ('{"type": "nope"}', SchemaError), ("[" * 5000, SchemaError)],
)
def test_a_text_that_is_no_schema_is_refused(registry: kafwire.SchemaRegistry, schema: str, error: Any) -> None:
    with pytest.raises(error, match="the schema is no JSON schema"):
        kafwire.JsonSchema(registry, schema)


def test_deep_documents_and_cyclic_schemas_end(server: RegistryServer) -> None:
    node = {"type": "object", "properties": {"a": {"$ref": "#"}}}
    number = server.register("trees-value", node, kind="JSON")
    made = kafwire.JsonSchema(kafwire.SchemaRegistry(server.url))
    prefix = b"\0" + number.to_bytes(4, "big")
    deepest = b'{"a":' * (MAX_DEPTH - 1) + b"{}" + b"}" * (MAX_DEPTH - 1)
    made.deserialize(prefix + deepest, context("trees"))
    wide = json.dumps({"a": {str(n): {} for n in range(1000)}}).encode()
    made.deserialize(prefix + wide, context("trees"))
    for levels in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(DecodeError):
            made.deserialize(prefix + b'{"a":' * levels + b"{}" + b"}" * levels, context("trees"))
    loop = server.register("loop-value", {"$ref": "#"}, kind="JSON")
    assert made.deserialize(b"\0" + loop.to_bytes(4, "big") + b"{}", context("loop")) == {}


def test_nothing_is_registered_unless_asked(server: RegistryServer) -> None:
    registry = kafwire.SchemaRegistry(server.url)
    with pytest.raises(UnknownSchemaError):
        kafwire.JsonSchema(registry, FLIGHT).serialize(ROWS[0], context("other"))
    assert "other-value" not in registry.subjects()
    made = kafwire.JsonSchema(registry, FLIGHT, register=True)
    for subject, expected in (("topic", "other-value"), ("record", "Flight"), ("topic-record", "other-Flight")):
        made = kafwire.JsonSchema(registry, FLIGHT, register=True, subject=subject)  # type: ignore[arg-type]
        made.serialize(ROWS[0], context("other"))
        assert expected in registry.subjects()
    kafwire.JsonSchema(registry, FLIGHT, register=True, subject=lambda ctx, name: f"{ctx.field}.{name}").serialize(
        ROWS[0], context("other")
    )
    assert "value.Flight" in registry.subjects()
    with pytest.raises(ConfigError, match="needs one topic"):
        kafwire.JsonSchema(registry, FLIGHT).serialize_column(pa.array([ROWS[0]]), columns(""))


def test_other_framings_and_header_ids(registry: kafwire.SchemaRegistry) -> None:
    made = kafwire.JsonSchema(registry, FLIGHT, framing=ConfluentHeader())
    ctx = context()
    data = made.serialize(ROWS[0], ctx)
    assert data == b'{"carrier":"UA","delay":2}'
    assert made.deserialize(data, ctx) == ROWS[0]
    headers = pa.array([[{"key": key, "value": value} for key, value in ctx.headers], []])
    found = kafwire.JsonSchema(registry, FLIGHT, framing=ConfluentHeader(), on_bad="null").deserialize_column(
        pa.array([data, data]), ColumnContext("flights", "value", 0, headers)
    )
    assert found.to_pylist() == [ROWS[0], None]
    apicurio = kafwire.JsonSchema(registry, FLIGHT, framing=ApicurioPrefix())
    assert apicurio.deserialize(apicurio.serialize(ROWS[0], context()), context()) == ROWS[0]


def test_a_cached_schema_needs_no_request(server: RegistryServer) -> None:
    made = kafwire.JsonSchema(kafwire.SchemaRegistry(server.url), FLIGHT)
    data = made.serialize(ROWS[0], context())
    made.deserialize(data, context())
    before = len(server.paths)
    for row in ROWS:
        assert made.deserialize(made.serialize(row, context()), context()) == row
    assert len(server.paths) == before


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (FLIGHT, pa.struct([("carrier", pa.string()), ("delay", pa.int64())])),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}}, None),
        ({"type": "object", "properties": {"a": {"$ref": "#/x"}}}, "text"),
        ({"type": "object"}, "text"),
        ({"type": "string"}, "text"),
        (True, "text"),
        *[({"type": kind}, "text") for kind in (5, [["x"]], {"a": 1})],  # schemas of a registry need not be valid
        ({"oneOf": 5}, "text"),
        ({"type": "object", "properties": {"\ud800": {"type": "string"}}}, "text"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}}, "bool"),
    ],
)
def test_the_arrow_type_of_a_schema(schema: Any, expected: Any) -> None:
    known = {"text": None, None: pa.struct([("a", pa.list_(pa.float64()))]), "bool": pa.struct([("a", pa.bool_())])}
    assert arrow_type(schema) == (known[expected] if not isinstance(expected, pa.DataType) else expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_confluents_serializers_read_and_write_the_same(server: RegistryServer) -> None:
    json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema", exc_type=ImportError)
    theirs = pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    serialization = pytest.importorskip("confluent_kafka.serialization")
    client = theirs.SchemaRegistryClient({"url": server.url})
    where = serialization.SerializationContext("flights", serialization.MessageField.VALUE)
    writer = json_schema.JSONSerializer(json.dumps(FLIGHT), client, conf={"auto.register.schemas": False})
    reader = json_schema.JSONDeserializer(json.dumps(FLIGHT), schema_registry_client=client)
    made = kafwire.JsonSchema(kafwire.SchemaRegistry(server.url), FLIGHT)
    for row in ROWS:
        mine, other = made.serialize(row, context()), writer(row, where)
        assert mine[:5] == other[:5]
        assert json.loads(mine[5:]) == json.loads(other[5:])
        assert reader(mine, where) == row
        assert made.deserialize(other, context()) == row
