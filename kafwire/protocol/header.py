"""The headers before the body of every request and response."""

from kafwire.protocol.spec import Data, field, int16, int32


class RequestHeader(Data, versions="1-2", removed="0", flexible="2+"):
    """The request's API, version and correlation id.

    The client id is never compact, so that any broker can decode it. Version 0 has none: that of ControlledShutdown 0.
    """

    request_api_key: int16 = field("0+")
    request_api_version: int16 = field("0+")
    correlation_id: int32 = field("0+")
    client_id: str | None = field("1+", nullable="1+", ignorable=True, flexible=False)


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    """The correlation id of the request."""

    correlation_id: int32 = field("0+")
