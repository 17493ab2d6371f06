"""The registry's client while registries fail: several addresses, throttling, redirects, hostile responses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import UUID

import pytest

from kafwire.errors import ConfigError, SchemaError, SchemaRegistryError, UnknownSchemaError
from kafwire.registry import Reference, Registered, SchemaRegistry
from kafwire.security import https_client
from tests.support.schema_registry import RegistryServer, Reply, error

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
DOWN = "http://localhost:9"


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, timeout_s=10)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between retries, which take no time."""
    made: list[float] = []
    monkeypatch.setattr("kafwire.security.https_client.time.sleep", made.append)
    return made


# --- several addresses ----------------------------------------------------------------------------------------------


def test_the_next_address_is_asked_without_a_pause(server: RegistryServer, pauses: list[float]) -> None:
    number = server.register("flights-value", FLIGHT)
    registry = SchemaRegistry([DOWN, server.url])
    assert registry.schema(number).name == "Flight"
    assert pauses == []
    assert SchemaRegistry(f"{DOWN}, {server.url}").subjects() == ["flights-value"]


def test_the_last_good_address_is_the_first(server: RegistryServer) -> None:
    with RegistryServer() as other:
        registry = SchemaRegistry([other.url, server.url])
        other.replies.append(error(500, 50001, "broken"))
        for _ in range(3):
            registry.subjects()
        assert (len(other.paths), len(server.paths)) == (1, 3)
        server.replies.append(error(503, 50301, "stopping"))
        registry.subjects()
        registry.subjects()
        assert (len(other.paths), len(server.paths)) == (3, 4)


def test_a_hung_address_takes_one_attempt(server: RegistryServer) -> None:
    number = server.register("flights-value", FLIGHT)
    with RegistryServer() as hung:
        wait = threading.Event()
        hung.replies.append(Reply(before=lambda: wait.wait(30)))
        began = time.monotonic()
        try:
            registry = SchemaRegistry([hung.url, server.url], timeout_s=30, attempt_timeout_s=0.3)
            assert registry.schema(number).name == "Flight"
        finally:
            wait.set()
        assert 0.2 < time.monotonic() - began < 10


def test_all_addresses_down_name_them_all(pauses: list[float]) -> None:
    registry = SchemaRegistry([DOWN, "http://localhost:1"], max_retries=3)
    with pytest.raises(SchemaRegistryError, match="at http://localhost:9, http://localhost:1 within 30 s") as caught:
        registry.subjects()
    assert caught.value.retriable
    assert len(pauses) == 3
    assert pauses[0] < pauses[1] < pauses[2]


def test_a_refusal_is_final_at_every_address(server: RegistryServer) -> None:
    with RegistryServer() as other:
        server.replies.append(error(401, 401, "Unauthorized"))
        with pytest.raises(SchemaRegistryError, match="status 401"):
            SchemaRegistry([server.url, other.url]).subjects()
        assert other.paths == []


# --- throttling -----------------------------------------------------------------------------------------------------


def test_retry_after_is_respected(server: RegistryServer, registry: SchemaRegistry, pauses: list[float]) -> None:
    server.replies += [Reply(429, retry_after="2"), Reply(503, retry_after="3")]
    assert registry.subjects() == []
    assert pauses == [2, 3]


def test_a_throttled_client_spares_the_other_addresses(server: RegistryServer, pauses: list[float]) -> None:
    with RegistryServer() as other:
        server.replies.append(Reply(429, retry_after="4"))
        SchemaRegistry([server.url, other.url]).subjects()
        assert (other.paths, pauses) == ([], [4])


def test_a_pause_beyond_the_deadline_ends_at_once(
    server: RegistryServer, registry: SchemaRegistry, pauses: list[float]
) -> None:
    server.replies.append(Reply(429, retry_after="3600"))
    with pytest.raises(SchemaRegistryError, match=r"status 429; it asks for a pause of 3.6e\+03 s") as caught:
        registry.subjects()
    assert caught.value.retriable
    assert (pauses, len(server.paths)) == ([], 1)


