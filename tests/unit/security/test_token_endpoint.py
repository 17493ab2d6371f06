"""Tokens fetched from an endpoint of this machine: requests, replies, and faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from kafwire.errors import AuthenticationError, ConfigError
from kafwire.secret import Secret
from kafwire.security.jwt_assertion import Assertion, SignedAssertion
from kafwire.security.token_endpoint import JWT_BEARER, MAX_RESPONSE_BYTES, TokenEndpoint
from tests.support.sasl_traps import CANARY, reported
from tests.support.socket_server import SocketServer
from tests.support.token_server import Response, TokenServer, error, parts_of, pem, rsa_key, signed, token


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("token-server")


@pytest.fixture(scope="module")
def started(folder: Path) -> Iterator[TokenServer]:
    with TokenServer(folder, client_id="id", client_secret=CANARY) as server:
        yield server


@pytest.fixture
def server(started: TokenServer) -> TokenServer:
    started.asked.clear()
    started.responses.clear()
    return started


def endpoint(server: TokenServer, **more: Any) -> TokenEndpoint:
    given: dict[str, Any] = {
        "client_id": "id",
        "client_secret": Secret(CANARY),
        "ca_location": str(server.ca_file),
        "timeout_s": 20.0,
    }
    return TokenEndpoint(more.pop("url", server.url), **given | more)


def refused(one: TokenEndpoint, said: str) -> AuthenticationError:
    with pytest.raises(AuthenticationError, match=said) as problem:
        one()
    assert CANARY not in reported(problem.value)
    assert CANARY not in repr(one)
    return problem.value


def test_client_credentials(server: TokenServer) -> None:
    found = endpoint(server, scope="read write/all")()
    payload = parts_of(found.value.reveal())[1]
    assert payload["sub"] == "id"
    assert found.expires_at == pytest.approx(payload["exp"], abs=2)
    (asked,) = server.asked
    assert asked.path == "/oauth2/token"
    assert asked.form == {"grant_type": "client_credentials", "scope": "read write/all"}
    assert asked.headers["accept"] == "application/json"
    assert asked.basic == f"id:{CANARY}"


def test_an_unreadable_certificate_hides_none_behind_it(
    server: TokenServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    bundle = tmp_path / "bundle.pem"
    bundle.write_text(bad + server.ca_pem)
    assert endpoint(server, ca_location=str(bundle))().value
    assert f"https_ca_location '{bundle}': certificate 1 cannot be read" in caplog.text
    with pytest.raises(ConfigError, match="https_ca_pem has no certificates that can be read"):
        endpoint(server, ca_location=None, ca_pem=bad)


def test_ca_as_text(server: TokenServer) -> None:
    assert endpoint(server, ca_location=None, ca_pem=server.ca_pem)().value


@pytest.mark.parametrize("encoded", [False, True])
def test_the_header_of_odd_ids(server: TokenServer, encoded: bool) -> None:
    server.responses.append(token())
    endpoint(server, client_id="a b", client_secret=Secret("x:é%+"), header_urlencode=encoded)()
    assert server.asked[0].basic == ("a+b:x%3A%C3%A9%25%2B" if encoded else "a b:x:é%+")


@pytest.fixture
def assertion() -> Assertion:
    return SignedAssertion(private_key_pem=Secret(pem(rsa_key())), claim_sub="the-subject", claim_aud="x")


def test_jwt_bearer(server: TokenServer, assertion: Assertion) -> None:
    one = endpoint(server, grant_type=JWT_BEARER, assertion=assertion, scope="s", client_id=None, client_secret=None)
    assert parts_of(one().value.reveal())[1]["sub"] == "the-subject"
    (asked,) = server.asked
    assert asked.form.keys() == {"grant_type", "assertion", "scope"}
    assert asked.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert "authorization" not in asked.headers


def test_an_assertion_in_place_of_the_secret(server: TokenServer, assertion: Assertion) -> None:
    assert parts_of(endpoint(server, assertion=assertion)().value.reveal())[1]["sub"] == "the-subject"
    (asked,) = server.asked
    assert asked.form.keys() == {"grant_type", "client_assertion_type", "client_assertion", "client_id"}
    assert asked.form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert "authorization" not in asked.headers


def test_each_attempt_has_a_new_assertion(server: TokenServer) -> None:
    one = SignedAssertion(private_key_pem=Secret(pem(rsa_key())), claim_sub="s", claim_jti_include=True)
    server.responses.append(error(503, "busy"))
    endpoint(server, grant_type=JWT_BEARER, assertion=one)()
    assert len({asked.form["assertion"] for asked in server.asked}) == 2


@pytest.mark.parametrize(
    ("exp_in", "fields", "ends_in"),
    [
        (None, {"expires_in": 100}, 100),
        (None, {"expires_in": "100"}, 100),
        (50, {"expires_in": 100}, 50),
        (500, {"expires_in": 100}, 100),
        (500, {}, 500),
        (None, {}, None),
        (None, {"expires_in": None}, None),
        (None, {"expires_in": -1}, None),
        (None, {"expires_in": "soon"}, None),
        (None, {"expires_in": float("inf")}, None),
        (None, {"expires_in": 10**400}, None),
    ],
)
def test_when_tokens_end(
    server: TokenServer, exp_in: float | None, fields: dict[str, Any], ends_in: float | None
) -> None:
    value = [] if exp_in is None else [signed({"exp": time.time() + exp_in})]
    server.responses.append(token(*value, **fields))
    ends = endpoint(server)().expires_at
    assert ends is None if ends_in is None else ends == pytest.approx(time.time() + ends_in, abs=20)


def test_its_scope(server: TokenServer) -> None:
    server.responses += [token(scope="a b"), token(scope=["a"])]
    assert endpoint(server)().scope == ("a", "b")
    assert endpoint(server)().scope == ()


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_transient_errors_of_an_endpoint_are_retried(server: TokenServer, status: int) -> None:
    server.responses += [error(status, "busy"), Response(drop=True), error(status, "busy")]
    assert endpoint(server)().value
    assert len(server.asked) == 4


def test_it_ends_within_its_time_and_says_the_last_reason(server: TokenServer) -> None:
    server.responses += [error(503, "busy", "come\nback") for _ in range(100)]
    begun = time.monotonic()
    refused(endpoint(server, timeout_s=0.5), r"within 0.5 s: status 503, error 'busy', error_description 'come back'$")
    assert 0.2 < time.monotonic() - begun < 5
    assert 2 <= len(server.asked) <= 4


@pytest.mark.parametrize("timeout_s", [0.05, 0.3])
def test_an_endpoint_that_hangs(server: TokenServer, timeout_s: float) -> None:
    gate = threading.Event()
    server.responses.append(Response(before=lambda: gate.wait(30)))
    begun = time.monotonic()
    try:
        refused(endpoint(server, timeout_s=timeout_s), f"within {timeout_s} s: it did not respond in time")
        assert time.monotonic() - begun < timeout_s + 5
    finally:
        gate.set()


def test_a_reply_that_does_not_end(server: TokenServer) -> None:
    gate = threading.Event()
    server.responses.append(Response(drip=gate))
    try:
        refused(endpoint(server, timeout_s=0.3), "within 0.3 s: its response did not end in time")
    finally:
        gate.set()


def test_no_server_listens(server: TokenServer) -> None:
    closed = SocketServer(lambda connection: None)
    closed.stop()
    url = f"https://localhost:{closed.port}/token"
    problem = refused(endpoint(server, url=url, timeout_s=0.3), "within 0.3 s: Connection refused")
    assert url in str(problem)


def test_a_host_that_is_not_found(server: TokenServer) -> None:
    refused(endpoint(server, url="https://no-such-host.invalid/", timeout_s=0.3), "no token from https://no-such-host")


def test_a_wrong_secret_is_an_error_at_once_and_not_shown(server: TokenServer) -> None:
    """Even by an endpoint that repeats it."""
    problem = refused(
        endpoint(server, client_secret=Secret(CANARY + "x")),
        r"status 401, error 'invalid_client', error_description 'the secret of id:\*\*\* is wrong'$",
    )
    assert str(problem).startswith(f"no token from {server.url}: ")
    assert len(server.asked) == 1


def test_an_assertion_that_is_refused(server: TokenServer, assertion: Assertion) -> None:
    class Wrong:
        def make(self) -> Secret:
            return Secret(f"a.{CANARY}.b")

    refused(endpoint(server, grant_type=JWT_BEARER, assertion=Wrong()), "status 400, error 'invalid_grant'")
    server.responses.append(error(400, "invalid_grant", f"unknown: a.{CANARY}.b"))
    refused(endpoint(server, grant_type=JWT_BEARER, assertion=Wrong()), r"'unknown: \*\*\*'")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(server: TokenServer, status: int) -> None:
    server.responses.append(Response(status, location=f"{server.url}/elsewhere"))
    refused(endpoint(server), f"it redirects to another address .status {status}., which is not followed")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (Response(body=b""), "its response is not a JSON object"),
        (Response(body=b"<html>"), "its response is not a JSON object"),
        (Response(body=b"[]"), "its response is not a JSON object"),
        (Response(body=b"[" * 200_000), "its response is not a JSON object"),
        (Response(), "its response has no access_token"),
        (Response(body=b'{"access_token": 3}'), "its response has no access_token"),
        (Response(body=b'{"access_token": ""}'), "its response has no access_token"),
        (Response(body=b" " * (MAX_RESPONSE_BYTES + 1)), "its response is larger than 1048576 bytes"),
        (Response(400, b"<html>"), "status 400$"),
        (Response(404, b'{"error": 3}'), "status 404$"),
        (Response(403, b" " * (MAX_RESPONSE_BYTES + 1)), "status 403$"),
        (error(400, "x" * 1000), "error 'x{300}[.]{3}'$"),
    ],
)
def test_replies_without_a_token(server: TokenServer, response: Response, said: str) -> None:
    server.responses.append(response)
    refused(endpoint(server), said)
    assert len(server.asked) == 1


def test_the_largest_reply(server: TokenServer) -> None:
    text = json.dumps({"access_token": "abc"}).encode()
    server.responses.append(Response(body=text + b" " * (MAX_RESPONSE_BYTES - len(text))))
    assert endpoint(server)().value.reveal() == "abc"


def test_a_certificate_of_another_authority(server: TokenServer) -> None:
    begun = time.monotonic()
    other = trustme.CA().cert_pem.bytes().decode()
    refused(
        endpoint(server, ca_location=None, ca_pem=other),
        "its certificate is not accepted: unable to get local issuer certificate",
    )
    refused(endpoint(server, ca_location=None), "its certificate is not accepted: ")
    assert time.monotonic() - begun < 10  # it is not asked again


def test_a_certificate_of_another_host(folder: Path) -> None:
    with TokenServer(folder, hosts=("example.com",)) as server:
        refused(endpoint(server), "its certificate is not accepted: Hostname mismatch")


def test_plain_http_on_this_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with TokenServer(folder, client_id="id", client_secret=CANARY, tls=False) as server:
        assert endpoint(server)().value
        refused(endpoint(server, url=server.url.replace("http:", "https:"), timeout_s=0.2), "within 0.2 s")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com/token", "at 'example.com' is not this machine"),
        ("http://10.0.0.1/token", "at '10.0.0.1' is not this machine"),
        ("http://localhost.example.com/", "is not this machine"),
        ("ftp://localhost/token", "begins with https://"),
        ("file:///etc/passwd", "begins with https://"),
        ("localhost/token", "begins with https://"),
        ("", "begins with https://"),
        ("https://", "begins with https://"),
        ("https://a b/", "begins with https://"),
        ("https://a/\n", "begins with https://"),
        ("https://é/", "begins with https://"),
        (f"https://user:{CANARY}@example.com/", "not have a user name or password"),
        (f"https://[{CANARY}/", "not a valid address"),
        (f"https://localhost:{CANARY}/", "not a valid address"),
    ],
)
def test_addresses_that_are_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as problem:
        TokenEndpoint(url, client_id="id", client_secret=Secret("x"))
    assert CANARY not in reported(problem.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x?key=v", "http://127.8.9.1/", "http://[::1]:8/x", "http://LOCALHOST/"]
)
def test_this_machine(url: str) -> None:
    name = TokenEndpoint(url, client_id="id", client_secret=Secret("x")).name
    assert name == url.partition("?")[0].lower()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"client_id": None}, "needs a client's id and secret"),
        ({"client_secret": None}, "needs a client's id and secret"),
        ({"client_secret": Secret("")}, "needs a client's id and secret"),
        ({"grant_type": JWT_BEARER}, "JWT-bearer needs an assertion"),
        ({"grant_type": "password"}, "not 'password'"),
        (
            {"ca_location": "/nonexistent/file"},
            "https_ca_location '/nonexistent/file' has no certificates .*No such file",
        ),
        ({"ca_location": None, "ca_pem": "garbage"}, "https_ca_pem has no certificates"),
    ],
)
def test_arguments_that_are_refused(server: TokenServer, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as problem:
        endpoint(server, **more)
    assert CANARY not in reported(problem.value)
