"""The broker properties of secured listeners."""

from __future__ import annotations

from pathlib import Path

from kafwire.broker.security.listener_properties import (
    BrokerFiles,
    jaas_entry,
    jvm_options,
    listener_properties,
    secret_properties,
)
from kafwire.broker.security.security import Security

FILES = BrokerFiles(Path("/s/server.pem"), Path("/s/ca.pem"), Path("/s/jwks.json"))


def properties(*listeners: Security) -> dict[str, str]:
    ports = {listener.name: 100 + n for n, listener in enumerate(listeners)}
    return listener_properties(listeners, ports, {name: port + 50 for name, port in ports.items()}, FILES)


def test_listeners_are_bound_here_and_advertised_where_clients_find_them() -> None:
    made = properties(Security("SSL"), Security("SASL_SSL", host="localhost"))
    assert made["listeners"] == "SSL://127.0.0.1:100,SASL_SSL://127.0.0.1:101"
    assert made["advertised.listeners"] == "SSL://127.0.0.1:150,SASL_SSL://localhost:151"
    assert made["listener.security.protocol.map"] == "SSL:SSL,SASL_SSL:SASL_SSL"


def test_tls_has_pem_files_and_asks_for_certificates_if_it_should() -> None:
    made = properties(Security("SSL"), Security("SSL", client_auth="required", server_pem=Path("/other.pem")))
    assert made["listener.name.ssl.ssl.client.auth"] == "none"
    assert made["listener.name.ssl.ssl.keystore.location"] == "/s/server.pem"
    assert made["listener.name.ssl_mtls.ssl.client.auth"] == "required"
    assert made["listener.name.ssl_mtls.ssl.keystore.location"] == "/other.pem"
    assert made["listener.name.ssl_mtls.ssl.truststore.location"] == "/s/ca.pem"


def test_without_tls_there_are_no_certificates() -> None:
    assert not [key for key in properties(Security("SASL_PLAINTEXT")) if ".ssl." in key]


def test_sasl_names_mechanisms_and_how_long_they_last() -> None:
    made = properties(Security(mechanisms=["plain", "scram-sha-512"], connections_max_reauth_ms=500))
    assert made["listener.name.sasl_ssl.sasl.enabled.mechanisms"] == "PLAIN,SCRAM-SHA-512"
    assert made["listener.name.sasl_ssl.connections.max.reauth.ms"] == "500"
    assert "ScramLoginModule" in made["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"]


def test_nodes_and_superusers_need_no_acls() -> None:
    made = properties(Security("SSL"), Security(acls=True, superusers=["admin", "root"]))
    assert made["super.users"] == "User:ANONYMOUS;User:admin;User:root"
    assert "super.users" not in properties(Security())


def test_tokens_are_checked_with_a_file_that_the_jvm_may_read() -> None:
    listener = Security(mechanisms=["OAUTHBEARER"], oauth_audience=None)
    made = properties(listener)
    assert made["listener.name.sasl_ssl.sasl.oauthbearer.jwks.endpoint.url"] == "file:///s/jwks.json"
    assert made["listener.name.sasl_ssl.sasl.oauthbearer.expected.issuer"] == "https://issuer.test"
    assert "listener.name.sasl_ssl.sasl.oauthbearer.expected.audience" not in made
    assert jvm_options([listener, Security("SSL")], FILES) == [
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file:///s/jwks.json",
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=/s/jwks.json",
    ]


def test_a_broker_accepts_by_its_keytab() -> None:
    listener = Security(
        mechanisms=["GSSAPI"], keytab=Path("/k"), krb5_conf=Path("/c"), principal="kafka/localhost@TEST"
    )
    made = properties(listener)
    login = made["listener.name.sasl_ssl.gssapi.sasl.jaas.config"]
    assert 'keyTab"="/k"' in login
    assert 'principal"="kafka/localhost@TEST"' in login
    assert made["listener.name.sasl_ssl.sasl.kerberos.service.name"] == "kafka"
    assert jvm_options([listener], FILES) == ["-Djava.security.krb5.conf=/c"]


def test_passwords_and_the_key_of_tokens_are_apart() -> None:
    listener = Security(users={"alice": "canary"}, delegation_tokens=True)
    assert "canary" not in repr(properties(listener))
    made = secret_properties([listener, Security("SSL")], "token-key")
    assert made["delegation.token.secret.key"] == "token-key"
    assert '"user_alice"="canary"' in made["listener.name.sasl_ssl.plain.sasl.jaas.config"]


def test_quotes_in_a_jaas_text_are_escaped() -> None:
    assert jaas_entry("M", {"a": '"\\\n;'}) == 'M required "a"="\\"\\\\\\n;";'


def test_further_properties_override() -> None:
    made = properties(Security("SSL", properties={"ssl.client.auth": "requested", "a.b": True}))
    assert made["listener.name.ssl.ssl.client.auth"] == "requested"
    assert made["listener.name.ssl.a.b"] == "true"
