"""One share group: its members, its epochs, and the partitions of each member.

A heartbeat has a member's subscription. If it changes the group's subscriptions, or if partitions have become readable,
the group's epoch goes up, and the coordinator makes a new assignment, whose epoch is then the group's. A member gets
its part of it with its next heartbeat. The rules are those of Kafka's `GroupMetadataManager`. See KIP-932.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.consumer_member import TopicPartition
from kafwire.broker.groups.group import GroupState, GroupType
from kafwire.broker.groups.hash_order import buckets_of_copy, hash_of_text, in_hash_order
from kafwire.broker.groups.member_timers import Limit, MemberTimers
from kafwire.broker.groups.share_assignor import ShareSpec, simple
from kafwire.broker.groups.share_member import ShareMember, check_epoch
from kafwire.broker.groups.subscriptions import Metadata, metadata_of
from kafwire.broker.share.share_states import ShareStates
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

SHARE = "share"
_NOTHING: frozenset[TopicPartition] = frozenset()


class ShareGroup:
    """A group. `state` is the cluster's, for time, topics and options."""

    type = GroupType.SHARE
    protocol_type = SHARE
    expires = False

    def __init__(self, state: ClusterState, group_id: str) -> None:
        self._cluster = state
        self._states: ShareStates = state.part(ShareStates)
        self.group_id = group_id
        self.epoch = 1
        self.assignment_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, frozenset[TopicPartition]] = {}  # each member's target assignment
        self._assigned_ms: float | None = None
        self._metadata: Metadata = {}  # the topics behind the group's epoch
        self.timers = MemberTimers(state)

    # --- state, and checks of requests

    @property
    def state(self) -> GroupState:
        """The group's state."""
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def is_subscribed(self, topic: str) -> bool:
        """True if a member subscribes to a topic."""
        return any(topic in each.topics for each in self.members.values())

    def unused_since(self, topic: str, committed_ms: int) -> int | None:
        """Return the time of the commit: a share group needs no offsets of other groups' kind."""
        del topic
        return committed_ms

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> int:
        """Return an error: members acknowledge records, and commit no offsets."""
        del member_id, instance_id, generation, is_transactional, version
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_partitions(self, member_id: str, generation: int, places: Collection[tuple[str, int]]) -> int:
        """See `check_commit`."""
        del member_id, generation, places
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """Return 0 without a member id, so that the response has no offsets; else an error."""
        return 0 if member_id is None and epoch < 0 else ErrorCode.GROUP_ID_NOT_FOUND

    def check_offset_delete(self) -> int:
        """See `check_commit`."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def leave_classic(self, leaving: Sequence[tuple[str, str | None]]) -> list[int]:
        """Return an error for each member: none uses the classic protocol."""
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)

    # --- heartbeats

    def heartbeat(self, message: Any, client_id: str, host: str) -> Any:
        """Handle a heartbeat of a member that joins or stays. Return the response.

        Raises:
            Refusal: nothing is changed.
        """
        before = self._before(message)
        updated = before.updated(message, client_id, host)
        after = {**self.members, updated.member_id: updated}
        has_changed = self._plan(after, has_new_names=updated.topics != before.topics)
        if has_changed:
            self.epoch += 1
        if self.epoch > self.assignment_epoch and self._may_assign():
            self._assign(after)
        target = self.targets.get(updated.member_id, _NOTHING)
        known = self._cluster.topics.by_name
        subscribed = {known[name].topic_id for name in updated.topics if name in known}
        now = updated.step(self.assignment_epoch, target, subscribed, has_changed=has_changed)
        self.members[now.member_id] = now
        self._time_session(now.member_id)
        response = protocol.ShareGroupHeartbeatResponse(
            member_id=now.member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=self._cluster.group_config_int(self.group_id, "share.heartbeat.interval.ms"),
        )
        is_full = message.subscribed_topic_names is not None
        if message.member_epoch == 0 or is_full or now.assigned != before.assigned:
            response.assignment = _assignment_of(now.assigned)
        self._make_ready(after)
        return response

    def _before(self, message: Any) -> ShareMember:
        """Return the member before its heartbeat; a new one if it joins."""
        most = self._cluster.config_int("group.share.max.size")
        if len(self.members) >= most and message.member_id not in self.members:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {most} members.",
            )
        member = self.members.get(message.member_id)
        if member is None:
            if message.member_epoch != 0:
                raise self._unknown(message.member_id)
            member = ShareMember(message.member_id)
        check_epoch(member, message.member_epoch)
        return member

    def _unknown(self, member_id: str) -> Refusal:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")

    # --- epochs and assignments

    def _plan(self, after: dict[str, ShareMember], *, has_new_names: bool) -> bool:
        """Check if the group needs another assignment. Return True if its epoch must go up."""
        is_due = self.epoch <= self.assignment_epoch and self._has_unassigned()
        metadata = metadata_of(self._cluster.topics, _names(after))
        has_changed = has_new_names or is_due or metadata != self._metadata
        if has_changed:
            self._metadata = metadata
        return has_changed

    def _has_unassigned(self) -> bool:
        """True if the readable partitions of members' topics differ from the assigned ones."""
        wanted = {name for each in self.members.values() for name in each.topics}
        targets = {each for target in self.targets.values() for each in target}
        by_id = self._cluster.topics.by_id
        for topic_id, indexes in self._states.ready(self.group_id).items():
            if topic_id in by_id and by_id[topic_id].name in wanted:
                assigned = {index for its, index in targets if its == topic_id}
                if assigned != set(indexes):
                    return True
        return False

    def _may_assign(self) -> bool:
        """True if enough time has passed since the last assignment (KIP-1263)."""
        interval_ms = self._cluster.group_config_int(self.group_id, "share.assignment.interval.ms")
        return self._assigned_ms is None or self._cluster.now_ms >= self._assigned_ms + interval_ms

    def _assign(self, after: dict[str, ShareMember]) -> None:
        ready, known, counts = self._states.ready(self.group_id), self._cluster.topics.by_name, _names(after)
        names = in_hash_order(counts, hash_of_text, buckets=buckets_of_copy(len(counts)))
        topics = {
            topic.topic_id: [index for index in range(len(topic.partitions)) if index in ready.get(topic.topic_id, ())]
            for topic in (known[name] for name in names if name in known)
        }
        wanted = {
            name: frozenset(known[topic].topic_id for topic in each.topics if topic in known)
            for name, each in after.items()
        }
        is_even = all(count == len(after) for count in counts.values())
        before = {name: self.targets.get(name, _NOTHING) for name in after}
        made = simple(ShareSpec(wanted, before, topics, is_even=is_even))
        self.targets = {name: made.get(name, _NOTHING) for name in after}
        self.assignment_epoch = self.epoch
        self._assigned_ms = self._cluster.now_ms

    def _make_ready(self, after: dict[str, ShareMember]) -> None:
        """Make the partitions of members' topics readable after the response."""
        known = self._cluster.topics.by_name
        for name in _names(after):
            if name in known:
                self._states.initialize(self.group_id, known[name].topic_id, len(known[name].partitions))

    # --- leaving

    def leave(self, member_id: str) -> Any:
        """Remove a member. Return the response.

        Raises:
            Refusal: the member is not in the group.
        """
        if member_id not in self.members:
            raise self._unknown(member_id)
        self._remove(member_id)
        return protocol.ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=-1)

    def _remove(self, member_id: str) -> None:
        """Remove a member that has left, or whose session has ended."""
        del self.members[member_id]
        self.targets.pop(member_id, None)
        self.timers.stop(member_id)
        self._metadata = metadata_of(self._cluster.topics, _names(self.members))
        self.epoch += 1
        if not self.members:  # no partitions are left to assign, and the next member does not wait
            self.assignment_epoch, self._assigned_ms = self.epoch, None

    def _time_session(self, member_id: str) -> None:
        """Restart a member's session."""
        delay_ms = self._cluster.group_config_int(self.group_id, "share.session.timeout.ms")
        self.timers.start(member_id, Limit.SESSION, delay_ms, lambda: self._remove(member_id))

    # --- coordinators

    def unload(self, *, tell: bool) -> None:
        """End this coordinator's work for the group. No member waits for a response."""
        del tell
        self.timers.stop_all()

    def load(self) -> None:
        """Load the group at another broker: no state is lost, and sessions restart."""
        for member_id in self.members:
            self._time_session(member_id)


def _names(members: dict[str, ShareMember]) -> Counter[str]:
    """Return the topics of members' subscriptions, with the number of members of each."""
    return Counter(name for each in members.values() for name in each.topics)


def _assignment_of(assigned: Collection[TopicPartition]) -> Any:
    """Return a member's assignment for its response."""
    response = protocol.ShareGroupHeartbeatResponse
    topics: dict[uuid.UUID, list[int]] = {}
    for topic_id, index in sorted(assigned, key=lambda place: (place[0].int, place[1])):
        topics.setdefault(topic_id, []).append(index)
    return response.Assignment(
        topic_partitions=[response.TopicPartitions(topic_id=each, partitions=its) for each, its in topics.items()]
    )
