"""SaslAuthenticate (36): a token of the mechanism that SaslHandshake chose. See KIP-152, KIP-368."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import HANG_UP, Request, Response
from kafwire.broker.security import login
from kafwire.broker.security.sasl_server import SaslRefusedError
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Advance the exchange; a failure closes the connection."""
    response, connection = protocol.SaslAuthenticateResponse, request.connection
    its = login.login_of(connection)
    if its.exchange is None:
        message = "SaslAuthenticate request received after successful authentication"
        return response(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message)
    try:
        token, lifetime_ms = login.advance(state, connection, bytes(request.message.auth_bytes))
    except SaslRefusedError as error:
        refused = response(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error))
        return login.close_after(state, request, HANG_UP if its.is_bare else refused)
    return response(auth_bytes=token, session_lifetime_ms=lifetime_ms)
