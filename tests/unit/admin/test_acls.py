"""`admin.acls`: create, describe and delete bindings, in both faces."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from kafwire import protocol
from kafwire.admin import AclBinding, AclFilter
from kafwire.admin import acls as admin_acls
from kafwire.broker.security import acls as broker_acls
from kafwire.errors import AdminError, AuthorizationError, BrokerError, ConfigError, ErrorCode, KafkaError
from kafwire.testing.simulation.calls import HANGUP, Call
from tests.support.simulated.flavours import Flavour

READ = AclBinding("Topic", "flights", "User:alice", "Read")
PREFIX = AclBinding("Topic", "fl", "User:alice", "Write", "Deny", "10.0.0.1", "Prefixed")
GROUP = AclBinding("Group", "*", "User:bob", "Read")


@pytest.fixture
def guarded(flavour: Flavour) -> Flavour:
    """A cluster with an authorizer, which denies the read of one topic only."""
    flavour.world.unreadable.add("hidden")
    return flavour


def filled(flavour: Flavour) -> Any:
    """A client, and three bindings in the cluster."""
    admin = flavour.admin()
    flavour.get(admin.create_acls([READ, PREFIX, GROUP]))
    return admin


# --- values


def test_texts_are_written_as_errors_write_them() -> None:
    other = AclBinding("TRANSACTIONAL_ID", "x", "User:alice", "describe_configs", "DENY", "*", "prefixed")
    assert other == AclBinding("TransactionalId", "x", "User:alice", "DescribeConfigs", "Deny", "*", "Prefixed")
    assert AclFilter(pattern_type="MATCH", operation="TWO_PHASE_COMMIT") == AclFilter(
        pattern_type="Match", operation="TwoPhaseCommit"
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AclBinding("Topc", "t", "User:a", "Read"), "resource_type='Topc': it must be one of Topic, Group"),
        (lambda: AclBinding("Topic", "t", "User:a", "Reed"), "operation='Reed': it must be one of All, Read"),
        (lambda: AclBinding("Topic", "t", "User:a", "Read", "Perhaps"), "permission='Perhaps'.*Deny, Allow"),
        (lambda: AclBinding("Topic", "t", "User:a", "Read", pattern_type="Match"), "pattern_type.*Literal, Prefixed"),
        (lambda: AclBinding("Topic", "t", "User:a", 3), "operation=3"),  # type: ignore[arg-type]
        (lambda: AclBinding("Topic", None, "User:a", "Read"), "name of an ACL: None"),  # type: ignore[arg-type]
        (lambda: AclBinding("Topic", "t", None, "Read"), "principal of an ACL: None"),  # type: ignore[arg-type]
        (lambda: AclBinding("Topic", "t", "User:a", "Read", host=None), "host of an ACL"),  # type: ignore[arg-type]
        (lambda: AclFilter(resource_type="Any"), "resource_type='Any'"),
        (lambda: AclFilter(operation="Unknown"), "operation='Unknown'"),
    ],
)
def test_other_texts_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        make()
    assert "Unknown" not in str(caught.value).partition(": ")[2]


def test_the_numbers_are_kafkas() -> None:
    for ours, theirs in (
        (admin_acls.RESOURCE_TYPES, broker_acls.ResourceType),
        (admin_acls.PATTERN_TYPES, broker_acls.PatternType),
        (admin_acls.OPERATIONS, broker_acls.Operation),
        (admin_acls.PERMISSIONS, broker_acls.Permission),
    ):
        assert {name.upper(): number for name, number in ours.items()} == {
            each.name.replace("_", ""): each.value for each in theirs
        }


def test_bindings_are_copied_and_pickled() -> None:
    assert copy.copy(PREFIX) == pickle.loads(pickle.dumps(PREFIX)) == PREFIX
    assert len({PREFIX, copy.copy(PREFIX), READ}) == 2


def test_bindings_and_filters_are_shown_as_a_line() -> None:
    assert str(PREFIX) == "Deny User:alice Write on Topic 'fl' (Prefixed) from 10.0.0.1"
    assert str(AclFilter()) == "Allow or Deny any principal any operation on any resource any name"


# --- calls


def test_bindings_are_created_described_and_deleted(guarded: Flavour) -> None:
    admin = filled(guarded)
    assert set(guarded.get(admin.describe_acls())) == {READ, PREFIX, GROUP}
    assert guarded.get(admin.describe_acls(AclFilter("Group"))) == [GROUP]
    assert set(guarded.get(admin.describe_acls(AclFilter("Topic", "flights", pattern_type="Match")))) == {READ, PREFIX}
    assert guarded.get(admin.delete_acls([PREFIX.to_filter()])) == {PREFIX.to_filter(): [PREFIX]}
    assert set(guarded.get(admin.describe_acls())) == {READ, GROUP}
    none = AclFilter("Topic", "other")
    everything = AclFilter()
    deleted = guarded.get(admin.delete_acls([none, everything]))
    assert (deleted[none], set(deleted[everything])) == ([], {READ, GROUP})
    assert guarded.get(admin.describe_acls()) == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(principal="User:alice"), {READ, PREFIX}),
        (AclFilter(operation="Read"), {READ, GROUP}),
        (AclFilter(permission="Deny"), {PREFIX}),
        (AclFilter(host="10.0.0.1"), {PREFIX}),
        (AclFilter(pattern_type="Literal"), {READ, GROUP}),
        (AclFilter(name="fl"), {PREFIX}),
    ],
)
def test_each_field_filters(guarded: Flavour, wanted: AclFilter, found: set[AclBinding]) -> None:
    assert set(guarded.get(filled(guarded).describe_acls(wanted))) == found


def test_a_repeated_binding_is_sent_once(guarded: Flavour) -> None:
    guarded.get(guarded.admin().create_acls([READ, READ]))
    (call,) = guarded.world.made("CreateAcls")
    assert len(call.message.creations) == 1


def refusing(code: int, text: str | None, number: int = 0) -> Any:
    """A response to CreateAcls in which one binding is refused."""
    response = protocol.CreateAclsResponse

    def respond(call: Call) -> Any:
        results = [response.AclCreationResult(error_message=None) for _ in call.message.creations]
        results[number] = response.AclCreationResult(error_code=code, error_message=text)
        return response(results=results)

    return respond


def test_one_refused_binding_does_not_hide_the_others(guarded: Flavour) -> None:
    guarded.world.on("CreateAcls", refusing(ErrorCode.INVALID_REQUEST, "too odd", 1))
    with pytest.raises(AdminError, match=r"1 of 2 failed: Deny User:alice.*INVALID_REQUEST.*too odd") as caught:
        guarded.get(guarded.admin().create_acls([READ, PREFIX]))
    assert (list(caught.value.results), list(caught.value.errors)) == ([READ], [PREFIX])
    errors: dict[AclBinding, KafkaError] = {}
    guarded.get(guarded.admin().create_acls([READ, PREFIX], on_error=errors.__setitem__))
    assert list(errors) == [PREFIX]


def test_a_denial_names_the_permission(guarded: Flavour) -> None:
    guarded.world.on("CreateAcls", refusing(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
    with pytest.raises(AuthorizationError, match="permits Alter on the Cluster") as caught:
        guarded.get(guarded.admin().create_acls([READ]))
    assert caught.value.operation == "Alter"


def test_a_moved_controller_is_retried(guarded: Flavour) -> None:
    moved = [True]

    def respond(call: Call) -> Any:
        return refusing(ErrorCode.NOT_CONTROLLER, None, 1)(call) if moved and moved.pop() else None

    guarded.world.on("CreateAcls", respond)
    guarded.get(guarded.admin().create_acls([READ, PREFIX]))
    asked = [len(call.message.creations) for call in guarded.world.made("CreateAcls")]
    assert asked == [2, 1], "the created binding is not sent again"


def test_a_response_without_a_binding_is_an_error_of_that_binding(guarded: Flavour) -> None:
    response = protocol.CreateAclsResponse
    guarded.world.on("CreateAcls", lambda _: response(results=[response.AclCreationResult(error_message=None)]))
    with pytest.raises(AdminError, match="sent a response without") as caught:
        guarded.get(guarded.admin().create_acls([READ, PREFIX]))
    assert list(caught.value.errors) == [PREFIX]


def test_a_cluster_without_an_authorizer_has_no_acls(flavour: Flavour) -> None:
    admin = flavour.admin()
    for said in (
        lambda: admin.create_acls([READ]),
        admin.describe_acls,
        lambda: admin.delete_acls([AclFilter("Topic")]),
    ):
        with pytest.raises(BrokerError, match=r"SECURITY_DISABLED.*No Authorizer is configured"):
            flavour.get(said())


def test_an_old_broker_has_no_rules_about_users(guarded: Flavour) -> None:
    """Such a broker would call the type unknown; the other rules are created."""
    for node in guarded.world.nodes.values():
        node.versions = dict.fromkeys(("CreateAcls", "DescribeAcls", "DeleteAcls"), (1, 2))
    admin = guarded.admin()
    user = AclBinding("User", "User:bob", "User:alice", "CreateTokens")
    errors: dict[Any, KafkaError] = {}
    guarded.get(admin.create_acls([user, READ], on_error=errors.__setitem__))
    assert guarded.get(admin.describe_acls()) == [READ]
    with pytest.raises(KafkaError, match=r"need Kafka 3.3 or newer: the broker has DescribeAcls up to version 2"):
        guarded.get(admin.describe_acls(AclFilter("User")))
    deleted = guarded.get(admin.delete_acls([AclFilter("User"), READ.to_filter()], on_error=errors.__setitem__))
    assert deleted == {READ.to_filter(): [READ]}
    assert list(errors) == [user, AclFilter("User")]
    assert all("need Kafka 3.3 or newer" in str(error) for error in errors.values())


def test_rules_about_users(guarded: Flavour) -> None:
    admin = guarded.admin()
    user = AclBinding("User", "User:bob", "User:alice", "CreateTokens")
    guarded.get(admin.create_acls([user]))
    assert guarded.get(admin.describe_acls(AclFilter("User"))) == [user]
    assert guarded.get(admin.delete_acls([AclFilter("User")])) == {AclFilter("User"): [user]}


def test_a_lost_connection_is_retried(guarded: Flavour) -> None:
    admin = filled(guarded)
    lost = [True]
    guarded.world.on("DescribeAcls", lambda _: (lost and lost.pop() and HANGUP) or None)
    assert len(guarded.get(admin.describe_acls())) == 3


def match(binding: AclBinding, code: int = 0) -> Any:
    return protocol.DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_code=code,
        error_message="stays" if code else None,
        resource_type=admin_acls.RESOURCE_TYPES[binding.resource_type],
        resource_name=binding.name,
        pattern_type=admin_acls.PATTERN_TYPES[binding.pattern_type],
        principal=binding.principal,
        host=binding.host,
        operation=admin_acls.OPERATIONS[binding.operation],
        permission_type=admin_acls.PERMISSIONS[binding.permission],
    )


def test_a_rule_that_is_not_deleted_is_the_error_of_its_filter(guarded: Flavour) -> None:
    """The error has the deleted rules, too: nothing is hidden."""
    response = protocol.DeleteAclsResponse
    alices, bobs = AclFilter(principal="User:alice"), AclFilter(principal="User:bob")
    results = [
        response.DeleteAclsFilterResult(
            error_message=None, matching_acls=[match(READ), match(PREFIX, ErrorCode.UNKNOWN_SERVER_ERROR)]
        ),
        response.DeleteAclsFilterResult(error_message=None, matching_acls=[match(GROUP)]),
    ]
    guarded.world.on("DeleteAcls", lambda _: response(filter_results=results))
    errors: dict[AclFilter, KafkaError] = {}
    deleted = guarded.get(guarded.admin().delete_acls([alices, bobs], on_error=errors.__setitem__))
    assert deleted == {bobs: [GROUP]}
    error = errors[alices]
    assert isinstance(error, AdminError)
    assert (list(error.results), list(error.errors)) == ([READ], [PREFIX])
    assert "deleting ACL Deny User:alice Write" in str(error.errors[PREFIX])
    assert "stays" in str(error.errors[PREFIX])
    assert len(guarded.world.made("DeleteAcls")) == 1, "such an error is final"


def test_values_of_a_newer_kafka_are_unknown(guarded: Flavour) -> None:
    response = protocol.DescribeAclsResponse
    acl = response.AclDescription(principal="User:alice", host="*", operation=99, permission_type=3)
    resource = response.DescribeAclsResource(resource_type=98, resource_name="t", pattern_type=97, acls=[acl])
    guarded.world.on("DescribeAcls", lambda _: response(error_message=None, resources=[resource]))
    (found,) = guarded.get(guarded.admin().describe_acls())
    assert (found.resource_type, found.operation, found.pattern_type) == ("Unknown", "Unknown", "Unknown")
    with pytest.raises(ConfigError, match="value .Unknown. cannot be created"):
        guarded.get(guarded.admin().create_acls([found]))
    with pytest.raises(ConfigError, match="resource_type='Unknown'"):
        found.to_filter()


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("create_acls", (READ,), "write a list of AclBindings"),
    ("create_acls", (["Read"],), "is no AclBinding"),
    ("create_acls", ([AclBinding("Topic", "", "User:a", "Read")],), "at least one character"),
    ("create_acls", ([AclBinding("Topic", "t", "alice", "Read")],), "'User:alice'"),
    ("create_acls", ([AclBinding("Cluster", "c", "User:a", "Alter")],), "kafka-cluster"),
    ("create_acls", ([AclBinding("Topic", "t", "User:a", "Read", host="")],), "host of an ACL"),
    ("describe_acls", ("Topic",), r"write AclFilter\(...\)"),
    ("delete_acls", (AclFilter("Topic"),), "write a list of AclFilters"),
    ("delete_acls", ([READ],), "is no AclFilter"),
    ("delete_acls", (None,), "write a list of AclFilters"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(guarded: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = guarded.admin()
    with pytest.raises(ConfigError, match=text):
        guarded.get(getattr(admin, method)(*args))
    assert not guarded.world.calls


@pytest.mark.parametrize("field", ["name", "principal", "host"])
@pytest.mark.parametrize("value", [5, ["x"], ""])
def test_a_filter_has_texts_or_none(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{field} of an ACL filter"):
        AclFilter(**{field: value})
