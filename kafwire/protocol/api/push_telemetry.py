"""PushTelemetry (72): a client's metrics for the broker's plugin. See KIP-714."""

from kafwire.protocol.spec import UUID, Request, Response, field, int8, int16, int32


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    """The response to `PushTelemetryRequest`. UNKNOWN_SUBSCRIPTION_ID: fetch the subscriptions again."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")


class PushTelemetryRequest(Request[PushTelemetryResponse], key=72, versions="0", flexible="0+"):
    """Carries `metrics`, an OpenTelemetry MetricsData v1 in protobuf, compressed by `compression_type`.

    The ids are those of `GetTelemetrySubscriptionsResponse`; the compression types those of record batches.
    """

    client_instance_id: UUID = field("0+")
    subscription_id: int32 = field("0+")
    terminating: bool = field("0+")
    compression_type: int8 = field("0+")
    metrics: bytes = field("0+")
