"""The registry's client against a registry of this machine."""

from __future__ import annotations

import base64
import pickle
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafwire.avro import AvroDecoder
from kafwire.errors import ConfigError, DecodeError, SchemaError, SchemaRegistryError, UnknownSchemaError
from kafwire.registry import SchemaRegistry
from kafwire.secret import Secret
from tests.support.deadlines import ended, until
from tests.support.schema_registry import RegistryServer, Reply, error

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture
def registry(server: RegistryServer) -> SchemaRegistry:
    return SchemaRegistry(server.url, timeout_s=10)


def test_a_schema_is_asked_for_once(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("flights-value", FLIGHT)
    assert [registry.schema(number).name for _ in range(3)] == ["Flight"] * 3
    assert server.paths == [f"/schemas/ids/{number}"]


def test_the_latest_version_of_a_subject(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("a/b value", "string")
    number = server.register("a/b value", '"long"')
    found = registry.latest("a/b value")
    assert (found.id, found.version, found.subject, found.schema.kind) == (number, 2, "a/b value", "long")
    assert server.paths == ["/subjects/a%2Fb%20value/versions/latest"]


def test_references_are_resolved_in_order(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("airport", {"type": "record", "name": "a.Airport", "fields": [{"name": "code", "type": "string"}]})
    leg = {"type": "record", "name": "a.Leg", "fields": [{"name": n, "type": "Airport"} for n in ("origin", "dest")]}
    server.register("leg", leg, references=[("a.Airport", "airport", 1)])
    trip = {
        "type": "record",
        "name": "Trip",
        "fields": [{"name": "leg", "type": "a.Leg"}, {"name": "at", "type": "a.Airport"}],
    }
    references = [("a.Leg", "leg", 1), ("a.Airport", "airport", 1)]
    schema = registry.schema(server.register("trip", trip, references=references))
    assert [each.type.name for each in schema.fields] == ["a.Leg", "a.Airport"]
    assert len(server.paths) == 3  # the airport once


def test_a_reference_to_itself_is_refused(server: RegistryServer, registry: SchemaRegistry) -> None:
    server.register("a", '"string"', references=[("b", "b", 1)])
    server.register("b", '"string"', references=[("a", "a", 1)])
    with pytest.raises(SchemaError, match="refers to itself"):
        registry.schema(1)


def test_a_missing_reference_is_named(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("a", '"string"', references=[("b", "gone", 3)])
    with pytest.raises(UnknownSchemaError, match="version 3 of subject 'gone'") as caught:
        registry.schema(number)
    assert caught.value.code == 40401


def test_an_unknown_id_is_reported_for_a_time_without_asking(server: RegistryServer) -> None:
    now = [0.0]
    registry = SchemaRegistry(server.url, unknown_s=10, clock=lambda: now[0])
    for _ in range(2):
        with pytest.raises(UnknownSchemaError, match="schema 1: .* does not have it: status 404, error code 40403"):
            registry.schema(1)
    assert len(server.paths) == 1
    server.register("late", FLIGHT)
    now[0] = 10.5
    assert registry.schema(1).name == "Flight"
    assert len(server.paths) == 2


@pytest.mark.parametrize("kind", ["PROTOBUF", "JSON"])
def test_another_type_of_schema_is_refused_for_good(
    server: RegistryServer, registry: SchemaRegistry, kind: str
) -> None:
    number = server.register("other", "syntax", kind=kind)
    for _ in range(2):
        with pytest.raises(SchemaError, match=f"is a schema of type {kind}, not AVRO"):
            registry.schema(number)
    assert len(server.paths) == 1


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(body=b"<html>"), "its response is not JSON: is this the address"),
        (Reply(body=b"[" * 100_000), "its response is not JSON"),
        (Reply(body=b"[]"), "its response is not a JSON object"),
        (Reply(body=b"{}"), "its response has no schema"),
        (Reply(body=b'{"schema": "\\"int\\"", "references": [3]}'), "its references have no subject and version"),
        (Reply(status=404, body=b"nothing here"), "status 404: is this the address of a schema registry"),
        (Reply(status=302, location="http://localhost:9/"), "status 302: redirects are not followed"),
        (error(403, 40301, "User is denied"), "status 403, error code 40301, 'User is denied': check username"),
        (error(422, 42201, "Invalid"), "status 422, error code 42201"),
        (Reply(body=b'"' + b"x" * (8 << 20)), "its response is larger than"),
    ],
)
def test_a_response_that_is_no_schema_is_an_error_and_not_kept(
    server: RegistryServer, registry: SchemaRegistry, reply: Reply, said: str
) -> None:
    number = server.register("flights-value", FLIGHT)
    server.replies.append(reply)
    with pytest.raises(SchemaRegistryError, match=said) as caught:
        registry.schema(number)
    assert not caught.value.retriable
    assert registry.schema(number).name == "Flight"


@pytest.mark.parametrize("reply", [error(503, 50301, "starting"), error(429, 42901, "slow down"), Reply(drop=True)])
def test_a_registry_that_is_down_for_a_moment_is_asked_again(
    server: RegistryServer, registry: SchemaRegistry, reply: Reply
) -> None:
    number = server.register("flights-value", FLIGHT)
    server.replies.append(reply)
    assert registry.schema(number).name == "Flight"
    assert len(server.paths) == 2


def test_a_registry_that_stays_down_is_an_error_in_time(server: RegistryServer) -> None:
    server.replies.extend([error(500, 50001, "broken")] * 50)
    # the last attempt may end with the time
    said = "within 0.5 s: (status 500|its response did not end|it did not respond in time|there was no time left)"
    with pytest.raises(SchemaRegistryError, match=said) as caught:
        SchemaRegistry(server.url, timeout_s=0.5).schema(1)
    assert caught.value.retriable
    with pytest.raises(SchemaRegistryError, match="Connection refused"):
        SchemaRegistry("http://localhost:9", timeout_s=0.01).schema(1)


def test_threads_share_one_request(server: RegistryServer, registry: SchemaRegistry) -> None:
    number = server.register("flights-value", FLIGHT)
    wait = threading.Event()
    server.replies.append(Reply(status=503, before=lambda: wait.wait(30)))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(registry.schema(number))) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: server.paths, "the request")
    wait.set()
    ended(*threads)
    assert len(found) == 8
    assert len(server.paths) == 2


