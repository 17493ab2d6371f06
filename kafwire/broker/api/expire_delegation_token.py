"""ExpireDelegationToken (40): ends a token's life. See KIP-48."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.delegation_tokens import DelegationTokens, may_ask
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the time of the token's end."""
    response = protocol.ExpireDelegationTokenResponse
    tokens: DelegationTokens = state.part(DelegationTokens)
    if not may_ask(request.connection):
        return response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1)
    if not tokens.is_enabled:
        return response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    message = request.message
    found = tokens.expire(bytes(message.hmac), request.connection.principal, message.expiry_time_period_ms)
    if isinstance(found, ErrorCode):
        return response(error_code=found)
    return response(expiry_timestamp_ms=found)
