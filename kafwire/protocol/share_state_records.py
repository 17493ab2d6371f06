"""The records of `__share_group_state`: the state of share groups in their partitions. See KIP-932.

`coordinator_record` has the layout of keys and values.
"""

from kafwire.protocol.coordinator_record import CoordinatorKey, CoordinatorValue
from kafwire.protocol.spec import UUID, Struct, field, int8, int16, int32, int64


class ShareSnapshotKey(CoordinatorKey, record_type=0):
    """The key of a snapshot of a share partition."""

    group_id: str = field("0")
    topic_id: UUID = field("0")
    partition: int32 = field("0")


class ShareSnapshotValue(CoordinatorValue, record_type=0, versions="0", flexible="0+"):
    """The state of a share partition. `delivery_state`: 0 available, 2 acknowledged, 4 archived."""

    class StateBatch(Struct):
        first_offset: int64 = field("0+")
        last_offset: int64 = field("0+")
        delivery_state: int8 = field("0+")
        delivery_count: int16 = field("0+")

    snapshot_epoch: int32 = field("0+")
    state_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    delivery_complete_count: int32 = field("0+", default=-1, tag=0)
    create_timestamp: int64 = field("0+")
    write_timestamp: int64 = field("0+")
    state_batches: list[StateBatch] = field("0+")


class ShareUpdateKey(CoordinatorKey, record_type=1):
    """The key of a change of a share partition."""

    group_id: str = field("0")
    topic_id: UUID = field("0")
    partition: int32 = field("0")


class ShareUpdateValue(CoordinatorValue, record_type=1, versions="0", flexible="0+"):
    """A change of a share partition since its snapshot."""

    class StateBatch(Struct):
        first_offset: int64 = field("0+")
        last_offset: int64 = field("0+")
        delivery_state: int8 = field("0+")
        delivery_count: int16 = field("0+")

    snapshot_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    delivery_complete_count: int32 = field("0+", default=-1, tag=0)
    state_batches: list[StateBatch] = field("0+")
