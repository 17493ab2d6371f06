"""Recursive Avro schemas: rows as fastavro has them, columns with JSON text, bounded depth."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire import Avro
from kafwire.avro import AvroDecoder
from kafwire.bad_records import BadRecord
from kafwire.errors import ConfigError, DecodeError, SchemaError
from kafwire.registry import SchemaRegistry
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support.schema_registry import RegistryServer

TREE: dict[str, Any] = {
    "type": "record",
    "name": "a.Node",
    "fields": [
        {"name": "label", "type": ["null", "string", "bytes", "double"]},
        {"name": "size", "type": "int"},
        {"name": "kids", "type": {"type": "array", "items": "Node"}},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "named", "type": {"type": "map", "values": "Node"}},
    ],
}
FOREST: dict[str, Any] = {
    "type": "record",
    "name": "Forest",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "root", "type": ["string", TREE]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["X", "Y"]}},
    ],
}
PARSED = fastavro.parse_schema(FOREST)
PREFIX = b"\0\0\0\0\1"

LABELS = st.none() | st.text(max_size=3) | st.binary(max_size=3) | st.floats(allow_nan=False)


def node(kids: Any = None) -> Any:
    return st.fixed_dictionaries(
        {
            "label": LABELS,
            "size": st.integers(-(2**31), 2**31 - 1),
            "kids": st.just([]) if kids is None else st.lists(kids, max_size=2),
            "next": st.none() if kids is None else st.none() | kids,
            "named": st.just({}) if kids is None else st.dictionaries(st.text(max_size=2), kids, max_size=2),
        }
    )


NODES = st.recursive(node(), node, max_leaves=6)
FORESTS = st.fixed_dictionaries(
    {"day": st.dates(), "root": st.text(max_size=3) | NODES, "kind": st.sampled_from(["X", "Y"])}
)


def written(value: Any, schema: Any = PARSED) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, schema, value)
    return PREFIX + file.getvalue()


def record() -> SerializationContext:
    return SerializationContext("forests", "value", [])


def column() -> ColumnContext:
    return ColumnContext("forests", "value")


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        server.register("forests-value", FOREST)
        server.register("nodes-value", TREE)
        yield server


@pytest.fixture(scope="module")
def avro(server: RegistryServer) -> Avro:
    return Avro(SchemaRegistry(server.url), FOREST, recursive="json")


@given(FORESTS)
def test_rows_are_those_of_fastavro(avro: Avro, value: Any) -> None:
    data = written(value)
    assert avro.serialize(value, record()) == data
    assert avro.deserialize(data, record()) == value


@given(st.lists(FORESTS, min_size=1, max_size=3))
def test_columns_have_json_text_and_lose_nothing(avro: Avro, values: list[Any]) -> None:
    data = [written(value) for value in values]
    made = avro.deserialize_column(pa.array([*data, None]), column())
    assert made.type == avro.arrow_type(column())
    assert [None if each is None else each["kind"] for each in made.to_pylist()] == [*(v["kind"] for v in values), None]
    assert avro.serialize_column(made, column()).to_pylist() == [*data, None]


def test_the_text_is_avros_json_encoding(avro: Avro) -> None:
    leaf: dict[str, Any] = {"label": None, "size": 1, "kids": [], "next": None, "named": {}}
    tree = {**leaf, "label": b"\xff", "next": {**leaf, "label": float("inf")}}
    made = avro.deserialize_column(pa.array([written({"day": 1, "root": tree, "kind": "X"})]), column())
    text = made.to_pylist()[0]["root"]["member1"]
    inner = {**leaf, "label": {"double": "Infinity"}}
    assert json.loads(text) == {**leaf, "label": {"bytes": "\u00ff"}, "next": {"a.Node": inner}}
    assert str(made.type) == "struct<day: date32[day], root: struct<member0: string, member1: string>, kind: string>"


@given(FORESTS, st.integers(0, 60), st.binary(max_size=2))
def test_damaged_bytes_are_bad_in_rows_and_columns_alike(avro: Avro, value: Any, at: int, junk: bytes) -> None:
    data = written(value)
    data = data[:5] + data[5 : 5 + at] + junk
    try:
        row = avro.deserialize(data, record())
    except DecodeError:
        with pytest.raises(DecodeError):
            avro.deserialize_column(pa.array([data]), column())
    else:
        assert row["kind"] == avro.deserialize_column(pa.array([data]), column()).to_pylist()[0]["kind"]


def chain(length: int) -> dict[str, Any]:
    made: dict[str, Any] | None = None
    for _ in range(length):
        made = {"label": None, "size": 0, "kids": [], "next": made, "named": {}}
    assert made is not None
    return made


def test_depth_is_bounded(avro: Avro) -> None:
    assert avro.deserialize(avro.serialize({"day": 1, "root": chain(99), "kind": "X"}, record()), record())
    with pytest.raises(DecodeError, match="more than 100 records within each other"):
        avro.serialize({"day": 1, "root": chain(100), "kind": "X"}, record())
    endless: dict[str, Any] = chain(1)
    endless["next"] = endless
    with pytest.raises(ValueError, match="more than 400 levels, or contains itself"):
        avro.serialize({"day": 1, "root": endless, "kind": "X"}, record())
    bomb = PREFIX + b"\2\2" + b"\0\0\0\2" * 100_000
    with pytest.raises(DecodeError, match="more than 100 records within each other"):
        avro.deserialize(bomb, record())
    with pytest.raises(DecodeError, match="more than 100 records within each other"):
        avro.deserialize_column(pa.array([bomb]), column())


def test_columns_are_refused_with_the_cycle_and_the_option(server: RegistryServer) -> None:
    expected = r"root<record a.Node>.kids\[\]: the record 'a.Node' contains itself \(a.Node > a.Node\), .*Avro\(recurs"
    plain = Avro(SchemaRegistry(server.url), FOREST)
    data = written({"day": 1, "root": "x", "kind": "X"})
    assert plain.deserialize(data, record())["root"] == "x"
    for convert in (plain.deserialize_column, plain.serialize_column):
        with pytest.raises(SchemaError, match=expected):
            convert(pa.array([data]), column())
    with pytest.raises(SchemaError, match=expected):
        AvroDecoder(FOREST, writer=FOREST)
    with pytest.raises(ConfigError, match="recursive is 'error' or 'json'"):
        Avro(SchemaRegistry(server.url), FOREST, recursive="text")  # type: ignore[arg-type]


def test_a_reader_may_lack_the_recursive_field(server: RegistryServer) -> None:
    reader = {**FOREST, "fields": [FOREST["fields"][0]]}
    avro = Avro(SchemaRegistry(server.url), reader=reader, recursive="json")
    data = written({"day": 7, "root": chain(3), "kind": "X"})
    assert avro.deserialize_column(pa.array([data]), column()).field("day").cast(pa.int32()).to_pylist() == [7]


def test_a_wrong_text_names_its_row(avro: Avro) -> None:
    good = avro.deserialize_column(pa.array([written({"day": 1, "root": chain(1), "kind": "X"})]), column())
    rows = pa.array([*good.to_pylist(), {"day": 1, "root": {"member1": '{"label": 1}'}, "kind": "X"}], good.type)
    with pytest.raises(ConfigError, match="row 1: .* is no record a.Node in Avro's JSON encoding"):
        avro.serialize_column(rows, column())


def test_bad_records_have_their_row_and_id(server: RegistryServer) -> None:
    letters: list[BadRecord] = []
    avro = Avro(SchemaRegistry(server.url), FOREST, recursive="json", on_bad=letters.append)
    avro.deserialize_column(pa.array([b"?", written({"day": 1, "root": "", "kind": "Y"}), PREFIX + b"\2"]), column())
    assert [(each.row, each.schema_id) for each in letters] == [(0, None), (2, 1)]
