"""UnregisterController (94): removes the registration of a controller. See KIP-853."""

from kafwire.protocol.spec import Request, Response, field, int16, int32


class UnregisterControllerResponse(Response, key=94, versions="0", flexible="0+"):
    """The response to `UnregisterControllerRequest`."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class UnregisterControllerRequest(Request[UnregisterControllerResponse], key=94, versions="0", flexible="0+"):
    """Removes the registration of a controller that the quorum has lost permanently."""

    controller_id: int32 = field("0+")
