"""AlterConfigs (33): replaces all options of topics and brokers. See KIP-133; KIP-339 has its successor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.api._config_changes import alter_resources
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.config_store import Change, Operation

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Give each resource the options of the request, and no others."""
    response = protocol.AlterConfigsResponse
    kind = response.AlterConfigsResourceResponse
    return response(responses=alter_resources(state, request, kind, _changes, replace=True))


def _changes(resource: Any) -> list[Change]:
    return [(each.name, Operation.SET, each.value) for each in resource.configs]
