"""DescribeCluster (60): the brokers, and the controller among them. See KIP-700, KIP-919, KIP-1073."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.broker.security.authorized_operations import cluster_operations
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

BROKERS, CONTROLLERS = 1, 2


def handle(state: ClusterState, request: Request) -> Response:
    """Return the running brokers, or all brokers."""
    response_type, message = protocol.DescribeClusterResponse, request.message
    if message.endpoint_type == CONTROLLERS:
        return response_type(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        )
    if message.endpoint_type != BROKERS:
        return response_type(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {message.endpoint_type}",
        )
    shown = [
        node for node in state.nodes.values() if node.is_up or (node.is_registered and message.include_fenced_brokers)
    ]
    response: Any = response_type(
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        brokers=[
            response_type.DescribeClusterBroker(
                broker_id=node.number, host=host, port=port, rack=node.rack, is_fenced=not node.is_up
            )
            for node in shown
            for host, port in [node.address(request.connection.listener)]
        ],
        cluster_authorized_operations=cluster_operations(state, request),
    )
    return response
