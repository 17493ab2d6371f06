"""PushTelemetry (72): a client's metrics for the broker's plug-in, which here keeps them. See KIP-714."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire import protocol
from kafwire.broker.client_telemetry import RESERVED, ClientTelemetry, Instance, Push
from kafwire.broker.request import HANG_UP, Request, Response
from kafwire.compression import CODECS, decompress
from kafwire.errors import ErrorCode, ProtocolError
from kafwire.telemetry.otlp import Metrics, decode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

_MOST_DECOMPRESSED = 64 << 20


def handle(state: ClusterState, request: Request) -> Response:
    """Take the metrics, or refuse them in Kafka's order of checks."""
    telemetry: ClientTelemetry = state.part(ClientTelemetry)
    if not telemetry.is_enabled:
        return HANG_UP
    response = protocol.PushTelemetryResponse
    message = request.message
    if message.client_instance_id in RESERVED:
        return response(error_code=ErrorCode.INVALID_REQUEST)
    instance = telemetry.instance(message.client_instance_id, request)
    code = _problem(telemetry, instance, message, state.now_ms)
    instance.is_terminating = message.terminating
    if code is ErrorCode.NONE:
        code = _take(telemetry, request)
    instance.last_error = code
    return response(error_code=code)


def _problem(
    telemetry: ClientTelemetry, instance: Instance, message: protocol.PushTelemetryRequest, now_ms: float
) -> ErrorCode:
    if instance.is_terminating:
        return ErrorCode.INVALID_REQUEST
    if not instance.may_push(now_ms) and not message.terminating:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if message.subscription_id != instance.subscription_id:
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if not 0 <= message.compression_type < len(CODECS):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(message.metrics) > telemetry.max_bytes:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE


def _take(telemetry: ClientTelemetry, request: Request) -> ErrorCode:
    message = request.message
    metrics = Metrics({}, [])
    if message.metrics:
        try:
            codec = CODECS[message.compression_type]
            metrics = decode(decompress(codec, message.metrics, max_decompressed=_MOST_DECOMPRESSED))
        except ProtocolError:
            return ErrorCode.INVALID_RECORD
    telemetry.take(
        Push(
            request.node,
            request.client_id,
            message.client_instance_id,
            message.terminating,
            message.compression_type,
            metrics,
        )
    )
    return ErrorCode.NONE
