"""ListConfigResources (74): the resources with options. See KIP-1142."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.topics.config_store import ConfigStore, ResourceType
from kafwire.errors import ErrorCode
from kafwire.protocol import ListConfigResourcesRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return topics, brokers, and the subscriptions of clients' metrics and groups with options."""
    response = protocol.ListConfigResourcesResponse
    asked = (
        list(request.message.resource_types)
        if request.version >= ListConfigResourcesRequest.RESOURCE_TYPES
        else [ResourceType.CLIENT_METRICS]
    )
    if any(each not in [*ResourceType] for each in asked):
        return response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    store: ConfigStore = state.part(ConfigStore)
    brokers = [str(node.number) for node in state.nodes.values()]
    names = {
        ResourceType.TOPIC: [topic.name for topic in state.topics],
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.CLIENT_METRICS: list(store.of_metrics),
        ResourceType.GROUP: [group for group, configs in state.group_configs.items() if configs],
    }
    return response(
        config_resources=[
            response.ConfigResource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if not asked or kind in asked
            for name in found
        ]
    )
