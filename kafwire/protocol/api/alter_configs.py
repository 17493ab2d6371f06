"""AlterConfigs (33): replace whole configurations. See KIP-133; IncrementalAlterConfigs (KIP-339) supersedes it."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    """The response to `AlterConfigsRequest`, one result for each resource."""

    class AlterConfigsResourceResponse(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")

    throttle_time_ms: int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")


class AlterConfigsRequest(Request[AlterConfigsResponse], key=33, versions="0-2", flexible="2+"):
    """Sets the configuration of resources to exactly these entries: a key that is not listed returns to its default.

    Resource type 2 is a topic, 4 a broker.
    """

    class AlterableConfig(Struct):
        name: str = field("0+")
        value: str | None = field("0+", nullable="0+", hidden="name")

    class AlterConfigsResource(Struct):
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")
        configs: list["AlterConfigsRequest.AlterableConfig"] = field("0+")

    resources: list[AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")
