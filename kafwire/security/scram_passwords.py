"""New SCRAM credentials: a password salted as Kafka's clients do it, so that no broker sees it (RFC 5802, KIP-554)."""

from __future__ import annotations

import hashlib
import secrets

from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.secret import Secret

__all__ = ["LEAST_ITERATIONS", "MOST_ITERATIONS", "new_salt", "salted_password"]

# Kafka's limits for new credentials. A client accepts more iterations at a login.
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
_SALT_BYTES = 32


def new_salt() -> bytes:
    """Return a random salt."""
    return secrets.token_bytes(_SALT_BYTES)


def salted_password(mechanism: str, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Return `Hi` of RFC 5802: the password is UTF-8 without SASLprep, as in Kafka. It takes milliseconds."""
    return hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password.reveal().encode(), salt, iterations)
