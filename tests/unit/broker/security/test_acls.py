"""ACLs: what they allow, the APIs that change them, and what each request needs."""

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker.request import ANONYMOUS, HANG_UP
from kafwire.broker.security import authorization
from kafwire.broker.security.acls import (
    CLUSTER_NAME,
    SUPPORTED,
    Acl,
    AclFilter,
    Operation,
    Permission,
    ResourceType,
)
from kafwire.broker.state import ClusterState
from kafwire.broker.topics.configs import BROKER_CONFIGS
from kafwire.errors import ErrorCode
from kafwire.permissions import _PERMISSIONS
from kafwire.records import encode_batch
from tests.support.broker.driver import BrokerDriver

ALICE = "User:alice"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
ID_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLUSTER_FAILED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_ACL = protocol.DescribeAclsRequest(
    resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None, host_filter=None,
    operation=1, permission_type=1,
)  # fmt: skip


def authorizer(*acls: Any, **configs: Any) -> Any:
    state = ClusterState(authorizer=True, configs={name.replace("_", "."): value for name, value in configs.items()})
    state.authorizer.add(acls)
    return state.authorizer


def allow(operation: Any, resource_type: Any = TOPIC, name: Any = "t", principal: Any = ALICE, **how: Any) -> Any:
    return Acl(principal, operation, resource_type, name, **how)


def deny(*args: Any, **how: Any) -> Any:
    return allow(*args, permission=Permission.DENY, **how)


def allows(
    its: Any,
    operation: Any = Operation.READ,
    resource_type: Any = TOPIC,
    name: Any = "t",
    principal: Any = ALICE,
    host: Any = "10.0.0.1",
) -> Any:
    return its.allows(principal, host, operation, resource_type, name)


# --- what they allow


def test_without_an_authorizer_all_is_allowed() -> None:
    assert allows(ClusterState().authorizer)


def test_an_operation_without_a_permission_is_denied() -> None:
    assert not allows(authorizer())
    assert not allows(authorizer(allow("Write")))
    assert allows(authorizer(allow("Read")))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"name": "t2"}, False),
        ({"name": "*"}, True),
        ({"name": "t", "pattern": "Prefixed"}, True),
        ({"name": "to", "pattern": "Prefixed"}, False),
        ({"name": "*", "pattern": "Prefixed"}, False),
        ({"resource_type": GROUP}, False),
        ({"principal": "User:*"}, True),
        ({"principal": "User:bob"}, False),
        ({"principal": "*"}, False),
        ({"host": "10.0.0.1"}, True),
        ({"host": "10.0.0.2"}, False),
    ],
)
def test_patterns_principals_and_hosts(how: Any, expected: Any) -> None:
    assert allows(authorizer(allow("Read", **how))) is expected
    assert allows(authorizer(allow("Read"), deny("Read", **how))) is not expected


def test_a_denial_wins_over_all() -> None:
    assert not allows(authorizer(allow("All", name="*"), allow("Read"), deny("All", name="t", pattern="Prefixed")))


IMPLIED = {
    ("READ", "DESCRIBE"), ("WRITE", "DESCRIBE"), ("DELETE", "DESCRIBE"), ("ALTER", "DESCRIBE"),
    ("ALTER_CONFIGS", "DESCRIBE_CONFIGS"),
}  # fmt: skip


@pytest.mark.parametrize("given", Operation)
@pytest.mark.parametrize("asked", [each for each in Operation if each is not Operation.ALL])
def test_operations_that_imply_others(given: Any, asked: Any) -> None:
    implied = given in (asked, Operation.ALL) or (given.name, asked.name) in IMPLIED
    assert allows(authorizer(allow(given)), asked) is implied
    # A denial implies nothing.
    assert allows(authorizer(allow("All"), deny(given)), asked) is (given not in (asked, Operation.ALL))


def test_superusers_are_denied_nothing() -> None:
    its = authorizer(deny("All", name="*"), super_users="User:admin;User:alice")
    assert allows(its)
    assert not allows(its, principal="User:bob")


