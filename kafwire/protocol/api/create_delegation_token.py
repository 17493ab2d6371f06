"""CreateDelegationToken (38): create a token to authenticate with instead of a password. See KIP-48, KIP-373."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32, int64, since


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", removed="0", flexible="2+"):
    """The response to `CreateDelegationTokenRequest`; times are in ms since 1970.

    To authenticate by SCRAM, `token_id` is the user and `hmac` in base64 the password.
    """

    error_code: int16 = field("0+")
    principal_type: str = field("0+")
    principal_name: str = field("0+")
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp_ms: int64 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    max_timestamp_ms: int64 = field("0+")
    token_id: str = field("0+")
    hmac: bytes = field("0+", hidden=True)
    throttle_time_ms: int32 = field("0+")


class CreateDelegationTokenRequest(
    Request[CreateDelegationTokenResponse], key=38, versions="1-3", removed="0", flexible="2+"
):
    """Asks for a token, from version 3 on also for another owner; None or an empty name is the requester itself.

    `max_lifetime_ms` of -1 is the broker's limit. `renewers` may renew the token, besides its owner.
    """

    class CreatableRenewers(Struct):
        principal_type: str = field("0+")
        principal_name: str = field("0+")

    owner_principal_type: str | None = field("3+", nullable="3+")
    owner_principal_name: str | None = field("3+", nullable="3+")
    renewers: list[CreatableRenewers] = field("0+")
    max_lifetime_ms: int64 = field("0+")

    REQUESTERS = since(owner_principal_name)  # KIP-373
