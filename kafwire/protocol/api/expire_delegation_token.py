"""ExpireDelegationToken (40): end a token's life early. See KIP-48."""

from kafwire.protocol.spec import Request, Response, field, int16, int32, int64


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", removed="0", flexible="2+"):
    """The response to `ExpireDelegationTokenRequest`: the token's expiry time, in ms since 1970."""

    error_code: int16 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    throttle_time_ms: int32 = field("0+")


class ExpireDelegationTokenRequest(
    Request[ExpireDelegationTokenResponse], key=40, versions="1-2", removed="0", flexible="2+"
):
    """Expires the token with this `hmac` after a period from now; a negative one removes it at once."""

    hmac: bytes = field("0+", hidden=True)
    expiry_time_period_ms: int64 = field("0+")
