"""The registry's client with tokens, client certificates and headers."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.errors import ConfigError, SchemaRegistryError
from kafwire.registry import SchemaRegistry
from kafwire.secret import Secret
from tests.support.schema_registry import RegistryServer, Reply, error

FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}


def test_a_bearer_token() -> None:
    with RegistryServer(token="swordfish") as server:
        number = server.register("flights-value", FLIGHT)
        for token in ("swordfish", Secret("swordfish"), lambda: "swordfish", lambda: kafwire.OAuthToken("swordfish")):
            assert SchemaRegistry(server.url, token=token).schema(number).name == "Flight"
        with pytest.raises(SchemaRegistryError, match="status 401.*check username and password, the token") as caught:
            SchemaRegistry(server.url, token="guess").schema(number)
        assert caught.value.status == 401
        assert "guess" not in str(caught.value)


def test_a_callable_gives_each_request_its_token() -> None:
    with RegistryServer() as server:
        tokens = iter(["one", "two"])
        registry = SchemaRegistry(server.url, token=lambda: next(tokens))
        server.replies.append(error(503, 50301, "starting"))
        registry.subjects()
        assert [each["Authorization"] for each in server.headers] == ["Bearer one", "Bearer two"]
        with pytest.raises(SchemaRegistryError, match="token: its callable failed: StopIteration") as caught:
            registry.subjects()
        assert isinstance(caught.value.__cause__, StopIteration)
        assert len(server.paths) == 2


def test_no_token_is_shown_though_the_registry_repeats_it() -> None:
    with RegistryServer() as server:
        registry = SchemaRegistry(server.url, token="swordfish")
        server.replies += [error(403, 40301, "no access with swordfish"), Reply(body=b"no JSON: swordfish")]
        for _ in range(2):
            with pytest.raises(SchemaRegistryError) as caught:
                registry.subjects()
            shown = [str(caught.value), repr(registry)]
            for frame, _ in traceback.walk_tb(caught.value.__traceback__):
                if "kafwire" in frame.f_code.co_filename and "tests" not in frame.f_code.co_filename:
                    shown += [repr(value) for value in frame.f_locals.values()]
            assert not [text for text in shown if "swordfish" in text]


@pytest.mark.parametrize("form", ["files", "texts", "one file", "one text"])
def test_a_client_certificate(tmp_path: Path, form: str) -> None:
    with RegistryServer(tmp_path, client_certificates=True) as server:
        number = server.register("flights-value", FLIGHT)
        certificate, key = server.client_certificate()
        (tmp_path / "c.pem").write_text(certificate)
        (tmp_path / "k.pem").write_text(key)
        (tmp_path / "both.pem").write_text(certificate + key)
        forms: dict[str, dict[str, Any]] = {
            "files": {"certificate_location": str(tmp_path / "c.pem"), "key_location": str(tmp_path / "k.pem")},
            "texts": {"certificate_pem": certificate, "key_pem": Secret(key)},
            "one file": {"certificate_location": str(tmp_path / "both.pem")},
            "one text": {"certificate_pem": certificate + key},
        }
        registry = SchemaRegistry(server.url, ca_location=str(server.ca_file), timeout_s=10, **forms[form])
        assert registry.schema(number).name == "Flight"
        with pytest.raises(SchemaRegistryError, match="no response from the schema registry"):
            SchemaRegistry(server.url, ca_location=str(server.ca_file), timeout_s=0.3).schema(number)


def test_an_encrypted_key(tmp_path: Path) -> None:
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    with RegistryServer(tmp_path, client_certificates=True) as server:
        number = server.register("flights-value", FLIGHT)
        certificate, key = server.client_certificate()
        loaded = serialization.load_pem_private_key(key.encode(), None)
        encrypted = loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"swordfish"),
        ).decode()
        options: dict[str, Any] = {"ca_location": str(server.ca_file), "certificate_pem": certificate}
        registry = SchemaRegistry(server.url, key_pem=encrypted, key_password="swordfish", **options)
        assert registry.schema(number).name == "Flight"
        with pytest.raises(ConfigError, match="encrypted, and key_password is missing"):
            SchemaRegistry(server.url, key_pem=encrypted, **options)
        with pytest.raises(ConfigError, match="encrypted, and key_password is wrong"):
            SchemaRegistry(server.url, key_pem=encrypted, key_password="guess", **options)


def test_headers_go_with_every_request() -> None:
    with RegistryServer() as server:
        SchemaRegistry(server.url, headers={"target-sr-cluster": "lsrc-1"}).subjects()
        assert ("target-sr-cluster", "lsrc-1") in [(name.lower(), value) for name, value in server.headers[0].items()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"token": "t", "username": "u", "password": "p"}, "takes a token, or username and password"),
        ({"token": ""}, "token is empty"),
        ({"token": "a\r\nHost: b"}, "token is empty, or has characters"),
        ({"url": "http://registry.example", "token": "t"}, "token needs an address that begins with https"),
        ({"url": ["http://localhost", "http://registry.example"], "token": "t"}, "needs an address that begins with"),
        ({"url": []}, "needs an address"),
        ({"url": "http://localhost,"}, "begins with http:// or https://"),
        ({"headers": {"a\n": "b"}}, "has characters that no header allows"),
        ({"headers": {"a": "b\r\nc: d"}}, "has characters that no header allows"),
        ({"headers": {"Authorization": "Basic b"}}, "is kafwire's own"),
        ({"certificate_pem": "c"}, "certificate needs its key"),
        ({"key_pem": "k"}, "key needs its certificate"),
        ({"key_password": "k"}, "key needs its certificate"),
        ({"certificate_pem": "c", "certificate_location": "/c"}, "one option in two forms"),
        (
            {"certificate_location": "/no/such/file", "key_pem": "k"},
            "certificate_location '/no/such/file' cannot be read",
        ),
        ({"certificate_pem": "c", "key_pem": "k"}, "client certificate only at an address that begins with https"),
        (
            {"url": "https://localhost", "certificate_pem": "c", "key_pem": "k"},
            "certificate or private key cannot be read",
        ),
        ({"attempt_timeout_s": 0}, "attempt_timeout_s is above 0"),
        ({"max_retries": -1}, "max_retries at least 0"),
        ({"max_schemas": 0}, "max_schemas at least 1"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SchemaRegistry(**{"url": "http://localhost", **options})


def test_no_secret_is_pickled() -> None:
    given: list[dict[str, Any]] = [{"token": "t"}, {"username": "u", "password": "p"}]
    for options in given:
        with pytest.raises(TypeError, match="a Secret cannot be pickled"):
            pickle.dumps(SchemaRegistry("http://localhost", **options))
    again = pickle.loads(pickle.dumps(SchemaRegistry(["http://localhost:1", "http://localhost:2"], token=_token)))
    assert repr(again) == "SchemaRegistry('http://localhost:1, http://localhost:2')"


def _token() -> str:
    return "swordfish"
