"""Users and their credentials: SCRAM's stored keys, which belong to the cluster, and PLAIN passwords by listener.

Kafka has the keys in its metadata log, and the passwords in the JAAS configuration of a listener (KIP-84, KIP-554).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafwire.config.sasl_mechanisms import SCRAM_HASHES, WITH_PASSWORD
from kafwire.secret import Secret

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
_SALT_BYTES = 20


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A broker's keys of a password; a login needs the password itself (RFC 5802)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def dump(self) -> list[str | int]:
        """Return all fields as JSON types."""
        raw = (self.salt, self.stored_key, self.server_key)
        return [*(base64.b64encode(each).decode() for each in raw), self.iterations]

    def __repr__(self) -> str:
        return f"ScramCredential(***, iterations={self.iterations})"


def credential_from_salted(mechanism: str, salt: bytes, salted: bytes, iterations: int) -> ScramCredential:
    """Return the keys of a salted password, which clients of AlterUserScramCredentials send."""
    algorithm = SCRAM_HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    return ScramCredential(salt, hashlib.new(algorithm, client_key).digest(), server_key, iterations)


@dataclass(slots=True)
class SaslListener:
    """The authentication of one listener.

    `max_reauth_ms`: the lifetime of a session; None: that of `connections.max.reauth.ms`; 0: for ever.
    """

    mechanisms: Sequence[str] = WITH_PASSWORD
    passwords: dict[str, Secret] = field(default_factory=dict)
    max_reauth_ms: int | None = None


class Credentials:
    """The users of a cluster: `state.part(Credentials)`."""

    def __init__(self, state: ClusterState) -> None:
        self._random = state.random
        self._state = state
        self.scram: dict[tuple[str, str], ScramCredential] = {}  # by mechanism and user
        self.listeners: dict[str, SaslListener] = {}

    def listener(self, name: str) -> SaslListener:
        """Return the authentication of a listener."""
        return self.listeners.setdefault(name, SaslListener())

    def add_scram(
        self,
        user: str,
        password: str | Secret,
        mechanisms: Iterable[str] = tuple(SCRAM_HASHES),
        *,
        iterations: int = MIN_ITERATIONS,
    ) -> None:
        """Set a user's password, as raw UTF-8 without SASLprep, as in Kafka.

        The salt comes from the state's random numbers, so that a world can be repeated: not for production.
        """
        for mechanism in mechanisms:
            salt = self._random.randbytes(_SALT_BYTES)
            raw = Secret(password).reveal().encode()
            salted = hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], raw, salt, iterations)
            self.set_scram(mechanism, user, credential_from_salted(mechanism, salt, salted, iterations))

    def set_scram(self, mechanism: str, user: str, credential: ScramCredential | None) -> None:
        """Store a credential; None: delete it."""
        if credential is None:
            del self.scram[mechanism, user]
        else:
            self.scram[mechanism, user] = credential
        self._state.journal.write("scram", [mechanism, user], None if credential is None else credential.dump())

    def add_users(
        self,
        listener: str,
        mechanisms: Sequence[str],
        users: Mapping[str, str | Secret],
        max_reauth_ms: int | None = None,
    ) -> None:
        """Set the users and mechanisms of a listener."""
        its = self.listeners[listener] = SaslListener(tuple(mechanisms), max_reauth_ms=max_reauth_ms)
        for user, password in users.items():
            if "PLAIN" in mechanisms:
                its.passwords[user] = Secret(password)
            self.add_scram(user, password, [mechanism for mechanism in mechanisms if mechanism in SCRAM_HASHES])

    def scram_users(self) -> list[str]:
        """Return all users with a SCRAM credential."""
        return sorted({user for _, user in self.scram})
