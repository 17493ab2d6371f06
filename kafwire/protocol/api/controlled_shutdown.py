"""ControlledShutdown (7): a broker asks the controller to take over its leaderships. See KIP-380 (broker epochs).

Brokers with ZooKeeper sent it; Kafka 4.0 removed it. The request header of version 0 has no client id.
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64


class ControlledShutdownResponse(Response, key=7, versions=None, removed="0-3", flexible="3+"):
    """The response to `ControlledShutdownRequest`: the partitions that the broker still leads."""

    class RemainingPartition(Struct):
        topic_name: str = field("0+")
        partition_index: int32 = field("0+")

    error_code: int16 = field("0+")
    remaining_partitions: list[RemainingPartition] = field("0+")


class ControlledShutdownRequest(
    Request[ControlledShutdownResponse], key=7, versions=None, removed="0-3", flexible="3+"
):
    """Announces that the broker stops."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
