"""All groups of a cluster, and what their coordinators check. One group's own rules are in `classic_group.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.errors import ErrorCode, ProtocolError
from kafwire.protocol.consumer_protocol import ConsumerProtocolSubscription
from kafwire.protocol.framing import decode_versioned
from kafwire.testing.broker.classic_group import ClassicGroup, GroupState
from kafwire.testing.broker.offsets import OffsetStore

if TYPE_CHECKING:
    from kafwire.testing.broker.request import Request
    from kafwire.testing.broker.state import ClusterState


class GroupCoordinator:
    """All groups. `loading`: those whose coordinator has just taken over."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.groups: dict[str, ClassicGroup] = {}
        self.loading: set[str] = set()
        self.answers: dict[str, int] = {}  # error codes that all requests about a group get

    def refuses(self, request: Request, group_id: str) -> int:
        """The error code of a broker that does not coordinate a group, or not yet."""
        if self._state.coordinator(group_id) != request.node:
            return ErrorCode.NOT_COORDINATOR
        if group_id in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self.answers.get(group_id, 0)

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return group_id in self.groups

    def ensure(self, group_id: str) -> ClassicGroup:
        """A group, which is there from then on."""
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = ClassicGroup(self._state, group_id)
        return found

    def forget_if_empty(self, group_id: str) -> None:
        """A group without members is there no more."""
        found = self.groups.get(group_id)
        if found is not None and not found.members:
            found.state = GroupState.DEAD
            del self.groups[group_id]

    def delete(self, group_id: str) -> int:
        """Delete a group with its offsets. Returns an error code."""
        found = self.groups.get(group_id)
        if found is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if found.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self.forget_if_empty(group_id)
        store: OffsetStore = self._state.part(OffsetStore)
        store.delete_group(group_id)
        return 0

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
    ) -> int:
        """The error code for who commits in the name of this member; 0: it may."""
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.ILLEGAL_GENERATION if generation >= 0 else 0
        if generation < 0 and group.state is GroupState.EMPTY:
            return 0
        if generation >= 0 or member_id or instance_id is not None:
            code = group.refuses_member(member_id, instance_id)
            if code:
                return code
            if generation != group.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional and group.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return 0

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> int:
        """The error code for who asks for offsets in the name of this member. Classic groups let everybody."""
        del group_id, member_id, member_epoch
        return 0

    def check_offset_delete(self, group_id: str) -> int:
        """The error code for who deletes offsets of a group."""
        group = self.groups[group_id]
        if group.state is GroupState.EMPTY or group.protocol_type == "consumer":
            return 0
        return ErrorCode.NON_EMPTY_GROUP

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether a member of a group has subscribed to a topic."""
        group = self.groups[group_id]
        if group.protocol_type != "consumer" or not group.members:
            return False
        for member in group.members.values():
            try:
                metadata = member.metadata(group.protocol_name)
                _, subscription = decode_versioned(ConsumerProtocolSubscription, metadata)
            except ProtocolError:
                return True  # who cannot be understood may have
            if topic in subscription.topics:
                return True
        return False
