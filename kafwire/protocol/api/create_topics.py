"""CreateTopics (19). See KIP-4, KIP-464 (defaults), KIP-525 (configs in the response), KIP-516 (topic ids)."""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int8, int16, int32, since


class CreateTopicsResponse(Response, key=19, versions="2-7", removed="0-1", flexible="5+"):
    """The response to `CreateTopicsRequest`, one result for each topic."""

    class CreatableTopicConfigs(Struct):
        name: str = field("5+")
        value: str | None = field("5+", nullable="5+", hidden="name")
        read_only: bool = field("5+")
        config_source: int8 = field("5+", default=-1, ignorable=True)
        is_sensitive: bool = field("5+")

    class CreatableTopicResult(Struct):
        name: str = field("0+")
        topic_id: UUID = field("7+", ignorable=True)
        error_code: int16 = field("0+")
        error_message: str | None = field("1+", nullable="0+", ignorable=True)
        topic_config_error_code: int16 = field("5+", tag=0, ignorable=True)
        num_partitions: int32 = field("5+", default=-1, ignorable=True)
        replication_factor: int16 = field("5+", default=-1, ignorable=True)
        configs: list["CreateTopicsResponse.CreatableTopicConfigs"] | None = field("5+", nullable="5+", ignorable=True)

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[CreatableTopicResult] = field("0+")


class CreateTopicsRequest(Request[CreateTopicsResponse], key=19, versions="2-7", removed="0-1", flexible="5+"):
    """Creates topics. From version 4, -1 partitions or replicas stand for the broker's default."""

    class CreatableReplicaAssignment(Struct):
        partition_index: int32 = field("0+")
        broker_ids: list[int32] = field("0+")

    class CreatableTopicConfig(Struct):
        name: str = field("0+")
        value: str | None = field("0+", nullable="0+", hidden="name")

    class CreatableTopic(Struct):
        name: str = field("0+")
        num_partitions: int32 = field("0+")
        replication_factor: int16 = field("0+")
        assignments: list["CreateTopicsRequest.CreatableReplicaAssignment"] = field("0+")
        configs: list["CreateTopicsRequest.CreatableTopicConfig"] = field("0+")

    topics: list[CreatableTopic] = field("0+")
    timeout_ms: int32 = field("0+", default=60000)
    validate_only: bool = field("1+")

    DEFAULTS = 4  # -1 partitions or replicas are the broker's default (KIP-464)
    CONFIGS = since(CreateTopicsResponse.CreatableTopicResult.configs)  # KIP-525
