"""The requests to a cluster about delegation tokens, and the meaning of its responses."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.calls.tokens import TokenRequests
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, ConfigError

HMAC = b"\x00canary\xff"
TEXT = base64.b64encode(HMAC).decode()


def refused(ask: Callable[[], Any], match: str) -> ConfigError:
    """The error of a wrong argument, in the caller's thread: nothing is asked."""
    with pytest.raises(ConfigError, match=match) as caught:
        ask()
    return caught.value


class Responding:
    """A cluster that has one response, and keeps the requests."""

    def __init__(self, response: Any = None) -> None:
        self.asked: Any = None
        self._response = response
        self.tokens = TokenRequests(self)  # type: ignore[arg-type]

    async def call(self, message: Any) -> Any:
        self.asked = message
        return self._response


def created(**fields: Any) -> Any:
    return protocol.CreateDelegationTokenResponse(
        principal_type="User",
        principal_name="alice",
        issue_timestamp_ms=1,
        expiry_timestamp_ms=2,
        max_timestamp_ms=3,
        token_id="id",
        hmac=HMAC,
        **fields,
    )


def test_a_token_is_made() -> None:
    cluster = Responding(created(token_requester_principal_type="User", token_requester_principal_name="bob"))
    token = asyncio.run(cluster.tokens.create_delegation_token(["carol", "User:dave"], 1000, "User:alice")())
    assert token == kafwire.DelegationToken(
        "id", kafwire.Secret(TEXT), "User:alice", "User:bob", 1, 2, 3, ("User:carol", "User:dave")
    )
    asked = cluster.asked
    assert (asked.owner_principal_type, asked.owner_principal_name, asked.max_lifetime_ms) == ("User", "alice", 1000)
    assert [(each.principal_type, each.principal_name) for each in asked.renewers] == [
        ("User", "carol"),
        ("User", "dave"),
    ]


def test_a_token_is_made_as_the_broker_likes() -> None:
    cluster = Responding(created())
    token = asyncio.run(cluster.tokens.create_delegation_token((), None, None)())
    assert token.requester == token.owner == "User:alice"  # older brokers do not return it: it cannot be another user
    assert not cluster.asked.owner_principal_name
    assert (cluster.asked.max_lifetime_ms, cluster.asked.renewers) == (-1, [])
    for version in (1, 2, 3):
        cluster.asked.encode(version)


def test_another_owner_needs_a_newer_broker() -> None:
    cluster = Responding(created())
    asyncio.run(cluster.tokens.create_delegation_token((), None, "bob")())
    with pytest.raises(kafwire.ProtocolError, match="owner_principal"):
        cluster.asked.encode(2)


@pytest.mark.parametrize("hmac", [TEXT, kafwire.Secret(TEXT)], ids=["text", "secret"])
def test_a_token_is_renewed_and_ended(hmac: str | kafwire.Secret) -> None:
    cluster = Responding(protocol.RenewDelegationTokenResponse(expiry_timestamp_ms=7))
    for period, sent in ((None, -1), (5, 5)):
        assert asyncio.run(cluster.tokens.renew_delegation_token(hmac, period)()) == 7
        assert (cluster.asked.hmac, cluster.asked.renew_period_ms) == (HMAC, sent)
    cluster = Responding(protocol.ExpireDelegationTokenResponse(expiry_timestamp_ms=8))
    for period, sent in ((None, -1), (0, 0), (5, 5)):
        assert asyncio.run(cluster.tokens.expire_delegation_token(hmac, period)()) == 8
        assert (cluster.asked.hmac, cluster.asked.expiry_time_period_ms) == (HMAC, sent)


