"""Responses of brokers to authentication, and about users and ACLs: the embedded one the same as a real one."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.broker.security.acls import Acl
from kafwire.errors import AuthenticationError, ErrorCode
from kafwire.testing import EmbeddedKafka, KafkaCluster
from kafwire.testing.cluster.scram_users import create_scram_users, exchange
from tests.support.acls import Cluster
from tests.support.broker.secured_brokers import LISTENERS, REAUTH_MS, address, address_of, options
from tests.support.deadlines import until


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedKafka]:
    """One node with all kinds of listeners."""
    with EmbeddedKafka(security=LISTENERS, plain=True) as running:
        yield running


@pytest.fixture(scope="module", params=["embedded", "kafka"])
def either(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The same listeners on an embedded broker, and on a real one."""
    if request.param == "embedded":
        yield request.getfixturevalue("secured")
        return
    with KafkaCluster(security=LISTENERS) as running:
        yield running


# --- the same words as a real broker's


class Raw:
    """A connection to the listener whose sessions end; its responses."""

    def __init__(self, kafka: Cluster) -> None:
        self.socket = socket.create_connection(address(kafka, "SASL_PLAINTEXT"), timeout=10)

    def choose(self, mechanism: str, version: int = 1) -> Any:
        return exchange(self.socket, protocol.SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, data: bytes, version: int = 2) -> tuple[int, str | None, int]:
        response = exchange(self.socket, protocol.SaslAuthenticateRequest(auth_bytes=data), version)
        return response.error_code, response.error_message or None, response.session_lifetime_ms

    def log_in(self, user: str = "admin", password: str = "admin-secret") -> tuple[int, str | None, int]:
        assert self.choose("PLAIN").error_code == 0
        return self.token(f"\0{user}\0{password}".encode())

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture
def raw(either: Cluster) -> Iterator[Raw]:
    made = Raw(either)
    with made.socket:
        yield made


FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0admin\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0eve\0wrong", "Authentication failed: Invalid username or password"),
        (b"admin", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0admin\0x\0y", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0admin\0", "Authentication failed: password not specified"),
        (
            b"eve\0admin\0admin-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_words_about_plain(raw: Raw, token: bytes, text: str) -> None:
    raw.choose("PLAIN")
    assert raw.token(token) == (FAILED, text, 0)
    assert raw.is_closed()


@pytest.mark.parametrize("token", [b"", b"n,,n=eve,r=abc", b"n,,n=d\xc3\xb6,r=abc", b"y,,n=admin,r=abc"])
def test_words_about_scram(raw: Raw, token: bytes) -> None:
    raw.choose("SCRAM-SHA-256")
    assert raw.token(token) == (FAILED, GENERIC, 0)
    assert raw.is_closed()


def test_an_unknown_mechanism(raw: Raw) -> None:
    response = raw.choose("GSSAPI")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert sorted(response.mechanisms) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert raw.is_closed()


@pytest.mark.parametrize(
    "message",
    [
        protocol.MetadataRequest(topics=[]),
        protocol.SaslAuthenticateRequest(auth_bytes=b"\0admin\0admin-secret"),
    ],
)
def test_before_an_exchange(raw: Raw, message: Any) -> None:
    with pytest.raises(OSError):
        exchange(raw.socket, message, 1)


def test_during_an_exchange(raw: Raw) -> None:
    raw.choose("PLAIN")
    assert raw.choose("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert raw.is_closed()


def test_metadata_during_an_exchange(raw: Raw) -> None:
    raw.choose("PLAIN")
    topic = protocol.MetadataRequest.MetadataRequestTopic(name="t")
    (found,) = exchange(raw.socket, protocol.MetadataRequest(topics=[topic]), 5).topics
    assert found.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert raw.is_closed()


def test_after_an_exchange(raw: Raw) -> None:
    assert raw.log_in() == (0, None, REAUTH_MS)
    words = "SaslAuthenticate request received after successful authentication"
    assert raw.token(b"") == (ErrorCode.ILLEGAL_SASL_STATE, words, 0)
    assert exchange(raw.socket, protocol.MetadataRequest(topics=[]), 1).brokers


def test_tokens_without_requests_around_them(raw: Raw) -> None:
    assert raw.choose("PLAIN", 0).error_code == 0
    token = b"\0admin\0admin-secret"
    raw.socket.sendall(struct.pack(">i", len(token)) + token)
    assert raw.socket.recv(100) == b"\0\0\0\0"
    assert exchange(raw.socket, protocol.MetadataRequest(topics=[]), 1).brokers


def test_again_as_another_user(raw: Raw) -> None:
    raw.log_in()
    words = "Cannot change principals during re-authentication from User.admin: User.a=b,c d"
    assert raw.log_in("a=b,c d", "equals, comma") == (FAILED, words, 0)
    assert raw.is_closed()


def test_again_by_another_mechanism(raw: Raw) -> None:
    raw.log_in()
    assert raw.choose("SCRAM-SHA-256").error_code == 0
    with pytest.raises(OSError):
        raw.token(b"n,,n=admin,r=abc")


def test_again_and_again_within_a_second(raw: Raw) -> None:
    assert raw.log_in() == raw.log_in() == (0, None, REAUTH_MS)
    assert raw.choose("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE


def test_a_session_that_has_ended_and_one_that_is_renewed(either: Cluster) -> None:
    ended, renewed = Raw(either), Raw(either)
    with ended.socket, renewed.socket:
        ended.log_in()
        renewed.log_in()
        time.sleep(REAUTH_MS / 1000 + 0.1)
        with pytest.raises(OSError):
            exchange(ended.socket, protocol.MetadataRequest(topics=[]), 1)
        assert renewed.log_in() == (0, None, REAUTH_MS)
        assert exchange(renewed.socket, protocol.MetadataRequest(topics=[]), 1).brokers


def test_a_client_without_a_certificate_is_refused(either: Cluster) -> None:
    made = options(either, None, None, "SSL")
    made["bootstrap_servers"] = either.bootstrap_of("SSL_MTLS")
    with pytest.raises(AuthenticationError, match="certificate"), kafwire.Client(**made) as client:
        client.call(protocol.ListGroupsRequest(), broker=1)


@pytest.mark.parametrize(("cluster_id", "node"), [("another", 1), ("another", 7)])
def test_cluster_and_node_are_compared_after_a_login_only(raw: Raw, cluster_id: str, node: int) -> None:
    greeting = protocol.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    greeting.cluster_id, greeting.node_id = cluster_id, node
    assert exchange(raw.socket, greeting, 5).error_code == 0
    assert raw.log_in()[0] == 0
    assert exchange(raw.socket, greeting, 5).error_code == ErrorCode.REBOOTSTRAP_REQUIRED


# --- users and ACLs of a running broker


def test_users_come_and_go(either: Cluster) -> None:
    _, port = address_of(either.direct)
    create_scram_users(port, {"SCRAM-SHA-512": {"carol": "carol-secret"}}, 30)
    made = options(either, "alice", "SCRAM-SHA-512", "SASL_SSL", sasl_username="carol", sasl_password="carol-secret")

    def is_in() -> bool:
        try:
            with kafwire.Client(**made) as client:
                client.call(protocol.ListGroupsRequest(), broker=1)
        except AuthenticationError:
            return False
        return True

    until(is_in, "carol is known")
    alter = protocol.AlterUserScramCredentialsRequest
    gone = alter(deletions=[alter.ScramCredentialDeletion(name="carol", mechanism=2)], upsertions=[])
    with kafwire.Client(either.direct) as client:
        (result,) = client.call(gone).results
        assert (result.user, result.error_code, result.error_message) == ("carol", 0, None)
        (result,) = client.call(gone).results
        words = "Attempt to delete a user credential that does not exist"
        assert (result.error_code, result.error_message) == (ErrorCode.RESOURCE_NOT_FOUND, words)
    until(lambda: not is_in(), "carol is not known any more")


def test_acls_that_are_wrong(either: Cluster) -> None:
    def creation(**changes: Any) -> protocol.CreateAclsRequest.AclCreation:
        values: dict[str, Any] = {
            "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:eve", "host": "*",
            "operation": 3, "permission_type": 3,
        } | changes  # fmt: skip
        return protocol.CreateAclsRequest.AclCreation(**values)

    wrong = [
        creation(resource_type=4), creation(resource_name=""), creation(resource_type=1), creation(operation=1),
        creation(resource_pattern_type=2), creation(permission_type=1), creation(principal="eve"),
    ]  # fmt: skip
    with kafwire.Client(either.direct) as client:
        results = [client.call(protocol.CreateAclsRequest(creations=[each])).results[0] for each in wrong]
    invalid, unexpected = ErrorCode.INVALID_REQUEST, (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    missing = "no colon is present separating the principal type from the principal name"
    assert [(each.error_code, each.error_message) for each in results] == [
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (invalid, "Invalid empty resource name"),
        *[unexpected] * 4,
        (invalid, f"Could not parse principal from `eve` ({missing})"),
    ]


def test_acls_from_the_start_are_for_the_plain_listener_too() -> None:
    acls = [Acl("User:ANONYMOUS", operation, "Topic", "open", pattern="Prefixed") for operation in ("Write", "Create")]
    with EmbeddedKafka(acls=acls) as kafka, kafwire.Producer(kafka.bootstrap) as producer:
        assert producer.send("open-1", b"x").result(timeout=30).offset == 0
        with pytest.raises(kafwire.errors.AuthorizationError, match="Describe on Topic 'shut'"):
            producer.send("shut", b"x").result(timeout=30)
