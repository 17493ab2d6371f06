"""Secured listeners of `KafkaCluster`: what other clients than kafwire can do there, and what they cannot."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafwire.broker.properties_file import properties_file
from kafwire.protocol import SaslAuthenticateRequest, SaslHandshakeRequest
from kafwire.testing import KafkaCluster, Security
from kafwire.testing.cluster.kafka import OLDEST_VERSION, class_path, java
from kafwire.testing.cluster.scram_users import exchange
from kafwire.testing.faults import Reset
from kafwire.testing.faults.script import CONNECT
from kafwire.testing.pytest_plugin import ClusterFactory
from tests.support.acls import Operation, Resource, allow, forget
from tests.support.certificates import Authority, expired, not_yet_valid, of_unknown_ca, self_signed, wrong_host
from tests.support.deadlines import until
from tests.support.java.client import JavaClient, Written

# A soft hyphen, a ligature and a full-width letter, which SASLprep would change; and what ends texts of JAAS and Java.
PASSWORD = "a\u00ad\ufb01\uff21 😀=,;'\"\\ canary "
USERS = {"admin": "admin-secret", "alice": PASSWORD, "a=b,c d": "equals, comma"}
REAUTH_MS = 5000

LISTENERS = [
    Security(
        mechanisms=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"],
        users=USERS,
        acls=True,
        superusers=["admin", "client"],
        delegation_tokens=True,
    ),
    Security("SASL_PLAINTEXT", users=USERS, connections_max_reauth_ms=REAUTH_MS),
    Security("SSL"),
    Security("SSL", client_auth="required"),
]
WAYS: list[tuple[str, str | None]] = [
    (listener.name, mechanism) for listener in LISTENERS for mechanism in (listener.mechanisms or (None,))
]


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    """One node with all kinds of listeners."""
    with KafkaCluster(security=LISTENERS) as running:
        yield running


@pytest.fixture(scope="module")
def java_client(secured: KafkaCluster) -> Iterator[JavaClient]:
    with JavaClient(jvm_options=secured.security.client_jvm_options) as client:
        yield client


@pytest.fixture
def topic(secured: KafkaCluster, topic_name: str) -> str:
    client = AdminClient(options(secured, "admin", "PLAIN"))
    (created,) = client.create_topics([NewTopic(topic_name, 1, 1)]).values()
    created.result(timeout=30)
    return topic_name


def options(
    cluster: KafkaCluster, user: str | None, mechanism: str | None, listener: str | None = None, **more: Any
) -> dict[str, Any]:
    """Options of librdkafka, with a token if the mechanism needs one."""
    made: dict[str, Any] = cluster.client_options(user, mechanism, listener=listener, dialect="librdkafka")
    if mechanism == "OAUTHBEARER":
        made["oauth_cb"] = lambda _: (cluster.security.token(user or "admin"), time.time() + 3600)
    return made | {"log_level": 0} | more


def write(made: Mapping[str, Any], topic: str, value: bytes = b"value") -> KafkaError | None:
    """The outcome of a record."""
    said: list[KafkaError | None] = []
    producer = Producer(dict(made))
    producer.produce(topic, value, on_delivery=lambda error, _: said.append(error))
    assert producer.flush(30) == 0
    return said[0]


def read(made: Mapping[str, Any], topic: str, group: str = "readers") -> bytes | None:
    """The value of a topic's first record."""
    consumer = Consumer({**made, "group.id": group})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = consumer.poll(30)
        assert record is not None
        assert record.error() is None, record.error()
        return record.value()
    finally:
        consumer.close()


