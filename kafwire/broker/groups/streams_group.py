"""One streams group: its members, its topology, its epochs, and the assignment that its members reach step by step.

A heartbeat describes a member and the tasks that it runs. If that changes the assignment's input, or if the topology's
topics have changed, the group's epoch goes up, and the coordinator makes a new assignment, whose epoch is then the
group's. The rules are those of Kafka's `GroupMetadataManager`. See KIP-1071.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.groups.group import GroupState, GroupType
from kafwire.broker.groups.member_timers import Limit, MemberTimers
from kafwire.broker.groups.sticky_tasks import STICKY
from kafwire.broker.groups.streams_heartbeat import (
    Beat,
    Memory,
    Plan,
    Statuses,
    assignment,
    check_tasks,
    delayed,
    missing_tags,
    offsets_of,
    shutdown,
    stale_topology,
)
from kafwire.broker.groups.streams_member import (
    LEFT_FOR_A_WHILE,
    MemberState,
    Reconciliation,
    StreamsMember,
    Tasks,
    tasks_of,
)
from kafwire.broker.groups.streams_members import StreamsMembers
from kafwire.broker.groups.streams_responses import described_member, described_topology, endpoints, task_ids
from kafwire.broker.groups.streams_topics import configure
from kafwire.broker.groups.streams_topology import (
    InternalTopic,
    StreamsTopology,
    Task,
    failure,
    topology_of,
)
from kafwire.broker.groups.subscriptions import Metadata, metadata_of
from kafwire.broker.topics.config_def import elements
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode
from kafwire.protocol import OffsetCommitRequest, StreamsGroupHeartbeatRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState
    from kafwire.broker.timers import Timer

STREAMS = "streams"
INITIAL_DELAY = "initial rebalance delay"
RACK_TAGS = "streams.rack.aware.assignment.tags"
_NO_TASKS = Tasks()
Members = Mapping[str, StreamsMember]


class StreamsGroup:
    """A group. `state` is the cluster's, for time, topics and options."""

    type = GroupType.STREAMS
    protocol_type = STREAMS
    expires = True

    def __init__(self, state: ClusterState, group_id: str) -> None:
        self._cluster = state
        self.group_id = group_id
        self.epoch = 1
        self.assignment_epoch = 1
        self._known = StreamsMembers(group_id)
        self.targets: dict[str, Tasks] = {}
        self.topology: StreamsTopology | None = None
        self.memory = Memory()
        self.timers = MemberTimers(state)
        self._validated_epoch = -1  # of the topology whose topics all exist
        self._metadata: Metadata = {}  # the topics, as of the group's epoch
        self._settings: tuple[int, str] | None = None  # the assignor's options, as of the group's epoch
        self._assigned_ms: float | None = None
        self._delay: Timer | None = None  # until the first assignment

    # --- state

    @property
    def members(self) -> dict[str, StreamsMember]:
        """The members by their ids."""
        return self._known.by_id

    @property
    def state(self) -> GroupState:
        """The group's state, by Kafka's rules."""
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self._validated_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        is_reconciled = all(member.is_reconciled(self.assignment_epoch) for member in self.members.values())
        return GroupState.STABLE if is_reconciled else GroupState.RECONCILING

    def is_subscribed(self, topic: str) -> bool:
        """Return True if tasks of the group read a topic."""
        return bool(self.members) and self.topology is not None and self.topology.reader_of(topic) is not None

    def unused_since(self, topic: str, committed_ms: int) -> int | None:
        """Return the time since which no task needs an offset of a topic; None: tasks need it."""
        return None if self.is_subscribed(topic) else committed_ms

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, version: int
    ) -> int:
        """Return the error code for a commit in the name of this member, or 0."""
        is_nameless = generation == -1 and not member_id and instance_id is None
        if (generation < 0 and not self.members) or (is_transactional and is_nameless):
            return 0
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not is_transactional and version < OffsetCommitRequest.MEMBER_EPOCHS:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.STALE_MEMBER_EPOCH if generation > member.epoch else 0

    def check_partitions(self, member_id: str, generation: int, places: Collection[tuple[str, int]]) -> int:
        """Accept an earlier epoch in a commit for tasks that the member has run since then (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or generation == member.epoch or self.topology is None:
            return 0
        since = {**member.revoking_active, **member.active}
        for topic, index in places:
            reader = self.topology.reader_of(topic)
            if reader is None or since.get(Task(reader, index), generation + 1) > generation:
                return ErrorCode.STALE_MEMBER_EPOCH
        return 0

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """Return the error code for a fetch of offsets in the name of this member, or 0."""
        if member_id is None:
            return 0 if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka fails on it
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return 0 if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def check_offset_delete(self) -> int:
        """Return 0: clients may delete offsets of topics that no task reads."""
        return 0

    def leave_classic(self, leaving: Sequence[tuple[str, str | None]]) -> list[int]:
        """Return an error for each: no member uses the classic protocol."""
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)

    # --- heartbeats

    def heartbeat(self, message: Any, client_id: str, host: str, version: int) -> tuple[Any, Sequence[InternalTopic]]:
        """Handle a heartbeat of a member that joins or stays. Return the response, and the internal topics to create.

        Raises:
            Refusal: nothing is changed, except by `_relabel` and `_remember`.
        """
        self._relabel(message.member_id, message.instance_id)
        beat = self._examine(message, client_id, host)
        plan = self._plan(beat)
        now = Reconciliation(
            beat.described,
            plan.target_epoch,
            plan.followed.get(beat.member_id, _NO_TASKS),
            beat.owned,
            self._known.owners,
        ).step()
        response = self._response(beat, now, version)
        self._remember(beat, response.endpoint_information_epoch)
        if message.endpoint_information_epoch != response.endpoint_information_epoch:
            others = [each for name, each in self.members.items() if name not in (beat.member_id, beat.holder)]
            counts = {name: count for name, (_, count) in beat.metadata.items()}
            response.partitions_by_user_endpoint = endpoints([*others, now], beat.configured, counts)
        statuses = [*plan.statuses, *self._standing_statuses(beat, version)]
        self._commit(beat, plan, now)
        response.status = [response.Status(status_code=code, status_detail=detail) for code, detail in statuses]
        return response, beat.configured.missing

    def _examine(self, message: Any, client_id: str, host: str) -> Beat:
        """Check a heartbeat, and return its changes of the member and of the topology."""
        owned = tasks_of(message)
        if message.member_epoch == 0:
            self._check_size(message)
        before, holder = self._known.before(message, owned)
        topology = self._topology(message.topology)
        metadata = metadata_of(self._cluster.topics, topology.required_topics())
        configured = self.memory.configured
        if configured is None or metadata != self._metadata:
            configured = configure(topology, {name: count for name, (_, count) in metadata.items()})
        check_tasks(configured, owned)
        described = before.described_by(message, client_id, host)
        offsets = [offsets_of(each) for each in (message.task_offsets, message.task_end_offsets)]
        return Beat(message, before, described, holder, owned, topology, metadata, configured, offsets)

    def _check_size(self, message: Any) -> None:
        most = self._cluster.config_int("group.streams.max.size")
        is_known = message.instance_id in self._known.static or message.member_id in self.members
        if len(self.members) >= most and not is_known:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {most} members.",
            )

    def _topology(self, message: Any) -> StreamsTopology:
        """Return the group's topology: that of its first member. Later members must have the same."""
        asked = None if message is None else topology_of(message)
        found = self.topology or asked
        if found is None:
            raise failure()
        if asked is not None and asked.epoch >= found.epoch and asked != found:
            raise Refusal(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return found

    # --- epochs and assignments

    def _plan(self, beat: Beat) -> Plan:
        """Check if the group needs another assignment, and make it if that is allowed now."""
        described, own = beat.described, beat.member_id
        settings = self._assignor_settings()
        bumps = (
            described.needs_assignment_after(beat.before, is_static=beat.message.instance_id is not None)
            or beat.metadata != self._metadata
            or beat.validated_epoch != self._validated_epoch
            or settings != self._settings
        )
        is_settled = not bumps and self.state is GroupState.STABLE
        # A member that has lost tasks of its target gets them back, in an epoch without another assignment.
        regains = is_settled and not described.has_tasks(self.targets.get(own, _NO_TASKS))
        plan = Plan(self.epoch + (bumps or regains), self.assignment_epoch, settings=settings)
        plan.statuses += stale_topology(described, self.topology)
        kept = {name: target for name, target in self.targets.items() if name != beat.holder}
        plan.targets = {**kept, own: self.targets.get(beat.holder or own, _NO_TASKS)}
        delay = self._delay_of(plan, regains=regains)
        if delay is not None:
            plan.statuses.append(delayed(delay))
        elif plan.epoch > self.assignment_epoch:
            plan.target_epoch, plan.assigns = plan.epoch, not regains
            if plan.assigns:
                after = {name: each for name, each in self.members.items() if name != beat.holder} | {own: described}
                offsets = self.memory.offsets | ({} if beat.offsets[0] is None else {own: beat.offsets[0]})
                plan.targets = assignment(after, beat.configured, settings[0], offsets)
        epoch, followed = self.memory.followed
        if is_settled:
            plan.followed = plan.targets
        elif epoch == plan.target_epoch:
            plan.followed = followed
        else:
            plan.followed = {} if delay == INITIAL_DELAY else plan.targets
        return plan

    def _delay_of(self, plan: Plan, *, regains: bool) -> str | None:
        """Return the reason why the next assignment waits; None: it does not wait."""
        if self._is_delayed():
            return INITIAL_DELAY
        waits = plan.epoch > self.assignment_epoch and not regains and not self._may_assign()
        return "assignment interval" if waits else None

    def _is_delayed(self) -> bool:
        """Return True if a new group waits for more members, or is about to."""
        return self._delay is not None or (self.state is GroupState.EMPTY and self._delay_ms() > 0)

    def _option(self, name: str) -> int:
        """Return one of the group's integer options."""
        return self._cluster.group_config_int(self.group_id, f"streams.{name}")

    def _delay_ms(self) -> int:
        return self._option("initial.rebalance.delay.ms")

    def _may_assign(self) -> bool:
        """Return True if enough time has passed since the last assignment (KIP-1263)."""
        interval_ms = self._option("assignment.interval.ms")
        return self._assigned_ms is None or self._cluster.now_ms >= self._assigned_ms + interval_ms

    def _assignor_settings(self) -> tuple[int, str]:
        """Return the options whose change triggers another assignment: standby replicas and tags."""
        replicas = self._option("num.standby.replicas")
        return replicas, ",".join(elements(self._cluster.group_config(self.group_id, RACK_TAGS)))

    def _end_delay(self) -> None:
        """End the new group's wait for members. Without a configured topology its next heartbeat assigns."""
        self._delay = None
        configured = self.memory.configured
        if self.members and configured is not None and self._settings is not None:
            self.targets = assignment(self.members, configured, self._settings[0], self.memory.offsets)
            self.assignment_epoch, self._assigned_ms = self.epoch, self._cluster.now_ms

    def _relabel(self, member_id: str, instance_id: str | None) -> None:
        """Move a target to the new member of an instance id, as in Kafka even if the heartbeat is refused later."""
        holder = self._known.static.get(instance_id or "")
        epoch, followed = self.memory.followed
        if holder in followed and holder != member_id:
            rest = {name: tasks for name, tasks in followed.items() if name != holder}
            self.memory.followed = epoch, {**rest, member_id: followed[holder]}

    def _remember(self, beat: Beat, endpoint_epoch: int) -> None:
        """Keep the changes that stay even if the heartbeat fails after this, as in Kafka."""
        memory = self.memory
        memory.endpoint_epoch = endpoint_epoch
        for kept, given in zip((memory.offsets, memory.end_offsets), beat.offsets, strict=True):
            if given is not None:
                kept[beat.member_id] = given
        if beat.message.shutdown_application:
            self._request_shutdown(beat.member_id)

    def _commit(self, beat: Beat, plan: Plan, now: StreamsMember) -> None:
        """Keep all changes of a heartbeat."""
        if self.state is GroupState.EMPTY and self._delay is None and self._delay_ms() > 0:
            self._delay = self._cluster.after(self._delay_ms(), self._end_delay)
        if plan.epoch > self.epoch:
            self._metadata, self._settings = beat.metadata, plan.settings
            self._validated_epoch = beat.validated_epoch
        if beat.holder is not None:
            self._forget(beat.holder)
        self._known.put(now)
        self.epoch, self.topology, self.targets = plan.epoch, beat.topology, plan.targets
        self.assignment_epoch = plan.target_epoch
        if plan.assigns:
            self._assigned_ms = self._cluster.now_ms
        self.memory.configured = beat.configured
        if self._option("num.warmup.replicas") > 0:
            self.memory.followed = plan.target_epoch, dict(plan.followed)
        if now != beat.described:
            self._time_rebalance(now)
        self._time_session(now.member_id)

    # --- responses

    def _response(self, beat: Beat, now: StreamsMember, version: int) -> Any:
        """Return the response to a heartbeat, without its statuses and endpoints."""
        response = protocol.StreamsGroupHeartbeatResponse
        option = self._option
        found = response(
            member_id=now.member_id,
            member_epoch=now.epoch,
            heartbeat_interval_ms=option("heartbeat.interval.ms"),
            task_offset_interval_ms=option("task.offset.interval.ms"),
            acceptable_recovery_lag=option("acceptable.recovery.lag")
            if version >= StreamsGroupHeartbeatRequest.RECOVERY_LAG
            else -1,
        )
        has_other_tasks = not now.has_same_tasks(beat.before)
        if beat.message.member_epoch == 0 or has_other_tasks:
            found.active_tasks = task_ids(response, now.active)
            found.standby_tasks = task_ids(response, now.standby)
            found.warmup_tasks = []
        moved = now.endpoint != beat.before.endpoint or (has_other_tasks and now.endpoint is not None)
        found.endpoint_information_epoch = self.memory.endpoint_epoch + moved
        return found

    def _standing_statuses(self, beat: Beat, version: int) -> Statuses:
        """Return the statuses that every member gets."""
        found = [] if beat.configured.problem is None else [beat.configured.problem]
        found += shutdown(self.memory.shutdown_by)
        tags = elements(self._assignor_settings()[1]) if version >= StreamsGroupHeartbeatRequest.MISSING_TAGS else []
        return found + missing_tags(beat.described.tags, tags)

    def described(self) -> Any:
        """Return the group for a StreamsGroupDescribe."""
        assert self.topology is not None, "the first member brings a topology"
        memory, nothing = self.memory, dict[Task, int]()
        return protocol.StreamsGroupDescribeResponse.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor_name=STICKY,
            topology=described_topology(self.topology, memory.configured),
            members=[
                described_member(
                    each,
                    self.targets.get(name, _NO_TASKS),
                    memory.offsets.get(name, nothing),
                    memory.end_offsets.get(name, nothing),
                )
                for name, each in self.members.items()
            ],
        )

    # --- leaving

    def leave(self, message: Any) -> Any:
        """Remove a member, or a static one for a while. Return the response.

        Raises:
            Refusal: the member is not in the group.
        """
        if message.shutdown_application:
            self._request_shutdown(message.member_id)
        member = self._known.find(message.member_id, message.instance_id)
        if message.instance_id is not None and message.member_epoch == LEFT_FOR_A_WHILE:
            self._known.put(member.away())
        else:
            self._remove(member.member_id)
        return protocol.StreamsGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=message.member_epoch, status=[]
        )

    def _request_shutdown(self, member_id: str) -> None:
        """Note the first request of a shutdown; it holds until the group is empty."""
        if self.memory.shutdown_by is None:
            self.memory.shutdown_by = member_id

    def _remove(self, member_id: str) -> None:
        """Remove a member that has left, or whose session has ended."""
        self._forget(member_id)
        self.epoch += 1
        if not self.members:  # no tasks are left to assign, and the next member does not wait
            self.assignment_epoch, self._assigned_ms = self.epoch, None

    def _forget(self, member_id: str) -> None:
        self._known.remove(member_id)
        self.targets.pop(member_id, None)
        self.timers.stop(member_id)
        for kept in (self.memory.offsets, self.memory.end_offsets):
            kept.pop(member_id, None)
        if not self.members:
            self.memory.shutdown_by = None

    # --- time

    def _time_session(self, member_id: str) -> None:
        """Restart a member's session."""
        delay_ms = self._option("session.timeout.ms")
        self.timers.start(member_id, Limit.SESSION, delay_ms, lambda: self._remove(member_id))

    def _time_rebalance(self, member: StreamsMember) -> None:
        """Remove a member that does not close its tasks in time."""

        def expire() -> None:
            if self.members[member.member_id].epoch == member.epoch:
                self._remove(member.member_id)

        if member.state is MemberState.UNREVOKED_TASKS:
            self.timers.start(member.member_id, Limit.REBALANCE, member.rebalance_timeout_ms, expire)
        else:
            self.timers.stop(member.member_id, Limit.REBALANCE)

    # --- coordinators

    def unload(self, *, tell: bool) -> None:
        """End this coordinator's work for the group. No request waits for it."""
        del tell
        self.timers.stop_all()
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None

    def load(self) -> None:
        """Load the group at a coordinator: members and epochs are kept, sessions restart, memory is empty."""
        self.memory = Memory()
        for member in self.members.values():
            self._time_session(member.member_id)
            self._time_rebalance(member)
