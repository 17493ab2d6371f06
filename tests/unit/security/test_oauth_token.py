"""Tokens, and when they end."""

import datetime as dt
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafwire
from kafwire.secret import Secret
from kafwire.security.oauth_token import expiry_of_jwt
from tests.support.sasl_traps import CANARY
from tests.support.token_server import base64url


def jwt(payload: str) -> str:
    return f"eyJhbGciOiJub25lIn0.{base64url(payload.encode())}.c2ln"


def test_it_does_not_show_its_value() -> None:
    token = kafwire.OAuthToken(CANARY, 12, principal="me", scope=("a", "b"), extensions={"x": "y"})
    assert CANARY not in f"{token!r} {token}"
    assert token.value.reveal() == CANARY
    assert (token.expires_at, token.principal, token.scope, token.extensions) == (12.0, "me", ("a", "b"), {"x": "y"})
    assert token == kafwire.OAuthToken(Secret(CANARY), 12.0, principal="me", scope=("a", "b"), extensions={"x": "y"})
    assert hash(token)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(token)


@pytest.mark.parametrize("value", [None, b"bytes", 3])
def test_a_value_that_is_no_text(value: Any) -> None:
    with pytest.raises(TypeError, match="a secret is text"):
        kafwire.OAuthToken(value)


@pytest.mark.parametrize(
    ("payload", "ends"),
    [
        ('{"exp": 1700000000}', 1.7e9),
        ('{"exp": 1700000000.5}', 1700000000.5),
        ('{"exp": "1700000000"}', None),
        ('{"exp": true}', None),
        ('{"exp": null}', None),
        ('{"exp": NaN}', None),
        ('{"exp": Infinity}', None),
        (f'{{"exp": 1{"0" * 400}}}', None),
        (f'{{"exp": 1{"0" * 5000}}}', None),
        ("{}", None),
        ("[1]", None),
        ("not json", None),
        ("[" * 100_000, None),
    ],
)
def test_the_end_of_a_jwt_is_read(payload: str, ends: float | None) -> None:
    assert expiry_of_jwt(jwt(payload)) == ends
    assert kafwire.OAuthToken(jwt(payload)).expires_at == ends
    assert kafwire.OAuthToken(jwt(payload), 5).expires_at == 5.0


@pytest.mark.parametrize("token", ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", "a.\u00e9.c", "opaque"])
def test_other_tokens_have_no_end(token: str) -> None:
    assert expiry_of_jwt(token) is None


@pytest.mark.parametrize("wrong", [1.7e12, 1_700_000_000_000, 1.7e18, float("nan")])
def test_an_end_that_is_not_in_seconds(wrong: float) -> None:
    with pytest.raises(kafwire.ConfigError, match="is not in seconds since 1970: divide milliseconds by 1000"):
        kafwire.OAuthToken("abc", wrong)


@pytest.mark.parametrize("wrong", ["4e9", True, dt.datetime.now(dt.UTC)])
def test_an_end_that_is_no_number(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expires_at must be a number of seconds since 1970"):
        kafwire.OAuthToken("abc", wrong)


def test_ends_that_are_far_away() -> None:
    assert kafwire.OAuthToken("abc", 253_402_300_799).expires_at == 253_402_300_799.0  # the last second of 9999
    assert kafwire.OAuthToken("abc", float("inf")).expires_at == float("inf")
    assert kafwire.OAuthToken(jwt('{"exp": 1700000000000}')).expires_at == 1_700_000_000.0


@given(st.text() | st.binary().map(lambda data: f"a.{base64url(data)}.b"))
def test_no_text_is_an_error(text: str) -> None:
    expiry_of_jwt(text)
