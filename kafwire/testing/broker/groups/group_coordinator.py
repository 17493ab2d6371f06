"""All groups of a cluster, and what their coordinators check. One group's own rules are in `classic_group.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.errors import ErrorCode
from kafwire.testing.broker.groups.classic_group import CONSUMER, ClassicGroup, GroupState
from kafwire.testing.broker.groups.offsets import OffsetStore

if TYPE_CHECKING:
    from kafwire.testing.broker.request import Request
    from kafwire.testing.broker.state import ClusterState

Owner = tuple[int, int]  # a broker's number, and which of its starts: another one has to read the group again


class GroupCoordinator:
    """All groups. `loading`: those whose coordinator has just taken over."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.groups: dict[str, ClassicGroup] = {}
        self.loading: set[str] = set()
        self.answers: dict[str, int] = {}  # error codes that all requests about a group get
        self._owners: dict[str, Owner | None] = {}  # who coordinates each group now
        self._looks = False
        state.coordinator_watchers.append(self._move_all)

    def refuses(self, request: Request, group_id: str) -> int:
        """The error code of a broker that does not coordinate a group, or not yet."""
        self._move(group_id)
        if self._state.coordinator(group_id) != request.node:
            return ErrorCode.NOT_COORDINATOR
        if group_id in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self.answers.get(group_id, 0)

    # --- who coordinates

    def _owner(self, group_id: str) -> Owner | None:
        node = self._state.nodes.get(self._state.coordinator(group_id))
        return (node.number, node.epoch) if node is not None and node.is_up else None

    def _move_all(self) -> None:
        for group_id in list(self.groups):
            self._move(group_id)

    def _move(self, group_id: str) -> None:
        """See whether another broker coordinates a group now, which reads it from its log."""
        group = self.groups.get(group_id)
        owner = self._owner(group_id)
        before = self._owners.get(group_id)
        if group is None or owner == before:
            return
        self._owners[group_id] = owner
        if before is not None:
            node = self._state.nodes.get(before[0])
            group.unload(tell=node is not None and node.is_up and node.epoch == before[1])
        if owner is not None:
            group.load()

    # --- groups

    def exists(self, group_id: str) -> bool:
        """Whether there is such a group."""
        return group_id in self.groups

    def ensure(self, group_id: str) -> ClassicGroup:
        """A group, which is there from then on."""
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = ClassicGroup(self._state, group_id)
            self._owners[group_id] = self._owner(group_id)
            self._look_for_unused()
        return found

    def forget_if_empty(self, group_id: str) -> None:
        """A group without members is there no more."""
        found = self.groups.get(group_id)
        if found is not None and found.state is GroupState.EMPTY:
            found.unload(tell=False)
            del self.groups[group_id]
            del self._owners[group_id]

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

    def _look_for_unused(self) -> None:
        if not self._looks and self.groups:
            self._looks = True
            self._state.after(self._state.config_int("offsets.retention.check.interval.ms"), self._forget_unused)

    def _forget_unused(self) -> None:
        """A group that has neither members nor offsets is there no more when the coordinator looks."""
        self._looks = False
        store: OffsetStore = self._state.part(OffsetStore)
        for group_id in [each for each in self.groups if not store.has_offsets(each)]:
            self.forget_if_empty(group_id)
        self._look_for_unused()

    # --- offsets

    def unused_since(self, group_id: str, topic: str, committed_ms: int) -> int | None:
        """Since when nobody has needed an offset of a topic, on the wall's clock; None: somebody may need it.

        `committed_ms`: when it was committed. What nobody has joined for is kept from then on.
        """
        group = self.groups.get(group_id)
        if group is None or group.protocol_type is None:
            return committed_ms
        if group.state is GroupState.EMPTY:
            return group.since_ms
        if group.state is GroupState.STABLE and group.subscribed is not None and topic not in group.subscribed:
            return committed_ms
        return None

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
    ) -> int:
        """The error code for who commits in the name of this member; 0: it may, and has been heard of."""
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
        if not is_transactional:
            if group.state is GroupState.COMPLETING_REBALANCE:
                return ErrorCode.REBALANCE_IN_PROGRESS
            group.keep_alive(group.members[member_id])
        return 0

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> int:
        """The error code for who asks for offsets in the name of this member. Classic groups let everybody."""
        del group_id, member_id, member_epoch
        return 0

    def check_offset_delete(self, group_id: str) -> int:
        """The error code for who deletes offsets of a group."""
        group = self.groups[group_id]
        if group.state is GroupState.EMPTY or group.protocol_type == CONSUMER:
            return 0
        return ErrorCode.NON_EMPTY_GROUP

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether a member of a group has subscribed to a topic."""
        return self.groups[group_id].is_subscribed(topic)
