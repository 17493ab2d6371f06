"""The records of `__consumer_offsets` for classic and consumer groups. See KIP-98, KIP-211, KIP-848.

`coordinator_record` has the layout of keys and values.
"""

from kafwire.protocol.coordinator_record import CoordinatorKey, CoordinatorValue
from kafwire.protocol.spec import UUID, Struct, field, int8, int32, int64


class LegacyOffsetCommitKey(CoordinatorKey, record_type=0):
    """The key of an offset committed by a broker before Kafka 0.9."""

    group: str = field("0")
    topic: str = field("0")
    partition: int32 = field("0")


class LegacyOffsetCommitValue(CoordinatorValue, record_type=0, versions="0"):
    """The value of an offset committed by a broker before Kafka 0.9."""

    offset: int64 = field("0")
    metadata: str = field("0")
    commit_timestamp: int64 = field("0")


class OffsetCommitKey(CoordinatorKey, record_type=1):
    """The key of a committed offset: group, topic and partition."""

    group: str = field("0")
    topic: str = field("0")
    partition: int32 = field("0")


class OffsetCommitValue(CoordinatorValue, record_type=1, versions="0-4", flexible="4+"):
    """A committed offset. Version 4 has the id of the topic (KIP-848); no value deletes the offset."""

    offset: int64 = field("0+")
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: str = field("0+")
    commit_timestamp: int64 = field("0+")
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: UUID = field("4+", ignorable=True, tag=0)


class GroupMetadataKey(CoordinatorKey, record_type=2):
    """The key of a classic group, or of a group of a client that only commits offsets."""

    group: str = field("0")


class GroupMetadataValue(CoordinatorValue, record_type=2, versions="0-4", flexible="4+"):
    """A classic group: its generation, and the subscription and assignment of each member."""

    class MemberMetadata(Struct):
        member_id: str = field("0+")
        group_instance_id: str | None = field("3+", nullable="3+", default=None, ignorable=True)
        client_id: str = field("0+")
        client_host: str = field("0+")
        rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
        session_timeout: int32 = field("0+")
        subscription: bytes = field("0+")
        assignment: bytes = field("0+")

    protocol_type: str = field("0+")
    generation: int32 = field("0+")
    protocol: str | None = field("0+", nullable="0+")
    leader: str | None = field("0+", nullable="0+")
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field("0+")


class ConsumerGroupMetadataKey(CoordinatorKey, record_type=3):
    """The key of a consumer group's epoch."""

    group_id: str = field("0")


class ConsumerGroupMetadataValue(CoordinatorValue, record_type=3, versions="0", flexible="0+"):
    """The epoch of a consumer group, and a hash of the metadata of its topics."""

    epoch: int32 = field("0+")
    metadata_hash: int64 = field("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(CoordinatorKey, record_type=4):
    """The key of the partitions that a consumer group subscribes to; Kafka 4.1 deletes it."""

    group_id: str = field("0")


class ConsumerGroupPartitionMetadataValue(CoordinatorValue, record_type=4, versions="0", flexible="0+"):
    """The partitions that a consumer group subscribes to, with their racks; before Kafka 4.1."""

    class PartitionMetadata(Struct):
        partition: int32 = field("0+")
        racks: list[str] = field("0+")

    class TopicMetadata(Struct):
        topic_id: UUID = field("0+")
        topic_name: str = field("0+")
        num_partitions: int32 = field("0+")
        partition_metadata: list["ConsumerGroupPartitionMetadataValue.PartitionMetadata"] = field("0+")

    topics: list[TopicMetadata] = field("0+")


class ConsumerGroupMemberMetadataKey(CoordinatorKey, record_type=5):
    """The key of a member of a consumer group."""

    group_id: str = field("0")
    member_id: str = field("0")


class ConsumerGroupMemberMetadataValue(CoordinatorValue, record_type=5, versions="0", flexible="0+"):
    """A member of a consumer group: client, host and subscription."""

    class ClassicProtocol(Struct):
        name: str = field("0+")
        metadata: bytes = field("0+")

    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int32 = field("0+")
        supported_protocols: list["ConsumerGroupMemberMetadataValue.ClassicProtocol"] = field("0+")

    instance_id: str | None = field("0+", nullable="0+")
    rack_id: str | None = field("0+", nullable="0+")
    client_id: str = field("0+")
    client_host: str = field("0+")
    subscribed_topic_names: list[str] = field("0+")
    subscribed_topic_regex: str | None = field("0+", nullable="0+")
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    server_assignor: str | None = field("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field("0+", nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey, record_type=6):
    """The key of the epoch of a consumer group's target assignment."""

    group_id: str = field("0")


class ConsumerGroupTargetAssignmentMetadataValue(CoordinatorValue, record_type=6, versions="0", flexible="0+"):
    """The epoch of a consumer group's target assignment."""

    assignment_epoch: int32 = field("0+")
    assignment_timestamp: int64 = field("0+", ignorable=True, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey, record_type=7):
    """The key of the target assignment of a member."""

    group_id: str = field("0")
    member_id: str = field("0")


class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue, record_type=7, versions="0", flexible="0+"):
    """The target assignment of a member of a consumer group."""

    class TopicPartition(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")

    topic_partitions: list[TopicPartition] = field("0+")


class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey, record_type=8):
    """The key of the current assignment of a member."""

    group_id: str = field("0")
    member_id: str = field("0")


class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue, record_type=8, versions="0", flexible="0+"):
    """The partitions that a member of a consumer group has, or revokes.

    `state`: 0 stable, 1 unrevoked partitions, 2 unreleased partitions.
    """

    class TopicPartitions(Struct):
        topic_id: UUID = field("0+")
        partitions: list[int32] = field("0+")
        assignment_epochs: list[int32] | None = field("0+", nullable="0+", tag=0)

    member_epoch: int32 = field("0+")
    previous_member_epoch: int32 = field("0+")
    state: int8 = field("0+")
    assigned_partitions: list[TopicPartitions] = field("0+")
    partitions_pending_revocation: list[TopicPartitions] = field("0+")


class ConsumerGroupRegularExpressionKey(CoordinatorKey, record_type=16):
    """The key of a regular expression that members subscribe to."""

    group_id: str = field("0")
    regular_expression: str = field("0")


class ConsumerGroupRegularExpressionValue(CoordinatorValue, record_type=16, versions="0", flexible="0+"):
    """The topics that a regular expression matches."""

    topics: list[str] = field("0+")
    version: int64 = field("0+")
    timestamp: int64 = field("0+")
