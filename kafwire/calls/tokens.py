"""The delegation token calls (KIP-48) of the clients and admins of both faces.

Each method checks its arguments in the caller's thread, and returns the function that the engine calls.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import partial
from typing import Any

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.errors import ConfigError, broker_error
from kafwire.integers import integer
from kafwire.runtime.interfaces import Work
from kafwire.secret import Secret
from kafwire.types import DelegationToken

USER = "User"
UNLIMITED = -1  # as long as the broker allows
AT_ONCE = -1


class TokenRequests:
    """A part of `ClientCalls` and `AdminCalls`. The blocking face documents the calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create_delegation_token(
        self, renewers: Iterable[str], max_lifetime_ms: int | None, owner: str | None
    ) -> Work[DelegationToken]:
        """Create a token."""
        request: Any = protocol.CreateDelegationTokenRequest
        may_renew = [_principal("renewers", name) for name in _names("renewers", renewers)]
        message = request(
            renewers=[request.CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in may_renew],
            max_lifetime_ms=_period("max_lifetime_ms", max_lifetime_ms, 1, UNLIMITED),
        )
        if owner is not None:
            message.owner_principal_type, message.owner_principal_name = _principal("owner", owner)

        async def create() -> DelegationToken:
            response = await self._cluster.call(message)
            context = "creating a delegation token"
            if owner is not None:
                context += f" for {owner!r}"
            _check(response, context, "CreateDelegationToken", None if owner is None else _text(*_principal("", owner)))
            return _made(
                response,
                issued_at_ms=response.issue_timestamp_ms,
                expires_at_ms=response.expiry_timestamp_ms,
                max_at_ms=response.max_timestamp_ms,
                renewers=may_renew,
            )

        return create

    def renew_delegation_token(self, hmac: Secret | str, period_ms: int | None) -> Work[int]:
        """Extend a token's lifetime; return its expiry time."""
        message = protocol.RenewDelegationTokenRequest(
            hmac=_decoded(hmac), renew_period_ms=_period("period_ms", period_ms, 1, UNLIMITED)
        )
        return partial(self._set_expiry, message, "renewing a delegation token", "RenewDelegationToken")

    def expire_delegation_token(self, hmac: Secret | str, period_ms: int | None) -> Work[int]:
        """Expire a token early; return its expiry time."""
        message = protocol.ExpireDelegationTokenRequest(
            hmac=_decoded(hmac), expiry_time_period_ms=_period("period_ms", period_ms, 0, AT_ONCE)
        )
        return partial(self._set_expiry, message, "expiring a delegation token", "ExpireDelegationToken")

    async def _set_expiry(self, message: Any, context: str, api: str) -> int:
        response = await self._cluster.call(message)
        _check(response, context, api)
        return int(response.expiry_timestamp_ms)

    def describe_delegation_tokens(self, owners: Iterable[str] | None) -> Work[list[DelegationToken]]:
        """List the tokens of these owners that the user may see; None: of all owners."""
        request: Any = protocol.DescribeDelegationTokenRequest
        named = None
        if owners is not None:
            of = [_principal("owners", name) for name in _names("owners", owners)]
            named = [
                request.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in of
            ]
        message = request(owners=named)

        async def describe() -> list[DelegationToken]:
            response = await self._cluster.call(message)
            _check(response, "describing delegation tokens", "DescribeDelegationToken")
            return [
                _made(
                    token,
                    issued_at_ms=token.issue_timestamp,
                    expires_at_ms=token.expiry_timestamp,
                    max_at_ms=token.max_timestamp,
                    renewers=[(each.principal_type, each.principal_name) for each in token.renewers],
                )
                for token in response.tokens
            ]

        return describe


def _made(
    response: Any, *, issued_at_ms: int, expires_at_ms: int, max_at_ms: int, renewers: Iterable[tuple[str, str]]
) -> DelegationToken:
    owner = _text(response.principal_type, response.principal_name)
    requester = _text(response.token_requester_principal_type, response.token_requester_principal_name)
    return DelegationToken(
        token_id=response.token_id,
        hmac=Secret(base64.b64encode(response.hmac).decode()),
        owner=owner,
        # Before version 3 a token's requester was always its owner.
        requester=requester if response.token_requester_principal_name else owner,
        issued_at_ms=issued_at_ms,
        expires_at_ms=expires_at_ms,
        max_at_ms=max_at_ms,
        renewers=tuple(_text(kind, name) for kind, name in renewers),
    )


def _check(response: Any, context: str, api: str, user: str | None = None) -> None:
    if response.error_code:
        raise broker_error(response.error_code, context, api=api, user=user)


def _text(kind: str, name: str) -> str:
    """Format a principal as Kafka does."""
    return f"{kind}:{name}"


def _principal(what: str, name: Any) -> tuple[str, str]:
    """Return type and name of a principal."""
    if not isinstance(name, str) or not name.removeprefix(f"{USER}:"):
        raise ConfigError(f"{what}: {name!r} is not a principal: give a user's name, or User:<name>")
    return USER, name.removeprefix(f"{USER}:")


def _names(what: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise ConfigError(f"{what}={names!r}: it must be a list of principals")
    return list(names)


def _period(what: str, value: int | None, least: int, default: int) -> int:
    if value is None:
        return default
    number = integer(value)
    if number is None or not least <= number < 1 << 63:
        raise ConfigError(f"{what}={value!r}: it must be a number of milliseconds from {least} on, or None")
    return number


def _decoded(hmac: Secret | str) -> bytes:
    """Decode the HMAC, which identifies the token to a broker."""
    try:
        found = base64.b64decode(Secret(hmac).reveal(), validate=True)
    except (TypeError, ValueError):
        found = b""
    if not found:
        raise ConfigError("hmac must be a delegation token's HMAC in base64, as in token.hmac")
    return found
