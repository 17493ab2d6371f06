"""GetTelemetrySubscriptions (71): the metrics that a client must push, and the interval. See KIP-714."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.client_telemetry import RESERVED, ClientTelemetry
from kafwire.broker.request import HANG_UP, Request, Response
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState


def handle(state: ClusterState, request: Request) -> Response:
    """Return the subscription of the client, or THROTTLING_QUOTA_EXCEEDED if it asks before its interval is over."""
    telemetry: ClientTelemetry = state.part(ClientTelemetry)
    if not telemetry.is_enabled:
        return HANG_UP
    response = protocol.GetTelemetrySubscriptionsResponse
    instance_id = request.message.client_instance_id
    if instance_id in RESERVED:
        instance_id = telemetry.new_id()
    instance = telemetry.instance(instance_id, request)
    if not instance.may_ask(state.now_ms):
        return response(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    instance.last_error = ErrorCode.NONE
    return response(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(telemetry.compression_types),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=telemetry.is_delta,
        requested_metrics=list(instance.metrics),
    )
