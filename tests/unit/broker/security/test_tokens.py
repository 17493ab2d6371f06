"""Tokens for OAUTHBEARER are signed by the key that brokers are shown."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from kafwire.broker.security.tokens import make_issuer


def bytes_of(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def verified(token: str, jwks: Path) -> dict[str, Any]:
    """The claims of a token that was signed with the key of this file."""
    (key,) = json.loads(jwks.read_text())["keys"]
    e, n = (int.from_bytes(bytes_of(key[name]), "big") for name in ("e", "n"))
    signed, _, signature = token.rpartition(".")
    public = rsa.RSAPublicNumbers(e, n).public_key()
    public.verify(bytes_of(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    head, claims = (json.loads(bytes_of(part)) for part in signed.split("."))
    assert (head["alg"], head["kid"]) == ("RS256", key["kid"])
    found: dict[str, Any] = claims
    return found


def test_a_token_has_subject_audience_and_lifetime(tmp_path: Path) -> None:
    issuer = make_issuer(tmp_path)
    claims = verified(issuer.token("alice", audience="kafka", issuer="us", lifetime_s=60), issuer.jwks)
    assert (claims["sub"], claims["aud"], claims["iss"]) == ("alice", "kafka", "us")
    assert claims["exp"] - claims["iat"] == 60
    assert abs(claims["iat"] - time.time()) < 60


def test_further_claims_override(tmp_path: Path) -> None:
    issuer = make_issuer(tmp_path)
    claims = verified(issuer.token("alice", audience=None, issuer=None, lifetime_s=60, exp=1, x="y"), issuer.jwks)
    assert (claims["exp"], claims["x"]) == (1, "y")
    assert not {"aud", "iss"} & set(claims)


def test_another_key_s_signature_is_none(tmp_path: Path) -> None:
    issuer = make_issuer(tmp_path)
    (tmp_path / "other").mkdir()
    other = make_issuer(tmp_path / "other")
    with pytest.raises(InvalidSignature):
        verified(other.sign({"sub": "alice"}), issuer.jwks)
    assert (tmp_path / "token-key.pem").stat().st_mode & 0o077 == 0
