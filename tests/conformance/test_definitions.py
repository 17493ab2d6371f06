"""Our declarations against Kafka's own definitions: every message, every version, field by field."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kafwire.protocol import MESSAGES, Message, Request, Response, Struct
from kafwire.protocol.coordinator_record import CoordinatorKey, CoordinatorValue
from kafwire.protocol.spec import Field
from tests.support.kafka_definitions import definitions, valid_versions, versions

_ZOOKEEPER = "no version of it is valid: only a controller with ZooKeeper sent it"
NOT_DECLARED = {
    "ControlledShutdownRequest": _ZOOKEEPER,
    "ControlledShutdownResponse": _ZOOKEEPER,
    "LeaderAndIsrRequest": _ZOOKEEPER,
    "LeaderAndIsrResponse": _ZOOKEEPER,
    "StopReplicaRequest": _ZOOKEEPER,
    "StopReplicaResponse": _ZOOKEEPER,
    "UpdateMetadataRequest": _ZOOKEEPER,
    "UpdateMetadataResponse": _ZOOKEEPER,
}
"""Fields of Kafka's definitions that kafwire does not have, and why. Anything else that is lacking is a failure."""


class Wire(NamedTuple):
    """The attributes of a field in one version that has it."""

    type: str
    nullable: bool
    default: str
    tag: int | None
    ignorable: bool
    compact: bool


class Absent(NamedTuple):
    """The attributes of a field that a version lacks: its initial value, and whether it may be dropped."""

    default: str
    ignorable: bool


Fields = dict[str, Wire | Absent]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# --- Kafka's side ---


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


def kafka_fields(
    fields: list[dict[str, Any]], structs: dict[str, Any], version: int, flexible: bool, path: str = ""
) -> Iterator[tuple[str, Wire | Absent]]:
    within = range(version, version + 1)
    for field in fields:
        place, default = path + snake(field["name"]), repr(kafka_default(field, structs))
        # A tagged field without versions is in those that have the tag.
        if version not in versions(field.get("versions", field.get("taggedVersions")), within):
            yield place, Absent(default, field.get("ignorable", False))
            continue
        yield (
            place,
            Wire(
                type=field["type"],
                nullable=version in versions(field.get("nullableVersions"), within),
                default=default,
                tag=field["tag"] if version in versions(field.get("taggedVersions"), within) else None,
                ignorable=field.get("ignorable", False),
                compact=flexible and field.get("flexibleVersions") != "none",
            ),
        )
        inner = structs.get(field["type"].removeprefix("[]"))
        if inner is not None:
            yield from kafka_fields(inner, structs, version, flexible, place + ".")


# --- our side ---


def our_type(field: Field) -> str:
    return ("[]" if field.array else "") + (field.struct.__name__ if field.struct else field.kind)


def our_fields(cls: type[Struct], version: int, flexible: bool, path: str = "") -> Iterator[tuple[str, Wire | Absent]]:
    blank = cls()
    for field in cls.__fields__:
        place, default = path + field.name, getattr(blank, field.name)
        default = repr(type(default).__name__ if isinstance(default, Struct) else default)
        if version not in field.versions:
            yield place, Absent(default, field.ignorable)
            continue
        yield (
            place,
            Wire(
                type=our_type(field),
                nullable=version in field.nullable,
                default=default,
                tag=field.tag if version in field.tagged else None,
                ignorable=field.ignorable,
                compact=flexible and field.flexible,
            ),
        )
        if field.struct is not None:
            yield from our_fields(field.struct, version, flexible, place + ".")


def our_structs(cls: type[Message]) -> set[str]:
    return {
        name
        for name, value in vars(cls).items()
        if isinstance(value, type) and issubclass(value, Struct) and not issubclass(value, Message)
    }


# --- the comparison ---


