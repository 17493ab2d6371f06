"""Certificates that are right, and those that are wrong in one thing each: for TLS in tests.

ca = Authority.new()
ca.issue("localhost", "127.0.0.1")             # an `Identity`: certificate, key, chain
expired(ca), wrong_host(ca), self_signed()     # what no client may accept
ca.crl(revoked)                                # what says that a certificate is not to be trusted any more
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kafwire.broker.security.certificates import HOSTS, Certificates, write_private
from kafwire.testing.cluster.kafka import java

_DAY = dt.timedelta(days=1)
_PATIENCE_S = 60


@dataclass(frozen=True)
class Identity:
    """A certificate, its private key, and the certificates between it and its root."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    between: tuple[x509.Certificate, ...] = ()

    @property
    def chain_pem(self) -> bytes:
        """The certificate, and those between."""
        return b"".join(each.public_bytes(forms.Encoding.PEM) for each in (self.certificate, *self.between))

    def key_pem(self, password: str | None = None) -> bytes:
        """The private key as PKCS#8, encrypted if there is a password."""
        hidden = forms.NoEncryption() if password is None else forms.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, hidden)

    @property
    def pem(self) -> bytes:
        """Key and chain in one text: what `Security(server_pem=...)` and Java want in a file."""
        return self.key_pem() + self.chain_pem

    def pkcs12(self, password: str, name: str = "kafwire") -> bytes:
        """Key and chain as a PKCS#12 keystore."""
        hidden = forms.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            name.encode(), self.key, self.certificate, list(self.between), hidden
        )

    def write(self, folder: Path, name: str, *, password: str | None = None) -> Written:
        """Write it as PEM files and a PKCS#12 keystore; `password` encrypts the key and the keystore."""
        made = Written(folder / f"{name}.pem", folder / f"{name}-key.pem", folder / f"{name}-both.pem")
        made.certificate.write_bytes(self.chain_pem)
        write_private(made.key, self.key_pem(password))
        write_private(made.both, self.key_pem(password) + self.chain_pem)
        return made

    def write_jks(self, path: Path, password: str) -> None:
        """Write a keystore in Java's own format, by the JDK's keytool; a password has 6 characters or more."""
        source = path.with_suffix(".p12")
        write_private(source, self.pkcs12(password))
        command = [str(Path(java()).with_name("keytool")), "-importkeystore", "-noprompt"]
        command += ["-srckeystore", str(source), "-srcstoretype", "PKCS12", "-srcstorepass:env", "STORE_PASSWORD"]
        command += ["-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass:env", "STORE_PASSWORD"]
        environment = os.environ | {"STORE_PASSWORD": password}
        subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_S, env=environment)


@dataclass(frozen=True)
class Written:
    """Files of an identity."""

    certificate: Path
    key: Path
    both: Path


@dataclass(frozen=True)
class Authority:
    """A CA, a root or one that another has signed."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    between: tuple[x509.Certificate, ...] = field(default=())

    @classmethod
    def new(cls, name: str = "a CA of tests") -> Authority:
        """A new root."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        return cls(_signed(subject, subject, key, key, is_ca=True), key)

    @classmethod
    def of(cls, certificates: Certificates) -> Authority:
        """The CA of a running `KafkaCluster`, by `cluster.security.certificates`."""
        key = forms.load_pem_private_key(certificates.ca_key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(x509.load_pem_x509_certificate(certificates.ca_pem.read_bytes()), key)

    @cached_property
    def pem(self) -> bytes:
        """The certificate that clients trust."""
        return self.certificate.public_bytes(forms.Encoding.PEM)

    def write(self, path: Path) -> Path:
        """Write the certificate; the path."""
        path.write_bytes(self.pem)
        return path

    def issue(
        self,
        *hosts: str,
        name: str = "localhost",
        begins: dt.timedelta = -_DAY,
        ends: dt.timedelta = 30 * _DAY,
    ) -> Identity:
        """A certificate for names and addresses, valid from and until that long from now; without hosts all local."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(
            _named(name), self.certificate.subject, key, self.key, hosts=hosts or HOSTS, begins=begins, ends=ends
        )
        return Identity(certificate, key, self.between)

    def intermediate(self, name: str = "a CA between") -> Authority:
        """A CA that this one has signed; what it issues has a chain."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(_named(name), self.certificate.subject, key, self.key, is_ca=True)
        return Authority(certificate, key, (certificate, *self.between))

    def crl(self, *revoked: Identity) -> bytes:
        """The list of certificates that this CA has revoked, as PEM."""
        now = _now()
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(now - _DAY).next_update(now + 30 * _DAY)
        for each in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(each.certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(now - _DAY).build())
        return builder.sign(self.key, hashes.SHA256()).public_bytes(forms.Encoding.PEM)


def expired(ca: Authority) -> Identity:
    """A certificate that ended yesterday."""
    return ca.issue(begins=-30 * _DAY, ends=-_DAY)


def not_yet_valid(ca: Authority) -> Identity:
    """A certificate that begins tomorrow."""
    return ca.issue(begins=_DAY)


def wrong_host(ca: Authority) -> Identity:
    """A certificate for another host."""
    return ca.issue("elsewhere.test", name="elsewhere.test")


def without_names(ca: Authority, name: str = "localhost") -> Identity:
    """A certificate that names a host as its common name only, without a subjectAltName."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Identity(_signed(_named(name), ca.certificate.subject, key, ca.key), key)


def self_signed() -> Identity:
    """A certificate that no CA has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named("localhost")
    return Identity(_signed(subject, subject, key, key, hosts=HOSTS), key)


def of_unknown_ca() -> Identity:
    """An unknown CA has signed it."""
    return Authority.new("an unknown CA").issue()


def mismatched(ca: Authority) -> Identity:
    """Its private key belongs to another certificate."""
    return Identity(ca.issue().certificate, ec.generate_private_key(ec.SECP256R1()))


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_ca: bool = False,
    hosts: tuple[str, ...] = (),
    begins: dt.timedelta = -_DAY,
    ends: dt.timedelta = 30 * _DAY,
) -> x509.Certificate:
    now = _now()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now + begins).not_valid_after(now + ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(signed_by, critical=False)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(usage, critical=True)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