def is_refused(made: Mapping[str, Any], *expected: int) -> bool:
    """True if librdkafka reports one of these errors; it may say before that all its brokers are down."""
    said: list[KafkaError] = []
    config: dict[str, Any] = {**made, "error_cb": said.append}
    client = AdminClient(config)

    def polled() -> bool:
        client.poll(0.05)
        return any(error.code() in expected for error in said)

    until(polled, f"one of the errors {expected}")
    return True


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_librdkafka_writes_and_reads(secured: KafkaCluster, topic: str, listener: str, mechanism: str | None) -> None:
    made = options(secured, "admin", mechanism, listener)
    assert made["bootstrap.servers"] == secured.bootstrap_of(listener)
    assert write(made, topic, b"by librdkafka") is None
    assert read(made, topic) == b"by librdkafka"


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_java_writes_and_reads(
    secured: KafkaCluster, java_client: JavaClient, topic: str, listener: str, mechanism: str | None
) -> None:
    made = secured.client_options("admin", mechanism, listener=listener, dialect="java")
    assert java_client.produce(topic=topic, records=[Written(0, 1, None, b"by Java", ())], **java_options(made)) == [0]
    assert [record.value for record in java_client.consume(topic=topic, **java_options(made))] == [b"by Java"]


def java_options(made: Mapping[str, str]) -> dict[str, Any]:
    """A client's options for `JavaClient`, which takes the addresses by themselves."""
    return {("bootstrap" if key == "bootstrap.servers" else key): value for key, value in made.items()}


@pytest.mark.parametrize("user", ["alice", "a=b,c d"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_any_password_is_taken_as_it_is(
    secured: KafkaCluster, java_client: JavaClient, topic: str, user: str, mechanism: str
) -> None:
    """The clients have password normalizations that kafwire did not write: librdkafka's and Java's."""
    listener = "SASL_PLAINTEXT"
    error = write(options(secured, user, mechanism, listener), topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED  # the user is authenticated
    with pytest.raises(RuntimeError, match="TopicAuthorizationException"):
        made = secured.client_options(user, mechanism, listener=listener, dialect="java")
        java_client.produce(topic=topic, records=[Written(0, 1, None, b"", ())], **java_options(made))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(secured: KafkaCluster, mechanism: str) -> None:
    made = options(secured, "alice", mechanism) | {"sasl.password": PASSWORD.strip()}
    assert is_refused(made, KafkaError._AUTHENTICATION)


@pytest.mark.parametrize("claims", [{"aud": "others"}, {"iss": "https://others.test"}])
def test_a_token_for_others_is_refused(secured: KafkaCluster, claims: dict[str, Any]) -> None:
    token = secured.security.token("admin", **claims)
    made = options(secured, "admin", "OAUTHBEARER", oauth_cb=lambda _: (token, time.time() + 3600))
    assert is_refused(made, KafkaError._AUTHENTICATION)


def test_a_client_without_a_certificate_is_refused(secured: KafkaCluster) -> None:
    made = options(secured, None, None, "SSL_MTLS")
    del made["ssl.certificate.location"], made["ssl.key.location"]
    assert is_refused(made, KafkaError._SSL, KafkaError._TRANSPORT)  # with TLS 1.3 the alert comes after its handshake
    context = ssl.create_default_context(cafile=secured.security.certificates.ca_pem)
    host, _, port = secured.bootstrap_of("SSL_MTLS").rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as raw,
        context.wrap_socket(raw, server_hostname=host) as connection,
        pytest.raises(ssl.SSLError, match="(?i)certificate"),
    ):
        connection.recv(1)


def test_the_certificate_is_for_this_machine_by_name_and_address(secured: KafkaCluster) -> None:
    context = ssl.create_default_context(cafile=secured.security.certificates.ca_pem)
    port = int(secured.bootstrap_of("SSL").rpartition(":")[2])
    for name in ("localhost", "127.0.0.1", "::1"):
        with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw, server_hostname=name):
            pass
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"),
    ):
        context.wrap_socket(raw, server_hostname="elsewhere.test")


def test_openssl_finds_nothing_wrong(secured: KafkaCluster) -> None:
    certificates = secured.security.certificates
    command = ["openssl", "s_client", "-brief", "-verify_return_error", "-CAfile", str(certificates.ca_pem)]
    command += ["-cert", str(certificates.client_certificate), "-key", str(certificates.client_key)]
    command += ["-verify_ip", "127.0.0.1", "-connect", secured.bootstrap_of("SSL_MTLS")]
    response = subprocess.run(command, input="", capture_output=True, text=True, timeout=30, check=True)
    assert "Verification: OK" in response.stderr
    assert "TLSv1.3" in response.stderr


