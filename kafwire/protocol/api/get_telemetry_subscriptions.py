"""GetTelemetrySubscriptions (71): the metrics that a client must push, and the interval. See KIP-714."""

from kafwire.protocol.spec import UUID, Request, Response, field, int8, int16, int32


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    """The response to `GetTelemetrySubscriptionsRequest`. `requested_metrics` has prefixes of names.

    An empty list requests no metrics, one empty string requests all.
    """

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    client_instance_id: UUID = field("0+")
    subscription_id: int32 = field("0+")
    accepted_compression_types: list[int8] = field("0+")
    push_interval_ms: int32 = field("0+")
    telemetry_max_bytes: int32 = field("0+")
    delta_temporality: bool = field("0+")
    requested_metrics: list[str] = field("0+")


class GetTelemetrySubscriptionsRequest(Request[GetTelemetrySubscriptionsResponse], key=71, versions="0", flexible="0+"):
    """Asks for the subscriptions that match this client. With the zero id the broker assigns one."""

    client_instance_id: UUID = field("0+")
