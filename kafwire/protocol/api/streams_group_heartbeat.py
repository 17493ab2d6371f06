"""StreamsGroupHeartbeat (88): joins, stays in and leaves a Kafka Streams group. See KIP-1071, KIP-1331.

The assignment consists of tasks: a subtopology and one partition number of its input topics.
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32, int64, since, uint16


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0-1", flexible="0+"):
    """The response to `StreamsGroupHeartbeatRequest`. None: unchanged since the last response.

    `status` has the group's problems. Codes: 0 old topology, 1 source topics missing, 2 partition counts do not fit, 3
    internal topics missing, 4 application shuts down, 5 assignment comes later, 6 client tags are missing.
    """

    class Status(Struct):
        status_code: int8 = field("0+")
        status_detail: str = field("0+")

    class TopicPartition(Struct):
        topic: str = field("0+")
        partitions: list[int32] = field("0+")

    class TaskIds(Struct):
        subtopology_id: str = field("0+")
        partitions: list[int32] = field("0+")

    class Endpoint(Struct):
        host: str = field("0+")
        port: uint16 = field("0+")

    class EndpointToPartitions(Struct):
        user_endpoint: "StreamsGroupHeartbeatResponse.Endpoint" = field("0+")
        active_partitions: list["StreamsGroupHeartbeatResponse.TopicPartition"] = field("0+")
        standby_partitions: list["StreamsGroupHeartbeatResponse.TopicPartition"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    heartbeat_interval_ms: int32 = field("0+")
    acceptable_recovery_lag_legacy: int32 = field("0")
    task_offset_interval_ms: int32 = field("0+")
    acceptable_recovery_lag: int64 = field("1+", default=-1, ignorable=True)
    status: list[Status] | None = field("0+", nullable="0+")
    active_tasks: list[TaskIds] | None = field("0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field("0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field("0+", nullable="0+", default=None)
    topology_description_required: bool = field("1+")
    endpoint_information_epoch: int32 = field("0+")
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field("0+", nullable="0+", default=None)


class StreamsGroupHeartbeatRequest(Request[StreamsGroupHeartbeatResponse], key=88, versions="0-1", flexible="0+"):
    """Reports the member's tasks. `member_epoch` 0 joins, -1 leaves, -2 leaves until a static return.

    None, or -1 for the timeout, means "unchanged since the last heartbeat". Only the joining request has the topology;
    its copartition groups refer to the lists of their subtopology by index.
    """

    class KeyValue(Struct):
        key: str = field("0+")
        value: str = field("0+")

    class TopicInfo(Struct):
        name: str = field("0+")
        partitions: int32 = field("0+")
        replication_factor: int16 = field("0+")
        topic_configs: list["StreamsGroupHeartbeatRequest.KeyValue"] = field("0+")

    class Endpoint(Struct):
        host: str = field("0+")
        port: uint16 = field("0+")

    class TaskOffset(Struct):
        subtopology_id: str = field("0+")
        partition: int32 = field("0+")
        offset: int64 = field("0+")

    class TaskIds(Struct):
        subtopology_id: str = field("0+")
        partitions: list[int32] = field("0+")

    class CopartitionGroup(Struct):
        source_topics: list[int16] = field("0+")
        source_topic_regex: list[int16] = field("0+")
        repartition_source_topics: list[int16] = field("0+")

    class Subtopology(Struct):
        subtopology_id: str = field("0+")
        source_topics: list[str] = field("0+")
        source_topic_regex: list[str] = field("0+")
        state_changelog_topics: list["StreamsGroupHeartbeatRequest.TopicInfo"] = field("0+")
        repartition_sink_topics: list[str] = field("0+")
        repartition_source_topics: list["StreamsGroupHeartbeatRequest.TopicInfo"] = field("0+")
        copartition_groups: list["StreamsGroupHeartbeatRequest.CopartitionGroup"] = field("0+")

    class Topology(Struct):
        epoch: int32 = field("0+")
        subtopologies: list["StreamsGroupHeartbeatRequest.Subtopology"] = field("0+")

    group_id: str = field("0+")
    member_id: str = field("0+")
    member_epoch: int32 = field("0+")
    endpoint_information_epoch: int32 = field("0+")
    instance_id: str | None = field("0+", nullable="0+", default=None)
    rack_id: str | None = field("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int32 = field("0+", default=-1)
    topology: Topology | None = field("0+", nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = field("0+", nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field("0+", nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field("0+", nullable="0+", default=None)
    process_id: str | None = field("0+", nullable="0+", default=None)
    user_endpoint: Endpoint | None = field("0+", nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field("0+", nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field("0+", nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field("0+", nullable="0+", default=None)
    shutdown_application: bool = field("0+")

    RECOVERY_LAG = since(StreamsGroupHeartbeatResponse.acceptable_recovery_lag)
    MISSING_TAGS = 1  # status 6
