"""The requests of `kafwire groups`: lists and descriptions of groups, and their committed offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.cli.connection import timeout_ms
from kafwire.consumer.group.subscription import PROTOCOL_TYPE, assigned
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError, ProtocolError, broker_error
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Client

__all__ = ["Group", "Groups", "Listed", "Member"]

CLASSIC_TYPE, CONSUMER_TYPE, SHARE_TYPE, STREAMS_TYPE = "classic", "consumer", "share", "streams"
# Without topic ids, in OffsetCommit too; all brokers that kafwire supports have it.
_OFFSETS_VERSION = protocol.OffsetFetchRequest.GROUPS
_AGAIN_S = 0.1
_EMPTY = {"Empty", "Dead"}
# For a group of the classic protocol, or in a cluster that disables the new one.
_NOT_CONSUMER = {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}


@dataclass(frozen=True, slots=True)
class Listed:
    """A group in a list. `type` is "classic", "consumer" and so on; empty from brokers older than Kafka 3.8."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member. `epoch` is -1 in classic groups, as no response has their generation.

    `problem` is the reason why the assignment of a classic member cannot be decoded; its partitions are then unknown. A
    member of a streams group has tasks, such as "0_1"; its partitions are those that its active tasks read.
    """

    member_id: str
    instance_id: str
    client_id: str
    host: str
    epoch: int
    partitions: tuple[TopicPartition, ...]
    problem: str = ""
    tasks: Mapping[str, tuple[str, ...]] | None = None  # "active", "standby" and "warmup"; only in streams groups


@dataclass(frozen=True, slots=True)
class Group:
    """A group. `assignor`: the assignor of a consumer group, or the protocol that a classic group has chosen."""

    group_id: str
    type: str
    state: str
    assignor: str
    coordinator: int
    members: tuple[Member, ...]

    @property
    def is_empty(self) -> bool:
        """True if it has no members, so that its offsets may be changed."""
        return self.state in _EMPTY

    def owners(self, where: TopicPartition) -> list[Member]:
        """Return the members that read a partition: at most one, except in share groups."""
        return [member for member in self.members if where in member.partitions]


class Groups:
    """The groups of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topics: dict[Any, str] = {}
        # partitions that `ends` could not look up, with the errors
        self.unavailable: dict[TopicPartition, KafkaError] = {}

    def all(self) -> list[Listed]:
        """Return all groups, sorted by id. Raises `BrokerError` for an error of a broker."""
        found = []
        for broker in self._client.metadata([]).brokers:
            response = self._client.call(protocol.ListGroupsRequest(), broker=broker.node_id)
            _raise_for(response.error_code, f"listing the groups of broker {broker.node_id}", "ListGroups")
            found += [
                Listed(
                    each.group_id,
                    getattr(each, "group_type", "").lower(),
                    each.group_state,
                    each.protocol_type,
                    broker.node_id,
                )
                for each in response.groups
            ]
        return sorted(found, key=lambda each: each.group_id)

    def describe(self, group_id: str) -> Group:
        """Return a group of any type. Raises `BrokerError`; GROUP_ID_NOT_FOUND if it does not exist."""
        coordinator = self._coordinator(group_id)
        try:
            asked = protocol.ConsumerGroupDescribeRequest(group_ids=[group_id])
            (its,) = self._client.call(asked, broker=coordinator).groups
        except ProtocolError:  # Kafka before 3.7 has only classic groups
            return self._classic(group_id, coordinator)
        if its.error_code in _NOT_CONSUMER:
            return self._classic(group_id, coordinator)
        _raise_for(its.error_code, f"describing group {group_id}", "ConsumerGroupDescribe", its.error_message)
        members = tuple(_member(each, _partitions(each.assignment)) for each in its.members)
        return Group(group_id, CONSUMER_TYPE, its.group_state, its.assignor_name, coordinator, members)

    def _classic(self, group_id: str, coordinator: int) -> Group:
        asked = protocol.DescribeGroupsRequest(groups=[group_id])
        (its,) = self._client.call(asked, broker=coordinator).groups
        code = its.error_code or (ErrorCode.GROUP_ID_NOT_FOUND if its.group_state == "Dead" else 0)
        if code == ErrorCode.GROUP_ID_NOT_FOUND and (found := self._of_newer_type(group_id, coordinator)) is not None:
            return found
        _raise_for(code, f"describing group {group_id}", "DescribeGroups")
        members = []
        for each in its.members:
            given, problem = _assigned(each.member_assignment) if its.protocol_type == PROTOCOL_TYPE else ((), "")
            instance_id = each.group_instance_id or ""
            members.append(Member(each.member_id, instance_id, each.client_id, each.client_host, -1, given, problem))
        return Group(group_id, CLASSIC_TYPE, its.group_state, its.protocol_data, coordinator, tuple(members))

    def _of_newer_type(self, group_id: str, coordinator: int) -> Group | None:
        """Return a share or streams group; None if there is none of this name."""
        for each in self._client.call(protocol.ListGroupsRequest(), broker=coordinator).groups:
            kind = getattr(each, "group_type", "").lower()
            if each.group_id == group_id and kind == SHARE_TYPE:
                return self._share(group_id, coordinator)
            if each.group_id == group_id and kind == STREAMS_TYPE:
                return self._streams(group_id, coordinator)
        return None

    def _share(self, group_id: str, coordinator: int) -> Group:
        asked = protocol.ShareGroupDescribeRequest(group_ids=[group_id])
        (its,) = self._client.call(asked, broker=coordinator).groups
        _raise_for(its.error_code, f"describing group {group_id}", "ShareGroupDescribe", its.error_message)
        members = tuple(_member(each, _partitions(each.assignment)) for each in its.members)
        return Group(group_id, SHARE_TYPE, its.group_state, its.assignor_name, coordinator, members)

    def _streams(self, group_id: str, coordinator: int) -> Group:
        asked = protocol.StreamsGroupDescribeRequest(group_ids=[group_id])
        (its,) = self._client.call(asked, broker=coordinator).groups
        _raise_for(its.error_code, f"describing group {group_id}", "StreamsGroupDescribe", its.error_message)
        topics = {
            each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
            for each in (its.topology.subtopologies or () if its.topology is not None else ())
        }
        there = self.existing({topic for names in topics.values() for topic in names}) if its.members else set()
        members = []
        for each in its.members:
            tasks = {
                "active": _task_ids(each.assignment.active_tasks),
                "standby": _task_ids(each.assignment.standby_tasks),
                "warmup": _task_ids(each.assignment.warmup_tasks),
            }
            read = {
                TopicPartition(topic, number)
                for task in each.assignment.active_tasks
                for topic in topics.get(task.subtopology_id, ())
                for number in task.partitions
            }
            # a task may have more partitions than one of its topics has
            members.append(_member(each, tuple(sorted(read & there)), tasks))
        return Group(group_id, STREAMS_TYPE, its.group_state, its.assignor_name or "", coordinator, tuple(members))

    def offsets(self, group: Group) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int | None] | None]:
        """Return the committed offsets of a group; for a share group, its start offsets and the broker's lags.

        Each partition with state of the share group has a lag, which is None if the broker does not know it.
        """
        if group.type != SHARE_TYPE:
            return self.committed(group.group_id), None
        request: Any = protocol.DescribeShareGroupOffsetsRequest
        asked = request(groups=[request.DescribeShareGroupOffsetsRequestGroup(group_id=group.group_id, topics=None)])
        (its,) = self._client.call(asked, broker=group.coordinator).groups
        what = f"fetching the offsets of group {group.group_id}"
        _raise_for(its.error_code, what, "DescribeShareGroupOffsets", its.error_message)
        starts, lags = dict[TopicPartition, int](), dict[TopicPartition, int | None]()
        for topic in its.topics:
            for part in topic.partitions:
                where = TopicPartition(topic.topic_name, part.partition_index)
                _raise_for(part.error_code, f"{what}, {where.topic}-{where.partition}", "DescribeShareGroupOffsets")
                lags[where] = part.lag if part.lag >= 0 else None
                if part.start_offset >= 0:
                    starts[where] = part.start_offset
        return starts, lags

    def set_offsets(self, group: Group | None, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of an empty group; None creates it. Raises `BrokerError` for the first refusal."""
        if group is None or group.type != SHARE_TYPE:
            self.commit(group_id, offsets)
            return
        request: Any = protocol.AlterShareGroupOffsetsRequest
        topics = [
            request.AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    request.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
                    for number, offset in places
                ],
            )
            for name, places in _by_topic(offsets).items()
        ]
        response = self._client.call(request(group_id=group_id, topics=topics), broker=group.coordinator)
        what = f"setting the start offsets of group {group_id}"
        _raise_for(response.error_code, what, "AlterShareGroupOffsets", response.error_message)
        for topic in response.responses:
            for part in topic.partitions:
                place = f"{what}, {topic.topic_name}-{part.partition_index}"
                _raise_for(part.error_code, place, "AlterShareGroupOffsets", part.error_message)

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """Return all committed offsets of a group; open transactions are not awaited, even with read_committed."""
        request: Any = protocol.OffsetFetchRequest
        asked = request(groups=[request.OffsetFetchRequestGroup(group_id=group_id, topics=None)])
        (its,) = self._client.call(asked, broker=self._coordinator(group_id), version=_OFFSETS_VERSION).groups
        _raise_for(its.error_code, f"fetching the offsets of group {group_id}", "OffsetFetch")
        return {
            TopicPartition(topic.name, part.partition_index): part.committed_offset
            for topic in its.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of an empty group. Raises `BrokerError` for the first refusal."""
        request: Any = protocol.OffsetCommitRequest
        topics = []
        for name, places in _by_topic(offsets).items():
            parts = [
                request.OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                for number, offset in places
            ]
            topics.append(request.OffsetCommitRequestTopic(name=name, partitions=parts))
        asked = request(group_id=group_id, topics=topics)
        response = self._client.call(asked, broker=self._coordinator(group_id), version=_OFFSETS_VERSION)
        for topic in response.topics:
            for part in topic.partitions:
                what = f"committing {topic.name}-{part.partition_index} for group {group_id}"
                _raise_for(part.error_code, what, "OffsetCommit")

    def delete(self, group_id: str) -> None:
        """Delete a group with its offsets. Raises `BrokerError`."""
        asked = protocol.DeleteGroupsRequest(groups_names=[group_id])
        (its,) = self._client.call(asked, broker=self._coordinator(group_id)).results
        _raise_for(its.error_code, f"deleting group {group_id}", "DeleteGroups", its.error_message)

    def partitions(self, topic: str) -> list[int]:
        """Return the partition numbers of a topic. Raises `BrokerError` if it does not exist."""
        return sorted(self._client.partitions_for(topic))

    def existing(self, topics: Iterable[str]) -> set[TopicPartition]:
        """Return the partitions of the topics that exist."""
        return {
            TopicPartition(topic.name, part.partition_index)
            for topic in self._client.metadata(set(topics)).topics
            if not topic.error_code
            for part in topic.partitions
        }

    def ends(self, partitions: Iterable[TopicPartition], when: Any) -> dict[TopicPartition, int]:
        """Look up offsets by time, for partitions that still exist and whose leaders respond; see `unavailable`."""
        wanted = list(partitions)
        there = self.existing({where.topic for where in wanted})
        for where in wanted:
            self.unavailable.pop(where, None)
        available = [where for where in wanted if where in there]
        return self._client.offsets(available, when, on_error=self.unavailable.__setitem__)

    def _coordinator(self, group_id: str) -> int:
        asked = protocol.FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
        give_up = time.monotonic() + timeout_ms() / 1000
        while True:  # on the first request, a cluster creates the offsets topic, which takes a while
            (its,) = self._client.call(asked).coordinators
            if its.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE or time.monotonic() >= give_up:
                break
            time.sleep(_AGAIN_S)
        _raise_for(its.error_code, f"looking for the coordinator of group {group_id}", "FindCoordinator")
        return int(its.node_id)


def _member(
    described: Any, partitions: tuple[TopicPartition, ...], tasks: Mapping[str, tuple[str, ...]] | None = None
) -> Member:
    """Return a member of a group other than a classic one; members of share groups have no instance id."""
    return Member(
        described.member_id,
        getattr(described, "instance_id", None) or "",
        described.client_id,
        described.client_host,
        described.member_epoch,
        partitions,
        tasks=tasks,
    )


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, list[tuple[int, int]]]:
    """Return partition numbers and offsets by topic."""
    found: dict[str, list[tuple[int, int]]] = {}
    for where, offset in offsets.items():
        found.setdefault(where.topic, []).append((where.partition, offset))
    return found


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions
    )


def _task_ids(tasks: Iterable[Any]) -> tuple[str, ...]:
    return tuple(f"{task.subtopology_id}_{number}" for task in tasks for number in task.partitions)


def _assigned(data: bytes) -> tuple[tuple[TopicPartition, ...], str]:
    """Return the partitions assigned to a classic member, or none and the reason."""
    try:
        return tuple(TopicPartition(*where) for where in assigned(data)), ""
    except ProtocolError as error:  # the group's leader may be any client, with its own assignor
        return (), str(error)


def _raise_for(code: int, what: str, api: str, message: str | None = None) -> None:
    if code:
        error: KafkaError = broker_error(code, f"{what}: {message}" if message else what, api=api)
        raise error
