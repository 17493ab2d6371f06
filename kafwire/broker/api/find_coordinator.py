"""FindCoordinator (10): the coordinator of a group, a transactional id or a share partition's state.

See KIP-699 (several at once), KIP-932.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import FindCoordinatorRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

GROUP, TRANSACTION, SHARE = 0, 1, 2
ID_BYTES = 16
NO_ERROR = "NONE"  # the message of a success in older versions


def handle(state: ClusterState, request: Request) -> Response:
    """Find the coordinator of each key."""
    message, response = request.message, protocol.FindCoordinatorResponse
    if request.version < FindCoordinatorRequest.KEY_LISTS:
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
    if request.message.key_type == SHARE and (
        request.version < FindCoordinatorRequest.SHARE_STATE or not _is_share_partition(key)
    ):
        code = ErrorCode.INVALID_REQUEST
    elif node is None or not node.is_up:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        host, port = node.address(request.connection.listener)
        return {"node_id": node.number, "host": host, "port": port}
    return {
        "error_code": code,
        "error_message": code.message if request.version < FindCoordinatorRequest.KEY_LISTS else "",
        **nowhere,
    }


def _is_share_partition(key: str) -> bool:
    """True if a key is a group, a topic's id in Kafka's text form, and a partition's number."""
    group, _, rest = key.partition(":")
    topic_id, _, index = rest.partition(":")
    try:
        is_id = len(base64.b64decode(topic_id + "==", altchars=b"-_", validate=True)) == ID_BYTES
        int(index)
    except ValueError:
        return False
    return bool(group.strip()) and is_id
