"""StreamsGroupTopologyDescriptionUpdate (93): the processing graph of a Kafka Streams group. See KIP-1331."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class StreamsGroupTopologyDescriptionUpdateResponse(Response, key=93, versions="0", flexible="0+"):
    """The response to `StreamsGroupTopologyDescriptionUpdateRequest`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)


class StreamsGroupTopologyDescriptionUpdateRequest(
    Request[StreamsGroupTopologyDescriptionUpdateResponse], key=93, versions="0", flexible="0+"
):
    """Describes the topology of a member's group for `StreamsGroupDescribe`.

    `node_type`: 1 source, 2 processor, 3 sink. Source topics belong to sources, the sink topic to sinks, stores to
    processors.
    """

    class TopologyDescriptionNode(Struct):
        name: str = field("0+")
        node_type: int8 = field("0+")
        source_topics: list[str] = field("0+")
        sink_topic: str | None = field("0+", nullable="0+", default=None)
        stores: list[str] = field("0+")
        successors: list[str] = field("0+")

    class TopologyDescriptionSubtopology(Struct):
        subtopology_id: str = field("0+")
        nodes: list["StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode"] = field("0+")

    class TopologyDescriptionGlobalStore(Struct):
        source: "StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode" = field("0+")
        processor: "StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode" = field("0+")

    class TopologyDescription(Struct):
        subtopologies: list["StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology"] = field("0+")
        global_stores: list["StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore"] = field("0+")

    group_id: str = field("0+")
    member_id: str = field("0+")
    topology_epoch: int32 = field("0+")
    topology_description: TopologyDescription = field("0+")