def test_the_forms_of_retry_after() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=7), usegmt=True)
    at = now.timestamp()
    forms = [
        None,
        "",
        "5",
        " 6 ",
        later,
        format_datetime(now - timedelta(days=1), usegmt=True),
        "soon",
        "-3",
        "٣",
        "1e9",
    ]
    assert [https_client.retry_after_s(each, at) for each in forms] == [0, 0, 5, 6, 7, 0, 0, 0, 0, 0]
    assert https_client.retry_after_s("9" * 5000, at) == https_client.MAX_RETRY_AFTER_S
    assert https_client.retry_after_s("Fri, 31 Dec 9999 23:59:59 GMT", at) == https_client.MAX_RETRY_AFTER_S


# --- redirects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_refused(server: RegistryServer, registry: SchemaRegistry, status: int) -> None:
    with RegistryServer() as other:
        for call in (registry.subjects, lambda: registry.register("a", '"int"'), lambda: registry.delete("a")):
            server.replies.append(Reply(status, location=f"{other.url}/subjects"))
            with pytest.raises(SchemaRegistryError, match=f"status {status}: redirects are not followed"):
                call()
        assert other.paths == []


# --- hostile responses ----------------------------------------------------------------------------------------------

HOSTILE = [
    b"",
    b"\xff\xfe\x00",
    b"null",
    b"NaN",
    b"9" * 10_000,
    b'{"a":' * 50_000,
    b'{"schema": 7}',
    b'{"schema": null}',
    b'{"schema": "\\ud800"}',
    b'{"schema": "\\"int\\"", "id": "7"}',
    b'{"schema": "\\"int\\"", "id": true}',
    b'{"schema": "\\"int\\"", "id": 8}',
    b'{"schema": "\\"int\\"", "id": -5}',
    b'{"schema": "\\"int\\"", "version": "1"}',
    b'{"schema": "\\"int\\"", "subject": 1}',
    b'{"schema": "\\"int\\"", "schemaType": ["AVRO"]}',
    b'{"schema": "\\"int\\"", "guid": 5}',
    b'{"schema": "\\"int\\"", "guid": "5"}',
    b'{"schema": "\\"int\\"", "references": 5}',
    b'{"schema": "\\"int\\"", "references": {"a": 1}}',
    b'{"schema": "\\"int\\"", "references": [{"subject": "a"}]}',
    b'{"schema": "\\"int\\"", "references": [{"subject": "", "version": 1}]}',
    b'{"schema": "\\"int\\"", "references": [{"subject": "a", "version": true}]}',
    b'{"schema": "\\"int\\"", "references": [{"subject": "a", "version": 1, "name": 5}]}',
]


@pytest.mark.parametrize("body", HOSTILE)
def test_a_hostile_schema_is_an_error(server: RegistryServer, registry: SchemaRegistry, body: bytes) -> None:
    server.replies.append(Reply(body=body))
    with pytest.raises(SchemaRegistryError, match="schema 7: no schema from the schema registry at") as caught:
        registry.registered(7)
    assert not caught.value.retriable
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("body", [b"{}", b"[1, []]", b"[1.5]", b'"a"', b"[true]", b'[{"a": 1}]', b"7"])
def test_hostile_lists_are_errors(server: RegistryServer, registry: SchemaRegistry, body: bytes) -> None:
    server.replies += [Reply(body=body)] * 4
    with pytest.raises(SchemaRegistryError, match="its response is not a list of names or numbers"):
        registry.subjects()
    with pytest.raises(SchemaRegistryError, match="its response is not a list of names or numbers"):
        registry.versions("a")
    if body != b"7":
        with pytest.raises(SchemaRegistryError, match="its response is not a list of names or numbers"):
            registry.delete("a")


@pytest.mark.parametrize("body", [b"{}", b'{"is_compatible": "true"}', b'{"is_compatible": false, "messages": "a"}'])
def test_a_hostile_verdict_is_an_error(server: RegistryServer, registry: SchemaRegistry, body: bytes) -> None:
    server.replies.append(Reply(body=body))
    with pytest.raises(SchemaRegistryError, match="its response has no verdict"):
        registry.compatibility("a", '"int"')


