"""Scenes of a schema registry's client, for every registry: the small one of `schema_registry`, and Apicurio's.

Each scene takes the client and a subject of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.avro.schema import parse
from kafwire.errors import SchemaRegistryError, UnknownSchemaError
from kafwire.registry import Reference, SchemaRegistry
from tests.support.avro_compatibility import differences

Scene = Callable[[SchemaRegistry, str], None]

PROTO = 'syntax = "proto3";\npackage kafwire.scene;\n\nmessage Flight {\n  string carrier = 1;\n}\n'
JSON_SCHEMA = '{"type":"object","properties":{"carrier":{"type":"string"}}}'


def record(name: str, *fields: dict[str, Any], **more: Any) -> str:
    """Return the text of an Avro record."""
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more})


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """Return a field of an Avro record."""
    return {"name": name, "type": kind, **more}


def registers_and_finds(registry: SchemaRegistry, subject: str) -> None:
    """A registered schema has an id, a version, and is the latest."""
    with pytest.raises(UnknownSchemaError):
        registry.latest(subject)
    text = record("Flight", field("carrier", "string"))
    number = registry.register(subject, text)
    assert registry.lookup(subject, text) == number
    assert registry.registered(number).schema.name == "Flight"
    latest = registry.latest(subject)
    assert (latest.id, latest.version, latest.subject, latest.schema_type) == (number, 1, subject, "AVRO")
    other = SchemaRegistry(registry._arguments["url"])
    assert other.register(subject, text) == number
    assert other.versions(subject) == [1]
    assert subject in other.subjects(subject[:-1])
    assert other.subjects("no such prefix") == []
    with pytest.raises(UnknownSchemaError):
        other.lookup(subject, record("Other"))
    with pytest.raises(UnknownSchemaError):
        other.version(subject, 7)
    with pytest.raises(UnknownSchemaError):
        other.registered(2_000_000_000)


def versions_grow(registry: SchemaRegistry, subject: str) -> None:
    """Every other schema is a version with an id of its own."""
    texts = [record("Flight", field(name, "string")) for name in ("a", "b", "c")]
    numbers = [registry.register(subject, texts[0])]
    registry.set_compatibility_level("NONE", subject)  # Apicurio has no level without a version
    numbers += [registry.register(subject, text) for text in texts[1:]]
    assert len(set(numbers)) == 3
    assert registry.versions(subject) == [1, 2, 3]
    second = registry.version(subject, 2)
    assert (second.id, second.version, json.loads(second.text)) == (numbers[1], 2, json.loads(texts[1]))
    assert registry.latest(subject).id == numbers[2]


def all_types_with_references(registry: SchemaRegistry, subject: str) -> None:
    """Avro, JSON Schema and Protobuf keep their types and references."""
    space = f"a.{subject.replace('-', '_')}"
    airport = record("Airport", field("code", "string"), namespace=space)
    registry.register(f"{subject}-airport", airport)
    leg = record("Leg", field("at", f"{space}.Airport"), namespace=space)
    reference = Reference(f"{space}.Airport", f"{subject}-airport", 1)
    number = registry.register(f"{subject}-leg", leg, references=[reference])
    found = registry.registered(number)
    assert [(each.name, each.subject, each.version) for each in found.references] == [
        (reference.name, reference.subject, 1)
    ]
    assert json.loads(found.references[0].text) == json.loads(airport)
    assert found.schema.fields[0].type.name == f"{space}.Airport"
    assert registry.lookup(f"{subject}-leg", leg, references=found.references) == number
    proto = registry.registered(registry.register(f"{subject}-proto", PROTO, "PROTOBUF"))
    assert (proto.schema_type, "message Flight" in proto.text) == ("PROTOBUF", True)
    other = 'syntax = "proto3";\nimport "flight.proto";\nmessage Trip {\n  kafwire.scene.Flight flight = 1;\n}\n'
    imported = [Reference("flight.proto", f"{subject}-proto", 1)]
    trip = registry.registered(registry.register(f"{subject}-trip", other, "PROTOBUF", imported))
    assert [each.name for each in trip.references] == ["flight.proto"]
    assert trip.references[0].text == proto.text
    schema = registry.registered(registry.register(f"{subject}-json", JSON_SCHEMA, "JSON"))
    assert (schema.schema_type, json.loads(schema.text)) == ("JSON", json.loads(JSON_SCHEMA))


def levels_are_set(registry: SchemaRegistry, subject: str) -> None:
    """A subject's level is the registry's until it is set."""
    registry.register(subject, record("Flight", field("a", "string")))
    for level in ("FULL_TRANSITIVE", "FORWARD", "BACKWARD"):
        registry.set_compatibility_level(level, subject)
        assert registry.compatibility_level(subject) == level
    assert registry.compatibility_level() in ("NONE", "BACKWARD")


# The reader's schema, the writer's, and whether the reader reads all that the writer writes.
EVOLUTIONS = [
    (record("F", field("a", "string")), record("F", field("a", "string"), field("b", "int")), True),
    (record("F", field("a", "string"), field("b", "int", default=1)), record("F", field("a", "string")), True),
    (record("F", field("a", "string"), field("b", "int")), record("F", field("a", "string")), False),
    (record("F", field("a", "long")), record("F", field("a", "int")), True),
    (record("F", field("a", "int")), record("F", field("a", "long")), False),
    (record("F", field("a", "string")), record("F", field("a", "bytes")), True),
    (record("F", field("b", "string", aliases=["a"])), record("F", field("a", "string")), True),
    (record("F", field("a", ["null", "int"])), record("F", field("a", "int")), True),
    (record("F", field("a", "int")), record("F", field("a", ["null", "int"])), False),
    (record("F", field("a", ["null", "long"])), record("F", field("a", ["null", "int"])), True),
    (
        record("F", field("a", {"type": "array", "items": "double"})),
        record("F", field("a", {"type": "array", "items": "float"})),
        True,
    ),
    (
        record("F", field("a", {"type": "map", "values": "int"})),
        record("F", field("a", {"type": "map", "values": "string"})),
        False,
    ),
    (
        record("F", field("a", {"type": "enum", "name": "E", "symbols": ["X"]})),
        record("F", field("a", {"type": "enum", "name": "E", "symbols": ["X", "Y"]})),
        False,
    ),
    (
        record("F", field("a", {"type": "enum", "name": "E", "symbols": ["X"], "default": "X"})),
        record("F", field("a", {"type": "enum", "name": "E", "symbols": ["X", "Y"]})),
        True,
    ),
    (
        record("F", field("a", {"type": "fixed", "name": "X", "size": 4})),
        record("F", field("a", {"type": "fixed", "name": "X", "size": 8})),
        False,
    ),
]


def compatibility_is_checked(registry: SchemaRegistry, subject: str) -> None:
    """The verdicts are those of Avro's rules, in both directions; a refused registration says so."""
    for at, (reader, writer, is_compatible) in enumerate(EVOLUTIONS):
        name = f"{subject}-{at}"
        assert (differences(parse(reader), parse(writer)) == []) is is_compatible
        registry.register(name, writer)
        registry.set_compatibility_level("BACKWARD", name)
        verdict = registry.compatibility(name, reader)
        assert bool(verdict) is is_compatible, (reader, writer, verdict)
        assert bool(verdict.messages) is not is_compatible
        assert bool(registry.compatibility(name, reader, version=1)) is is_compatible
        if not is_compatible:
            with pytest.raises(SchemaRegistryError, match="compatib") as caught:
                registry.register(name, reader)
            assert caught.value.status == 409
        registry.set_compatibility_level("FORWARD", name)
        assert bool(registry.compatibility(name, writer))
        registry.set_compatibility_level("NONE", name)
        assert registry.compatibility(name, reader)
        registry.register(name, reader)


