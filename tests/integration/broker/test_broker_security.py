"""Clients of the embedded broker's secured listeners: each comes in by each, and those without permission do not."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import kafwire
from kafwire import protocol
from kafwire.broker.request import SeenRequest
from kafwire.errors import AuthenticationError
from kafwire.testing import EmbeddedKafka, Security
from tests.support.acls import Cluster
from tests.support.broker.secured_brokers import LISTENERS, USERS, options
from tests.support.deadlines import until
from tests.support.java.client import JavaClient, Written

WAYS = [(listener.name, mechanism) for listener in LISTENERS for mechanism in (listener.mechanisms or (None,))]
LOGINS = [(name, mechanism) for name, mechanism in WAYS if mechanism]


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedKafka]:
    """One node with all kinds of listeners."""
    with EmbeddedKafka(security=LISTENERS) as running:
        yield running


@pytest.fixture(scope="module")
def java_client() -> Iterator[JavaClient]:
    with JavaClient() as client:
        yield client


def librdkafka(kafka: Cluster, user: str | None, mechanism: str | None, listener: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = kafka.client_options(user, mechanism, listener=listener, dialect="librdkafka")
    return made | {"log_level": 0} | more


def java(kafka: Cluster, user: str | None, mechanism: str | None, listener: str) -> dict[str, Any]:
    made = kafka.client_options(user, mechanism, listener=listener, dialect="java")
    return {("bootstrap" if key == "bootstrap.servers" else key): value for key, value in made.items()}


def user_of(mechanism: str | None) -> str | None:
    return "admin" if mechanism else None


def is_refused(made: Mapping[str, Any], expected: int) -> bool:
    """True if librdkafka reports this error."""
    said: list[KafkaError] = []
    settings: dict[str, Any] = {**made, "error_cb": said.append}
    client = AdminClient(settings)

    def polled() -> bool:
        client.poll(0.05)
        return any(error.code() == expected for error in said)

    until(polled, f"error {expected}")
    return True


# --- each client comes in by each listener


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_kafwire_writes_and_reads(
    secured: EmbeddedKafka, topic_name: str, listener: str, mechanism: str | None
) -> None:
    made = options(secured, user_of(mechanism), mechanism, listener)
    value = b"by kafwire" * 10_000
    with kafwire.Producer(**made) as producer:
        assert producer.send(topic_name, value).result(timeout=30).offset == 0
    with kafwire.Consumer(**made, topics=[topic_name], start="earliest") as consumer:
        (batch,) = consumer.poll(timeout=30)
        assert [record.value for record in batch] == [value]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_librdkafka_writes_and_reads(
    secured: EmbeddedKafka, topic_name: str, listener: str, mechanism: str | None
) -> None:
    made = librdkafka(secured, user_of(mechanism), mechanism, listener)
    said: list[KafkaError | None] = []
    producer = Producer(made)
    producer.produce(topic_name, b"by librdkafka", on_delivery=lambda error, _: said.append(error))
    assert producer.flush(30) == 0
    assert said == [None]
    consumer = Consumer({**made, "group.id": topic_name})
    try:
        consumer.assign([TopicPartition(topic_name, 0, 0)])
        record = consumer.poll(30)
        assert record is not None
        assert record.value() == b"by librdkafka"
    finally:
        consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_java_writes_and_reads(
    secured: EmbeddedKafka, java_client: JavaClient, topic_name: str, listener: str, mechanism: str | None
) -> None:
    made = java(secured, user_of(mechanism), mechanism, listener)
    secured.create_topic(topic_name)
    assert java_client.produce(topic=topic_name, records=[Written(0, 1, None, b"by Java", ())], **made) == [0]
    assert [record.value for record in java_client.consume(topic=topic_name, **made)] == [b"by Java"]


@pytest.mark.parametrize("user", ["alice", "a=b,c d"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_any_password_is_taken_as_it_is(
    secured: EmbeddedKafka, java_client: JavaClient, topic_name: str, user: str, mechanism: str
) -> None:
    """The clients have password normalizations that kafwire did not write: librdkafka's and Java's."""
    secured.create_topic(topic_name)
    made = java(secured, user, mechanism, "SASL_PLAINTEXT")
    with pytest.raises(RuntimeError, match="TopicAuthorization"):  # it is in, and may do nothing
        java_client.produce(topic=topic_name, records=[Written(0, 1, None, b"x", ())], **made)
    client = AdminClient(librdkafka(secured, user, mechanism, "SASL_PLAINTEXT"))
    assert client.list_topics(timeout=30).topics == {}


def test_principals_are_those_of_users_and_certificates(secured: EmbeddedKafka) -> None:
    seen = set()
    for listener, mechanism in WAYS:
        with kafwire.Client(**options(secured, user_of(mechanism), mechanism, listener), client_id="lists") as client:
            client.call(protocol.ListGroupsRequest(), broker=1)
        (asked,) = {each.principal for each in secured.requests("ListGroups", client_id="lists")[-1:]}
        seen.add((listener, asked))
    assert seen == {
        ("SASL_SSL", "User:admin"),
        ("SASL_PLAINTEXT", "User:admin"),
        ("SSL", "User:ANONYMOUS"),
        ("SSL_MTLS", "User:client"),
    }


def test_the_whole_name_of_a_certificate_is_the_principal_where_no_rule_says_else() -> None:
    listener = Security("SSL", client_auth="required", properties={"ssl.principal.mapping.rules": "DEFAULT"})
    with EmbeddedKafka(security=listener) as kafka, kafwire.Client(**options(kafka, None, None, "SSL_MTLS")) as client:
        client.call(protocol.ListGroupsRequest(), broker=1)
        (principal,) = {each.principal for each in kafka.requests("ListGroups")}
    assert principal == "User:CN=client,O=kafwire test cluster"


# --- refused clients


@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_a_wrong_password_is_refused(
    secured: EmbeddedKafka, java_client: JavaClient, topic_name: str, listener: str, mechanism: str
) -> None:
    made = options(secured, "admin", mechanism, listener, sasl_password="wrong")
    with pytest.raises(AuthenticationError), kafwire.Client(**made) as client:
        client.topic(topic_name)
    wrong = librdkafka(secured, "admin", mechanism, listener, **{"sasl.password": "wrong"})
    assert is_refused(wrong, KafkaError._AUTHENTICATION)
    in_java = java(secured, "admin", mechanism, listener)
    in_java["sasl.jaas.config"] = in_java["sasl.jaas.config"].replace("admin-secret", "wrong")
    with pytest.raises(RuntimeError, match="SaslAuthenticationException"):
        java_client.produce(topic=topic_name, records=[Written(0, 1, None, b"x", ())], **in_java)


@pytest.mark.parametrize(
    "listener",
    [
        Security(mechanisms=["OAUTHBEARER"]),
        Security(properties={"ssl.cipher.suites": "x"}),
        Security(properties={"ssl.enabled.protocols": "SSLv3"}),
        Security(properties={"ssl.principal.mapping.rules": "RULE"}),
    ],
)
def test_security_that_this_broker_lacks_is_refused(listener: Security) -> None:
    with pytest.raises(ValueError, match=r"EmbeddedKafka has no|versions of TLS|invalid rules"):
        EmbeddedKafka(security=listener)


# --- re-authentication under load


class Sessions:
    """How often the connections that write have authenticated."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._times: Counter[int] = Counter()
        self.writers: set[int] = set()
        kafka.ask(lambda state: state.requests.watchers.append(self._on_request))

    def _on_request(self, seen: SeenRequest) -> None:
        if seen.api == "SaslHandshake":
            self._times[seen.connection] += 1
        elif seen.api == "Produce":
            self.writers.add(seen.connection)

    def are_renewed(self) -> bool:
        """True if one that writes has authenticated twice again."""
        return any(self._times[each] >= 3 for each in list(self.writers))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafwire_authenticates_again_while_it_writes(topic_name: str, mechanism: str) -> None:
    listener = Security(users=USERS, connections_max_reauth_ms=1500)
    with EmbeddedKafka(security=listener) as kafka:
        sessions = Sessions(kafka)
        made = options(kafka, "alice", mechanism, "SASL_SSL")
        ends = time.monotonic() + 30
        with kafwire.Producer(**made, linger_ms=0) as producer:
            sent = []
            while not sessions.are_renewed():
                assert time.monotonic() < ends
                sent += [producer.send(topic_name, b"x" * 1000) for _ in range(50)]
                sent[-1].result(timeout=30)
            for each in sent:
                each.result(timeout=30)
        assert len(kafka.records(topic_name)) == len(sent)
        assert len(sessions.writers) == 1


