"""The exchanges of a client's options, for all mechanisms: shared state, missing options, and avoided imports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.config.sasl_mechanisms import NAMES
from kafwire.errors import AuthenticationError, ConfigError
from kafwire.runtime.engine import default_engine
from kafwire.secret import Secret
from kafwire.security.login import Login
from kafwire.security.sasl.exchange import Exchange
from tests.support.login_options import Options
from tests.support.sasl_traps import CANARY, reported
from tests.support.token_server import TokenServer, parts_of, pem, rsa_key, signed

HOST = "b-1.demo.abcde.c2.kafka.eu-west-1.amazonaws.com"
BY_PASSWORD = {"sasl_username": "alice", "sasl_password": Secret(CANARY)}
SERVER_FIRST = b"r=%b,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def login(mechanism: str, **options: Any) -> Login:
    return Login(Options(sasl_mechanism=mechanism, **options), timeout_s=10)


def exchange(made: Login, host: str = HOST) -> Exchange:
    engine = default_engine()
    return engine.run(made.exchange, engine, host)


def test_plain() -> None:
    one = exchange(login("PLAIN", **BY_PASSWORD))
    assert (one.mechanism, one.first()) == ("PLAIN", b"\0alice\0" + CANARY.encode())
    assert Login.expires_at(one) is None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("tokenauth", [False, True])
def test_scram(mechanism: str, tokenauth: bool) -> None:
    made = login(mechanism, **BY_PASSWORD, sasl_tokenauth=tokenauth)
    nonces = set()
    for _ in range(3):
        one = exchange(made)
        assert one.mechanism == mechanism
        match = re.fullmatch(rb"n,,n=alice,r=([\x21-\x2b\x2d-\x7e]{24,})(,tokenauth=true)?", one.first())
        assert match
        assert (match[2] is not None) is tokenauth
        nonces.add(match[1])
        assert one.respond(SERVER_FIRST % (match[1] + b"more")) is not None
    assert len(nonces) == 3
    assert made._keys.derivations == 1


def test_a_token_provider() -> None:
    def provider() -> kafwire.OAuthToken:
        return kafwire.OAuthToken("abc", 4e9, extensions={"a": "token's"})

    made = login(
        "OAUTHBEARER", sasl_oauthbearer_token_provider=provider, sasl_oauthbearer_extensions="a=option's, b=two ,"
    )
    one = exchange(made)
    assert one.first() == b"n,,\x01auth=Bearer abc\x01a=token's\x01b=two\x01\x01"
    assert Login.expires_at(one) == 4e9


def test_connections_share_a_token() -> None:
    calls: list[int] = []

    def provider() -> kafwire.OAuthToken:
        calls.append(1)
        return kafwire.OAuthToken("abc", 4e9)

    made = login("OAUTHBEARER", sasl_oauthbearer_token_provider=provider)
    assert len({exchange(made).first() for _ in range(5)}) == len(calls) == 1


def test_a_token_endpoint(tmp_path: Path) -> None:
    with TokenServer(tmp_path, client_id="id", client_secret=CANARY) as server:
        options: dict[str, Any] = {
            "sasl_oauthbearer_token_endpoint_url": server.url,
            "sasl_oauthbearer_client_id": "id",
            "sasl_oauthbearer_scope": "flights",
            "sasl_oauthbearer_extensions": {"logicalCluster": "lkc-1"},
            "https_ca_pem": server.ca_pem,
        }
        one = exchange(login("OAUTHBEARER", **options, sasl_oauthbearer_client_secret=Secret(CANARY)))
        sent = one.first().split(b"\x01")
        payload = parts_of(sent[1].decode().removeprefix("auth=Bearer "))[1]
        assert (payload["sub"], payload["scope"], sent[2]) == ("id", "flights", b"logicalCluster=lkc-1")
        ends = Login.expires_at(one)
        assert ends is not None
        assert ends == pytest.approx(payload["exp"], abs=2)
        with pytest.raises(AuthenticationError, match="invalid_client") as refused:
            exchange(login("OAUTHBEARER", **options, sasl_oauthbearer_client_secret=Secret(f"{CANARY}2")))
        assert CANARY not in reported(refused.value)


@pytest.mark.parametrize("way", ["file", "signed", "in place of the secret"])
def test_assertions(tmp_path: Path, way: str) -> None:
    file = tmp_path / "assertion"
    file.write_text(signed({"sub": "the-subject", "exp": 4e9}))
    options: dict[str, Any] = {"sasl_oauthbearer_grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}
    if way == "file":
        options["sasl_oauthbearer_assertion_file"] = str(file)
    else:
        options |= {
            "sasl_oauthbearer_assertion_algorithm": "RS256",
            "sasl_oauthbearer_assertion_private_key_pem": Secret(pem(rsa_key(), "phrase")),
            "sasl_oauthbearer_assertion_private_key_passphrase": Secret("phrase"),
            "sasl_oauthbearer_assertion_claim_sub": "the-subject",
            "sasl_oauthbearer_assertion_claim_iss": "the-issuer",
            "sasl_oauthbearer_assertion_claim_aud": "the-audience",
            "sasl_oauthbearer_assertion_claim_exp_seconds": 77,
            "sasl_oauthbearer_assertion_claim_nbf_seconds": 7,
            "sasl_oauthbearer_assertion_claim_jti_include": True,
        }
    if way == "in place of the secret":
        del options["sasl_oauthbearer_grant_type"]
    with TokenServer(tmp_path) as server:
        ca, url = str(server.ca_file), server.url
        one = exchange(login("OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=url, https_ca_location=ca, **options))
        assert b"auth=Bearer ey" in one.first()
        form = server.asked[0].form
        payload = parts_of(form.get("assertion") or form["client_assertion"])[1]
    if way != "file":
        assert (payload["iss"], payload["aud"]) == ("the-issuer", "the-audience")
        assert (payload["exp"] - payload["iat"], payload["iat"] - payload["nbf"]) == (77, 7)
        assert payload["jti"]


def test_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    sent = json.loads(exchange(login("AWS_MSK_IAM")).first())
    assert sent["host"] == HOST
    assert sent["x-amz-credential"].startswith("AKID/")
    assert sent["x-amz-credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    with pytest.raises(AuthenticationError, match="set sasl_aws_region"):
        exchange(login("AWS_MSK_IAM"), "example.com")
    assert exchange(login("AWS_MSK_IAM", sasl_aws_region="us-east-1"), "example.com").first()


def test_gssapi() -> None:
    pytest.importorskip("gssapi", exc_type=ImportError)
    one = exchange(login("GSSAPI", sasl_kerberos_service_name="broker", sasl_kerberos_keytab="/nonexistent"))
    assert (one.mechanism, one.blocks(None)) == ("GSSAPI", True)
    with pytest.raises(AuthenticationError, match=f"SASL/GSSAPI with 'broker@{HOST}' failed"):
        one.first()


def test_a_password_has_no_other_credentials() -> None:
    assert not login("PLAIN", **BY_PASSWORD).refused(HOST, 0, 0.0, "refused")
    assert not login("SCRAM-SHA-256", **BY_PASSWORD, sasl_tokenauth=True).refused(HOST, 0, 0.0, "refused")


def test_refused_tickets_of_a_keytab_are_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", types.ModuleType("gssapi"))
    of_keytab = login("GSSAPI", sasl_kerberos_keytab="/nonexistent")
    before = of_keytab._cache
    assert of_keytab.refused(HOST, of_keytab.epoch, 0.0, "refused")
    assert of_keytab._cache != before
    assert not login("GSSAPI").refused(HOST, 0, 0.0, "refused"), "the user's cache is kinit's"


@pytest.mark.parametrize(
    ("mechanism", "options", "said"),
    [
        ("plain", {}, "sasl_mechanism must be one of PLAIN, .*GSSAPI, not 'plain'"),
        ("PLAIN", {}, "PLAIN needs sasl_username"),
        ("PLAIN", {"sasl_username": "u"}, "PLAIN needs sasl_password"),
        ("SCRAM-SHA-512", {"sasl_password": Secret(CANARY)}, "SCRAM-SHA-512 needs sasl_username"),
        ("OAUTHBEARER", {}, "needs either sasl_oauthbearer_token_provider or"),
        (
            "OAUTHBEARER",
            {"sasl_oauthbearer_token_provider": print, "sasl_oauthbearer_token_endpoint_url": "https://x/"},
            "needs either",
        ),
        ("OAUTHBEARER", {"sasl_oauthbearer_token_provider": CANARY}, "must be a function without arguments"),
        ("OAUTHBEARER", {"sasl_oauthbearer_token_endpoint_url": "https://x/"}, "needs a client's id and secret"),
        ("OAUTHBEARER", {"sasl_oauthbearer_extensions": CANARY}, "must be name=value,name=value"),
        ("OAUTHBEARER", {"sasl_oauthbearer_extensions": f"a=1,a={CANARY}"}, "has a name twice"),
        ("OAUTHBEARER", {"sasl_oauthbearer_extensions": f"auth={CANARY}"}, "may not be named 'auth'"),
        (
            "OAUTHBEARER",
            {"sasl_oauthbearer_extensions": {"a": f"{CANARY}\x01"}},
            "characters that Kafka does not allow",
        ),
    ],
)
def test_options_that_are_missing_or_wrong(mechanism: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as problem:
        login(mechanism, **options)
    assert CANARY not in reported(problem.value)


@pytest.mark.parametrize(
    ("mechanism", "module", "extra"), [("GSSAPI", "gssapi", "kerberos"), ("AWS_MSK_IAM", "botocore.session", "aws")]
)
def test_a_package_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, mechanism: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"install kafwire\[{extra}\]"):
        login(mechanism)


def test_only_a_mechanisms_own_packages_are_imported() -> None:
    """The test runs in a process of its own: this one has imported all packages."""
    program = """
