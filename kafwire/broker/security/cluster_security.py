"""The security of a running cluster for its clients: certificates, users, tokens, options."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kafwire.broker.ports import host_and_port
from kafwire.broker.security.certificates import Certificates, make_certificates, write_private
from kafwire.broker.security.client_options import Dialect, client_options
from kafwire.broker.security.listener_properties import BrokerFiles, jvm_options, listener_properties, secret_properties
from kafwire.broker.security.security import Security, users_of
from kafwire.broker.security.tokens import TokenIssuer, make_issuer
from kafwire.secret import Secret

__all__ = ["ClusterSecurity"]

_FILE = "security.json"
_PATHS = ("keytab", "krb5_conf", "server_pem")


@dataclass(frozen=True)
class ClusterSecurity:
    """The secured listeners of a running cluster. `cluster.bootstrap` names the first.

    Args:
        folder: the folder of certificates, keys and tokens.
        listeners: the listeners.
        ports: the advertised ports: by the listener's name, the port of each node.
        nodes: the ports of the nodes themselves, which differ where proxies stand before them.
        token_key: the key that signs delegation tokens.
    """

    folder: Path
    listeners: tuple[Security, ...]
    ports: Mapping[str, Sequence[int]]
    nodes: Mapping[str, Sequence[int]]
    token_key: Secret

    @classmethod
    def make(
        cls,
        folder: Path,
        listeners: Sequence[Security],
        ports: Mapping[str, Mapping[int, int]],
        nodes: Mapping[str, Mapping[int, int]],
    ) -> Self:
        """Create all files for the start of the nodes, in a new folder."""
        folder.mkdir(mode=0o700)
        make_certificates(folder)
        if any("OAUTHBEARER" in listener.mechanisms for listener in listeners):
            make_issuer(folder)
        advertised = {name: list(of_nodes.values()) for name, of_nodes in ports.items()}
        behind = {name: list(of_nodes.values()) for name, of_nodes in nodes.items()}
        made = cls(folder, tuple(listeners), advertised, behind, Secret(secrets.token_hex(16)))
        made._save()
        return made

    @property
    def certificates(self) -> Certificates:
        """The CA, the nodes' certificate and a client's, as PEM files."""
        return Certificates(self.folder)

    @property
    def files(self) -> BrokerFiles:
        """The files that brokers read."""
        return BrokerFiles(self.certificates.server_pem, self.certificates.ca_pem, TokenIssuer(self.folder).jwks)

    @property
    def users(self) -> dict[str, Secret]:
        """All users' passwords by name."""
        return users_of(self.listeners)

    @property
    def client_jvm_options(self) -> list[str]:
        """The JVM options with which a Java client reads its token of OAUTHBEARER from a file."""
        prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        return [f"{prefix}.urls={self._token_file.as_uri()}", f"{prefix}.files={self._token_file}"]

    @property
    def _token_file(self) -> Path:
        return self.folder / "token.jwt"

    def listener(self, wanted: Security | str | None = None) -> Security:
        """Return a listener by its name or its `Security`; None is the first.

        Args:
            wanted: its name, or its `Security`.

        Returns:
            The listener.

        Raises:
            KeyError: there is no such listener.
        """
        name = self.listeners[0].name if wanted is None else wanted if isinstance(wanted, str) else wanted.name
        for listener in self.listeners:
            if listener.name == name:
                return listener
        raise KeyError(f"no listener {name!r}; there are {', '.join(listener.name for listener in self.listeners)}")

    def bootstrap_of(self, listener: Security | str | None = None) -> str:
        """Return `host:port[,host:port]` of a listener, of the proxies before it if there are any.

        Args:
            listener: its name, or its `Security`; None is the first.

        Returns:
            The addresses.

        Raises:
            KeyError: there is no such listener.
        """
        wanted = self.listener(listener)
        return ",".join(host_and_port(str(wanted.host), port) for port in self.ports[wanted.name])

    def token(
        self, subject: str, *, listener: Security | str | None = None, lifetime_s: float = 3600, **claims: object
    ) -> str:
        """Return a token of OAUTHBEARER that the brokers accept.

        Args:
            subject: the user's name.
            listener: the listener of its audience and issuer; None is the first that has OAUTHBEARER.
            lifetime_s: the seconds for which it is valid.
            claims: further claims, which override.

        Returns:
            A JWT.

        Raises:
            StopIteration: no listener has OAUTHBEARER.
        """
        if listener is None:
            listener = next(each for each in self.listeners if "OAUTHBEARER" in each.mechanisms)
        wanted = self.listener(listener)
        issuer = TokenIssuer(self.folder)
        audience, whose = wanted.oauth_audience, wanted.oauth_issuer
        return issuer.token(subject, audience=audience, issuer=whose, lifetime_s=lifetime_s, **claims)

    def client_options(
        self,
        user: str | None = None,
        mechanism: str | None = None,
        *,
        listener: Security | str | None = None,
        dialect: Dialect = "kafwire",
    ) -> dict[str, str]:
        """Return the options of a client; see `KafkaCluster.client_options`.

        Args:
            user: the user's name; None is the listener's first.
            mechanism: the SASL mechanism; None is the listener's first.
            listener: its name, or its `Security`; None is the first.
            dialect: "kafwire", "librdkafka" or "java".

        Returns:
            Options by their dotted names.

        Raises:
            ValueError: there is no such user, mechanism or dialect.
        """
        wanted = self.listener(listener)
        if mechanism is None and wanted.mechanisms:
            mechanism = wanted.mechanisms[0]
        token_file = None
        if dialect == "java" and mechanism == "OAUTHBEARER":
            token_file = self._token_file
            write_private(token_file, self.token(user or next(iter(wanted.users)), listener=wanted).encode())
        return client_options(
            wanted,
            self.certificates,
            self.bootstrap_of(wanted),
            user=user,
            mechanism=mechanism,
            dialect=dialect,
            token_file=token_file,
        )

    def node_properties(self, node_id: int) -> dict[str, str]:
        """Return the properties of one node's listeners, without secrets."""
        ports = {name: of_nodes[node_id - 1] for name, of_nodes in self.nodes.items()}
        advertised = {name: of_nodes[node_id - 1] for name, of_nodes in self.ports.items()}
        return listener_properties(self.listeners, ports, advertised, self.files)

    def secret_properties(self) -> dict[str, str]:
        """Return the properties that no other process may see."""
        return secret_properties(self.listeners, self.token_key.reveal())

    def jvm_options(self) -> list[str]:
        """Return the JVM options of the nodes."""
        return jvm_options(self.listeners, self.files)

    def _save(self) -> None:
        """Save the data for `load`, passwords included, in a file that only its owner may read."""
        stored = {
            "listeners": [_fields_of(listener) for listener in self.listeners],
            "ports": dict(self.ports),
            "nodes": dict(self.nodes),
            "token_key": self.token_key.reveal(),
        }
        write_private(self.folder / _FILE, json.dumps(stored).encode())

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the security of a cluster that another process of this user runs."""
        stored = json.loads((folder / _FILE).read_bytes())
        listeners = tuple(_from_fields(each) for each in stored["listeners"])
        return cls(folder, listeners, stored["ports"], stored["nodes"], Secret(stored["token_key"]))


def _fields_of(listener: Security) -> dict[str, Any]:
    fields = dict(vars(listener))
    fields["users"] = {user: Secret(password).reveal() for user, password in listener.users.items()}
    fields["properties"] = {key: str(value) for key, value in listener.properties.items()}
    return fields | {key: fields[key] and str(fields[key]) for key in _PATHS}


def _from_fields(fields: dict[str, Any]) -> Security:
    return Security(**(fields | {key: fields[key] and Path(fields[key]) for key in _PATHS}))
