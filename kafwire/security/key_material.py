"""Keys, certificates and revocation lists as PEM, from the files and texts in the client's options.

The content tells the type of a file: PEM, PKCS#12, or a Java keystore (JKS). The latter is an error that gives the
command for a conversion.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from kafwire.config.security import SecurityConfig
from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass
from kafwire.secret import Secret

_JKS = b"\xfe\xed\xfe\xed"
_JCEKS = b"\xce\xce\xce\xce"
_PEM = b"-----BEGIN "
# The first bytes of a PKCS#12 file: a sequence with a length of two or three bytes, or of indefinite length.
_PKCS12 = (b"\x30\x82", b"\x30\x80", b"\x30\x83")
_LIMIT = 16 << 20
# Java users write PEM texts in one line.
_ONE_LINE = re.compile(r"(-----BEGIN [A-Z0-9 ]+-----)\s*(.*?)\s*(-----END [A-Z0-9 ]+-----)", re.DOTALL)


@dataclass(frozen=True)
class KeyMaterial:
    """PEM texts. None: not given; for `trusted` it means the system's trust store."""

    trusted: bytes | None = None
    certificates: bytes | None = None
    key: Secret | None = None
    key_password: Secret | None = None
    revoked: bytes | None = None


def load(config: SecurityConfig) -> KeyMaterial:
    """Read the files and texts of the client's options. Raises `ConfigError` that names the option and the file."""
    trusted = _trusted(config)
    revoked = None if config.ssl_crl_location is None else _file("ssl_crl_location", config.ssl_crl_location)
    if config.ssl_keystore_location is not None:
        return _keystore(config, trusted, revoked)
    certificates = key = None
    if config.ssl_certificate_location is not None:
        certificates = _pem_file("ssl_certificate_location", config.ssl_certificate_location)
    elif config.ssl_certificate_pem is not None:
        certificates = _pem("ssl_certificate_pem", config.ssl_certificate_pem)
    if config.ssl_key_location is not None:
        key = Secret(_pem_file("ssl_key_location", config.ssl_key_location).decode())
    elif config.ssl_key_pem is not None:
        key = Secret(_pem("ssl_key_pem", config.ssl_key_pem).decode())
    return KeyMaterial(trusted, certificates, key, config.ssl_key_password, revoked)


def paths(config: SecurityConfig) -> list[Path]:
    """Return the files that `load` reads."""
    named = (
        *(config.ssl_ca_location, config.ssl_certificate_location, config.ssl_key_location),
        *(config.ssl_keystore_location, config.ssl_crl_location),
    )
    found = [Path(name) for name in named if name is not None and name != "probe"]
    return [file for path in found for file in ([path, *_in_folder(path)] if path.is_dir() else [path])]


