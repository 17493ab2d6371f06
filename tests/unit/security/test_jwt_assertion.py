"""Assertions: their claims, their signatures, and files that cannot be read."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from kafwire.errors import AuthenticationError, ConfigError
from kafwire.secret import Secret
from kafwire.security.jwt_assertion import AssertionFile, SignedAssertion
from tests.support.sasl_traps import CANARY, reported
from tests.support.token_server import ec_key, parts_of, pem, rsa_key, signed, verify

RSA = Secret(pem(rsa_key()))


def refused(assertion: Any, said: str) -> None:
    with pytest.raises(AuthenticationError, match=said) as problem:
        assertion.make()
    assert CANARY not in reported(problem.value)
    assert CANARY not in repr(assertion)


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", rsa_key()), ("ES256", ec_key())])
def test_claims_and_signature(algorithm: str, key: Any) -> None:
    made = SignedAssertion(
        algorithm=algorithm,
        private_key_pem=Secret(pem(key)),
        claim_aud="https://issuer/token",
        claim_iss="the-client",
        claim_sub="the-subject",
        claim_exp_seconds=100,
        claim_nbf_seconds=20,
        claim_jti_include=True,
    )
    first, second = made.make().reveal(), made.make().reveal()
    payload = verify(first)
    assert parts_of(first)[0] == {"alg": algorithm, "typ": "JWT"}
    now = payload.pop("iat")
    assert now == pytest.approx(time.time(), abs=5)
    assert payload.pop("jti") != verify(second)["jti"]
    assert payload == {
        "aud": "https://issuer/token",
        "iss": "the-client",
        "sub": "the-subject",
        "exp": now + 100,
        "nbf": now - 20,
    }


def test_the_defaults() -> None:
    payload = verify(SignedAssertion(private_key_pem=RSA).make().reveal())
    assert payload.keys() == {"iat", "exp", "nbf"}
    assert (payload["exp"] - payload["iat"], payload["iat"] - payload["nbf"]) == (300, 60)


def test_a_key_in_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    made = SignedAssertion(private_key_file=str(file), private_key_passphrase=Secret("phrase"), claim_sub="s")
    refused(made, "the private key of assertions '.*key.pem' cannot be read: No such file")
    file.write_text(pem(rsa_key(), "phrase"))
    assert verify(made.make().reveal())["sub"] == "s"
    file.write_text(pem(rsa_key(), CANARY))
    refused(made, "key.pem' cannot be read: it is not PEM, or its passphrase is wrong")


def test_a_template(tmp_path: Path) -> None:
    file = tmp_path / "template.json"
    header = {"kid": "key-1", "alg": "none"}
    file.write_text(json.dumps({"header": header, "payload": {"sub": "a", "iss": "b", "exp": 3, "own": [1]}}))
    made = SignedAssertion(private_key_pem=RSA, jwt_template_file=str(file), claim_sub="c").make().reveal()
    payload = verify(made)
    assert parts_of(made)[0] == {"kid": "key-1", "alg": "RS256", "typ": "JWT"}
    assert (payload["sub"], payload["iss"], payload["own"]) == ("c", "b", [1])
    assert payload["exp"] > time.time()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"header": 3}', '{"payload": []}', "[" * 100_000, "not json"])
def test_a_template_that_is_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "template.json"
    file.write_text(text)
    refused(SignedAssertion(private_key_pem=RSA, jwt_template_file=str(file)), "is not a JSON object with a header")


@pytest.mark.parametrize(
    ("algorithm", "key", "said"),
    [
        ("RS256", pem(ec_key()), "not an RSA key, which RS256 needs"),
        ("ES256", pem(rsa_key()), "not a P-256 key, which ES256 needs"),
        ("ES256", pem(ec.generate_private_key(ec.SECP384R1())), "not a P-256 key"),
        ("RS256", pem(ed25519.Ed25519PrivateKey.generate()), "not an RSA key"),
        ("RS256", CANARY, "it is not PEM"),
        ("RS256", pem(rsa_key(), CANARY), "its passphrase is wrong"),
        ("RS256", pem(rsa_key())[:200], "it is not PEM"),
    ],
)
def test_keys_that_do_not_fit(algorithm: str, key: str, said: str) -> None:
    refused(SignedAssertion(algorithm=algorithm, private_key_pem=Secret(key)), said)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"algorithm": "HS256", "private_key_pem": RSA}, "RS256 or ES256, not by 'HS256'"),
        ({}, "needs a private key"),
        ({"private_key_pem": RSA, "private_key_file": "x"}, "either as a file or as PEM"),
    ],
)
def test_arguments_that_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SignedAssertion(**more)


def test_without_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigError, match=r"install kafwire\[oauth\]"):
        SignedAssertion(private_key_pem=RSA)


def test_nothing_shows_the_key() -> None:
    made = SignedAssertion(private_key_pem=Secret(CANARY), private_key_passphrase=Secret(CANARY))
    assert CANARY not in repr(made)


def test_an_assertion_in_a_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    made = AssertionFile(str(file))
    refused(made, "the assertion file '.*assertion' cannot be read: No such file")
    file.write_text(" \n")
    refused(made, "is empty")
    file.write_text(f"{CANARY}\n")
    assert made.make().reveal() == CANARY
    file.write_text(signed({"exp": time.time() - 10, "sub": CANARY}))
    refused(made, r"expired 1\d s ago, and was not renewed")
    good = signed({"exp": time.time() + 100})
    file.write_text(good)
    assert made.make().reveal() == good
    file.write_bytes(b"x" * (1 << 20) + b"x")
    refused(made, "is larger than 1048576 bytes")