def invalid_schemas_are_refused(registry: SchemaRegistry, subject: str) -> None:
    """A text that is no schema is status 422."""
    with pytest.raises(SchemaRegistryError, match="refuses the request") as caught:
        registry.register(subject, '{"type": "recod"}')
    assert caught.value.status == 422
    assert not caught.value.retriable


def deletions(registry: SchemaRegistry, subject: str) -> None:
    """A soft-deleted version leaves the subject, and keeps its id; a permanent one is gone."""
    texts = [record(f"{name}_{subject.replace('-', '_')}", field("a", "int")) for name in "ABC"]
    numbers = [registry.register(subject, texts[0])]
    registry.set_compatibility_level("NONE", subject)
    numbers += [registry.register(subject, text) for text in texts[1:]]
    assert registry.delete(subject, 2) == [2]
    assert registry.versions(subject) == [1, 3]
    with pytest.raises(UnknownSchemaError):
        registry.version(subject, 2)
    fresh = SchemaRegistry(registry._arguments["url"])
    assert fresh.registered(numbers[1]).schema.kind == "record"
    with pytest.raises(UnknownSchemaError):
        registry.lookup(subject, texts[1])  # the client has forgotten its id
    assert sorted(registry.delete(subject)) in ([1, 3], [1, 2, 3])
    assert subject not in registry.subjects()
    with pytest.raises(UnknownSchemaError):
        registry.latest(subject)


SCENES: list[Scene] = [
    registers_and_finds,
    versions_grow,
    all_types_with_references,
    levels_are_set,
    compatibility_is_checked,
    invalid_schemas_are_refused,
    deletions,
]
