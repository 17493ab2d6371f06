"""Clients of kafwire on every kind of secured listener of a real broker, and what becomes of wrong ones."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafwire
from kafwire.errors import AuthenticationError, KafkaConnectionError
from kafwire.testing import KafkaCluster, Security
from tests.support.certificates import Authority, of_unknown_ca
from tests.support.deadlines import ended
from tests.support.real_topics import committed_at

# SASLprep would change each of these.
PASSWORD = "a\u00ad\ufb01\uff21 😀=,;'\"\\ "
USERS = {"admin": "admin-secret", "alice": PASSWORD}
REAUTH_MS = 5000  # of which a busy machine has a twentieth at least to authenticate again
LISTENERS = [
    Security(mechanisms=["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"], users=USERS),
    Security("SASL_PLAINTEXT", users=USERS),
    Security("SASL_SSL", users=USERS, name="SHORT", connections_max_reauth_ms=REAUTH_MS),
    Security("SSL"),
    Security("SSL", client_auth="required"),
    Security("SSL", name="TLS_1_2", properties={"ssl.enabled.protocols": "TLSv1.2"}),
]
WAYS: list[tuple[str, str | None]] = [
    (listener.name, mechanism) for listener in LISTENERS for mechanism in (listener.mechanisms or (None,))
]


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    """One node with all kinds of listeners."""
    with KafkaCluster(security=LISTENERS, properties={"auto.create.topics.enable": True}) as running:
        yield running


@pytest.fixture(params=["native", "python"])
def tls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The implementation of TLS: OpenSSL in the I/O thread, or Python's module ssl."""
    if request.param == "python":
        monkeypatch.setenv("KAFWIRE_TLS", "python")
    return str(request.param)


def options(
    cluster: KafkaCluster, listener: str, mechanism: str | None = None, user: str = "admin", **more: Any
) -> dict[str, Any]:
    """A client's options, as keyword arguments."""
    made: dict[str, Any] = cluster.client_options(user, mechanism, listener=listener)
    if mechanism == "OAUTHBEARER":
        made["sasl.oauthbearer.token.provider"] = lambda: cluster.security.token(user)
    return {name.replace(".", "_"): value for name, value in made.items()} | more


def values(batches: list[kafwire.Batch]) -> list[bytes | None]:
    return [record.value for batch in batches for record in batch]


def read(made: dict[str, Any], topic: str) -> list[bytes | None]:
    others = {name: value for name, value in made.items() if name != "bootstrap_servers"}
    return values(list(kafwire.scan(made["bootstrap_servers"], topic, **others).batches()))


@pytest.mark.usefixtures("tls")
@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_records_there_and_back(secured: KafkaCluster, topic_name: str, listener: str, mechanism: str | None) -> None:
    made = options(secured, listener, mechanism)
    with kafwire.Producer(**made, transactional_id=topic_name) as producer, producer.transaction():
        for value in (b"a", b"b" * 100_000):
            producer.send(topic_name, value)
    with kafwire.Consumer(**made, auto_offset_reset="earliest", group_id=topic_name) as consumer:
        consumer.assign([kafwire.TopicPartition(topic_name, 0)])
        found: list[bytes | None] = []
        while len(found) < 2:
            found += values(consumer.poll(timeout=30))
        consumer.commit()
    assert found == read(made, topic_name) == [b"a", b"b" * 100_000]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_any_password_is_taken_as_it_is(secured: KafkaCluster, mechanism: str) -> None:
    with kafwire.Client(**options(secured, "SASL_SSL", mechanism, "alice")) as client:
        assert client.metadata().brokers


