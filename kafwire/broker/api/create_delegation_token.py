"""CreateDelegationToken (38): a token that stands for a user. See KIP-48, KIP-373."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.security.delegation_tokens import DelegationTokens, may_ask
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

USER = "User"


def handle(state: ClusterState, request: Request) -> Response:
    """Create a token for the client, or for another owner if the client may create tokens for that user."""
    message, requester = request.message, request.connection.principal
    owner = requester
    if message.owner_principal_name:
        owner = f"{message.owner_principal_type}:{message.owner_principal_name}"
    response = _response(owner, requester if request.version >= type(message).REQUESTERS else "")
    tokens: DelegationTokens = state.part(DelegationTokens)
    if not may_ask(request.connection):
        response.error_code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not state.allows(request, Operation.CREATE_TOKENS, ResourceType.USER, owner):
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(each.principal_type != USER for each in message.renewers):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
    elif not tokens.is_enabled:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = 0
    else:
        renewers = [f"{each.principal_type}:{each.principal_name}" for each in message.renewers]
        token = tokens.create(owner, requester, renewers, message.max_lifetime_ms)
        response.issue_timestamp_ms = token.issued_ms
        response.expiry_timestamp_ms = token.expires_ms
        response.max_timestamp_ms = token.max_ms
        response.token_id = token.token_id
        response.hmac = tokens.secret_of(token.token_id)
    return response


def _response(owner: str, requester: str) -> Any:
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return protocol.CreateDelegationTokenResponse(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