def _in_folder(folder: Path) -> Iterable[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def _trusted(config: SecurityConfig) -> bytes | None:
    if config.ssl_ca_pem is not None:
        return _pem("ssl_ca_pem", config.ssl_ca_pem)
    name = config.ssl_ca_location
    if name is None or name == "probe":  # librdkafka's word for the system's trust store
        return None
    option = "ssl_ca_location"
    if Path(name).is_dir():
        texts = [data for file in _in_folder(Path(name)) if (data := _file(option, str(file))).find(_PEM) >= 0]
        if not texts:
            raise ConfigError(f"option {option}={name!r}: there is no PEM file in this folder")
        return b"\n".join(texts)
    data = _file(option, name)
    if _PEM in data:
        return data
    _refuse_java(option, name, data)
    if not data.startswith(_PKCS12):
        raise ConfigError(f"option {option}={name!r}: this is neither a PEM nor a PKCS#12 file")
    certificates = _pkcs12(option, name, data, "ssl_ca_password", config.ssl_ca_password)[1]
    if not certificates:
        raise ConfigError(f"option {option}={name!r}: there is no certificate in it")
    return certificates


def _keystore(config: SecurityConfig, trusted: bytes | None, revoked: bytes | None) -> KeyMaterial:
    option, name = "ssl_keystore_location", str(config.ssl_keystore_location)
    data = _file(option, name)
    if _PEM in data:
        password = config.ssl_key_password or config.ssl_keystore_password
        return KeyMaterial(trusted, data, Secret(_text(option, data)), password, revoked)
    _refuse_java(option, name, data)
    if not data.startswith(_PKCS12):
        raise ConfigError(f"option {option}={name!r}: this is neither a PEM nor a PKCS#12 file")
    key, certificates = _pkcs12(option, name, data, "ssl_keystore_password", config.ssl_keystore_password)
    if key is None or not certificates:
        raise ConfigError(f"option {option}={name!r}: there is no private key with its certificate in it")
    return KeyMaterial(trusted, certificates, key, None, revoked)


def _file(option: str, name: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            data = file.read(_LIMIT + 1)
    except OSError as error:
        raise ConfigError(f"option {option}={name!r}: {error.strerror or error}") from None
    if len(data) > _LIMIT:
        raise ConfigError(f"option {option}={name!r}: this file is larger than {_LIMIT >> 20} MiB")
    return data


def _pem_file(option: str, name: str) -> bytes:
    data = _file(option, name)
    if _PEM not in data:
        _refuse_java(option, name, data)
        other = "; for a PKCS#12 file, set ssl_keystore_location" if data.startswith(_PKCS12) else ""
        raise ConfigError(f"option {option}={name!r}: this is not a PEM file{other}")
    _text(option, data)
    return data


def _text(option: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"option {option}: this is not text, but PEM is text") from None


def _pem(option: str, text: str | Secret) -> bytes:
    """Return a user's PEM text with the line ends that OpenSSL needs."""
    given = Secret(text)
    blocks = _ONE_LINE.findall(given.reveal())
    if not blocks:
        hint = "; to name a file, set " + option.replace("_pem", "_location") if "\n" not in given.reveal() else ""
        raise ConfigError(
            f"option {option}: this is not a PEM text, which has -----BEGIN ...----- and -----END ...-----{hint}"
        )
    lines = []
    for begin, body, end in blocks:
        # Headers of an encrypted key in the old format are on lines of their own.
        lines += [begin, body if ":" in body or "\n" in body else body.replace(" ", "\n"), end]
    return ("\n".join(lines) + "\n").encode()


def _refuse_java(option: str, name: str, data: bytes) -> None:
    if data.startswith((_JKS, _JCEKS)):
        source, better = (shlex.quote(str(path)) for path in (name, Path(name).with_suffix(".p12")))
        raise ConfigError(
            f"option {option}={name!r}: this is a Java keystore, which only Java can read. Convert it:\n"
            f"keytool -importkeystore -srckeystore {source} -destkeystore {better} -deststoretype PKCS12"
        )


def _pkcs12(
    option: str, name: str, data: bytes, password_option: str, password: Secret | None
) -> tuple[Secret | None, bytes]:
    """Return (private key, certificates) as PEM."""
    from kafwire.security import _tls

    # No frame has the password as a local variable, as error reports may show these.
    secret = password or Secret("")
    try:
        key, certificates = _tls.read_pkcs12(data, secret.reveal().encode())
    except LookupError:
        key, certificates = _pkcs12_by_cryptography(option, name, data, password_option, secret)
    except _tls.UnusableSettings as error:
        if error.part == "key_password":
            what = "is wrong" if password is not None else "is missing"
            raise ConfigError(f"option {option}={name!r}: {password_option} {what} ({error.reason})") from None
        if error.part == "encryption":
            source, pem = (shlex.quote(str(path)) for path in (name, Path(name).with_suffix(".pem")))
            raise ConfigError(
                f"option {option}={name!r}: OpenSSL no longer supports its encryption. Convert it, and name "
                f"the new file:\nopenssl pkcs12 -legacy -in {source} -aes256 -out {pem}"
            ) from None
        raise ConfigError(f"option {option}={name!r}: it cannot be read as PKCS#12 ({error.reason})") from None
    return Secret(key.decode()) if key else None, certificates


def _pkcs12_by_cryptography(
    option: str, name: str, data: bytes, password_option: str, password: Secret
) -> tuple[bytes, bytes]:
    """Read PKCS#12 with the package `cryptography`, if there is no libcrypto."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise ConfigError(
            f"option {option}={name!r}: PKCS#12 files need `pip install cryptography` with this interpreter, or "
            f"convert it to PEM: openssl pkcs12 -in {shlex.quote(name)} "
            f"-out {shlex.quote(str(Path(name).with_suffix('.pem')))} -nodes"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, password.reveal().encode() or None)
    except ValueError as error:
        doubt = f"; is {password_option} right?" if "password" in str(error).lower() else ""
        raise ConfigError(f"option {option}={name!r}: {error}{doubt}") from None
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) if store.key is not None else b""
    found = [] if store.cert is None else [store.cert.certificate]
    found += [each.certificate for each in store.additional_certs]
    return key, b"".join(each.public_bytes(Encoding.PEM) for each in found)
