"""SASL/PLAIN (RFC 4616): the name and the password in clear text, in one message. Use it with TLS only."""

from __future__ import annotations

from kafwire.config.sasl_mechanisms import PLAIN
from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.text import encode, show

MECHANISM = PLAIN.name


class PlainExchange:
    """One authentication with a name and a password.

    Args:
        username: the user's name.
        password: the user's password.
        authzid: the authorization id; Kafka's own brokers accept only the user's name, or none.
    """

    mechanism = MECHANISM

    def __init__(self, username: str, password: Secret, *, authzid: str = "") -> None:
        self._username = username
        self._password = password
        self._authzid = authzid
        self._sent = False
        self._done = False

    def blocks(self, challenge: bytes | None) -> bool:
        """Return False: nothing here takes long."""
        del challenge
        return False

    def first(self) -> bytes:
        """Return the only message. Raises `AuthenticationError` for a name or a password that cannot be encoded."""
        authzid = encode(self._authzid, "authorization id") if self._authzid else b""
        message = b"\0".join(
            (authzid, encode(self._username, "user name"), encode(self._password.reveal(), "password"))
        )
        self._sent = True
        return message

    def respond(self, challenge: bytes) -> None:
        """Check that the broker's response is empty: a refusal is an error of SaslAuthenticate instead."""
        if not self._sent or self._done:
            raise AuthenticationError("the broker sent an unexpected SASL/PLAIN message")
        self._done = True
        if challenge:
            raise AuthenticationError(f"the broker's response to SASL/PLAIN is not empty: {show(challenge)!r}")
