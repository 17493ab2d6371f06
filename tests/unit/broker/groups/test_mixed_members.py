"""Groups with members of both protocols: how they come to be, how classic members live in them, how they end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafwire.protocol.framing import decode_versioned, encode_versioned
from tests.support.group.consumer_members import ConsumerMembers, Places


class ClassicReader:
    """A member of the classic protocol: it has its assigned partitions, and says so when it joins."""

    def __init__(self, group: ConsumerMembers, member_id: str = "", instance_id: str | None = None) -> None:
        self._group = group
        self.member_id, self.instance_id, self.generation = member_id, instance_id, -1
        self.owned: Places = set()

    def enter(self, topics: Iterable[str] = ("t",), *, version: int = 9, **fields: Any) -> Any:
        """Join, and get the generation at once if the group is of the consumer protocol."""
        subscription = ConsumerProtocolSubscription(topics=[*topics])
        names = sorted({name for name, _ in self.owned})
        subscription.owned_partitions = [
            subscription.TopicPartition(topic=name, partitions=[i for n, i in sorted(self.owned) if n == name])
            for name in names
        ]
        said: dict[str, Any] = {
            "protocol_type": "consumer",
            "session_timeout_ms": 20_000,
            "rebalance_timeout_ms": 5_000,
        }
        metadata = fields.pop("metadata", encode_versioned(subscription, 1))
        name = fields.pop("name", "range")
        request = protocol.JoinGroupRequest(
            group_id="g", member_id=self.member_id, group_instance_id=self.instance_id, **said | fields
        )
        request.protocols = [request.JoinGroupRequestProtocol(name=name, metadata=metadata)]
        response = self._ask(request, version)
        if response is not None and not response.error_code:
            self.member_id, self.generation = response.member_id, response.generation_id
        return response

    def sync(self, assignment: bytes = b"", **fields: Any) -> Any:
        said: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
        request = protocol.SyncGroupRequest(
            group_id="g",
            member_id=self.member_id,
            generation_id=self.generation,
            group_instance_id=self.instance_id,
            **said | fields,
        )
        if assignment:
            request.assignments = [request.SyncGroupRequestAssignment(member_id=self.member_id, assignment=assignment)]
        response = self._ask(request)
        if not response.error_code:
            version, reported = decode_versioned(ConsumerProtocolAssignment, bytes(response.assignment))
            assert version == 1
            self.owned = {(each.topic, index) for each in reported.assigned_partitions for index in each.partitions}
        return response

    def beat(self, generation: int | None = None) -> int:
        request = protocol.HeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            generation_id=self.generation if generation is None else generation,
        )
        return int(self._ask(request).error_code)

    def leave(self) -> int:
        request = protocol.LeaveGroupRequest(group_id="g")
        request.members = [request.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)]
        return int(self._ask(request).members[0].error_code)

    def _ask(self, request: Any, version: int | None = None) -> Any:
        return self._group.driver.ask(request, version, node=self._group.state.coordinator("g"))


def mixed(group: ConsumerMembers) -> tuple[Any, ClassicReader]:
    """A member of the consumer protocol, and one of the classic protocol, that share a topic."""
    (first,) = group.joined("a")
    other = ClassicReader(group, "c")
    assert other.enter().error_code == 0
    assert other.beat() == 0, "nothing is free"
    first.beat()
    first.beat()
    assert other.beat() == ErrorCode.REBALANCE_IN_PROGRESS, "its partitions are free"
    assert other.enter().error_code == 0
    assert other.sync().error_code == 0
    return first, other


def test_a_classic_member_joins_a_consumer_group() -> None:
    group = ConsumerMembers()
    first, other = mixed(group)
    assert len(first.owned) == len(other.owned) == 2
    assert first.owned.isdisjoint(other.owned)
    assert other.beat() == 0
    assert group.group.state.value == "Stable"
    (described,) = group.driver.ask(protocol.ConsumerGroupDescribeRequest(group_ids=["g"])).groups
    assert {each.member_id: each.member_type for each in described.members} == {"a": 1, "c": 0}


def test_it_is_given_an_id_first() -> None:
    group = ConsumerMembers()
    group.joined("a")
    other = ClassicReader(group)
    response = other.enter()
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert group.group.members.keys() == {"a"}
    other.member_id = response.member_id
    assert other.enter().error_code == 0
    older = ClassicReader(group)
    assert older.enter(version=3).error_code == 0
    assert group.group.members.keys() == {"a", other.member_id, older.member_id}


def test_it_gives_up_partitions_before_it_joins_again() -> None:
    group = ConsumerMembers()
    first, other = mixed(group)
    second = group.reader("b")
    second.enter()
    assert other.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert other.sync().error_code == ErrorCode.REBALANCE_IN_PROGRESS
    generation, had = other.generation, set(other.owned)
    assert other.enter().generation_id == generation, "it has said that it has all"
    other.sync()
    assert other.owned < had
    group.pass_ms(5_000)  # its time to join again begins when it gets that error
    assert other.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert other.enter().generation_id == generation + 1
    other.sync()
    group.settle([first, second])
    assert first.owned | second.owned | other.owned == {("t", index) for index in range(4)}


def test_wrong_requests_of_a_classic_member_are_refused() -> None:
    group = ConsumerMembers()
    _, other = mixed(group)
    assert other.beat(other.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert other.sync(protocol_name="other").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert other.sync(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert other.enter(protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert other.enter(metadata=b"?").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert ClassicReader(group, "a").beat(3) == ErrorCode.UNKNOWN_MEMBER_ID, "it does not speak this protocol"
    assert ClassicReader(group, "x").sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_of_a_classic_member_ends() -> None:
    group = ConsumerMembers()
    first, other = mixed(group)
    group.pass_ms(19_000)
    assert other.beat() == 0
    group.pass_ms(19_000)
    assert first.beat().error_code == 0
    group.pass_ms(1_000)
    assert other.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_it_does_not_ask_for_its_assignment_in_time() -> None:
    group = ConsumerMembers()
    group.joined("a")
    other = ClassicReader(group, "c")
    other.enter()
    group.pass_ms(5_000)
    assert group.group.members.keys() == {"a"}


def test_it_does_not_join_again_in_time() -> None:
    group = ConsumerMembers()
    _, other = mixed(group)
    group.reader("b").enter()
    for _ in range(4):
        assert other.beat() == ErrorCode.REBALANCE_IN_PROGRESS
        group.pass_ms(1_000)
    assert other.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    group.pass_ms(1_000)
    assert other.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_of_a_classic_member() -> None:
    group = ConsumerMembers()
    _, other = mixed(group)
    check = group.coordinator.check_commit
    assert check("g", "c", None, other.generation, is_transactional=False, version=8) == 0
    assert check("g", "c", None, other.generation + 1, is_transactional=False) == ErrorCode.ILLEGAL_GENERATION
    assert group.coordinator.check_fetch("g", "c", other.generation - 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_static_member_of_one_protocol_takes_the_place_of_one_of_the_other() -> None:
    group = ConsumerMembers()
    first, second = group.reader("a", instance_id="i"), group.reader("b")
    first.enter()
    second.enter()
    group.settle([first, second])
    had = set(first.owned)
    other = ClassicReader(group, instance_id="i")
    assert other.enter().error_code == 0
    other.sync()
    assert other.owned == had
    assert first.beat().error_code == ErrorCode.FENCED_INSTANCE_ID
    back = group.reader("d", instance_id="i")
    assert back.enter().error_code == 0
    assert back.owned == had
    assert other.beat() == ErrorCode.FENCED_INSTANCE_ID


def classic(group: ConsumerMembers) -> ClassicReader:
    """A stable classic group of one member that has two partitions."""
    other = ClassicReader(group)
    other.member_id = other.enter().member_id
    other.enter()
    places = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 1])
    assert other.sync(encode_versioned(ConsumerProtocolAssignment(assigned_partitions=[places]), 1)).error_code == 0
    return other


def test_a_classic_group_becomes_a_consumer_group_and_a_classic_one_again() -> None:
    group = ConsumerMembers()
    other = classic(group)
    first = group.reader("a")
    assert first.enter().member_epoch == 2
    assert len(first.owned) == 2
    assert ("t", 0) not in first.owned, "partitions of others are not free"
    assert other.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    other.enter()
    other.sync()
    assert (other.generation, other.beat()) == (2, 0)
    first.leave()
    found = group.coordinator.classic("g")
    assert found is not None
    assert (found.state.value, found.generation, found.protocol_name) == ("PreparingRebalance", 2, "range")
    assert other.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    joined = other.enter()
    assert (joined.generation_id, joined.leader, len(joined.members)) == (3, other.member_id, 1)


def test_waiting_members_of_a_classic_group_have_to_join_again() -> None:
    group = ConsumerMembers()
    other = classic(group)
    waits = ClassicReader(group)
    waits.member_id = waits.enter().member_id
    assert waits.enter() is None, "the others have to join first"
    assert group.reader("a").enter().error_code == 0
    assert [each.error_code for each in group.driver.late.values()] == [ErrorCode.REBALANCE_IN_PROGRESS]
    group.driver.late.clear()
    assert group.group.members.keys() == {"a", other.member_id, waits.member_id}
    assert waits.enter().error_code == 0


def test_a_classic_group_that_has_never_had_a_generation() -> None:
    group = ConsumerMembers(group_initial_rebalance_delay_ms=1000)
    assert ClassicReader(group, instance_id="i").enter() is None
    assert group.reader("a").enter().error_code == ErrorCode.UNKNOWN_SERVER_ERROR, "as in Kafka"
    assert [each.error_code for each in group.driver.late.values()] == [ErrorCode.REBALANCE_IN_PROGRESS]


@pytest.mark.parametrize(
    ("configs", "metadata", "reported"),
    [
        ({"group_consumer_migration_policy": "DISABLED"}, None, "online upgrade is disabled"),
        ({"group_consumer_migration_policy": "DOWNGRADE"}, None, "online upgrade is disabled"),
        ({"group_consumer_max_size": 1}, None, None),
        ({}, b"?", "the embedded consumer protocol is malformed"),
    ],
)
def test_a_classic_group_is_not_converted(
    configs: dict[str, Any], metadata: bytes | None, reported: str | None
) -> None:
    group = ConsumerMembers(**configs)
    other = ClassicReader(group)
    fields: dict[str, Any] = {} if metadata is None else {"metadata": metadata}
    other.member_id = other.enter(**fields).member_id
    other.enter(**fields)
    refused = group.reader("a").enter()
    if reported is None:
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    else:
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert refused.error_message == f"Cannot upgrade classic group g to consumer group because {reported}."
    assert group.coordinator.classic("g") is not None
    assert other.beat() == 0
    group.pass_ms(20_000)
    assert other.beat() == ErrorCode.UNKNOWN_MEMBER_ID, "its session is the classic group's"


@pytest.mark.parametrize("policy", ["UPGRADE", "BIDIRECTIONAL"])
def test_whether_a_consumer_group_becomes_a_classic_one(policy: str) -> None:
    group = ConsumerMembers(group_consumer_migration_policy=policy)
    first, other = mixed(group)
    first.leave()
    assert (group.coordinator.classic("g") is None) == (policy == "UPGRADE")
    assert other.beat() == (0 if policy == "UPGRADE" else ErrorCode.REBALANCE_IN_PROGRESS)


def test_protocols_that_all_classic_members_have_count() -> None:
    group = ConsumerMembers()
    mixed(group)
    assert ClassicReader(group, "d").enter(name="other").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def two_classic(group: ConsumerMembers, **fields: Any) -> list[ClassicReader]:
    """Two members of a classic group that have joined; the second one waits for its assignment."""
    readers = [ClassicReader(group), ClassicReader(group)]
    for each in readers:
        each.member_id = each.enter(**fields).member_id
        assert (each.enter(**fields) is None) == (each is readers[1])
    assert readers[0].enter(**fields).error_code == 0
    (joined,) = group.driver.late.values()
    group.driver.late.clear()
    request = protocol.SyncGroupRequest(
        group_id="g",
        member_id=readers[1].member_id,
        generation_id=joined.generation_id,
        protocol_type=joined.protocol_type,
        protocol_name="range",
    )
    group.driver.send(request, node=group.state.coordinator("g"))
    assert not group.driver.late
    return readers


def test_members_of_a_classic_group_that_wait_for_assignments_have_to_join_again() -> None:
    group = ConsumerMembers()
    two_classic(group)
    assert group.reader("a").enter().error_code == 0
    assert [each.error_code for each in group.driver.late.values()] == [ErrorCode.REBALANCE_IN_PROGRESS]


@pytest.mark.parametrize(
    ("configs", "fields", "reported"),
    [
        ({"group_consumer_max_size": 1}, {}, "the group size exceeds the consumer group maximum size"),
        ({}, {"protocol_type": "connect"}, "the group does not use the consumer embedded protocol"),
    ],
)
def test_groups_that_cannot_be_consumer_groups(configs: dict[str, Any], fields: dict[str, Any], reported: str) -> None:
    group = ConsumerMembers(**configs)
    two_classic(group, **fields)
    refused = group.reader("a").enter()
    assert refused.error_message == f"Cannot upgrade classic group g to consumer group because {reported}."
    assert not group.driver.late, "the waiting members go on to wait"


@pytest.mark.parametrize("most", [1, 2])
def test_a_consumer_group_with_too_many_for_a_classic_one(most: int) -> None:
    group = ConsumerMembers(group_max_size=most)
    first, _ = mixed(group)
    assert ClassicReader(group, "d").enter().error_code == 0
    first.leave()
    assert (group.coordinator.classic("g") is None) == (most == 1)


def test_sessions_go_on_from_one_protocol_to_the_other() -> None:
    group = ConsumerMembers()
    other = classic(group)
    first = group.reader("a")
    first.enter()
    group.pass_ms(20_000)
    assert group.group.members.keys() == {"a"}, "the classic member was silent"
    again = ClassicReader(group, "c")
    again.enter()
    again.sync()
    first.leave()
    group.pass_ms(20_000)
    found = group.coordinator.classic("g")
    assert found is not None
    assert (found.state.value, found.members) == ("Empty", {})
    assert other.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_broker_coordinates_a_group_that_became_classic() -> None:
    group = ConsumerMembers((1, 2))
    first, other = mixed(group)
    epoch = group.group.epoch
    first.leave()
    group.state.move_coordinator("g", 3 - group.state.coordinator("g"))
    assert ClassicReader(group, other.member_id).beat(epoch) == 0, "it is as it was stored, before the rebalance"
    assert other.enter().generation_id == epoch + 1


def test_an_empty_consumer_group_is_gone_when_a_classic_member_asks() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")
    first.leave()
    assert ClassicReader(group, "c").enter().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert not group.coordinator.exists("g")


@pytest.mark.parametrize("pattern", ["u", "nothing"])
def test_a_classic_member_takes_the_place_of_one_with_a_pattern(pattern: str) -> None:
    group = ConsumerMembers(topics={"t": 1, "u": 1})
    first, second = group.reader("a", instance_id="i"), group.reader("b")
    first.enter(None, subscribed_topic_regex=pattern)
    group.pass_ms(0)
    second.enter()
    group.settle([first, second])
    first.leave(-2)
    epoch = group.group.epoch
    other = ClassicReader(group, instance_id="i")
    assert other.enter([]).error_code == 0
    assert (group.group.epoch, group.group.patterns.resolved) == (epoch + 1, {})
