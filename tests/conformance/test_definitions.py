"""Our declarations against Kafka's own definitions: every message, every version, field by field."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kafwire.protocol import MESSAGES, Request, Response, Struct
from kafwire.protocol.spec import Field
from tests.conformance.definitions import definitions, versions


class Wire(NamedTuple):
    """What one version says of one field."""

    name: str
    type: str
    nullable: bool
    default: object
    tag: int | None
    ignorable: bool
    compact: bool
    fields: "tuple[Wire | Absent, ...] | None"


class Absent(NamedTuple):
    """A field that a version lacks: what it starts from, and whether it may be dropped."""

    name: str
    default: object
    ignorable: bool


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def kafka_default(field: dict[str, Any], structs: dict[str, Any]) -> object:
    """The value that Kafka's definition gives a field, in Python's terms."""
    kind, text = field["type"], field.get("default", "")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind in structs:
        return kind
    text = str(text)
    if kind == "bool":
        return text.lower() == "true"
    if kind.startswith(("int", "uint")):
        return int(text or "0", 0)
    return {
        "float64": float(text or 0) if kind == "float64" else 0,
        "string": text,
        "bytes": b"",
        "uuid": UUID(int=0),
    }.get(kind)


def kafka_structs(definition: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    structs = {common["name"]: common["fields"] for common in definition.get("commonStructs", [])}

    def walk(fields: list[dict[str, Any]]) -> None:
        for field in fields:
            if "fields" in field:
                structs[field["type"].removeprefix("[]")] = field["fields"]
                walk(field["fields"])

    walk(definition["fields"])
    for fields in list(structs.values()):
        walk(fields)
    return structs


def kafka_side(
    fields: list[dict[str, Any]], structs: dict[str, Any], version: int, flexible: bool
) -> Iterator[Wire | Absent]:
    within = range(version, version + 1)
    for field in fields:
        name, default = snake(field["name"]), kafka_default(field, structs)
        if version not in versions(field["versions"], within):
            yield Absent(name, default, field.get("ignorable", False))
            continue
        tagged = version in versions(field.get("taggedVersions"), within)
        inner = structs.get(field["type"].removeprefix("[]"))
        yield Wire(
            name=name,
            type=field["type"],
            nullable=version in versions(field.get("nullableVersions"), within),
            default=default,
            tag=field["tag"] if tagged else None,
            ignorable=field.get("ignorable", False),
            compact=flexible and field.get("flexibleVersions") != "none",
            fields=None if inner is None else tuple(kafka_side(inner, structs, version, flexible)),
        )


def our_type(field: Field) -> str:
    return ("[]" if field.array else "") + (field.struct.__name__ if field.struct else field.kind)


def our_side(cls: type[Struct], version: int, flexible: bool, counts: Counter[str]) -> Iterator[Wire | Absent]:
    blank = cls()
    for field in cls.__fields__:
        default = getattr(blank, field.name)
        default = type(default).__name__ if isinstance(default, Struct) else default
        if version not in field.versions:
            yield Absent(field.name, default, field.ignorable)
            continue
        counts["fields"] += 1
        yield Wire(
            name=field.name,
            type=our_type(field),
            nullable=version in field.nullable,
            default=default,
            tag=field.tag if version in field.tagged else None,
            ignorable=field.ignorable,
            compact=flexible and field.flexible,
            fields=None if field.struct is None else tuple(our_side(field.struct, version, flexible, counts)),
        )


def compare(name: str) -> Counter[str]:
    counts = Counter(messages=1)
    definition, cls = definitions()[name], MESSAGES[name]
    low, _, high = definition["validVersions"].partition("-")
    valid = range(int(low), int(high or low) + 1)
    assert (cls.min_version, cls.max_version) == (valid[0], valid[-1])
    flexible_versions = {version for version in valid if version >= cls.flexible_from}
    assert flexible_versions == versions(definition.get("flexibleVersions"), valid)
    if issubclass(cls, Request | Response):
        assert cls.api_key == definition["apiKey"]
        assert cls.name == name
    if issubclass(cls, Request):
        assert cls.latest_unstable == definition.get("latestVersionUnstable", False)
        assert cls.response.name == name.replace("Request", "Response")
    structs = kafka_structs(definition)
    for struct in structs:
        assert issubclass(getattr(cls, struct), Struct)
    for version in valid:
        flexible = version in flexible_versions
        ours = tuple(our_side(cls, version, flexible, counts))
        theirs = tuple(kafka_side(definition["fields"], structs, version, flexible))
        assert len(ours) == len(theirs)
        for our_field, their_field in zip(ours, theirs, strict=True):
            assert our_field == their_field, f"{name} version {version}"
        counts["versions"] += 1
    return counts


@pytest.mark.parametrize("name", MESSAGES)
def test_declaration_is_kafkas(name: str) -> None:
    compare(name)


def test_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Says what was compared, and how much of Kafka is not declared here."""
    counts = sum((compare(name) for name in MESSAGES), Counter())
    lacking = [name for name, definition in definitions().items() if "fields" in definition and name not in MESSAGES]
    with capsys.disabled():
        print(
            f"\ncompared with Kafka's definitions: {counts['messages']} messages, {counts['versions']} versions, "
            f"{counts['fields']} fields; {len(lacking)} messages are not declared"
        )
    assert counts["messages"] == len(MESSAGES)
