"""The records of `__consumer_offsets` for streams groups. See KIP-1071.

`coordinator_record` has the layout of keys and values.
"""

from kafwire.protocol.coordinator_record import CoordinatorKey, CoordinatorValue
from kafwire.protocol.spec import Struct, field, int8, int16, int32, int64, uint16


class StreamsGroupMetadataKey(CoordinatorKey, record_type=17):
    """The key of a streams group's epoch."""

    group_id: str = field("0")


class StreamsGroupMetadataValue(CoordinatorValue, record_type=17, versions="0", flexible="0+"):
    """The epoch of a streams group, and of its validated topology."""

    class LastAssignmentConfig(Struct):
        key: str = field("0+")
        value: str = field("0+")

    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+")
    validated_topology_epoch: int32 = field("0+", default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field("0+", nullable="0+", tag=1)
    stored_description_topology_epoch: int32 = field("0+", default=-1, tag=2)
    failed_description_topology_epoch: int32 = field("0+", default=-1, tag=3)


class StreamsGroupMemberMetadataKey(CoordinatorKey, record_type=19):
    """The key of a member of a streams group."""

    group_id: str = field("0")
    member_id: str = field("0")


class StreamsGroupMemberMetadataValue(CoordinatorValue, record_type=19, versions="0", flexible="0+"):
    """A member of a streams group: client, host, process and tags."""

    class Endpoint(Struct):
        host: str = field("0+")
        port: uint16 = field("0+")

    class KeyValue(Struct):
        key: str = field("0+")
        value: str = field("0+")

    instance_id: str | None = field("0+", nullable="0+")
    rack_id: str | None = field("0+", nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    topology_epoch: int32 = field("0+")
    process_id: str = field("0+")
    user_endpoint: Endpoint | None = field("0+", nullable="0+", default=None)
    client_tags: list[KeyValue] = field("0+")


class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=20):
    """The key of the epoch of a streams group's target assignment."""

    group_id: str = field("0")


class StreamsGroupTargetAssignmentMetadataValue(CoordinatorValue, record_type=20, versions="0", flexible="0+"):
    """The epoch of a streams group's target assignment."""

    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", ignorable=True, tag=0)


class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=21):
    """The key of the target assignment of a member."""

    group_id: str = field("0")
    member_id: str = field("0")


class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue, record_type=21, versions="0", flexible="0+"):
    """The target assignment of a member of a streams group: its tasks."""

    class TaskIds(Struct):
        subtopology_id: str = field("0+")
        partitions: list[int32] = field("0+")

    active_tasks: list[TaskIds] = field("0+")
    standby_tasks: list[TaskIds] = field("0+")
    warmup_tasks: list[TaskIds] = field("0+")


class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=22):
    """The key of the current assignment of a member."""

    group_id: str = field("0")
    member_id: str = field("0")


class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue, record_type=22, versions="0", flexible="0+"):
    """The tasks that a member of a streams group has, or revokes.

    `state`: 0 stable, 1 unrevoked tasks, 2 unreleased tasks.
    """

    class TaskIds(Struct):
        subtopology_id: str = field("0+")
        partitions: list[int32] = field("0+")
        assignment_epochs: list[int32] | None = field("0+", nullable="0+", tag=0)

    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    state: int8 = field("0+")
    active_tasks: list[TaskIds] = field("0+")
    standby_tasks: list[TaskIds] = field("0+")
    warmup_tasks: list[TaskIds] = field("0+")
    active_tasks_pending_revocation: list[TaskIds] = field("0+")
    standby_tasks_pending_revocation: list[TaskIds] = field("0+")
    warmup_tasks_pending_revocation: list[TaskIds] = field("0+")


class StreamsGroupTopologyKey(CoordinatorKey, record_type=23):
    """The key of a streams group's topology."""

    group_id: str = field("0")


class StreamsGroupTopologyValue(CoordinatorValue, record_type=23, versions="0", flexible="0+"):
    """The topology of a streams group: its subtopologies with their topics."""

    class TopicConfig(Struct):
        key: str = field("0+")
        value: str = field("0+")

    class TopicInfo(Struct):
        name: str = field("0+")
        partitions: int32 = field("0+")
        replication_factor: int16 = field("0+")
        topic_configs: list["StreamsGroupTopologyValue.TopicConfig"] = field("0+")

    class CopartitionGroup(Struct):
        source_topics: list[int16] = field("0+")
        source_topic_regex: list[int16] = field("0+")
        repartition_source_topics: list[int16] = field("0+")

    class Subtopology(Struct):
        subtopology_id: str = field("0+")
        source_topics: list[str] = field("0+")
        source_topic_regex: list[str] = field("0+")
        state_changelog_topics: list["StreamsGroupTopologyValue.TopicInfo"] = field("0+")
        repartition_sink_topics: list[str] = field("0+")
        repartition_source_topics: list["StreamsGroupTopologyValue.TopicInfo"] = field("0+")
        copartition_groups: list["StreamsGroupTopologyValue.CopartitionGroup"] = field("0+")

    epoch: int32 = field("0+")
    subtopologies: list[Subtopology] = field("0+")
