"""IncrementalAlterConfigs (44): sets, deletes, appends to and subtracts from options. See KIP-339."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.api._config_changes import alter_resources
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.config_store import Change, Operation, Refusal
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Change the options that the request names."""
    response = protocol.IncrementalAlterConfigsResponse
    kind = response.AlterConfigsResourceResponse
    return response(responses=alter_resources(state, request, kind, _changes, replace=False))


def _changes(resource: Any) -> list[Change]:
    try:
        return [(each.name, Operation(each.config_operation), each.value) for each in resource.configs]
    except ValueError:  # Kafka does not expect an unknown operation
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None) from None
