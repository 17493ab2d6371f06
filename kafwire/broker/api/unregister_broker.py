"""UnregisterBroker (64): removes a broker from the cluster until it starts again. See KIP-631."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Remove the registration; a running broker serves nothing any more, and others lead its partitions."""
    broker_id, response = request.message.broker_id, protocol.UnregisterBrokerResponse
    node = state.nodes.get(broker_id)
    if node is None or not node.is_registered:
        return response(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {broker_id} is not currently registered",
        )
    node.is_registered = False
    if node.is_up:
        state.stop(broker_id)
    return response(error_message=None)
