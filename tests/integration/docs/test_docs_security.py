"""The configurations of docs/operate/security.md connect: kafwire's, librdkafka's and Java's, on one cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import kafwire
from kafwire.testing import KafkaCluster, Security
from tests.support.certificates import Authority
from tests.support.doc_blocks import BLOCK, ROOT
from tests.support.java.client import JavaClient
from tests.support.token_server import Response, TokenServer

TEXT = (ROOT / "docs" / "operate" / "security.md").read_text()
SECTIONS = ("TLS", "TLS with a client certificate", "SCRAM", "PLAIN", "OAUTHBEARER")
MECHANISMS = ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"]


def section(title: str) -> str:
    return TEXT.split(f"\n### {title}\n", 1)[1].split("\n## ")[0].split("\n### ")[0]


class Place:
    """A cluster, and what stands for the page's names on it."""

    def __init__(self, cluster: KafkaCluster, tokens: TokenServer, folder: Path) -> None:
        self.cluster, self.tokens = cluster, tokens
        files = cluster.security.certificates
        identity = Authority.of(files).issue(name="alice")
        written = identity.write(folder, "client", password="key-password")
        store = folder / "client.p12"
        store.write_bytes(identity.pkcs12("key-password"))
        self.token_file = folder / "token.jwt"
        self.token_file.write_text(cluster.security.token("alice"))
        self.names = {
            "broker:9093": cluster.bootstrap_of("SSL"),
            "broker:9094": cluster.bootstrap_of("SSL_MTLS"),
            "broker:9095": cluster.bootstrap_of("SASL_SSL"),
            "/etc/kafka/ca.pem": str(files.ca_pem),
            "/etc/kafka/client.pem": str(written.certificate),
            "/etc/kafka/client-key.pem": str(written.key),
            "/etc/kafka/client.p12": str(store),
            "/etc/kafka/issuer-ca.pem": str(tokens.ca_file),
            "file:///etc/kafka/token.jwt": self.token_file.as_uri(),
            "https://issuer.example/oauth2/token": tokens.url,
        }

    def block(self, title: str, dialect: str) -> str:
        """The only block of one client in a section, with this cluster's names."""
        found = [
            text for language, text in BLOCK.findall(section(title)) if dialect in (language, text.split("\n")[0][2:])
        ]
        assert len(found) == 1
        text: str = found[0]
        for name, real in self.names.items():
            text = text.replace(name, real)
        assert "/etc/kafka" not in text
        assert "broker:" not in text
        response = {"access_token": self.cluster.security.token("alice"), "token_type": "Bearer", "expires_in": 300}
        self.tokens.responses.append(Response(body=json.dumps(response).encode()))
        return text

    def properties(self, title: str, dialect: str) -> dict[str, str]:
        lines = [line for line in self.block(title, dialect).splitlines() if not line.startswith("#")]
        return {name: value for name, _, value in (line.partition("=") for line in lines)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("docs")
    listeners = [
        Security("SSL"),
        Security("SSL", client_auth="required"),
        Security("SASL_SSL", MECHANISMS, users={"alice": "swordfish"}),
    ]
    with (
        KafkaCluster(security=listeners, properties={"auto.create.topics.enable": True}) as cluster,
        TokenServer(folder) as tokens,
    ):
        with kafwire.Producer(cluster.bootstrap_of("SSL"), **tls(cluster)) as producer:
            producer.send("flights", b"EWR-IAH").result(timeout=30)
        yield Place(cluster, tokens, folder)


def tls(cluster: KafkaCluster) -> dict[str, Any]:
    return {"security_protocol": "SSL", "ssl_ca_location": str(cluster.security.certificates.ca_pem)}


@pytest.mark.parametrize("title", SECTIONS)
def test_kafwires(place: Place, title: str) -> None:
    scope: dict[str, Any] = {}
    exec(place.block(title, "python"), scope)
    with kafwire.Client(**scope["options"]) as client:
        assert client.partitions_for("flights")


# A token endpoint that is a file is Java's own.
@pytest.mark.parametrize(
    ("title", "dialect"),
    [
        (title, dialect)
        for title in SECTIONS
        for dialect in ("librdkafka", "Java")
        if (title, dialect) != ("OAUTHBEARER", "Java")
    ],
)
def test_kafwire_by_the_configuration_of_others(place: Place, title: str, dialect: str) -> None:
    with kafwire.Client.from_config(place.properties(title, dialect)) as client:
        assert client.partitions_for("flights")


@pytest.mark.parametrize("title", SECTIONS)
def test_librdkafkas(place: Place, title: str) -> None:
    options: Any = place.properties(title, "librdkafka")
    client = AdminClient(options)
    if title == "OAUTHBEARER":
        client.poll(5)  # it fetches its token
    assert "flights" in client.list_topics(timeout=30).topics


@pytest.fixture(scope="module")
def java(place: Place) -> Iterator[JavaClient]:
    prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    allowed = [f"{prefix}.urls={place.token_file.as_uri()}", f"{prefix}.files={place.token_file}"]
    with JavaClient(jvm_options=allowed) as client:
        yield client


@pytest.mark.parametrize("title", SECTIONS)
def test_javas(place: Place, java: JavaClient, title: str) -> None:
    config: Mapping[str, object] = place.properties(title, "Java")
    bootstrap = str(config["bootstrap.servers"])
    seen = java.consume(bootstrap, "flights", **config)
    assert [record.value for record in seen] == [b"EWR-IAH"]
