"""The common interface of groups of all protocols for the coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Protocol

from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode


class GroupState(Enum):
    """The state of a group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # this and the next are states of classic groups
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"  # this and the next are states of consumer and streams groups
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"  # a state of streams groups
    STABLE = "Stable"
    DEAD = "Dead"

    @property
    def filter_name(self) -> str:
        """The name by which ListGroups filters."""
        return "not_ready" if self is GroupState.NOT_READY else self.value.lower()


class GroupType(Enum):
    """The protocol of a group's members, by Kafka's names."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group of any type. `expires`: True if the coordinator deletes it when it has neither members nor offsets."""

    group_id: str
    expires: bool

    @property
    def type(self) -> GroupType:
        """The protocol of the group."""
        ...

    @property
    def state(self) -> GroupState:
        """The state of the group."""
        ...

    @property
    def protocol_type(self) -> str | None:
        """The type of its members: `consumer`, `connect` and so on."""
        ...

    @property
    def members(self) -> Collection[str]:
        """The ids of its members."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """True if a member subscribes to a topic, or may do so."""
        ...

    def unused_since(self, topic: str, committed_ms: int) -> int | None:
        """Return the time since which no member needs an offset of a topic. See `GroupCoordinator`."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> int:
        """Return the error code for a commit in the name of this member, or 0."""
        ...

    def check_partitions(self, member_id: str, generation: int, places: Collection[tuple[str, int]]) -> int:
        """Return the error code for a permitted commit of these partitions, or 0: one partition can refuse all."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """Return the error code for a fetch of offsets in the name of this member, or 0."""
        ...

    def check_offset_delete(self) -> int:
        """Return the error code for a deletion of offsets, or 0."""
        ...

    def leave_classic(self, leaving: Sequence[tuple[str, str | None]]) -> list[int]:
        """Remove members by a LeaveGroup. Return an error code for each."""
        ...

    def unload(self, *, tell: bool) -> None:
        """End this coordinator's work for the group. `tell`: it runs, so waiting members get a response."""
        ...

    def load(self) -> None:
        """Load the group at another broker, or at the same one again."""
        ...


def static_member(static: Mapping[str, str], instance_id: str, member_id: str) -> str:
    """Return the id of the member that has an instance id, if it is this member.

    Raises:
        Refusal: no member has the instance id, or another member has it.
    """
    holder = static.get(instance_id)
    if holder is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if holder != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}.",
        )
    return holder
