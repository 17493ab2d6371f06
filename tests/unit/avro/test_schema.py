"""Schemas that cannot be are refused, with the field and the reason."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from kafwire.avro.columns import Columns
from kafwire.avro.program import compile_program
from kafwire.avro.recursive import cycle_of, recursive_names
from kafwire.avro.schema import MISSING, parse
from kafwire.errors import SchemaError


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "the text is not JSON"),
        ("nope", "'nope' is not a type that the schema has defined up to here"),
        (3, "3 is not a type"),
        ({}, "an object without 'type'"),
        ({"type": "array"}, "'array' has no 'items'"),
        ({"type": "record", "name": "R"}, "has no 'fields'"),
        (record(field("a", "int"), field("a", "int")), "the record 'R' has the field 'a' twice"),
        (record(field("1a", "int")), "'1a' is no name"),
        (record(3), "a field of the record 'R' is no object"),
        (record(fields=3), "'fields' of the record 'R' is no array"),
        (record(field("a", record(field("b", ["null", "R"])))), "R' is defined twice"),
        (["int", "int"], "a union that has 'int' twice"),
        (["int", ["null"]], "a union directly in a union"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "the enum 'E' has a symbol twice"),
        ({"type": "enum", "name": "E", "symbols": ["A-B"]}, "'A-B' is no name"),
        ({"type": "enum", "name": "E", "symbols": "AB"}, "'symbols' is no array"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "the default 'B' of the enum"),
        ({"type": "fixed", "name": "F", "size": -1}, "the size of the fixed 'F' is -1"),
        ({"type": "fixed", "name": "F", "size": True}, "the size of the fixed 'F' is True"),
        ({"type": "fixed", "name": "int", "size": 1}, "belongs to a primitive type"),
        ({"type": "fixed", "name": 3, "size": 1}, "a name or namespace that is no text"),
    ],
)
def test_a_schema_that_cannot_be(schema: Any, said: str) -> None:
    with pytest.raises(SchemaError, match="Avro schema") as caught:
        parse(schema)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "path", "names"),
    [
        (record(field("next", ["null", "R"])), "next<record R>", ["R", "R"]),
        (record(field("a", {"type": "map", "values": "R"})), "a{}", ["R", "R"]),
        ([record(field("a", {"type": "array", "items": "R"}))], "<record R>.a[]", ["R", "R"]),
        (
            record(field("b", {"type": "record", "name": "B", "fields": [field("r", ["null", "R"])]})),
            "b.r<record R>",
            ["R", "B", "R"],
        ),
        (record(field("a", "int"), field("b", {"type": "fixed", "name": "F", "size": 2}), field("c", "F")), "", None),
    ],
)
def test_a_record_may_contain_itself(schema: Any, path: str, names: list[str] | None) -> None:
    parsed = parse(schema)
    assert cycle_of(parsed) == (None if names is None else (path, names))
    assert recursive_names(parsed) == frozenset(names or ())
    copied = pickle.loads(pickle.dumps(parsed))
    assert recursive_names(copied) == recursive_names(parsed)


def test_a_record_between_two_cycles_does_not_contain_itself() -> None:
    low = {"type": "record", "name": "Low", "fields": [field("next", ["null", "Low"])]}
    between = {"type": "record", "name": "Between", "fields": [field("low", low)]}
    top = {"type": "record", "name": "Top", "fields": [field("next", ["null", "Top"]), field("between", between)]}
    assert recursive_names(parse(top)) == {"Top", "Low"}


def test_a_large_recursive_schema_takes_no_time() -> None:
    fields = [{"name": "r0", "type": ["null", {"type": "record", "name": "R0", "fields": []}]}]
    for level in range(1, 20_000):
        inner = [field("a", f"R{level - 1}"), field("b", f"R{max(0, level - 2)}"), field("top", ["null", "Top"])]
        fields.append(field(f"r{level}", {"type": "record", "name": f"R{level}", "fields": inner}))
    found = cycle_of(parse({"type": "record", "name": "Top", "fields": fields}))
    assert found is not None
    assert found[1][0] == "Top"


def test_types_that_are_nested_too_deep() -> None:
    schema: Any = "int"
    for _ in range(65):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SchemaError, match="nested"):
        parse(schema)
    with pytest.raises(SchemaError, match="Avro schema"):
        parse('{"type":' * 20_000 + "1" + "}" * 20_000)


def test_names_in_namespaces() -> None:
    inner = {"type": "fixed", "name": "F", "size": 2, "aliases": ["G", "x.H"]}
    schema = parse(record(field("a", inner), field("b", "F"), field("c", "n.F"), namespace="n"))
    assert [each.type.name for each in schema.fields] == ["n.F"] * 3
    assert schema.fields[0].type.aliases == ("n.G", "x.H")


def test_logical_types_that_do_not_fit_are_ignored() -> None:
    for schema in (
        {"type": "int", "logicalType": "timestamp-millis"},
        {"type": "bytes", "logicalType": "decimal", "precision": 0},
        {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 4},
        {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10},
        {"type": "string", "logicalType": ["uuid"]},
        {"type": "long", "logicalType": "fortnight"},
    ):
        assert parse(schema).logical is None
    assert (
        parse({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9}).logical is not None
    )


def test_a_pickled_schema_keeps_that_a_field_has_no_default() -> None:
    assert pickle.loads(pickle.dumps(parse(record(field("a", "int"))))).fields[0].default is MISSING


@pytest.mark.parametrize(
    ("kind", "default", "said"),
    [
        ("int", "x", "the default is not a valid int: 'x'"),
        ("int", 1 << 31, "the default is not a valid int"),
        ("boolean", 0, "the default is not a valid boolean"),
        ("float", 1e300, "out of range"),
        ("string", "\ud800", "half a surrogate pair"),
        ("bytes", "\u0100", "beyond U+00FF"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "has 3 bytes, not 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "the default is not a valid enum E: 'B'"),
        (["null", "int"], "x", "has no type of the union"),
        ({"type": "array", "items": "int"}, ["x"], "the default is not a valid array: 'x'"),
        (record(field("b", "int"), name="B"), {}, "the field 'b' of record B is missing"),
    ],
)
def test_a_default_that_cannot_be_is_refused_where_it_is_needed(kind: Any, default: Any, said: str) -> None:
    reader = record(field("a", kind, default=default))
    with pytest.raises(SchemaError) as caught:
        compile_program(parse(record()), Columns(parse(reader)))
    assert "Avro schema, a: " in str(caught.value)
    assert said in str(caught.value)


def exploding(levels: int, leaf: list[Any]) -> str:
    """A schema of few lines whose records hold two of the ones before."""
    named = record(*leaf, name="L0")
    for level in range(1, levels):
        named = {
            "type": "record",
            "name": f"L{level}",
            "fields": [field("a", named), field("b", f"L{level - 1}")],
        }
    return json.dumps(named)


def test_a_small_schema_of_many_columns_is_refused() -> None:
    with pytest.raises(SchemaError, match="more than 10000 columns"):
        Columns(parse(exploding(30, [field("x", "int")])))
    writer = parse(record(field("a", json.loads(exploding(30, [field("x", "int")])))))
    with pytest.raises(SchemaError, match="more than 100000 operations"):
        compile_program(writer, Columns(parse(record())))


def test_a_writer_of_many_empty_records_is_skipped_at_once() -> None:
    writer = parse(record(field("a", json.loads(exploding(60, [])))))
    assert len(compile_program(writer, Columns(parse(record()))).operations) == 1


def test_defaults_of_nested_records_are_those_of_their_fields() -> None:
    leaf = json.loads(exploding(12, [field("x", "int", default=1)]))

    def with_empty_defaults(schema: Any) -> Any:
        for each in schema["fields"]:
            if isinstance(each["type"], dict):
                with_empty_defaults(each["type"])
            each.setdefault("default", {})
        return schema

    reader = record(field("a", with_empty_defaults(leaf), default={}))
    compile_program(parse(record()), Columns(parse(reader)))


@pytest.mark.parametrize("precision", [38, 76])
def test_decimals_as_wide_as_arrow_holds(precision: int) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
    assert Columns(parse(schema)).columns[1].width == (16 if precision == 38 else 32)
    with pytest.raises(SchemaError, match="decimals of 77 digits have no Arrow type"):
        Columns(parse({**schema, "precision": 77}))
