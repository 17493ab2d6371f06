"""DescribeUserScramCredentials (50): users' SCRAM credentials, without their secrets. See KIP-554."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.credentials import Credentials
from kafwire.config.sasl_mechanisms import SCRAM_NUMBERS
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the credentials of the named users, or of all."""
    credentials: Credentials = state.part(Credentials)
    names = [user.name for user in request.message.users or ()]
    results = [_describe(credentials, name, names.count(name)) for name in dict.fromkeys(names)]
    if not names:
        results = [_describe(credentials, name, 1) for name in credentials.scram_users()]
    return protocol.DescribeUserScramCredentialsResponse(results=results)


def _describe(credentials: Credentials, name: str, times: int) -> Any:
    response = protocol.DescribeUserScramCredentialsResponse
    result = response.DescribeUserScramCredentialsResult
    if times > 1:
        return result(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    infos = [
        response.CredentialInfo(mechanism=number, iterations=found.iterations)
        for mechanism, number in SCRAM_NUMBERS.items()
        if (found := credentials.scram.get((mechanism, name))) is not None
    ]
    if not infos:
        return result(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    return result(user=name, credential_infos=infos)
