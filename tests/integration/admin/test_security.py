"""ACLs, quotas and SCRAM users by `Admin` on a real Kafka and on the embedded broker, beside Java's Admin."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.admin import (
    AclBinding,
    AclFilter,
    QuotaEntity,
    QuotaFilter,
    QuotaMatch,
    ScramDeletion,
    ScramUpsertion,
)
from kafwire.errors import AuthenticationError, AuthorizationError, BrokerError
from kafwire.testing import EmbeddedKafka, KafkaCluster, Security
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, class_path, java
from tests.support.acls import Cluster
from tests.support.deadlines import until
from tests.support.java.client import compiled

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


def by_kafwire(bootstrap: str, name: str) -> list[str]:
    """The outcome of each step, as tests/java/SecurityScript.java prints it."""
    with kafwire.Admin(bootstrap) as admin:
        return [*_acls(admin, name, f"User:{name}"), *_quotas(admin, name), *_users(admin, name)]


def _acls(admin: kafwire.Admin, name: str, principal: str) -> Iterator[str]:
    read = AclBinding("Topic", name, principal, "Read")
    write = AclBinding("Topic", name[:4], principal, "Write", "Deny", "10.0.0.1", "Prefixed")
    describe = AclBinding("TransactionalId", "*", principal, "Describe")
    tokens = AclBinding("User", principal, principal, "CreateTokens")
    yield said("create acls", lambda: admin.create_acls([read, write, describe, tokens, read]))
    own = AclFilter(principal=principal)
    until(lambda: len(admin.describe_acls(own)) == 4, "the rules")
    yield said("own acls", lambda: lines(admin.describe_acls(own)))
    matching = AclFilter("Topic", name, principal, pattern_type="Match")
    yield said("matching acls", lambda: lines(admin.describe_acls(matching)))
    denials = AclFilter(principal=principal, permission="Deny")
    reads = AclFilter(principal=principal, operation="Read")
    deleted = admin.delete_acls([denials, reads])
    yield said("denials", lambda: lines(deleted[denials]))
    yield said("reads", lambda: lines(deleted[reads]))
    until(lambda: len(admin.describe_acls(own)) == 2, "the deletion")
    yield said("rest", lambda: lines(admin.delete_acls([own])[own]))


def _quotas(admin: kafwire.Admin, name: str) -> Iterator[str]:
    user = QuotaEntity(user=name)
    both = QuotaEntity(user=name, client_id=QuotaMatch.DEFAULT)

    def alter(step: str, entity: QuotaEntity, key: str, value: float | None, *, validate: bool = False) -> str:
        return said(step, lambda: admin.alter_client_quotas({entity: {key: value}}, validate_only=validate))

    yield alter("no zero", user, "producer_byte_rate", 0)
    yield alter("no such quota", user, "nope", 1)
    yield alter("no fraction", user, "producer_byte_rate", 0.5, validate=True)
    yield alter("validate", user, "producer_byte_rate", 1000, validate=True)
    yield alter("set", user, "producer_byte_rate", 1000)
    yield alter("set both", both, "request_percentage", 12.5)
    wide = QuotaFilter(user=name)
    until(lambda: len(admin.describe_client_quotas(wide)) == 2, "the quotas")
    for step, wanted in {
        "wide": wide,
        "strict": QuotaFilter(user=name, strict=True),
        "any": QuotaFilter(user=name, client_id=QuotaMatch.ANY, strict=True),
        "default": QuotaFilter(user=name, client_id=QuotaMatch.DEFAULT),
    }.items():
        yield said(step, lambda wanted=wanted: entities(admin.describe_client_quotas(wanted)))  # type: ignore[misc]
    yield alter("remove", user, "producer_byte_rate", None)
    yield alter("remove both", both, "request_percentage", None)
    until(lambda: not admin.describe_client_quotas(wide), "the removal")


def _users(admin: kafwire.Admin, name: str) -> Iterator[str]:
    other = f"{name}-2"

    def alter(step: str, *alterations: ScramUpsertion | ScramDeletion) -> str:
        return said(step, lambda: admin.alter_user_scram_credentials(alterations))

    yield said("no user", lambda: admin.describe_user_scram_credentials([name]))
    yield alter("no credential", ScramDeletion(name, SHA_256))
    yield alter("sha 256", ScramUpsertion(name, SHA_256, "secret"))
    yield alter(
        "both",
        ScramUpsertion(name, SHA_512, "secret", iterations=16384),
        ScramUpsertion(other, SHA_512, "secret", iterations=5000),
    )
    until(lambda: other in admin.describe_user_scram_credentials(), "the users")
    found = admin.describe_user_scram_credentials([name, other])
    shown = [
        f"{user} [{', '.join(sorted(f'{each.mechanism} {each.iterations}' for each in found[user]))}]"
        for user in sorted(found)
    ]
    yield f"> users: [{', '.join(shown)}]"
    for user in (name, other):
        yield alter(f"delete {user}", ScramDeletion(user, SHA_512))
    yield alter("delete the last", ScramDeletion(name, SHA_256))


def said(step: str, call: Callable[[], Any]) -> str:
    try:
        found = call()
    except BrokerError as error:
        return f"> {step}: {error.name}"
    return f"> {step}: {'done' if found is None else found}"


def lines(bindings: list[AclBinding]) -> str:
    def java_name(text: str) -> str:
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", text).upper()

    rows = [
        " ".join(
            [
                java_name(each.resource_type),
                each.name,
                java_name(each.pattern_type),
                each.principal,
                each.host,
                java_name(each.operation),
                java_name(each.permission),
            ]
        )
        for each in bindings
    ]
    return f"[{', '.join(sorted(rows))}]"


def entities(found: dict[QuotaEntity, dict[str, float]]) -> str:
    def names(entity: QuotaEntity) -> str:
        parts = {"client-id": entity.client_id, "ip": entity.ip, "user": entity.user}
        return ", ".join(
            f"{kind}={'null' if isinstance(name, QuotaMatch) else name}"
            for kind, name in parts.items()
            if name is not None
        )

    rows = [
        f"{{{names(entity)}}} {{{', '.join(f'{key}={value}' for key, value in sorted(values.items()))}}}"
        for entity, values in found.items()
    ]
    return f"[{', '.join(sorted(rows))}]"


def by_java(bootstrap: str, name: str) -> list[str]:
    source = Path(__file__).parents[2] / "java" / "SecurityScript.java"
    classes = f"{compiled(source)}:{class_path(DEFAULT_VERSION)}"
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes]
    command = [java(), *options, "SecurityScript", bootstrap, name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return [line for line in done.stdout.splitlines() if line.startswith("> ")]


def test_results_are_those_of_java_on_both_brokers(real: KafkaCluster, embedded: EmbeddedKafka) -> None:
    outcomes = []
    for script in (by_kafwire, by_java):
        for bootstrap in (real.direct, embedded.direct):
            name = f"u{uuid.uuid4().hex[:8]}"
            outcomes.append([line.replace(name, "NAME").replace(name[:4], "NAM") for line in script(bootstrap, name)])
    expected, *others = outcomes
    assert len(expected) > 25
    assert "> no zero: INVALID_REQUEST" in expected
    for other in others:
        assert other == expected


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
