"""LeaderAndIsr (4): the controller makes a broker a leader or follower. See KIP-455, KIP-516, KIP-704, KIP-866.

Controllers with ZooKeeper sent it; Kafka 4.0 removed it.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64


class LeaderAndIsrResponse(Response, key=4, versions=None, removed="0-7", flexible="4+"):
    """The response to `LeaderAndIsrRequest`: errors of partitions, up to version 4 by name, then by topic id."""

    class LeaderAndIsrPartitionError(Struct):
        topic_name: str = field("0-4", ignorable=True)
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")

    class LeaderAndIsrTopicError(Struct):
        topic_id: UUID = field("5+")
        partition_errors: list["LeaderAndIsrResponse.LeaderAndIsrPartitionError"] = field("5+")

    error_code: int16 = field("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4")
    topics: list[LeaderAndIsrTopicError] = field("5+")


class LeaderAndIsrRequest(Request[LeaderAndIsrResponse], key=4, versions=None, removed="0-7", flexible="4+"):
    """Contains the leader, replicas and epochs of partitions: up to version 1 one by one, then by topic."""

    class LeaderAndIsrPartitionState(Struct):
        topic_name: str = field("0-1", ignorable=True)
        partition_index: int32 = field("0+")
        controller_epoch: int32 = field("0+")
        leader: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        isr: list[int32] = field("0+")
        partition_epoch: int32 = field("0+")
        replicas: list[int32] = field("0+")
        adding_replicas: list[int32] = field("3+", ignorable=True)
        removing_replicas: list[int32] = field("3+", ignorable=True)
        is_new: bool = field("1+", ignorable=True)
        leader_recovery_state: int8 = field("6+")

    class LeaderAndIsrTopicState(Struct):
        topic_name: str = field("2+")
        topic_id: UUID = field("5+", ignorable=True)
        partition_states: list["LeaderAndIsrRequest.LeaderAndIsrPartitionState"] = field("2+")

    class LeaderAndIsrLiveLeader(Struct):
        broker_id: int32 = field("0+")
        host_name: str = field("0+")
        port: int32 = field("0+")

    controller_id: int32 = field("0+")
    is_k_raft_controller: bool = field("7+")
    controller_epoch: int32 = field("0+")
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
    type: int8 = field("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field("0-1")
    topic_states: list[LeaderAndIsrTopicState] = field("2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = field("0+")
