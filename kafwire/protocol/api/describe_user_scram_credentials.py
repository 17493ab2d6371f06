"""DescribeUserScramCredentials (50): the SCRAM credentials of users, without their secrets. See KIP-554."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    """The response to `DescribeUserScramCredentialsRequest`; mechanism 1 is SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    class CredentialInfo(Struct):
        mechanism: int8 = field("0+")
        iterations: int32 = field("0+")

    class DescribeUserScramCredentialsResult(Struct):
        user: str = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        credential_infos: list["DescribeUserScramCredentialsResponse.CredentialInfo"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field("0+")


class DescribeUserScramCredentialsRequest(
    Request[DescribeUserScramCredentialsResponse], key=50, versions="0", flexible="0+"
):
    """Asks for the credentials of some users; None or an empty list: all users."""

    class UserName(Struct):
        name: str = field("0+")

    users: list[UserName] | None = field("0+", nullable="0+")
