"""DescribeConfigs (32): the configuration of topics, brokers and more. See KIP-133, KIP-226, KIP-569."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class DescribeConfigsResponse(Response, key=32, versions="1-4", removed="0", flexible="4+"):
    """The response to `DescribeConfigsRequest`, one result for each resource."""

    class DescribeConfigsSynonym(Struct):
        name: str = field("1+")
        value: str | None = field("1+", nullable="0+", hidden="name")
        source: int8 = field("1+")

    class DescribeConfigsResourceResult(Struct):
        name: str = field("0+")
        value: str | None = field("0+", nullable="0+", hidden="name")
        read_only: bool = field("0+")
        is_default: bool = field("0")
        config_source: int8 = field("1+", default=-1, ignorable=True)
        is_sensitive: bool = field("0+")
        synonyms: list["DescribeConfigsResponse.DescribeConfigsSynonym"] = field("1+", ignorable=True)
        config_type: int8 = field("3+", ignorable=True)
        documentation: str | None = field("3+", nullable="0+", ignorable=True)

    class DescribeConfigsResult(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")
        configs: list["DescribeConfigsResponse.DescribeConfigsResourceResult"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    results: list[DescribeConfigsResult] = field("0+")


class DescribeConfigsRequest(Request[DescribeConfigsResponse], key=32, versions="1-4", removed="0", flexible="4+"):
    """Asks for configurations: resource type 2 is a topic, 4 a broker; `configuration_keys=None` asks for all keys."""

    class DescribeConfigsResource(Struct):
        resource_type: int8 = field("0+")
        resource_name: str = field("0+")
        configuration_keys: list[str] | None = field("0+", nullable="0+")

    resources: list[DescribeConfigsResource] = field("0+")
    include_synonyms: bool = field("1+")
    include_documentation: bool = field("3+")
