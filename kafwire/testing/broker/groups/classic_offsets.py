"""Who may commit, ask for and delete offsets of a classic group. The group itself is in `classic_group.py`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafwire.errors import ErrorCode
from kafwire.testing.broker.groups.group import GroupState

if TYPE_CHECKING:
    from kafwire.testing.broker.groups.classic_member import Member

CONSUMER = "consumer"  # the protocol type of consumers


class ClassicOffsets:
    """The part of a classic group that is asked by requests about offsets."""

    state: GroupState
    since_ms: int
    generation: int
    protocol_type: str | None
    subscribed: frozenset[str] | None
    members: dict[str, Member]

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member has subscribed to a topic, or may have."""
        return self.protocol_type == CONSUMER if self.subscribed is None else topic in self.subscribed

    def unused_since(self, topic: str, committed_ms: int) -> int | None:
        """Since when nobody has needed an offset of a topic; None: somebody may."""
        if self.protocol_type is None:
            return committed_ms
        if self.state is GroupState.EMPTY:
            return self.since_ms
        if self.state is GroupState.STABLE and self.subscribed is not None and topic not in self.subscribed:
            return committed_ms
        return None

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> int:
        """The error code for who commits in the name of this member; 0: it may, and has been heard of."""
        del version
        if generation < 0 and self.state is GroupState.EMPTY:
            return 0
        if generation >= 0 or member_id or instance_id is not None:
            code = self.refuses_member(member_id, instance_id)
            if code:
                return code
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not is_transactional and self.state is not GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional:
            if self.state is GroupState.COMPLETING_REBALANCE:
                return ErrorCode.REBALANCE_IN_PROGRESS
            self.keep_alive(self.members[member_id])
        return 0

    def check_partitions(self, member_id: str, generation: int, places: Collection[tuple[str, int]]) -> int:
        """Who may commit may do so for all partitions."""
        del member_id, generation, places
        return 0

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """Anybody may ask."""
        del member_id, epoch
        return 0

    def check_offset_delete(self) -> int:
        """The error code for who deletes offsets."""
        if self.state is GroupState.EMPTY or self.protocol_type == CONSUMER:
            return 0
        return ErrorCode.NON_EMPTY_GROUP

    def refuses_member(self, member_id: str, instance_id: str | None) -> int:
        """The error code for who says that it is this member."""
        raise NotImplementedError

    def keep_alive(self, member: Member) -> None:
        """A member was heard of."""
        raise NotImplementedError
