"""Values decoded in the reader, against a registry of this machine: the readers' methods, then a batch and a stream."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import kafwire
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.errors import ConfigError, DecodeError, SchemaError, SchemaRegistryError, UnknownSchemaError
from kafwire.spark import KafwireDataSource, read, read_stream
from kafwire.spark.ddl import parse_columns
from kafwire.spark.reader import KafwireReader
from kafwire.spark.schema import arrow_schema
from tests.support.avro_samples import number
from tests.support.schema_registry import RegistryServer, error

LONGEST_S = 100
pytestmark = pytest.mark.timeout(4 * LONGEST_S)  # the first query starts the session and its workers
Source = Callable[..., KafwireDataSource]
FIRST = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
SECOND = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": ["null", "int"], "default": None},
        {"name": "tail", "type": {"type": "fixed", "name": "Tail", "size": 2}, "default": "xx"},
    ],
}
# Another writer's order, and an int for the reader's union.
THIRD = {"type": "record", "name": "Flight", "fields": [{"name": "delay", "type": "int"}, SECOND["fields"][0]]}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", "-").replace("]", "")
    kafka.create_topic(name)
    return name


@pytest.fixture
def options(kafka: EmbeddedKafka, registry: RegistryServer, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "subscribe": topic,
        "valueFormat": "avro",
        "schemaRegistry.url": registry.url,
        "schemaRegistry.timeout.ms": "5000",
    }


@pytest.fixture
def source(options: dict[str, str]) -> Source:
    def make(**more: str) -> KafwireDataSource:
        given = {name: text for name, text in (options | more).items() if text}
        return KafwireDataSource({name.lower(): text for name, text in given.items()})

    return make


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def rows(source: KafwireDataSource, schema: StructType | None = None) -> list[dict[str, Any]]:
    """The rows of a batch read as Spark makes them: planned with the schema, read by pickles of the reader."""
    reader = source.reader(schema or source.schema())
    assert isinstance(reader, KafwireReader)
    worker = pickle.loads(pickle.dumps(reader))
    table = [batch for piece in reader.partitions() for batch in worker.read(piece)]
    for batch in table:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema(reader.schema))
    return pa.Table.from_batches(table).to_pylist() if table else []


def test_ids_are_mixed_and_come_later(
    kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source
) -> None:
    subject = f"{topic}-value"
    first, second = registry.register(subject, FIRST), registry.register(subject, SECOND)
    planned = source().schema()
    assert planned["value"].dataType.simpleString() == "struct<carrier:string,delay:int,tail:binary>"
    third = registry.register(subject, THIRD)  # the newest of the subject, and yet not the reader's
    kafka.append(topic, [framed(first, b"\4UA"), framed(second, b"\4DL\2\x0eab"), framed(third, b"\x10\4AA"), None])
    registry.paths.clear()
    found = rows(source(), planned)
    assert [row["value"] for row in found] == [
        {"carrier": "UA", "delay": None, "tail": b"xx"},
        {"carrier": "DL", "delay": 7, "tail": b"ab"},
        {"carrier": "AA", "delay": 8, "tail": b"xx"},
        None,
    ]
    assert [row["offset"] for row in found] == [0, 1, 2, 3]
    assert "latest" not in " ".join(registry.paths)
    fourth = registry.register(subject, FIRST)
    kafka.append(topic, [framed(fourth, b"\4WN")])
    assert rows(source(), planned)[-1]["value"] == {"carrier": "WN", "delay": None, "tail": b"xx"}


def test_a_schema_is_asked_for_once_in_a_worker(
    kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source
) -> None:
    registry.register(f"{topic}-value", FIRST)
    kafka.append(topic, [framed(1, b"\4UA")] * 3)
    planned = source().schema()
    registry.paths.clear()
    rows(source(), planned)
    rows(source(), planned)
    assert registry.paths.count("/schemas/ids/1") == 1


def test_fields_and_columns_are_chosen(
    kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source
) -> None:
    registry.register(f"{topic}-value", SECOND)
    kafka.append(topic, [framed(1, b"\4DL\2\x0eab")])
    chosen = source(columns="value.delay, offset, value.carrier")
    assert chosen.schema().simpleString() == "struct<value:struct<delay:int,carrier:string>,offset:bigint>"
    assert rows(chosen) == [{"value": {"delay": 7, "carrier": "DL"}, "offset": 0}]
    declared = parse_columns("", "value struct<tail: binary>")
    assert rows(source(), declared) == [{"value": {"tail": b"ab"}}]
    registry.paths.clear()
    assert rows(source(columns="offset")) == [{"offset": 0}]
    assert registry.paths == []  # nothing to decode
    for columns, said in (
        ("value.x", "schema 1 of .*-value has no field 'x': choose from carrier, delay, tail"),
        ("value,value.delay", "the columns value and value.delay have the same data"),
        ("value.delay,value.delay", "name a field of the value twice"),
        ("values", "the source has no column 'values'"),
        ("offset,offset", "the columns name a column twice: offset, offset"),
        ("badRecord", "the source has no column 'badRecord'"),
    ):
        with pytest.raises(ConfigError, match=said):
            source(columns=columns).schema()
    with pytest.raises(ConfigError, match="column value is struct<carrier:string>, not struct<carrier:int>"):
        source().reader(parse_columns("", "value struct<carrier: int>"))
    with pytest.raises(ConfigError, match="column value is struct<carrier:string,delay:int,tail:binary>, not binary"):
        source().reader(parse_columns("", "value binary"))
    with pytest.raises(ConfigError, match="the schema has the columns offset and the option columns names value"):
        source(columns="value").reader(parse_columns("", "offset bigint"))
    with pytest.raises(ConfigError, match="column value.delay needs valueFormat"):
        KafwireDataSource({"kafka.bootstrap.servers": "h:1", "subscribe": "a", "columns": "value.delay"}).schema()


def test_a_schema_that_is_no_record(kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source) -> None:
    registry.register("names", '"string"')
    kafka.append(topic, [framed(1, b"\4UA"), None])
    assert [row["value"] for row in rows(source(valueSubject="names"))] == ["UA", None]
    reader = '{"type": "record", "name": "F", "fields": [{"name": "n", "type": "long"}]}'
    with pytest.raises(DecodeError, match="offset 0: schema 1: "):
        rows(source(valueSchema=reader))


def test_a_bad_record_is_an_error_with_its_place(
    kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source
) -> None:
    registry.register(f"{topic}-value", FIRST)
    kafka.append(topic, [framed(1, b"\4UA"), framed(1, b"\x08UA")])
    kafka.append(topic, [framed(9, b"")])
    with pytest.raises(DecodeError, match=rf"{topic}-0, offset 1: carrier: .*; set badRecords to null or deadLetter"):
        rows(source())
    with pytest.raises(DecodeError, match=f"{topic}-0, offset 2: schema 9: .* does not have it: status 404"):
        rows(source(startingOffsets=f'{{"{topic}":{{"0":2}}}}'))


def test_bad_records_are_null_or_dead_letters(
    kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source
) -> None:
    registry.register(f"{topic}-value", FIRST)
    bad = framed(1, b"\x08UA")
    kafka.append(topic, [framed(1, b"\4UA"), bad, None, framed(9, b"x"), framed(1, b"\4DL")])
    expected = [{"carrier": "UA"}, None, None, None, {"carrier": "DL"}]
    assert [row["value"] for row in rows(source(badRecords="null"))] == expected
    found = rows(source(badRecords="deadLetter", columns="value,badRecord"))
    assert [row["value"] for row in found] == expected
    letters = [row["badRecord"] for row in found]
    assert letters[0] is letters[2] is letters[4] is None
    assert (letters[1]["schemaId"], letters[1]["value"], letters[3]["schemaId"]) == (1, bad, 9)
    assert "carrier: the value ends too early" in letters[1]["cause"]
    assert "schema 9: " in letters[3]["cause"]
    assert rows(source(badRecords="deadLetter", columns="badRecord,offset"))[1]["badRecord"]["value"] == bad
    assert source(badRecords="deadLetter").schema().names[-1] == "badRecord"
    with pytest.raises(ConfigError, match="badRecords=deadLetter needs the column badRecord"):
        source(badRecords="deadLetter", columns="value").schema()


def test_a_registry_that_is_down_is_named_at_planning_and_in_a_task(
    kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source
) -> None:
    registry.register(f"{topic}-value", FIRST)
    kafka.append(topic, [framed(1, b"\4UA")])
    down = [error(503, 50301, "away")] * 100
    short = source(**{"schemaRegistry.timeout.ms": "200"})
    registry.replies.extend(down)
    said = f"no response from the schema registry at {registry.url} within 0.2 s"
    with pytest.raises(SchemaRegistryError, match=f"subject '{topic}-value': {said}"):
        short.schema()
    registry.replies.clear()
    reader = source(**{"schemaRegistry.timeout.ms": "200"}, valueSchema='"string"')
    planned = reader.reader(reader.schema())
    registry.replies.extend(down)
    with pytest.raises(SchemaRegistryError, match=f"schema 1: {said}"):
        list(planned.read(planned.partitions()[0]))
    with pytest.raises(ConfigError, match="schemaRegistry.* options: .*https://"):
        source(
            **{"schemaRegistry.url": "http://r:1", "schemaRegistry.username": "a", "schemaRegistry.password": "b"}
        ).schema()


def test_subjects_and_schemas_of_the_registry_that_cannot_be_read(registry: RegistryServer, source: Source) -> None:
    with pytest.raises(UnknownSchemaError, match="subject 'nope': the schema registry at .* does not have it"):
        source(valueSubject="nope").schema()
    registry.register("proto", "syntax", kind="PROTOBUF")
    with pytest.raises(SchemaError, match="PROTOBUF"):
        source(valueSubject="proto").schema()


def test_json_becomes_columns(kafka: EmbeddedKafka, topic: str, source: Source) -> None:
    away = {"valueFormat": "json", "schemaRegistry.url": "", "schemaRegistry.timeout.ms": ""}
    text = '{"carrier": "UA", "delay": 3, "day": "2013-01-02", "legs": [{"at": "2013-01-02T03:04:05Z"}], "more": 1}'
    kafka.append(topic, [text.encode(), b"?", None, b"{}"])
    columns = "carrier STRING, delay INT, day DATE, legs ARRAY<STRUCT<at: TIMESTAMP>>"
    found = rows(source(**away, valueSchema=columns, badRecords="deadLetter", columns="value,badRecord"))
    first = found[0]["value"]
    assert (first["carrier"], first["delay"], first["day"].isoformat()) == ("UA", 3, "2013-01-02")
    assert first["legs"][0]["at"].isoformat() == "2013-01-02T03:04:05+00:00"
    assert found[1]["badRecord"]["value"] == b"?"
    assert found[1]["badRecord"]["schemaId"] is None
    assert [row["value"] for row in found[1:]] == [None, None, dict.fromkeys(first)]
    assert rows(source(**away, valueSchema=columns, badRecords="null", columns="value.delay"))[0] == {
        "value": {"delay": 3}
    }
    declared = parse_columns("", "value struct<delay: int>")
    assert rows(source(**away, badRecords="null"), declared)[0] == {"value": {"delay": 3}}
    with pytest.raises(DecodeError, match=f"{topic}-0, offset 1: "):
        rows(source(**away), declared)
    for options, said in (
        ({}, "valueFormat=json needs the option valueSchema"),
        ({"valueSchema": "m map<string,int>"}, "value.m is map<string,int>, which valueFormat=json does not read"),
        (
            {"valueSchema": "a array<binary>"},
            r"value.a\[\] is binary, which valueFormat=json does not read: declare string",
        ),
        ({"valueSchema": "n int", "columns": "value.x"}, "valueSchema has no field 'x': choose from n"),
    ):
        with pytest.raises(ConfigError, match=said):
            source(**away, **options).schema()


def test_a_batch_and_a_stream_of_a_session(
    kafka: EmbeddedKafka,
    registry: RegistryServer,
    topic: str,
    options: dict[str, str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    subject = f"{topic}-value"
    registry.register(subject, SECOND)
    kafka.append(topic, [framed(1, b"\4DL\2" + number(delay) + b"ab") for delay in range(100)] + [b"bad"])
    given = options | {"badRecords": "deadLetter"}
    frame = read(spark, columns=["offset", "value.delay", "value.carrier", "badRecord"]).options(**given).load()
    assert len(frame.take(1)) == 1  # the task ends before its rows
    good = frame.where("badRecord is null").select("offset", "value.*")
    assert sorted(map(tuple, good.collect())) == [(delay, delay, "DL") for delay in range(100)]
    (letter,) = frame.where("badRecord is not null").collect()
    assert (letter.offset, letter.value, letter.badRecord.value) == (100, None, b"bad")

    def run() -> None:
        stream = read_stream(spark, columns=["value"]).options(**options, badRecords="null", startingOffsets="earliest")
        writer = stream.load().select("value.*").writeStream.option("checkpointLocation", f"{tmp_path}/checkpoint")
        query = writer.trigger(availableNow=True).format("parquet").start(f"{tmp_path}/rows")
        assert query.awaitTermination(LONGEST_S), f"the stream did not end: {query.lastProgress}"

    run()
    registry.register(subject, THIRD)
    kafka.append(topic, [framed(2, number(8) + b"\4AA")])
    run()
    found = spark.read.parquet(f"{tmp_path}/rows").collect()
    assert len(found) == 102
    assert [row.carrier for row in found if row.delay == 8 and row.carrier != "DL"] == ["AA"]


@pytest.fixture
def keyed(kafka: EmbeddedKafka, topic: str) -> str:
    with kafwire.Producer(kafka.bootstrap) as producer:
        for key, value in ((b"UA", b'{"n": 1}'), ("grün".encode(), "ü".encode()), (None, None), (b"\xff", b"\xfe")):
            producer.send(topic, value, key=key, partition=0)
    return topic


PLAIN = {"valueFormat": "", "schemaRegistry.url": "", "schemaRegistry.timeout.ms": ""}


def test_keys_and_values_are_text(keyed: str, source: Source) -> None:
    made = source(**PLAIN, keyFormat="text", columns="key,value")
    assert made.schema().simpleString() == "struct<key:string,value:binary>"
    with pytest.raises(DecodeError, match=rf"{keyed}-0, offset 3: .*invalid start byte"):
        rows(made)
    found = rows(source(**PLAIN | {"valueFormat": "text"}, keyFormat="text", columns="key,value", badRecords="null"))
    assert [row["key"] for row in found] == ["UA", "grün", None, None]
    assert [row["value"] for row in found] == ['{"n": 1}', "ü", None, None]


def test_keys_that_are_bad_become_dead_letters(keyed: str, source: Source) -> None:
    options = {"keyFormat": "text", "badRecords": "deadLetter", "columns": "key,badRecord"}
    found = rows(source(**PLAIN, **options))
    assert [row["key"] for row in found] == ["UA", "grün", None, None]
    assert [row["badRecord"] is None for row in found] == [True, True, True, False]
    letter = found[3]["badRecord"]
    assert letter["value"] == b"\xff"
    assert letter["cause"].startswith("key: ")
    of_json = {"valueFormat": "json", "valueSchema": "n INT", "columns": "value.n,key,badRecord"}
    both = rows(source(**PLAIN | options | of_json))
    assert [row["value"] for row in both] == [{"n": 1}, None, None, None]
    assert [row["badRecord"] and row["badRecord"]["value"] for row in both] == [None, "ü".encode(), None, b"\xfe"]


def test_keys_have_a_schema_of_their_own(
    kafka: EmbeddedKafka, registry: RegistryServer, topic: str, source: Source
) -> None:
    number_ = registry.register(f"{topic}-key", FIRST)
    with kafwire.Producer(kafka.bootstrap) as producer:
        producer.send(topic, b"v", key=framed(number_, b"\4UA"), partition=0)
    found = rows(source(valueFormat="", keyFormat="avro", columns="key,value"))
    assert found == [{"key": {"carrier": "UA"}, "value": b"v"}]
    json_keys = source(**PLAIN, keyFormat="json", keySchema="n INT", badRecords="null", columns="key")
    assert rows(json_keys) == [{"key": None}]
