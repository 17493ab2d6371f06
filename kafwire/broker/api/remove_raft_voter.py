"""RemoveRaftVoter (81): refused, as the quorum is a static one (`kraft.version` 0). See KIP-853."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.api._raft_voters import refusal
from kafwire.broker.request import Request, Response

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Refuse, after the checks that Kafka makes first."""
    code, text = refusal(state, request.message, "Remove", "removing")
    return protocol.RemoveRaftVoterResponse(error_code=code, error_message=text)