def test_librdkafka_authenticates_again_while_it_writes(topic_name: str) -> None:
    listener = Security(users=USERS, connections_max_reauth_ms=1500)
    with EmbeddedKafka(security=listener) as kafka:
        sessions = Sessions(kafka)
        producer = Producer(librdkafka(kafka, "alice", "SCRAM-SHA-256", "SASL_SSL", **{"linger.ms": 1}))
        failed: list[KafkaError] = []
        count, ends = 0, time.monotonic() + 30
        while not sessions.are_renewed():
            assert time.monotonic() < ends
            producer.produce(topic_name, b"x", on_delivery=lambda error, _: failed.append(error) if error else None)
            count += 1
            producer.poll(0.001)
        assert producer.flush(30) == 0
        assert not failed
        assert len(kafka.records(topic_name)) == count


@pytest.mark.parametrize("security", ["None", "'SASL_PLAINTEXT'"])
def test_neither_pytest_nor_hypothesis_is_imported_and_cryptography_only_for_tls(security: str) -> None:
    program = f"""
import sys
from kafwire.testing import EmbeddedKafka
with EmbeddedKafka(security={security}) as kafka:
    kafka.bootstrap
print([name for name in ("pytest", "hypothesis", "trustme", "cryptography") if name in sys.modules])
"""
    response = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert response.stdout.strip() == "[]"


def test_private_keys_are_gone_with_the_broker() -> None:
    with EmbeddedKafka(security="SSL") as kafka:
        folder = kafka.security.certificates.folder
        assert kafka.security.certificates.server_pem.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    assert not [each for each in threading.enumerate() if each.name == "kafwire broker" and not each.is_alive()]