def test_a_resource_without_acls_is_open_if_so_configured() -> None:
    its = authorizer(allow("Read", name="t2"), **{"allow.everyone.if.no.acl.found": "true"})
    assert allows(its)
    assert not allows(its, Operation.WRITE, name="t2")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([allow("Write", name="x")], True),
        ([allow("All", name="x")], True),
        ([allow("Read", name="x")], False),
        ([allow("Write", name="x"), deny("Write", name="x")], False),
        ([allow("Write", name="xy"), deny("Write", name="x", pattern="Prefixed")], False),
        ([allow("Write", name="x", pattern="Prefixed"), deny("Write", name="x")], True),
        ([allow("Write", name="x"), deny("Write", name="*")], False),
        ([allow("Write", name="*"), deny("Write", name="h", pattern="Prefixed")], True),
    ],
)
def test_any_resource_of_a_kind(acls: Any, expected: Any) -> None:
    assert authorizer(*acls).allows_any(ALICE, "h", Operation.WRITE, TOPIC) is expected


def test_bit_fields_of_operations() -> None:
    its = authorizer(allow("Read"), allow("Delete"))
    field = its.operations(ALICE, "h", TOPIC, "t")
    assert field == sum(1 << each for each in (Operation.READ, Operation.DELETE, Operation.DESCRIBE))
    everything = ClusterState().authorizer.operations(ALICE, "h", GROUP, "g")
    assert everything == sum(1 << each for each in SUPPORTED[GROUP])


def test_names_of_kafka_do_for_enums() -> None:
    acl = Acl("User:a", "DescribeConfigs", "TransactionalId", "x", permission="deny")
    assert (acl.operation, acl.resource_type) == (Operation.DESCRIBE_CONFIGS, ResourceType.TRANSACTIONAL_ID)
    assert Acl("User:a", "Create", "Cluster").name == CLUSTER_NAME
    with pytest.raises(ValueError, match="Operation is one of ALL, READ"):
        Acl("User:a", "Reed", "Topic", "x")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), "abcd"),
        (AclFilter(name="t"), "ab"),
        (AclFilter(name="tee", pattern=2), "bc"),
        (AclFilter(name="t", pattern=2), "abc"),
        (AclFilter(name="t", pattern=4), "b"),
        (AclFilter(name="t", pattern=3), "a"),
        (AclFilter(resource_type=3), "d"),
        (AclFilter(principal="User:bob"), "d"),
        (AclFilter(host="h"), "c"),
        (AclFilter(operation=4), "b"),
        (AclFilter(permission=2), "d"),
    ],
)
def test_filters(wanted: Any, expected: Any) -> None:
    acls = {
        "a": allow("Read"),
        "b": allow("Write", name="t", pattern="Prefixed"),
        "c": allow("Read", name="*", host="h"),
        "d": deny("Read", GROUP, "g", "User:bob"),
    }
    its = authorizer(*acls.values())
    assert its.find(wanted) == [acls[letter] for letter in expected]


# --- the APIs


def creation(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": ALICE,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    values |= changes
    return protocol.CreateAclsRequest.AclCreation(**values)


def test_bindings_are_added_described_and_removed() -> None:
    driver = BrokerDriver(ClusterState(authorizer=True, configs={"super.users": ANONYMOUS}))
    created = driver.ask(protocol.CreateAclsRequest(creations=[creation(), creation(operation=4), creation()]))
    assert [each.error_code for each in created.results] == [0, 0, 0]
    (resource,) = driver.ask(NO_ACL).resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "t", 3)
    assert [acl.operation for acl in resource.acls] == [3, 4]
    filters = [
        protocol.DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=principal,
            host_filter=None, operation=3, permission_type=1,
        )
        for principal in (ALICE, None, "User:bob")
    ]  # fmt: skip
    removed = driver.ask(protocol.DeleteAclsRequest(filters=filters)).filter_results
    assert [[acl.operation for acl in each.matching_acls] for each in removed] == [[3], [3], []]
    (resource,) = driver.ask(NO_ACL).resources
    assert [acl.operation for acl in resource.acls] == [4]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
    ],
)
def test_a_binding_that_is_wrong_is_refused_alone(changes: Any, text: Any) -> None:
    driver = BrokerDriver(ClusterState(authorizer=True, configs={"super.users": ANONYMOUS}))
    results = driver.ask(protocol.CreateAclsRequest(creations=[creation(**changes), creation()])).results
    assert [(each.error_code, each.error_message) for each in results] == [(ErrorCode.INVALID_REQUEST, text), (0, "")]


