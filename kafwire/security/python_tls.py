"""TLS by Python's module ssl, under the GIL: where there is no shared libssl to bind, or a user brings the context."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kafwire.errors import ConfigError
from kafwire.security.key_material import KeyMaterial
from kafwire.security_config import SecurityConfig

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def make_context(config: SecurityConfig, material: KeyMaterial) -> ssl.SSLContext:
    """What `_tls.Context` is, as an `ssl.SSLContext`. Raises `ConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verifies = config.enable_ssl_certificate_verification
    context.check_hostname = verifies and config.ssl_endpoint_identification_algorithm == "https"
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    context.options |= ssl.OP_NO_RENEGOTIATION
    versions = [_VERSIONS[version] for version in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    _choose_ciphers(context, config.ssl_cipher_suites)
    try:
        if material.trusted is not None:
            context.load_verify_locations(cadata=material.trusted.decode("ascii", "ignore"))
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except ssl.SSLError as error:
        raise ConfigError(f"ssl_ca_location or ssl_ca_pem: there is no certificate in it ({error.reason})") from None
    if material.revoked is not None:
        _load_revoked(context, material.revoked)
    if material.certificates is not None and material.key is not None:
        _load_chain(context, material)
    return context


def _choose_ciphers(context: ssl.SSLContext, names: str | None) -> None:
    if names is None:
        return
    chosen = [name for name in names.replace(",", ":").split(":") if name]
    if any(name.startswith("TLS_") for name in chosen):
        raise ConfigError(
            "ssl_cipher_suites: Python's module ssl, which TLS runs by here, cannot choose those of TLS 1.3"
        )
    try:
        context.set_ciphers(":".join(chosen))
    except ssl.SSLError:
        raise ConfigError("ssl_cipher_suites: OpenSSL has none of these") from None


def _load_revoked(context: ssl.SSLContext, revoked: bytes) -> None:
    try:
        with _file(revoked) as name:
            context.load_verify_locations(cafile=name)
    except ssl.SSLError as error:
        raise ConfigError(f"ssl_crl_location: there is no revocation list in it ({error.reason})") from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_chain(context: ssl.SSLContext, material: KeyMaterial) -> None:
    assert material.certificates is not None
    assert material.key is not None
    password = "" if material.key_password is None else material.key_password.reveal()
    key = material.key.reveal()
    try:
        with _file(material.certificates) as certificates, _file(key.encode()) as key_name:
            # Without a password OpenSSL would ask for it on the terminal.
            context.load_cert_chain(certificates, key_name, lambda: password)
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in str(error.reason):
            raise ConfigError("the private key is not that of the certificate") from None
        if "ENCRYPTED" in key:
            state = "is wrong" if password else "is missing"
            raise ConfigError(f"the private key is encrypted, and ssl_key_password {state}") from None
        raise ConfigError(f"certificate or private key cannot be read ({error.reason or error})") from None


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[str]:
    """The name of a file with these bytes, in memory where the system can; Python's module ssl takes nothing else."""
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
