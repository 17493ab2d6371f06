"""A member of a consumer group: its subscription, its partitions, and its steps towards its target assignment.

A member is immutable: each step returns a new one, which the group keeps if the response has no error. The rules are
those of Kafka's `CurrentAssignmentBuilder`. See KIP-848; for epochs of partitions KIP-1251.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

TopicPartition = tuple[uuid.UUID, int]  # a topic's id and a partition's number
LEFT_FOR_A_WHILE = -2  # the epoch of a static member that leaves for a while


class MemberState(Enum):
    """The progress of a member towards its assignment."""

    STABLE = "STABLE"
    UNREVOKED_PARTITIONS = "UNREVOKED_PARTITIONS"  # the member must revoke partitions first
    UNRELEASED_PARTITIONS = "UNRELEASED_PARTITIONS"  # other members must revoke partitions of its target


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """The classic protocol's data of a member, which a consumer group has no fields for."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member. `assigned`, `revoking`: its partitions, each with the epoch in which the member got it."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    pattern: str = ""  # of topic names
    assignor: str | None = None
    classic: ClassicSide | None = None  # the data of a member of the classic protocol
    state: MemberState = MemberState.STABLE
    epoch: int = 0
    previous_epoch: int = -1
    assigned: dict[TopicPartition, int] = field(default_factory=dict)
    revoking: dict[TopicPartition, int] = field(default_factory=dict)

    def updated(self, message: Any, client_id: str, host: str) -> ConsumerMember:
        """Return the member with the changes of a ConsumerGroupHeartbeat: fields that it leaves out stay."""
        names, timeout_ms = message.subscribed_topic_names, message.rebalance_timeout_ms
        pattern = message.subscribed_topic_regex
        return replace(
            self,
            instance_id=_or(message.instance_id, self.instance_id),
            rack_id=_or(message.rack_id, self.rack_id),
            client_id=client_id,
            host=host,
            rebalance_timeout_ms=self.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topics=self.topics if names is None else frozenset(names),
            pattern=self.pattern if pattern is None else pattern,
            assignor=_or(message.server_assignor, self.assignor),
            classic=None,
        )

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """True if the member has all of the group's assignment of this epoch, and no other partitions."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def away(self) -> ConsumerMember:
        """Return the static member after it left for a while: the next one with its instance id gets its partitions."""
        return replace(self, epoch=LEFT_FOR_A_WHILE, revoking={})

    def successor(self, member_id: str) -> ConsumerMember:
        """Return the member that takes its place with the same instance id."""
        return replace(self, member_id=member_id, epoch=0, previous_epoch=0, assigned=dict.fromkeys(self.assigned, 0))


def _or(given: str | None, known: str | None) -> str | None:
    return known if given is None else given


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One step of a member towards the group's assignment.

    `owned`: the partitions in the member's heartbeat; None: it has none. `subscribed`: the ids of its topics.
    `is_owned`: True if a member owns a partition. `has_changed`: True if its subscription has changed.
    """

    member: ConsumerMember
    target_epoch: int
    target: AbstractSet[TopicPartition]
    subscribed: AbstractSet[uuid.UUID]
    owned: AbstractSet[TopicPartition] | None
    is_owned: Callable[[TopicPartition], bool]
    has_changed: bool = False

    def step(self) -> ConsumerMember:
        """Return the member after the step; the same one if it must wait."""
        member = self.member
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            return self._without_unwanted() if self.has_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._owns_any(member.revoking):
            return self._without_unwanted() if self.has_changed else member
        return self._next()

    def _owns_any(self, revoking: Mapping[TopicPartition, int]) -> bool:
        """True if the member has not revoked these. A heartbeat without them shows that it has."""
        return self.owned is None or not self.owned.isdisjoint(revoking)

    def _without_unwanted(self) -> ConsumerMember:
        """Revoke the partitions of topics outside its subscription; there is no new assignment yet."""
        member = self.member
        kept = {each: epoch for each, epoch in member.assigned.items() if each[0] in self.subscribed}
        if len(kept) == len(member.assigned):
            return member
        revoking = {**member.revoking, **{each: e for each, e in member.assigned.items() if each not in kept}}
        if self._owns_any(revoking):
            return self._moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoking)
        return self._moved(member.state, member.epoch, kept, member.revoking)

    def _next(self) -> ConsumerMember:
        member = self.member
        target = {each for each in self.target if each[0] in self.subscribed}
        kept = {each: epoch for each, epoch in member.assigned.items() if each in target}
        revoking = {each: epoch for each, epoch in member.assigned.items() if each not in target}
        missing = target - kept.keys()
        free = {each for each in missing if each in member.revoking or not self.is_owned(each)}
        if revoking and self._owns_any(revoking):
            return self._moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoking)
        state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
        return self._moved(state, self.target_epoch, kept | dict.fromkeys(free, self.target_epoch), {})

    def _moved(
        self,
        state: MemberState,
        epoch: int,
        assigned: dict[TopicPartition, int],
        revoking: dict[TopicPartition, int],
    ) -> ConsumerMember:
        previous = self.member.epoch
        return replace(
            self.member, state=state, epoch=epoch, previous_epoch=previous, assigned=assigned, revoking=revoking
        )


def stale(member: ConsumerMember) -> int:
    """Return the error code for a request with another epoch than this member's."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def check_epoch(member: ConsumerMember, message: Any) -> None:
    """Refuse an epoch other than the member's, unless the member may have missed the last response."""
    epoch = message.member_epoch
    owned = partitions_of(message.topic_partitions)
    is_late = epoch == member.previous_epoch and owned is not None and owned <= member.assigned.keys()
    if epoch in (0, member.epoch) or (epoch < member.epoch and is_late):
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def partitions_of(topics: Collection[Any] | None) -> frozenset[TopicPartition] | None:
    """Return the partitions of a heartbeat; None: it has none."""
    if topics is None:
        return None
    return frozenset((topic.topic_id, index) for topic in topics for index in topic.partitions)
