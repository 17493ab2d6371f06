"""The broker's side of SASL's mechanisms, PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), as in Kafka. Pure.

An exchange takes a client's messages, and returns the responses, until `user` is the client's name. SCRAM's names are
ASCII with `=2C` and `=3D` for comma and equals sign, without SASLprep (KIP-84).

The caller supplies the random numbers of a nonce. The embedded broker's come from a seed, so that a test can be
repeated: not for production.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafwire.broker.security.credentials import MIN_ITERATIONS, ScramCredential
from kafwire.config.sasl_mechanisms import SCRAM_HASHES
from kafwire.secret import Secret

_NONCE_BITS = 130
_VALUE = rb"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = rb"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_CLIENT_FIRST = re.compile(
    rb"n,(?:a=(?P<authorization>%b))?,(?:m=%b,)?(?P<bare>n=(?P<name>%b),r=(?P<nonce>%b)(?P<extensions>%b))"
    % (_SASL_NAME, _VALUE, _SASL_NAME, _PRINTABLE, _EXTENSIONS)
)
_CLIENT_FINAL = re.compile(
    rb"(?P<without_proof>c=(?P<channel>%b),r=(?P<nonce>%b))%b,p=(?P<proof>%b)"
    % (_BASE64, _PRINTABLE, _EXTENSIONS, _BASE64)
)
_OTHER_NAME = "Authentication failed: Client requested an authorization id that is different from username"


class SaslRefusedError(Exception):
    """An exchange has failed. Its text is for the client; without a text the client gets a general reason."""


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """The login of a client by a delegation token (KIP-48).

    `credential`: the keys of the token's HMAC. `owner`: the user that the client is then. `expires_ms`: the end of the
    token, in milliseconds since 1970.
    """

    credential: ScramCredential
    owner: str
    expires_ms: int


class SaslServer(Protocol):
    """One exchange.

    `user`: the client's name after its end; None before. `token`: the delegation token that it is with; None: none.
    """

    user: str | None
    token: TokenLogin | None

    def evaluate(self, message: bytes) -> bytes:
        """Return the response to a client's message. Raises `SaslRefusedError`."""


class PlainServer:
    """PLAIN: a name and a password in one message.

    Args:
        passwords: passwords by user.
    """

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self._passwords = passwords
        self.user: str | None = None
        self.token: TokenLogin | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Compare the password."""
        tokens = message.decode("utf-8", "replace").split("\0", 3)
        if len(tokens) != 3:
            raise SaslRefusedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
        authorization, user, password = tokens
        if not user:
            raise SaslRefusedError("Authentication failed: username not specified")
        if not password:
            raise SaslRefusedError("Authentication failed: password not specified")
        known = self._passwords.get(user)
        if known is None or not hmac.compare_digest(known.reveal().encode(), password.encode()):
            raise SaslRefusedError("Authentication failed: Invalid username or password")
        if authorization not in ("", user):
            raise SaslRefusedError(_OTHER_NAME)
        self.user = user
        return b""


class ScramServer:
    """SCRAM-SHA-256 or SCRAM-SHA-512: both sides prove that they know the password's keys without sending them.

    Args:
        mechanism: its name.
        find: returns a user's credential.
        chance: the random numbers of nonces.
        find_token: returns the login by a delegation token, by its id.
    """

    def __init__(
        self,
        mechanism: str,
        find: Callable[[str], ScramCredential | None],
        chance: random.Random,
        find_token: Callable[[str], TokenLogin | None] = lambda _: None,
    ) -> None:
        self._algorithm = SCRAM_HASHES[mechanism]
        self._find = find
        self._find_token = find_token
        self._random = chance
        self._name = ""
        self._first = b""  # both first messages, as they are signed
        self._nonce = b""
        self._credential: ScramCredential | None = None
        self.user: str | None = None
        self.token: TokenLogin | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Respond to the first message by salt and iterations, to the final one by the server's signature."""
        if self.user is not None:
            raise SaslRefusedError
        return self._begin(message) if self._credential is None else self._end(message, self._credential)

    def _begin(self, message: bytes) -> bytes:
        found = _CLIENT_FIRST.fullmatch(message)
        if found is None:
            raise SaslRefusedError
        self._name = _name(found["name"])
        if _has_token(found["extensions"]):
            self.token = self._find_token(self._name)
            credential = None if self.token is None else self.token.credential
        else:
            credential = self._find(self._name)
        if credential is None:
            raise SaslRefusedError
        if _name(found["authorization"] or b"") not in ("", self._name):
            raise SaslRefusedError(_OTHER_NAME)
        if credential.iterations < MIN_ITERATIONS:
            raise SaslRefusedError
        self._nonce = found["nonce"] + b"%x" % self._random.getrandbits(_NONCE_BITS)
        response = b"r=%b,s=%b,i=%d" % (self._nonce, base64.b64encode(credential.salt), credential.iterations)
        self._first = found["bare"] + b"," + response
        self._credential = credential
        return response

    def _end(self, message: bytes, credential: ScramCredential) -> bytes:
        found = _CLIENT_FINAL.fullmatch(message)
        if found is None or found["nonce"] != self._nonce:
            raise SaslRefusedError
        signed = self._first + b"," + found["without_proof"]
        signature = hmac.digest(credential.stored_key, signed, self._algorithm)
        proof = base64.b64decode(found["proof"])
        if len(proof) != len(signature):
            raise SaslRefusedError
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(self._algorithm, client_key).digest(), credential.stored_key):
            raise SaslRefusedError
        self.user = self._name if self.token is None else self.token.owner
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, self._algorithm))


def _has_token(extensions: bytes) -> bool:
    """True if the name is a delegation token's id. Other extensions are ignored."""
    named = dict(part.split(b"=", 1) for part in extensions.split(b",")[1:])
    return named.get(b"tokenauth", b"").lower() == b"true"


def _name(sasl_name: bytes) -> str:
    return sasl_name.replace(b"=2C", b",").replace(b"=3D", b"=").decode("ascii")
