"""SaslHandshake (17): chooses a SASL mechanism. See KIP-43, KIP-152, and KIP-368 for re-authentication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security import login
from kafwire.broker.security.credentials import Credentials
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Begin an exchange, if the listener has the mechanism."""
    response, connection = protocol.SaslHandshakeResponse, request.connection
    if connection.is_ready and not login.may_begin_again(state, connection):
        return response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    mechanisms = list(state.part(Credentials).listener(connection.listener).mechanisms)
    if request.message.mechanism not in mechanisms:
        refused = response(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        return login.close_after(state, request, refused)
    login.begin(state, connection, request.message.mechanism, is_bare=request.version == 0)
    return response(mechanisms=mechanisms)
