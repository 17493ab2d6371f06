"""BrokerRegistration (62): a starting broker registers with the active controller. See KIP-631.

Only controllers serve it. Version 2 adds log directories (KIP-858), version 3 the epoch of the previous run, if that
shut down cleanly (KIP-966). From version 4 on a feature's `min_supported_version` may be 0.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, int64, uint16


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    """The response to `BrokerRegistrationRequest`: the epoch that the broker includes in its later requests."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)


class BrokerRegistrationRequest(Request[BrokerRegistrationResponse], key=62, versions="0-4", flexible="0+"):
    """Registers a broker with its listeners and features. `incarnation_id` is new in each process."""

    class Listener(Struct):
        name: str = field("0+")
        host: str = field("0+")
        port: uint16 = field("0+")
        security_protocol: int16 = field("0+")

    class Feature(Struct):
        name: str = field("0+")
        min_supported_version: int16 = field("0+")
        max_supported_version: int16 = field("0+")

    broker_id: int32 = field("0+")
    cluster_id: str = field("0+")
    incarnation_id: UUID = field("0+")
    listeners: list[Listener] = field("0+")
    features: list[Feature] = field("0+")
    rack: str | None = field("0+", nullable="0+")
    is_migrating_zk_broker: bool = field("1+")
    log_dirs: list[UUID] = field("2+", ignorable=True)
    previous_broker_epoch: int64 = field("3+", default=-1, ignorable=True)
