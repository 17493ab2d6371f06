"""The coordinators of the simulated world's groups, for who commits and asks from outside a group's membership.

A group's coordinator is the first broker until `move_coordinator` says another, or none (-1). It may be loading, the
group may have members, and open transactions may be about to change offsets: a test says so.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from typing import Any, NamedTuple

from kafwire import protocol
from tests.unit.simulated_log import UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, Answer, Call, Topics

COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25
UNSTABLE_OFFSET_COMMIT = 88


class Kept(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


class GroupApi(Topics):
    """FindCoordinator, OffsetCommit and OffsetFetch."""

    def __init__(self, *, topic_ids: bool) -> None:
        super().__init__(topic_ids=topic_ids)
        self.committed: defaultdict[str, dict[tuple[str, int], Kept]] = defaultdict(dict)
        self.history: defaultdict[tuple[str, int], list[int]] = defaultdict(list)  # all that was ever committed
        self.loading: set[str] = set()  # groups whose coordinator has just taken over
        self.with_members: set[str] = set()
        self.unstable: set[tuple[str, str, int]] = set()  # group, topic, partition
        # Error codes instead of answers: of FindCoordinator, of groups as a whole, of partitions.
        self.finding_error = 0
        self.group_error = 0
        self.offset_errors: dict[tuple[str, int], int] = {}
        self._coordinators: dict[str, int] = {}

    def coordinator(self, group: str) -> int:
        return self._coordinators.get(group, min(self.nodes))

    def move_coordinator(self, group: str, node: int) -> None:
        """From now on `node` coordinates `group`; -1: nobody does."""
        self._coordinators[group] = node

    def _refusal(self, call: Call, group: str) -> int:
        if self.coordinator(group) != call.node:
            return NOT_COORDINATOR
        return COORDINATOR_LOAD_IN_PROGRESS if group in self.loading else self.group_error

    def _on_FindCoordinator(self, call: Call) -> Answer:
        response = protocol.FindCoordinatorResponse
        if call.version < 4:
            return response(**self._place(call.message.key))
        return response(
            coordinators=[response.Coordinator(key=key, **self._place(key)) for key in call.message.coordinator_keys]
        )

    def _place(self, group: str) -> dict[str, Any]:
        node = self.nodes.get(self.coordinator(group))
        if node is None or node.down or self.finding_error:
            code = self.finding_error or COORDINATOR_NOT_AVAILABLE
            return {"error_code": code, "node_id": -1, "host": "", "port": -1}
        return {"node_id": node.number, "host": node.host, "port": node.port}

    def _on_OffsetCommit(self, call: Call) -> Answer:
        response = protocol.OffsetCommitResponse
        message = call.message
        refusal = self._refusal(call, message.group_id)
        if not refusal and message.group_id in self.with_members and not message.member_id:
            refusal = UNKNOWN_MEMBER_ID
        topics = []
        for topic in message.topics:
            name, unknown = self._name(topic.name, topic.topic_id)
            parts = []
            for asked in topic.partitions:
                index = asked.partition_index
                error = unknown
                if not error and index >= len(self.topics[name].partitions):
                    error = UNKNOWN_TOPIC
                code = refusal or error or self.offset_errors.get((name, index), 0)
                parts.append(response.OffsetCommitResponsePartition(partition_index=index, error_code=code))
                if not code:
                    self.committed[message.group_id][name, index] = Kept(
                        asked.committed_offset, asked.committed_leader_epoch, asked.committed_metadata
                    )
                    self.history[name, index].append(asked.committed_offset)
            topics.append(
                response.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)
            )
        return response(topics=topics)

    def _name(self, name: str, topic_id: uuid.UUID) -> tuple[str, int]:
        """A topic's name, and the error code for one that does not exist."""
        topic = self.find(name, topic_id)
        if topic is not None:
            return topic.name, 0
        return name, UNKNOWN_TOPIC if name else UNKNOWN_TOPIC_ID

    def _on_OffsetFetch(self, call: Call) -> Answer:
        response: Any = protocol.OffsetFetchResponse
        message = call.message
        if call.version < 8:
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
        """What a group has committed of the partitions asked for; None: of all."""
        response: Any = protocol.OffsetFetchResponse
        in_groups = call.version >= 8
        topic_kind = response.OffsetFetchResponseTopics if in_groups else response.OffsetFetchResponseTopic
        kind = response.OffsetFetchResponsePartitions if in_groups else response.OffsetFetchResponsePartition
        committed = self.committed.get(group, {})
        wanted: list[tuple[str, uuid.UUID, list[int]]]
        if asked is None:
            names = sorted({name for name, _ in committed if name in self.topics})
            wanted = [(n, self.topics[n].topic_id, sorted(i for name, i in committed if name == n)) for n in names]
        else:
            wanted = [(t.name, t.topic_id if in_groups else uuid.UUID(int=0), t.partition_indexes) for t in asked]
        answers = []
        for given, topic_id, indexes in wanted:
            name, error = self._name(given, topic_id)
            parts = []
            for index in indexes:
                # A coordinator does not look whether there is such a partition.
                code = error if error == UNKNOWN_TOPIC_ID else self.offset_errors.get((name, index), 0)
                if _wants_stable(call) and (group, name, index) in self.unstable:
                    code = UNSTABLE_OFFSET_COMMIT
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
            answers.append(topic_kind(name=given, partitions=parts))
            if in_groups:
                answers[-1].topic_id = topic_id
        return answers


def _wants_stable(call: Call) -> bool:
    return call.version >= 7 and bool(call.message.require_stable)
