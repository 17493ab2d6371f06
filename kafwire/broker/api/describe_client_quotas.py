"""DescribeClientQuotas (48): quotas of the entities that match a filter. See KIP-546."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.quotas import CLIENT_ID, IP, USER, Entity, Quotas
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def handle(state: ClusterState, request: Request) -> Response:
    """Return the entities that match all components."""
    response, message = protocol.DescribeClientQuotasResponse, request.message
    problem = _problem(message.components)
    if problem is not None:
        return response(error_code=problem[0], error_message=problem[1], entries=None)
    quotas: Quotas = state.part(Quotas)
    return response(
        error_message="",
        entries=[
            response.EntryData(
                entity=[
                    response.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in sorted(holder, key=lambda each: each[0])
                ],
                values=[response.ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for holder, values in quotas.values.items()
            if _matches(holder, message.components, strict=message.strict)
        ],
    )


def _matches(holder: Entity, components: list[Any], *, strict: bool) -> bool:
    names = dict(holder)
    if strict and len(names) != len(components):
        return False
    return all(
        each.entity_type in names and (each.match_type == SPECIFIED or names[each.entity_type] == each.match)
        for each in components
    )


def _problem(components: list[Any]) -> tuple[ErrorCode, str] | None:
    invalid, seen = ErrorCode.INVALID_REQUEST, set()
    for each in components:
        kind = each.entity_type
        if not kind:
            return invalid, "Invalid empty entity type."
        if kind in seen:
            return invalid, f"Entity type {kind} cannot appear more than once in the filter."
        if kind not in (USER, CLIENT_ID, IP):
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
        if each.match_type not in (EXACT, DEFAULT, SPECIFIED):
            return invalid, f"Unknown match type {each.match_type}"
        if each.match_type == EXACT and each.match is None:
            return invalid, "Request specified MATCH_TYPE_EXACT, but set match string to null."
        if each.match_type != EXACT and each.match is not None:
            name = "DEFAULT" if each.match_type == DEFAULT else "SPECIFIED"
            return invalid, f"Request specified MATCH_TYPE_{name}, but also specified a match string."
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        return invalid, (
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return None