@pytest.mark.parametrize(
    "body", [b"{}", b'{"id": null}', b'{"id": true}', b'{"id": 1e3}', b'{"id": 9223372036854775808}']
)
def test_a_hostile_id_is_an_error_and_not_kept(server: RegistryServer, registry: SchemaRegistry, body: bytes) -> None:
    server.replies.append(Reply(body=body))
    with pytest.raises(SchemaRegistryError, match="registration in subject 'a': .* its response has no id"):
        registry.register("a", '"int"')
    assert registry.register("a", '"int"') == 1


@pytest.mark.parametrize("found", [b"", b', "version": "1"', b', "version": 0', b', "version": true'])
def test_a_hostile_version_is_an_error(server: RegistryServer, registry: SchemaRegistry, found: bytes) -> None:
    server.replies.append(Reply(body=b'{"id": 1%b}' % found))
    with pytest.raises(SchemaRegistryError, match="lookup in subject 'a': .* its response has no version"):
        registry.version_of("a", '"int"')


# --- references -----------------------------------------------------------------------------------------------------


def test_references_in_a_cycle_of_two(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("a", "a", kind="PROTOBUF", references=[("b.proto", "b", 1)])
    server.register("b", "b", kind="PROTOBUF", references=[("a.proto", "a", 1)])
    for _ in range(2):
        with pytest.raises(SchemaError, match="version 1 of subject 'b' refers to itself"):
            registry.registered(number)
    assert len(server.paths) == 3  # the error is kept


def test_references_that_are_too_deep(server: RegistryServer, registry: SchemaRegistry) -> None:
    for at in range(200):
        number = server.register(
            f"s{at}", f"{at}", kind="PROTOBUF", references=[("p", f"s{at - 1}", 1)] if at else None
        )
    with pytest.raises(SchemaError, match="its references are nested more than 64 deep"):
        registry.registered(number)
    assert len(server.paths) < 70


def test_references_without_end(
    server: RegistryServer, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafwire.registry import references

    monkeypatch.setattr(references, "MAX_REFERENCES", 5)
    for at in range(6):
        server.register(f"s{at}", f"{at}", kind="PROTOBUF")
    number = server.register("all", "x", kind="PROTOBUF", references=[(f"p{at}", f"s{at}", 1) for at in range(6)])
    with pytest.raises(SchemaError, match="refers to more than 5 schemas"):
        registry.registered(number)
    monkeypatch.setattr(references, "MAX_REFERENCES", 6)
    monkeypatch.setattr(references, "MAX_TEXT", 3)
    with pytest.raises(SchemaError, match="are longer than 3 characters"):
        SchemaRegistry(server.url).registered(number)
    monkeypatch.setattr(references, "MAX_TEXT", 6)
    assert len(SchemaRegistry(server.url).registered(number).references) == 6


def test_a_diamond_of_references_is_walked_once(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("s0", "0", kind="PROTOBUF")
    for at in range(1, 30):
        below = (f"s{at - 1}", 1)
        server.register(f"s{at}", f"{at}", kind="PROTOBUF", references=[("a", *below), ("b", *below)])
    found = registry.registered(30)
    assert [each.text for each in found.references[::2]] == [str(at) for at in range(29)]
    assert [(each.name, each.subject) for each in found.references if each.is_direct] == [("a", "s28"), ("b", "s28")]
    assert len(server.paths) == 30


def test_only_direct_references_are_registered(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("a", "a", kind="PROTOBUF")
    server.register("b", "b", kind="PROTOBUF", references=[("a.proto", "a", 1)])
    found = registry.registered(server.register("c", "c", kind="PROTOBUF", references=[("b.proto", "b", 1)]))
    assert [each.subject for each in found.references] == ["a", "b"]
    assert registry.register("d", found.text, "PROTOBUF", found.references) == found.id
    assert server.subjects.by_id[found.id].references == [{"name": "b.proto", "subject": "b", "version": 1}]


def test_a_deleted_reference_is_found(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("a", '{"type": "fixed", "name": "A", "size": 2}')
    number = server.register("b", {"type": "array", "items": "A"}, references=[("A", "a", 1)])
    server.subjects.versions["a"][1].deleted = True
    assert registry.schema(number).items.name == "A"  # type: ignore[union-attr]


# --- caches ---------------------------------------------------------------------------------------------------------


def test_a_guid_is_another_key_of_the_same_schema(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("flights-value", FLIGHT)
    guid = registry.registered(number).guid
    assert guid is not None
    for _ in range(2):
        assert registry.by_guid(guid) is registry.by_guid(str(guid))
        assert registry.registered(guid).schema.name == registry.schema(guid).name == "Flight"
    assert server.paths == [f"/schemas/ids/{number}", f"/schemas/guids/{guid}"]
    with pytest.raises(UnknownSchemaError):
        registry.by_guid(UUID(int=5))
    with pytest.raises(ConfigError, match="'x' is no GUID"):
        registry.by_guid("x")
    server.replies.append(Reply(body=json.dumps({"schema": '"int"', "guid": str(guid)}).encode()))
    with pytest.raises(SchemaRegistryError, match="its response has the GUID"):
        registry.by_guid(UUID(int=6))


def test_the_cache_is_bounded(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url, max_schemas=3)
    numbers = [server.register(f"s{at}", f'{{"type": "fixed", "name": "F", "size": {at}}}') for at in range(1, 6)]
    for number in numbers:
        registry.registered(number)
    for number in numbers[2:]:
        registry.registered(number)
    assert len(server.paths) == 5
    registry.registered(numbers[0])
    assert len(server.paths) == 6


def test_ids_of_subjects_are_cached_until_a_deletion(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = registry.register("a", '"int"')
    assert [registry.register("a", '"int"'), registry.lookup("a", '"int"'), registry.lookup("a", '"int"')] == [
        number
    ] * 3
    assert len(server.paths) == 2
    assert registry.delete("a") == [1]
    with pytest.raises(UnknownSchemaError, match="error code 40401"):
        registry.lookup("a", '"int"')
    assert registry.register("a", '"int"') == number
    assert registry.versions("a") == [2]


def test_a_failed_lookup_is_not_kept(server: RegistryServer, registry: SchemaRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match="lookup in subject 'a'"):
        registry.lookup("a", '"int"')
    server.register("a", '"int"')
    assert registry.lookup("a", '"int"') == 1


def test_permanent_deletion(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("a", '"int"')
    server.register("a", '"long"')
    assert registry.delete("a", 1) == [1]
    with pytest.raises(UnknownSchemaError, match="error code 40406"):
        registry.delete("a", 1)
    assert registry.version("a", 1, deleted=True).id == 1
    assert registry.versions("a", deleted=True) == [1, 2]
    assert registry.delete("a", 1, permanent=True) == [1]
    assert registry.delete("a", permanent=True) == [2]
    assert registry.subjects(deleted=True) == []
    with pytest.raises(UnknownSchemaError, match="error code 40403"):
        SchemaRegistry(server.url).registered(1)


def test_a_referred_schema_is_not_deleted(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("a", "a", kind="PROTOBUF")
    server.register("b", "b", kind="PROTOBUF", references=[("a", "a", 1)])
    with pytest.raises(SchemaRegistryError, match="error code 42206, 'One or more references exist"):
        registry.delete("a", permanent=True)


def test_normalize_and_special_names(server: RegistryServer, registry: SchemaRegistry) -> None:
    registry.register("a/b ?#%", '"int"', normalize=True)
    assert registry.lookup("a/b ?#%", '"int"', normalize=True) == 1
    assert server.paths == [
        "/subjects/a%2Fb%20%3F%23%25/versions?normalize=true",
        "/subjects/a%2Fb%20%3F%23%25?normalize=true",
    ]
    assert registry.subjects("a/b ") == ["a/b ?#%"]
    with pytest.raises(ConfigError, match="schema_type is 'AVRO', 'JSON' or 'PROTOBUF', not 'XML'"):
        registry.register("a", "", "XML")


def test_a_parsed_schema_is_kept_and_not_pickled() -> None:
    import pickle

    found = Registered('{"type": "fixed", "name": "F", "size": 2}', 7, references=(Reference("a", "a", 1, '"int"'),))
    assert found.schema is found.schema
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert "_parsed" not in vars(again)
    assert again.schema.name == "F"
    bad = Registered("no schema", origin="schema 3")
    errors: list[Any] = []
    for _ in range(2):
        with pytest.raises(SchemaError, match="schema 3: ") as caught:
            _ = bad.schema
        errors.append(caught.value)
    assert errors[0] is not errors[1]
