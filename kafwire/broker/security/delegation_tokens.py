"""Delegation tokens of a cluster, as in Kafka's DelegationTokenControlManager. Pure. See KIP-48, KIP-373.

A token is a random id, and its secret is the HMAC of the id by `delegation.token.secret.key`. A client authenticates
by SCRAM, with the id as its name and the HMAC in base64 as its password, and is the token's owner then. An expired
token is refused once the check at `delegation.token.expiry.check.interval.ms` has removed it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafwire.broker.expiry import Expiry
from kafwire.broker.request import ANONYMOUS, ClientConnection
from kafwire.broker.security.credentials import MIN_ITERATIONS, ScramCredential, credential_from_salted
from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

JOURNAL = "delegation token"
_SALT_BYTES = 20
_LATEST_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Token:
    """A token. Principals are texts such as "User:alice"; times are milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def concerns(self, principal: str) -> bool:
        """True if a principal is the owner, the requester or a renewer."""
        return principal in (self.owner, self.requester, *self.renewers)

    def may_be_renewed_by(self, principal: str) -> bool:
        """True if a principal may renew and expire the token."""
        return principal in (self.owner, *self.renewers)

    def is_expired(self, now_ms: int) -> bool:
        """True if its time is over."""
        return self.expires_ms < now_ms

    def dump(self) -> list[Any]:
        """Return all fields but the id as JSON types."""
        return [self.owner, self.requester, [*self.renewers], self.issued_ms, self.max_ms, self.expires_ms]


def load_token(token_id: str, value: list[Any]) -> Token:
    """Return the token of a value of the journal."""
    owner, requester, renewers, issued_ms, max_ms, expires_ms = value
    return Token(token_id, owner, requester, tuple(renewers), issued_ms, max_ms, expires_ms)


def may_ask(connection: ClientConnection) -> bool:
    """True if a client is authenticated, and not by a token: others get no tokens."""
    login = connection.login
    has_sasl = login is not None and bool(login.mechanism)
    return (has_sasl or connection.principal != ANONYMOUS) and not connection.is_by_token


class DelegationTokens:
    """The tokens: `state.part(DelegationTokens)`. Without a secret key there are none."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.tokens: dict[str, Token] = {}
        self._credentials: dict[tuple[str, str], ScramCredential] = {}  # by mechanism and token id
        expiry: Expiry = state.part(Expiry)
        self._watch = expiry.add("delegation.token.expiry.check.interval.ms", self._sweep)

    @property
    def is_enabled(self) -> bool:
        """True if the brokers have a key for tokens."""
        return bool(self._state.config("delegation.token.secret.key"))

    def create(self, owner: str, requester: str, renewers: Iterable[str], lifetime_ms: int) -> Token:
        """Create a token. `lifetime_ms`: its maximum lifetime; not positive: the broker's."""
        now_ms = self._state.wall_ms
        most_ms = self._state.config_int("delegation.token.max.lifetime.ms")
        max_ms = _sum(now_ms, min(most_ms, lifetime_ms) if lifetime_ms > 0 else most_ms)
        expires_ms = min(max_ms, _sum(now_ms, self._state.config_int("delegation.token.expiry.time.ms")))
        token = Token(self._new_id(), owner, requester, tuple(renewers), now_ms, max_ms, expires_ms)
        self._set(token)
        return token

    def renew(self, secret: bytes, principal: str, period_ms: int) -> int | ErrorCode:
        """Set the end of a token to a period from now, and return it; not positive: the broker's period."""
        found = self._find(secret)
        if found is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        now_ms = self._state.wall_ms
        if found.is_expired(now_ms):
            return ErrorCode.DELEGATION_TOKEN_EXPIRED
        if not found.may_be_renewed_by(principal):
            return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        most_ms = self._state.config_int("delegation.token.expiry.time.ms")
        return self._expire_at(found, now_ms + (min(most_ms, period_ms) if period_ms > 0 else most_ms))

    def expire(self, secret: bytes, principal: str, period_ms: int) -> int | ErrorCode:
        """End a token's life after a period from now; a negative one removes it. Return the time of its end."""
        found = self._find(secret)
        if found is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        if not found.may_be_renewed_by(principal):
            return ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        now_ms = self._state.wall_ms
        if period_ms < 0:
            self._remove(found.token_id)
            return now_ms
        if found.is_expired(now_ms):
            return ErrorCode.DELEGATION_TOKEN_EXPIRED
        return self._expire_at(found, _sum(now_ms, period_ms))

    def secret_of(self, token_id: str) -> bytes:
        """Return the secret of a token."""
        key = self._state.config("delegation.token.secret.key")
        return hmac.digest(key.encode(), token_id.encode(), "sha512")

    def credential(self, mechanism: str, token_id: str) -> tuple[Token, ScramCredential] | None:
        """Return a token and its keys for SCRAM, which take milliseconds to derive at the first login."""
        token = self.tokens.get(token_id) if self.is_enabled else None
        if token is None:
            return None
        known = self._credentials.get((mechanism, token_id))
        if known is None:
            salt = self._state.random.randbytes(_SALT_BYTES)
            password = base64.b64encode(self.secret_of(token_id))
            salted = hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password, salt, MIN_ITERATIONS)
            known = credential_from_salted(mechanism, salt, salted, MIN_ITERATIONS)
            self._credentials[mechanism, token_id] = known
        return token, known

    def restore(self, token: Token) -> None:
        """Add a token of the journal."""
        self.tokens[token.token_id] = token
        self._watch()

    def _find(self, secret: bytes) -> Token | None:
        known = self.tokens.values()
        return next((each for each in known if hmac.compare_digest(self.secret_of(each.token_id), secret)), None)

    def _expire_at(self, token: Token, at_ms: int) -> int:
        expires_ms = min(token.max_ms, at_ms)
        self._set(replace(token, expires_ms=expires_ms))
        return expires_ms

    def _set(self, token: Token) -> None:
        self.tokens[token.token_id] = token
        self._state.journal.write(JOURNAL, token.token_id, token.dump())
        self._watch()

    def _remove(self, token_id: str) -> None:
        del self.tokens[token_id]
        for mechanism in SCRAM_HASHES:
            self._credentials.pop((mechanism, token_id), None)
        self._state.journal.write(JOURNAL, token_id, None)

    def _sweep(self) -> bool:
        """Remove expired tokens. Return whether there are others."""
        for token in [*self.tokens.values()]:
            if token.is_expired(self._state.wall_ms):
                self._remove(token.token_id)
        return bool(self.tokens)

    def _new_id(self) -> str:
        """Return a new id, in the form of Kafka's `Uuid`: options of commands begin with a hyphen, ids do not."""
        while True:
            found = base64.urlsafe_b64encode(self._state.make_id().bytes).decode().rstrip("=")
            if not found.startswith("-"):
                return found


def _sum(now_ms: int, period_ms: int) -> int:
    return min(_LATEST_MS, now_ms + period_ms)
