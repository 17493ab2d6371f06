"""AlterClientQuotas (49): set and remove quotas of users, client ids and addresses. See KIP-546, KIP-612."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.quotas import CLIENT_ID, FETCHED, IP, PRODUCED, USER, Entity, Quotas, entity
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

_LARGEST_LONG = float(2**63 - 1)
_LARGEST_INT = float(2**31 - 1)
_USER_KEYS = frozenset((PRODUCED, FETCHED, "request_percentage", "controller_mutation_rate"))
_IP_KEYS = frozenset(("connection_creation_rate",))
_LARGEST = {PRODUCED: ("a LONG", _LARGEST_LONG), FETCHED: ("a LONG", _LARGEST_LONG)}
_LARGEST["connection_creation_rate"] = ("an INT", _LARGEST_INT)


def handle(state: ClusterState, request: Request) -> Response:
    """Change the quotas of each entity that the request names once, if all of its changes are valid."""
    response, message = protocol.AlterClientQuotasResponse, request.message
    quotas: Quotas = state.part(Quotas)
    results: dict[Entity, Any] = {}
    for asked in message.entries:
        names = {each.entity_type: each.entity_name for each in asked.entity}
        holder = entity(names)
        result = response.EntryData(
            entity=[response.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted_names(names)],
            error_message=None,
        )
        problem = None
        if holder in results or max(Counter(op.key for op in asked.ops).values(), default=1) > 1:
            shown = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in sorted_names(names))
            problem = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})"
        results[holder] = result
        problem = problem or _problem(names, asked.ops)
        if problem is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, problem
        elif not message.validate_only:
            quotas.set(names, {op.key: None if op.remove else op.value for op in asked.ops})
    return response(entries=list(results.values()))


def sorted_names(names: Mapping[str, str | None]) -> list[tuple[str, str | None]]:
    """Return an entity's types and names, in a fixed order."""
    return sorted(names.items(), key=lambda each: each[0])


def _problem(names: Mapping[str, str | None], ops: list[Any]) -> str | None:
    if not names:
        return "Invalid empty client quota entity"
    for kind, name in names.items():
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in names and len(names) > 1:
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    if IP in names and not _is_address(names[IP]):
        return f"{names[IP]} is not a valid IP or resolvable host."
    known = _IP_KEYS if IP in names else _USER_KEYS
    return next((problem for op in ops if not op.remove and (problem := _value_problem(known, op.key, op.value))), None)


def _is_address(name: str | None) -> bool:
    """True if `name` is an address or None; host names are not resolved."""
    try:
        return name is None or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _value_problem(known: frozenset[str], key: str, value: float) -> str | None:
    if key not in known:
        return f"Invalid configuration key {key}"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if key not in _LARGEST:
        return None
    kind, largest = _LARGEST[key]
    if value > largest:
        return f"Proposed value for {key} is too large for {kind}."
    return f"{key} cannot be a fractional value." if abs(value % 1.0) > 1e-6 else None
