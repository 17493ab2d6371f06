"""Sampling: the values of a `metrics()` snapshot, each with its metric of the registry and its labels. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kafwire.errors import ConfigError
from kafwire.telemetry.registry import Metric, of_section

Labels = dict[str, str]

# A key that only snapshots of this kind have, and the kind.
_KINDS = (
    ("producer", "producer"),
    ("fetcher", "consumer"),
    ("acquired", "share_consumer"),
    ("longest_transaction_s", "outbox"),
    ("oldest_s", "stream"),
    ("rows_per_second", "spark"),
    ("connections", "client"),  # others have this key too
)


class Sample(NamedTuple):
    """One value.

    Args:
        metric: its metric.
        labels: the values of the metric's labels, and of additional ones.
        value: the number, in the exported unit: seconds, bytes or a count.

    Example:
        >>> from kafwire.telemetry import samples
        >>> found = list(samples({"acquired": 3, "state": "stable"}, {"client": "billing"}))
        >>> [(sample.metric.name, sample.labels, sample.value) for sample in found]
        [('kafwire_share_consumer_acquired_total', {'client': 'billing'}, 3.0),
         ('kafwire_share_consumer_state', {'client': 'billing', 'state': 'stable'}, 1.0)]
    """

    metric: Metric
    labels: Labels
    value: float


def kind_of(snapshot: Mapping[str, Any]) -> str:
    """Return the kind of a snapshot: `producer`, `consumer`, `share_consumer`, `stream`, `outbox`, `spark` or `client`.

    Raises:
        ConfigError: it is no snapshot of `metrics()`.
    """
    for key, kind in _KINDS:
        if key in snapshot:
            return kind
    queries = list(snapshot.values())
    if all(isinstance(each, Mapping) and "rows_per_second" in each for each in queries):
        return "spark_queries"  # of `kafwire.spark.listen`; empty before the first batch
    raise ConfigError(f"not a snapshot of metrics(): its keys are {', '.join(map(str, snapshot))[:100]}")


def samples(snapshot: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> Iterator[Sample]:
    """Yield the values of a snapshot. Values that are None, and texts and ids, are left out.

    Args:
        snapshot: the result of `metrics()` of a producer, a consumer, a share consumer, a stream's monitor, an outbox
            or `kafwire.spark.listen`.
        labels: labels of all samples, such as the client's name.

    Returns:
        The samples, section by section.

    Raises:
        ConfigError: the dict is no snapshot of `metrics()`.

    Example:
        >>> from kafwire.telemetry import samples
        >>> snapshot = kafwire.stream.StreamMonitor().metrics()
        >>> {sample.metric.name: sample.value for sample in samples(snapshot)}["kafwire_stream_records_total"]
        0.0
    """
    given = dict(labels or {})
    kind = kind_of(snapshot)
    if kind == "producer":
        yield from _of_dict("Producer", snapshot["producer"], given)
        yield from _of_partitions("Producer: partitions", snapshot["partitions"], given)
    elif kind == "consumer":
        fetcher = snapshot["fetcher"]
        yield from _of_dict("Consumer: fetcher", fetcher, given)
        yield from _of_rows("Consumer: broker fetchers", fetcher["broker_fetchers"], given)
        yield from _of_partitions("Consumer: partitions", snapshot["partitions"], given)
        if snapshot["group"] is not None:
            yield from _of_dict("Consumer: group", snapshot["group"], given)
    elif kind == "share_consumer":
        yield from _of_dict("Share consumer", snapshot, given)
    elif kind == "spark_queries":
        for query in snapshot.values():
            yield from _of_query(query, given)
    elif kind == "spark":
        yield from _of_query(snapshot, given)
    elif kind != "client":
        yield from _of_dict(kind.capitalize(), snapshot, given)
    if kind not in {"outbox", "stream"}:
        yield from _of_rows("Connections", snapshot.get("connections", ()), given)


def _of_rows(section: str, rows: Iterable[Mapping[str, Any]], given: Labels) -> Iterator[Sample]:
    named = [metric.key for metric in of_section(section).values() if metric.kind == "label"]
    for row in rows:
        yield from _of_dict(section, row, given | {key: str(row[key]) for key in named})


def _of_partitions(section: str, partitions: Mapping[str, Mapping[str, Any]], given: Labels) -> Iterator[Sample]:
    for name, row in partitions.items():
        topic, _, number = name.rpartition("-")
        yield from _of_dict(section, row, given | {"topic": topic, "partition": number})


def _of_query(query: Mapping[str, Any], given: Labels) -> Iterator[Sample]:
    labels = given | {"query": str(query["query"])}
    yield from _of_dict("Spark query", query, labels)
    for topic, row in query["topics"].items():
        yield from _of_dict("Spark query: topics", row, labels | {"topic": topic})


def _of_dict(section: str, values: Mapping[str, Any], labels: Labels) -> Iterator[Sample]:
    known = of_section(section)
    for key, value in values.items():
        metric = known.get(key)
        if metric is None or not metric.name or value is None:
            continue
        if metric.kind == "state":
            yield Sample(metric, labels | {key: str(value)}, 1.0)
        elif metric.kind == "errors":
            yield from _of_errors(metric, value, labels)
        elif metric.kind == "place_errors":
            for place, counts in value.items():
                yield from _of_errors(metric, counts, labels | {"place": str(place)})
        else:
            yield Sample(metric, labels, float(value) * metric.factor)


def _of_errors(metric: Metric, counts: Mapping[str, int], labels: Labels) -> Iterator[Sample]:
    for error, count in counts.items():
        yield Sample(metric, labels | {"error": str(error)}, float(count))


def flat(snapshot: Mapping[str, Any]) -> dict[str, float]:
    """Return a snapshot as one flat dict of numbers, which `json.dumps` takes.

    Args:
        snapshot: as for `samples`.

    Returns:
        Each value by the name of its metric, with its labels in braces as Prometheus writes them.

    Raises:
        ConfigError: the dict is no snapshot of `metrics()`.

    Example:
        >>> from kafwire.telemetry import flat
        >>> flat({"acquired": 3, "state": "stable"})
        {'kafwire_share_consumer_acquired_total': 3.0, 'kafwire_share_consumer_state{state="stable"}': 1.0}
    """
    return {series(sample.metric.name, sample.labels): sample.value for sample in samples(snapshot)}


def series(name: str, labels: Mapping[str, str]) -> str:
    """Return a name with its labels, as Prometheus writes them."""
    if not labels:
        return name
    pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
