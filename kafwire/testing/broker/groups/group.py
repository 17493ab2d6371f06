"""What groups of all protocols have in common: what the coordinator asks of any group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import Protocol

from kafwire.errors import ErrorCode
from kafwire.testing.broker.topics.config_store import Refusal

MEMBER_EPOCHS = 9  # the version of OffsetCommit from which a generation may be a member's epoch


class GroupState(Enum):
    """What a group is at, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # this and the next are of classic groups
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"  # this and the next are of consumer and streams groups
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"  # of streams groups
    STABLE = "Stable"
    DEAD = "Dead"

    @property
    def filter_name(self) -> str:
        """The name by which ListGroups filters."""
        return "not_ready" if self is GroupState.NOT_READY else self.value.lower()


class GroupType(Enum):
    """Which protocol the members of a group speak, by Kafka's names."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(Protocol):
    """A group of any type. `expires`: whether it is forgotten when it has neither members nor offsets."""

    group_id: str
    expires: bool

    @property
    def type(self) -> GroupType:
        """Which protocol it is of."""
        ...

    @property
    def state(self) -> GroupState:
        """What it is at."""
        ...

    @property
    def protocol_type(self) -> str | None:
        """What its members are: `consumer`, `connect` and so on."""
        ...

    @property
    def members(self) -> Collection[str]:
        """The ids of its members."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member has subscribed to a topic, or may have."""
        ...

    def unused_since(self, topic: str, committed_ms: int) -> int | None:
        """Since when nobody has needed an offset of a topic; None: somebody may. See `GroupCoordinator`."""
        ...

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> int:
        """The error code for who commits offsets in the name of this member."""
        ...

    def check_partitions(self, member_id: str, generation: int, places: Collection[tuple[str, int]]) -> int:
        """The error code for who may commit, and commits offsets of these partitions: one is enough to refuse all."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """The error code for who asks for offsets in the name of this member."""
        ...

    def check_offset_delete(self) -> int:
        """The error code for who deletes offsets."""
        ...

    def leave_classic(self, leaving: Sequence[tuple[str, str | None]]) -> list[int]:
        """Members leave by a LeaveGroup. Returns an error code for each."""
        ...

    def unload(self, *, tell: bool) -> None:
        """Its coordinator is so no more. `tell`: it is there to say so to those who wait."""
        ...

    def load(self) -> None:
        """Another broker, or the same one again, coordinates it."""
        ...


def static_member(static: Mapping[str, str], instance_id: str, member_id: str) -> str:
    """The id of the member that has an instance id, if it is this one.

    Raises:
        Refusal: no member has the instance id, or another one has.
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
