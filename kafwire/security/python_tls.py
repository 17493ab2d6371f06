"""TLS with Python's module ssl, under the GIL: without a shared libssl to bind, or with a user's `ssl.SSLContext`."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kafwire.config.security import SecurityConfig
from kafwire.errors import ConfigError
from kafwire.security import pem
from kafwire.security.identity import Identity
from kafwire.security.key_material import KeyMaterial

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


Unreadable = tuple[str, int, str]  # part, index and reason, as in `_tls.Context.unreadable`


def make_context(config: SecurityConfig, material: KeyMaterial) -> tuple[ssl.SSLContext, list[Unreadable]]:
    """Make an `ssl.SSLContext` with the settings of `_tls.Context`; return it and the objects that were skipped.

    Raises:
        ConfigError: no object of one kind can be used.
    """
    unreadable: list[Unreadable] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verifies = config.enable_ssl_certificate_verification
    context.check_hostname = verifies and config.ssl_endpoint_identification_algorithm == "https"
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    context.options |= ssl.OP_NO_RENEGOTIATION
    versions = [_VERSIONS[version] for version in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    _choose_ciphers(context, config.ssl_cipher_suites)
    if hasattr(context, "hostname_checks_common_name"):
        context.hostname_checks_common_name = True  # for certificates without subjectAltName
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any certificate of the trust store is an anchor
    if material.trusted is not None:
        bad = trust(context, material.trusted)
        if bad is None:
            raise ConfigError("ssl_ca_location or ssl_ca_pem: there is no certificate in it that can be read")
        unreadable += [("trusted", at, reason) for at, reason in bad]
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if material.revoked is not None:
        unreadable += [("revoked", at, reason) for at, reason in _load_revoked(context, material.revoked)]
    if material.certificates is not None and material.key is not None:
        chain, bad = _readable_chain(material.certificates)
        unreadable += [("certificates", at, reason) for at, reason in bad]
        load_identity(context, Identity(chain, material.key, material.key_password, "ssl_key_password"))
    return context, unreadable


def trust(context: ssl.SSLContext, text: bytes) -> list[tuple[int, str]] | None:
    """Trust each readable certificate of a PEM text.

    Returns:
        Index and reason of the unreadable certificates. None: no certificate can be read.
    """
    found = pem.objects(text, pem.CERTIFICATES)
    bad = []
    for at, each in enumerate(found):
        try:
            context.load_verify_locations(cadata=each.text.decode("ascii", "ignore"))
        except ssl.SSLError as error:
            bad.append((at, _reason(error)))
    return bad if len(bad) < len(found) else None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _readable_chain(text: bytes) -> tuple[bytes, list[tuple[int, str]]]:
    """Return the client's readable certificates, and index and reason of the others."""
    bad = trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), text)
    if bad is None or any(at == 0 for at, _ in bad):
        raise ConfigError("ssl_certificate_location or ssl_certificate_pem: the client's certificate cannot be read")
    left_out = {at for at, _ in bad}
    found = pem.objects(text, pem.CERTIFICATES)
    return b"".join(each.text for at, each in enumerate(found) if at not in left_out), bad


def _choose_ciphers(context: ssl.SSLContext, names: str | None) -> None:
    if names is None:
        return
    chosen = [name for name in names.replace(",", ":").split(":") if name]
    if any(name.startswith("TLS_") for name in chosen):
        raise ConfigError("ssl_cipher_suites: Python's module ssl, which does TLS here, cannot choose those of TLS 1.3")
    try:
        context.set_ciphers(":".join(chosen))
    except ssl.SSLError:
        raise ConfigError("ssl_cipher_suites: OpenSSL has none of these") from None


def _load_revoked(context: ssl.SSLContext, revoked: bytes) -> list[tuple[int, str]]:
    found = pem.objects(revoked, pem.REVOCATION_LISTS)
    bad = []
    for at, each in enumerate(found):
        try:
            with _file(each.text) as name:
                context.load_verify_locations(cafile=name)
        except ssl.SSLError as error:
            bad.append((at, _reason(error)))
    if len(bad) == len(found):
        raise ConfigError("ssl_crl_location: there is no revocation list in it that can be read")
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return bad


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Give a context the client's certificate and key. Raises `ConfigError` if they cannot be used."""
    password = "" if identity.password is None else identity.password.reveal()
    key = identity.key.reveal()
    try:
        with _file(identity.certificates) as certificates, _file(key.encode()) as key_name:
            # Without a password OpenSSL would ask for it on the terminal.
            context.load_cert_chain(certificates, key_name, lambda: password)
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in str(error.reason):
            raise ConfigError("the private key is not that of the certificate") from None
        if "ENCRYPTED" in key:
            state = "is wrong, or OpenSSL does not support its encryption" if password else "is missing"
            raise ConfigError(f"the private key is encrypted, and {identity.password_option} {state}") from None
        raise ConfigError(f"certificate or private key cannot be read ({error.reason or error})") from None


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[str]:
    """Yield the name of a file with these bytes, in memory if possible; Python's module ssl accepts nothing else."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("kafwire-tls", os.MFD_CLOEXEC)
        try:
            os.write(number, data)
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
        return
    number, name = tempfile.mkstemp()  # readable by this user only
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        yield name
    finally:
        Path(name).unlink()
