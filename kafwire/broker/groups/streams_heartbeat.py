"""One heartbeat of a streams group's member: its changes, the plan that follows, and the statuses.

`StreamsGroup` keeps the results; an earlier error changes nothing. See KIP-1071.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafwire.broker.groups.sticky_tasks import TaskHolder, TasksSpec, sticky
from kafwire.broker.groups.streams_member import StreamsMember, Tasks
from kafwire.broker.groups.streams_topics import ConfiguredTopology, Status
from kafwire.broker.groups.streams_topology import StreamsTopology, Task
from kafwire.broker.groups.subscriptions import Metadata
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode

Statuses = list[tuple[Status, str]]
Offsets = dict[Task, int]


@dataclass(slots=True)
class Memory:
    """The state that a coordinator does not write to its log: a coordinator that loads the group does not have it.

    A new group loses it too with its second heartbeat: Kafka writes the group to its log with the first one.
    """

    configured: ConfiguredTopology | None = None
    shutdown_by: str | None = None  # the member that requested the end of the application
    endpoint_epoch: int = 0
    offsets: dict[str, Offsets] = field(default_factory=dict)  # offsets by member
    end_offsets: dict[str, Offsets] = field(default_factory=dict)
    followed: tuple[int, dict[str, Tasks]] = (-1, {})  # the targets that members follow in an epoch


@dataclass(slots=True)
class Beat:
    """A heartbeat. `holder`: the static member whose place the sender takes; None: none.

    `described`: the member after the heartbeat, with its tasks of before. `offsets`: the reported offsets and end
    offsets; None: as before.
    """

    message: Any
    before: StreamsMember
    described: StreamsMember
    holder: str | None
    owned: Tasks | None
    topology: StreamsTopology
    metadata: Metadata
    configured: ConfiguredTopology
    offsets: Sequence[Offsets | None]

    @property
    def member_id(self) -> str:
        """The member id of the sender."""
        return self.described.member_id

    @property
    def validated_epoch(self) -> int:
        """The topology's epoch, once all its topics exist."""
        return self.topology.epoch if self.configured.is_ready else -1


@dataclass(slots=True)
class Plan:
    """The group's epochs after a heartbeat. `followed`: the present targets for reconciliation."""

    epoch: int
    target_epoch: int
    settings: tuple[int, str]
    targets: dict[str, Tasks] = field(default_factory=dict)
    followed: dict[str, Tasks] = field(default_factory=dict)
    assigns: bool = False
    statuses: Statuses = field(default_factory=list)


def check_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> None:
    """Refuse tasks that are not in the topology.

    Raises:
        Refusal: the member runs another topology.
    """
    if owned is None or configured.subtopologies is None or not configured.is_ready:
        return
    for task in [*sorted(owned.active), *sorted(owned.standby), *sorted(owned.warmup)]:
        subtopology = configured.subtopologies.get(task.subtopology_id)
        if subtopology is None:
            text = f"Subtopology {task.subtopology_id} does not exist in the topology."
            raise Refusal(ErrorCode.INVALID_REQUEST, text)
        if not 0 <= task.partition < subtopology.tasks:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. Number of tasks for this"
                f" subtopology: {subtopology.tasks}",
            )


def offsets_of(listed: Iterable[Any] | None) -> Offsets | None:
    """Return the reported offsets of tasks; None: the heartbeat has none.

    Raises:
        Refusal: a task is listed twice.
    """
    if listed is None:
        return None
    found: Offsets = {}
    for each in listed:
        task = Task(each.subtopology_id, each.partition)
        if task in found:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition"
                f" {each.partition}.",
            )
        found[task] = each.offset
    return found


def stale_topology(member: StreamsMember, topology: StreamsTopology | None) -> Statuses:
    """Return the status of a member with an older topology than the group's."""
    if topology is None or member.topology_epoch >= topology.epoch:
        return []
    text = f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
    return [(Status.STALE_TOPOLOGY, text)]


def delayed(reason: str) -> tuple[Status, str]:
    """Return the status of a member whose assignment comes later."""
    return Status.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {reason}."


def shutdown(member_id: str | None) -> Statuses:
    """Return the status of an application whose end a member has requested."""
    if member_id is None:
        return []
    text = f"Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire"
    return [(Status.SHUTDOWN_APPLICATION, f"{text} application.")]


def missing_tags(tags: Mapping[str, str], wanted: Iterable[str]) -> Statuses:
    """Return the status of a member without the tags by which standby replicas are spread."""
    missing = [tag for tag in wanted if tag not in tags]
    if not missing:
        return []
    text = (
        f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via"
        " 'client.tag.<tagKey>' in your Streams config."
    )
    return [(Status.MISSING_CLIENT_TAGS, text)]


def assignment(
    members: Mapping[str, StreamsMember],
    configured: ConfiguredTopology,
    standby_replicas: int,
    offsets: Mapping[str, Mapping[Task, int]],
) -> dict[str, Tasks]:
    """Return each member's tasks: none before all topics exist. `offsets`: reported ones, by member."""
    if not configured.is_ready or configured.subtopologies is None:
        return {name: Tasks() for name in members}
    holders = {
        name: TaskHolder(each.process_id, frozenset(each.active), frozenset(each.standby), offsets.get(name, {}))
        for name, each in members.items()
    }
    subtopologies = {name: (each.tasks, bool(each.changelogs)) for name, each in configured.subtopologies.items()}
    made = sticky(TasksSpec(holders, subtopologies, standby_replicas))
    return {name: Tasks(frozenset(its.active), frozenset(its.standby)) for name, its in made.items()}
