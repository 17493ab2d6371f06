"""OpenTelemetry: the metrics of clients as observable instruments of its API (`pip install kafwire[otel]`).

The API alone is imported. Where the values go is the program's choice, by its SDK; without an SDK nothing is read.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from kafwire._version import __version__
from kafwire.errors import ConfigError, KafkaError
from kafwire.runtime.log import log
from kafwire.telemetry.registry import COUNTERS, METRICS, Metric
from kafwire.telemetry.sampling import Sample, samples
from kafwire.telemetry.sources import Snapshot, Source, snapshots

if TYPE_CHECKING:
    from opentelemetry import metrics as api
    from opentelemetry.metrics import CallbackOptions

# All instruments that one collection reads share a snapshot of this age.
_FRESH_S = 0.5
# Labels that the semantic conventions of messaging name.
_ATTRIBUTES = {
    "topic": "messaging.destination.name",
    "partition": "messaging.destination.partition.id",
    "error": "error.type",
}
HINT = "the package opentelemetry-api is missing: pip install kafwire[otel]"


class Observation:
    """The observation of some clients; `observe` makes it. It keeps no client alive, and a closed one yields nothing.

    Example:
        >>> from kafwire.telemetry import observe
        >>> with observe(orders={"acquired": 3, "state": "stable"}) as observation:
        ...     observation
        <Observation of orders>
    """

    __module__ = "kafwire.telemetry"

    def __init__(self, sources: tuple[Source, ...], named: Mapping[str, Source]) -> None:
        self._sources: list[Callable[[], Source | None]] = [_weak(source) for source in sources]
        self._named = {name: _weak(source) for name, source in named.items()}
        self._read_s = float("-inf")
        self._by_name: dict[str, list[Sample]] = {}
        self._names: dict[int, str] = {}  # of the sources without one
        self._is_closed = False

    def __repr__(self) -> str:
        names = [*self._named, *([f"{len(self._sources)} sources"] if self._sources else [])]
        return f"<Observation of {', '.join(names) or 'nothing'}{', closed' if self._is_closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it: the instruments yield nothing any more. The API cannot remove them."""
        self._is_closed = True
        self._sources, self._named, self._by_name = [], {}, {}

    def of(self, name: str) -> list[Sample]:
        """Return the present samples of a metric.

        Args:
            name: its name in Prometheus.

        Returns:
            The samples.
        """
        now_s = time.monotonic()
        if now_s - self._read_s > _FRESH_S:
            found: dict[str, list[Sample]] = {}
            for client, snapshot in self._snapshots():
                for sample in samples(snapshot, {"client": client}):
                    found.setdefault(sample.metric.name, []).append(sample)
            self._by_name, self._read_s = found, now_s
        return self._by_name.get(name, [])

    def _snapshots(self) -> Iterable[tuple[str, Snapshot]]:
        sources = [each() for each in self._sources]
        named = {name: source for name, each in self._named.items() if (source := each()) is not None}
        return snapshots(sources, named, _leave_out, self._names)


def _leave_out(error: Exception) -> None:
    """Leave out a client that is closed, and a function that raises."""
    if not isinstance(error, KafkaError):
        log.error("kafwire: metrics could not be read", exc_info=error, error=error)


def _weak(source: Source) -> Callable[[], Source | None]:
    """Return a function that returns the source while it lives; snapshots and functions live as long as it does."""
    return weakref.ref(source) if hasattr(source, "metrics") else lambda: source


def observe(*sources: Source, meter_provider: api.MeterProvider | None = None, **named: Source) -> Observation:
    """Export the metrics of clients by OpenTelemetry: an observable instrument for each metric.

    Every value has the attribute `client`: the keyword of its source, or else its kind. Topics, partitions and errors
    are named by the semantic conventions: `messaging.destination.name`, `messaging.destination.partition.id`,
    `error.type`.

    Args:
        sources: producers, consumers and others, as for `prometheus_text`.
        meter_provider: the provider of meters; None: the global one, which the SDK sets.
        named: more of them, by the value of their attribute `client`.

    Returns:
        The observation. Keep it to end it with `close`.

    Raises:
        ConfigError: opentelemetry-api is not installed.

    Example:
        >>> from kafwire.telemetry import observe
        >>> observe(orders={"acquired": 3, "state": "stable"}).close()
    """
    try:
        from opentelemetry import metrics as otel
    except ImportError:
        raise ConfigError(HINT) from None
    meter = otel.get_meter("kafwire", __version__, meter_provider=meter_provider)
    observation = Observation(sources, named)
    for metric in METRICS:
        if metric.name:
            make: Any = meter.create_observable_counter if metric.kind in COUNTERS else meter.create_observable_gauge
            make(
                metric.otel_name,
                callbacks=[_callback(observation, metric)],
                unit=metric.exported_unit,
                description=metric.help,
            )
    return observation


def _callback(observation: Observation, metric: Metric) -> Callable[[CallbackOptions], Iterable[Any]]:
    from opentelemetry.metrics import Observation as Value

    def observed(_: CallbackOptions) -> Iterable[Any]:
        return [
            Value(sample.value, {_ATTRIBUTES.get(key, key): text for key, text in sample.labels.items()})
            for sample in observation.of(metric.name)
        ]

    return observed
