"""The effects of ACLs, SCRAM users and delegation tokens of `Admin` on a real Kafka and on the embedded broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import kafwire
from kafwire.admin import AclBinding, QuotaEntity, ScramDeletion, ScramUpsertion
from kafwire.errors import AuthenticationError, AuthorizationError
from kafwire.testing import EmbeddedKafka, KafkaCluster, Security
from tests.support.acls import Cluster
from tests.support.deadlines import until

USERS = {"admin": "admin-secret", "alice": "alice-secret"}
LISTENER = Security(
    "SASL_PLAINTEXT",
    ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
    users=USERS,
    acls=True,
    superusers=["admin"],
    delegation_tokens=True,
)
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def real() -> Iterator[KafkaCluster]:
    """A node with an authorizer; clients of its plain listener may do everything."""
    with KafkaCluster(security=LISTENER) as running:
        yield running


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(security=LISTENER, plain=True) as running:
        yield running


@pytest.fixture(params=["real", "embedded"])
def secured(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


def options(cluster: Cluster, user: str, mechanism: str = "PLAIN", **more: Any) -> dict[str, Any]:
    made = cluster.client_options(user, mechanism, listener="SASL_PLAINTEXT")
    return {key.replace(".", "_"): value for key, value in made.items()} | more


def test_a_password_logs_in_until_it_is_deleted(secured: Cluster) -> None:
    user, password = f"u{uuid.uuid4().hex[:8]}", kafwire.Secret("canary =,\u00ad")

    def is_in() -> bool:
        given = options(secured, "alice", SHA_512, sasl_username=user, sasl_password=password)
        try:
            with kafwire.Client(**given) as client:
                return bool(client.metadata([]).brokers)
        except AuthenticationError:
            return False

    with kafwire.Admin(secured.direct) as admin:
        assert not is_in()
        admin.alter_user_scram_credentials([ScramUpsertion(user, SHA_512, password)])
        until(is_in, "the password accepted")
        admin.alter_user_scram_credentials([ScramDeletion(user, SHA_512)])
        until(lambda: not is_in(), "the password refused")


def test_a_denial_becomes_the_rule_that_it_lacks(secured: Cluster) -> None:
    with kafwire.Admin(secured.direct) as admin, kafwire.Admin(**options(secured, "alice")) as alice:
        with pytest.raises(AuthorizationError, match="permits Describe on the Cluster") as caught:
            alice.describe_acls()
        error = caught.value
        assert error.operation is not None
        rule = AclBinding(error.resource_type, "kafka-cluster", "User:alice", error.operation)
        admin.create_acls([rule])

        def is_permitted() -> bool:
            try:
                return rule in alice.describe_acls()
            except AuthorizationError:
                return False

        until(is_permitted, "the rule enforced")
        for denied in (
            lambda: alice.create_acls([rule]),
            lambda: alice.delete_acls([rule.to_filter()]),
            lambda: alice.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 5}}),
            lambda: alice.alter_user_scram_credentials([ScramDeletion("alice", SHA_256)]),
            alice.describe_client_quotas,
        ):
            with pytest.raises(AuthorizationError, match="on the Cluster"):
                denied()
        assert admin.delete_acls([rule.to_filter()]) == {rule.to_filter(): [rule]}


def test_a_token_of_admin_logs_in(secured: Cluster) -> None:
    with kafwire.Admin(**options(secured, "alice", SHA_256)) as alice:
        token = alice.create_delegation_token(["admin"])
    by_token = {"sasl_username": token.token_id, "sasl_password": token.hmac, "sasl_tokenauth": True}

    def is_known() -> bool:
        try:
            with kafwire.Client(**options(secured, "alice", SHA_512, **by_token)) as client:
                client.metadata([])
        except AuthenticationError:
            return False
        return True

    until(is_known, "the token accepted")
    with kafwire.Admin(**options(secured, "admin")) as renewer:
        assert renewer.renew_delegation_token(token.hmac) >= token.expires_at_ms
        renewer.expire_delegation_token(token.hmac)
    until(lambda: not is_known(), "the token refused")


def test_an_expired_token_is_reported_as_such(secured: Cluster) -> None:
    with kafwire.Admin(**options(secured, "alice", SHA_256)) as alice:
        token = alice.create_delegation_token(max_lifetime_ms=1)
    by_token = {"sasl_username": token.token_id, "sasl_password": token.hmac, "sasl_tokenauth": True}

    def outcome() -> str:
        try:
            with kafwire.Client(**options(secured, "alice", SHA_256, **by_token)) as client:
                client.metadata([])
        except AuthenticationError as error:
            return str(error)
        return ""

    until(lambda: "has expired" in outcome(), "the end of the token reported")
