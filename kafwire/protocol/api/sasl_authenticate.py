"""SaslAuthenticate (36): one step of the mechanism that SaslHandshake chose. See KIP-152, KIP-368."""

from kafwire.protocol.spec import Request, Response, field, int16, int64, since


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    """The response to `SaslAuthenticateRequest`: the broker's token.

    From version 1 the client must authenticate again, on the same connection, before `session_lifetime_ms` have passed;
    0 is no limit.
    """

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    auth_bytes: bytes = field("0+", hidden=True)
    session_lifetime_ms: int64 = field("1+", ignorable=True)


class SaslAuthenticateRequest(Request[SaslAuthenticateResponse], key=36, versions="0-2", flexible="2+"):
    """Carries the client's token; the mechanism decides how many exchanges there are."""

    auth_bytes: bytes = field("0+", hidden=True)

    SESSION_LIFETIME = since(SaslAuthenticateResponse.session_lifetime_ms)  # KIP-368
