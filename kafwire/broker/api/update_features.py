"""UpdateFeatures (57): raises and lowers the levels of features. See KIP-584, KIP-778, KIP-1022."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker.feature_levels import problem_of
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

FAILED = "The update failed for all features since the following feature had an error: "


def handle(state: ClusterState, request: Request) -> Response:
    """Change all the levels, or none."""
    response: Any = protocol.UpdateFeaturesResponse
    updates = request.message.feature_updates
    for each in updates:
        problem = problem_of(
            state.features,
            state.supported_features,
            state.controller_id,
            each.feature,
            each.max_version_level,
            each.upgrade_type,  # version 0 has none; as in Kafka its `allow_downgrade` has no effect
        )
        if problem is not None:
            return response(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=FAILED + problem)
    if not request.message.validate_only:
        state.set_features({each.feature: each.max_version_level for each in updates})
    results = [
        response.UpdatableFeatureResult(feature=each.feature, error_code=0, error_message=None) for each in updates
    ]
    return response(error_message=None, results=results)
