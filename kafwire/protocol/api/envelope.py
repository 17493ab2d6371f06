"""Envelope (58): a client's request that a broker forwards to the controller. See KIP-590."""

from kafwire.protocol.spec import Request, Response, field, int16


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    """The response to `EnvelopeRequest`: header and body of the inner response, None if the envelope was refused."""

    response_data: bytes | None = field("0+", nullable="0+", default=None, hidden=True)
    error_code: int16 = field("0+")


class EnvelopeRequest(Request[EnvelopeResponse], key=58, versions="0", flexible="0+"):
    """Carries header and body of the inner request, and the principal and address of its sender.

    The principal is in the form of the broker's principal builder (by default DefaultPrincipalData after its version),
    the address in 4 or 16 bytes.
    """

    request_data: bytes = field("0+", hidden=True)
    request_principal: bytes | None = field("0+", nullable="0+")
    client_host_address: bytes = field("0+")
