"""IncrementalAlterConfigs (44): change single configuration keys. See KIP-339."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class IncrementalAlterConfigsResponse(Response, key=44, versions="0-1", flexible="1+"):
    """The response to `IncrementalAlterConfigsRequest`, one result for each resource."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")

    throttle_time_ms: int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")


class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse], key=44, versions="0-1", flexible="1+"):
    """Changes keys and leaves the others. Operation 0 sets, 1 deletes, 2 appends to a list, 3 removes from a list.

    Resource type 2 is a topic, 4 a broker, 8 a broker's loggers, 16 client metrics, 32 a group.
    """

    class AlterableConfig(Struct):
        name: str = field("0+")
        config_operation: int8 = field("0+")
        value: str | None = field("0+", nullable="0+", hidden="name")

    class AlterConfigsResource(Struct):
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")
        configs: list["IncrementalAlterConfigsRequest.AlterableConfig"] = field("0+")

    resources: list[AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")
