"""Avro on a broker: columns are sent as Avro values and come back typed, and rows likewise."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import SerializationError
from kafwire.registry import SchemaRegistry
from kafwire.registry.framing import ConfluentHeader
from kafwire.schemas.avro import Avro
from kafwire.testing.cluster import KafkaCluster
from tests.support.schema_registry import RegistryServer

pytestmark = pytest.mark.either_kafka

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "long"], "default": None},
        {"name": "stops", "type": {"type": "array", "items": "string"}},
    ],
}
ROWS: list[dict[str, Any]] = [
    {"carrier": "UA", "delay": 2, "stops": ["EWR", "IAH"]},
    {"carrier": "grün", "delay": None, "stops": []},
]


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, timeout_s=10)


@pytest.fixture
def place(cluster: KafkaCluster, topic_name: str) -> tuple[str, str]:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=1)
    return cluster.bootstrap, topic_name


def flights() -> pa.RecordBatch:
    """A table as a user has it: one column for each field."""
    kinds = [("carrier", pa.string()), ("delay", pa.int64()), ("stops", pa.list_(pa.string()))]
    return pa.RecordBatch.from_pylist(ROWS, pa.schema(kinds))


def sendable(keys: list[str | None]) -> pa.RecordBatch:
    """The same with the columns `key` and `value`; the last value is a tombstone."""
    values = pa.concat_arrays([flights().to_struct_array(), pa.nulls(1, flights().to_struct_array().type)])
    return pa.record_batch({"key": pa.array(keys), "value": values})


@pytest.mark.parametrize("framing", [None, ConfluentHeader()], ids=str)
def test_struct_columns_are_sent_as_avro_and_read_back(
    place: tuple[str, str], registry: SchemaRegistry, framing: Any
) -> None:
    bootstrap, topic = place
    key = Avro(registry, "string", framing=framing, register=True)
    value = Avro(registry, FLIGHT, framing=framing, register=True)
    rows = sendable(["a", None, "c"])
    with kafwire.Producer(bootstrap, key_serializer=key, value_serializer=value) as producer:
        producer.send_batch(topic, rows)
    columns = ["key", "value"] if framing is None else ["key", "value", "headers"]
    reading = Avro(registry, framing=framing)
    table = pa.table(kafwire.scan(bootstrap, topic, columns=columns, key=reading, value=reading))
    assert table.schema.field("value").type == rows.schema.field("value").type
    assert table.select(["key", "value"]).to_pylist() == rows.to_pylist()
    read = [(each.key, each.value) for each in kafwire.scan(bootstrap, topic, key=reading, value=reading)]
    assert read == [("a", ROWS[0]), (None, ROWS[1]), ("c", None)]


def test_the_sent_bytes_are_fastavros(place: tuple[str, str], registry: SchemaRegistry, server: RegistryServer) -> None:
    bootstrap, topic = place
    number = server.register(f"{topic}-value", FLIGHT)
    with kafwire.Producer(bootstrap, value_serializer=Avro(registry, FLIGHT)) as producer:
        producer.send_batch(topic, sendable([None] * 3))
    expected = []
    for row in ROWS:
        file = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
        file.seek(5)
        fastavro.schemaless_writer(file, FLIGHT, row)
        expected.append(file.getvalue())
    assert [each.value for each in kafwire.scan(bootstrap, topic)] == [*expected, None]


def test_rows_are_sent_and_read_in_columns(place: tuple[str, str], registry: SchemaRegistry) -> None:
    bootstrap, topic = place
    with kafwire.Producer(bootstrap, value=Avro(registry, FLIGHT, register=True)) as producer:
        for row in ROWS:
            producer.send(topic, row)
        producer.send(topic, None)
    table = pa.table(kafwire.scan(bootstrap, topic, columns=["value"], value=Avro(registry)))
    assert table["value"].to_pylist() == [*ROWS, None]


def test_an_empty_scan_has_the_schemas_types(
    place: tuple[str, str], registry: SchemaRegistry, server: RegistryServer
) -> None:
    bootstrap, topic = place
    server.register(f"{topic}-value", json.dumps(FLIGHT))
    table = pa.table(kafwire.scan(bootstrap, topic, columns=["value"], value=Avro(registry)))
    assert table.schema.field("value").type == flights().to_struct_array().type


def test_columns_that_do_not_fit_send_nothing(place: tuple[str, str], registry: SchemaRegistry) -> None:
    bootstrap, topic = place
    values = pa.array([ROWS[0], {**ROWS[0], "carrier": None}], flights().to_struct_array().type)
    with kafwire.Producer(bootstrap, value_serializer=Avro(registry, FLIGHT, register=True)) as producer:
        with pytest.raises(SerializationError, match=r"row 1, carrier: a null, which the schema does not allow"):
            producer.send_batch(topic, pa.record_batch({"value": values}))
        with pytest.raises(SerializationError, match="no field 'tail'"):
            producer.send_batch(topic, pa.record_batch({"value": pa.array([{"tail": "N1"}])}))
    assert list(kafwire.scan(bootstrap, topic)) == []


def test_bad_records_are_nulls_beside_good_ones(place: tuple[str, str], registry: SchemaRegistry) -> None:
    bootstrap, topic = place
    with kafwire.Producer(bootstrap, value=Avro(registry, FLIGHT, register=True)) as producer:
        producer.send(topic, ROWS[0])
    with kafwire.Producer(bootstrap) as producer:
        producer.send(topic, b"bad")
    found: list[Any] = []
    avro = Avro(registry, on_bad=found.append)
    table = pa.table(kafwire.scan(bootstrap, topic, columns=["offset", "value"], value=avro))
    assert table["value"].to_pylist() == [ROWS[0], None]
    assert [(each.data, each.offset, each.topic) for each in found] == [(b"bad", 1, topic)]
