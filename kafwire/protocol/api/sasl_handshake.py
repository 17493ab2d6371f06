"""SaslHandshake (17): agree on a SASL mechanism. See KIP-43, KIP-152."""

from kafwire.protocol.spec import Request, Response, field, int16


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    """The response to `SaslHandshakeRequest`; `mechanisms` are all those of the broker."""

    error_code: int16 = field("0+")
    mechanisms: list[str] = field("0+")


class SaslHandshakeRequest(Request[SaslHandshakeResponse], key=17, versions="0-1"):
    """Chooses a mechanism for the connection.

    After version 1 the tokens travel in SaslAuthenticate; after version 0 without a header, each after its size. No
    version is flexible.
    """

    mechanism: str = field("0+")

    IN_REQUESTS = 1  # tokens travel in SaslAuthenticate (KIP-152)
