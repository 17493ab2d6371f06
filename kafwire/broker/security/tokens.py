"""Tokens for OAUTHBEARER: JWTs that a test cluster's brokers accept, signed with its own key (RS256)."""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path

from kafwire.broker.security.certificates import write_private

__all__ = ["TokenIssuer", "make_issuer"]

_KEY_ID = "kafwire"
_KEY_BITS = 2048


class TokenIssuer:
    """Signs tokens with the key in a folder; its public half is in `jwks.json` there."""

    def __init__(self, folder: Path) -> None:
        self.jwks = folder / "jwks.json"
        self._key = folder / "token-key.pem"

    def sign(self, claims: Mapping[str, object], *, key_pem: bytes | None = None) -> str:
        """Return a JWT with these claims; `key_pem` signs in place of the issuer's own key."""
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import padding, rsa

        key = serialization.load_pem_private_key(key_pem or self._key.read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        head = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        signed = b".".join(_base64(json.dumps(part).encode()) for part in (head, dict(claims)))
        signature = key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return (signed + b"." + _base64(signature)).decode()

    def token(
        self, subject: str, *, audience: str | None, issuer: str | None, lifetime_s: float, **claims: object
    ) -> str:
        """Return a token of a subject that is valid from now on; `claims` override its claims."""
        now = int(time.time())
        standard: dict[str, object] = {"sub": subject, "iat": now, "exp": int(now + lifetime_s), "scope": "kafka"}
        standard |= {name: value for name, value in (("aud", audience), ("iss", issuer)) if value is not None}
        return self.sign(standard | claims)


def make_issuer(folder: Path) -> TokenIssuer:
    """Create a key in a folder, and write its public half for brokers."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, _KEY_BITS)
    pem = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    write_private(folder / "token-key.pem", pem)
    numbers = key.public_key().public_numbers()
    public = {name: _number(value) for name, value in (("n", numbers.n), ("e", numbers.e))}
    issuer = TokenIssuer(folder)
    issuer.jwks.write_text(
        json.dumps({"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID} | public]})
    )
    return issuer


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big")).decode()


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