import sys
from kafwire.secret import Secret
from kafwire.security.login import Login
from tests.support.login_options import Options
heavy = {"botocore", "cryptography", "gssapi", "ssl", "urllib.request", "http.client"}
found = [heavy & set(sys.modules)]
for options in (
    {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": Secret("p")},
    {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "u", "sasl_password": Secret("p")},
    {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": print},
):
    Login(Options(**options))
    found.append(heavy & set(sys.modules))
print(found)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    before = {"ssl"} if "'ssl'" in ran.stdout else set()  # asyncio imports it
    assert ran.stdout.strip() == str([before] * 4), ran.stderr


def test_a_provider_that_hangs_is_an_error_in_time() -> None:
    gate = threading.Event()
    made = Login(
        Options(sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_provider=lambda: gate.wait(30)), timeout_s=0.05
    )
    with pytest.raises(AuthenticationError, match="did not respond within 0.05 s"):
        exchange(made)
    gate.set()


def all_of(value: object, seen: dict[int, object]) -> None:
    """Every object of kafwire's that can be reached from one by its fields."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    fields = [*getattr(value, "__dict__", {}).values()]
    fields += [getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)]
    fields += value if isinstance(value, list | tuple | set) else []
    fields += [*value.keys(), *value.values()] if isinstance(value, dict) else []
    for each in fields:
        if type(each).__module__.startswith(("kafwire", "builtins", "tests.support.login")):
            all_of(each, seen)


@pytest.mark.parametrize("mechanism", sorted({*NAMES} - {"GSSAPI"}))
def test_no_object_shows_a_secret(monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    """Reprs of all that a login and an exchange in the middle of its life are made of, but a `Secret`'s own text."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("AWS_SESSION_TOKEN", CANARY)
    options: dict[str, Any] = dict(BY_PASSWORD)
    if mechanism == "OAUTHBEARER":
        options = {"sasl_oauthbearer_token_provider": lambda: kafwire.OAuthToken(CANARY, 4e9)}
    made = login(mechanism, **options)
    one = exchange(made)
    first = one.first()
    if mechanism.startswith("SCRAM"):
        one.respond(SERVER_FIRST % (first.rpartition(b"r=")[2] + b"more"))
    seen: dict[int, object] = {}
    all_of((made, one), seen)
    assert any(isinstance(each, Secret) for each in seen.values())
    texts = {id(each.reveal()) for each in seen.values() if isinstance(each, Secret)}
    shown = [type(each) for each in seen.values() if id(each) not in texts and CANARY in f"{each!r}{each}"]
    assert shown == []


def test_the_endpoints_login_shows_no_secret() -> None:
    made = login(
        "OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://localhost/",
        sasl_oauthbearer_client_id="id",
        sasl_oauthbearer_client_secret=Secret(CANARY),
        sasl_oauthbearer_assertion_private_key_pem=Secret(CANARY),
        sasl_oauthbearer_assertion_private_key_passphrase=Secret(CANARY),
    )
    seen: dict[int, object] = {}
    all_of(made, seen)
    texts = {id(each.reveal()) for each in seen.values() if isinstance(each, Secret)}
    assert [type(each) for each in seen.values() if id(each) not in texts and CANARY in f"{each!r}{each}"] == []
