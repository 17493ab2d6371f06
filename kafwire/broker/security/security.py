"""`Security`: the security of one listener of a test cluster. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kafwire.config.sasl_mechanisms import IN_KAFKA, WITH_PASSWORD
from kafwire.secret import Secret

__all__ = ["Security", "as_listeners", "users_of"]

_PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_TAKEN = ("PLAINTEXT", "CONTROLLER", "INNER", "PROXIED")  # listeners that the nodes of every test cluster have
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")

USERS = {"admin": "admin-secret", "alice": "alice-secret"}


@dataclass(frozen=True)
class Security:
    """One secured listener of each node of a `KafkaCluster`, besides the plain listener between nodes.

    Args:
        protocol: "SSL", "SASL_PLAINTEXT" or "SASL_SSL".
        mechanisms: the SASL mechanisms for clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI. By
            default, a SASL listener has PLAIN and both SCRAM mechanisms.
        users: passwords, any text, by name. With SCRAM, names are ASCII, as Kafka requires. SCRAM users belong to the
            cluster: two listeners may not give one name two passwords.
        name: the listener's name; by default the protocol's, with `_MTLS` where clients need a certificate.
        client_auth: "required": a client needs a certificate of the cluster's CA (mTLS).
        host: the listener's advertised host. The certificate is for localhost, 127.0.0.1 and ::1. None: localhost with
            GSSAPI, which needs a name, else 127.0.0.1.
        connections_max_reauth_ms: the lifetime of a client's authentication (KIP-368); 0 is for ever.
        acls: authorize (StandardAuthorizer): only superusers may do operations that no ACL allows. A client of a
            listener without SASL and certificates is ANONYMOUS, as the nodes are, and may do everything.
        superusers: names that need no ACLs.
        delegation_tokens: allow delegation tokens (KIP-48), which clients use with SCRAM.
        oauth_audience: the audience that a token of OAUTHBEARER must have; None is not checked.
        oauth_issuer: the issuer that it must have; None is not checked.
        keytab: the broker's keytab, for GSSAPI.
        krb5_conf: the Kerberos configuration, for GSSAPI.
        principal: the broker's principal, for GSSAPI, as `kafka/localhost@REALM`.
        server_pem: private key and certificates of the nodes, in place of the cluster's own.
        properties: further properties of the listener, without its prefix: `{"ssl.enabled.protocols": "TLSv1.2"}`.

    Raises:
        ValueError: the arguments do not go together.

    Example:
        >>> from kafwire.testing import Security
        >>> Security("SASL_SSL", ["SCRAM-SHA-512"], users={"alice": "wonderland"}).users
        {'alice': Secret('***')}
    """

    protocol: Literal["SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "SASL_SSL"
    mechanisms: Sequence[str] = ()
    users: Mapping[str, str | Secret] = field(default_factory=lambda: dict(USERS), hash=False)
    name: str = ""
    client_auth: Literal["none", "required"] = "none"
    host: str | None = None
    connections_max_reauth_ms: int = 0
    acls: bool = False
    superusers: Sequence[str] = ("admin",)
    delegation_tokens: bool = False
    oauth_audience: str | None = "kafka"
    oauth_issuer: str | None = "https://issuer.test"
    keytab: Path | None = None
    krb5_conf: Path | None = None
    principal: str | None = None
    server_pem: Path | None = None
    properties: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        protocol = str(self.protocol).upper()
        if protocol not in _PROTOCOLS:
            raise ValueError(f"protocol is one of {', '.join(_PROTOCOLS)}, not {self.protocol!r}")
        mechanisms = (self.mechanisms,) if isinstance(self.mechanisms, str) else tuple(self.mechanisms)
        mechanisms = tuple(mechanism.upper() for mechanism in mechanisms)
        if protocol == "SSL" and mechanisms:
            raise ValueError("mechanisms are SASL's: protocol SSL has none")
        if protocol != "SSL" and not mechanisms:
            mechanisms = WITH_PASSWORD
        if unknown := [mechanism for mechanism in mechanisms if mechanism not in IN_KAFKA]:
            raise ValueError(f"mechanisms are {', '.join(IN_KAFKA)}, not {unknown[0]!r}")
        if self.client_auth not in {"none", "required"}:
            raise ValueError(f"client_auth is 'none' or 'required', not {self.client_auth!r}")
        if self.client_auth == "required" and protocol == "SASL_PLAINTEXT":
            raise ValueError("client_auth='required' needs TLS: protocol SSL or SASL_SSL")
        if "GSSAPI" in mechanisms and not (self.keytab and self.krb5_conf and self.principal):
            raise ValueError("GSSAPI needs keytab, krb5_conf and principal")
        if self.delegation_tokens and not any(mechanism.startswith("SCRAM-") for mechanism in mechanisms):
            raise ValueError("delegation tokens are used with SCRAM: name one in mechanisms")
        # Kafka's brokers parse a SCRAM user's name by a pattern without other characters.
        wrong = [user for user in self.users if not user.isascii()]
        if wrong and any(mechanism.startswith("SCRAM-") for mechanism in mechanisms):
            raise ValueError(f"Kafka takes only ASCII in the names of SCRAM users, not {wrong[0]!r}")
        name = self.name or protocol + ("_MTLS" if self.client_auth == "required" else "")
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise ValueError(f"a listener's name is of A-Z, 0-9 and _, and not one of {', '.join(_TAKEN)}: {name!r}")
        given = {
            "protocol": protocol,
            "mechanisms": mechanisms,
            "users": {user: Secret(password) for user, password in self.users.items()} if mechanisms else {},
            "name": name,
            "host": self.host or ("localhost" if "GSSAPI" in mechanisms else "127.0.0.1"),
            "superusers": tuple(self.superusers),
        }
        for key, value in given.items():
            object.__setattr__(self, key, value)

    @property
    def has_tls(self) -> bool:
        """True if the listener uses TLS."""
        return self.protocol != "SASL_PLAINTEXT"

    @property
    def has_sasl(self) -> bool:
        """True if clients authenticate by SASL."""
        return self.protocol != "SSL"

    @property
    def has_scram(self) -> bool:
        """True if one of the mechanisms is SCRAM."""
        return any(mechanism.startswith("SCRAM-") for mechanism in self.mechanisms)

    def password(self, user: str) -> str:
        """Return a user's password.

        Args:
            user: the name.

        Returns:
            The password.

        Raises:
            KeyError: there is no such user.

        Example:
            >>> from kafwire.testing import Security
            >>> Security().password("alice")
            'alice-secret'
        """
        return Secret(self.users[user]).reveal()


def as_listeners(security: Security | str | Sequence[Security | str] | None) -> tuple[Security, ...]:
    """Return one or several listeners as a tuple; a text is a protocol.

    Raises `ValueError` if two have one name, or one user has two passwords.
    """
    if security is None:
        return ()
    several: Iterable[Security | str] = [security] if isinstance(security, Security | str) else security
    listeners = tuple(Security(one) if isinstance(one, str) else one for one in several)  # type: ignore[arg-type]
    if len({listener.name for listener in listeners}) < len(listeners):
        raise ValueError("two listeners have one name: give Security(name=...)")
    users_of(listeners)
    return listeners


def users_of(listeners: Iterable[Security]) -> dict[str, Secret]:
    """Return the users of all listeners. Raises `ValueError` if one has two passwords."""
    users: dict[str, Secret] = {}
    for listener in listeners:
        for user, password in listener.users.items():
            if users.setdefault(user, Secret(password)) != Secret(password):
                raise ValueError(f"user {user!r} has two passwords")
    return users
