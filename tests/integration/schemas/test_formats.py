"""Formats at every door: rows, batches, Arrow streams, data sets, frames and the producer."""

from __future__ import annotations

import pickle
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import kafwire
import kafwire.polars
from kafwire.bad_records import BadRecord
from kafwire.frames import dataset
from kafwire.testing.cluster import KafkaCluster

pytestmark = pytest.mark.either_kafka

SCHEMA = pa.schema([("carrier", pa.string()), ("delay", pa.int32())])
JSON = kafwire.Json(SCHEMA)
ROWS: list[dict[str, Any]] = [{"carrier": "UA", "delay": 2}, {"carrier": "grün", "delay": None}]


@pytest.fixture
def place(cluster: KafkaCluster, topic_name: str) -> tuple[str, str]:
    topic = topic_name
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic, partitions=1)
    with kafwire.Producer(cluster.bootstrap, key=kafwire.Text(), value=kafwire.Json()) as producer:
        for number, row in enumerate(ROWS):
            producer.send(topic, row, key=f"k{number}", partition=0)
        producer.send(topic, None, key=None, partition=0)
    return cluster.bootstrap, topic


@pytest.fixture
def bad_place(place: tuple[str, str]) -> tuple[str, str]:
    with kafwire.Producer(place[0]) as producer:
        producer.send(place[1], b"\xff", key=b"k", partition=0)
        producer.send(place[1], b'{"delay": 7}', key=b"k", partition=0)
    return place


def test_a_scan_has_typed_columns(place: tuple[str, str]) -> None:
    def scan() -> kafwire.Scan:
        return kafwire.scan(*place, columns=["key", "value"], key=kafwire.Text(), value=JSON)

    expected = [*({"key": f"k{n}", "value": row} for n, row in enumerate(ROWS)), {"key": None, "value": None}]
    wanted = pa.schema([("key", pa.string()), ("value", pa.struct(list(SCHEMA)))])
    assert pa.schema(scan()).types == wanted.types
    assert scan().to_reader().schema.types == wanted.types
    assert scan().to_reader().read_all().to_pylist() == expected
    assert pa.table(scan()).to_pylist() == expected
    assert [row for batch in scan().batches() for row in batch.to_arrow().to_pylist()] == expected
    split = pickle.loads(pickle.dumps(scan().split(1)[0]))
    assert pa.schema(split).types == wanted.types
    assert pa.table(split).to_pylist() == expected
    assert [(record.key, record.value) for record in scan()] == [("k0", ROWS[0]), ("k1", ROWS[1]), (None, None)]


def test_an_empty_scan_has_the_types(place: tuple[str, str]) -> None:
    reader = kafwire.scan(*place, start="latest", columns=["value"], value=kafwire.Text()).to_reader()
    assert reader.read_all().schema.types == [pa.string()]


def test_json_without_a_schema_is_text_in_columns(place: tuple[str, str]) -> None:
    table = pa.table(kafwire.scan(*place, columns=["value"], value=kafwire.Json()))
    assert table["value"].to_pylist() == ['{"carrier":"UA","delay":2}', '{"carrier":"grün","delay":null}', None]


def test_frames_and_duckdb_know_the_types_before_any_row(place: tuple[str, str]) -> None:
    frame = kafwire.polars.scan_kafka(*place, key=kafwire.Text(), value=JSON)
    schema = frame.collect_schema()
    assert schema["key"] == pl.String()
    assert schema["value"] == pl.Struct({"carrier": pl.String(), "delay": pl.Int32()})
    chosen = frame.filter(pl.col("value").struct.field("delay") > 1).select("key").collect()
    assert chosen["key"].to_list() == ["k0"]
    flights = dataset(*place, key=kafwire.Text(), value=JSON)
    assert flights.schema.field("value").type == pa.struct(list(SCHEMA))
    sql: Any = duckdb.sql
    assert sql("SELECT key, value.carrier FROM flights WHERE value.delay = 2").fetchall() == [("k0", "UA")]
    del flights


def test_a_consumer_and_its_arrow_stream_have_typed_columns(place: tuple[str, str]) -> None:
    options: Any = {"topics": [place[1]], "auto_offset_reset": "earliest", "key": kafwire.Text(), "value": JSON}
    with kafwire.Consumer(place[0], columns=["key", "value"], **options) as consumer:
        stream = consumer.arrow_stream(timeout=2.0)
        assert pa.schema(stream).types == [pa.string(), pa.struct(list(SCHEMA))]
        assert stream.to_reader().read_all()["key"].to_pylist() == ["k0", "k1", None]
    with kafwire.Consumer(place[0], **options) as consumer:
        assert next(iter(consumer)).value == ROWS[0]


def test_a_producer_writes_columns(place: tuple[str, str]) -> None:
    with kafwire.Producer(place[0], key=kafwire.Text(), value=JSON) as producer:
        rows = pa.table({"key": ["a", None], "value": pa.array([ROWS[0], None], pa.struct(list(SCHEMA)))})
        producer.send_batch(place[1], rows, partition=0)
    found = pa.table(kafwire.scan(*place, start={kafwire.TopicPartition(place[1], 0): kafwire.Offset(3)}))
    assert found["key"].to_pylist() == [b"a", None]
    assert found["value"].to_pylist() == [b'{"carrier":"UA","delay":2}', None]


@pytest.mark.parametrize("value", [kafwire.Text(), JSON, kafwire.Json()])
def test_a_bad_record_is_named_in_rows_and_columns(bad_place: tuple[str, str], value: kafwire.schemas.Format) -> None:
    for read in (
        lambda: list(kafwire.scan(*bad_place, value=value)),
        lambda: [batch.to_arrow() for batch in kafwire.scan(*bad_place, value=value).batches()],
        lambda: kafwire.scan(*bad_place, value=value).to_reader().read_all(),
    ):
        with pytest.raises(kafwire.SerializationError, match=rf"{bad_place[1]}-0,? at offset 3") as caught:
            read()
        assert (caught.value.partition, caught.value.offset, caught.value.part) == (0, 3, "value")


@pytest.mark.parametrize("make", [kafwire.Text, kafwire.Json, lambda **options: kafwire.Json(SCHEMA, **options)])
def test_a_bad_record_is_null_or_given_to_a_function(bad_place: tuple[str, str], make: Any) -> None:
    def values(**options: Any) -> list[list[Any]]:
        format_ = make(**options)
        rows = [record.value for record in kafwire.scan(*bad_place, value=format_)]
        columns = pa.table(kafwire.scan(*bad_place, value=format_))["value"].to_pylist()
        return [rows, columns]

    for found in values(on_bad="null"):
        assert [value is None for value in found] == [False, False, True, True, False]
    letters: list[BadRecord] = []
    for found in values(on_bad=letters.append):
        assert [value is None for value in found] == [False, False, True, True, False]
    assert len(letters) == 2
    for letter in letters:
        assert (letter.data, letter.topic, letter.field) == (b"\xff", bad_place[1], "value")
        assert (letter.partition, letter.offset) == (0, 3)
        assert letter.cause


def test_both_spellings_of_an_option_are_refused() -> None:
    for kind, name in ((kafwire.Consumer, "value_deserializer"), (kafwire.Producer, "key_serializer")):
        short = name.partition("_")[0]
        options: Any = {short: kafwire.Text(), name: str}
        with pytest.raises(kafwire.ConfigError, match=f"options {short} and {name} both convert {short}s"):
            kind("localhost:1", **options)
