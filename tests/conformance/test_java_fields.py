"""Fields that a version cannot carry, or not with that value: refused or dropped as Kafka's own message classes do."""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, Struct
from kafwire.protocol.kafka_json import camel_case
from kafwire.protocol.spec import Field, Versions
from kafwire.testing.cluster.kafka import OLDEST_VERSION
from tests.support.java.oracle import Oracle, OracleError, fill
from tests.support.kafka_definitions import definitions, pairs, removed_pairs, valid_versions

NAMES = sorted({name for name, _ in pairs()})
REMOVED = sorted({name for name, _ in removed_pairs()})
COMPARED: Counter[str] = Counter()
_EMPTY: dict[str, Any] = {"string": "", "bytes": b"", "records": b""}
_SOME: dict[str, Any] = {**_EMPTY, "string": "x", "bytes": b"x", "records": b"x", "uuid": UUID(int=1), "float64": 1.5}


class Case(NamedTuple):
    """A message of which one field is set to what the version may not carry."""

    place: str
    absent: bool
    versions: Versions
    ours: dict[str, Any]
    java: dict[str, Any]


def java_form(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, UUID):
        return b64encode(value.bytes, b"-_").decode().rstrip("=")
    return [java_form(element) for element in value] if isinstance(value, list) else value


def changed(field: Field, default: Any) -> Iterator[tuple[Any, Any]]:
    """Values of a field unlike its default: ours and Java's."""
    if field.struct is not None:
        if field.array:
            yield [field.struct()], [{}]
        else:
            blank = field.struct()
            inner = next(item for item in field.struct.__fields__ if item.struct is None or item.array)
            ours, java = next(changed(inner, getattr(blank, inner.name)))
            yield field.struct(**{inner.name: ours}), {camel_case(inner.name): java}
    else:
        some = _SOME.get(field.kind, default is not True if field.kind == "bool" else 2 if default == 1 else 1)
        some = [some] if field.array else some
        yield some, java_form(some)
    if default is not None and field.nullable.low <= field.nullable.high:
        yield None, None
    if default is None and (field.array or field.kind in _EMPTY):
        empty = [] if field.array else _EMPTY[field.kind]
        yield empty, java_form(empty)


def cases(cls: type[Struct], version: int) -> Iterator[Case]:
    """Every field that the version lacks at some other value, and every field that may not be null at null."""
    blank = cls()
    needed = {
        field.name: b""
        for field in cls.__fields__
        if field.kind == "records" and version in field.versions and version not in field.nullable
    }
    for field in cls.__fields__:
        name = camel_case(field.name)
        found: list[Case] = []
        if version not in field.versions:
            for ours, java in changed(field, getattr(blank, field.name)):
                found.append(Case(field.name, True, field.versions, {field.name: ours}, {name: java}))
        else:
            if version not in field.nullable and (field.array or field.struct or field.kind in {*_EMPTY, "uuid"}):
                found.append(Case(field.name, False, field.versions, {field.name: None}, {name: None}))
            for inner in cases(field.struct, version) if field.struct is not None else ():
                assert field.struct is not None
                instance = field.struct(**inner.ours)
                found.append(
                    Case(
                        f"{field.name}.{inner.place}",
                        inner.absent,
                        inner.versions,
                        {field.name: [instance] if field.array else instance},
                        {name: [inner.java] if field.array else inner.java},
                    )
                )
        for case in found:
            java_needed = {camel_case(key): java_form(value) for key, value in needed.items()}
            yield case._replace(ours={**needed, **case.ours}, java={**java_needed, **case.java})


def check(oracle: Oracle, name: str, versions: range, valid: range) -> None:
    """Compare versions of a message. The oracle's release has the fields of its `valid` versions only."""
    cls = MESSAGES[name]
    for version in versions:
        tried = list(cases(cls, version))
        results = oracle.ask(*(fill(name, version, case.java) for case in tried))
        for case, result in zip(tried, results, strict=True):
            what = f"{name} {version}: {case.place} = {case.java}"
            kind = "lacking" if case.absent else "null"
            if "NoSuchFieldException" in str(result):
                assert case.versions.high < valid[0] or case.versions.low > valid[-1], what
                continue
            try:
                encoded = cls(**case.ours).encode(version)
            except ProtocolError as error:
                assert isinstance(result, OracleError), f"{what}: {error} here, and Java takes it"
                expected = "UnsupportedVersionException" if case.absent else "NullPointerException"
                assert expected in str(result), f"{what}: {error} here, {result} in Java"
                COMPARED[f"{kind} fields refused"] += 1
            else:
                assert not isinstance(result, OracleError), f"{what}: taken here, and Java says {result}"
                assert result == [encoded], what
                COMPARED[f"{kind} fields taken"] += 1
        COMPARED["versions"] += 1


@pytest.mark.compares(1)
@pytest.mark.parametrize("name", NAMES)
def test_fields_that_a_version_lacks_are_judged_as_by_java(name: str, oracle: Oracle) -> None:
    valid = valid_versions(definitions()[name])
    check(oracle, name, valid, valid)


@pytest.mark.compares(1)
@pytest.mark.parametrize("name", REMOVED)
def test_fields_that_a_removed_version_lacks_are_judged_as_by_java(name: str, old_oracle: Oracle) -> None:
    cls = MESSAGES[name]
    check(
        old_oracle, name, range(cls.oldest_version, cls.min_version), valid_versions(definitions(OLDEST_VERSION)[name])
    )
