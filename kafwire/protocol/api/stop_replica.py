"""StopReplica (5): the controller stops replicas of a broker. See KIP-380 (broker epochs), KIP-570, KIP-866.

Controllers with ZooKeeper sent it; Kafka 4.0 removed it.
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64


class StopReplicaResponse(Response, key=5, versions=None, removed="0-4", flexible="2+"):
    """The response to `StopReplicaRequest`, one error code for each partition."""

    class StopReplicaPartitionError(Struct):
        topic_name: str = field("0+")
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    error_code: int16 = field("0+")
    partition_errors: list[StopReplicaPartitionError] = field("0+")


class StopReplicaRequest(Request[StopReplicaResponse], key=5, versions=None, removed="0-4", flexible="2+"):
    """Names the partitions: in version 0 one by one, in 1 and 2 by topic, from 3 on with their leader epochs."""

    class StopReplicaPartitionV0(Struct):
        topic_name: str = field("0")
        partition_index: int32 = field("0")

    class StopReplicaTopicV1(Struct):
        name: str = field("1-2")
        partition_indexes: list[int32] = field("1-2")

    class StopReplicaPartitionState(Struct):
        partition_index: int32 = field("3+")
        leader_epoch: int32 = field("3+", default=-1)
        delete_partition: bool = field("3+")

    class StopReplicaTopicState(Struct):
        topic_name: str = field("3+")
        partition_states: list["StopReplicaRequest.StopReplicaPartitionState"] = field("3+")

    controller_id: int32 = field("0+")
    is_k_raft_controller: bool = field("4+")
    controller_epoch: int32 = field("0+")
    broker_epoch: int64 = field("1+", default=-1, ignorable=True)
    delete_partitions: bool = field("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0")
    topics: list[StopReplicaTopicV1] = field("1-2")
    topic_states: list[StopReplicaTopicState] = field("3+")
