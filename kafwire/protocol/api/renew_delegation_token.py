"""RenewDelegationToken (39): extend a token's lifetime. See KIP-48."""

from kafwire.protocol.spec import Request, Response, field, int16, int32, int64


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", removed="0", flexible="2+"):
    """The response to `RenewDelegationTokenRequest`: the token's expiry time, in ms since 1970."""

    error_code: int16 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    throttle_time_ms: int32 = field("0+")


class RenewDelegationTokenRequest(
    Request[RenewDelegationTokenResponse], key=39, versions="1-2", removed="0", flexible="2+"
):
    """Renews the token with this `hmac` for a period from now; -1 is the broker's limit."""

    hmac: bytes = field("0+", hidden=True)
    renew_period_ms: int64 = field("0+")
