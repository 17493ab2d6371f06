"""AlterUserScramCredentials (51): set and delete users' SCRAM credentials. See KIP-554."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    """The response to `AlterUserScramCredentialsRequest`, one result for each user."""

    class AlterUserScramCredentialsResult(Struct):
        user: str = field("0+")
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")

    throttle_time_ms: int32 = field("0+")
    results: list[AlterUserScramCredentialsResult] = field("0+")


class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse], key=51, versions="0", flexible="0+"):
    """Changes credentials; mechanism 1 is SCRAM-SHA-256, 2 SCRAM-SHA-512.

    The client salts the password (`Hi` of RFC 5802), so the broker never sees it.
    """

    class ScramCredentialDeletion(Struct):
        name: str = field("0+")
        mechanism: int8 = field("0+")

    class ScramCredentialUpsertion(Struct):
        name: str = field("0+")
        mechanism: int8 = field("0+")
        iterations: int32 = field("0+")
        salt: bytes = field("0+", hidden=True)
        salted_password: bytes = field("0+", hidden=True)

    deletions: list[ScramCredentialDeletion] = field("0+")
    upsertions: list[ScramCredentialUpsertion] = field("0+")
