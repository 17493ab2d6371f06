"""SASL/OAUTHBEARER, message by message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.oauthbearer import OAuthBearerExchange
from tests.support.sasl_traps import CANARY, check_refused, reported

TOKEN = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="  # of RFC 7628's examples
ERROR = b'{"status":"invalid_token", "scope":"flights", "openid-configuration":"https://issuer.example/config"}'


def started(token: str = CANARY) -> OAuthBearerExchange:
    exchange = OAuthBearerExchange(Secret(token))
    exchange.first()
    return exchange


def test_its_only_message() -> None:
    exchange = OAuthBearerExchange(Secret(TOKEN), expires_at=12.5)
    assert (exchange.mechanism, exchange.blocks(None), exchange.expires_at) == ("OAUTHBEARER", False, 12.5)
    assert exchange.first() == b"n,,\x01auth=Bearer " + TOKEN.encode() + b"\x01\x01"
    assert exchange.respond(b"") is None
    check_refused(exchange, b"")


def test_extensions_in_their_order() -> None:
    exchange = OAuthBearerExchange(Secret("t"), {"logicalCluster": "lkc-1", "identityPoolId": "pool a"})
    assert exchange.first() == b"n,,\x01auth=Bearer t\x01logicalCluster=lkc-1\x01identityPoolId=pool a\x01\x01"


def test_an_error_is_acknowledged_and_then_raised() -> None:
    exchange = started()
    assert exchange.respond(ERROR) == b"\x01"
    refused = check_refused(exchange, b"")
    assert str(refused) == (
        "the broker refused the OAuth token: status 'invalid_token', scope 'flights', "
        "openid-configuration 'https://issuer.example/config'"
    )


def test_an_error_is_reported_when_the_broker_ends_the_exchange() -> None:
    exchange = started()
    exchange.respond(ERROR)
    assert "status 'invalid_token'" in str(exchange.refused())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (b"not json", "its response was 'not json'"),
        (b"[1]", r"its response was '\[1\]'"),
        (b'{"status": 3}', "its response was"),
        (b"[" * 100_000, "its response was"),
        (b"9" * 5000, "its response was"),
        (json.dumps({"status": "line\nforged\ud800"}).encode(), "status 'line forged"),
        (json.dumps({"status": "x" * 5000}).encode(), "status 'x{300}[.]{3}'$"),
    ],
)
def test_other_errors(error: bytes, said: str) -> None:
    exchange = started()
    assert exchange.respond(error) == b"\x01"
    with pytest.raises(AuthenticationError, match=said):
        exchange.respond(b"")


@given(challenge=st.binary(min_size=1), after=st.binary())
def test_whatever_the_broker_says_ends_in_one_error(challenge: bytes, after: bytes) -> None:
    exchange = started()
    assert exchange.respond(challenge) == b"\x01"
    check_refused(exchange, after)


def test_a_reply_before_the_first_message() -> None:
    check_refused(OAuthBearerExchange(Secret(CANARY)), b"")


HAS_OTHERS = "has characters that are not allowed in a bearer token"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "is empty"),
        *((wrong, HAS_OTHERS) for wrong in ("a b", "a,b", "a\x01auth=Bearer b", "é", "=a", "\ud800")),
        ("a\n", "ends with a line end"),
        ("a\r\n", "ends with a line end"),
        ("a ", "has white space around it"),
    ],
)
def test_a_token_that_is_none(wrong: str, said: str) -> None:
    with pytest.raises(AuthenticationError, match=f"the OAuth token {said}") as refused:
        OAuthBearerExchange(Secret(wrong and CANARY + wrong)).first()
    assert CANARY not in reported(refused.value)


@pytest.mark.parametrize(
    ("extensions", "said"),
    [
        ({"auth": "x"}, "may not be named 'auth'"),
        ({"a1": "x"}, "has letters only, not 'a1'"),
        ({"": "x"}, "has letters only"),
        ({"a": ""}, "'a' is empty"),
        ({"a": f"{CANARY}\x01"}, "characters that Kafka does not allow"),
        ({"a": f"{CANARY}é"}, "characters that Kafka does not allow"),
    ],
)
def test_extensions_that_are_refused(extensions: dict[str, str], said: str) -> None:
    with pytest.raises(AuthenticationError, match=said) as refused:
        OAuthBearerExchange(Secret(CANARY), extensions).first()
    assert CANARY not in reported(refused.value)
