"""UpdateMetadata (6): the controller tells brokers the metadata. See KIP-103 (listeners), KIP-380, KIP-516, KIP-866.

Controllers with ZooKeeper sent it; Kafka 4.0 removed it.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, int64


class UpdateMetadataResponse(Response, key=6, versions=None, removed="0-8", flexible="6+"):
    """The response to `UpdateMetadataRequest`."""

    error_code: int16 = field("0+")


class UpdateMetadataRequest(Request[UpdateMetadataResponse], key=6, versions=None, removed="0-8", flexible="6+"):
    """Contains all live brokers, and the changed partitions: up to version 4 one by one, then by topic.

    In version 0 a broker has one host and port, later one for each listener.
    """

    class UpdateMetadataPartitionState(Struct):
        topic_name: str = field("0-4", ignorable=True)
        partition_index: int32 = field("0+")
        controller_epoch: int32 = field("0+")
        leader: int32 = field("0+")
        leader_epoch: int32 = field("0+")
        isr: list[int32] = field("0+")
        zk_version: int32 = field("0+")
        replicas: list[int32] = field("0+")
        offline_replicas: list[int32] = field("4+", ignorable=True)

    class UpdateMetadataTopicState(Struct):
        topic_name: str = field("5+")
        topic_id: UUID = field("7+", ignorable=True)
        partition_states: list["UpdateMetadataRequest.UpdateMetadataPartitionState"] = field("5+")

    class UpdateMetadataEndpoint(Struct):
        port: int32 = field("1+")
        host: str = field("1+")
        listener: str = field("3+", ignorable=True)
        security_protocol: int16 = field("1+")

    class UpdateMetadataBroker(Struct):
        id: int32 = field("0+")
        v0_host: str = field("0", ignorable=True)
        v0_port: int32 = field("0", ignorable=True)
        endpoints: list["UpdateMetadataRequest.UpdateMetadataEndpoint"] = field("1+", ignorable=True)
        rack: str | None = field("2+", nullable="0+", ignorable=True)

    controller_id: int32 = field("0+")
    is_k_raft_controller: bool = field("8+")
    type: int8 = field("8+", tag=0)
    controller_epoch: int32 = field("0+")
    broker_epoch: int64 = field("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field("0-4")
    topic_states: list[UpdateMetadataTopicState] = field("5+")
    live_brokers: list[UpdateMetadataBroker] = field("0+")
