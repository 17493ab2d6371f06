"""The metrics of a push (KIP-714): the standard ones, which Java's clients have too, and kafwire's own. Pure.

Averages and maxima are those since the last push; a metric without a value in this time is left out, as the KIP
recommends. Sums are cumulative, or, if the broker asks for deltas, those since the last push that succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafwire.telemetry.otlp import Kind, Point
from kafwire.telemetry.registry import COUNTERS, PREFIX
from kafwire.telemetry.sampling import samples

DOMAIN: Final = "org.apache.kafka"
OWN: Final = f"{PREFIX}."  # the start of the names of kafwire's own metrics


class Timing(NamedTuple):
    """Durations in milliseconds: their sum and number since the start, and the longest since the last reading."""

    total: float = 0.0
    number: int = 0
    longest: float = 0.0

    def __add__(self, other: Timing) -> Timing:  # type: ignore[override]
        """Return both together."""
        return Timing(self.total + other.total, self.number + other.number, max(self.longest, other.longest))


@dataclass
class Reading:
    """The numbers of one client now. `kind`: the start of names, such as `producer` or `admin.client`.

    `nodes`: the latencies of requests, by broker. `timings`: others, by the standard name without `.avg` and `.max`;
    `totals`: sums, and `gauges`, by the standard name.
    """

    kind: str
    connects: int = 0
    nodes: dict[int, Timing] = field(default_factory=dict)
    timings: dict[str, Timing] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)


class StandardMetrics:
    """Computes the standard metrics of one client from its readings."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._last: dict[str, Timing] = {}
        self._last_ns = start_ns
        self._last_connects = 0

    def points(self, reading: Reading, now_ns: int) -> Iterator[Point]:
        """Yield the points of the time since the last call; sums are cumulative."""
        kind = reading.kind
        seconds = (now_ns - self._last_ns) / 1e9
        name = f"{DOMAIN}.{kind}.connection.creation"
        if seconds > 0:
            yield Point(f"{name}.rate", (reading.connects - self._last_connects) / seconds, time_ns=now_ns)
        yield self._total(f"{name}.total", reading.connects, now_ns)
        self._last_ns, self._last_connects = now_ns, reading.connects
        for node, timing in reading.nodes.items():
            yield from self._timing(f"{kind}.node.request.latency", timing, now_ns, {"node_id": str(node)})
        for name, timing in reading.timings.items():
            yield from self._timing(name, timing, now_ns, {})
        for name, total in reading.totals.items():
            yield self._total(f"{DOMAIN}.{name}", total, now_ns)
        for name, value in reading.gauges.items():
            yield Point(f"{DOMAIN}.{name}", value, time_ns=now_ns)

    def _total(self, name: str, value: float, now_ns: int) -> Point:
        return Point(name, float(value), Kind.CUMULATIVE, {}, self._start_ns, now_ns)

    def _timing(self, name: str, timing: Timing, now_ns: int, attributes: Mapping[str, str]) -> Iterator[Point]:
        key = f"{name} {attributes}"
        last = self._last.get(key, Timing())
        self._last[key] = timing
        if timing.number > last.number and timing.total >= last.total:  # else a connection is gone with its numbers
            mean = (timing.total - last.total) / (timing.number - last.number)
            yield Point(f"{DOMAIN}.{name}.avg", mean, attributes=attributes, time_ns=now_ns)
            yield Point(f"{DOMAIN}.{name}.max", float(timing.longest), attributes=attributes, time_ns=now_ns)


def own_points(snapshot: Mapping[str, Any], start_ns: int, now_ns: int) -> Iterator[Point]:
    """Yield all values of a snapshot, by their names in OpenTelemetry (`kafwire.producer.records`)."""
    for metric, labels, value in samples(snapshot):
        if metric.kind in COUNTERS:
            yield Point(metric.otel_name, value, Kind.CUMULATIVE, labels, start_ns, now_ns)
        else:
            yield Point(metric.otel_name, value, attributes=labels, time_ns=now_ns)


class Deltas:
    """Turns cumulative sums into deltas to those that the broker got."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, int]] = {}

    def of(self, points: Iterable[Point]) -> Iterator[Point]:
        """Yield the points, with deltas in place of sums. A sum below the last one began again at 0."""
        for point in points:
            if point.kind is not Kind.CUMULATIVE:
                yield point
                continue
            sent, sent_ns = self._sent.get(_key(point), (0.0, point.start_ns))
            delta = point.value - sent if point.value >= sent else point.value
            yield point._replace(value=delta, kind=Kind.DELTA, start_ns=sent_ns)

    def got(self, points: Iterable[Point]) -> None:
        """Note the cumulative points whose deltas the broker got."""
        for point in points:
            if point.kind is Kind.CUMULATIVE:
                self._sent[_key(point)] = point.value, point.time_ns


def _key(point: Point) -> tuple[str, tuple[tuple[str, str], ...]]:
    return point.name, tuple(point.attributes.items())
