"""Kafka's own SASL servers accept the messages of kafwire's exchanges, and kafwire accepts their responses."""

import hashlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.exchange import Exchange
from kafwire.security.sasl.oauthbearer import OAuthBearerExchange
from kafwire.security.sasl.plain import PlainExchange
from kafwire.security.sasl.scram import ScramExchange
from tests.support import seeds
from tests.support.java.oracle import Oracle, OracleError

COMPARED: Counter[str] = Counter()

# Names are ASCII in Kafka's own grammar of SCRAM; `=` and `,` are escaped.
NAMES = ["alice", "a=b", "a,b", "=2C", "=,=,", "=", "with blank", "x" * 300]
# Characters that SASLprep would change: a soft hyphen, a ligature, full-width letters, a no-break space; and others.
PASSWORDS = [
    *("secret", "a=b,c", " ", "\u00ad", "pass\u00adword", "\ufb01sh", "\uff50\uff41\uff53\uff53", "\u00a0x"),
    *("\U0001f511", "e\u0301", "\u00e9", "p" * 1000, "'\"\\", "\n\t"),
]
NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def authenticate(oracle: Oracle, exchange: Exchange, user: str, secret: str, iterations: int = 4096) -> str:
    """Run an exchange against Java's server for this user; returns the name that Java authenticated."""
    oracle.one("sasl open", "one", exchange.mechanism, user, secret, str(iterations))
    message: bytes | None = exchange.first()
    name, complete = b"", b"false"
    while message is not None:
        challenge, complete, name = oracle.one("sasl step", "one", message)
        message = exchange.respond(challenge)
    assert complete == b"true"
    COMPARED[exchange.mechanism] += 1
    return name.decode()


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("name", NAMES)
def test_scram_names(oracle: Oracle, mechanism: str, name: str) -> None:
    assert authenticate(oracle, ScramExchange(mechanism, name, Secret("x"), nonce=NONCE), name, "x") == name


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("password", PASSWORDS)
def test_scram_passwords(oracle: Oracle, mechanism: str, password: str) -> None:
    exchange = ScramExchange(mechanism, "alice", Secret(password), nonce=NONCE)
    assert authenticate(oracle, exchange, "alice", password, 5000) == "alice"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=seeds.examples(40))
@given(
    mechanism=st.sampled_from([*SCRAM_HASHES]),
    name=st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1),
    password=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
)
def test_scram_with_any_name_and_password(oracle: Oracle, mechanism: str, name: str, password: str) -> None:
    exchange = ScramExchange(mechanism, name, Secret(password), nonce=NONCE)
    assert authenticate(oracle, exchange, name, password) == name


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
def test_scram_of_a_delegation_token(oracle: Oracle, mechanism: str) -> None:
    exchange = ScramExchange(mechanism, "token-id", Secret("aGFtYWM="), nonce=NONCE, tokenauth=True)
    assert authenticate(oracle, exchange, "token-id", "aGFtYWM=") == "the owner"
    assert oracle.one("sasl negotiated", "one", "tokenauth") == [b"true"]


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
def test_scram_is_refused_by_java_for_a_wrong_password(oracle: Oracle, mechanism: str) -> None:
    with pytest.raises(OracleError, match="Invalid client credentials"):
        authenticate(oracle, ScramExchange(mechanism, "alice", Secret("wrong"), nonce=NONCE), "alice", "right")


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
def test_java_has_no_empty_password_and_neither_has_kafwire(oracle: Oracle, mechanism: str) -> None:
    with pytest.raises(OracleError, match="Empty key"):
        oracle.one("sasl salted", mechanism, "", b"salt", "4096")
    with pytest.raises(AuthenticationError, match="the password is empty"):
        authenticate(oracle, ScramExchange(mechanism, "alice", Secret(""), nonce=NONCE), "alice", "x")


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("password", PASSWORDS)
def test_salted_passwords_are_javas(oracle: Oracle, mechanism: str, password: str) -> None:
    theirs = oracle.one("sasl salted", mechanism, password, b"a salt", "4097")
    assert theirs == [hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.encode(), b"a salt", 4097)]
    COMPARED["salted passwords"] += 1


@pytest.mark.parametrize("name", [*NAMES, "\u00e9\uff50"])
@pytest.mark.parametrize("password", ["secret", "\u00ad\ufb01\uff50", "p" * 1000])
def test_plain(oracle: Oracle, name: str, password: str) -> None:
    assert authenticate(oracle, PlainExchange(name, Secret(password)), name, password) == name


def test_plain_on_behalf_of_itself_only(oracle: Oracle) -> None:
    assert authenticate(oracle, PlainExchange("a", Secret("x"), authzid="a"), "a", "x") == "a"
    with pytest.raises(OracleError, match="authorization id that is different"):
        authenticate(oracle, PlainExchange("a", Secret("x"), authzid="b"), "a", "x")


@pytest.mark.parametrize("wrong", [("bob", "x"), ("a", "y")])
def test_plain_is_refused_by_java(oracle: Oracle, wrong: Any) -> None:
    with pytest.raises(OracleError, match="Invalid username or password"):
        authenticate(oracle, PlainExchange(wrong[0], Secret(wrong[1])), "a", "x")


TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."


def test_oauthbearer_with_extensions(oracle: Oracle) -> None:
    exchange = OAuthBearerExchange(Secret(TOKEN), {"logicalCluster": "lkc-1", "other": "a b"})
    assert authenticate(oracle, exchange, "the subject", TOKEN) == "the subject"
    assert oracle.one("sasl negotiated", "one", "logicalCluster") == [b"lkc-1"]
    assert oracle.one("sasl negotiated", "one", "other") == [b"a b"]


@pytest.mark.parametrize("token", ["a", "a-b._c", "a~b", "a+b/c", "YQ=="])
def test_oauthbearer_tokens(oracle: Oracle, token: str) -> None:
    assert authenticate(oracle, OAuthBearerExchange(Secret(token)), "the subject", token) == "the subject"


def test_oauthbearer_is_refused_by_java_with_its_error(oracle: Oracle) -> None:
    exchange = OAuthBearerExchange(Secret("another"))
    with pytest.raises(OracleError, match='SaslAuthenticationException: {"status":"invalid_token"'):
        authenticate(oracle, exchange, "the subject", TOKEN)
    assert str(exchange.refused()) == (
        "the broker refused the OAuth token: status 'invalid_token', scope 'flights', "
        "openid-configuration 'https://issuer.example/config'"
    )