@pytest.mark.parametrize(("listener", "lifetime_ms"), [("SASL_PLAINTEXT", REAUTH_MS), ("SASL_SSL", 0)])
def test_the_broker_says_how_long_an_authentication_lasts(
    secured: KafkaCluster, listener: str, lifetime_ms: int
) -> None:
    host, _, port = secured.bootstrap_of(listener).rpartition(":")
    context = ssl.create_default_context(cafile=secured.security.certificates.ca_pem)
    with (
        socket.create_connection((host, int(port)), timeout=10) as raw,
        context.wrap_socket(raw, server_hostname=host) if listener == "SASL_SSL" else raw as connection,
    ):
        exchange(connection, SaslHandshakeRequest(mechanism="PLAIN"), 1)
        response = exchange(connection, SaslAuthenticateRequest(auth_bytes=b"\0admin\0admin-secret"), 2)
    assert (response.error_code, response.session_lifetime_ms) == (0, lifetime_ms)


def test_a_request_without_an_acl_is_denied(secured: KafkaCluster, topic: str) -> None:
    made = options(secured, "alice", "SCRAM-SHA-512")
    error = write(made, topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(secured, "alice", Operation.WRITE, Resource.TOPIC, topic)
    assert write(made, topic) is None
    forget(secured, "alice")
    assert write(made, topic) is not None


def test_a_delegation_token_stands_for_its_owner(
    secured: KafkaCluster, java_client: JavaClient, topic: str, tmp_path: Path
) -> None:
    made = secured.client_options("admin", "SCRAM-SHA-256", dialect="java")
    file = tmp_path / "admin.properties"
    file.write_text(properties_file(made))
    command = [java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path()]
    command += ["org.apache.kafka.tools.DelegationTokenCommand", "--bootstrap-server", secured.bootstrap, "--create"]
    command += ["--max-life-time-period", "-1", "--command-config", str(file)]
    response = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    *_, row = response.stdout.strip().splitlines()
    token_id, hmac = row.split()[:2]
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="{token_id}" password="{hmac}" tokenauth="true";'
    by_token = java_options(made | {"sasl.jaas.config": login})

    def written() -> bool:  # the broker learns of the token when its maker has it already
        try:
            return java_client.produce(topic=topic, records=[Written(0, 1, None, b"", ())], **by_token) == [0]
        except RuntimeError as error:
            assert "SaslAuthenticationException" in str(error)
            return False

    until(written, "the token known to the broker", seconds=10)


def test_no_other_process_is_shown_a_password(secured: KafkaCluster) -> None:
    node = secured.node(1)
    shown = [secured.describe(), repr(secured.security), node.log(), Path(f"/proc/{node.pid}/cmdline").read_text()]
    assert all("canary" not in text and "admin-secret" not in text for text in shown)
    private = [node.configuration, *secured.security.folder.glob("*key*"), secured.security.folder / "security.json"]
    assert {path.stat().st_mode & 0o077 for path in private} == {0}
    assert "admin-secret" in node.configuration.read_text()


def test_another_process_finds_users_and_certificates(secured: KafkaCluster) -> None:
    attached = KafkaCluster.attach(secured.describe())
    assert attached.bootstrap == secured.bootstrap
    for listener, mechanism in WAYS:
        asked: dict[str, Any] = {"mechanism": mechanism, "listener": listener}
        assert attached.client_options("alice", **asked) == secured.client_options("alice", **asked)
    assert attached.security.users == secured.security.users
    assert attached.direct == secured.direct != secured.bootstrap


def test_nodes_show_other_certificates(make_cluster: ClusterFactory, topic_name: str, tmp_path: Path) -> None:
    ca = Authority.new()
    bad = {
        "EXPIRED": expired(ca),
        "NOT_YET": not_yet_valid(ca),
        "ELSEWHERE": wrong_host(ca),
        "SELF_SIGNED": self_signed(),
        "UNKNOWN": of_unknown_ca(),
    }
    listeners = [
        Security("SSL", name=name, server_pem=identity.write(tmp_path, name).both)
        for name, identity in (bad | {"CHAIN": ca.intermediate().issue()}).items()
    ]
    cluster = make_cluster(security=listeners, properties={"auto.create.topics.enable": True})
    trusted = str(ca.write(tmp_path / "ca.pem"))
    for name in bad:
        assert is_refused(options(cluster, None, None, name) | {"ssl.ca.location": trusted}, KafkaError._SSL), name
    assert write(options(cluster, None, None, "CHAIN") | {"ssl.ca.location": trusted}, topic_name) is None


def test_java_reads_a_keystore_of_its_own_format(
    secured: KafkaCluster, java_client: JavaClient, topic: str, tmp_path: Path
) -> None:
    identity = Authority.of(secured.security.certificates).issue(name="client")
    identity.write_jks(tmp_path / "client.jks", "swordfish")
    made = secured.client_options(listener="SSL_MTLS", dialect="java") | {
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": str(tmp_path / "client.jks"),
        "ssl.keystore.password": "swordfish",
    }
    assert java_client.produce(topic=topic, records=[Written(0, 1, None, b"", ())], **java_options(made)) == [0]


def test_users_outlive_a_restart(make_cluster: ClusterFactory, topic_name: str) -> None:
    cluster = make_cluster(security="SASL_SSL", properties={"auto.create.topics.enable": True})
    cluster.node(1).stop()
    cluster.node(1).start()
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert write(options(cluster, "alice", mechanism), topic_name) is None


@pytest.mark.long
def test_two_nodes_of_the_oldest_version(make_cluster: ClusterFactory, topic_name: str) -> None:
    mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    wanted = Security("SASL_SSL", mechanisms, acls=True, delegation_tokens=True)
    cluster = make_cluster(2, version=OLDEST_VERSION, security=wanted, properties={"auto.create.topics.enable": True})
    for mechanism in mechanisms:
        made = options(cluster, "admin", mechanism)
        assert len(made["bootstrap.servers"].split(",")) == 2
        for address in made["bootstrap.servers"].split(","):
            assert write(made | {"bootstrap.servers": address}, topic_name) is None
        error = write(options(cluster, "alice", mechanism), topic_name)
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_proxies_stand_before_secured_listeners(make_cluster: ClusterFactory, topic_name: str) -> None:
    cluster = make_cluster(
        security=["SASL_SSL", "SASL_PLAINTEXT"], proxies=True, properties={"auto.create.topics.enable": True}
    )
    for listener in ("SASL_SSL", "SASL_PLAINTEXT"):
        proxy = cluster.proxy_of(listener)
        assert proxy.bootstrap == cluster.bootstrap_of(listener)
        assert write(options(cluster, "alice", "PLAIN", listener), topic_name) is None
        proxy.play(Reset())
        assert write(options(cluster, "alice", "PLAIN", listener), topic_name) is None
        seen = {api for _, _, api in proxy.requests}
        assert CONNECT in seen
        assert ("Produce" in seen) == (listener == "SASL_PLAINTEXT")  # TLS shows its proxy nothing
    assert cluster.proxy is cluster.proxy_of("SASL_SSL")
    assert cluster.bootstrap == cluster.bootstrap_of("SASL_SSL")


def test_command_says_how_clients_are_configured() -> None:
    command = [sys.executable, "-m", "kafwire.testing.cluster", "start", "--security", "sasl_ssl"]
    command += ["--mechanism", "scram-sha-256", "--security", "ssl_mtls"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        bootstrap = running.stdout.readline().strip()
        lines: list[str] = []
        while "SSL_MTLS" not in "".join(lines):
            lines.append(running.stdout.readline())
        assert f"listener SASL_SSL {bootstrap}\n" in lines
        assert "  alice, SCRAM-SHA-256:\n" in lines
        paths = [line.split()[-1] for line in lines if "kcat" in line]
        chosen = next(path for path in paths if "user-2" in path)
        made: dict[str, Any] = dict(line.split("=", 1) for line in Path(chosen).read_text().splitlines())
        assert AdminClient(made).list_topics(timeout=30).brokers
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(60) == 0
        assert not Path(chosen).exists()


def test_command_names_wrong_security() -> None:
    command = [sys.executable, "-m", "kafwire.testing.cluster", "start", "--security", "tls"]
    response = subprocess.run(command, capture_output=True, text=True, check=False)
    assert response.returncode == 2
    assert "SASL_SSL" in response.stderr
