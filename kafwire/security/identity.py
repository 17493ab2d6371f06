"""`Identity`: the certificate and key by which a client of an HTTP endpoint identifies itself (mTLS)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kafwire.errors import ConfigError
from kafwire.secret import Secret

__all__ = ["Identity", "identity_of"]


class Identity(NamedTuple):
    """A certificate with its chain, and its private key, as PEM; errors call the password `password_option`."""

    certificates: bytes
    key: Secret
    password: Secret | None
    password_option: str


def identity_of(
    certificate_location: str | None,
    certificate_pem: str | None,
    key_location: str | None,
    key_pem: str | Secret | None,
    key_password: str | Secret | None,
) -> Identity | None:
    """Return the identity of a user's options, which are files or PEM texts; None without any.

    A certificate's text or file may hold the key too.

    Raises:
        ConfigError: a file cannot be read, a part is missing or given twice.
    """
    certificates = _one("certificate", certificate_location, certificate_pem)
    key = _one("key", key_location, None if key_pem is None else Secret(key_pem).reveal())
    if certificates is None:
        if key is not None or key_password is not None:
            raise ConfigError("a client's key needs its certificate: certificate_location or certificate_pem")
        return None
    if key is None:
        if b"PRIVATE KEY-----" not in certificates:
            raise ConfigError("a client's certificate needs its key: key_location or key_pem")
        key = certificates
    try:
        text = Secret(key.decode("ascii"))
    except UnicodeDecodeError:
        raise ConfigError("the client's key is not PEM: convert it with openssl") from None
    return Identity(certificates, text, None if key_password is None else Secret(key_password), "key_password")


def _one(part: str, location: str | None, text: str | None) -> bytes | None:
    if location is not None and text is not None:
        raise ConfigError(f"{part}_location and {part}_pem are one option in two forms: leave one out")
    if location is None:
        return None if text is None else text.encode(errors="replace")
    try:
        return Path(location).read_bytes()
    except OSError as problem:
        raise ConfigError(f"{part}_location {location!r} cannot be read: {problem.strerror}") from None
