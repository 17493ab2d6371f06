"""ControllerRegistration (70): a controller reports its listeners and features to the active one. See KIP-919.

Only controllers serve it.
"""

from kafwire.protocol.spec import UUID, Request, Response, Struct, field, int16, int32, uint16


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    """The response to `ControllerRegistrationRequest`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class ControllerRegistrationRequest(Request[ControllerRegistrationResponse], key=70, versions="0", flexible="0+"):
    """Registers a controller; `incarnation_id` is new in each process."""

    class Listener(Struct):
        name: str = field("0+")
        host: str = field("0+")
        port: uint16 = field("0+")
        security_protocol: int16 = field("0+")

    class Feature(Struct):
        name: str = field("0+")
        min_supported_version: int16 = field("0+")
        max_supported_version: int16 = field("0+")

    controller_id: int32 = field("0+")
    incarnation_id: UUID = field("0+")
    zk_migration_ready: bool = field("0+")
    listeners: list[Listener] = field("0+")
    features: list[Feature] = field("0+")
