"""SASL/OAUTHBEARER (RFC 7628) as in Kafka (KIP-255): a token from an issuer, and extensions (KIP-342)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from kafwire.config.sasl_mechanisms import OAUTHBEARER
from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.text import show

MECHANISM = OAUTHBEARER.name
# A client's reply to an error; the broker then ends the exchange with its own error.
ERROR_SEEN = b"\x01"

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750, b64token
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise `AuthenticationError` for names and values that KIP-342 does not allow. Values are not shown."""
    for name, value in extensions.items():
        if name == "auth":
            raise AuthenticationError("a SASL extension may not be named 'auth', which is the token's name")
        if not _EXTENSION_NAME.fullmatch(name):
            raise AuthenticationError(f"the name of a SASL extension has letters only, not {name!r}")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise AuthenticationError(
                f"the value of the SASL extension {name!r} is empty or has characters that Kafka does not allow"
            )


class OAuthBearerExchange:
    """One authentication with a token.

    Args:
        token: the token's value.
        extensions: further values for the broker, such as `logicalCluster`.
        expires_at: when the token expires, in seconds since 1970; None: unknown.
    """

    mechanism = MECHANISM

    def __init__(
        self, token: Secret, extensions: Mapping[str, str] | None = None, *, expires_at: float | None = None
    ) -> None:
        self._token = token
        self._extensions = dict(extensions or {})
        self._next = "first"
        self._error = ""
        self.expires_at = expires_at

    def blocks(self, challenge: bytes | None) -> bool:
        """Return False: nothing here takes long."""
        del challenge
        return False

    def first(self) -> bytes:
        """Return the token and the extensions. Raises `AuthenticationError` if they cannot be sent."""
        if not _TOKEN.fullmatch(self._token.reveal()):
            raise AuthenticationError(f"the OAuth token {_fault(self._token)}")
        check_extensions(self._extensions)
        pairs = [f"auth=Bearer {self._token.reveal()}", *(f"{key}={value}" for key, value in self._extensions.items())]
        self._next = "response"
        return "\x01".join(("n,,", *pairs, "", "")).encode("ascii")

    def respond(self, challenge: bytes) -> bytes | None:
        """Return None for an empty response. Acknowledge an error in JSON; raise it at the next message."""
        expected, self._next = self._next, "nothing"
        if expected == "response" and not challenge:
            return None
        if expected == "response":
            self._error = _read_error(challenge)
            self._next = "end"
            return ERROR_SEEN
        if expected == "end":
            raise self.refused()
        raise AuthenticationError("the broker sent an unexpected SASL/OAUTHBEARER message")

    def refused(self) -> AuthenticationError:
        """Return the broker's refusal, for a connection that ends before the exchange does."""
        return AuthenticationError(f"the broker refused the OAuth token: {self._error or 'it gave no reason'}")


def _fault(token: Secret) -> str:
    """Return why a token cannot be sent, without showing any of it."""
    text = token.reveal()
    if not text:
        return "is empty"
    if text.endswith(("\n", "\r")):
        return "ends with a line end: call strip() on the text of a file or a command"
    if text != text.strip():
        return "has white space around it: call strip() on it"
    if text[:7].lower() == "bearer ":
        return "begins with the word Bearer, which is not part of it"
    return "has characters that are not allowed in a bearer token (RFC 6750)"


def _read_error(challenge: bytes) -> str:
    """Return the parts of a server's error (RFC 7628, 3.2.2) in one line."""
    try:
        read = json.loads(challenge)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict) or not isinstance(read.get("status"), str):
        return f"its response was {show(challenge)!r}"
    said = [f"status {show(read['status'].encode(errors='replace'))!r}"]
    said += [
        f"{name} {show(read[name].encode(errors='replace'))!r}"
        for name in ("scope", "openid-configuration")
        if isinstance(read.get(name), str)
    ]
    return ", ".join(said)
