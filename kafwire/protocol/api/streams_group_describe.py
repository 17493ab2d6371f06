"""StreamsGroupDescribe (89): state, topology, members and tasks of Streams groups. See KIP-1071, KIP-1331, KIP-1357."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32, int64, since, uint16


class StreamsGroupDescribeResponse(Response, key=89, versions="0-1", flexible="0+"):
    """The response to `StreamsGroupDescribeRequest`, with errors per group.

    `topology_description_status`: 0 not requested, 1 not stored, 2 the broker failed to fetch it, 3 available. A member
    moves from `assignment` to `target_assignment`. `topology=None`: the group has none yet.
    """

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

    class Assignment(Struct):
        active_tasks: list["StreamsGroupDescribeResponse.TaskIds"] = field("0+")
        standby_tasks: list["StreamsGroupDescribeResponse.TaskIds"] = field("0+")
        warmup_tasks: list["StreamsGroupDescribeResponse.TaskIds"] = field("0+")

    class KeyValue(Struct):
        key: str = field("0+")
        value: str = field("0+")

    class TopicInfo(Struct):
        name: str = field("0+")
        partitions: int32 = field("0+")
        replication_factor: int16 = field("0+")
        topic_configs: list["StreamsGroupDescribeResponse.KeyValue"] = field("0+")

    class Subtopology(Struct):
        subtopology_id: str = field("0+")
        source_topics: list[str] = field("0+")
        repartition_sink_topics: list[str] = field("0+")
        state_changelog_topics: list["StreamsGroupDescribeResponse.TopicInfo"] = field("0+")
        repartition_source_topics: list["StreamsGroupDescribeResponse.TopicInfo"] = field("0+")

    class Topology(Struct):
        epoch: int32 = field("0+")
        subtopologies: list["StreamsGroupDescribeResponse.Subtopology"] | None = field(
            "0+", nullable="0+", default=None
        )

    class Member(Struct):
        member_id: str = field("0+")
        member_epoch: int32 = field("0+")
        instance_id: str | None = field("0+", nullable="0+", default=None)
        rack_id: str | None = field("0+", nullable="0+", default=None)
        client_id: str = field("0+")
        client_host: str = field("0+")
        topology_epoch: int32 = field("0+")
        process_id: str = field("0+")
        user_endpoint: "StreamsGroupDescribeResponse.Endpoint | None" = field("0+", nullable="0+", default=None)
        client_tags: list["StreamsGroupDescribeResponse.KeyValue"] = field("0+")
        task_offsets: list["StreamsGroupDescribeResponse.TaskOffset"] = field("0+")
        task_end_offsets: list["StreamsGroupDescribeResponse.TaskOffset"] = field("0+")
        assignment: "StreamsGroupDescribeResponse.Assignment" = field("0+")
        target_assignment: "StreamsGroupDescribeResponse.Assignment" = field("0+")
        is_classic: bool = field("0+")

    class TopologyDescriptionNode(Struct):
        name: str = field("1+")
        node_type: int8 = field("1+")
        source_topics: list[str] = field("1+")
        sink_topic: str | None = field("1+", nullable="1+", default=None)
        stores: list[str] = field("1+")
        successors: list[str] = field("1+")

    class TopologyDescriptionSubtopology(Struct):
        subtopology_id: str = field("1+")
        nodes: list["StreamsGroupDescribeResponse.TopologyDescriptionNode"] = field("1+")

    class TopologyDescriptionGlobalStore(Struct):
        source: "StreamsGroupDescribeResponse.TopologyDescriptionNode" = field("1+")
        processor: "StreamsGroupDescribeResponse.TopologyDescriptionNode" = field("1+")

    class TopologyDescription(Struct):
        subtopologies: list["StreamsGroupDescribeResponse.TopologyDescriptionSubtopology"] = field("1+")
        global_stores: list["StreamsGroupDescribeResponse.TopologyDescriptionGlobalStore"] = field("1+")

    class DescribedGroup(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+", default=None)
        group_id: str = field("0+")
        group_state: str = field("0+")
        group_epoch: int32 = field("0+")
        assignment_epoch: int32 = field("0+")
        topology: "StreamsGroupDescribeResponse.Topology | None" = field("0+", nullable="0+", default=None)
        members: list["StreamsGroupDescribeResponse.Member"] = field("0+")
        authorized_operations: int32 = field("0+", default=-0x80000000)
        topology_description: "StreamsGroupDescribeResponse.TopologyDescription | None" = field(
            "1+", nullable="1+", default=None
        )
        topology_description_status: int8 = field("1+")
        assignor_name: str | None = field("1+", nullable="1+", default=None, ignorable=True)

    throttle_time_ms: int32 = field("0+")
    groups: list[DescribedGroup] = field("0+")


class StreamsGroupDescribeRequest(Request[StreamsGroupDescribeResponse], key=89, versions="0-1", flexible="0+"):
    """Asks the coordinator of these Streams groups for their description."""

    group_ids: list[str] = field("0+")
    include_authorized_operations: bool = field("0+")
    include_topology_description: bool = field("1+")

    TOPOLOGY_DESCRIPTION = since(include_topology_description)  # KIP-1331