def test_tokens_are_listed() -> None:
    response = protocol.DescribeDelegationTokenResponse
    described = response.DescribedDelegationToken(
        principal_type="User",
        principal_name="alice",
        token_requester_principal_type="User",
        token_requester_principal_name="bob",
        issue_timestamp=1,
        expiry_timestamp=2,
        max_timestamp=3,
        token_id="id",
        hmac=HMAC,
        renewers=[response.DescribedDelegationTokenRenewer(principal_type="User", principal_name="carol")],
    )
    cluster = Responding(response(tokens=[described]))
    (token,) = asyncio.run(cluster.tokens.describe_delegation_tokens(None)())
    assert token == kafwire.DelegationToken(
        "id", kafwire.Secret(TEXT), "User:alice", "User:bob", 1, 2, 3, ("User:carol",)
    )
    assert cluster.asked.owners is None
    asyncio.run(cluster.tokens.describe_delegation_tokens(["alice"])())
    asked: Any = cluster.asked
    assert [(each.principal_type, each.principal_name) for each in asked.owners] == [("User", "alice")]


def test_a_refusal_names_the_request() -> None:
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    cluster = Responding(protocol.CreateDelegationTokenResponse(error_code=code))
    with pytest.raises(AuthorizationError, match=r"CreateTokens on User 'User:bob' \[creating .* for 'bob'\]"):
        asyncio.run(cluster.tokens.create_delegation_token((), None, "bob")())
    cluster = Responding(protocol.RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    with pytest.raises(BrokerError, match=r"DELEGATION_TOKEN_EXPIRED.*\[renewing") as caught:
        asyncio.run(cluster.tokens.renew_delegation_token(TEXT, None)())
    assert TEXT not in str(caught.value)
    cluster = Responding(protocol.ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND))
    with pytest.raises(BrokerError, match=r"DELEGATION_TOKEN_NOT_FOUND.*\[expiring"):
        asyncio.run(cluster.tokens.expire_delegation_token(TEXT, None)())
    cluster = Responding(protocol.DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    with pytest.raises(BrokerError, match=r"DELEGATION_TOKEN_AUTH_DISABLED.*\[describing"):
        asyncio.run(cluster.tokens.describe_delegation_tokens(None)())


@pytest.mark.parametrize("hmac", ["", "not base64!", "AAAA AAAA", "ümlaut", b"AAAA", None, "AAA"])
def test_a_text_that_is_no_hmac_is_refused_and_not_shown(hmac: Any) -> None:
    tokens = Responding().tokens
    for ask in (lambda: tokens.renew_delegation_token(hmac, None), lambda: tokens.expire_delegation_token(hmac, None)):
        error = refused(ask, "must be a delegation token's HMAC in base64")
        assert error.__context__ is None
        assert not hmac or str(hmac) not in str(error)


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "5", 1 << 63])
def test_a_wrong_period_is_refused(bad: Any) -> None:
    tokens = Responding().tokens
    refused(lambda: tokens.create_delegation_token((), bad, None), "max_lifetime_ms=.* milliseconds from 1")
    refused(lambda: tokens.renew_delegation_token(TEXT, bad), "period_ms=.* milliseconds from 1")
    if type(bad) is not int or bad:
        refused(lambda: tokens.expire_delegation_token(TEXT, bad), "period_ms=.* milliseconds from 0")


@pytest.mark.parametrize("bad", ["", "User:", None, 5])
def test_a_name_that_is_no_principal_is_refused(bad: Any) -> None:
    tokens = Responding().tokens
    refused(lambda: tokens.create_delegation_token([bad], None, None), "renewers: .* is not a principal")
    refused(lambda: tokens.describe_delegation_tokens([bad]), "owners: .* is not a principal")
    if bad is not None:
        refused(lambda: tokens.create_delegation_token((), None, bad), "owner: .* is not a principal")


@pytest.mark.parametrize("bad", ["bob", b"bob", 5])
def test_an_argument_that_is_no_list_is_refused(bad: Any) -> None:
    tokens = Responding().tokens
    refused(lambda: tokens.create_delegation_token(bad, None, None), f"renewers={bad!r}: it must be a list")
    refused(lambda: tokens.describe_delegation_tokens(bad), f"owners={bad!r}: it must be a list")