def wrong(made: dict[str, Any]) -> list[tuple[str, Callable[[], object]]]:
    """The first call of each kind of client that asks a broker."""

    def send() -> None:
        with kafwire.Producer(**made) as producer:
            producer.send("t", b"x").result(timeout=30)

    def poll() -> None:
        with kafwire.Consumer(**made) as consumer:
            consumer.assign([kafwire.TopicPartition("t", 0)])
            consumer.poll(timeout=30)

    def describe() -> None:
        with kafwire.Client(**made) as client:
            client.metadata()

    async def send_async() -> None:
        async with kafwire.AsyncProducer(**made) as producer:
            await (await producer.send("t", b"x"))

    return [
        ("producer", send),
        ("consumer", poll),
        ("client", describe),
        ("scan", lambda: read(made, "t")),
        ("transactions", lambda: kafwire.Producer(**made, transactional_id="t").init_transactions()),
        ("async", lambda: asyncio.run(send_async())),
    ]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_a_refusal_surfaces_at_once_in_every_client(secured: KafkaCluster, mechanism: str) -> None:
    made = options(secured, "SASL_SSL", mechanism)
    if mechanism == "OAUTHBEARER":
        made["sasl_oauthbearer_token_provider"] = lambda: secured.security.token("admin", aud="others")
    else:
        made["sasl_password"] = "hunter2"
    for what, ask in wrong(made):
        began = time.monotonic()
        with pytest.raises(AuthenticationError, match=rf"refused .* by {mechanism}") as caught:
            ask()
        assert "hunter2" not in str(caught.value)
        assert time.monotonic() - began < 5, what


def test_a_mechanism_that_is_not_offered(secured: KafkaCluster) -> None:
    made = options(secured, "SASL_PLAINTEXT", "PLAIN") | {"sasl_mechanism": "OAUTHBEARER"}
    del made["sasl_username"], made["sasl_password"]
    with (
        kafwire.Client(**made, sasl_oauthbearer_token_provider=lambda: "x") as client,
        pytest.raises(AuthenticationError, match=r"does not offer sasl_mechanism=OAUTHBEARER .* it offers PLAIN,"),
    ):
        client.metadata()


@pytest.mark.usefixtures("tls")
def test_a_certificate_that_the_broker_does_not_know(secured: KafkaCluster, tmp_path: Any) -> None:
    written = of_unknown_ca().write(tmp_path, "client")
    made = options(secured, "SSL_MTLS")
    for client in (
        {},
        {"ssl_certificate_location": str(written.certificate), "ssl_key_location": str(written.key)},
    ):
        bare = {k: v for k, v in made.items() if k not in ("ssl_certificate_location", "ssl_key_location")} | client
        with kafwire.Client(**bare) as asking, pytest.raises(AuthenticationError, match="certificate"):
            asking.metadata()


@pytest.mark.usefixtures("tls")
def test_a_broker_whose_certificate_is_not_trusted(secured: KafkaCluster) -> None:
    made = options(secured, "SASL_SSL", "PLAIN")
    del made["ssl_ca_location"]
    for what, ask in wrong(made | {"ssl_ca_pem": Authority.new().pem.decode()}):
        began = time.monotonic()
        with pytest.raises(AuthenticationError, match="the certificate of the broker is not accepted"):
            ask()
        assert time.monotonic() - began < 5, what


@pytest.mark.usefixtures("tls")
@pytest.mark.parametrize(
    ("spoken", "listener", "advice"),
    [
        ("PLAINTEXT", "SSL", "set security_protocol=SSL"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "set security_protocol to SASL_PLAINTEXT"),
        ("SSL", "SASL_PLAINTEXT", "set security_protocol to PLAINTEXT or SASL_PLAINTEXT"),
        ("SSL", "SASL_SSL", "set security_protocol to SASL_SSL"),
        ("SSL", "PLAINTEXT", "set security_protocol to PLAINTEXT or SASL_PLAINTEXT"),
        ("SASL_SSL", "PLAINTEXT", "set security_protocol to PLAINTEXT or SASL_PLAINTEXT"),
        ("PLAINTEXT", "SASL_SSL", "set security_protocol=SSL, or SASL_SSL"),
        ("SASL_PLAINTEXT", "SASL_SSL", "set security_protocol=SSL, or SASL_SSL"),
    ],
)
def test_the_wrong_protocol_is_recognised(secured: KafkaCluster, spoken: str, listener: str, advice: str) -> None:
    made: dict[str, Any] = (
        {} if spoken == "PLAINTEXT" else options(secured, spoken, "PLAIN" if "SASL" in spoken else None)
    )
    made["bootstrap_servers"] = secured.direct if listener == "PLAINTEXT" else secured.bootstrap_of(listener)
    with (
        kafwire.Client(**made, default_api_timeout_ms=2000) as client,
        pytest.raises(KafkaConnectionError, match=advice),
    ):
        client.metadata()


