"""UnregisterController (94): removes the registration of a controller. See KIP-853.

Only the broker that is the controller is registered: this cluster has no quorum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Refuse: the controller is active, and no other one is registered."""
    controller_id = request.message.controller_id
    if controller_id == state.controller_id:
        code, message = ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
    else:
        code = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        message = f"Controller ID {controller_id} is not currently registered."
    return protocol.UnregisterControllerResponse(error_code=code, error_message=message)
