"""DescribeDelegationToken (41): the tokens that a principal may see. See KIP-48, KIP-373 (requesters)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64, since


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", removed="0", flexible="2+"):
    """The response to `DescribeDelegationTokenRequest`, secrets (`hmac`) included; times are in ms since 1970."""

    class DescribedDelegationTokenRenewer(Struct):
        principal_type: str = field("0+")
        principal_name: str = field("0+")

    class DescribedDelegationToken(Struct):
        principal_type: str = field("0+")
        principal_name: str = field("0+")
        token_requester_principal_type: str = field("3+")
        token_requester_principal_name: str = field("3+")
        issue_timestamp: int64 = field("0+")
        expiry_timestamp: int64 = field("0+")
        max_timestamp: int64 = field("0+")
        token_id: str = field("0+")
        hmac: bytes = field("0+", hidden=True)
        renewers: list["DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer"] = field("0+")

    error_code: int16 = field("0+")
    tokens: list[DescribedDelegationToken] = field("0+")
    throttle_time_ms: int32 = field("0+")


class DescribeDelegationTokenRequest(
    Request[DescribeDelegationTokenResponse], key=41, versions="1-3", removed="0", flexible="2+"
):
    """Asks for the tokens of some owners, or of all with `owners=None`."""

    class DescribeDelegationTokenOwner(Struct):
        principal_type: str = field("0+")
        principal_name: str = field("0+")

    owners: list[DescribeDelegationTokenOwner] | None = field("0+", nullable="0+")

    REQUESTERS = since(
        DescribeDelegationTokenResponse.DescribedDelegationToken.token_requester_principal_name
    )  # KIP-373
