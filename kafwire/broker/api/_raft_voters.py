"""The refusal of changes of the quorum's voters, with Kafka's words: its voters are static."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def refusal(state: ClusterState, message: Any, verb: str, gerund: str) -> tuple[ErrorCode, str]:
    """Return the error of a request to add or remove a voter."""
    if message.cluster_id is not None and message.cluster_id != state.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, (
            f'The given id "{message.cluster_id}" doesn\'t match the cluster id "{state.cluster_id}"'
        )
    if message.voter_id < 0 or not message.voter_directory_id.int:
        return ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
    return ErrorCode.UNSUPPORTED_VERSION, (
        f"Cluster doesn't support {gerund} voter because the kraft.version feature is 0"
    )
