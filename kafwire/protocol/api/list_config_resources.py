"""ListConfigResources (74): the resources that can have a configuration. See KIP-1142.

Version 0 is the former ListClientMetricsResources (KIP-1000): it lists only client metrics resources.
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32, since


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    """The response to `ListConfigResourcesRequest`.

    `resource_type` 16 is client metrics, the only type of version 0.
    """

    class ConfigResource(Struct):
        resource_name: str = field("0+")
        resource_type: int8 = field("1+", default=16, ignorable=True)

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    config_resources: list[ConfigResource] = field("0+")


class ListConfigResourcesRequest(Request[ListConfigResourcesResponse], key=74, versions="0-1", flexible="0+"):
    """Asks for resources of these types; an empty list: all types of the broker."""

    resource_types: list[int8] = field("1+")

    RESOURCE_TYPES = since(resource_types)  # before, only client metrics (KIP-1142)
