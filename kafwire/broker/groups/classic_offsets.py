"""Checks of requests for a classic group's offsets: commits, fetches, deletions. `classic_group.py` has the group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING

from kafwire.broker.groups.group import GroupState
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.groups.classic_member import Member

CONSUMER = "consumer"  # the protocol type of consumers


class ClassicOffsets(ABC):
    """The part of a classic group for requests about offsets."""

    state: GroupState
    since_ms: int
    generation: int
    protocol_type: str | None
    subscribed: frozenset[str] | None
    members: dict[str, Member]

    def is_subscribed(self, topic: str) -> bool:
        """True if a member subscribes to a topic, or may do so."""
        return self.protocol_type == CONSUMER if self.subscribed is None else topic in self.subscribed

    def unused_since(self, topic: str, committed_ms: int) -> int | None:
        """Return the time since which no member needs an offset of a topic; None: a member may need it."""
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
        """Return the error code for a commit in the name of this member; with 0, its session restarts."""
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
        """Return 0: a member that may commit may do so for all partitions."""
        del member_id, generation, places
        return 0

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """Return 0: any client may fetch offsets."""
        del member_id, epoch
        return 0

    def check_offset_delete(self) -> int:
        """Return the error code for a deletion of offsets, or 0."""
        if self.state is GroupState.EMPTY or self.protocol_type == CONSUMER:
            return 0
        return ErrorCode.NON_EMPTY_GROUP

    @abstractmethod
    def refuses_member(self, member_id: str, instance_id: str | None) -> int:
        """Return the error code for a request in the name of this member, or 0."""

    @abstractmethod
    def keep_alive(self, member: Member) -> None:
        """Restart a member's session."""
