"""The options of clients of a secured listener, in three dialects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafwire.broker.security.certificates import Certificates
from kafwire.broker.security.client_options import DIALECTS, client_options
from kafwire.broker.security.security import Security

FILES = Certificates(Path("/s"))


def options(listener: Security, **asked: Any) -> dict[str, str]:
    given = {"user": None, "mechanism": None, "dialect": "kafwire"} | asked
    made = client_options(listener, FILES, "localhost:1", **given)
    assert made.pop("bootstrap.servers") == "localhost:1"
    assert made.pop("security.protocol") == listener.protocol
    return made


def test_kafwire_and_librdkafka_are_spelled_alike() -> None:
    asked = {"user": "alice", "mechanism": "SCRAM-SHA-512"}
    assert options(Security(), **asked) == options(Security(), **asked, dialect="librdkafka")
    assert options(Security(), **asked) == {
        "ssl.ca.location": "/s/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }


def test_java_has_stores_and_a_jaas_text() -> None:
    made = options(Security(users={"a": 'q"'}), dialect="java")
    assert made == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/s/ca.pem",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' "username"="a" "password"="q\\"";',
    }
    assert (
        "scram.ScramLoginModule" in options(Security(), mechanism="SCRAM-SHA-256", dialect="java")["sasl.jaas.config"]
    )


def test_a_client_has_a_certificate_where_it_is_required() -> None:
    assert set(options(Security("SSL"))) == {"ssl.ca.location"}
    mutual = Security("SSL", client_auth="required")
    made = options(mutual)
    assert made["ssl.certificate.location"] == "/s/client-certificate.pem"
    assert made["ssl.key.location"] == "/s/client-key.pem"
    assert options(mutual, dialect="java")["ssl.keystore.location"] == "/s/client.pem"


def test_without_tls_there_are_no_certificates() -> None:
    for dialect in DIALECTS:
        assert not [key for key in options(Security("SASL_PLAINTEXT"), dialect=dialect) if key.startswith("ssl.")]


def test_a_token_comes_from_a_function_or_from_java_s_file() -> None:
    listener = Security(mechanisms=["OAUTHBEARER"])
    assert options(listener)["sasl.mechanism"] == "OAUTHBEARER"
    assert not [key for key in options(listener) if "password" in key or "username" in key]
    made = options(listener, dialect="java", token_file=Path("/s/token"))
    assert made["sasl.oauthbearer.token.endpoint.url"] == "file:///s/token"


def test_a_ticket_is_for_the_broker_s_service() -> None:
    listener = Security(mechanisms=["GSSAPI"], keytab=Path("/k"), krb5_conf=Path("/c"), principal="broker/localhost@T")
    for dialect in DIALECTS:
        assert options(listener, dialect=dialect)["sasl.kerberos.service.name"] == "broker"


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"dialect": "aiokafka"}, "dialect is one of"),
        ({"mechanism": "GSSAPI"}, "has no mechanism 'GSSAPI'"),
        ({"user": "bob"}, "has no user 'bob'"),
    ],
)
def test_an_error_names_the_missing_part_of_a_listener(asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        options(Security(), **asked)
