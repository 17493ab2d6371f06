"""Streams groups of the embedded broker: time, coordinators, internal topics, ACLs, and offsets.

`tests/integration/broker/test_broker_streams_groups_compared.py` compares the rest with a real broker.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.groups.streams_topics import Status
from kafwire.broker.security.acls import Acl, Authorizer
from kafwire.errors import ErrorCode
from tests.support.stream.streams_driver import GROUP, ROLES, STORE, TOPIC, StreamsDriver, described, statuses
from tests.support.stream.streams_group_walk import HEARTBEAT, subtopology

SESSION_MS = 45_000  # group.streams.session.timeout.ms
DELAY_MS = 3_000
DELAYED = Status.ASSIGNMENT_DELAYED


# --- time


def test_a_session_ends() -> None:
    driver = StreamsDriver()
    first, second = driver.joined("a", "b")
    epoch = driver.group.epoch
    driver.pass_ms(SESSION_MS - 1_000)
    first.beat()
    driver.pass_ms(2_000)
    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.group.epoch == epoch + 1
    first.beat()
    assert first.tasks() == [0, 1, 2, 3]


def test_a_member_that_keeps_revoked_tasks_is_removed() -> None:
    driver = StreamsDriver()
    (first,) = driver.joined("a")
    second = driver.member("b")
    second.enter()
    assert second.tasks() == []
    first.beat()  # the response revokes two tasks
    assert len(first.tasks()) == 2
    for _ in range(3):
        driver.pass_ms(6_000)
        first.beat()
    driver.pass_ms(2_001)
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert second.tasks() == [0, 1, 2, 3]


def test_a_member_that_closes_revoked_tasks_stays() -> None:
    driver = StreamsDriver()
    (first,) = driver.joined("a")
    second = driver.member("b")
    second.enter()
    first.beat()
    first.report()
    second.beat()
    driver.pass_ms(30_000)
    assert first.beat().error_code == 0
    assert sorted(first.tasks() + second.tasks()) == [0, 1, 2, 3]


def test_a_new_group_waits_for_members() -> None:
    driver = StreamsDriver(stateful=False, group_streams_initial_rebalance_delay_ms=str(DELAY_MS))
    first, second = driver.member("a"), driver.member("b")
    joined = first.enter()
    text = "Assignment delayed due to the configured initial rebalance delay."
    assert (joined.member_epoch, statuses(joined)) == (1, [(DELAYED, text)])
    assert second.enter().active_tasks == []
    driver.pass_ms(DELAY_MS)
    assert driver.group.assignment_epoch == driver.group.epoch == 3, "the timer makes the assignment"
    assert statuses(first.beat()) == []
    second.beat()
    assert (len(first.tasks()), len(second.tasks())) == (2, 2)


def test_a_new_group_of_one_heartbeat_gets_its_assignment_with_the_second() -> None:
    driver = StreamsDriver(stateful=False, group_streams_initial_rebalance_delay_ms=str(DELAY_MS))
    first = driver.member("a")
    first.enter()
    driver.pass_ms(DELAY_MS)
    assert driver.group.assignment_epoch == 1, "the coordinator has not configured the topology again"
    assert first.beat().member_epoch == 2
    assert first.tasks() == [0, 1, 2, 3]


def test_time_passes_between_assignments() -> None:
    driver = StreamsDriver(stateful=False, group_streams_assignment_interval_ms="10000")
    (first,) = driver.joined("a")
    second = driver.member("b")
    text = "Assignment delayed due to the configured assignment interval."
    assert statuses(second.enter()) == [(DELAYED, text)]
    first.report()
    assert first.tasks() == [0, 1, 2, 3]
    driver.pass_ms(10_000)
    second.beat()
    first.beat()
    assert len(first.tasks()) == 2


# --- members


def test_a_static_member_comes_back_to_its_tasks() -> None:
    driver = StreamsDriver()
    first, second = driver.member("a", instance="i1"), driver.member("b")
    for _ in range(4):
        for each in (first, second):
            each.report() if each.epoch else each.enter()
    before, epoch = first.tasks(), driver.group.epoch
    assert len(before) == 2
    assert first.beat(-2).member_epoch == -2
    assert driver.group.state.value == "Reconciling"
    successor = driver.member("c", "p-a", "i1")
    successor.enter()
    assert (successor.tasks(), driver.group.epoch) == (before, epoch)
    assert first.beat(epoch).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_member_regains_tasks_that_it_lost_to_its_instance_id() -> None:
    """As in Kafka 4.4.0, a refused heartbeat with the instance id takes the target of an unreconciled member."""
    driver = StreamsDriver()
    first, second = driver.member("a", instance="i1"), driver.member("b")
    first.enter()
    first.report()
    second.enter()
    assert driver.member("x", instance="i1").beat(1).error_code == ErrorCode.FENCED_INSTANCE_ID
    first.beat()
    assert first.tasks() == []
    first.report()
    second.beat()
    epoch, assignment = driver.group.epoch, driver.group.targets
    assert (len(second.tasks()), driver.group.state.value) == (2, "Stable")
    assert first.beat().member_epoch == epoch + 1
    assert (len(first.tasks()), driver.group.targets) == (2, assignment)


def test_members_above_the_limit_are_refused() -> None:
    driver = StreamsDriver(group_streams_max_size="1")
    driver.joined("a")
    refused = driver.member("b").enter()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 1 members.",
    )
    assert driver.member("a").enter().error_code == 0


def test_standby_tasks_are_on_other_processes() -> None:
    driver = StreamsDriver(group_streams_num_standby_replicas="1")
    first, second = driver.joined("a", "b")
    assert first.tasks("standby_tasks") == second.tasks("active_tasks")
    assert second.tasks("standby_tasks") == first.tasks("active_tasks")


def test_a_changed_option_makes_another_assignment() -> None:
    driver = StreamsDriver()
    first, second = driver.joined("a", "b")
    driver.state.group_configs[GROUP] = {"streams.num.standby.replicas": "1"}
    for _ in range(3):
        first.report()
        second.report()
    assert first.tasks("standby_tasks") == second.tasks("active_tasks")


# --- coordinators


def test_another_coordinator_has_the_members_and_not_the_memory() -> None:
    driver = StreamsDriver(nodes=(1, 2))
    first, second = driver.joined("a", "b")
    tasks = first.tasks()
    end = HEARTBEAT.Endpoint(host="h", port=1)
    shut = first.beat(user_endpoint=end, shutdown_application=True)
    assert [each.status_code for each in shut.status] == [Status.SHUTDOWN_APPLICATION]
    assert shut.endpoint_information_epoch == 1
    driver.state.move_coordinator(GROUP, 3 - driver.state.coordinator(GROUP))
    after = first.beat()
    assert (after.status, after.endpoint_information_epoch, first.tasks()) == ([], 0, tasks)
    driver.pass_ms(SESSION_MS - 1)
    assert second.beat().error_code == 0
    driver.pass_ms(1)
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID, "its session ends with the new coordinator, too"


def test_a_group_without_offsets_is_forgotten_when_it_is_empty() -> None:
    driver = StreamsDriver()
    (first,) = driver.joined("a")
    first.beat(-1)
    driver.pass_ms(600_001)
    assert described(driver).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_reads_its_topics_while_it_has_members() -> None:
    driver = StreamsDriver()
    (first,) = driver.joined("a")
    delete = protocol.OffsetDeleteRequest(group_id=GROUP)
    part = delete.OffsetDeleteRequestPartition(partition_index=0)
    delete.topics = [delete.OffsetDeleteRequestTopic(name=TOPIC, partitions=[part])]

    def deleted() -> Any:
        response = driver.ask(delete, node=driver.state.coordinator(GROUP))
        return response.error_code or response.topics[0].partitions[0].error_code

    assert deleted() == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    first.beat(-1)
    assert deleted() == 0


# --- internal topics


def test_the_broker_creates_the_internal_topics() -> None:
    driver = StreamsDriver()
    configs = [HEARTBEAT.KeyValue(key="cleanup.policy", value="compact")]
    store = HEARTBEAT.TopicInfo(name=STORE, topic_configs=configs)
    again = HEARTBEAT.TopicInfo(name="again")
    driver.topology = HEARTBEAT.Topology(
        subtopologies=[
            HEARTBEAT.Subtopology(subtopology_id="0", source_topics=[TOPIC], repartition_sink_topics=["again"]),
            HEARTBEAT.Subtopology(
                subtopology_id="1", repartition_source_topics=[again], state_changelog_topics=[store]
            ),
        ]
    )
    first = driver.member("a")
    joined = first.enter()
    (status,) = statuses(joined)
    assert status[0] == Status.MISSING_INTERNAL_TOPICS
    assert described(driver).group_state == "NotReady"
    known = driver.state.topics.by_name
    assert {name: len(known[name].partitions) for name in (STORE, "again")} == {STORE: 4, "again": 4}
    assert known[STORE].configs == {"cleanup.policy": "compact"}
    assert statuses(first.beat()) == []
    assert [len(indexes) for _, indexes in first.given["active_tasks"]] == [4, 4]
    assert described(driver).group_state == "Stable"


def test_a_refused_internal_topic_is_named_and_tried_again_later() -> None:
    driver = StreamsDriver()
    driver.topology = HEARTBEAT.Topology(
        subtopologies=[subtopology("0", (TOPIC,), stores=(STORE,), store_configs={"no.such": "1"})]
    )
    first = driver.member("a")
    missing = f"Internal topics are missing: {STORE}"
    failed = f"{missing}; Creation failed: {STORE} (Unknown topic config name: no.such)."
    assert statuses(first.enter()) == [(Status.MISSING_INTERNAL_TOPICS, missing)]
    assert statuses(first.beat()) == [(Status.MISSING_INTERNAL_TOPICS, failed)]
    driver.pass_ms(10_000)  # two intervals of heartbeats
    assert statuses(first.beat()) == [(Status.MISSING_INTERNAL_TOPICS, missing)]
    assert statuses(first.beat()) == [(Status.MISSING_INTERNAL_TOPICS, failed)]


# --- ACLs and features


def test_acls_decide_which_topics_a_group_may_use() -> None:
    driver = StreamsDriver()
    authorizer: Authorizer = driver.state.part(Authorizer)
    authorizer.enable()

    def allow(operation: str, resource_type: str, name: str) -> Acl:
        acl = Acl("User:ANONYMOUS", operation, resource_type, name)
        authorizer.add([acl])
        return acl

    first = driver.member("a")
    assert first.enter().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert described(driver).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow("Read", "Group", GROUP)
    assert first.enter().error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allow("Describe", "Topic", TOPIC)
    sight = allow("Describe", "Topic", STORE)
    denied = f"Internal topics are missing: {STORE}; Unauthorized to CREATE on topics {STORE}."
    assert statuses(first.enter()) == [(Status.MISSING_INTERNAL_TOPICS, denied)]
    allow("Create", "Topic", STORE)
    first.beat()
    assert statuses(first.beat()) == []
    assert described(driver).group_state == "Stable"
    authorizer.remove([sight])
    hidden = described(driver)
    assert (hidden.error_code, hidden.members, hidden.topology) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [], None)


def test_a_cluster_without_the_feature_refuses_streams_groups() -> None:
    driver = StreamsDriver()
    driver.state.features["streams.version"] = 0
    assert driver.member("a").enter().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(driver).error_code == ErrorCode.UNSUPPORTED_VERSION
    update = driver.ask(protocol.StreamsGroupTopologyDescriptionUpdateRequest(group_id=GROUP))
    assert (update.error_code, update.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)


# --- offsets


@pytest.mark.parametrize(("behind", "partition", "code"), [
    (0, 0, 0),
    (1, 0, ErrorCode.STALE_MEMBER_EPOCH),
    (-1, 0, ErrorCode.STALE_MEMBER_EPOCH),
])  # fmt: skip
def test_commits_name_an_epoch_in_which_the_member_ran_the_task(behind: int, partition: int, code: int) -> None:
    driver = StreamsDriver(stateful=False)
    (first,) = driver.joined("a")
    assert commit(driver, "a", first.epoch - behind, partition) == code


def test_an_earlier_epoch_commits_for_tasks_that_the_member_kept() -> None:
    driver = StreamsDriver(stateful=False)
    (first,) = driver.joined("a")
    before = first.epoch
    driver.member("b").enter()
    first.beat()
    first.report()
    kept, lost = first.tasks(), sorted({0, 1, 2, 3} - {*first.tasks()})
    assert first.epoch > before
    assert commit(driver, "a", before, kept[0]) == 0
    assert commit(driver, "a", before, lost[0]) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, "a", before, 0, topic="other") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def commit(driver: StreamsDriver, member: str, epoch: int, partition: int, topic: str = TOPIC) -> int:
    request = protocol.OffsetCommitRequest(group_id=GROUP, member_id=member, generation_id_or_member_epoch=epoch)
    parts = [request.OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)]
    request.topics = [request.OffsetCommitRequestTopic(name=topic, partitions=parts)]
    (found,) = driver.ask(request, 9).topics
    return int(found.partitions[0].error_code)


def test_an_empty_streams_group_becomes_a_classic_one() -> None:
    driver = StreamsDriver(stateful=False)
    (first,) = driver.joined("a")
    join = protocol.JoinGroupRequest(group_id=GROUP, session_timeout_ms=10_000, protocol_type="consumer")
    join.protocols = [join.JoinGroupRequestProtocol(name="range", metadata=b"")]
    assert driver.ask(join).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    first.beat(-1)
    assert driver.ask(join).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert described(driver).error_message == f"Group {GROUP} is not a streams group."
    assert first.enter().member_epoch == 2, "a classic group without members becomes a streams group"


def test_all_task_types_are_listed_or_none() -> None:
    driver = StreamsDriver()
    (first,) = driver.joined("a")
    for role in ROLES:
        alone: dict[str, Any] = {role: []}
        refused = first.beat(**alone)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert refused.error_message == "If one task-type is non-null, all must be non-null."
