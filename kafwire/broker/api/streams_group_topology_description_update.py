"""StreamsGroupTopologyDescriptionUpdate (93): refused, as Kafka without a plugin refuses it. See KIP-1331."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Refuse the request: `group.streams.topology.description.plugin.class` is unset, so no member sends it."""
    del request
    response = protocol.StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if state.features.get("streams.version"):
        response.error_message = "The broker has no streams group topology description plugin configured."
    return response
