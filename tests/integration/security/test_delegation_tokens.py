"""Delegation tokens (KIP-48), real and embedded: made, used, renewed and ended by kafwire, and used by Java."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.errors import AuthenticationError, AuthorizationError, BrokerError
from kafwire.testing import EmbeddedKafka, KafkaCluster, Security
from tests.support.acls import Cluster, Operation, Resource, allow, deny, forget
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.deadlines import until
from tests.support.doc_blocks import blocks, run_python
from tests.support.java.client import JavaClient, Written

USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
LISTENERS = [
    Security(
        "SASL_PLAINTEXT",
        ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
        users=USERS,
        acls=True,
        superusers=["admin"],
        delegation_tokens=True,
    ),
    Security("SSL"),
]
HOUR_MS = 3_600_000
SOON_S = 10.0


@pytest.fixture(scope="module", params=["kafka", "embedded"])
def secured(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A node that gives tokens out, and on which alice may write to every topic."""
    made: Any
    if request.param == "embedded":
        made = EmbeddedKafka(security=LISTENERS, plain=True)
    else:
        made = KafkaCluster(security=LISTENERS, properties={"auto.create.topics.enable": True})
    with made as running:
        allow(running, "alice", Operation.ALL, Resource.TOPIC, "*")
        yield running


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as it:
        yield it


