"""AllocateProducerIds (67): a broker takes a block of producer ids from the controller. See KIP-730.

Only controllers serve it; a client gets its id by InitProducerId.
"""

from kafwire.protocol.spec import Request, Response, field, int16, int32, int64


class AllocateProducerIdsResponse(Response, key=67, versions="0", flexible="0+"):
    """The response to `AllocateProducerIdsRequest`: `producer_id_len` ids, the first is `producer_id_start`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    producer_id_start: int64 = field("0+")
    producer_id_len: int32 = field("0+")


class AllocateProducerIdsRequest(Request[AllocateProducerIdsResponse], key=67, versions="0", flexible="0+"):
    """Asks for the next block, for a registered broker. Unused ids are lost."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