def test_sasl_where_none_is_expected(secured: KafkaCluster) -> None:
    made = options(secured, "SASL_SSL", "PLAIN") | {"bootstrap_servers": secured.bootstrap_of("SSL")}
    with kafwire.Client(**made) as client, pytest.raises(AuthenticationError, match="expects no SASL"):
        client.metadata()


@pytest.mark.usefixtures("tls")
@pytest.mark.parametrize(
    ("tls", "mechanism"),
    [
        ("native", "SCRAM-SHA-256"),
        ("python", "PLAIN"),
        pytest.param("native", "PLAIN", marks=pytest.mark.long),
        pytest.param("python", "SCRAM-SHA-256", marks=pytest.mark.long),
    ],
    indirect=["tls"],
)
def test_authenticating_again_loses_and_delays_nothing(secured: KafkaCluster, topic_name: str, mechanism: str) -> None:
    """Under load, over two and a half lifetimes of the session (KIP-368)."""
    made = options(secured, "SHORT", mechanism)
    sent = threading.Event()
    read_back: list[bytes | None] = []
    slowest = 0.0
    with kafwire.Producer(**made, linger_ms=0) as producer, kafwire.Consumer(**made) as consumer:
        producer.send(topic_name, b"0").result(timeout=30)
        consumer.assign([kafwire.TopicPartition(topic_name, 0)])
        consumer.seek(kafwire.TopicPartition(topic_name, 0), 0)
        count = [0]

        def read_along() -> None:
            while not sent.is_set() or len(read_back) < count[0]:
                read_back.extend(values(consumer.poll(timeout=0.5)))

        reader = threading.Thread(target=read_along, name="reader")
        reader.start()
        count[0] = 1
        until_s = time.monotonic() + 2.5 * REAUTH_MS / 1000
        while time.monotonic() < until_s:
            began = time.monotonic()
            producer.send(topic_name, str(count[0]).encode()).result(timeout=30)
            slowest = max(slowest, time.monotonic() - began)
            count[0] += 1
        sent.set()
        ended(reader)
        connections = producer.metrics()["connections"]
        connects = [connection["connects"] for connection in connections]
        produces = [connection for connection in connections if connection["role"] == "produce"]
    assert read_back == [str(number).encode() for number in range(count[0])]
    assert max(connects) == 1, "a connection was lost"
    assert produces[0]["authentications"] >= 3, "at first, and again in each lifetime of the session"
    assert slowest < 1.0


def test_a_transaction_goes_on_while_its_connections_authenticate_again(secured: KafkaCluster, topic_name: str) -> None:
    made = options(secured, "SHORT", "SCRAM-SHA-512")
    with kafwire.Producer(**made, transactional_id=topic_name) as producer, producer.transaction():
        until_s = time.monotonic() + 1.5 * REAUTH_MS / 1000
        count = 0
        while time.monotonic() < until_s:
            producer.send(topic_name, str(count).encode())
            count += 1
            if count % 100 == 0:
                producer.flush()
        connections = producer.metrics()["connections"]
        produces = [connection for connection in connections if connection["role"] == "produce"]
    # A busy machine renews a session too late, and the broker closes the connection.
    assert produces[0]["authentications"] > produces[0]["connects"], "the connection authenticated again"
    others = {name: value for name, value in made.items() if name != "bootstrap_servers"}
    found = committed_at(made["bootstrap_servers"], topic_name, **others)
    assert found == sorted(str(n).encode() for n in range(count))