def test_https_and_basic_authentication(tmp_path: Path) -> None:
    with RegistryServer(tmp_path, ("reader", "swordfish")) as server:
        number = server.register("flights-value", FLIGHT)
        good = SchemaRegistry(server.url, username="reader", password="swordfish", ca_location=str(server.ca_file))
        assert good.schema(number).name == "Flight"
        wrong = SchemaRegistry(server.url, username="reader", password="guess", ca_location=str(server.ca_file))
        with pytest.raises(SchemaRegistryError, match="status 401") as caught:
            wrong.schema(number)
        assert "guess" not in str(caught.value)
        with pytest.raises(SchemaRegistryError, match="its certificate is not accepted"):
            SchemaRegistry(server.url, timeout_s=5).schema(number)


def test_no_credentials_are_shown_though_the_registry_repeats_them(tmp_path: Path) -> None:
    sent = base64.b64encode(b"reader:swordfish").decode()
    with RegistryServer(tmp_path) as server:
        registry = SchemaRegistry(server.url, username="reader", password="swordfish", ca_location=str(server.ca_file))
        server.replies.append(error(403, 40301, f"no access with swordfish, Basic {sent}"))
        with pytest.raises(SchemaRegistryError, match=r"no access with \*\*\*, Basic \*\*\*") as caught:
            registry.schema(1)
    shown = [str(caught.value)]
    for frame, _ in traceback.walk_tb(caught.value.__traceback__):
        if "kafwire" in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename:
            shown += [repr(value) for value in frame.f_locals.values()]
    assert len(shown) > 5
    assert not [text for text in shown if "swordfish" in text or sent in text]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "localhost:8081"}, "begins with http:// or https://"),
        ({"url": "http://u:p@localhost"}, "not have a user name or password in its address"),
        ({"url": "http://localhost?a=1"}, "no query"),
        ({"url": "http://localhost", "username": "u"}, "username and password together"),
        (
            {"url": "http://registry.example", "username": "u", "password": "p"},
            "needs an address that begins with https",
        ),
        ({"url": "http://localhost", "username": "u:", "password": "p"}, "must not have a colon"),
        ({"url": "http://localhost", "timeout_s": 0}, "timeout_s is above 0"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        SchemaRegistry(**options)
    assert "u:p@" not in str(caught.value)


def test_a_pickle_has_the_options_and_no_secret(server: RegistryServer) -> None:
    number = server.register("flights-value", FLIGHT)
    assert pickle.loads(pickle.dumps(SchemaRegistry(server.url))).schema(number).name == "Flight"
    with pytest.raises(TypeError, match="a Secret cannot be pickled"):
        pickle.dumps(SchemaRegistry(server.url, username="reader", password=Secret("swordfish")))


def test_a_decoder_asks_the_registry(server: RegistryServer, registry: SchemaRegistry) -> None:
    old = server.register("flights-value", FLIGHT)
    proto = server.register("flights-value", "syntax", kind="PROTOBUF")
    frame = [b"\0" + number.to_bytes(4, "big") + b"\4UA" for number in (old, proto, 9, old)]
    decoder = AvroDecoder(FLIGHT, schema_of=registry.schema, on_bad="null")
    decoded = decoder.decode(frame)
    assert decoded.to_arrow()["carrier"].to_pylist() == ["UA", None, None, "UA"]
    assert [(each.row, each.schema_id) for each in decoded.bad] == [(1, proto), (2, 9)]
    assert "type PROTOBUF, not AVRO" in decoded.bad[0].cause
    assert "error code 40403" in decoded.bad[1].cause
    with pytest.raises(DecodeError, match="row 1: schema 2: .*PROTOBUF"):
        AvroDecoder(FLIGHT, schema_of=registry.schema).decode(frame)


def test_a_registry_that_is_down_makes_no_value_bad(server: RegistryServer) -> None:
    server.replies.extend([error(500, 50001, "broken")] * 50)
    number = server.register("flights-value", FLIGHT)
    frame = [b"\0" + number.to_bytes(4, "big") + b"\4UA"]
    registry = SchemaRegistry(server.url, timeout_s=0.2)
    decoder = AvroDecoder(FLIGHT, schema_of=registry.schema, on_bad="drop")
    with pytest.raises(SchemaRegistryError, match="within 0.2 s"):
        decoder.decode(frame)
    server.replies.clear()
    assert decoder.decode(frame).to_arrow()["carrier"].to_pylist() == ["UA"]


def test_an_id_that_is_registered_later_is_decoded_then(server: RegistryServer) -> None:
    registry = SchemaRegistry(server.url, unknown_s=0)
    decoder = AvroDecoder(FLIGHT, schema_of=registry.schema, on_bad="drop")
    frame = [b"\0\0\0\0\1\4UA", b"\0\0\0\0\2\4UA"] * 3
    assert len(decoder.decode(frame).bad) == 6
    assert server.paths == ["/schemas/ids/1", "/schemas/ids/2"]  # once for the values at hand
    server.register("flights-value", FLIGHT)
    assert len(decoder.decode(frame)) == 3
