"""docs/operate/oauth.md: its properties fetch tokens from a local endpoint, its functions are token providers."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.config import ClientConfig
from kafwire.errors import ConfigError
from kafwire.runtime.engine import default_engine
from kafwire.secret import Secret
from kafwire.security.jwt_assertion import SignedAssertion
from kafwire.security.login import Login
from kafwire.security.token_endpoint import JWT_BEARER, TokenEndpoint
from tests.support.doc_blocks import blocks
from tests.support.login_options import Options
from tests.support.token_server import TokenServer, parts_of, pem, rsa_key, signed

PROPERTIES = [block.text for block in blocks("properties") if block.document == "oauth"]
PYTHON = [block.text for block in blocks("python") if block.document == "oauth"]
(TEMPLATE,) = [block.text for block in blocks("json") if block.document == "oauth"]
SECRET_OPTIONS = {"sasl_oauthbearer_client_secret"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer(tmp_path, client_id="CLIENT", client_secret="SECRET") as started:
        yield started


def options(text: str, server: TokenServer) -> dict[str, Any]:
    """Properties as kafwire's options; the endpoint's address leads here, to the same path."""
    given: dict[str, Any] = dict(line.split("=", 1) for line in text.splitlines())
    found = {name.replace(".", "_"): value for name, value in given.items()}
    path = found["sasl_oauthbearer_token_endpoint_url"].split("/", 3)[3]
    found["sasl_oauthbearer_token_endpoint_url"] = f"https://localhost:{server.port}/{path}"
    found |= {name: Secret(value) for name, value in found.items() if name in SECRET_OPTIONS}
    if "sasl_oauthbearer_assertion_claim_jti_include" in found:
        found["sasl_oauthbearer_assertion_claim_jti_include"] = True
    return found | {"https_ca_pem": server.ca_pem}


def sent(given: dict[str, Any]) -> str:
    """The token that a client with these options logs in with."""
    engine = default_engine()
    login = Login(Options(**given))
    return (
        engine.run(login.exchange, engine, "localhost").first().split(b"\x01")[1].decode().removeprefix("auth=Bearer ")
    )


def function(name: str) -> Any:
    """A function of the document."""
    (text,) = [text for text in PYTHON if f"def {name}(" in text]
    names: dict[str, Any] = {}
    exec(compile(text, "docs/operate/oauth.md", "exec"), names)
    return names[name]


@pytest.mark.parametrize("text", PROPERTIES, ids=range(len(PROPERTIES)))
def test_a_client_takes_them(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole clients, by the document's names and by kafwire's own: not only their logins."""
    monkeypatch.chdir(tmp_path)
    Path("key.pem").write_text(pem(rsa_key()))
    Path("entra.json").write_text(TEMPLATE)
    given: dict[str, Any] = {
        "bootstrap.servers": "localhost:9",
        "security.protocol": "SASL_SSL",
        **dict(line.split("=", 1) for line in text.splitlines()),
    }
    for kind in (kafwire.Client, kafwire.Producer, kafwire.Consumer):
        kind.from_config(given).close()
    own = {name.replace(".", "_"): value for name, value in given.items()}
    config = ClientConfig.build(own)
    assert config.sasl_oauthbearer_token_endpoint_url == given["sasl.oauthbearer.token.endpoint.url"]
    kafwire.Client(**own).close()


def test_grants_that_need_an_assertion() -> None:
    """Client credentials need a secret or an assertion, which says whose it is; JWT-bearer needs an assertion."""
    given: dict[str, Any] = {
        "bootstrap_servers": "localhost:9",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": "https://issuer.example/token",
    }
    for assertion in ("file", "private_key_file", "private_key_pem"):
        ClientConfig.build({**given, f"sasl_oauthbearer_assertion_{assertion}": "x"})
    for half in ({}, {"sasl_oauthbearer_client_id": "id"}, {"sasl_oauthbearer_client_secret": "secret"}):
        with pytest.raises(ConfigError, match="client_id and sasl_oauthbearer_client_secret, or instead of the secret"):
            ClientConfig.build({**given, **half})
    secret = {"sasl_oauthbearer_client_id": "id", "sasl_oauthbearer_client_secret": "secret"}
    with pytest.raises(ConfigError, match=r"jwt-bearer needs sasl_oauthbearer_assertion_file"):
        ClientConfig.build({**given, **secret, "sasl_oauthbearer_grant_type": JWT_BEARER})


def test_client_credentials(tmp_path: Path) -> None:
    with TokenServer(tmp_path) as server:
        assert parts_of(sent(options(PROPERTIES[0], server)))[1]["sub"] == "the-client"


def test_entra_by_a_secret(server: TokenServer) -> None:
    assert parts_of(sent(options(PROPERTIES[1], server)))[1]["sub"] == "CLIENT"
    (asked,) = server.asked
    assert asked.path == "/TENANT/oauth2/v2.0/token"
    assert asked.form == {"grant_type": "client_credentials", "scope": "api://APPLICATION/.default"}


