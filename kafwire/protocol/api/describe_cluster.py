"""DescribeCluster (60): the cluster's id, its brokers or controllers, and the client's permissions. See KIP-700.

Version 1 also works with controllers (KIP-919), version 2 shows fenced brokers (KIP-1073).
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    """The response to `DescribeClusterRequest`. With `endpoint_type` 2, `brokers` has controllers."""

    class DescribeClusterBroker(Struct):
        broker_id: int32 = field("0+")
        host: str = field("0+")
        port: int32 = field("0+")
        rack: str | None = field("0+", nullable="0+", default=None)
        is_fenced: bool = field("2+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", default=None)
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: str = field("0+")
    controller_id: int32 = field("0+", default=-1)
    brokers: list[DescribeClusterBroker] = field("0+")
    cluster_authorized_operations: int32 = field("0+", default=-0x80000000)


class DescribeClusterRequest(Request[DescribeClusterResponse], key=60, versions="0-2", flexible="0+"):
    """Asks for the cluster's nodes: `endpoint_type` 1 for brokers, 2 for controllers.

    A node refuses the type that it does not serve. Before version 1 the type is 1.
    """

    include_cluster_authorized_operations: bool = field("0+")
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+")
