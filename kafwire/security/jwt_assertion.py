"""JWT assertions (RFC 7523), which authenticate a client at a token endpoint.

They come from a file, or are signed here.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kafwire.errors import AuthenticationError, ConfigError
from kafwire.secret import Secret
from kafwire.security.oauth_token import expiry_of_jwt

ALGORITHMS = ("RS256", "ES256")
MAX_FILE_BYTES = 1 << 20


class Assertion(Protocol):
    """Makes an assertion for each token request."""

    def make(self) -> Secret:
        """Return the assertion. Raises `AuthenticationError`."""


@dataclass(frozen=True)
class AssertionFile:
    """An assertion in a file that another program renews."""

    path: str

    def make(self) -> Secret:
        """Return the file's current content. Raises `AuthenticationError` if the assertion has expired."""
        text = _read(self.path, "assertion file").strip()
        ends = expiry_of_jwt(text)
        if not text:
            raise AuthenticationError(f"the assertion file {self.path!r} is empty")
        if ends is not None and ends <= time.time():
            raise AuthenticationError(
                f"the assertion in the file {self.path!r} expired {time.time() - ends:.0f} s ago, and was not renewed"
            )
        return Secret(text)


@dataclass(frozen=True, kw_only=True)
class SignedAssertion:
    """An assertion that is created and signed here (KIP-1139). It needs the package `cryptography`.

    The claims below take precedence over those of the template; times are always set here.

    Args:
        algorithm: one of `ALGORITHMS`.
        private_key_file: the key as PEM, read again for each assertion.
        private_key_pem: the key itself, instead of a file.
        private_key_passphrase: the passphrase of an encrypted key.
        jwt_template_file: a JSON object with `header` and `payload`, to which the assertion adds its own.
        claim_aud: the audience, usually the token endpoint.
        claim_iss: the issuer, usually the client's id.
        claim_sub: the subject.
        claim_exp_seconds: the seconds until the assertion expires.
        claim_nbf_seconds: the seconds by which its start (`nbf`) lies in the past, as clocks differ.
        claim_jti_include: whether it has a unique id (`jti`).
    """

    algorithm: str = "RS256"
    private_key_file: str | None = None
    private_key_pem: Secret | None = None
    private_key_passphrase: Secret | None = None
    jwt_template_file: str | None = None
    claim_aud: str | None = None
    claim_iss: str | None = None
    claim_sub: str | None = None
    claim_exp_seconds: int = 300
    claim_nbf_seconds: int = 60
    claim_jti_include: bool = False

    def __post_init__(self) -> None:
        """Check the fields. Raises `ConfigError`."""
        if self.algorithm not in ALGORITHMS:
            raise ConfigError(f"an assertion must be signed by {' or '.join(ALGORITHMS)}, not by {self.algorithm!r}")
        if (self.private_key_file is None) == (not self.private_key_pem):
            raise ConfigError("an assertion needs a private key, either as a file or as PEM")
        try:
            import cryptography  # noqa: F401
        except ImportError:
            raise ConfigError("assertions need the package cryptography: install kafwire[oauth]") from None

    def make(self) -> Secret:
        """Return a new assertion. Raises `AuthenticationError` for a key or a template that cannot be read."""
        header, payload = self._template()
        now = int(time.time())
        header |= {"alg": self.algorithm, "typ": "JWT"}
        payload |= {"iat": now, "exp": now + self.claim_exp_seconds, "nbf": now - self.claim_nbf_seconds}
        claims = {"aud": self.claim_aud, "iss": self.claim_iss, "sub": self.claim_sub}
        payload |= {name: value for name, value in claims.items() if value is not None}
        if self.claim_jti_include:
            payload["jti"] = str(uuid.uuid4())
        signed = ".".join(_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, payload))
        return Secret(f"{signed}.{_base64url(self._sign(signed.encode()))}")

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if self.jwt_template_file is None:
            return {}, {}
        text = _read(self.jwt_template_file, "template of assertions")
        try:
            parts = json.loads(text)
        except (ValueError, RecursionError):
            parts = None
        if isinstance(parts, dict):
            header, payload = parts.get("header", {}), parts.get("payload", {})
            if isinstance(header, dict) and isinstance(payload, dict) and parts.keys() & {"header", "payload"}:
                return dict(header), dict(payload)
        raise AuthenticationError(
            f"the template of assertions {self.jwt_template_file!r} is not a JSON object with a header and a payload"
        )

    def _sign(self, data: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

        key = self._key()
        if self.algorithm == "RS256":
            if not isinstance(key, rsa.RSAPrivateKey):
                raise AuthenticationError("the private key of assertions is not an RSA key, which RS256 needs")
            return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise AuthenticationError("the private key of assertions is not a P-256 key, which ES256 needs")
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32) + s.to_bytes(32)

    def _key(self) -> Any:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if self.private_key_file is not None:
            pem = _read(self.private_key_file, "private key of assertions")
        else:
            assert self.private_key_pem is not None
            pem = self.private_key_pem.reveal()
        passphrase = self.private_key_passphrase.reveal().encode() if self.private_key_passphrase else None
        try:
            return load_pem_private_key(pem.encode(), passphrase)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            where = f" in {self.private_key_file!r}" if self.private_key_file is not None else ""
            raise AuthenticationError(
                f"the private key of assertions{where} cannot be read: it is not PEM, or its passphrase is wrong"
            ) from None


def _read(path: str, what: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise AuthenticationError(f"the {what} {path!r} cannot be read: {problem.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise AuthenticationError(f"the {what} {path!r} is larger than {MAX_FILE_BYTES} bytes")
    return data.decode(errors="replace")


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
