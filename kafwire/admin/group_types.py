"""The values about groups that `kafwire.Admin` returns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafwire.lazy_dataclass import dataclass
from kafwire.types import TopicPartition

__all__ = [
    "GROUP_STATES",
    "GROUP_TYPES",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "InternalTopic",
    "StreamsAssignment",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTask",
    "StreamsTopology",
    "TopologyDescription",
    "TopologyNode",
]

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
GROUP_TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)
EMPTY, NOT_READY = "Empty", "NotReady"
GROUP_STATES = (
    *(EMPTY, "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"),
    *(NOT_READY, "Dead"),
)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in the result of `Admin.list_groups`.

    Args:
        group_id: the group.
        type: "classic", "consumer", "share" or "streams"; "" from brokers before Kafka 3.8.
        state: the state, for example "Stable"; "" from brokers before Kafka 2.6.
        protocol_type: the type of its members, for example "consumer"; "" if it has only offsets.
        coordinator: the broker that listed it.

    Example:
        >>> from kafwire.admin import GroupListing
        >>> GroupListing("board", "consumer", "Stable", "consumer", 1).state
        'Stable'
    """

    __module__ = "kafwire.admin"
    group_id: str
    type: str
    state: str
    protocol_type: str
    coordinator: int


class StreamsTask(NamedTuple):
    """A task of a streams group: a partition of a subtopology. Its text is that of Kafka Streams, for example "0_1".

    Args:
        subtopology_id: the subtopology.
        partition: the partition of the subtopology's source topics.

    Example:
        >>> from kafwire.admin import StreamsTask
        >>> str(StreamsTask("0", 1))
        '0_1'
    """

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        """Return the task's id."""
        return f"{self.subtopology_id}_{self.partition}"


StreamsTask.__module__ = "kafwire.admin"


