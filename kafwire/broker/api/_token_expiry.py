"""The common part of RenewDelegationToken and ExpireDelegationToken: refusals, and the new time of the token's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafwire.broker.request import Request, Response
from kafwire.broker.security.delegation_tokens import DelegationTokens, may_ask
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

Change = Callable[[DelegationTokens, bytes, str, int], int | ErrorCode]


def changed(state: ClusterState, request: Request, response: type[Any], change: Change, period_ms: int) -> Response:
    """Change the end of a token's life by a method of `DelegationTokens`."""
    tokens: DelegationTokens = state.part(DelegationTokens)
    if not may_ask(request.connection):
        return response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1)
    if not tokens.is_enabled:
        return response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    found = change(tokens, bytes(request.message.hmac), request.connection.principal, period_ms)
    if isinstance(found, ErrorCode):
        return response(error_code=found)
    return response(expiry_timestamp_ms=found)