def options(cluster: Cluster, user: str = "alice", mechanism: str = "SCRAM-SHA-256", **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = cluster.client_options(user, mechanism, listener="SASL_PLAINTEXT")
    return {name.replace(".", "_"): value for name, value in made.items()} | more


def by_token(cluster: Cluster, token: kafwire.DelegationToken, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    """Options by which a client authenticates with a token."""
    return options(
        cluster,
        mechanism=mechanism,
        sasl_username=token.token_id,
        sasl_password=token.hmac,
        sasl_tokenauth=True,
    )


def known(cluster: Cluster, token: kafwire.DelegationToken) -> None:
    """Return when the broker takes the token: it learns of it when its maker has it already."""

    def is_taken() -> bool:
        try:
            with kafwire.Client(**by_token(cluster, token)) as client:
                return bool(client.metadata([]).brokers)
        except AuthenticationError:
            return False

    until(is_taken, "the token known to the broker", seconds=SOON_S)


def made_by(cluster: Cluster, user: str = "alice", **asked: Any) -> kafwire.DelegationToken:
    """A token that the broker knows."""
    with kafwire.Client(**options(cluster, user)) as client:
        token = client.create_delegation_token(**asked)
    known(cluster, token)
    return token


def test_a_token_from_its_making_to_its_end(secured: Cluster, flavour: Flavour) -> None:
    now_ms = time.time() * 1000
    made = options(secured)
    with flavour.client(made.pop("bootstrap_servers"), **made) as client:
        token = client.create_delegation_token(["bob", "User:admin"], max_lifetime_ms=HOUR_MS)
        assert (token.owner, token.requester) == ("User:alice", "User:alice")
        assert token.renewers == ("User:bob", "User:admin")
        assert abs(token.issued_at_ms - now_ms) < 60_000
        assert token.max_at_ms == token.issued_at_ms + HOUR_MS
        assert token.issued_at_ms < token.expires_at_ms <= token.max_at_ms
        until(lambda: token.token_id in {each.token_id for each in client.describe_delegation_tokens()}, seconds=SOON_S)
        (seen,) = [each for each in client.describe_delegation_tokens(["alice"]) if each.token_id == token.token_id]
        assert seen == token
        # Brokers count principals that may renew it among its owners here.
        assert token in client.describe_delegation_tokens(["User:bob"])
        assert token not in client.describe_delegation_tokens(["User:carol"])
        assert client.describe_delegation_tokens([]) == []
        known(secured, token)
        soon = client.expire_delegation_token(token.hmac, HOUR_MS // 2)
        assert token.issued_at_ms < soon < token.max_at_ms
        assert client.renew_delegation_token(token.hmac) == token.max_at_ms
        client.expire_delegation_token(token.hmac)
        # To renew it before the controller has learnt of its end would bring it to life again.
        until(lambda: token.token_id not in {each.token_id for each in client.describe_delegation_tokens()}, "its end")
        with pytest.raises(BrokerError, match=r"DELEGATION_TOKEN_NOT_FOUND.*renewing a delegation token"):
            client.renew_delegation_token(token.hmac)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_records_by_a_token(secured: Cluster, topic_name: str, mechanism: str) -> None:
    token = made_by(secured)
    made = by_token(secured, token, mechanism)
    with kafwire.Producer(**made) as producer:
        producer.send(topic_name, b"by token").result(timeout=30)
    with kafwire.Consumer(**made, topics=[topic_name], start="earliest") as consumer:
        assert [record.value for batch in consumer.poll(timeout=30) for record in batch] == [b"by token"]


def test_a_token_is_its_owner_to_acls(secured: Cluster, topic_name: str) -> None:
    token = made_by(secured)
    deny(secured, "alice", Operation.WRITE, Resource.TOPIC, topic_name)
    try:
        with kafwire.Producer(**by_token(secured, token)) as producer, pytest.raises(AuthorizationError) as caught:
            producer.send(topic_name, b"x").result(timeout=30)
        assert (caught.value.operation, caught.value.resource_name) == ("Write", topic_name)
    finally:
        forget(secured, "alice")
        allow(secured, "alice", Operation.ALL, Resource.TOPIC, "*")


def test_java_takes_a_token(secured: Cluster, topic_name: str) -> None:
    token = made_by(secured)
    made = secured.client_options("alice", "SCRAM-SHA-256", listener="SASL_PLAINTEXT", dialect="java")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="{token.token_id}" password="{token.hmac.reveal()}" tokenauth="true";'
    asked: dict[str, Any] = {("bootstrap" if key == "bootstrap.servers" else key): value for key, value in made.items()}
    asked["sasl.jaas.config"] = login
    with JavaClient() as java:
        assert java.produce(topic=topic_name, records=[Written(0, 1, None, b"by Java", ())], **asked) == [0]


def test_javas_configuration_with_a_token(secured: Cluster) -> None:
    token = made_by(secured)
    made: dict[str, Any] = secured.client_options("alice", "SCRAM-SHA-256", listener="SASL_PLAINTEXT", dialect="java")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    made["sasl.jaas.config"] = (
        f'{module} required username="{token.token_id}" password="{token.hmac.reveal()}" tokenauth="true";'
    )
    with kafwire.Client.from_config(made) as client:
        assert client.metadata([]).brokers


def test_a_renewer_renews_and_others_do_not(secured: Cluster) -> None:
    token = made_by(secured, renewers=["bob"])
    with kafwire.Client(**options(secured, "bob")) as client:
        assert client.renew_delegation_token(token.hmac.reveal()) >= token.expires_at_ms
        assert token.token_id in {each.token_id for each in client.describe_delegation_tokens()}
    other = made_by(secured)
    with kafwire.Client(**options(secured, "bob")) as client:
        for call in (client.renew_delegation_token, client.expire_delegation_token):
            with pytest.raises(BrokerError, match="DELEGATION_TOKEN_OWNER_MISMATCH"):
                call(other.hmac)
        assert other.token_id not in {each.token_id for each in client.describe_delegation_tokens()}


def test_a_token_for_another_user_needs_an_acl(secured: Cluster) -> None:
    with kafwire.Client(**options(secured, "bob")) as client:
        with pytest.raises(AuthorizationError) as caught:
            client.create_delegation_token(owner="alice")
        error = caught.value
        assert (error.operation, error.resource_type, error.resource_name) == ("CreateTokens", "User", "User:alice")
        assert "needs an ACL that permits CreateTokens on User 'User:alice'" in str(error)
        allow(secured, "bob", Operation.CREATE_TOKENS, Resource.USER, "User:alice")
        try:
            token = client.create_delegation_token(owner="User:alice")
        finally:
            forget(secured, "bob")
    assert (token.owner, token.requester) == ("User:alice", "User:bob")


def test_a_client_with_a_token_gets_none(secured: Cluster) -> None:
    token = made_by(secured)
    with kafwire.Client(**by_token(secured, token)) as client:
        for ask in (
            client.create_delegation_token,
            client.describe_delegation_tokens,
            lambda: client.renew_delegation_token(token.hmac),
            lambda: client.expire_delegation_token(token.hmac),
        ):
            with pytest.raises(BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.*not made with a token"):
                ask()


def test_an_anonymous_client_gets_none(secured: Cluster) -> None:
    by_tls: dict[str, Any] = secured.client_options(listener="SSL")
    made = {name.replace(".", "_"): value for name, value in by_tls.items()}
    for asked in (made, {"bootstrap_servers": secured.direct}):
        with (
            kafwire.Client(**asked) as client,
            pytest.raises(BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"),
        ):
            client.create_delegation_token()


def test_a_cluster_without_tokens(cluster: KafkaCluster) -> None:
    with kafwire.Client(cluster.bootstrap) as client, pytest.raises(BrokerError, match="DELEGATION_TOKEN"):
        client.create_delegation_token()


def test_an_expired_token_is_an_authentication_error_on_the_next_connection(secured: Cluster, topic_name: str) -> None:
    token = made_by(secured)
    with kafwire.Producer(**by_token(secured, token)) as producer:
        producer.send(topic_name, b"x").result(timeout=30)
        with kafwire.Client(**options(secured)) as client:
            client.expire_delegation_token(token.hmac)

        def is_refused() -> bool:
            try:
                with kafwire.Client(**by_token(secured, token)) as late:
                    late.metadata([])
            except AuthenticationError as error:
                assert "refused" in str(error)
                assert "SCRAM-SHA-256" in str(error)
                assert "invalid credentials" in str(error)  # what the broker says of it
                assert token.hmac.reveal() not in str(error)
                return True
            return False

        until(is_refused, "the token's end known to the broker", seconds=SOON_S)
        # Whose connection was made with it goes on, as its broker counted with a later end.
        producer.send(topic_name, b"x").result(timeout=30)


def test_a_token_that_ends_by_itself_ends_its_connections(secured: Cluster, topic_name: str) -> None:
    """Brokers accept such a token, and then close the connection without a word: it is said nevertheless."""
    token = made_by(secured)
    with kafwire.Client(**options(secured)) as client:
        end_ms = client.expire_delegation_token(token.hmac, 3000)
        until(lambda: any(each.expires_at_ms == end_ms for each in client.describe_delegation_tokens()), seconds=SOON_S)
    made = by_token(secured, token)
    with kafwire.Producer(**made) as producer, kafwire.Consumer(**made) as consumer:
        count = 0
        with pytest.raises(AuthenticationError, match=rf"the delegation token '{token.token_id}' has expired"):
            while True:
                producer.send(topic_name, b"x").result(timeout=30)
                count += 1
                assert time.time() * 1000 < end_ms + 5000
        assert count
        assert time.time() * 1000 > end_ms - 100
        with pytest.raises(AuthenticationError, match="has expired"):
            consumer.subscribe([topic_name])


def test_no_secret_is_shown(secured: Cluster) -> None:
    token = made_by(secured)
    assert token.hmac.reveal() not in f"{token} {token!r} {[token]}"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(token)


def test_the_example_of_the_page(secured: Cluster, tmp_path: Path) -> None:
    (block,) = [block for block in blocks("python") if block.document == "delegation-tokens"]
    text = block.text.replace("broker:9094", secured.bootstrap_of("SASL_PLAINTEXT")).replace(
        "SASL_SSL", "SASL_PLAINTEXT"
    )
    done = run_python(replace(block, text=text), 'import kafwire\npassword = "alice-secret"\n', tmp_path)
    assert done.returncode == 0, done.stderr
