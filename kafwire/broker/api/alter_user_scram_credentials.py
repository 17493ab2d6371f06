"""AlterUserScramCredentials (51): set and delete users' SCRAM credentials. See KIP-554."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    Credentials,
    credential_from_salted,
)
from kafwire.config.sasl_mechanisms import SCRAM_NUMBERS
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

Problem = tuple[ErrorCode, str]
_SCRAM_NAMES = {number: name for name, number in SCRAM_NUMBERS.items()}
_TWICE: Problem = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def handle(state: ClusterState, request: Request) -> Response:
    """Apply the valid changes of users that the request names once; return the problems of the others."""
    response, message = protocol.AlterUserScramCredentialsResponse, request.message
    credentials: Credentials = state.part(Credentials)
    problems: dict[str, Problem] = {}
    changes: dict[str, Any] = {}
    for change in [*message.deletions, *message.upsertions]:
        name = change.name
        if name in problems:
            continue
        problem = _TWICE if changes.pop(name, None) is not None else _problem(credentials, change)
        if problem is None:
            changes[name] = change
        else:
            problems[name] = problem
    for name, change in changes.items():
        mechanism = _SCRAM_NAMES[change.mechanism]
        if _is_deletion(change):
            credentials.set_scram(mechanism, name, None)
        else:
            salt, salted = bytes(change.salt), bytes(change.salted_password)
            credential = credential_from_salted(mechanism, salt, salted, change.iterations)
            credentials.set_scram(mechanism, name, credential)
    result = response.AlterUserScramCredentialsResult
    done = [result(user=name, error_message=None) for name in changes]
    refused = [result(user=name, error_code=code, error_message=text) for name, (code, text) in problems.items()]
    return response(results=done + refused)


def _is_deletion(change: Any) -> bool:
    return isinstance(change, protocol.AlterUserScramCredentialsRequest.ScramCredentialDeletion)


def _problem(credentials: Credentials, change: Any) -> Problem | None:
    mechanism = _SCRAM_NAMES.get(change.mechanism)
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if _is_deletion(change):
        if (mechanism, change.name) not in credentials.scram:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    elif change.iterations < MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    elif change.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return None