def of_class(name: str, cls: type[Message], definition: dict[str, Any]) -> Iterator[str]:
    """The difference of the messages as a whole: (ours, Kafka's)."""
    valid = valid_versions(definition)
    said: dict[str, tuple[object, object]] = {
        "versions": (range(cls.min_version, cls.max_version + 1), valid),
        "flexible versions": (
            {version for version in valid if version >= cls.flexible_from},
            versions(definition.get("flexibleVersions"), valid),
        ),
        "structs": (our_structs(cls), set(kafka_structs(definition))),
        "kind": (
            "request" if issubclass(cls, Request) else "response" if issubclass(cls, Response) else "data",
            definition["type"] if definition["type"] in ("request", "response") else "data",
        ),
    }
    if issubclass(cls, Request | Response):
        said["api key"] = (cls.api_key, definition["apiKey"])
        said["name"] = (cls.name, name)
    if issubclass(cls, Request):
        unstable = definition.get("latestVersionUnstable", False)  # only requests say it
        said["latest version unstable"] = (cls.latest_unstable, unstable)
        said["highest stable version"] = (cls.max_stable_version, valid[-1] - unstable)
        said["response"] = (cls.response.name, name.replace("Request", "Response"))
    if issubclass(cls, CoordinatorKey | CoordinatorValue):
        said["record type"] = (cls.record_type, definition["apiKey"])
        side = "coordinator-key" if issubclass(cls, CoordinatorKey) else "coordinator-value"
        said["side"] = (side, definition["type"])
    for what, (ours, theirs) in said.items():
        if ours != theirs:
            yield f"{name}: {what}: {ours} here, {theirs} in Kafka"


def of_fields(place: str, ours: Fields, theirs: Fields) -> Iterator[str]:
    for field in theirs.keys() - ours.keys():
        yield f"{place}: no field {field} here"
    for field in ours.keys() - theirs.keys():
        yield f"{place}: no field {field} in Kafka"
    for field in ours.keys() & theirs.keys():
        if ours[field] != theirs[field]:
            yield f"{place}: {field}: {ours[field]} here, {theirs[field]} in Kafka"
    if ours.keys() == theirs.keys() and list(ours) != list(theirs):
        yield f"{place}: fields are ordered {list(ours)} here, {list(theirs)} in Kafka"


class Comparison(NamedTuple):
    differences: list[str]
    equal: Counter[str]
    total: Counter[str]


def compare(name: str) -> Comparison:
    """Our declaration of a message with Kafka's definition."""
    found = Comparison([], Counter(), Counter())
    if name not in definitions():
        found.differences.append(f"{name}: no such message in Kafka")
        return found
    definition, cls = definitions()[name], MESSAGES.get(name)
    if name in NOT_DECLARED:
        if cls is not None or valid_versions(definition):
            found.differences.append(f"{name}: listed as not declared, for a reason that does not hold")
        return found
    structs = kafka_structs(definition)
    found.total["messages"] += 1
    if cls is None:
        found.differences.append(f"{name}: no such message here")
    else:
        found.differences.extend(of_class(name, cls, definition))
    for version in valid_versions(definition):
        flexible = version in versions(definition.get("flexibleVersions"), range(version, version + 1))
        theirs = dict(kafka_fields(definition["fields"], structs, version, flexible))
        found.total["versions"] += 1
        found.total["fields"] += sum(isinstance(said, Wire) for said in theirs.values())
        if cls is None or not cls.min_version <= version <= cls.max_version:
            found.differences.append(f"{name}: no version {version} here")
            continue
        ours = dict(our_fields(cls, version, version >= cls.flexible_from))
        wrong = list(of_fields(f"{name} {version}", ours, theirs))
        found.differences.extend(wrong)
        found.equal["versions"] += not wrong
        found.equal["fields"] += sum(
            isinstance(said, Wire) and ours.get(field) == said for field, said in theirs.items()
        )
    found.equal["messages"] += not found.differences
    return found


@pytest.mark.parametrize("name", sorted(definitions().keys() | MESSAGES.keys()))
def test_declaration_is_kafkas(name: str) -> None:
    differences = compare(name).differences
    assert not differences, "\n" + "\n".join(differences)


def test_no_definition_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Says how much of Kafka's definitions is declared, and which are not."""
    compared = [compare(name) for name in sorted(definitions().keys() | MESSAGES.keys())]
    equal = sum((one.equal for one in compared), Counter[str]())
    total = sum((one.total for one in compared), Counter[str]())
    with capsys.disabled():
        print(
            "\ncompared with Kafka's definitions: "
            + ", ".join(f"{equal[what]} of {total[what]} {what}" for what in ("messages", "versions", "fields"))
            + f"; {len(NOT_DECLARED)} messages are not declared as they have no valid version"
        )
    lacking = [difference for one in compared for difference in one.differences]
    assert not lacking, "\n" + "\n".join(lacking)
    assert equal == total
