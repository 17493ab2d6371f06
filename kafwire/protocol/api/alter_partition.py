"""AlterPartition (56): a leader reports its in-sync replicas to the controller. See KIP-497, KIP-704, KIP-841, KIP-903.

Brokers send it.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64


class AlterPartitionResponse(Response, key=56, versions="2-3", removed="0-1", flexible="0+"):
    """The response to `AlterPartitionRequest`: the controller's state of each partition after the change."""

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        error_code: int16 = field("0+")
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        isr: list[int32] = field("0+")
        leader_recovery_state: int8 = field("1+", ignorable=True)
        partition_epoch: int32 = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0-1", ignorable=True)
        topic_id: UUID = field("2+", ignorable=True)
        partitions: list["AlterPartitionResponse.PartitionData"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    topics: list[TopicData] = field("0+")


class AlterPartitionRequest(Request[AlterPartitionResponse], key=56, versions="2-3", removed="0-1", flexible="0+"):
    """Requests these in-sync replicas, if the partition's epochs are still those given.

    Version 2 lists broker ids (`new_isr`), version 3 also their epochs, so that a restarted broker is refused
    (`new_isr_with_epochs`). Recovery state 1 is a leader that recovers from an unclean election.
    """

    class BrokerState(Struct):
        broker_id: int32 = field("3+")
        broker_epoch: int64 = field("3+", default=-1)

    class PartitionData(Struct):
        partition_index: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        new_isr: list[int32] = field("0-2")
        new_isr_with_epochs: list["AlterPartitionRequest.BrokerState"] = field("3+")
        leader_recovery_state: int8 = field("1+")
        partition_epoch: int32 = field("0+")

    class TopicData(Struct):
        topic_name: str = field("0-1", ignorable=True)
        topic_id: UUID = field("2+", ignorable=True)
        partitions: list["AlterPartitionRequest.PartitionData"] = field("0+")

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    topics: list[TopicData] = field("0+")
