"""Listeners, users and options of clients for tests of secured brokers, embedded and real."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any

from kafwire.protocol.framing import encode_request
from kafwire.testing import Security
from tests.support.acls import Cluster

# Characters that end texts of JAAS and Java, and that SASLprep would change.
PASSWORD = "a\u00ad\ufb01\uff21 😀=,;'\"\\ canary "
USERS = {"admin": "admin-secret", "alice": PASSWORD, "a=b,c d": "equals, comma"}
REAUTH_MS = 2000
LISTENERS = [
    Security(users=USERS, acls=True, superusers=["admin", "client"]),
    Security("SASL_PLAINTEXT", users=USERS, connections_max_reauth_ms=REAUTH_MS),
    Security("SSL"),
    Security("SSL", client_auth="required"),
]


def options(kafka: Cluster, user: str | None, mechanism: str | None, listener: str, **more: Any) -> dict[str, Any]:
    """Keyword arguments of kafwire's clients."""
    made: dict[str, Any] = kafka.client_options(user, mechanism, listener=listener)
    return {key.replace(".", "_"): value for key, value in made.items()} | more


def address_of(bootstrap: str) -> tuple[str, int]:
    """The first of several addresses."""
    host, _, port = bootstrap.split(",", 1)[0].rpartition(":")
    return host, int(port)


def address(kafka: Cluster, listener: str) -> tuple[str, int]:
    """Where a listener is."""
    return address_of(kafka.bootstrap_of(listener))


def frame(message: Any, version: int, number: int = 1) -> bytes:
    """A request behind its size."""
    data = encode_request(message, version, number, None)
    return struct.pack(">i", len(data)) + data


def encrypted(kafka: Cluster, listener: str = "SSL") -> ssl.SSLSocket:
    """A connection to a listener that speaks TLS."""
    context = ssl.create_default_context(cafile=str(kafka.security.certificates.ca_pem))
    opened = socket.create_connection(address(kafka, listener), timeout=10)
    return context.wrap_socket(opened, server_hostname="127.0.0.1")
