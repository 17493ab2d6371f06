"""SASL/PLAIN (RFC 4616): the name and the password as they are, in one message. To be used inside TLS only."""

from __future__ import annotations

from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.text import encode, show

MECHANISM = "PLAIN"


class PlainExchange:
    """One authentication with a name and a password.

    Args:
        username: who logs in.
        password: their password.
        authzid: on whose behalf; Kafka's own brokers take nobody but the user itself, or none.
    """

    mechanism = MECHANISM

    def __init__(self, username: str, password: Secret, *, authzid: str = "") -> None:
        self._username = username
        self._password = password
        self._authzid = authzid
        self._sent = False
        self._done = False

    def blocks(self, challenge: bytes | None) -> bool:
        """Nothing here takes long."""
        del challenge
        return False

    def first(self) -> bytes:
        """All that the client says. Raises `AuthenticationError` for a name or a password that cannot be said."""
        authzid = encode(self._authzid, "authorization id") if self._authzid else b""
        message = b"\0".join(
            (authzid, encode(self._username, "user name"), encode(self._password.reveal(), "password"))
        )
        self._sent = True
        return message

    def respond(self, challenge: bytes) -> None:
        """The broker's answer is empty: whoever is refused gets an error of SaslAuthenticate instead."""
        if not self._sent or self._done:
            raise AuthenticationError("the broker sent a SASL/PLAIN message that nothing had asked for")
        self._done = True
        if challenge:
            raise AuthenticationError(f"the broker answered SASL/PLAIN with more than it may: {show(challenge)!r}")
