"""One group of the consumer protocol: its members, its epochs, and the assignment that members reach step by step.

A heartbeat has a member's subscription and partitions. If it changes the group's subscriptions, the group's epoch goes
up, and the coordinator makes a new assignment, whose epoch is then the group's. Heartbeats bring each member to it: the
member revokes partitions, and gets partitions without an owner. The rules are those of Kafka's `GroupMetadataManager`.
See KIP-848.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.assignors import ASSIGNORS, UNIFORM, GroupSpec, Subscriber
from kafwire.broker.groups.consumer_member import (
    LEFT_FOR_A_WHILE,
    ConsumerMember,
    MemberState,
    Reconciliation,
    TopicPartition,
    check_epoch,
    partitions_of,
    stale,
)
from kafwire.broker.groups.group import GroupState, GroupType, static_member
from kafwire.broker.groups.member_timers import Limit, MemberTimers
from kafwire.broker.groups.subscriptions import (
    Members,
    Metadata,
    Subscriptions,
    are_even,
    metadata_of,
    patterns_of,
    subscriptions,
    topic_ids,
)
from kafwire.broker.groups.topic_patterns import Allows, PatternChange, TopicPatterns
from kafwire.broker.topics.config_def import elements
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode
from kafwire.protocol import OffsetCommitRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

CONSUMER = "consumer"
_NOTHING: frozenset[TopicPartition] = frozenset()


class ConsumerGroup:
    """A group. `state` is the cluster's, for time, topics and options."""

    type = GroupType.CONSUMER
    protocol_type = CONSUMER
    expires = True

    def __init__(self, state: ClusterState, group_id: str) -> None:
        self._cluster = state
        self.group_id = group_id
        self.epoch = 1
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}  # instance ids, and the members that have them
        self.targets: dict[str, frozenset[TopicPartition]] = {}  # each member's target assignment
        self.patterns = TopicPatterns(state, self._on_resolved)
        self.topics_made = 0  # the number of topics that the coordinator has seen
        self._owners: Counter[TopicPartition] = Counter()
        self._assigned_ms: float | None = None
        self._subscribed: Subscriptions = {}
        self._metadata: Metadata = {}  # the topics behind the group's epoch
        self._is_even = True
        self.timers = MemberTimers(state)
        self.on_classic_left: Callable[[Sequence[str]], bool] = lambda leaving: False  # noqa: ARG005

    # --- state, and checks of requests

    @property
    def state(self) -> GroupState:
        """The group's state."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        is_reconciled = all(member.is_reconciled(self.assignment_epoch) for member in self.members.values())
        return GroupState.STABLE if is_reconciled else GroupState.RECONCILING

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer."""
        return self._assignor(self.members)

    def is_subscribed(self, topic: str) -> bool:
        """True if a member subscribes to a topic."""
        return topic in self._subscribed

    def unused_since(self, topic: str, committed_ms: int) -> int | None:
        """Return the time since which no member needs an offset of a topic; None: a member may need it."""
        return None if self.is_subscribed(topic) else committed_ms

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> int:
        """Return the error code for a commit in the name of this member, or 0."""
        is_anonymous = generation == -1 and not member_id and instance_id is None
        if (generation < 0 and not self.members) or (is_transactional and is_anonymous):
            return 0
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and member.classic is None and version < OffsetCommitRequest.MEMBER_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        if generation > member.epoch:
            return stale(member)
        return 0

    def check_partitions(self, member_id: str, generation: int, places: Collection[tuple[str, int]]) -> int:
        """Accept an earlier epoch for partitions that the member has had since then (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or generation == member.epoch:
            return 0
        had = member.assigned | member.revoking
        known = self._cluster.topics.by_name
        since = [had.get((known[topic].topic_id, index)) for topic, index in places]
        return stale(member) if any(each is None or generation < each for each in since) else 0

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """Return the error code for a fetch of offsets in the name of this member, or 0."""
        if member_id is None:
            return 0 if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka fails on it too
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return 0 if epoch == member.epoch else stale(member)

    def check_offset_delete(self) -> int:
        """Return 0: any client may delete offsets of topics without a subscription."""
        return 0

    # --- heartbeats

    def heartbeat(self, message: Any, client_id: str, host: str, allows: Allows) -> Any:
        """Handle a heartbeat of a member that joins or stays. `allows`: True if it may see a topic. Return the
        response.

        Raises:
            Refusal: nothing is changed.
        """
        self.check_size(message.member_id)
        member_id = message.member_id or self._cluster.make_cluster_id()
        before = self._before(member_id, message)
        updated = before.updated(message, client_id, host)
        owned = partitions_of(message.topic_partitions)
        now = self.advance(before, updated, owned, allows)
        is_full = (
            message.rebalance_timeout_ms != -1
            and (message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None)
            and owned is not None
        )
        response = protocol.ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=self._cluster.group_config_int(self.group_id, "consumer.heartbeat.interval.ms"),
        )
        if message.member_epoch == 0 or is_full or now.assigned != before.assigned:
            response.assignment = _assignment_of(now.assigned)
        return response

    def advance(
        self, before: ConsumerMember, updated: ConsumerMember, owned: frozenset[TopicPartition] | None, allows: Allows
    ) -> ConsumerMember:
        """Apply a member's subscription and partitions. Return the member after that."""
        member_id = updated.member_id
        pattern = self.patterns.change(self.members.values(), before.pattern, updated.pattern, self.topics_made, allows)
        has_new_names = updated.topics != before.topics
        # The member whose place it takes; itself, as a rule.
        holder = self.static.get(updated.instance_id or "", member_id)
        is_same = member_id in self.members and not has_new_names and pattern is PatternChange.NONE
        after = {name: each for name, each in self.members.items() if name == member_id or name != holder}
        after[member_id] = updated
        wanted = self._subscribed if is_same else subscriptions(after, self.patterns.resolved)
        # Since 4.4 a heartbeat that changes the group's assignor triggers an assignment by it.
        has_new_assignor = updated.classic is None and self._assignor(self.members) != self._assignor(after, member_id)
        bumps = has_new_names or pattern is PatternChange.RESOLVED or has_new_assignor
        target_epoch, target = self._plan(after, wanted, member_id, holder, bumps=bumps)
        now = Reconciliation(
            updated,
            target_epoch,
            target,
            self._topics_of(updated),
            owned,
            lambda place: self._owners[place] > 0,
            has_changed=has_new_names or pattern is not PatternChange.NONE,
        ).step()
        if holder != member_id:
            self._forget(holder)
        self._put(now)
        if not is_same:
            self._settle()
        if now is not updated:
            self._time_rebalance(now)
        self.time_session(now)
        return now

    def check_size(self, member_id: str) -> None:
        """Refuse a new member if the group is full."""
        most = self._cluster.config_int("group.consumer.max.size")
        if len(self.members) >= most and member_id not in self.members:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def _before(self, member_id: str, message: Any) -> ConsumerMember:
        """Return the member before its heartbeat; a new one if it joins."""
        member = self.before(member_id, message.instance_id, joins=message.member_epoch == 0)
        if member.member_id in self.members:
            check_epoch(member, message)
        return member

    def before(
        self, member_id: str, instance_id: str | None, *, joins: bool, is_classic: bool = False
    ) -> ConsumerMember:
        """Return the member before it changes its subscription; a new one if it joins."""
        if instance_id is None:
            member = self.members.get(member_id)
            if member is None:
                if not joins:
                    raise self._unknown(member_id)
                return ConsumerMember(member_id)
        else:
            holder = self.members.get(self.static.get(instance_id, ""))
            if not joins:
                member = self.members[static_member(self.static, instance_id, member_id)]
            elif holder is None:
                return self.members.get(member_id) or ConsumerMember(member_id)
            elif not is_classic and holder.classic is None and holder.epoch != LEFT_FOR_A_WHILE:
                raise Refusal(
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} cannot join the group because the"
                    f" instance id is owned by {holder.member_id} member.",
                )
            else:
                return holder.successor(member_id)
        return member

    def _unknown(self, member_id: str) -> Refusal:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")

    # --- epochs and assignments

    def _plan(
        self, after: Members, wanted: Subscriptions, member_id: str, holder: str, *, bumps: bool
    ) -> tuple[int, frozenset[TopicPartition]]:
        """Make a new assignment if the group needs one. Return its epoch, and this member's part."""
        metadata = metadata_of(self._cluster.topics, wanted)
        is_even = self._is_even
        if bumps or metadata != self._metadata:
            self.epoch += 1
            self._metadata = metadata
            is_even = are_even(after, wanted)
        inherited = self.targets.pop(holder, _NOTHING)
        self.targets[member_id] = inherited
        if self.epoch > self.assignment_epoch and self._may_assign():
            topics = {each.topic_id: len(each.partitions) for each in self._cluster.topics}
            subscribers = {
                name: Subscriber(self._topics_of(each), self.targets.get(name, _NOTHING), each.instance_id)
                for name, each in after.items()
            }
            made = ASSIGNORS[self._assignor(after, member_id)](GroupSpec(subscribers, topics, is_even))
            self.targets = {name: made.get(name, _NOTHING) for name in after}
            self.assignment_epoch = self.epoch
            self._assigned_ms = self._cluster.now_ms
        return self.assignment_epoch, self.targets[member_id]

    def _topics_of(self, member: ConsumerMember) -> frozenset[uuid.UUID]:
        return topic_ids(self._cluster.topics, member, self.patterns.resolved)

    def _may_assign(self) -> bool:
        """True if enough time has passed since the last assignment (KIP-1263)."""
        interval_ms = self._cluster.group_config_int(self.group_id, "consumer.assignment.interval.ms")
        return self._assigned_ms is None or self._cluster.now_ms >= self._assigned_ms + interval_ms

    def _assignor(self, members: Members, member_id: str | None = None) -> str:
        """Return the assignor that most members prefer.

        Among equal votes, the assignor that only this member prefers wins, else `uniform`, as in Kafka.
        """
        votes = Counter(each.assignor for each in members.values() if each.assignor is not None)
        own = members[member_id].assignor if member_id is not None else None
        places = {name: (votes[name], name == own and votes[name] == 1, name == UNIFORM) for name in votes}
        default = elements(self._cluster.config("group.consumer.assignors"))[0]
        return max(places, key=places.__getitem__, default=default)

    def _on_resolved(self, resolved: Mapping[str, frozenset[str]]) -> None:
        """Take the topics that match patterns, when they were resolved."""
        patterns, matched = patterns_of(self.members), self.patterns.resolved
        found = {each: topics for each, topics in resolved.items() if each in patterns}
        is_new = any(topics != matched.get(each, frozenset()) for each, topics in found.items())
        matched.update(found)
        self._settle()
        metadata = metadata_of(self._cluster.topics, self._subscribed)
        if is_new or metadata != self._metadata:
            self.epoch += 1
            self._metadata = metadata

    def adopt(self, members: Iterable[ConsumerMember], epoch: int) -> None:
        """Take over the members of a classic group in this generation, with their partitions."""
        self.epoch = self.assignment_epoch = epoch
        for member in members:
            self._put(member)
            self.targets[member.member_id] = frozenset(member.assigned)
        self._settle()
        self._metadata = metadata_of(self._cluster.topics, self._subscribed)

    def waits(self, member: ConsumerMember) -> bool:
        """True if other members own partitions of a member's target."""
        missing = self.targets.get(member.member_id, _NOTHING) - member.assigned.keys()
        return any(self._owners[place] > 0 for place in missing)

    # --- leaving

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> Any:
        """Remove a member, or a static one for a while. Return the response.

        Raises:
            Refusal: the member is not in the group.
        """
        if instance_id is None:
            member = self.members.get(member_id)
            if member is None:
                raise self._unknown(member_id)
        else:
            member = self.members[static_member(self.static, instance_id, member_id)]
        if instance_id is not None and epoch == LEFT_FOR_A_WHILE:
            self._put(member.away())
        else:
            self.remove([member.member_id])
        return protocol.ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)

    def leave_classic(self, leaving: Sequence[tuple[str, str | None]]) -> list[int]:
        """Remove members by a LeaveGroup. Return an error code for each."""
        codes, found = [], []
        for member_id, instance_id in leaving:
            named = member_id if instance_id is None else self.static.get(instance_id, "")
            code = 0
            if named not in self.members:
                code = ErrorCode.UNKNOWN_MEMBER_ID
            elif member_id not in (named, ""):
                code = ErrorCode.FENCED_INSTANCE_ID
            else:
                found.append(named)
            codes.append(int(code))
        if found:
            self.remove(dict.fromkeys(found))
        return codes

    def remove(self, member_ids: Iterable[str]) -> None:
        """Remove members that have left, or whose sessions have ended."""
        leaving = list(member_ids)
        if self.on_classic_left(leaving):  # the other members are a classic group now
            return
        for member_id in leaving:
            self._forget(member_id)
            self.targets.pop(member_id, None)
        self._settle()
        self._metadata = metadata_of(self._cluster.topics, self._subscribed)
        self.epoch += 1
        if not self.members:  # no partitions are left to assign, and the next member does not wait
            self.assignment_epoch, self._assigned_ms = self.epoch, None

    def _forget(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._owners.subtract([*member.assigned, *member.revoking])
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        self.timers.stop(member_id)

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._owners.subtract([*old.assigned, *old.revoking])
        self._owners.update([*member.assigned, *member.revoking])
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def _settle(self) -> None:
        """Recompute the state that follows from the members."""
        matched = self.patterns.resolved
        for each in matched.keys() - patterns_of(self.members).keys():
            del matched[each]
        self._subscribed = subscriptions(self.members, matched)
        self._is_even = are_even(self.members, self._subscribed)

    # --- time

    def time_session(self, member: ConsumerMember) -> None:
        """Restart a member's session."""
        delay_ms = self._cluster.group_config_int(self.group_id, "consumer.session.timeout.ms")
        if member.classic is not None:
            delay_ms = member.classic.session_timeout_ms
        self.timers.start(member.member_id, Limit.SESSION, delay_ms, lambda: self.remove([member.member_id]))

    def _time_rebalance(self, member: ConsumerMember) -> None:
        """Remove a member that does not revoke partitions in time. Classic members must join in time instead."""

        def expire() -> None:
            if self.members[member.member_id].epoch == member.epoch:
                self.remove([member.member_id])

        if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
            self.timers.start(member.member_id, Limit.REBALANCE, member.rebalance_timeout_ms, expire)
        else:
            self.timers.stop(member.member_id, Limit.REBALANCE)

    # --- coordinators

    def unload(self, *, tell: bool) -> None:
        """End this coordinator's work for the group. No member waits for a response."""
        del tell
        self.timers.stop_all()

    def load(self) -> None:
        """Load the group at another broker: no state is lost, and sessions restart."""
        for member in self.members.values():
            self.time_session(member)
            self._time_rebalance(member)


def _assignment_of(assigned: Collection[TopicPartition]) -> Any:
    """Return a member's assignment for its response."""
    response = protocol.ConsumerGroupHeartbeatResponse
    topics: dict[uuid.UUID, list[int]] = {}
    for topic_id, index in sorted(assigned, key=lambda place: (place[0].int, place[1])):
        topics.setdefault(topic_id, []).append(index)
    return response.Assignment(
        topic_partitions=[response.TopicPartitions(topic_id=each, partitions=its) for each, its in topics.items()]
    )
