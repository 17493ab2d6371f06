"""The group coordinators of the simulated world, for commits and lookups from outside a group.

The first broker coordinates a group until `move_coordinator` names another, or none (-1). A test sets whether the
coordinator is loading, the group has members, or open transactions are about to change offsets.
"""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol import FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest
from kafwire.testing.simulation.log import Call, Response, Topics

LONGEST_METADATA = 4096
Where = tuple[str, int]


class Kept(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


@dataclass
class Group:
    """A group of the classic protocol, with one member at most."""

    generation: int = 0
    members: set[str] = field(default_factory=set)


class GroupApi(Topics):
    """FindCoordinator, OffsetCommit, OffsetFetch, OffsetDelete, and JoinGroup and LeaveGroup of one member."""

    def __init__(self, *, topic_ids: bool) -> None:
        super().__init__(topic_ids=topic_ids)
        self.committed: defaultdict[str, dict[tuple[str, int], Kept]] = defaultdict(dict)
        self.history: defaultdict[tuple[str, int], list[int]] = defaultdict(list)  # all offsets ever committed
        self.loading: set[str] = set()  # groups whose coordinator is loading their state
        self.with_members: set[str] = set()
        self.unstable: set[tuple[str, str, int]] = set()  # group, topic, partition
        # Error codes of responses: of FindCoordinator, of whole groups, of partitions.
        self.finding_error = 0
        self.group_error = 0
        self.offset_errors: dict[tuple[str, int], int] = {}
        self.before_4 = False  # True if coordinators behave like Kafka 3.9, else like 4.4
        self.groups: dict[str, Group] = {}
        # Offsets of open transactions: by group and producer, each with its number in the order of all commits.
        self.pending_offsets: defaultdict[str, dict[int, dict[Where, tuple[Kept, int]]]] = defaultdict(dict)
        self.commits = itertools.count(1)
        self._committed_as: dict[tuple[str, Where], int] = {}
        self._member_ids = itertools.count(1)
        self._coordinators: dict[str, int] = {}

    def coordinator(self, group: str) -> int:
        """Return the id of the broker that coordinates a group."""
        return self._coordinators.get(group, min(self.nodes))

    def move_coordinator(self, group: str, node: int) -> None:
        """Make `node` the coordinator of `group`; -1: the group has no coordinator."""
        self._coordinators[group] = node

    def _refusal(self, call: Call, group: str) -> int:
        if self.coordinator(group) != call.node:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if group in self.loading else self.group_error

    def refuses_member(self, group: str, member: str, generation: int, *, is_transactional: bool = False) -> int:
        """Return the error code for a commit in the name of this member, or 0."""
        if group in self.with_members and not member:
            return ErrorCode.UNKNOWN_MEMBER_ID
        known = self.groups.get(group)
        if known is None:
            return ErrorCode.ILLEGAL_GENERATION if generation >= 0 else 0
        if generation < 0 and not known.members:
            return 0
        if generation >= 0 or member:
            if member not in known.members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return 0 if generation == known.generation else ErrorCode.ILLEGAL_GENERATION
        return 0 if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID

    def keep(self, group: str, where: Where, kept: Kept, order: int) -> None:
        """Commit an offset, unless a later commit is stored already."""
        if order > self._committed_as.get((group, where), 0):
            self.committed[group][where] = kept
            self._committed_as[group, where] = order

    def _has_anything(self, group: str) -> bool:
        pending = self.pending_offsets.get(group, {})
        return bool(self.groups[group].members or self.committed.get(group) or any(pending.values()))

    def _is_unstable(self, group: str, where: Where) -> bool:
        pending = self.pending_offsets.get(group, {})
        return (group, *where) in self.unstable or any(where in offsets for offsets in pending.values())

    def _on_JoinGroup(self, call: Call) -> Response:
        message = call.message
        group = self.groups.setdefault(message.group_id, Group())
        member = message.member_id or f"member-{next(self._member_ids)}"
        assert group.members <= {member}, "groups of several members are not of this world"
        group.members = {member}
        group.generation += 1
        (first, *_) = message.protocols
        response = protocol.JoinGroupResponse
        return response(
            generation_id=group.generation,
            protocol_name=first.name,
            leader=member,
            member_id=member,
            members=[response.JoinGroupResponseMember(member_id=member, metadata=first.metadata)],
        )

    def _on_SyncGroup(self, call: Call) -> Response:
        return protocol.SyncGroupResponse(error_code=self._refusal(call, call.message.group_id), assignment=b"")

    def _on_LeaveGroup(self, call: Call) -> Response:
        response = protocol.LeaveGroupResponse
        group = self.groups[call.message.group_id]
        responses = []
        for member in call.message.members:
            code = 0 if member.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
            responses.append(response.MemberResponse(member_id=member.member_id, error_code=code))
            group.members.discard(member.member_id)
        group.generation += not group.members
        return response(members=responses)

    def _on_OffsetDelete(self, call: Call) -> Response:
        message, response = call.message, protocol.OffsetDeleteResponse
        refusal = self._refusal(call, message.group_id)
        if not refusal and message.group_id not in self.groups:
            refusal = ErrorCode.GROUP_ID_NOT_FOUND
        if refusal:
            return response(error_code=refusal)
        topics = []
        for topic in message.topics:
            parts = []
            for asked in topic.partitions:
                known = self.topics.get(topic.name)
                index = asked.partition_index
                code = (
                    0 if known is not None and index < len(known.partitions) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                parts.append(response.OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if not code:
                    self.committed[message.group_id].pop((topic.name, index), None)
                    for pending in self.pending_offsets[message.group_id].values():
                        pending.pop((topic.name, index), None)
            topics.append(response.OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
        if self.before_4 and not self._has_anything(message.group_id):
            del self.groups[message.group_id]
        return response(topics=topics)

    def _on_FindCoordinator(self, call: Call) -> Response:
        response = protocol.FindCoordinatorResponse
        if call.version < FindCoordinatorRequest.KEY_LISTS:
            return response(**self._place(call.message.key))
        return response(
            coordinators=[response.Coordinator(key=key, **self._place(key)) for key in call.message.coordinator_keys]
        )

    def _place(self, group: str) -> dict[str, Any]:
        node = self.nodes.get(self.coordinator(group))
        if node is None or node.down or self.finding_error:
            code = self.finding_error or ErrorCode.COORDINATOR_NOT_AVAILABLE
            return {"error_code": code, "node_id": -1, "host": "", "port": -1}
        return {"node_id": node.number, "host": node.host, "port": node.port}

    def _on_OffsetCommit(self, call: Call) -> Response:
        response = protocol.OffsetCommitResponse
        message = call.message
        refusal = self._refusal(call, message.group_id)
        if not refusal:
            generation = message.generation_id_or_member_epoch
            refusal = self.refuses_member(message.group_id, message.member_id, generation)
            if refusal == ErrorCode.ILLEGAL_GENERATION and message.group_id not in self.groups:
                refusal = (
                    ErrorCode.GROUP_ID_NOT_FOUND
                    if call.version >= OffsetCommitRequest.MEMBER_EPOCHS and not self.before_4
                    else refusal
                )
        topics = []
        for topic in message.topics:
            name, unknown = self._name(topic.name, topic.topic_id)
            parts = []
            for asked in topic.partitions:
                index = asked.partition_index
                error = unknown
                if not error and index >= len(self.topics[name].partitions):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if not error and len((asked.committed_metadata or "").encode()) > LONGEST_METADATA:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                code = refusal or error or self.offset_errors.get((name, index), 0)
                parts.append(response.OffsetCommitResponsePartition(partition_index=index, error_code=code))
                if not code:
                    self.groups.setdefault(message.group_id, Group())
                    kept = Kept(asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata or "")
                    self.keep(message.group_id, (name, index), kept, next(self.commits))
                    self.history[name, index].append(asked.committed_offset)
            topics.append(
                response.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)
            )
        return response(topics=topics)

    def _name(self, name: str, topic_id: uuid.UUID) -> tuple[str, int]:
        """Return a topic's name, and the error code if it does not exist."""
        topic = self.find(name, topic_id)
        if topic is not None:
            return topic.name, 0
        return name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID

    def _on_OffsetFetch(self, call: Call) -> Response:
        response: Any = protocol.OffsetFetchResponse
        message = call.message
        if call.version < OffsetFetchRequest.GROUPS:
            refusal = self._refusal(call, message.group_id)
            topics = [] if refusal else self._offsets(call, message.group_id, message.topics)
            return response(topics=topics, error_code=refusal)
        groups = []
        for group in message.groups:
            refusal = self._refusal(call, group.group_id)
            topics = [] if refusal else self._offsets(call, group.group_id, group.topics)
            groups.append(response.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=refusal))
        return response(groups=groups)

    def _offsets(self, call: Call, group: str, asked: list[Any] | None) -> list[Any]:
        """Return the committed offsets of the requested partitions; None: of all."""
        response: Any = protocol.OffsetFetchResponse
        in_groups = call.version >= OffsetFetchRequest.GROUPS
        topic_kind = response.OffsetFetchResponseTopics if in_groups else response.OffsetFetchResponseTopic
        kind = response.OffsetFetchResponsePartitions if in_groups else response.OffsetFetchResponsePartition
        committed = self.committed.get(group, {})
        wanted: list[tuple[str, uuid.UUID, list[int]]]
        if asked is None:
            names = sorted({name for name, _ in committed if name in self.topics})
            wanted = [(n, self.topics[n].topic_id, sorted(i for name, i in committed if name == n)) for n in names]
        else:
            wanted = [(t.name, t.topic_id if in_groups else uuid.UUID(int=0), t.partition_indexes) for t in asked]
        responses = []
        for given, topic_id, indexes in wanted:
            name, error = self._name(given, topic_id)
            parts = []
            for index in indexes:
                # A coordinator does not check whether such a partition exists.
                code = error if error == ErrorCode.UNKNOWN_TOPIC_ID else self.offset_errors.get((name, index), 0)
                if _wants_stable(call) and self._is_unstable(group, (name, index)):
                    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                kept = Kept(-1) if code else committed.get((name, index), Kept(-1))
                parts.append(
                    kind(
                        partition_index=index,
                        committed_offset=kept.offset,
                        committed_leader_epoch=kept.leader_epoch,
                        metadata=kept.metadata,
                        error_code=code,
                    )
                )
            responses.append(topic_kind(name=given, partitions=parts))
            if in_groups:
                responses[-1].topic_id = topic_id
        return responses


def _wants_stable(call: Call) -> bool:
    return call.version >= OffsetFetchRequest.STABLE and bool(call.message.require_stable)
