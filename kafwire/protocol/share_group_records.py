"""The records of `__consumer_offsets` for share groups. See KIP-932.

`coordinator_record` has the layout of keys and values.
"""

from kafwire.protocol.coordinator_record import CoordinatorKey, CoordinatorValue
from kafwire.protocol.spec import UUID, Struct, field, int8, int32, int64


class ShareGroupPartitionMetadataKey(CoordinatorKey, record_type=9, versions=None, removed="0"):
    """The key of the partitions of a share group, in Kafka 3.9 only; type 15 replaced it."""

    group_id: str = field("0")


class ShareGroupPartitionMetadataValue(CoordinatorValue, record_type=9, versions=None, removed="0", flexible="0+"):
    """The partitions for which a share group has state or loses it, in Kafka 3.9 only."""

    class TopicPartitionsInfo(Struct):
        topic_id: UUID = field("0+")
        topic_name: str = field("0+")
        partitions: list[int32] = field("0+")

    class TopicInfo(Struct):
        topic_id: UUID = field("0+")
        topic_name: str = field("0+")

    initialized_topics: list[TopicPartitionsInfo] = field("0+")
    deleting_topics: list[TopicInfo] = field("0+")


class ShareGroupMemberMetadataKey(CoordinatorKey, record_type=10):
    """The key of a member of a share group."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupMemberMetadataValue(CoordinatorValue, record_type=10, versions="0", flexible="0+"):
    """A member of a share group: client, host and subscription."""

    rack_id: str | None = field("0+", nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")


class ShareGroupMetadataKey(CoordinatorKey, record_type=11):
    """The key of a share group's epoch."""

    group_id: str = field("0")


class ShareGroupMetadataValue(CoordinatorValue, record_type=11, versions="0", flexible="0+"):
    """The epoch of a share group, and a hash of the metadata of its topics."""

    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+")


class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=12):
    """The key of the epoch of a share group's target assignment."""

    group_id: str = field("0")


class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue, record_type=12, versions="0", flexible="0+"):
    """The epoch of a share group's target assignment."""

    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", ignorable=True, tag=0)


class ShareGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=13):
    """The key of the target assignment of a member."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupTargetAssignmentMemberValue(CoordinatorValue, record_type=13, versions="0", flexible="0+"):
    """The target assignment of a member of a share group."""

    class TopicPartition(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")

    topic_partitions: list[TopicPartition] = field("0+")


class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=14):
    """The key of the current assignment of a member."""

    group_id: str = field("0")
    member_id: str = field("0")


class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue, record_type=14, versions="0", flexible="0+"):
    """The partitions that a member of a share group has."""

    class TopicPartitions(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")

    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    state: int8 = field("0+")
    assigned_partitions: list[TopicPartitions] = field("0+")


class ShareGroupStatePartitionMetadataKey(CoordinatorKey, record_type=15):
    """The key of the partitions for which a share group has state."""

    group_id: str = field("0")


class ShareGroupStatePartitionMetadataValue(CoordinatorValue, record_type=15, versions="0", flexible="0+"):
    """The partitions for which a share group has state, gets state, or loses state."""

    class TopicPartitionsInfo(Struct):
        topic_id: UUID = field("0+")
        topic_name: str = field("0+")
        partitions: list[int32] = field("0+")

    class TopicInfo(Struct):
        topic_id: UUID = field("0+")
        topic_name: str = field("0+")

    initializing_topics: list[TopicPartitionsInfo] = field("0+")
    initialized_topics: list[TopicPartitionsInfo] = field("0+")
    deleting_topics: list[TopicInfo] = field("0+")
