"""SASL/OAUTHBEARER (RFC 7628) as Kafka does it (KIP-255): a token that another has issued, and extensions (KIP-342)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from kafwire.errors import AuthenticationError
from kafwire.secret import Secret
from kafwire.security.sasl.text import show

MECHANISM = "OAUTHBEARER"
# What a client says to an error, so that the broker may end the exchange with its own refusal.
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
    """One authentication by a token.

    Args:
        token: the token's value.
        extensions: more that the broker wants to know, such as `logicalCluster`.
        expires_at: when the token ends, in seconds since 1970; None: not known.
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
        """Nothing here takes long."""
        del challenge
        return False

    def first(self) -> bytes:
        """The token and the extensions. Raises `AuthenticationError` for some that cannot be sent."""
        if not _TOKEN.fullmatch(self._token.reveal()):
            raise AuthenticationError(f"the OAuth token {_fault(self._token)}")
        check_extensions(self._extensions)
        pairs = [f"auth=Bearer {self._token.reveal()}", *(f"{key}={value}" for key, value in self._extensions.items())]
        self._next = "answer"
        return "\x01".join(("n,,", *pairs, "", "")).encode("ascii")

    def respond(self, challenge: bytes) -> bytes | None:
        """None to an empty answer. An error in JSON is acknowledged first, and raised at whatever follows it."""
        expected, self._next = self._next, "nothing"
        if expected == "answer" and not challenge:
            return None
        if expected == "answer":
            self._error = _read_error(challenge)
            self._next = "end"
            return ERROR_SEEN
        if expected == "end":
            raise self.refused()
        raise AuthenticationError("the broker sent a SASL/OAUTHBEARER message that nothing had asked for")

    def refused(self) -> AuthenticationError:
        """The broker's refusal, if it has sent one; for a connection that ends before the exchange does."""
        return AuthenticationError(f"the broker refused the OAuth token: {self._error or 'it did not say why'}")


def _fault(token: Secret) -> str:
    """What keeps a token from being sent, without showing any of it."""
    text = token.reveal()
    if not text:
        return "is empty"
    if text.endswith(("\n", "\r")):
        return "ends with a line end: call strip() on the text of a file or a command"
    if text != text.strip():
        return "has white space around it: call strip() on it"
    if text[:7].lower() == "bearer ":
        return "begins with the word Bearer, which is not part of it"
    return "has characters that no bearer token has (RFC 6750)"


def _read_error(challenge: bytes) -> str:
    """The parts of a server's error (RFC 7628, 3.2.2) in one line."""
    try:
        read = json.loads(challenge)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict) or not isinstance(read.get("status"), str):
        return f"it answered {show(challenge)!r}"
    said = [f"status {show(read['status'].encode(errors='replace'))!r}"]
    said += [
        f"{name} {show(read[name].encode(errors='replace'))!r}"
        for name in ("scope", "openid-configuration")
        if isinstance(read.get(name), str)
    ]
    return ", ".join(said)
