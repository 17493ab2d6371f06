"""confluent-kafka's Avro serializer and deserializer read what kafwire writes, and the reverse."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kafwire.registry import SchemaRegistry
from kafwire.registry.framing import ConfluentHeader
from kafwire.schemas.avro import Avro
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support import avro_samples
from tests.support.avro_samples import Samples
from tests.support.schema_registry import RegistryServer
from tests.support.seeds import examples, of_test

MISSING = "confluent-kafka[avro,schemaregistry] is not installed"
theirs: Any = pytest.importorskip("confluent_kafka.schema_registry", reason=MISSING, exc_type=ImportError)
avro: Any = pytest.importorskip("confluent_kafka.schema_registry.avro", reason=MISSING, exc_type=ImportError)

HEADERS = pa.map_(pa.string(), pa.binary())


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def values_of(samples: Samples, schema: Any, rows: int) -> list[Any]:
    data = [samples.encode(schema, samples.value(schema)) for _ in range(rows)]
    # Their deserializer refuses a value without bytes.
    return [fastavro.schemaless_reader(io.BytesIO(each), schema, None) for each in data if each]


def test_values_cross_both_ways_in_rows_and_columns(server: RegistryServer) -> None:
    client = theirs.SchemaRegistryClient({"url": server.url})
    registry = SchemaRegistry(server.url, timeout_s=10)
    first = of_test()
    for seed in range(first, first + examples(60)):
        samples = Samples(seed, apart=True)
        schema = avro_samples.without_logical(samples.record())
        text, topic = json.dumps(schema), f"topic{seed}"
        values = values_of(samples, schema, 4)
        ctx = SerializationContext(topic, "value", [])
        serializer = avro.AvroSerializer(client, text)
        deserializer = avro.AvroDeserializer(client, text)
        ours = Avro(registry, text, register=True)
        given = [serializer(each, _their_context(topic)) for each in values]
        assert [ours.serialize(each, ctx) for each in values] == given, f"seed {seed}: {text}"
        assert repr([ours.deserialize(each, ctx) for each in given]) == repr(values), f"seed {seed}"
        column = ours.deserialize_column(pa.array(given), ColumnContext(topic, "value", 0))
        made = ours.serialize_column(column, ColumnContext(topic, "value", 0)).to_pylist()
        assert made == given, f"seed {seed}: {text}"
        assert repr([deserializer(each, _their_context(topic)) for each in made]) == repr(values), f"seed {seed}"


def _their_context(topic: str, headers: list[Any] | None = None) -> Any:
    from confluent_kafka.serialization import MessageField
    from confluent_kafka.serialization import SerializationContext as Theirs

    return Theirs(topic, MessageField.VALUE, [] if headers is None else headers)


def test_ids_in_headers_cross_both_ways(server: RegistryServer) -> None:
    client = theirs.SchemaRegistryClient({"url": server.url})
    registry = SchemaRegistry(server.url, timeout_s=10)
    schema = '{"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}'
    row = {"carrier": "United"}  # their deserializer refuses less than six bytes
    ours = Avro(registry, schema, framing=ConfluentHeader(), register=True)
    ctx = SerializationContext("flights", "value", [])
    data = ours.serialize(row, ctx)
    in_headers = {"schema.id.deserializer": theirs.dual_schema_id_deserializer}
    deserializer = avro.AvroDeserializer(client, schema, conf=in_headers)
    assert deserializer(data, _their_context("flights", ctx.headers)) == row
    headers: list[Any] = []
    latest = {"auto.register.schemas": False, "use.latest.version": True}  # its response has the GUID
    conf = {"schema.id.serializer": theirs.header_schema_id_serializer, **latest}
    serializer = avro.AvroSerializer(client, schema, conf=conf)
    given = serializer(row, _their_context("flights", headers))
    assert (given, headers) == (data, ctx.headers)
    assert ours.deserialize(given, SerializationContext("flights", "value", headers)) == row
    rows = pa.array([headers], HEADERS)
    assert ours.deserialize_column(pa.array([given]), ColumnContext("flights", "value", 0, rows)).to_pylist() == [row]


def test_decimals_and_times_cross_both_ways(server: RegistryServer) -> None:
    client = theirs.SchemaRegistryClient({"url": server.url})
    registry = SchemaRegistry(server.url, timeout_s=10)
    fields = [
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    ]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    kinds = [("d", pa.decimal128(9, 2)), ("t", pa.timestamp("us", "UTC")), ("day", pa.date32())]
    storage = pa.struct([("d", pa.decimal128(9, 2)), ("t", pa.int64()), ("day", pa.int32())])
    cents = [0, -128, 127, 128, -32768, 999999999, -999999999]
    stored = pa.array([{"d": None, "t": each, "day": each} for each in cents], storage)
    decimals = pa.array(cents, pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    hundredths = pa.array([each.as_py() / 100 for each in decimals], pa.decimal128(9, 2))
    days = pa.array([each % 20_000 for each in cents], pa.int32()).cast(pa.date32())
    column = pa.StructArray.from_arrays(
        [hundredths, stored.field("t").cast(pa.timestamp("us", "UTC")), days],
        fields=[pa.field(*each) for each in kinds],
    )
    ours = Avro(registry, schema, register=True)
    made = ours.serialize_column(column, ColumnContext("flights", "value", 0)).to_pylist()
    deserializer, serializer = avro.AvroDeserializer(client, schema), avro.AvroSerializer(client, schema)
    rows = [deserializer(each, _their_context("flights")) for each in made]
    assert rows == column.to_pylist()
    assert [serializer(each, _their_context("flights")) for each in rows] == made
