"""TLS of one client: makes the streams of its connections, from the options, and reloads changed files.

`native` is OpenSSL in the I/O thread, without the GIL. If the interpreter has loaded no shared libssl, or the user
passes an `ssl.SSLContext`, Python's module ssl does TLS (`python_tls.py`).
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafwire.config.security import SecurityConfig
from kafwire.errors import ConfigError
from kafwire.runtime.interfaces import SslSource, StreamSource
from kafwire.runtime.log import security_log as log
from kafwire.secret import Secret
from kafwire.security import _tls, key_material, pem
from kafwire.security.key_material import KeyMaterial

if TYPE_CHECKING:
    import ssl

_VERSIONS = {"TLSv1.2": 2, "TLSv1.3": 3}
# The setting that OpenSSL could not use, in the words of the options.
_PROBLEMS = {
    "memory": "no memory",
    "trusted": "ssl_ca_location or ssl_ca_pem: there is no certificate in it that can be read",
    "certificates": "ssl_certificate_location or ssl_certificate_pem: there is no certificate in it that can be read",
    "key_password": "the private key is encrypted, and ssl_key_password is wrong",
    "key_locked": "the private key is encrypted, and cannot be read",
    "encryption": "the private key is encrypted in a way that OpenSSL no longer supports. Convert it:\n"
    "openssl pkey -provider legacy -provider default -in KEY -aes256 -out NEW",
    "key": "ssl_key_location or ssl_key_pem: there is no private key in it that can be read",
    "key_match": "the private key is not that of the certificate",
    "revoked": "ssl_crl_location: there is no revocation list in it",
    "ciphers": "ssl_cipher_suites: OpenSSL has none of these",
    "versions": "ssl_enabled_protocols: OpenSSL, or the system's policy, does not allow these",
}
# The contexts of this process, by a digest of all settings. Clients with the same options resume each other's sessions,
# and the system's trust store is read only once, which takes OpenSSL some 20 ms.
_contexts: weakref.WeakValueDictionary[bytes, _tls.Context] = weakref.WeakValueDictionary()

# "python": Python's module ssl does TLS in any case; for comparisons, and if libssl misbehaves. "kernel": the kernel
# encrypts if it can (kTLS), which no test of kafwire has run yet.
VARIABLE = "KAFWIRE_TLS"

# Texts logged once in this process: why Python does TLS, and certificates accepted by their common name.
reported: set[str] = set()


def native_library() -> str:
    """Return the version of the I/O thread's OpenSSL. Raises LookupError with the reason if there is none to use."""
    if os.environ.get(VARIABLE) == "python":
        raise LookupError(f"the environment variable {VARIABLE} is 'python'")
    return _tls.library()


def described() -> str:
    """Describe this process's TLS library in words."""
    try:
        return f"{native_library()}, in the I/O thread"
    except LookupError as why:
        return f"Python's module ssl, under the GIL: {why}"


class Tls:
    """Makes the streams of connections, from the options of a client.

    Raises:
        ConfigError: a file cannot be read, or its content cannot be used.
    """

    def __init__(self, config: SecurityConfig) -> None:
        self._config = config
        self._make = self._choose()
        self._seen = self._look()
        self._context = self._make(key_material.load(config))
        if not config.enable_ssl_certificate_verification:
            log.warning(
                "enable_ssl_certificate_verification=False: anybody between this client and the brokers can read and "
                "change everything",
                option="enable_ssl_certificate_verification",
            )
        elif config.ssl_endpoint_identification_algorithm == "none":
            log.warning(
                "ssl_endpoint_identification_algorithm=none: the holder of any certificate of these issuers can pose as"
                " a broker",
                option="ssl_endpoint_identification_algorithm",
            )

    def _choose(self) -> Callable[[KeyMaterial], Any]:
        """Return the function that makes contexts. If it is Python's, log the reason once per process."""
        if self._config.ssl_context is not None:
            why = "ssl_context is given"
        else:
            try:
                native_library()
            except LookupError as problem:
                why = str(problem)
            else:
                return self._make_native
        if why not in reported:
            reported.add(why)
            log.warning("TLS uses Python's module ssl, under the GIL, which is slower: %s", why, reason=why)
        return self._make_python

    def source(self, host: str, port: int) -> StreamSource | SslSource:
        """Return the source of the stream of a new connection to a server; its certificate must match `host`."""
        self._renew()
        name = host.partition("%")[0].removesuffix(".")
        if isinstance(self._context, _tls.Context):
            return self._context.source(name, _is_address(name), port)
        return SslSource(self._context, name)

    def on_connected(self) -> None:
        """Log a certificate that names no host and was accepted by its common name, once in a process."""
        subject = self._context.take_common_name() if isinstance(self._context, _tls.Context) else None
        if subject is not None and subject not in reported:
            reported.add(subject)
            log.warning(
                "the certificate %s of a broker has no subjectAltName and was accepted by its common name (CN), which "
                "other clients refuse: issue one with the host in subjectAltName",
                subject,
                certificate=subject,
            )

    def statistics(self) -> dict[str, int]:
        """Return the numbers of successful handshakes, of resumed sessions, and of connections with kernel TLS.

        Empty with Python's TLS.
        """
        return self._context.statistics() if isinstance(self._context, _tls.Context) else {}

    def _look(self) -> list[tuple[Path, Any]]:
        """Return the files' states, to detect changes."""
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
        """Load the files again if they have changed. Open connections are not affected."""
        now = self._look()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._context = self._make(key_material.load(self._config))
        except ConfigError as error:
            log.warning("the TLS files have changed, but are ignored until they change again: %s", error, error=error)
        else:
            log.info("the TLS files have changed: new connections use them")

    def _make_python(self, material: KeyMaterial) -> ssl.SSLContext:
        from kafwire.security.python_tls import make_context

        if self._config.ssl_context is not None:
            context: ssl.SSLContext = self._config.ssl_context
            return context
        made, unreadable = make_context(self._config, material)
        self._report(material, unreadable)
        return made

    def _report(self, material: KeyMaterial, unreadable: Iterable[tuple[str, int, str]]) -> None:
        """Log the objects that OpenSSL could not read."""
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
                option=option,
                certificate=at + 1,
                reason=reason,
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
        # No local variable has the key or its password, as error reports may show them.
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
    """Return the error text, which names the unusable setting."""
    if error.part in {"key_password", "key_locked"} and not has_password:
        return "the private key is encrypted, and ssl_key_password is missing"
    if error.part == "key_match" and "mismatch" not in error.reason:
        return f"the private key cannot be used ({error.reason})"
    words = _PROBLEMS[error.part]
    return words if error.part in {"key_password", "encryption"} else f"{words} ({error.reason})"


def _texts(text: bytes | None, kinds: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    return None if text is None else tuple(each.text for each in pem.objects(text, kinds))


def _system_store() -> tuple[str | None, ...]:
    """Return the environment's paths of the system's trust store, which override OpenSSL's own."""
    return tuple(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))


def _revealed(secret: Secret | None) -> bytes | None:
    return None if secret is None else secret.reveal().encode()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
