"""SCRAM users of a running cluster, created by Kafka's protocol: the storage tool would show passwords in `ps`."""

import hashlib
import os
import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from kafwire.broker.ports import HOST
from kafwire.broker.security.cluster_security import ClusterSecurity
from kafwire.config.sasl_mechanisms import SCRAM_HASHES, SCRAM_NUMBERS
from kafwire.protocol import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    Request,
    Response,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kafwire.protocol.framing import decode_response, encode_request
from kafwire.testing.cluster.node import POLL_SECONDS, ClusterError, KafkaNode

__all__ = ["create_scram_users", "create_users", "exchange", "unverified", "wait_for_scram_user"]

_ITERATIONS = 4096
_SALT_BYTES = 16
_TIMEOUT_S = 10.0

R = TypeVar("R", bound=Response)


def exchange(connection: socket.socket, message: Request[R], version: int) -> R:
    """Send a request on a blocking socket. Return the response. Raises `OSError` if the broker disconnects."""
    request = encode_request(message, version, 1, None)
    connection.sendall(struct.pack(">i", len(request)) + request)
    with connection.makefile("rb") as stream:
        head = stream.read(4)
        if len(head) < 4:
            raise ConnectionResetError("the broker has closed the connection")
        response = stream.read(struct.unpack(">i", head)[0])
    return decode_response(type(message), response, version)[1]


def create_users(security: ClusterSecurity, nodes: Sequence[KafkaNode], timeout: float) -> None:
    """Create the SCRAM users of a cluster, and wait until all nodes, which must run, know them."""
    scram = [listener for listener in security.listeners if listener.has_scram]
    users: dict[str, dict[str, str]] = {}
    for listener in scram:
        for mechanism in listener.mechanisms:
            if mechanism.startswith("SCRAM-"):
                passwords = {user: listener.password(user) for user in listener.users}
                users[mechanism] = users.get(mechanism, {}) | passwords
    create_scram_users(nodes[0].port, users, timeout)
    for listener in scram:
        tls = unverified(security.certificates.client_pem) if listener.has_tls else None
        mechanisms = [mechanism for mechanism in listener.mechanisms if mechanism.startswith("SCRAM-")]
        for port in security.nodes[listener.name]:
            for user in listener.users:
                wait_for_scram_user(port, user, mechanisms[-1], tls, timeout)


def create_scram_users(port: int, users: Mapping[str, Mapping[str, str]], timeout: float) -> None:
    """Set users' passwords through the plain listener at `port`; `users` has passwords by mechanism and name.

    A password is salted as in Kafka: as raw UTF-8, without SASLprep (see its ScramFormatter).

    Raises `ClusterError` if the cluster refuses, or has no controller within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    for mechanism, passwords in users.items():  # one request may change each user only once
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=_salted(passwords, mechanism))
        while refused := _refused(port, request):
            if time.monotonic() > deadline:
                raise ClusterError(f"no SCRAM user {refused.user!r}: {refused.error_message}")
            time.sleep(POLL_SECONDS)


def _salted(
    users: Mapping[str, str], mechanism: str
) -> list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion]:
    number, digest = SCRAM_NUMBERS[mechanism], SCRAM_HASHES[mechanism]
    upsertions = []
    for user, password in users.items():
        salt = os.urandom(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, _ITERATIONS)
        upsertions.append(
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=user, mechanism=number, iterations=_ITERATIONS, salt=salt, salted_password=salted
            )
        )
    return upsertions


def _refused(
    port: int, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult | None:
    with socket.create_connection((HOST, port), timeout=_TIMEOUT_S) as connection:
        results = exchange(connection, request, 0).results
    return next((result for result in results if result.error_code), None)


def wait_for_scram_user(port: int, user: str, mechanism: str, tls: ssl.SSLContext | None, timeout: float) -> None:
    """Wait until the node with this secured listener knows the user; it learns it after the controller's response.

    Raises `ClusterError` if it does not know the user within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while not _is_known(port, user, mechanism, tls):
        if time.monotonic() > deadline:
            raise ClusterError(f"the node at {HOST}:{port} does not know the SCRAM user {user!r}")
        time.sleep(POLL_SECONDS)


def _is_known(port: int, user: str, mechanism: str, tls: ssl.SSLContext | None) -> bool:
    """Start an authentication without a password: the broker responds with the user's salt, or refuses."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    try:
        with socket.create_connection((HOST, port), timeout=_TIMEOUT_S) as raw:
            connection = tls.wrap_socket(raw) if tls else raw
            with connection:
                exchange(connection, SaslHandshakeRequest(mechanism=mechanism), 1)
                first = f"n,,n={name},r=readiness".encode()
                return exchange(connection, SaslAuthenticateRequest(auth_bytes=first), 0).error_code == 0
    except OSError:
        return False


def unverified(client_pem: Path) -> ssl.SSLContext:
    """Return a TLS context for a node of this process, whose certificate may be invalid on purpose."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(client_pem)
    return context
