"""Pairs of Avro schemas, a writer's and a reader's, and values of the writers, for the targets that decode Avro."""

from __future__ import annotations

from typing import Any

from kafwire.avro.default import encode
from kafwire.avro.schema import parse

__all__ = ["PAIRS", "corpus"]


def record(name: str, **fields: Any) -> dict[str, Any]:
    """A record with these fields."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def with_defaults(schema: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The record with fields of its own defaults."""
    made = [{"name": key, "type": kind, "default": default} for key, (kind, default) in defaults.items()]
    return {**schema, "fields": [*schema["fields"], *made]}


def decimal(precision: int, scale: int, **more: Any) -> dict[str, Any]:
    """A decimal, of bytes unless it says otherwise."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale, **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "BB", "CCC"]}
FIXED = {"type": "fixed", "name": "F", "size": 3}
PLAIN = record(
    "R", a="boolean", b="int", c="long", d="float", e="double", f="bytes", g="string", h="null", i=ENUM, j=FIXED
)
TIMES = record(
    "R",
    a={"type": "int", "logicalType": "time-millis"},
    b={"type": "long", "logicalType": "timestamp-millis"},
    c=decimal(5, 2),
    d=decimal(76, 3),
    e=decimal(38, 0, type="fixed", name="D", size=17),
)
TIMES_READ = record(
    "R",
    a={"type": "long", "logicalType": "time-micros"},
    b={"type": "long", "logicalType": "timestamp-nanos"},
    c=decimal(5, 2),
    d=decimal(76, 3),
    e=decimal(38, 0, type="fixed", name="D", size=17),
)
NESTED = record(
    "R",
    a={"type": "array", "items": {"type": "array", "items": "string"}},
    b={"type": "map", "values": record("M", x=["null", "long"], y={"type": "array", "items": "int"})},
    c=["int", "null", "string", {"type": "array", "items": ["null", "double"]}],
    d={"type": "array", "items": "null"},
    e={"type": "array", "items": record("Empty")},
)
NESTED_READ = with_defaults(
    record(
        "R", c=NESTED["fields"][2]["type"], a=NESTED["fields"][0]["type"], e={"type": "array", "items": record("Empty")}
    ),
    z=({"type": "map", "values": "double"}, {"k": 0.5}),
)
NESTED_READ["fields"][2]["type"]["items"] = with_defaults(record("Empty"), n=("string", "new"))
ENUM_READ = {**ENUM, "symbols": ["CCC", "X"], "default": "X"}
UNION = record("R", u=["null", "string", "int", ENUM, record("M", x="int")], v="string")

PAIRS: list[tuple[Any, Any]] = [
    (PLAIN, PLAIN),
    (PLAIN, record("R", g="bytes", b="double", c="float", d="double", i=ENUM_READ, f="string")),
    (PLAIN, with_defaults(record("R"), z=("int", 1))),
    (TIMES, TIMES_READ),
    (NESTED, NESTED),
    (NESTED, NESTED_READ),
    (UNION, UNION),
    (UNION, record("R", u=["null", "string", "long"], v=["bytes", "null"])),
    ("long", ["null", "double", "string"]),
]

VALUES: list[tuple[Any, Any]] = [
    (
        PLAIN,
        {
            "a": True,
            "b": -1,
            "c": 1 << 40,
            "d": 0.5,
            "e": 2.5,
            "f": "\u00ff",
            "g": "é",
            "h": None,
            "i": "BB",
            "j": "abc",
        },
    ),
    (TIMES, {"a": 1, "b": -1, "c": "\u0012\u0034", "d": "\u00ff" * 20, "e": "\u0000" * 16 + "\u0001"}),
    (
        NESTED,
        {
            "a": [["x", "yz"], []],
            "b": {"k": {"x": None, "y": [1, 2]}},
            "c": [None, 0.5],
            "d": [None, None],
            "e": [{}, {}],
        },
    ),
    (UNION, {"u": {"x": 7}, "v": "text"}),
    ("long", -3),
]


def corpus() -> list[bytes]:
    """Two values of the writer of each pair: the pair's number, the length of the first, and the values."""
    out = []
    for number, (writer, _) in enumerate(PAIRS):
        value = next(value for schema, value in VALUES if schema is writer)
        data = encode(parse(writer), value)
        out.append(bytes([number, len(data)]) + data + data)
    return out
