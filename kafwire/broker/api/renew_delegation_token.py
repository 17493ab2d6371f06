"""RenewDelegationToken (39): extends a token's life. See KIP-48."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._token_expiry import changed
from kafwire.broker.request import Request, Response
from kafwire.broker.security.delegation_tokens import DelegationTokens

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the new time of the token's end."""
    response, period_ms = protocol.RenewDelegationTokenResponse, request.message.renew_period_ms
    return changed(state, request, response, DelegationTokens.renew, period_ms)
