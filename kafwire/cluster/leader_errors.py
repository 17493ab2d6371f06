"""Partition error codes that a metadata refresh may resolve: the broker does not lead the partition. Pure.

The retries are in `outcomes` (producer) and `leader_search` (consumers, scans and share consumers).
"""

from kafwire.error_codes import ErrorCode

LEADER_ERRORS = frozenset(
    {
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID),
        *(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE),
        *(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH),
        *(ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR),
    }
)
