"""FindCoordinator (10): which broker coordinates a group or a transactional id. See KIP-699 (several at once)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.request import Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED = 4
NO_ERROR = "NONE"  # what older versions have as the message of what is right


def handle(state: ClusterState, request: Request) -> Answer:
    """Find the coordinator of each key."""
    message, response = request.message, protocol.FindCoordinatorResponse
    if request.version < BATCHED:
        found = _find(state, request, message.key)
        if not found.get("error_code"):
            found["error_message"] = NO_ERROR
        return response(**found)
    return response(
        coordinators=[response.Coordinator(key=key, **_find(state, request, key)) for key in message.coordinator_keys]
    )


def _find(state: ClusterState, request: Request, key: str) -> dict[str, Any]:
    nowhere = {"node_id": -1, "host": "", "port": -1}
    if request.message.key_type not in (GROUP, TRANSACTION, SHARE):
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": ErrorCode.INVALID_REQUEST.message, **nowhere}
    node = state.nodes.get(state.coordinator(key))
    if request.message.key_type == SHARE:
        code = ErrorCode.INVALID_REQUEST
    elif node is None or not node.is_up:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        host, port = node.address(request.connection.listener)
        return {"node_id": node.number, "host": host, "port": port}
    return {"error_code": code, "error_message": code.message if request.version < BATCHED else "", **nowhere}
