"""The format `Avro` against a registry of this machine: subjects, framings, evolution, bad records."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kafwire.avro.schema import parse
from kafwire.bad_records import BadRecord
from kafwire.errors import ConfigError, DecodeError, SchemaError, SchemaRegistryError, UnknownSchemaError
from kafwire.registry import Reference, SchemaRegistry
from kafwire.registry.framing import ApicurioHeader, ApicurioPrefix, ConfluentHeader, ConfluentPrefix, GluePrefix
from kafwire.schemas.avro import Avro
from kafwire.schemas.avro_rows import RowReader, RowWriter, schema_object
from kafwire.schemas.subjects import subject_of
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support import avro_samples
from tests.support.avro_samples import Samples
from tests.support.schema_registry import RegistryServer, error
from tests.support.seeds import examples, of_test

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "namespace": "us",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "long"], "default": None}],
}
# The next version: without `delay`, with `tail`.
NEXT = {**FLIGHT, "fields": [FLIGHT["fields"][0], {"name": "tail", "type": "string", "default": "?"}]}
ROWS: list[dict[str, Any]] = [{"carrier": "UA", "delay": 2}, {"carrier": "grün", "delay": None}]
STRUCT = pa.struct([("carrier", pa.string()), ("delay", pa.int64())])


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, timeout_s=10)


def record(topic: str = "flights", field: str = "value") -> SerializationContext:
    return SerializationContext(topic, field, [])


def column(topic: str = "flights", headers: Any = None) -> ColumnContext:
    return ColumnContext(topic, "value", 0, headers)


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def written(schema: Any, row: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, row)
    return file.getvalue()


# --- both directions --------------------------------------------------------------------------------------------------


def test_rows_and_columns_have_the_same_bytes(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("flights-value", FLIGHT)
    avro = Avro(registry, FLIGHT)
    rows = [avro.serialize(row, record()) for row in ROWS]
    assert rows == [framed(number, written(FLIGHT, row)) for row in ROWS]
    made = avro.serialize_column(pa.array([ROWS[0], None, ROWS[1]], STRUCT), column())
    assert made.to_pylist() == [rows[0], None, rows[1]]
    assert [avro.deserialize(data, record()) for data in rows] == ROWS
    back = avro.deserialize_column(made, column())
    assert (back.type, back.to_pylist()) == (STRUCT, [ROWS[0], None, ROWS[1]])
    assert avro.arrow_type(column()) == STRUCT


def test_each_schema_is_asked_for_once(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-value", FLIGHT)
    avro = Avro(registry, FLIGHT)
    data = [avro.serialize(ROWS[0], record()) for _ in range(3)]
    assert server.paths == ["/subjects/flights-value"]
    assert [avro.deserialize(each, record()) for each in data] == [ROWS[0]] * 3
    assert len(server.paths) == 2
    avro.deserialize_column(pa.array(data), column())
    assert len(server.paths) == 2


def test_a_schema_that_is_no_record_has_plain_columns(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-key", "string")
    avro = Avro(registry, "string")
    key = SerializationContext("flights", "key", [])
    data = avro.serialize("UA", key)
    assert data == framed(1, b"\x04UA")
    assert avro.deserialize(data, key) == "UA"
    ctx = ColumnContext("flights", "key", 0)
    assert avro.serialize_column(pa.array(["UA", None]), ctx).to_pylist() == [data, None]
    assert avro.deserialize_column(pa.array([data, None]), ctx).to_pylist() == ["UA", None]
    assert avro.arrow_type(ctx) == pa.string()


def test_chunks_of_a_large_column_are_one_column(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-value", FLIGHT)
    avro = Avro(registry)
    data = framed(1, written(FLIGHT, ROWS[0]))
    parts = pa.chunked_array([[data, b"bad"], [data]], pa.binary())
    avro.on_bad = "null"
    assert avro.deserialize_column(parts, column()).to_pylist() == [ROWS[0], None, ROWS[0]]


# --- subjects, registration -------------------------------------------------------------------------------------------


def test_nothing_is_registered_unless_the_user_says_so(server: RegistryServer, registry: SchemaRegistry) -> None:
    for write in (
        lambda: Avro(registry, FLIGHT).serialize(ROWS[0], record()),
        lambda: Avro(registry, FLIGHT).serialize_column(pa.array(ROWS, STRUCT), column()),
    ):
        with pytest.raises(UnknownSchemaError, match="register the schema in subject 'flights-value'.*register=True"):
            write()
    assert server.subjects.versions == {}
    avro = Avro(registry, FLIGHT, register=True)
    assert avro.serialize(ROWS[0], record())[:5] == framed(1, b"")
    assert list(server.subjects.versions) == ["flights-value"]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("topic", "flights-value"),
        ("record", "us.Flight"),
        ("topic-record", "flights-us.Flight"),
        (lambda ctx, name: f"{ctx.field}/{ctx.topic}/{name}", "value/flights/us.Flight"),
    ],
)
def test_the_subject_follows_the_strategy(
    server: RegistryServer, registry: SchemaRegistry, subject: Any, expected: str
) -> None:
    avro = Avro(registry, FLIGHT, subject=subject, register=True)
    data = avro.serialize(ROWS[0], record())
    assert list(server.subjects.versions) == [expected]
    reading = Avro(registry, subject=subject)
    assert reading.deserialize(data, record()) == ROWS[0]
    assert Avro(registry, subject=subject).deserialize_column(pa.array([None, data]), column()).to_pylist() == [
        None,
        ROWS[0],
    ]
    assert server.paths[-1].startswith("/subjects/")


def test_subjects_that_cannot_be_named_are_errors(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="needs one topic"):
        subject_of("topic", record(topic=""), "us.Flight")
    with pytest.raises(ConfigError, match="needs a schema with a name"):
        subject_of("record", record(), "")
    with pytest.raises(ConfigError, match="returned None"):
        subject_of(lambda ctx, name: None, record(), "")  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match='subject is "topic"'):
        Avro(registry, subject="TopicNameStrategy")  # type: ignore[arg-type]


def test_without_a_schema_the_latest_is_written(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-value", FLIGHT)
    number = server.register("flights-value", NEXT)
    avro = Avro(registry)
    row = {"carrier": "UA", "tail": "N1"}
    assert avro.serialize(row, record()) == framed(number, written(NEXT, row))
    assert avro.deserialize(avro.serialize(row, record()), record()) == row


def test_a_subject_that_is_missing_is_an_error_and_no_bad_record(
    server: RegistryServer, registry: SchemaRegistry
) -> None:
    server.register("other", FLIGHT)
    avro = Avro(registry, on_bad="null")
    with pytest.raises(UnknownSchemaError, match="flights-value"):
        avro.deserialize(framed(1, b"\x04UA\0"), record())
    with pytest.raises(UnknownSchemaError, match="flights-value"):
        avro.arrow_type(column())


def test_references_are_resolved(server: RegistryServer, registry: SchemaRegistry) -> None:
    airport = {"type": "record", "name": "us.Airport", "fields": [{"name": "code", "type": "string"}]}
    server.register("airport", airport)
    flight = {
        "type": "record",
        "name": "us.Flight",
        "fields": [{"name": "origin", "type": "us.Airport"}, {"name": "dest", "type": ["null", "us.Airport"]}],
    }
    avro = Avro(registry, flight, references=[Reference("us.Airport", "airport", 1)], register=True)
    row = {"origin": {"code": "EWR"}, "dest": {"code": "IAH"}}
    data = avro.serialize(row, record())
    assert Avro(registry).deserialize(data, record()) == row
    assert Avro(registry).deserialize_column(pa.array([data]), column()).to_pylist() == [row]
    assert avro.serialize_column(Avro(registry).deserialize_column(pa.array([data]), column()), column()) == pa.array(
        [data]
    )


def test_a_reference_to_a_soft_deleted_version_is_resolved_by_one_request(
    server: RegistryServer, registry: SchemaRegistry
) -> None:
    server.register("airport", {"type": "record", "name": "us.Airport", "fields": []})
    flight = {"type": "record", "name": "us.Flight", "fields": [{"name": "origin", "type": "us.Airport"}]}
    server.register("flights-value", flight, references=[("us.Airport", "airport", 1)])
    server.subjects.versions["airport"][1].deleted = True
    reader = {
        **flight,
        "fields": [*flight["fields"], {"name": "dest", "type": ["null", "us.Airport"], "default": None}],
    }
    avro = Avro(registry, flight, reader, references=[Reference("us.Airport", "airport", 1)])
    data = avro.serialize({"origin": {}}, record())
    assert avro.deserialize(data, record()) == {"origin": {}, "dest": None}
    assert sum(path.startswith("/subjects/airport/versions/1") for path in server.paths) == 2  # and the writer's schema


# --- evolution --------------------------------------------------------------------------------------------------------


def test_the_readers_schema_is_fixed_or_the_latest(server: RegistryServer, registry: SchemaRegistry) -> None:
    old = server.register("flights-value", FLIGHT)
    data = framed(old, written(FLIGHT, ROWS[0]))
    as_next = {"carrier": "UA", "tail": "?"}
    latest = Avro(registry)
    assert latest.deserialize(data, record()) == ROWS[0]
    server.register("flights-value", NEXT)
    assert latest.deserialize(data, record()) == ROWS[0]  # the latest at the first read
    for avro in (Avro(registry), Avro(registry, reader=NEXT), Avro(registry, NEXT)):
        assert avro.deserialize(data, record()) == as_next
        assert avro.deserialize_column(pa.array([data]), column()).to_pylist() == [as_next]
    fixed = Avro(registry, NEXT, FLIGHT)
    assert fixed.deserialize(data, record()) == ROWS[0]
    assert fixed.arrow_type(column("")) == STRUCT


def test_schemas_that_do_not_match_make_bad_records(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("flights-value", FLIGHT)
    data = framed(number, written(FLIGHT, ROWS[0]))
    strict = {**FLIGHT, "fields": [{"name": "tail", "type": "string"}]}
    with pytest.raises(DecodeError, match="tail"):
        Avro(registry, reader=strict).deserialize(data, record())
    with pytest.raises(DecodeError, match="tail"):
        Avro(registry, reader=strict).deserialize_column(pa.array([data]), column())
    assert Avro(registry, reader=strict, on_bad="null").deserialize(data, record()) is None


# --- framings ---------------------------------------------------------------------------------------------------------

FRAMINGS = [
    ConfluentPrefix(),
    ConfluentHeader(),
    ApicurioPrefix(),
    ApicurioPrefix(id_bytes=4),
    ApicurioHeader(),
    GluePrefix(),
    GluePrefix(compress=True),
]


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
def test_every_framing_both_ways(server: RegistryServer, registry: SchemaRegistry, framing: Any) -> None:
    server.register("flights-value", FLIGHT)
    avro = Avro(registry, FLIGHT, framing=framing)
    contexts = [record() for _ in ROWS]
    rows = [avro.serialize(row, ctx) for row, ctx in zip(ROWS, contexts, strict=True)]
    assert [avro.deserialize(data, ctx) for data, ctx in zip(rows, contexts, strict=True)] == ROWS
    sent = column()
    made = avro.serialize_column(pa.array([*ROWS, None], STRUCT), sent)
    assert made.to_pylist() == [*rows, None]
    assert sent.headers == contexts[0].headers
    headers = pa.array([sent.headers] * 3, pa.map_(pa.string(), pa.binary()))
    back = avro.deserialize_column(made, column(headers=headers))
    assert (back.type, back.to_pylist()) == (STRUCT, [*ROWS, None])


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
def test_every_framing_has_bad_records(server: RegistryServer, registry: SchemaRegistry, framing: Any) -> None:
    server.register("flights-value", FLIGHT)
    found: list[BadRecord] = []
    avro = Avro(registry, FLIGHT, framing=framing, on_bad=found.append)
    ctx = record()
    good = avro.serialize(ROWS[0], ctx)
    broken = good[:-2]
    assert avro.deserialize(broken, ctx) is None
    assert avro.deserialize(b"\x09", record()) is None
    assert len(found) == 2
    headers = pa.array([ctx.headers, ctx.headers, [], ctx.headers], pa.map_(pa.string(), pa.binary()))
    values = pa.array([good, broken, b"\x09", None], pa.binary())
    assert avro.deserialize_column(values, column(headers=headers)).to_pylist() == [ROWS[0], None, None, None]
    assert [(each.row, each.data) for each in found[2:]] == [(1, broken), (2, b"\x09")]
    known = avro._writings["flights-value"].schema_id
    if not (isinstance(framing, GluePrefix) and framing.compress):  # cut off within the compressed bytes
        assert (found[0].schema_id, found[2].schema_id) == (known, known)


def test_a_guid_in_the_first_bytes_is_read_in_columns_too(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("flights-value", FLIGHT)
    guid = registry.registered(number).guid
    assert guid is not None
    payload = written(FLIGHT, ROWS[0])
    values = [b"\x01" + guid.bytes + payload, framed(number, payload)]
    avro = Avro(registry)
    assert [avro.deserialize(each, record()) for each in values] == [ROWS[0]] * 2
    assert avro.deserialize_column(pa.array(values), column()).to_pylist() == [ROWS[0]] * 2


# --- bad records, failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (framed(1, b"\x04UA\0\0"), "1 bytes are left"),
        (framed(1, b"\x7fUA"), "carrier"),
        (framed(1, b"\x04UA\x04"), "union has no branch 2"),
        (framed(1, b"\x04UA\x01"), "union has no branch -1"),
        (framed(9, b"\x04UA\0"), "9"),
        (b"\x05", "first byte is 5"),
        (b"", "bytes"),
    ],
)
def test_bad_bytes_are_bad_records_in_rows_and_columns(
    server: RegistryServer, registry: SchemaRegistry, data: bytes, cause: str
) -> None:
    server.register("flights-value", FLIGHT)
    with pytest.raises(DecodeError, match=cause):
        Avro(registry).deserialize(data, record())
    with pytest.raises(DecodeError, match="row 1: .*"):
        Avro(registry).deserialize_column(pa.array([None, data]), column())
    found: list[BadRecord] = []
    avro = Avro(registry, on_bad=found.append)
    assert avro.deserialize(data, record()) is None
    assert avro.deserialize_column(pa.array([None, data]), column()).to_pylist() == [None, None]
    assert [(each.row, each.data, each.topic, each.field) for each in found] == [
        (0, data, "flights", "value"),
        (1, data, "flights", "value"),
    ]


def test_a_registry_that_fails_makes_no_record_bad(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-value", FLIGHT)
    avro = Avro(registry, FLIGHT, on_bad="null")
    data = framed(1, written(FLIGHT, ROWS[0]))
    reads: list[Callable[[], object]] = [
        lambda: avro.deserialize(data, record()),
        lambda: avro.deserialize_column(pa.array([data]), column()),
    ]
    for read in reads:
        server.replies.append(error(403, 40301, "Forbidden"))
        with pytest.raises(SchemaRegistryError, match="Forbidden"):
            read()
    assert avro.deserialize(data, record()) == ROWS[0]


def test_a_schema_of_another_type_is_a_bad_record(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-value", FLIGHT)
    number = server.register("other", 'syntax = "proto3"; message M {}', kind="PROTOBUF")
    with pytest.raises(DecodeError, match="PROTOBUF"):
        Avro(registry).deserialize(framed(number, b""), record())


def test_a_column_of_bad_records_alone(server: RegistryServer, registry: SchemaRegistry) -> None:
    found: list[BadRecord] = []
    avro = Avro(registry, subject="record", on_bad=found.append)
    made = avro.deserialize_column(pa.array([b"\x09", None]), column())
    assert made.to_pylist() == [None, None]
    assert [each.row for each in found] == [0]
    assert avro.arrow_type(column()) is None


def test_arguments_are_checked(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigError, match="register=True needs the schema"):
        Avro(registry, register=True)
    with pytest.raises(ConfigError, match="JSON text or its object, not int"):
        Avro(registry, 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="enums is"):
        Avro(registry, enums="int")
    with pytest.raises(ConfigError, match="on_bad is"):
        Avro(registry, on_bad="drop")  # type: ignore[arg-type]


def test_a_format_pickles(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-value", FLIGHT)
    avro = Avro(registry, FLIGHT)
    data = avro.serialize(ROWS[0], record())
    avro.deserialize_column(pa.array([data]), column())
    again = pickle.loads(pickle.dumps(avro))
    assert again.serialize(ROWS[0], record()) == data
    assert again.deserialize_column(pa.array([data]), column()).to_pylist() == [ROWS[0]]


# --- single rows ------------------------------------------------------------------------------------------------------


def test_fields_that_the_schema_lacks_are_refused() -> None:
    writer = RowWriter(parse(FLIGHT))
    with pytest.raises(ValueError, match="more fields than the schema"):
        writer.write({**ROWS[0], "tail": "N1"})
    assert writer.write({"carrier": "UA"}) == b"\x04UA\0"


def test_a_number_that_int_does_not_hold_is_refused() -> None:
    writer = RowWriter(parse({"type": "array", "items": "int"}))
    assert writer.write([1]) == b"\x02\x02\0"
    with pytest.raises(DecodeError, match="5 bytes"):
        writer.write([1 << 40])


def test_an_array_without_bytes_that_claims_many_items_is_refused() -> None:
    for items in ("null", {"type": "record", "name": "E", "fields": []}, {"type": "fixed", "name": "F", "size": 0}):
        reader = RowReader(parse({"type": "array", "items": items}), None)
        assert len(reader.read(b"\x04\0")) == 2
        with pytest.raises(DecodeError, match="items without bytes"):
            reader.read(avro_samples.number(1 << 50) + b"\0")


def test_rows_of_random_schemas_read_as_fastavro_reads_them() -> None:
    first = of_test()
    for seed in range(first, first + examples(200)):
        samples = Samples(seed, apart=True)
        schema = avro_samples.without_logical(samples.record())
        data = samples.encode(schema, samples.value(schema))
        value = fastavro.schemaless_reader(io.BytesIO(data), schema, None)
        parsed = parse(json.dumps(schema))
        assert repr(RowReader(parsed, None).read(data)) == repr(value), f"seed {seed}"
        again = RowReader(parsed, None).read(RowWriter(parsed).write(value))
        assert repr(again) == repr(value), f"seed {seed}"
        assert schema_object(parse(schema_object(parsed))) == schema_object(parsed), f"seed {seed}"


def test_a_schema_that_fastavro_refuses_is_a_schema_error() -> None:
    twice = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long", "default": 0.5}]}
    with pytest.raises(SchemaError, match="fastavro, which converts single records, refuses"):
        RowWriter(parse(twice))


# --- hostile schemas of a registry ------------------------------------------------------------------------------------


def test_references_in_a_circle_make_bad_records(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("flights-value", FLIGHT)
    names = ("us.A", "us.B")
    for i, name in enumerate(names):
        other = names[1 - i]
        schema = {"type": "record", "name": name, "fields": [{"name": "x", "type": other}]}
        number = server.register(name, schema, references=[(other, other, 1)])
    with pytest.raises(DecodeError, match="refers to itself"):
        Avro(registry).deserialize(framed(number, b"\0"), record())
    avro = Avro(registry, on_bad="null")
    good = framed(1, written(FLIGHT, ROWS[0]))
    values = pa.array([framed(number, b"\0"), good])
    assert avro.deserialize_column(values, column()).to_pylist() == [None, ROWS[0]]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "us.Flight", "fields": [{"name": "next", "type": ["null", "us.Flight"]}]},
        '{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000,
        '{"type":"array","items":' * 65 + '"int"' + "}" * 65,
        '{"type": "fixed", "name": "F", "size": 1000000000}',
        '{"type": "record"',
    ],
    ids=["recursion", "very deep", "deep", "size", "no JSON"],
)
def test_hostile_schemas_make_bad_records(server: RegistryServer, registry: SchemaRegistry, schema: Any) -> None:
    server.register("flights-value", FLIGHT)
    text = schema if isinstance(schema, str) else json.dumps(schema)
    number = server.register("hostile", text)
    assert server.register("hostile again", text) == number
    assert server.register("other", f" {text}  ") > 0
    avro = Avro(registry, on_bad="null")
    data = framed(number, b"\x02" * 100_000)
    good = framed(1, written(FLIGHT, ROWS[0]))
    assert avro.deserialize(data, record()) is None
    assert avro.deserialize_column(pa.array([data, good]), column()).to_pylist() == [None, ROWS[0]]
    assert server.paths.count(f"/schemas/ids/{number}") == 1
