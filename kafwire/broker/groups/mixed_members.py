"""Members of a consumer group that use the classic protocol, while a group changes from one to the other (KIP-848).

JoinGroup and SyncGroup of such a member get a response at once: it does not wait for others. Heartbeats report a new
assignment to it, so it revokes partitions and joins again. The group decodes its subscription and its owned partitions.
The coordinator assigns: no member leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafwire.broker.groups.classic_member import Joined, Member
from kafwire.broker.groups.classic_offsets import CONSUMER
from kafwire.broker.groups.consumer_group import ConsumerGroup
from kafwire.broker.groups.consumer_member import ClassicSide, ConsumerMember, MemberState, TopicPartition
from kafwire.broker.groups.member_timers import Limit
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode, ProtocolError
from kafwire.protocol import JoinGroupRequest
from kafwire.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kafwire.protocol.framing import decode_versioned, encode_versioned

if TYPE_CHECKING:
    from kafwire.broker.groups.classic_group import ClassicGroup
    from kafwire.broker.groups.topic_patterns import Allows
    from kafwire.broker.state import ClusterState

UPGRADES, DOWNGRADES = ("UPGRADE", "BIDIRECTIONAL"), ("DOWNGRADE", "BIDIRECTIONAL")


class MixedMembers:
    """The classic members of one consumer group, and their requests."""

    def __init__(self, state: ClusterState, group: ConsumerGroup) -> None:
        self._cluster = state
        self._group = group

    # --- requests

    def join(self, asked: Member, allows: Allows, *, version: int) -> Joined:
        """Handle the JoinGroup of a classic member."""
        group = self._group
        member_id = asked.member_id or self._cluster.make_cluster_id()
        try:
            self._check_join(asked, member_id)
            if not asked.member_id and asked.instance_id is None and version >= JoinGroupRequest.ID_FIRST:
                return Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            joins = asked.instance_id is None or not asked.member_id
            before = group.before(member_id, asked.instance_id, joins=joins, is_classic=True)
            subscription = _subscription(asked.protocols[0][1])
            updated = replace(
                _updated(before, asked, subscription),
                rebalance_timeout_ms=before.rebalance_timeout_ms
                if asked.rebalance_timeout_ms == -1
                else asked.rebalance_timeout_ms,
            )
            now = group.advance(before, updated, self._partitions(subscription.owned_partitions), allows)
        except Refusal as refusal:
            return Joined(refusal.code, "")
        except ProtocolError:
            return Joined(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        group.timers.stop(member_id, Limit.JOIN)
        self._limit(member_id, Limit.SYNC, asked.rebalance_timeout_ms)
        return Joined(0, member_id, now.epoch, CONSUMER, asked.protocols[0][0])

    def _check_join(self, asked: Member, member_id: str) -> None:
        policy = self._cluster.config("group.consumer.migration.policy").upper()
        if policy == "DISABLED":
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)
        self._group.check_size(member_id)
        classic = [each.classic for each in self._group.members.values() if each.classic is not None]
        counts = Counter(name for each in classic for name, _ in each.protocols)
        is_common = any(counts[name] == len(classic) for name, _ in asked.protocols)
        if asked.protocol_type != CONSUMER or not is_common:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None)

    def sync(self, message: Any) -> tuple[int, bytes]:
        """Return an error code and the assignment for a member's SyncGroup."""
        member, code = self._find(message.member_id, message.group_instance_id, message.generation_id)
        if code or member is None or member.classic is None:
            return code, b""
        name, data = member.classic.protocols[0]
        said = (message.protocol_type, CONSUMER), (message.protocol_name, name)
        if any(given is not None and given != known for given, known in said):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b""
        if self._group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._has_to_join(member)
            return ErrorCode.REBALANCE_IN_PROGRESS, b""
        self._group.timers.stop(member.member_id, Limit.SYNC)
        self._group.time_session(member)
        return 0, assignment_of(self._cluster, member.assigned, data)

    def beat(self, message: Any) -> int:
        """Keep a member alive. Return an error code if it must join again."""
        member, code = self._find(message.member_id, message.group_instance_id, message.generation_id)
        if code or member is None:
            return code
        self._group.time_session(member)
        state = member.state
        is_free = state is MemberState.UNRELEASED_PARTITIONS and not self._group.waits(member)
        if member.epoch < self._group.assignment_epoch or state is MemberState.UNREVOKED_PARTITIONS or is_free:
            self._has_to_join(member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return 0

    def _find(self, member_id: str, instance_id: str | None, generation: int) -> tuple[ConsumerMember | None, int]:
        members, holder = self._group.members, self._group.static.get(instance_id or "")
        if instance_id is not None and holder is not None and holder != member_id:
            return None, ErrorCode.FENCED_INSTANCE_ID
        member = members.get(member_id if instance_id is None else holder or "")
        if member is None or member.classic is None:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        return member, 0 if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION

    # --- time

    def _has_to_join(self, member: ConsumerMember) -> None:
        if not self._group.timers.is_on(member.member_id, Limit.JOIN):
            self._limit(member.member_id, Limit.JOIN, member.rebalance_timeout_ms)

    def _limit(self, member_id: str, limit: Limit, delay_ms: int) -> None:
        self._group.timers.start(member_id, limit, delay_ms, lambda: self._group.remove([member_id]))

    def _partitions(self, owned: Iterable[Any]) -> frozenset[TopicPartition]:
        known = self._cluster.topics.by_name
        return frozenset(
            (known[each.topic].topic_id, index) for each in owned if each.topic in known for index in each.partitions
        )


# --- conversion between the protocols


def upgraded(state: ClusterState, classic: ClassicGroup) -> ConsumerGroup:
    """Return the consumer group to which a classic one converts when a member of the consumer protocol joins.

    Waiting members of the classic group get REBALANCE_IN_PROGRESS, so they join again.

    Raises:
        Refusal: the group stays classic.
    """
    why = _why_not_upgraded(state, classic)
    if why is not None:
        name = f"Cannot upgrade classic group {classic.group_id} to consumer group because"
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{name} {why}.")
    for member in classic.members.values():
        member.respond_to_join(Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.respond_to_sync(ErrorCode.REBALANCE_IN_PROGRESS)
    if classic.protocol_name is None:  # the group never had a generation: Kafka does not expect that
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.message)
    group = ConsumerGroup(state, classic.group_id)
    mixed = MixedMembers(state, group)
    members = []
    for member in classic.members.values():
        try:
            subscription = _subscription(member.metadata(classic.protocol_name))
            assigned = mixed._partitions(_assignment(member.assignment))
        except ProtocolError:
            problem = f"Cannot upgrade classic group {classic.group_id} to consumer group because the embedded consumer"
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{problem} protocol is malformed.") from None
        before = ConsumerMember(member.member_id, rebalance_timeout_ms=member.rebalance_timeout_ms)
        members.append(
            replace(
                _updated(before, member, subscription),
                epoch=classic.generation,
                assigned=dict.fromkeys(assigned, classic.generation),
            )
        )
    group.adopt(members, classic.generation)
    return group


def _why_not_upgraded(state: ClusterState, classic: ClassicGroup) -> str | None:
    if state.config("group.consumer.migration.policy").upper() not in UPGRADES:
        return "online upgrade is disabled"
    if classic.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol"
    if len(classic.members) > state.config_int("group.consumer.max.size"):
        return "the group size exceeds the consumer group maximum size"
    return None


def downgraded(state: ClusterState, group: ConsumerGroup, leaving: Sequence[str]) -> list[Member] | None:
    """Return the members of the classic group to which a consumer group converts when these leave; None: it stays."""
    rest = [each for name, each in group.members.items() if name not in leaving]
    policy = state.config("group.consumer.migration.policy").upper()
    if not rest or policy not in DOWNGRADES or len(rest) > state.config_int("group.max.size"):
        return None
    members = []
    for each in rest:
        if each.classic is None:
            return None
        target = group.targets.get(each.member_id, frozenset())
        members.append(
            Member(
                each.member_id,
                each.instance_id,
                each.client_id,
                each.host,
                each.classic.session_timeout_ms,
                each.rebalance_timeout_ms,
                CONSUMER,
                each.classic.protocols,
                assignment_of(state, target, each.classic.protocols[0][1]),
            )
        )
    return members


def assignment_of(state: ClusterState, partitions: Iterable[TopicPartition], metadata: bytes) -> bytes:
    """Return an assignment of the classic protocol, in the version of the member's metadata."""
    topics: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions, key=lambda place: (place[0].int, place[1])):
        if topic_id in state.topics.by_id:
            topics.setdefault(state.topics.by_id[topic_id].name, []).append(index)
    kind = ConsumerProtocolAssignment
    assignment = kind(
        assigned_partitions=[kind.TopicPartition(topic=name, partitions=its) for name, its in topics.items()]
    )
    version = int.from_bytes(metadata[:2], "big", signed=True)
    return encode_versioned(assignment, min(max(version, 0), kind.max_version))


def _updated(before: ConsumerMember, asked: Member, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    return replace(
        before,
        instance_id=before.instance_id if asked.instance_id is None else asked.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=asked.client_id,
        host=asked.host,
        topics=frozenset(subscription.topics),
        pattern="",
        classic=ClassicSide(asked.session_timeout_ms, tuple(asked.protocols)),
    )


def _subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    return decode_versioned(ConsumerProtocolSubscription, metadata)[1]


def _assignment(data: bytes) -> Sequence[Any]:
    return decode_versioned(ConsumerProtocolAssignment, data)[1].assigned_partitions if data else ()