@dataclass(frozen=True, slots=True)
class StreamsAssignment:
    """The tasks of a member of a streams group.

    Args:
        active: the tasks that it processes.
        standby: the tasks whose state it keeps as a copy.
        warmup: the tasks whose state it restores before it processes them.

    Example:
        >>> from kafwire.admin import StreamsAssignment, StreamsTask
        >>> str(StreamsAssignment(active=(StreamsTask("0", 1),)).active[0])
        '0_1'
    """

    __module__ = "kafwire.admin"
    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    warmup: tuple[StreamsTask, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """The part of a member that only streams groups have.

    Args:
        topology_epoch: the epoch of the topology that the member has.
        process_id: the process; its members share the state on disk.
        endpoint: host and port for interactive queries; None if the application has none.
        client_tags: the tags by which standby tasks are spread.
        assignment: the tasks that the member has.
        target_assignment: the tasks that it moves to.
        task_offsets: for each task with state, the sum of the offsets that the member has restored.
        task_end_offsets: for each of these tasks, the sum of the end offsets.

    Example:
        >>> from kafwire.admin import StreamsAssignment, StreamsMember
        >>> StreamsMember(1, "p", None, {}, StreamsAssignment(), StreamsAssignment(), {}, {}).topology_epoch
        1
    """

    __module__ = "kafwire.admin"
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    assignment: StreamsAssignment
    target_assignment: StreamsAssignment
    task_offsets: Mapping[StreamsTask, int]
    task_end_offsets: Mapping[StreamsTask, int]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    Args:
        member_id: its id.
        instance_id: the `group_instance_id` of a static member; None for others.
        client_id: the client's `client_id`.
        host: the client's address.
        protocol: the protocol of the member: "classic", "consumer", "share" or "streams"; a group can have classic
            members during its migration. None: the broker did not report it.
        epoch: the member's epoch; None for classic groups, as no response has their generation.
        assignment: its partitions; in a streams group, those that its active tasks read.
        target_assignment: the partitions that it moves to; None except in consumer groups.
        topics: the topics to which it subscribes.
        pattern: the regular expression by which the broker subscribes it; None if it has none.
        rack_id: its rack; None if it has none.
        streams: its tasks and so on; None except in streams groups.
        problem: the reason why the assignment of a classic member cannot be decoded; its partitions are then unknown.

    Example:
        >>> import kafwire
        >>> from kafwire.admin import GroupMember
        >>> GroupMember("m", None, "board", "10.0.0.1", "consumer", 3, (kafwire.TopicPartition("flights", 0),)).epoch
        3
    """

    __module__ = "kafwire.admin"
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    protocol: str | None
    epoch: int | None
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    rack_id: str | None = None
    streams: StreamsMember | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the coordinator creates for a streams group.

    Args:
        name: the topic.
        partitions: the number of its partitions; 0 if other topics decide it.
        replication_factor: the number of replicas; 0 or -1: the broker's default.
        config: its configuration.

    Example:
        >>> from kafwire.admin import InternalTopic
        >>> InternalTopic("counts-changelog", 6, 3, {"cleanup.policy": "compact"}).partitions
        6
    """

    __module__ = "kafwire.admin"
    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A part of a topology whose tasks are independent of other parts.

    Args:
        subtopology_id: its id.
        source_topics: the topics that it reads.
        repartition_sink_topics: the repartition topics that it writes.
        repartition_source_topics: the repartition topics that it reads.
        state_changelog_topics: the changelogs of its stores.

    Example:
        >>> from kafwire.admin import StreamsSubtopology
        >>> StreamsSubtopology("0", ("flights",), (), (), ()).source_topics
        ('flights',)
    """

    __module__ = "kafwire.admin"
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    state_changelog_topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """A node of a processing graph (KIP-1331).

    Args:
        name: the node.
        type: "source", "processor" or "sink"; "unknown" for a type that kafwire does not know.
        topics: the topics of a source.
        sink_topic: the topic of a sink; None for other nodes, and if the program chooses it for each record.
        stores: the stores of a processor.
        successors: the names of the nodes to which it passes records.

    Example:
        >>> from kafwire.admin import TopologyNode
        >>> TopologyNode("flights-source", "source", ("flights",), None, (), ("count",)).successors
        ('count',)
    """

    __module__ = "kafwire.admin"
    name: str
    type: str
    topics: tuple[str, ...]
    sink_topic: str | None
    stores: tuple[str, ...]
    successors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopologyDescription:
    """The processing graph of a streams group (KIP-1331).

    Args:
        subtopologies: the nodes of each subtopology, by its id.
        global_stores: source and processor of each global store.

    Example:
        >>> from kafwire.admin import TopologyDescription, TopologyNode
        >>> source = TopologyNode("all", "source", ("flights",), None, (), ())
        >>> TopologyDescription({"0": (source,)}, ()).subtopologies["0"][0].name
        'all'
    """

    __module__ = "kafwire.admin"
    subtopologies: Mapping[str, tuple[TopologyNode, ...]]
    global_stores: tuple[tuple[TopologyNode, TopologyNode], ...]


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """The topology of a streams group.

    Args:
        epoch: its epoch.
        subtopologies: its parts.
        description: the processing graph, if `topology_description` was asked for and the broker stores it.
        description_status: "not_requested", "not_stored", "error" or "available".

    Example:
        >>> from kafwire.admin import StreamsTopology
        >>> StreamsTopology(1, ()).description_status
        'not_requested'
    """

    __module__ = "kafwire.admin"
    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    description: TopologyDescription | None = None
    description_status: str = "not_requested"


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group of any type, as `Admin.describe_groups` returns it.

    Args:
        group_id: the group.
        type: "classic", "consumer", "share" or "streams".
        state: the state: "Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling",
            "NotReady" or "Dead".
        coordinator: the broker that coordinates it.
        members: its members.
        assignor: the assignor, or the protocol that a classic group has chosen; "" if the broker did not report it.
        protocol_type: the type of a classic group's members: "consumer", "connect" and so on; "" if it has only
            offsets. Groups of other types have the name of their type.
        epoch: the group's epoch, which grows with each change of members or topics; None for classic groups.
        assignment_epoch: the epoch of the target assignment; None for classic groups.
        topology: the topology of a streams group; None for others, and for a group without one.
        authorized_operations: the operations that this client may perform on the group, for example "Read"; None if
            they were not asked for.

    Example:
        >>> with kafwire.Admin(bootstrap) as admin:
        ...     groups = admin.describe_groups([group])
        >>> groups[group].is_empty
        True
    """

    __module__ = "kafwire.admin"
    group_id: str
    type: str
    state: str
    coordinator: int
    members: tuple[GroupMember, ...]
    assignor: str = ""
    protocol_type: str = ""
    epoch: int | None = None
    assignment_epoch: int | None = None
    topology: StreamsTopology | None = None
    authorized_operations: frozenset[str] | None = None

    @property
    def is_empty(self) -> bool:
        """True if it has no members, so that its offsets may be changed."""
        return self.state in {EMPTY, "Dead"}

    def owners(self, partition: TopicPartition) -> list[GroupMember]:
        """Return the members that read a partition: at most one, except in share groups.

        Args:
            partition: the partition.

        Returns:
            The members, in the order of `members`.
        """
        return [member for member in self.members if partition in member.assignment]
