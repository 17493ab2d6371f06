"""DescribeDelegationToken (41): the tokens that a client may see. See KIP-48, KIP-373."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.acls import Operation, ResourceType
from kafwire.broker.security.delegation_tokens import DelegationTokens, Token, may_ask
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the client's own tokens, and others that ACLs permit; of the named owners, or of all."""
    response, owners = protocol.DescribeDelegationTokenResponse, request.message.owners
    tokens: DelegationTokens = state.part(DelegationTokens)
    if not may_ask(request.connection):
        return response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not tokens.is_enabled:
        return response(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    has_requesters = request.version >= protocol.DescribeDelegationTokenRequest.REQUESTERS
    named = None if owners is None else [f"{each.principal_type}:{each.principal_name}" for each in owners]
    return response(
        tokens=[
            _described(token, tokens.secret_of(token.token_id), token.requester if has_requesters else "")
            for token in tokens.tokens.values()
            if (named is None or any(map(token.concerns, named))) and _may_see(state, request, token)
        ]
    )


def _may_see(state: ClusterState, request: Request, token: Token) -> bool:
    return (
        token.concerns(request.connection.principal)
        or state.allows(request, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or state.allows(request, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: Token, secret: bytes, requester: str) -> Any:
    response = protocol.DescribeDelegationTokenResponse
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return response.DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[
            response.DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in token.renewers)
        ],
    )