def test_entra_by_a_certificate(server: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    thumbprint = base64.urlsafe_b64encode(hashlib.sha256(b"a certificate").digest()).decode().rstrip("=")
    Path("key.pem").write_text(pem(rsa_key()))
    Path("entra.json").write_text(TEMPLATE.replace("THUMBPRINT", thumbprint))
    assert parts_of(sent(options(PROPERTIES[2], server)))[1]["sub"] == "CLIENT"
    (asked,) = server.asked
    assert asked.path == "/TENANT/oauth2/v2.0/token"
    header, payload = parts_of(asked.form["client_assertion"])
    assert (header["x5t#S256"], payload["iss"], payload["sub"]) == (thumbprint, "CLIENT", "CLIENT")
    assert payload["aud"] == "https://login.microsoftonline.com/TENANT/oauth2/v2.0/token"
    assert payload["jti"]
    assert asked.form["client_id"] == "CLIENT"


def test_entra_by_azures_library(server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the library makes the call that it would make."""

    class DefaultAzureCredential:
        def get_token(self, scope: str) -> Any:
            endpoint = TokenEndpoint(
                server.url, client_id="CLIENT", client_secret=Secret("SECRET"), scope=scope, ca_pem=server.ca_pem
            )
            found = endpoint()
            assert found.expires_at is not None
            return types.SimpleNamespace(token=found.value.reveal(), expires_on=int(found.expires_at))

    identity: Any = types.ModuleType("azure.identity")
    identity.DefaultAzureCredential = DefaultAzureCredential
    monkeypatch.setitem(sys.modules, "azure", types.ModuleType("azure"))
    monkeypatch.setitem(sys.modules, "azure.identity", identity)
    given = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": function("entra_token")}
    assert parts_of(sent(given))[1]["sub"] == "CLIENT"
    assert server.asked[0].form["scope"] == "https://NAMESPACE.servicebus.windows.net/.default"


def test_google(server: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Google's library makes the call that it makes for a service account: JWT-bearer."""

    class Credentials:
        service_account_email = "robot@project.iam.gserviceaccount.com"
        token = ""
        expiry = dt.datetime.fromtimestamp(0)  # noqa: DTZ006 # naive, as the library has it

        def refresh(self, request: object) -> None:
            del request
            assertion = SignedAssertion(private_key_pem=Secret(pem(rsa_key())), claim_sub=self.service_account_email)
            found = TokenEndpoint(server.url, grant_type=JWT_BEARER, assertion=assertion, ca_pem=server.ca_pem)()
            assert found.expires_at is not None
            self.token = found.value.reveal()
            self.expiry = dt.datetime.fromtimestamp(found.expires_at, dt.UTC).replace(tzinfo=None)

    def default(scopes: list[str]) -> tuple[Credentials, str]:
        assert scopes == ["https://www.googleapis.com/auth/cloud-platform"]
        return Credentials(), "project"

    modules: dict[str, Any] = {
        name: types.ModuleType(name)
        for name in ("google", "google.auth", "google.auth.transport", "google.auth.transport.requests")
    }
    modules["google"].auth = modules["google.auth"]
    modules["google.auth"].transport = modules["google.auth.transport"]
    modules["google.auth.transport"].requests = modules["google.auth.transport.requests"]
    modules["google.auth"].default = default
    modules["google.auth.transport.requests"].Request = object
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    token = sent({"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": function("google_token")})
    header, payload = parts_of(token)
    assert header == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert payload["sub"] == "robot@project.iam.gserviceaccount.com"
    assert payload["exp"] == pytest.approx(time.time() + 300, abs=30)
    inner = base64.urlsafe_b64decode(token.split(".")[2] + "==").decode()
    assert parts_of(inner)[1]["sub"] == payload["sub"]
    assert server.asked[0].form["grant_type"] == JWT_BEARER


def test_functions() -> None:
    token = function("token_of_a_vault")()
    assert isinstance(token, kafwire.OAuthToken)
    assert token.extensions == {"logicalCluster": "lkc-1"}
    assert token.expires_at == pytest.approx(time.time() + 3600, abs=30)
    text = default_engine().run(function("token_of_a_service"))
    assert text.startswith("ey")


def test_amazon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    token = sent({"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": function("msk_token")()})
    url = base64.urlsafe_b64decode(token + "==").decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect")


def test_a_file(tmp_path: Path) -> None:
    """The line of the document about a file that something renews."""
    file = tmp_path / "token"
    file.write_text(signed({"exp": 4e9}) + "\n")
    given = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": lambda: file.read_text().strip()}
    assert json.dumps(parts_of(sent(given))[1]) == '{"exp": 4000000000.0}'
