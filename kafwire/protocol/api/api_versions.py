"""ApiVersions (18): which APIs and versions a broker serves. See KIP-35, KIP-511, KIP-584, KIP-1242."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64, since


class ApiVersionsResponse(Response, key=18, versions="0-5", flexible="3+"):
    """The response to `ApiVersionsRequest`."""

    class ApiVersion(Struct):
        api_key: int16 = field("0+")
        min_version: int16 = field("0+")
        max_version: int16 = field("0+")

    class SupportedFeatureKey(Struct):
        name: str = field("3+")
        min_version: int16 = field("3+")
        max_version: int16 = field("3+")

    class FinalizedFeatureKey(Struct):
        name: str = field("3+")
        max_version_level: int16 = field("3+")
        min_version_level: int16 = field("3+")

    error_code: int16 = field("0+")
    api_keys: list[ApiVersion] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, ignorable=True)
    finalized_features_epoch: int64 = field("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, ignorable=True)


class ApiVersionsRequest(Request[ApiVersionsResponse], key=18, versions="0-5", flexible="3+"):
    """Asks a broker for its versions; the first request on every connection.

    `cluster_id` and `node_id` name the broker that the client means to reach: another broker refuses the request with
    REBOOTSTRAP_REQUIRED.
    """

    client_software_name: str = field("3+", ignorable=True)
    client_software_version: str = field("3+", ignorable=True)
    cluster_id: str | None = field("5+", nullable="5+", default=None, ignorable=True)
    node_id: int32 = field("5+", default=-1, ignorable=True)

    SOFTWARE = since(client_software_name)  # KIP-511
    ZERO_LEVELS = 4  # clients of earlier versions reject a feature whose least level is 0 (KAFKA-17011)
    NAMES_NODE = since(node_id)  # KIP-1242
