"""Clients of kafwire that log in by Kerberos, to a broker and a KDC of this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.errors import AuthenticationError
from kafwire.testing import KafkaCluster, Security
from tests.support import kerberos
from tests.support.doc_blocks import BLOCK, ROOT
from tests.support.java.client import JavaClient
from tests.support.socket_server import SocketServer

kerberos.needed()

REAUTH_MS = 1500


@pytest.fixture(scope="module")
def kdc() -> Iterator[kerberos.Kdc]:
    with kerberos.Kdc() as running:
        yield running


@pytest.fixture(scope="module")
def secured(kdc: kerberos.Kdc) -> Iterator[KafkaCluster]:
    listener = Security(
        "SASL_SSL",
        ["GSSAPI"],
        keytab=kdc.keytab(kdc.service()),
        krb5_conf=kdc.krb5_conf,
        principal=kdc.service(),
        connections_max_reauth_ms=REAUTH_MS,
    )
    with KafkaCluster(security=listener, properties={"auto.create.topics.enable": True}) as running:
        yield running


def options(cluster: KafkaCluster, **more: Any) -> dict[str, Any]:
    certificates = cluster.security.certificates
    return {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_ca_location": str(certificates.ca_pem),
        "sasl_mechanism": "GSSAPI",
        **more,
    }


def test_with_a_keytab_and_again_and_again(secured: KafkaCluster, kdc: kerberos.Kdc, topic_name: str) -> None:
    made = options(secured, sasl_kerberos_principal="bob", sasl_kerberos_keytab=str(kdc.keytab("bob")))
    with kdc.entered(), kafwire.Producer(**made, linger_ms=0) as producer:
        until_s = time.monotonic() + 2.5 * REAUTH_MS / 1000
        while time.monotonic() < until_s:
            producer.send(topic_name, b"more").result(timeout=30)
        assert max(connection["connects"] for connection in producer.metrics()["connections"]) == 1


def test_with_tickets_of_the_cache(secured: KafkaCluster, kdc: kerberos.Kdc) -> None:
    kdc.principal("alice", "wonderland")
    tickets = kdc.kinit("alice", "wonderland")
    with kdc.entered(KRB5CCNAME=f"FILE:{tickets}"), kafwire.Client(**options(secured)) as client:
        assert client.metadata().brokers


def test_without_a_ticket(secured: KafkaCluster, kdc: kerberos.Kdc) -> None:
    with (
        kdc.entered(KRB5CCNAME=f"FILE:{kdc.folder}/none"),
        kafwire.Client(**options(secured)) as client,
        pytest.raises(AuthenticationError, match="(?i)credential"),
    ):
        client.metadata()


def test_an_unknown_service(secured: KafkaCluster, kdc: kerberos.Kdc) -> None:
    made = options(
        secured,
        sasl_kerberos_principal="bob",
        sasl_kerberos_keytab=str(kdc.keytab("bob")),
        sasl_kerberos_service_name="zookeeper",
    )
    with kdc.entered(), kafwire.Client(**made) as client, pytest.raises(AuthenticationError, match="(?i)not found"):
        client.metadata()


def test_a_kdc_that_hangs(secured: KafkaCluster, kdc: kerberos.Kdc, tmp_path: Path) -> None:
    """The KDC takes the connection and says nothing, for which Kerberos' libraries wait longer than any user."""

    def hang(connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    made = options(secured, sasl_kerberos_principal="bob", sasl_kerberos_keytab=str(kdc.keytab("bob")))
    with SocketServer(hang) as silent:
        conf = tmp_path / "krb5.conf"
        conf.write_text(kdc.krb5_conf.read_text().replace(f"kdc = 127.0.0.1:{kdc.port}", f"kdc = {silent.address}"))
        with (
            kdc.entered(KRB5_CONFIG=str(conf)),
            kafwire.Client(**made, socket_connection_setup_timeout_ms=500) as client,
        ):
            began = time.monotonic()
            with pytest.raises(AuthenticationError, match=r"Kerberos \(its KDC, .* did not respond within socket_conn"):
                client.metadata()
            assert time.monotonic() - began < 5


def documented(secured: KafkaCluster, kdc: kerberos.Kdc, dialect: str) -> str:
    """One client's configuration of docs/operate/security.md, with the names of this cluster."""
    page = (ROOT / "docs" / "operate" / "security.md").read_text()
    section = page.split("\n### GSSAPI\n", 1)[1].split("\n## ")[0]
    (text,) = [text for language, text in BLOCK.findall(section) if dialect in (language, text.split("\n")[0][2:])]
    names = {
        "broker:9095": secured.bootstrap,
        "/etc/kafka/ca.pem": str(secured.security.certificates.ca_pem),
        "/etc/kafka/alice.keytab": str(kdc.keytab("alice")),
    }
    for name, real in names.items():
        assert name in text
        text = text.replace(name, real)
    return str(text)


def properties(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_the_documented_options(secured: KafkaCluster, kdc: kerberos.Kdc) -> None:
    scope: dict[str, Any] = {}
    exec(documented(secured, kdc, "python"), scope)
    with kdc.entered(), kafwire.Client(**scope["options"]) as client:
        assert client.metadata().brokers


@pytest.mark.parametrize("dialect", ["librdkafka", "Java"])
def test_the_documented_properties_of_others(secured: KafkaCluster, kdc: kerberos.Kdc, dialect: str) -> None:
    with kdc.entered(), kafwire.Client.from_config(properties(documented(secured, kdc, dialect))) as client:
        assert client.metadata().brokers


def test_java_by_its_documented_properties(secured: KafkaCluster, kdc: kerberos.Kdc, topic_name: str) -> None:
    config = properties(documented(secured, kdc, "Java"))
    with kafwire.Producer(secured.direct) as producer:
        producer.send(topic_name, b"by Kerberos").result(timeout=30)
    with JavaClient(jvm_options=[f"-Djava.security.krb5.conf={kdc.krb5_conf}"]) as java:
        seen = java.consume(config["bootstrap.servers"], topic_name, **config)
    assert [record.value for record in seen] == [b"by Kerberos"]


def test_librdkafkas_wheels_have_no_gssapi(secured: KafkaCluster, kdc: kerberos.Kdc) -> None:
    """The documentation says so; where this fails, its block can be tried with librdkafka itself."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    made: Any = properties(documented(secured, kdc, "librdkafka"))
    with pytest.raises(confluent_kafka.KafkaException, match="No provider for SASL mechanism GSSAPI"):
        confluent_kafka.Producer(made)
