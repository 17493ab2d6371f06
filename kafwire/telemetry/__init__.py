"""Metrics and traces for monitoring systems: the registry, Prometheus, OpenTelemetry; loaded at their first use."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.telemetry.otel import Observation, observe
    from kafwire.telemetry.prometheus import prometheus_text, serve_prometheus
    from kafwire.telemetry.registry import METRICS, Metric
    from kafwire.telemetry.sampling import Sample, flat, samples
    from kafwire.telemetry.tracing import Tracing

__all__ = [
    "METRICS",
    "Metric",
    "Observation",
    "Sample",
    "Tracing",
    "flat",
    "observe",
    "prometheus_text",
    "samples",
    "serve_prometheus",
]

_HOMES = {
    "METRICS": "kafwire.telemetry.registry",
    "Metric": "kafwire.telemetry.registry",
    "Observation": "kafwire.telemetry.otel",
    "Sample": "kafwire.telemetry.sampling",
    "Tracing": "kafwire.telemetry.tracing",
    "flat": "kafwire.telemetry.sampling",
    "observe": "kafwire.telemetry.otel",
    "prometheus_text": "kafwire.telemetry.prometheus",
    "samples": "kafwire.telemetry.sampling",
    "serve_prometheus": "kafwire.telemetry.prometheus",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
