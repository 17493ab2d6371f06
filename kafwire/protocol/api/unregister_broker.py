"""UnregisterBroker (64): removes a broker that will not return from the cluster's metadata. See KIP-631."""

from kafwire.protocol.spec import Request, Response, field, int16, int32


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    """The response to `UnregisterBrokerRequest`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class UnregisterBrokerRequest(Request[UnregisterBrokerResponse], key=64, versions="0", flexible="0+"):
    """Removes the registration of a broker, which should have been stopped permanently before."""

    broker_id: int32 = field("0+")
