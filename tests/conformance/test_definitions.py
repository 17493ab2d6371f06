"""Our declarations against Kafka's own definitions: every message, every version, field by field.

The definitions of 4.4 are the reference; those of 3.9 also have the versions that Kafka 4 removed, back to 0.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kafwire.protocol import MESSAGES, Message, Request, Response, Struct
from kafwire.protocol.coordinator_record import CoordinatorKey, CoordinatorValue
from kafwire.protocol.spec import Field
from kafwire.testing.cluster.kafka import OLDEST_VERSION
from tests.support.kafka_definitions import OLD_KEYS, definitions, valid_versions, versions

# Names of Kafka 3.9 that 4.4 changed; the bytes are the same.
RENAMED = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
    "ClientMetricsResource": "ConfigResource",
    "client_metrics_resources": "config_resources",
    "client_metrics_resources.name": "config_resources.resource_name",
    "generation_id": "generation_id_or_member_epoch",
    **{f"topics.partitions.candidate_{what}": f"topics.partitions.replica_{what}" for what in ("epoch", "id")},
    "topics.partitions.candidate_directory_id": "topics.partitions.replica_directory_id",
}
# Fields that Kafka 4 added to version 0 of share groups, which were unstable in 3.9 (docs/design.md, Messages).
ADDED_TO_VERSION_0 = {
    "ReadShareGroupStateSummaryResponse 0: no field results.partitions.leader_epoch in Kafka",
    "ShareGroupMetadataValue 0: no field metadata_hash in Kafka",
}


class Wire(NamedTuple):
    """The attributes of a field in one version that has it: `ignorable` matters only in versions that lack it."""

    type: str
    nullable: bool
    default: str
    tag: int | None
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
                tag=int(field["tag"]) if version in versions(field.get("taggedVersions"), within) else None,
                compact=flexible and field.get("flexibleVersions") != "none",
            ),
        )
        inner = structs.get(field["type"].removeprefix("[]"))
        if inner is not None:
            yield from kafka_fields(inner, structs, version, flexible, place + ".")


# --- our side ---


def our_type(field: Field) -> str:
    return ("[]" if field.array else "") + (field.struct.__name__ if field.struct else field.kind)


def our_fields(
    cls: type[Struct],
    version: int,
    flexible: bool,
    path: str = "",
    *,
    since: int = 0,
    but: Container[str] = (),
) -> Iterator[tuple[str, Wire | Absent]]:
    """The fields, without those that no version from `since` on has, `but` for some of them."""
    blank = cls()
    for field in cls.__fields__:
        place, default = path + field.name, getattr(blank, field.name)
        if field.versions.high < since and place not in but:
            continue
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
                compact=flexible and field.flexible,
            ),
        )
        if field.struct is not None:
            yield from our_fields(field.struct, version, flexible, place + ".", since=since, but=but)


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
        "structs": (our_structs(cls), set(kafka_structs(definition)) if valid else our_structs(cls)),
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
        said["highest stable version"] = (cls.max_stable_version, valid[-1] - unstable if valid else cls.max_version)
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
        if MESSAGES[name].min_version <= MESSAGES[name].max_version:
            found.differences.append(f"{name}: no such message in Kafka")
        return found
    definition, cls = definitions()[name], MESSAGES.get(name)
    structs = kafka_structs(definition) if valid_versions(definition) else {}
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
        ours = dict(our_fields(cls, version, version >= cls.flexible_from, since=cls.min_version, but=theirs))
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
        )
    lacking = [difference for one in compared for difference in one.differences]
    assert not lacking, "\n" + "\n".join(lacking)
    assert equal == total


# --- Kafka 3.9 ---

OLD = definitions(OLDEST_VERSION)


def declared(name: str, version: int) -> tuple[type[Message], int]:
    """Our class and version for a message of Kafka 3.9, whose record keys have the record's type as their version."""
    cls = MESSAGES["LegacyOffsetCommitKey" if (name, version) == ("OffsetCommitKey", 0) else RENAMED.get(name, name)]
    if not issubclass(cls, CoordinatorKey):
        return cls, version
    assert cls.record_type == version, name
    return cls, 0


def in_new_words(said: Wire | Absent) -> Wire | Absent:
    if isinstance(said, Absent):
        return said
    kind = said.type.removeprefix("[]")
    return said._replace(type=said.type.replace(kind, RENAMED.get(kind, kind)))


def compare_old(name: str, version: int) -> list[str]:
    """The differences of a version of a message from Kafka 3.9. Tagged fields that came later are none."""
    definition = OLD[name]
    cls, ours_version = declared(name, version)
    if not cls.oldest_version <= ours_version <= cls.max_version:
        return [f"{name}: no version {version} here"]
    flexible = version in versions(definition.get("flexibleVersions"), range(version, version + 1))
    place = f"{name} {version}"
    theirs: Fields = {}
    renamed = name in RENAMED or name in ("TxnOffsetCommitRequest", "VoteRequest")
    for field, said in kafka_fields(definition["fields"], kafka_structs(definition), version, flexible):
        theirs[RENAMED.get(field, field) if renamed else field] = in_new_words(said)
    ours = {
        field: said
        for field, said in our_fields(cls, ours_version, ours_version >= cls.flexible_from)
        if field in theirs or (isinstance(said, Wire) and said.tag is None)
    }
    return list(of_fields(place, ours, theirs))


@pytest.mark.parametrize("name", sorted(OLD))
def test_versions_of_3_9_are_declared(name: str) -> None:
    differences = {line for version in valid_versions(OLD[name]) for line in compare_old(name, version)}
    assert differences == {line for line in ADDED_TO_VERSION_0 if line.startswith(f"{name} ")}


def test_removed_versions_are_in_3_9_alone() -> None:
    """Each removed version is in a definition of 3.9, and in none of 4.4; 121 are removed."""
    ours = {(name, v) for name, cls in MESSAGES.items() for v in range(cls.oldest_version, cls.min_version)}
    old = {(name, version) for name in OLD.keys() - OLD_KEYS for version in valid_versions(OLD[name])}
    assert ours - old == {(name, 0) for name in OLD_KEYS}
    assert not ours & {(name, v) for name, definition in definitions().items() for v in valid_versions(definition)}
    assert len(ours) == 121
