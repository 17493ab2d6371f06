"""The common part of AlterConfigs and IncrementalAlterConfigs: checks of resources, and the choice of their store."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafwire.broker.topics.config_store import Change, ConfigStore, Operation, Refusal, ResourceType
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafwire.broker.request import Request
    from kafwire.broker.state import ClusterState


def alter_resources(
    state: ClusterState, request: Request, kind: Any, changes_of: Callable[[Any], list[Change]], *, replace: bool
) -> list[Any]:
    """Change each resource that may be changed; return the results in the request's order."""
    resources = request.message.resources
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    results = []
    for resource in resources:
        result = kind(resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None)
        results.append(result)
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _alter(state, request, resource, changes_of(resource), replace=replace)
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.code, refusal.message
    return results


def _alter(state: ClusterState, request: Request, resource: Any, changes: list[Change], *, replace: bool) -> None:
    if len({name for name, _, _ in changes}) < len(changes):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    empty = [name for name, operation, value in changes if operation != Operation.DELETE and value is None]
    if empty:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(empty)}")
    store: ConfigStore = state.part(ConfigStore)
    only = request.message.validate_only
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        store.alter_topic(name, changes, validate_only=only, replace=replace)
    elif resource.resource_type == ResourceType.BROKER:
        store.alter_broker(name, changes, asked=request.node, validate_only=only, replace=replace)
    elif resource.resource_type == ResourceType.GROUP:
        store.alter_group(name, changes, validate_only=only, replace=replace)
    elif resource.resource_type == ResourceType.CLIENT_METRICS:
        store.alter_metrics(name, changes, validate_only=only, replace=replace)
    elif resource.resource_type == ResourceType.BROKER_LOGGER and not replace:
        store.alter_loggers(name, changes, asked=request.node, validate_only=only)
    else:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