@pytest.mark.parametrize("name", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_a_binding_with_values_for_filters_has_all_refused(name: Any) -> None:
    driver = BrokerDriver(ClusterState(authorizer=True, configs={"super.users": ANONYMOUS}))
    results = driver.ask(protocol.CreateAclsRequest(creations=[creation(), creation(**{name: 1})])).results
    assert [(each.error_code, each.error_message) for each in results] == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * 2
    assert driver.ask(NO_ACL).resources == []


def test_without_an_authorizer_there_are_none() -> None:
    driver = BrokerDriver()
    assert driver.ask(NO_ACL).error_code == ErrorCode.SECURITY_DISABLED
    (result,) = driver.ask(protocol.CreateAclsRequest(creations=[creation()])).results
    assert result.error_code == ErrorCode.SECURITY_DISABLED


# --- what requests need


@pytest.fixture
def guarded() -> Any:
    """Alice's connection to brokers where she may do nothing."""
    driver = BrokerDriver(ClusterState(authorizer=True))
    driver.connection().principal = ALICE
    driver.state.topics.create("t", 1, 1)
    driver.state.topics.create("u", 1, 1)
    return driver


def give(driver: Any, *acls: Any) -> None:
    driver.state.authorizer.add(acls)


def test_each_api_that_is_served_is_checked_or_open() -> None:
    assert {its.name for its in dispatch.served().values()} <= authorization.CHECKED | authorization.OPEN
    assert not authorization.CHECKED & authorization.OPEN


def produce(*topics: Any, transactional: Any = None, acks: Any = -1) -> Any:
    data = (
        encode_batch([b"x"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        if transactional
        else (encode_batch([b"x"]))
    )
    request = protocol.ProduceRequest
    return request(
        transactional_id=transactional, acks=acks, timeout_ms=1000,
        topic_data=[
            request.TopicProduceData(
                name=name, partition_data=[request.PartitionProduceData(index=0, records=data)]
            )
            for name in topics
        ],
    )  # fmt: skip


def produced(response: Any) -> Any:
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


def test_produce_writes_to_permitted_topics_only(guarded: Any) -> None:
    assert produced(guarded.ask(produce("t", "u"), 9)) == {"t": TOPIC_FAILED, "u": TOPIC_FAILED}
    give(guarded, allow("Write"))
    assert produced(guarded.ask(produce("u", "t", "missing"), 9)) == {
        "t": 0,
        "u": TOPIC_FAILED,
        "missing": TOPIC_FAILED,
    }
    assert guarded.state.topics.find("u").partitions[0].log.end_offset == 0


def test_produce_without_acks_hangs_up(guarded: Any) -> None:
    give(guarded, allow("Write"))
    assert guarded.ask(produce("t", "u", acks=0), 9) is HANG_UP
    assert guarded.ask(produce("u", acks=0), 9) is HANG_UP


def test_produce_in_a_transaction_needs_the_id(guarded: Any) -> None:
    give(guarded, allow("Write"))
    assert produced(guarded.ask(produce("t", transactional="x"), 9)) == {"t": ID_FAILED}


def fetch(driver: Any, *topics: Any, version: Any = 12) -> Any:
    request = protocol.FetchRequest
    asked = [
        request.FetchTopic(topic=name, partitions=[request.FetchPartition(partition=0, partition_max_bytes=1000)])
        for name in topics
    ]
    response = driver.ask(request(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=asked), version)
    return {topic.topic: topic.partitions[0].error_code for topic in response.responses}


def test_fetch_reads_permitted_topics_only(guarded: Any) -> None:
    give(guarded, allow("Read"))
    assert fetch(guarded, "t", "u", "missing") == {"t": 0, "u": TOPIC_FAILED, "missing": TOPIC_FAILED}


def metadata(driver: Any, *names: Any, version: Any = 12, **how: Any) -> Any:
    request = protocol.MetadataRequest
    topics = [request.MetadataRequestTopic(name=name) for name in names] if names else None
    return driver.ask(request(topics=topics, **how), version)


def test_metadata_hide_topics(guarded: Any) -> None:
    give(guarded, allow("Describe"))
    assert [topic.name for topic in metadata(guarded).topics] == ["t"]
    found = {
        topic.name: (topic.error_code, topic.topic_id.int > 0) for topic in metadata(guarded, "t", "u", "v").topics
    }
    assert found == {"t": (0, True), "u": (TOPIC_FAILED, False), "v": (TOPIC_FAILED, False)}


def test_metadata_create_topics_for_a_client_that_may_create_them(guarded: Any) -> None:
    give(guarded, allow("Describe", name="*"))
    (topic,) = metadata(guarded, "new", allow_auto_topic_creation=True).topics
    assert topic.error_code == TOPIC_FAILED
    (topic,) = metadata(guarded, "new", allow_auto_topic_creation=False).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    give(guarded, allow("Create", ResourceType.CLUSTER, CLUSTER_NAME))
    metadata(guarded, "new", allow_auto_topic_creation=True)
    guarded.pass_ms(1)
    assert guarded.state.topics.find("new") is not None


def test_metadata_list_the_authorized_operations(guarded: Any) -> None:
    give(guarded, allow("Read"))
    response = metadata(guarded, "t", version=10, include_cluster_authorized_operations=True,
                      include_topic_authorized_operations=True)  # fmt: skip
    assert response.cluster_authorized_operations == 0
    assert response.topics[0].topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    response = metadata(guarded, "t", version=10)
    assert response.cluster_authorized_operations == response.topics[0].topic_authorized_operations == -(1 << 31)


GROUPS = [
    protocol.JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer"),
    protocol.SyncGroupRequest(group_id="g", generation_id=1, member_id="m"),
    protocol.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    protocol.LeaveGroupRequest(group_id="g"),
]


@pytest.mark.parametrize("message", GROUPS, ids=lambda message: type(message).__name__)
def test_members_of_groups_need_read(guarded: Any, message: Any) -> None:
    assert guarded.ask(message).error_code == GROUP_FAILED
    give(guarded, allow("Describe", GROUP, "g"))
    assert guarded.ask(message).error_code == GROUP_FAILED
    give(guarded, allow("Read", GROUP, "g"))
    assert guarded.ask(message).error_code != GROUP_FAILED


def commit(*topics: Any) -> Any:
    request = protocol.OffsetCommitRequest
    return request(
        group_id="g",
        topics=[
            request.OffsetCommitRequestTopic(
                name=name, partitions=[request.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
            )
            for name in topics
        ],
    )


def committed(driver: Any, topics: Any = ("t", "u"), version: Any = 7) -> Any:
    request = protocol.OffsetFetchRequest
    asked = None if topics is None else [
        request.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in topics
    ]  # fmt: skip
    response = driver.ask(request(group_id="g", topics=asked), version)
    return response.error_code or {topic.name: topic.partitions[0].error_code for topic in response.topics}


def committed_of_groups(driver: Any, *groups: Any) -> Any:
    request = protocol.OffsetFetchRequest
    asked = [
        request.OffsetFetchRequestGroup(
            group_id=name,
            topics=None if topics is None else [
                request.OffsetFetchRequestTopics(name=topic, partition_indexes=[0]) for topic in topics
            ],
        )
        for name, topics in groups
    ]  # fmt: skip
    response = driver.ask(request(groups=asked), 8)
    return {
        group.group_id: group.error_code or {topic.name: topic.partitions[0].error_code for topic in group.topics}
        for group in response.groups
    }


def test_committed_offsets(guarded: Any) -> None:
    codes = {topic.name: topic.partitions[0].error_code for topic in guarded.ask(commit("t", "u"), 8).topics}
    assert codes == {"t": GROUP_FAILED, "u": GROUP_FAILED}
    give(guarded, allow("Read", GROUP, "g"), allow("Read"))
    codes = {topic.name: topic.partitions[0].error_code for topic in guarded.ask(commit("t", "u"), 8).topics}
    assert codes == {"t": 0, "u": TOPIC_FAILED}
    give(guarded, allow("Read", TOPIC, "u", "User:other"))
    assert committed(guarded) == {"t": 0, "u": TOPIC_FAILED}
    assert committed(guarded, None) == {"t": 0}
    found = committed_of_groups(guarded, ("g", ["t", "u"]), ("h", ["t"]))
    assert found == {"g": {"t": 0, "u": TOPIC_FAILED}, "h": GROUP_FAILED}


def test_all_committed_offsets_are_those_of_topics_that_may_be_described(guarded: Any) -> None:
    give(guarded, allow("Read", GROUP, "g"), allow("Read", name="*"))
    guarded.ask(commit("t", "u"), 8)
    give(guarded, deny("Describe", name="u"))
    assert committed_of_groups(guarded, ("g", None)) == {"g": {"t": 0}}
    assert committed(guarded, None) == {"t": 0}


def test_coordinators(guarded: Any) -> None:
    request = protocol.FindCoordinatorRequest
    give(guarded, allow("Describe", GROUP, "g"))
    assert guarded.ask(request(key="h"), 3).error_code == GROUP_FAILED
    assert guarded.ask(request(key="x", key_type=1), 3).error_code == ID_FAILED
    response = guarded.ask(request(coordinator_keys=["g", "h"]), 4)
    assert {each.key: (each.error_code, each.node_id) for each in response.coordinators} == {
        "g": (0, 1),
        "h": (GROUP_FAILED, -1),
    }


def test_groups_are_listed_described_and_deleted(guarded: Any) -> None:
    give(guarded, allow("Read", GROUP, "*"), allow("Read", name="*"))
    guarded.ask(commit("t"), 8)
    guarded.state.authorizer.remove([allow("Read", GROUP, "*")])
    assert guarded.ask(protocol.ListGroupsRequest()).groups == []
    (group,) = guarded.ask(protocol.DescribeGroupsRequest(groups=["g"])).groups
    assert (group.group_id, group.error_code) == ("g", GROUP_FAILED)
    give(guarded, allow("Describe", GROUP, "g"))
    assert [each.group_id for each in guarded.ask(protocol.ListGroupsRequest()).groups] == ["g"]
    (group,) = guarded.ask(protocol.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)).groups
    assert group.authorized_operations == 1 << Operation.DESCRIBE
    (result,) = guarded.ask(protocol.DeleteGroupsRequest(groups_names=["g"])).results
    assert result.error_code == GROUP_FAILED


def test_producer_ids_are_for_clients_that_may_write_somewhere(guarded: Any) -> None:
    request = protocol.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert guarded.ask(request, 4).error_code == CLUSTER_FAILED
    give(guarded, allow("Write", name="anything"))
    assert guarded.ask(request, 4).error_code == 0
    request.transactional_id = "x"
    assert guarded.ask(request, 4).error_code == ID_FAILED


def test_transactions_need_their_id_and_their_topics_and_groups(guarded: Any) -> None:
    request = protocol.AddPartitionsToTxnRequest
    topics = [request.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "u")]
    add = request(v3_and_below_transactional_id="x", v3_and_below_producer_id=1, v3_and_below_producer_epoch=0,
                  v3_and_below_topics=topics)  # fmt: skip

    def codes() -> Any:
        response = guarded.ask(add, 3)
        return {
            topic.name: topic.results_by_partition[0].partition_error_code
            for topic in response.results_by_topic_v3_and_below
        }

    assert codes() == {"t": ID_FAILED, "u": ID_FAILED}
    give(guarded, allow("Write", ResourceType.TRANSACTIONAL_ID, "x"), allow("Write"))
    assert codes() == {"t": ErrorCode.OPERATION_NOT_ATTEMPTED, "u": TOPIC_FAILED}
    assert guarded.ask(request(transactions=[]), 4).error_code == CLUSTER_FAILED
    offsets = protocol.AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g")
    assert guarded.ask(offsets).error_code == GROUP_FAILED
    offsets.transactional_id = "y"
    assert guarded.ask(offsets).error_code == ID_FAILED
    end = protocol.EndTxnRequest(transactional_id="y", producer_id=1, producer_epoch=0, committed=True)
    assert guarded.ask(end, 3).error_code == ID_FAILED


def test_topics_are_created_with_permission(guarded: Any) -> None:
    request = protocol.CreateTopicsRequest
    topics = [request.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("v", "w")]
    give(guarded, allow("Create", name="v"))
    results = {topic.name: topic for topic in guarded.ask(request(topics=topics, timeout_ms=1000), 7).topics}
    assert (results["w"].error_code, results["w"].error_message) == (TOPIC_FAILED, "Authorization failed.")
    assert (results["v"].error_code, results["v"].topic_config_error_code) == (0, TOPIC_FAILED)
    assert (results["v"].num_partitions, results["v"].configs) == (-1, [])


def test_cluster_requests_need_permission(guarded: Any) -> None:
    alter = protocol.AlterUserScramCredentialsRequest
    request = alter(deletions=[alter.ScramCredentialDeletion(name="eve", mechanism=1)], upsertions=[])
    (result,) = guarded.ask(request).results
    assert (result.user, result.error_code) == ("eve", CLUSTER_FAILED)
    assert guarded.ask(protocol.DescribeUserScramCredentialsRequest(users=None)).error_code == CLUSTER_FAILED
    assert guarded.ask(NO_ACL).error_code == CLUSTER_FAILED
    (result,) = guarded.ask(protocol.CreateAclsRequest(creations=[creation()])).results
    assert result.error_code == CLUSTER_FAILED
    assert guarded.ask(protocol.UnregisterControllerRequest(controller_id=7)).error_code == CLUSTER_FAILED


def test_offsets_and_epochs_of_topics_that_may_be_described(guarded: Any) -> None:
    give(guarded, allow("Describe"))
    request = protocol.ListOffsetsRequest
    topics = [
        request.ListOffsetsTopic(name=name, partitions=[request.ListOffsetsPartition(partition_index=0, timestamp=-1)])
        for name in ("t", "u")
    ]
    response = guarded.ask(request(replica_id=-1, topics=topics), 5)
    assert {topic.name: topic.partitions[0].error_code for topic in response.topics} == {"t": 0, "u": TOPIC_FAILED}


def test_operations_named_in_errors_are_checked() -> None:
    """kafwire's errors name the operation that an API needs: the embedded broker asks for no other."""
    assert set(_PERMISSIONS) - {"CreateDelegationToken", "Fetch", "Metadata"} <= authorization.CHECKED


STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.mark.parametrize(("value", "enforced"), [(STANDARD, True), (f" {STANDARD} ", True), ("", False)])
def test_the_option_authorizer_class_name_enforces_acls(value: str, enforced: bool) -> None:
    its = ClusterState(configs={"authorizer.class.name": value, "super.users": "User:admin"}).authorizer
    assert its.is_enabled is enforced
    assert its.allows("User:alice", "*", Operation.READ, ResourceType.TOPIC, "flights") is not enforced
    assert its.allows("User:admin", "*", Operation.READ, ResourceType.TOPIC, "flights")


def test_another_authorizer_is_refused() -> None:
    problem = BROKER_CONFIGS["authorizer.class.name"].problem("com.example.Authorizer")
    assert problem is not None
    assert STANDARD in problem
