"""Metadata (3): brokers, topics, partitions and their leaders. See KIP-516 for topic ids."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, since


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    """The response to `MetadataRequest`."""

    class MetadataResponseBroker(Struct):
        node_id: int32 = field("0+")
        host: str = field("0+")
        port: int32 = field("0+")
        rack: str | None = field("1+", nullable="1+", default=None, ignorable=True)

    class MetadataResponsePartition(Struct):
        error_code: int16 = field("0+")
        partition_index: int32 = field("0+")
        leader_id: int32 = field("0+")
        leader_epoch: int32 = field("7+", default=-1, ignorable=True)
        replica_nodes: list[int32] = field("0+")
        isr_nodes: list[int32] = field("0+")
        offline_replicas: list[int32] = field("5+", ignorable=True)

    class MetadataResponseTopic(Struct):
        error_code: int16 = field("0+")
        name: str | None = field("0+", nullable="12+")
        topic_id: UUID = field("10+", ignorable=True)
        is_internal: bool = field("1+", ignorable=True)
        partitions: list["MetadataResponse.MetadataResponsePartition"] = field("0+")
        topic_authorized_operations: int32 = field("8+", default=-0x80000000)

    throttle_time_ms: int32 = field("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field("0+")
    cluster_id: str | None = field("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field("0+")
    cluster_authorized_operations: int32 = field("8-10", default=-0x80000000)
    error_code: int16 = field("13+", ignorable=True)


class MetadataRequest(Request[MetadataResponse], key=3, versions="0-13", flexible="9+"):
    """Asks for the brokers and for some topics: all of them with `topics=None` (in version 0: with an empty list)."""

    class MetadataRequestTopic(Struct):
        topic_id: UUID = field("10+", ignorable=True)
        name: str | None = field("0+", nullable="10+")

    topics: list[MetadataRequestTopic] | None = field("0+", nullable="1+")
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10")
    include_topic_authorized_operations: bool = field("8+")

    LEAST = ALLOWS_CREATION = since(allow_auto_topic_creation)  # earlier versions create every topic that they name
    BY_TOPIC_ID = 12  # earlier versions have the field but must not use it (KIP-516)
    ERROR_CODE = since(MetadataResponse.error_code)
