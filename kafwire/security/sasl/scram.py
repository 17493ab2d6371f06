"""SASL/SCRAM (RFC 5802, RFC 7677) as in Kafka (KIP-84): proves the password without sending it.

Kafka deviates twice: names and passwords are UTF-8 without SASLprep, and an extension `tokenauth=true` marks a
delegation token (KIP-48). The caller passes the nonce. `ScramKeys` caches derived keys, as deriving them takes long.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import NamedTuple

from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.text import encode, show

# Fewer iterations let a fake broker guess the password (this is Kafka's own minimum, too); more only cost time.
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
# More than any broker needs for its messages.
MAX_MESSAGE_BYTES = 65_536

_GS2_HEADER = b"n,,"  # no channel binding, no authorization id
_NONCE = re.compile(rb"[\x21-\x2b\x2d-\x7e]+")
_ITERATIONS = re.compile(rb"[1-9][0-9]{0,9}")
_ATTRIBUTE = re.compile(rb"([A-Za-z]+)=(.+)", re.DOTALL)


class DerivedKeys(NamedTuple):
    """The keys derived from a password, a salt and a number of iterations."""

    client_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "DerivedKeys(***)"


class ScramKeys:
    """The derived keys of a client: its next connection has the same salt, and need not derive them again.

    It holds no password. Exchanges in several threads may share it: the dictionary is replaced, never changed.

    Args:
        limit: the maximum number of keys; the oldest is dropped first. A user has one salt per mechanism, until the
            password changes.
    """

    def __init__(self, limit: int = 16) -> None:
        self._limit = limit
        self._kept: dict[tuple[str, bytes, bytes, int], DerivedKeys] = {}
        self.derivations = 0

    def has(self, mechanism: str, password: bytes, salt: bytes, iterations: int) -> bool:
        """Return whether the keys are cached."""
        return self._key(mechanism, password, salt, iterations) in self._kept

    def _key(self, mechanism: str, password: bytes, salt: bytes, iterations: int) -> tuple[str, bytes, bytes, int]:
        # Another password is another entry; the key has a salted digest of it.
        return mechanism, hmac.digest(b"kafwire" + salt, password, "sha256"), salt, iterations

    def derive(self, mechanism: str, password: bytes, salt: bytes, iterations: int) -> DerivedKeys:
        """Return the cached keys, or derive them, which takes up to a second."""
        algorithm = SCRAM_HASHES[mechanism]
        key = self._key(mechanism, password, salt, iterations)
        known = self._kept.get(key)
        if known is None:
            self.derivations += 1
            salted = hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
            known = DerivedKeys(
                hmac.digest(salted, b"Client Key", algorithm), hmac.digest(salted, b"Server Key", algorithm)
            )
            kept = self._kept.copy()
            kept[key] = known
            while len(kept) > self._limit:
                del kept[next(iter(kept))]
            self._kept = kept
        return known

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"ScramKeys({len(self._kept)} kept)"


class ScramExchange:
    """One authentication by SCRAM-SHA-256 or SCRAM-SHA-512.

    Args:
        mechanism: one of `SCRAM_HASHES`.
        username: the user's name, or a delegation token's id.
        password: the user's password, or a delegation token's HMAC in base64.
        nonce: printable characters without a comma, new for each exchange, from a cryptographic source.
        keys: shared by the exchanges of one client; None: no caching.
        tokenauth: whether name and password are those of a delegation token.
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: Secret,
        *,
        nonce: str,
        keys: ScramKeys | None = None,
        tokenauth: bool = False,
    ) -> None:
        self._mechanism = mechanism
        self._algorithm = SCRAM_HASHES[mechanism]
        self._username = username
        self._password = password
        self._nonce = nonce.encode("ascii")
        if not _NONCE.fullmatch(self._nonce):
            raise ValueError("a nonce must have printable characters other than the comma")
        self._keys = keys if keys is not None else ScramKeys(0)
        self._tokenauth = tokenauth
        self._first_bare = b""
        self._server_signature = b""
        self._next = "first"

    @property
    def mechanism(self) -> str:
        """The name that is sent in SaslHandshake."""
        return self._mechanism

    def blocks(self, challenge: bytes | None) -> bool:
        """Return whether the keys must be derived, which takes long. `respond` reports errors of a challenge."""
        if challenge is None or self._next != "server first" or len(challenge) > MAX_MESSAGE_BYTES:
            return False
        try:
            _, salt, iterations = self._read_first(challenge)
        except AuthenticationError:
            return False
        return not self._keys.has(self._mechanism, encode(self._password.reveal(), "password"), salt, iterations)

    def first(self) -> bytes:
        """Return the client's first message. Raises `AuthenticationError` for a name that cannot be encoded."""
        name = encode(self._username, "user name").replace(b"=", b"=3D").replace(b",", b"=2C")
        self._first_bare = b"n=%b,r=%b" % (name, self._nonce) + (b",tokenauth=true" if self._tokenauth else b"")
        self._next = "server first"
        return _GS2_HEADER + self._first_bare

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the client's final message for the server's first one, and None for the server's final one."""
        expected, self._next = self._next, "nothing"
        if len(challenge) > MAX_MESSAGE_BYTES:
            raise self._refused(f"its message has {len(challenge)} bytes")
        if expected == "server first":
            final = self._final(challenge)
            self._next = "server final"
            return final
        if expected == "server final":
            self._check(challenge)
            return None
        raise self._refused("it sent an unexpected message")

    def _final(self, challenge: bytes) -> bytes:
        """Return the final message, for the server's nonce, salt and iterations."""
        nonce, salt, iterations = self._read_first(challenge)
        keys = self._keys.derive(self._mechanism, encode(self._password.reveal(), "password"), salt, iterations)
        without_proof = b"c=%b,r=%b" % (base64.b64encode(_GS2_HEADER), nonce)
        signed = b",".join((self._first_bare, challenge, without_proof))
        stored_key = hashlib.new(self._algorithm, keys.client_key).digest()
        signature = hmac.digest(stored_key, signed, self._algorithm)
        proof = bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))
        self._server_signature = hmac.digest(keys.server_key, signed, self._algorithm)
        return b"%b,p=%b" % (without_proof, base64.b64encode(proof))

    def _read_first(self, challenge: bytes) -> tuple[bytes, bytes, int]:
        attributes = self._attributes(challenge)
        if [name for name, _ in attributes[:3]] != [b"r", b"s", b"i"]:
            raise self._refused("its first message is not r=...,s=...,i=...")
        (_, nonce), (_, salt), (_, count) = attributes[:3]
        if not _NONCE.fullmatch(nonce):
            raise self._refused("its nonce has invalid characters")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise self._refused("its nonce does not extend that of this client")
        decoded = self._decode(salt, "salt")
        if not _ITERATIONS.fullmatch(count):
            raise self._refused(f"its number of iterations is {show(count)!r}")
        iterations = int(count)
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise self._refused(f"it demands {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed")
        return nonce, decoded, iterations

    def _check(self, challenge: bytes) -> None:
        """Check the server's signature: it proves that the broker has the password's keys."""
        attributes = self._attributes(challenge)
        if attributes[0][0] != b"v":
            raise self._refused("its final message is neither v=... nor e=...")
        signature = self._decode(attributes[0][1], "signature")
        if not hmac.compare_digest(signature, self._server_signature):
            raise self._refused(
                "its signature is wrong: it does not know this user's password, and may not be the broker it claims"
                " to be"
            )

    def _attributes(self, challenge: bytes) -> list[tuple[bytes, bytes]]:
        """Return the attributes of a message in order, each once."""
        found: list[tuple[bytes, bytes]] = []
        for part in challenge.split(b","):
            match = _ATTRIBUTE.fullmatch(part)
            if match is None:
                raise self._refused("its message is not a list of attributes")
            found.append((match[1], match[2]))
        names = [name for name, _ in found]
        if names[0] == b"e":
            raise self._refused(f"it says {show(found[0][1])!r}")
        if b"m" in names:
            raise self._refused("it requires an extension (m=) that this client does not have")
        if len(set(names)) < len(names):
            raise self._refused("its message has an attribute twice")
        return found

    def _decode(self, value: bytes, what: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise self._refused(f"its {what} is not base64") from None

    def _refused(self, why: str) -> AuthenticationError:
        return AuthenticationError(f"{self._mechanism} with the broker failed: {why}")
