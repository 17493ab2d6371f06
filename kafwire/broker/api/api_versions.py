"""ApiVersions (18): the APIs of this broker and the finalised features. See KIP-35, KIP-511, KIP-584, KIP-1242."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker.client_telemetry import ClientTelemetry
from kafwire.broker.request import Request, Response
from kafwire.errors import ErrorCode
from kafwire.protocol import ApiVersionsRequest

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_OF_TELEMETRY = ("GetTelemetrySubscriptions", "PushTelemetry")  # a Kafka without a plug-in for them offers neither


def handle(state: ClusterState, request: Request) -> Response:
    """Return all APIs that have a file; those of client metrics once there is a subscription."""
    response = protocol.ApiVersionsResponse
    message = request.message
    if request.version < 0:  # an unknown version of ApiVersions: the response has the known ones
        offered = dispatch.offered(state.profile)
        if state.profile is not None and state.profile.lists_all_to_newer:
            all_keys = [
                response.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (_, (low, high)) in sorted(offered.items())
            ]
            return response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=all_keys)
        low, high = offered[type(message).api_key][1]
        known = response.ApiVersion(api_key=type(message).api_key, min_version=low, max_version=high)
        return response(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])
    if request.version >= ApiVersionsRequest.SOFTWARE:
        software = message.client_software_name, message.client_software_version
        if not all(_SOFTWARE.fullmatch(part) for part in software):
            return response(error_code=ErrorCode.INVALID_REQUEST)
        if request.version >= ApiVersionsRequest.NAMES_NODE and (message.cluster_id is None) != (message.node_id == -1):
            return response(error_code=ErrorCode.INVALID_REQUEST)
        request.connection.client_software = software
    if request.version >= ApiVersionsRequest.NAMES_NODE and _is_for_another(state, request):
        return response(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    own = state.nodes[request.node].versions
    hidden = () if state.part(ClientTelemetry).is_enabled else _OF_TELEMETRY
    keys = [
        response.ApiVersion(
            api_key=key,
            min_version=own.get(its.name, advertised)[0],
            max_version=own.get(its.name, advertised)[1],
        )
        for key, (its, advertised) in sorted(dispatch.offered(state.profile).items())
        if its.name not in hidden
    ]
    finalized = [
        response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in state.features.items()
        if level
    ]
    supported = [
        response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in state.supported_features.items()
        if low > 0 or request.version >= ApiVersionsRequest.ZERO_LEVELS
    ]
    return response(
        api_keys=keys,
        supported_features=supported,
        finalized_features_epoch=state.features_epoch,
        finalized_features=finalized,
    )


def _is_for_another(state: ClusterState, request: Request) -> bool:
    """True if the client means another broker. A broker does not compare before the login."""
    message = request.message
    if message.cluster_id is None or not request.connection.is_ready:
        return False
    return bool((message.cluster_id, message.node_id) != (state.cluster_id, request.node))
