"""A member of a streams group: its request, its tasks, and its steps towards the tasks of the group's assignment.

A member is immutable: each step returns another one, which the group keeps if the request succeeds. The rules
are those of Kafka's `CurrentAssignmentBuilder`. Kafka 4.4.0 assigns no warm-up tasks, so that members have none. See
KIP-1071.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from kafwire.broker.groups.streams_topology import Task
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

LEFT_FOR_A_WHILE = -2  # the epoch of a static member that announces its return
_NO_TASKS: frozenset[Task] = frozenset()


class MemberState(Enum):
    """The progress of a member towards its assignment."""

    STABLE = "STABLE"
    UNREVOKED_TASKS = "UNREVOKED_TASKS"  # the member must close tasks first
    UNRELEASED_TASKS = "UNRELEASED_TASKS"  # other members must close tasks of its assignment


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks by role. `warmup`: only heartbeats may list such tasks."""

    active: AbstractSet[Task] = _NO_TASKS
    standby: AbstractSet[Task] = _NO_TASKS
    warmup: AbstractSet[Task] = _NO_TASKS


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member. Active tasks have the epoch from which on the member runs them."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    state: MemberState = MemberState.STABLE
    epoch: int = 0
    previous_epoch: int = 0
    active: Mapping[Task, int] = field(default_factory=dict)
    standby: AbstractSet[Task] = _NO_TASKS
    revoking_active: Mapping[Task, int] = field(default_factory=dict)
    revoking_standby: AbstractSet[Task] = _NO_TASKS

    def described_by(self, message: Any, client_id: str, host: str) -> StreamsMember:
        """Return the member with a heartbeat's fields: null fields stay, except the endpoint on joining."""
        timeout_ms, end, tags = message.rebalance_timeout_ms, message.user_endpoint, message.client_tags
        endpoint = None if end is None else (end.host, end.port)
        return replace(
            self,
            instance_id=_or(message.instance_id, self.instance_id),
            rack_id=_or(message.rack_id, self.rack_id),
            client_id=client_id,
            host=host,
            rebalance_timeout_ms=self.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topology_epoch=self.topology_epoch if message.topology is None else message.topology.epoch,
            process_id=self.process_id if message.process_id is None else message.process_id,
            endpoint=endpoint if endpoint is not None or message.member_epoch == 0 else self.endpoint,
            tags=self.tags if tags is None else {each.key: each.value for each in tags},
        )

    def needs_assignment_after(self, before: StreamsMember, *, is_static: bool) -> bool:
        """Return True if a heartbeat changed the assignment's input: any field, except for static members."""
        if not is_static:
            return self != before
        mine, its = ((each.topology_epoch, each.rack_id, each.tags, each.process_id) for each in (self, before))
        return mine != its

    def has_same_tasks(self, other: StreamsMember) -> bool:
        """Return True if another member runs the same tasks, active ones since the same epochs."""
        return self.active == other.active and self.standby == other.standby

    def has_tasks(self, tasks: Tasks) -> bool:
        """Return True if the member runs these tasks and no others."""
        return self.active.keys() == tasks.active and self.standby == tasks.standby

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Return True if the member has its tasks of the group's assignment of this epoch, and no others."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def away(self) -> StreamsMember:
        """Return the static member after it left for a while: it keeps its tasks for its return."""
        return replace(
            self,
            epoch=LEFT_FOR_A_WHILE,
            active=dict.fromkeys(self.active, 0),
            revoking_active={},
            revoking_standby=_NO_TASKS,
        )

    def successor(self, member_id: str) -> StreamsMember:
        """Return the member that comes back with this one's instance id."""
        return replace(self, member_id=member_id, epoch=0, previous_epoch=0)


def _or(given: str | None, known: str | None) -> str | None:
    return known if given is None else given


