"""The bad certificates of `tests/support/certificates.py` are refused for what they are named after."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12

from kafwire.broker.security.certificates import make_certificates
from tests.support import certificates as made
from tests.support.certificates import Authority, Identity


@pytest.fixture(scope="module")
def ca() -> Authority:
    return Authority.new()


def server(identity: Identity, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.write(folder, "server").both)
    return context


def trusting(ca: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca.pem.decode())


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
    """Shake hands in memory; raises what the client or the server finds wrong."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return sides[0]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_good_one_is_accepted(ca: Authority, tmp_path: Path, host: str) -> None:
    assert handshake(trusting(ca), server(ca.issue(), tmp_path), host).getpeercert()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("expired", "certificate has expired"),
        ("not_yet_valid", "not yet valid"),
        ("wrong_host", "Hostname mismatch"),
        ("self_signed", "self-signed certificate"),
        ("of_unknown_ca", "unable to get local issuer"),
    ],
)
def test_a_bad_one_is_refused_for_its_reason(ca: Authority, tmp_path: Path, bad: str, reason: str) -> None:
    maker = getattr(made, bad)
    identity = maker() if bad in {"self_signed", "of_unknown_ca"} else maker(ca)
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        handshake(trusting(ca), server(identity, tmp_path))


def test_a_revoked_one_is_refused_with_the_list_only(ca: Authority, tmp_path: Path) -> None:
    revoked, other = ca.issue(), ca.issue()
    listed = tmp_path / "crl.pem"
    listed.write_bytes(ca.crl(revoked))
    knowing = trusting(ca)
    knowing.load_verify_locations(listed)
    knowing.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake(knowing, server(revoked, tmp_path))
    handshake(knowing, server(other, tmp_path))
    handshake(trusting(ca), server(revoked, tmp_path))


def test_one_of_an_intermediate_needs_its_chain(ca: Authority, tmp_path: Path) -> None:
    whole = ca.intermediate().issue()
    assert len(whole.between) == 1
    handshake(trusting(ca), server(whole, tmp_path))
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(trusting(ca), server(Identity(whole.certificate, whole.key), tmp_path))


def test_a_key_that_does_not_match_is_not_loaded(ca: Authority, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLError, match="(?i)key.values.mismatch"):
        server(made.mismatched(ca), tmp_path)


def test_a_key_is_encrypted_with_its_password(ca: Authority, tmp_path: Path) -> None:
    written = ca.issue().write(tmp_path, "client", password="swordfish")
    assert b"ENCRYPTED" in written.key.read_bytes()
    load_pem_private_key(written.key.read_bytes(), b"swordfish")
    with pytest.raises(ValueError):
        load_pem_private_key(written.key.read_bytes(), b"other")


def test_keystores_have_key_and_chain(ca: Authority, tmp_path: Path) -> None:
    identity = ca.intermediate().issue()
    key, certificate, between = pkcs12.load_key_and_certificates(identity.pkcs12("swordfish"), b"swordfish")
    assert key is not None
    assert certificate == identity.certificate
    assert tuple(between) == identity.between


def test_a_running_cluster_s_ca_issues_more(tmp_path: Path) -> None:
    cluster_ca = Authority.of(make_certificates(tmp_path))
    handshake(trusting(cluster_ca), server(cluster_ca.issue(), tmp_path))
    revoked = cluster_ca.issue()
    assert b"X509 CRL" in cluster_ca.crl(revoked)
