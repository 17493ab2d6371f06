"""TLS of one client: how its connections are carried, from what the options say, renewed when the files change.

`native` is OpenSSL in the I/O thread, without the GIL. Where the interpreter has loaded no shared libssl, or the user
gives an `ssl.SSLContext`, TLS is Python's (`python_tls.py`).
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.runtime.interfaces import SslSource, StreamSource
from kafwire.runtime.log import log
from kafwire.secret import Secret
from kafwire.security import _tls, key_material, pem
from kafwire.security.key_material import KeyMaterial
from kafwire.security_config import SecurityConfig

if TYPE_CHECKING:
    import ssl

_VERSIONS = {"TLSv1.2": 2, "TLSv1.3": 3}
# What of the settings OpenSSL could not use, in the words of the options.
_PROBLEMS = {
    "memory": "no memory",
    "trusted": "ssl_ca_location or ssl_ca_pem: there is no certificate in it that can be read",
    "certificates": "ssl_certificate_location or ssl_certificate_pem: there is no certificate in it that can be read",
    "key_password": "the private key is encrypted, and ssl_key_password is wrong",
    "key_locked": "the private key is encrypted, and cannot be read",
    "encryption": "the private key is encrypted in a way that OpenSSL does not support any more. Convert it:\n"
    "openssl pkey -provider legacy -provider default -in KEY -aes256 -out NEW",
    "key": "ssl_key_location or ssl_key_pem: there is no private key in it that can be read",
    "key_match": "the private key is not that of the certificate",
    "revoked": "ssl_crl_location: there is no revocation list in it",
    "ciphers": "ssl_cipher_suites: OpenSSL has none of these",
    "versions": "ssl_enabled_protocols: OpenSSL, or the system's policy, does not allow these",
}
# Those of this process, by a digest of all that they are made from: clients with the same options resume each other's
# sessions, and the system's trust store, which takes OpenSSL some 20 ms to read, is read once.
_contexts: weakref.WeakValueDictionary[bytes, _tls.Context] = weakref.WeakValueDictionary()

# "python": TLS runs by Python's module ssl, whatever there is; for comparisons, and where libssl misbehaves. "kernel":
# the kernel encrypts where it can (kTLS), which no test of kafwire has run yet.
VARIABLE = "KAFWIRE_TLS"

# What was said once in this process: why TLS is Python's, and which certificates were accepted by their common name.
told: set[str] = set()


def native_library() -> str:
    """The OpenSSL that the I/O thread uses. Raises LookupError where there is none to use, with why."""
    if os.environ.get(VARIABLE) == "python":
        raise LookupError(f"the environment variable {VARIABLE} says so")
    return _tls.library()


def described() -> str:
    """What TLS runs by here, in words."""
    try:
        return f"{native_library()}, in the I/O thread"
    except LookupError as why:
        return f"Python's module ssl, under the GIL: {why}"


class Tls:
    """Makes what carries connections, from the options of a client.

    Raises:
        ConfigError: a file cannot be read, or what it contains cannot be used.
    """

    def __init__(self, config: SecurityConfig) -> None:
        self._config = config
        self._make = self._choose()
        self._seen = self._look()
        self._context = self._make(key_material.load(config))
        if not config.enable_ssl_certificate_verification:
            log.warning(
                "enable_ssl_certificate_verification=False: anybody between this client and the brokers can read and "
                "change everything"
            )
        elif config.ssl_endpoint_identification_algorithm == "none":
            log.warning(
                "ssl_endpoint_identification_algorithm=none: the holder of any certificate of these issuers can "
                "pose as a broker"
            )

    def _choose(self) -> Callable[[KeyMaterial], Any]:
        """What makes contexts. Why it is Python's is said, once in a process."""
        if self._config.ssl_context is not None:
            why = "ssl_context is given"
        else:
            try:
                native_library()
            except LookupError as problem:
                why = str(problem)
            else:
                return self._make_native
        if why not in told:
            told.add(why)
            log.warning("TLS runs by Python's module ssl, under the GIL, which is slower: %s", why)
        return self._make_python

    def source(self, host: str, port: int) -> StreamSource | SslSource:
        """What carries a new connection to a server; its certificate has to be for `host`."""
        self._renew()
        name = host.partition("%")[0].removesuffix(".")
        if isinstance(self._context, _tls.Context):
            return self._context.source(name, _is_address(name), port)
        return SslSource(self._context, name)

    def on_connected(self) -> None:
        """Report a certificate that names no host and was accepted by its common name, once in a process."""
        subject = self._context.take_common_name() if isinstance(self._context, _tls.Context) else None
        if subject is not None and subject not in told:
            told.add(subject)
            log.warning(
                "the certificate %s of a broker has no subjectAltName and was accepted by its common name (CN), which "
                "other clients refuse: issue one with the host in subjectAltName",
                subject,
            )

    def statistics(self) -> dict[str, int]:
        """Handshakes that succeeded, how many of them resumed a session, and how many use the kernel's TLS.

        Empty where TLS is Python's.
        """
        return self._context.statistics() if isinstance(self._context, _tls.Context) else {}

    def _look(self) -> list[tuple[Path, Any]]:
        """What tells one state of the files from another."""
        found: list[tuple[Path, Any]] = []
        for path in key_material.paths(self._config):
            try:
                state = path.stat()
            except OSError:
                found.append((path, None))
            else:
                found.append((path, (state.st_mtime_ns, state.st_size, state.st_ino)))
        return found

    def _renew(self) -> None:
        """Take what the files contain now. Connections that are open stay as they are."""
        now = self._look()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._context = self._make(key_material.load(self._config))
        except ConfigError as error:
            log.warning("the files of TLS have changed, and are not taken until they change again: %s", error)
        else:
            log.info("the files of TLS have changed: new connections use them")

    def _make_python(self, material: KeyMaterial) -> ssl.SSLContext:
        from kafwire.security.python_tls import make_context

        if self._config.ssl_context is not None:
            context: ssl.SSLContext = self._config.ssl_context
            return context
        made, unreadable = make_context(self._config, material)
        self._report(material, unreadable)
        return made

    def _report(self, material: KeyMaterial, unreadable: Iterable[tuple[str, int, str]]) -> None:
        """Name the objects that OpenSSL could not read."""
        config = self._config
        for part, at, reason in unreadable:
            text, names = {
                "trusted": (material.trusted, ("ssl_ca_location", "ssl_ca_pem")),
                "certificates": (
                    material.certificates,
                    ("ssl_certificate_location", "ssl_keystore_location", "ssl_certificate_pem"),
                ),
                "revoked": (material.revoked, ("ssl_crl_location",)),
            }[part]
            kinds = pem.REVOCATION_LISTS if part == "revoked" else pem.CERTIFICATES
            found = pem.objects(text or b"", kinds)
            option = next((name for name in names if getattr(config, name) is not None), names[0])
            log.warning(
                "option %s%s: %s %d of %d (line %d) cannot be read (%s): it is left out",
                option,
                f"={getattr(config, option)!r}" if option.endswith("_location") else "",
                "revocation list" if part == "revoked" else "certificate",
                at + 1,
                len(found),
                found[at].line,
                reason,
            )

    def _make_native(self, material: KeyMaterial) -> _tls.Context:
        config = self._config
        names = (config.ssl_cipher_suites or "").replace(",", ":").split(":")
        ciphers = ":".join(name for name in names if name and not name.startswith("TLS_"))
        suites = ":".join(name for name in names if name.startswith("TLS_"))
        versions = [_VERSIONS[version] for version in config.ssl_enabled_protocols]
        verify = config.enable_ssl_certificate_verification
        settings: dict[str, Any] = {
            "trusted": _texts(material.trusted, pem.CERTIFICATES),
            "certificates": _texts(material.certificates, pem.CERTIFICATES),
            "revoked": _texts(material.revoked, pem.REVOCATION_LISTS),
            "ciphers": ciphers.encode() or None,
            "suites": suites.encode() or None,
            "versions": (min(versions), max(versions)),
            "verify": verify,
            "kernel": os.environ.get(VARIABLE) == "kernel",
            "verify_name": verify and config.ssl_endpoint_identification_algorithm == "https",
        }
        # No local has the key or its password: a report of an error may show these.
        key, password = material.key, material.key_password
        store = _system_store()
        digest = hashlib.sha256(repr((settings, store, _revealed(key), _revealed(password))).encode()).digest()
        try:
            found = _contexts.get(digest)
            if found is None:
                found = _contexts[digest] = _tls.Context(key=_revealed(key), password=_revealed(password), **settings)
            self._report(material, found.unreadable)
            return found
        except _tls.UnusableSettings as error:
            raise ConfigError(_said(error, has_password=password is not None)) from None


def _said(error: _tls.UnusableSettings, *, has_password: bool) -> str:
    """Return an error that names the setting which OpenSSL could not use."""
    if error.part in {"key_password", "key_locked"} and not has_password:
        return "the private key is encrypted, and ssl_key_password is missing"
    if error.part == "key_match" and "mismatch" not in error.reason:
        return f"the private key cannot be used ({error.reason})"
    words = _PROBLEMS[error.part]
    return words if error.part in {"key_password", "encryption"} else f"{words} ({error.reason})"


def _texts(text: bytes | None, kinds: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    return None if text is None else tuple(each.text for each in pem.objects(text, kinds))


def _system_store() -> tuple[str | None, ...]:
    """Where OpenSSL looks for the system's trust store, if not where it was built to."""
    return tuple(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))


def _revealed(secret: Secret | None) -> bytes | None:
    return None if secret is None else secret.reveal().encode()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
