"""The secured listeners of an `EmbeddedKafka`: from `Security`, as for `KafkaCluster`, to TLS contexts and users.

This module is imported only if a listener is secured, and cryptography only if a listener uses TLS.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafwire.broker.security.cluster_security import ClusterSecurity
from kafwire.broker.security.credentials import Credentials
from kafwire.broker.security.principals import read_rules
from kafwire.broker.security.security import Security, as_listeners
from kafwire.broker.socket_server import Listener
from kafwire.config.sasl_mechanisms import WITH_PASSWORD
from kafwire.secret import Secret

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

# As in `KafkaCluster`: the user of its client certificate is `client`.
_PRINCIPAL_RULES = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PROPERTIES = ("ssl.enabled.protocols", "ssl.principal.mapping.rules")


class EmbeddedSecurity:
    """Listeners, their certificates in a temporary folder, and their users.

    Args:
        security: listeners, or protocols, as for `EmbeddedKafka`.
        host: the address that they listen on.
        advertised: the host that listeners advertise.
    """

    def __init__(self, security: Security | str | Sequence[Security | str], host: str, advertised: str) -> None:
        listeners = as_listeners(security)
        for listener in listeners:
            _check(listener)
        # A listener with the default host advertises that of the brokers.
        self.listeners = tuple(replace(its, host=advertised) if its.host == "127.0.0.1" else its for its in listeners)
        self._host = host
        self._ports: dict[str, list[int]] = {listener.name: [] for listener in listeners}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def has_acls(self) -> bool:
        """True if one of the listeners needs an authorizer."""
        return any(listener.acls for listener in self.listeners)

    @property
    def superusers(self) -> str:
        """The value of `super.users`: as in a `KafkaCluster`, clients of a plain listener may do everything."""
        named = dict.fromkeys(user for listener in self.listeners for user in listener.superusers)
        return ";".join(f"User:{user}" for user in ("ANONYMOUS", *named))

    @property
    def options(self) -> dict[str, str]:
        """The brokers' options that the listeners need."""
        found = {"super.users": self.superusers} if self.has_acls else {}
        if any(listener.delegation_tokens for listener in self.listeners):
            found["delegation.token.secret.key"] = secrets.token_hex(16)
        return found

    def open(self) -> None:
        """Create the certificates, if they are needed."""
        self._folder = tempfile.TemporaryDirectory(prefix="kafwire-broker-")
        if any(listener.has_tls for listener in self.listeners):
            from kafwire.broker.security.certificates import make_certificates

            hosts = [listener.host or self._host for listener in self.listeners]
            make_certificates(Path(self._folder.name), hosts)

    def close(self) -> None:
        """Remove the certificates."""
        if self._folder is not None:
            self._folder.cleanup()

    def add_users(self, state: ClusterState) -> None:
        """Give the brokers the users of all listeners."""
        credentials: Credentials = state.part(Credentials)
        for listener in self.listeners:
            if listener.has_sasl:
                lasts_ms = listener.connections_max_reauth_ms or None
                credentials.add_users(listener.name, listener.mechanisms, listener.users, lasts_ms)

    def listeners_of(self, node: int, port_of: Callable[[str], int]) -> list[Listener]:
        """Return the secured listeners of a broker; `port_of` returns the port of a name, 0 for a free one."""
        return [
            Listener(
                node,
                listener.name,
                self._host,
                port_of(listener.name),
                self._context(listener) if listener.has_tls else None,
                listener.has_sasl,
                _text(listener.properties, "ssl.principal.mapping.rules", _PRINCIPAL_RULES),
            )
            for listener in self.listeners
        ]

    def advertise(self, listener: Listener, port: int) -> tuple[str, int]:
        """Note the port that a broker's listener advertises. Return its host and port."""
        self._ports[listener.name].append(port)
        return self.for_clients.listener(listener.name).host or self._host, port

    @property
    def for_clients(self) -> ClusterSecurity:
        """The data for clients: certificates, users, options; see `KafkaCluster.security`."""
        assert self._folder is not None, "EmbeddedKafka is not started"
        return ClusterSecurity(Path(self._folder.name), self.listeners, self._ports, self._ports, Secret(""))

    def _context(self, listener: Security) -> ssl.SSLContext:
        certificates = self.for_clients.certificates
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(listener.server_pem or certificates.server_pem)
        versions = _versions(listener)
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if listener.client_auth == "required":
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(certificates.ca_pem)
        return context


def _check(listener: Security) -> None:
    """Raise `ValueError` for features that this broker lacks."""
    others = [mechanism for mechanism in listener.mechanisms if mechanism not in WITH_PASSWORD]
    if others:
        raise ValueError(f"EmbeddedKafka has no {others[0]}: use {', '.join(WITH_PASSWORD)}, or KafkaCluster")
    unknown = [name for name in listener.properties if name not in _PROPERTIES]
    if unknown:
        raise ValueError(f"EmbeddedKafka has no listener's property {unknown[0]!r}: {', '.join(_PROPERTIES)}")
    read_rules(_text(listener.properties, "ssl.principal.mapping.rules", _PRINCIPAL_RULES))
    _versions(listener)


def _versions(listener: Security) -> Iterable[ssl.TLSVersion]:
    named = _text(listener.properties, "ssl.enabled.protocols", ",".join(_TLS_VERSIONS)).split(",")
    unknown = [name for name in named if name.strip() not in _TLS_VERSIONS]
    if unknown:
        raise ValueError(f"versions of TLS are {', '.join(_TLS_VERSIONS)}, not {unknown[0]!r}")
    return [_TLS_VERSIONS[name.strip()] for name in named]


def _text(properties: Mapping[str, object], name: str, default: str) -> str:
    return str(properties.get(name, default))