class TaskOwners:
    """The processes that run each task: one for an active task, any number for standby tasks."""

    def __init__(self) -> None:
        self.active: dict[Task, str] = {}
        self._standby: dict[Task, set[str]] = {}

    def standby(self, task: Task) -> AbstractSet[str]:
        """Return the processes that keep a task's state."""
        return self._standby.get(task, frozenset())

    def add(self, member: StreamsMember) -> None:
        """Add a member that runs tasks, or has not closed them."""
        self.active.update(dict.fromkeys([*member.active, *member.revoking_active], member.process_id))
        for task in [*member.standby, *member.revoking_standby]:
            self._standby.setdefault(task, set()).add(member.process_id)

    def remove(self, member: StreamsMember) -> None:
        """Remove a member that no longer runs its tasks."""
        for task in [*member.active, *member.revoking_active]:
            if self.active.get(task) == member.process_id:
                del self.active[task]
        for task in [*member.standby, *member.revoking_standby]:
            self._standby.get(task, set()).discard(member.process_id)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One step of a member towards the group's assignment. `owned`: the tasks that the member reports; None: none."""

    member: StreamsMember
    target_epoch: int
    target: Tasks
    owned: Tasks | None
    owners: TaskOwners

    def step(self) -> StreamsMember:
        """Return the member after the step; the same one while it must close tasks."""
        member = self.member
        if member.is_reconciled(self.target_epoch):
            return member
        if member.state is not MemberState.UNREVOKED_TASKS:
            return self._next(member.epoch)
        if self._still_runs(member.revoking_active, member.revoking_standby):
            return member
        return self._next(member.epoch + 1)

    def _still_runs(self, active: Mapping[Task, int], standby: AbstractSet[Task]) -> bool:
        """Return True if the member has not closed these: a member that reports no tasks at all may run them."""
        owned = self.owned
        return owned is None or not (owned.active.isdisjoint(active) and owned.standby.isdisjoint(standby))

    def _next(self, epoch: int) -> StreamsMember:
        member, target = self.member, self.target
        active = {task: since for task, since in member.active.items() if task in target.active}
        missing_active = target.active - active.keys()
        new_active = {task for task in missing_active if not self._is_unreleased_active(task)}
        standby = member.standby & target.standby
        missing_standby = target.standby - standby
        free_standby = {task for task in missing_standby if not self._is_unreleased_standby(task)}
        has_unreleased = len(new_active) + len(free_standby) < len(missing_active) + len(missing_standby)
        # An active task becomes a standby task of the same member at once.
        demoted = free_standby & member.active.keys()
        new_standby = free_standby - demoted
        # A standby task that becomes active stays until the member may run it, and is not revoked.
        promoted = member.standby & target.active
        revoking_active = {task: since for task, since in member.active.items() if task not in active}
        revoking_standby = member.standby - standby - promoted
        if (revoking_active or revoking_standby) and self._still_runs(revoking_active, revoking_standby):
            return replace(
                member,
                state=MemberState.UNREVOKED_TASKS,
                epoch=epoch,
                previous_epoch=member.epoch,
                active=active,
                standby=standby | demoted | promoted,
                revoking_active=revoking_active,
                revoking_standby=revoking_standby,
            )
        return replace(
            member,
            state=MemberState.UNRELEASED_TASKS if has_unreleased else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            active=active | dict.fromkeys(new_active, self.target_epoch),
            standby=standby | demoted | new_standby | (promoted - new_active),
            revoking_active={},
            revoking_standby=_NO_TASKS,
        )

    def _is_unreleased_active(self, task: Task) -> bool:
        """Return True if a process runs the task, or another member of this process keeps its state."""
        process = self.member.process_id
        return task in self.owners.active or (process in self.owners.standby(task) and task not in self.member.standby)

    def _is_unreleased_standby(self, task: Task) -> bool:
        """Return True if another member of this process has the task."""
        process = self.member.process_id
        runs = self.owners.active.get(task) == process and task not in self.member.active
        return runs or process in self.owners.standby(task)


def check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Refuse an epoch other than the member's, unless the member may have missed the last response.

    Raises:
        Refusal: the member must join again.
    """
    is_contained = owned is not None and (
        owned.active <= member.active.keys() and owned.standby <= member.standby and not owned.warmup
    )
    if epoch in (0, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch and is_contained):
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def tasks_of(message: Any) -> Tasks | None:
    """Return the tasks that a heartbeat reports; None: it reports none."""
    if message.active_tasks is None:
        return None
    return Tasks(*(_tasks(each) for each in (message.active_tasks, message.standby_tasks, message.warmup_tasks)))


def _tasks(listed: Any) -> frozenset[Task]:
    return frozenset(Task(each.subtopology_id, index) for each in listed for index in each.partitions)
