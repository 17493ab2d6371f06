"""The registry of metrics: name, unit, type, help and place of each value of a `metrics()` snapshot. Pure.

One table for all exports: the tables of docs/operate/metrics.md (`scripts/metric_tables.py`), Prometheus,
OpenTelemetry and the client's own metrics of KIP-714 read it. A test compares it with real snapshots.

A section is one dict of a snapshot, or all dicts of one kind. Its lines are `key | type | unit | help`; a type is

    counter     a number that only rises, since the client was created
    gauge       a number that rises and falls
    flag        True or False, exported as 1 and 0
    state       a text from a short list, exported as the label of a 1
    errors      a dict of counters, by the name of the error
    place_errors  dicts of counters, by a partition or broker, then by the name of the error
    label       a value that names the row among those of its section: exported as a label of the others
    text        a value for people: an id or an address, not exported
    section     a dict or list with a section of its own
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from kafwire.lazy_dataclass import dataclass

PREFIX: Final = "kafwire"
# Types that are exported as values.
VALUES: Final = frozenset({"counter", "gauge", "flag", "state", "errors", "place_errors"})
COUNTERS: Final = frozenset({"counter", "errors", "place_errors"})
# Units of time, exported in seconds, and their factors.
SECONDS: Final = {"ms": 0.001, "s": 1.0}
# Units that end the names of their metrics already.
_SUFFIXES: Final = {"ms": "_ms", "s": "_s"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One value of a `metrics()` snapshot.

    Args:
        section: the title of its section, such as "Consumer: partitions".
        key: its key in the snapshot.
        kind: `counter`, `gauge`, `flag`, `state`, `errors`, `place_errors`, `label`, `text` or `section`.
        unit: the unit in the snapshot, such as `ms`; empty: none.
        help: a phrase with its meaning.
        name: its name in Prometheus, such as `kafwire_consumer_partition_lag`; empty: it is not exported.
        labels: the names of its labels.

    Example:
        >>> from kafwire.telemetry import METRICS
        >>> [metric.name for metric in METRICS if metric.key == "lag"]
        ['kafwire_consumer_partition_lag', 'kafwire_spark_topic_lag']
    """

    __module__ = "kafwire.telemetry"

    section: str
    key: str
    kind: str
    unit: str
    help: str
    name: str
    labels: tuple[str, ...]

    @property
    def otel_name(self) -> str:
        """The name in OpenTelemetry, where the unit and the type are no part of it."""
        base = self.name.removesuffix("_total").removesuffix("_seconds")
        group = _SECTIONS[self.section].prefix
        return f"{PREFIX}.{group.replace('_', '.')}.{base.removeprefix(f'{PREFIX}_{group}_')}"

    @property
    def exported_unit(self) -> str:
        """The unit of exported values, as UCUM writes it for OpenTelemetry, which wants nouns in the singular."""
        if self.unit in SECONDS:
            return "s"
        noun, slash, time = self.unit.partition("/")
        singular = noun.removesuffix("es" if noun.endswith("ches") else "s")
        return {"bytes": "By", "": "1"}.get(self.unit, f"{{{singular}}}{slash}{time}")

    @property
    def factor(self) -> float:
        """The factor from the snapshot's unit to the exported one."""
        return SECONDS.get(self.unit, 1.0)


@dataclass(frozen=True, slots=True)
class Section:
    """One dict of a snapshot. `prefix`: of the names of its metrics; `labels`: of its dicts, if it has several."""

    prefix: str
    labels: tuple[str, ...]
    table: str


_PARTITION = ("topic", "partition")
_TALLY = """
    records | counter | records | sent, without retries
    bytes | counter | bytes | sent, without retries, on the wire
    batches | counter | batches | sent, without retries
    batch_bytes_mean | gauge | bytes | mean size of a batch on the wire
    batch_bytes_max | gauge | bytes | largest batch on the wire
    batch_records_mean | gauge | records | mean number of records of a batch
    compression_ratio | gauge | | compressed bytes over uncompressed bytes
    queue_ms_mean | gauge | ms | mean time from a batch's first record to its first request, `linger_ms` included
    queue_ms_max | gauge | ms | longest time from a batch's first record to its first request
    retries | counter | batches | sent again
    records_delivered | counter | records | acknowledged; with `acks=0`: sent
    records_failed | counter | records | given up
    errors | errors | | attempts that failed, by the error's name, retried ones too
"""

_SECTIONS: Final[Mapping[str, Section]] = {
    "Producer": Section(
        "producer",
        (),
        f"""{_TALLY}
    requests | counter | requests | on the produce connections; a connection's first asks for versions
    requests_in_flight | gauge | requests | without a response yet
    request_latency_ms_mean | gauge | ms | mean time from submitting a request to its response
    request_latency_ms_max | gauge | ms | longest time from submitting a request to its response
    throttle_ms | counter | ms | total throttle time that brokers asked for
    buffer_used | gauge | bytes | records in `buffer_memory`, those in flight included
    buffer_memory | gauge | bytes | the limit
    waiting_senders | gauge | | threads and tasks that wait for room in the buffer
""",
    ),
    "Producer: partitions": Section(
        "producer_partition",
        _PARTITION,
        f"""{_TALLY}
    batches_waiting | gauge | batches | full, or due, and not sent
    batches_in_flight | gauge | batches | sent, without a response
""",
    ),
    "Consumer: fetcher": Section(
        "consumer_fetcher",
        (),
        """
    buffered_bytes | gauge | bytes | fetched and not decoded
    reserved_bytes | gauge | bytes | kept free for responses in flight
    fetch_memory | gauge | bytes | the limit of both
    unassigned | gauge | partitions | without a broker to fetch from: the leader is unknown, or cannot be reached
    position_resets | counter | | positions that `auto_offset_reset` decided
    truncations | counter | | logs that were cut below the position (KIP-320)
    errors | place_errors | | unexplained errors, by partition or broker, and by the error's name
    broker_fetchers | section | | a dict for each connection that fetches, below
""",
    ),
    "Consumer: broker fetchers": Section(
        "consumer_broker_fetcher",
        ("node", "role"),
        """
    node | label | | the broker's id
    role | label | | the role of the connection
    partitions | gauge | partitions | that this connection fetches
    wanted | gauge | partitions | in the fetch session now
    full | gauge | partitions | left out, because enough of their records are buffered
    requests | counter | requests | fetches sent
    bytes | counter | bytes | of responses
    in_flight | flag | | a fetch is at the broker
    session_id | text | | the fetch session (KIP-227)
    session_epoch | text | | its epoch
    session_errors | counter | | sessions that the broker refused, and that began again
""",
    ),
    "Consumer: partitions": Section(
        "consumer_partition",
        _PARTITION,
        """
    position | gauge | offset | the next record to deliver
    fetch_position | gauge | offset | the next record to fetch
    high_watermark | gauge | offset | the end of the replicated log
    last_stable_offset | gauge | offset | the first record of an open transaction, or the high watermark
    log_start_offset | gauge | offset | the first record that the log still has
    lag | gauge | records | between `position` and the end; None before the first response
    buffered_responses | gauge | responses | with records of this partition, not delivered yet
    buffered_bytes | gauge | bytes | of responses that are not delivered yet
    responses | counter | responses | with a part for this partition
    bytes | counter | bytes | of its records, as fetched
    paused | flag | | by `pause`
    failed | flag | | reads raise an error until a `seek`, `pause` or `assign`
    failing_ms | gauge | ms | since fetches fail; None: they do not
    skipped_batches | counter | batches | damaged ones, with `on_corrupt="skip"`
    read_from_replica | gauge | | the broker id of the replica that is read (KIP-392); -1: the leader
    uncommitted | gauge | records | delivered beyond the last commit: another process would process them again after \
a crash. None: nothing is committed
""",
    ),
    "Consumer: group": Section(
        "consumer_group",
        (),
        """
    state | state | | `out`, `joining`, `stable`, `leaving` or `failed`
    protocol | state | | `consumer` or `classic`; None before it is chosen
    member_id | text | | as the coordinator knows it
    generation | gauge | | as the coordinator knows it; the member epoch in the consumer protocol; -1 before joining
    heartbeats | counter | | with a response
    rebalances | counter | | completed ones: the member joined, or its assignment changed or was confirmed
    last_rebalance_ms | gauge | ms | duration of the last one, with the wait for records in hand; None before the first
    rebalance_ms_sum | counter | ms | duration of all completed ones
    rebalancing_ms | gauge | ms | duration of the present one so far; None when there is none
    lost_partitions | counter | partitions | lost: the group got no heartbeat of this member in time
""",
    ),
    "Connections": Section(
        "connection",
        ("node", "role"),
        """
    node | label | | the broker's id; below 0: a bootstrap server
    role | label | | the use: `control`, `fetch`, `produce`, `coordinator` and others
    host | text | | the address
    port | text | | its port
    connected | flag | | ready for requests now
    in_flight | gauge | requests | without a response yet
    connects | counter | | connections made, the first included
    authentications | counter | | successful logins by SASL, each renewal of a session (KIP-368) included
    requests | counter | requests | sent
    responses | counter | responses | received; a request without a response (`acks=0`) counts here too
    bytes_out | counter | bytes | sent, in frames with their size fields
    bytes_in | counter | bytes | received, in frames with their size fields
    latency_ms_sum | counter | ms | from sending to the response, the broker's long poll included
    latency_ms_max | gauge | ms | longest time from sending to the response
    throttle_ms | counter | ms | total throttle time that the broker asked for (KIP-219)
""",
    ),
    "Share consumer": Section(
        "share_consumer",
        (),
        """
    member_id | text | | of the membership
    state | state | | of the membership: `out`, `joining`, `stable`, `leaving` or `failed`
    partitions | gauge | partitions | assigned
    acquired | counter | records | from brokers
    acknowledged | counter | records | accepted, released or rejected, and confirmed by the broker
    expired | counter | records | dropped before their delivery, because their locks had run out
    connections | section | | as above
""",
    ),
    "Stream": Section(
        "stream",
        (),
        """
    records | counter | records | read, those of aborted transactions more than once
    retries | counter | | calls of a step again, in place
    delayed | counter | records | written to retry topics
    dead_letters | counter | records | written to the dead letter topic
    skipped | counter | records | left out because of an error
    commits | counter | | commits, or committed transactions
    aborts | counter | | aborted transactions
    in_flight | gauge | values | in the steps of the stream now
    uncommitted | gauge | offsets | behind the oldest record that is not completed
    retrying | gauge | values | that wait for their next attempt
    partitions | gauge | partitions | assigned
    waiting_partitions | gauge | partitions | that wait for a time, as of a retry topic or `NotNow`
    oldest_s | gauge | s | age of the oldest record that is not completed
    lag_s | gauge | s | age of the oldest batch in hand
    transaction_s | gauge | s | age of the open transaction; 0 without one
    is_alive | flag | | 1 if the liveness probe has no problem
""",
    ),
    "Outbox": Section(
        "outbox",
        (),
        """
    rows | counter | rows | relayed
    transactions | counter | | Kafka transactions of these rows
    leftovers | counter | rows | relayed before a crash or a lost connection, and removed after it
    aborted | counter | | aborted Kafka transactions
    batch_rows | gauge | rows | the most that the next transaction takes
    dead_letters | counter | rows | refused by Kafka, moved to their table or topic
    retries | counter | | attempts of `run` after a failure
    connections | counter | | database connections that were opened
    purged | counter | rows | kept ones that were removed
    longest_transaction_s | gauge | s | the database's longest transaction within the last minute
""",
    ),
    "Spark query": Section(
        "spark_query",
        ("query",),
        """
    query | label | | the name (or id)
    run_id | text | | the run
    batch | gauge | | the number of the batch
    rows | gauge | rows | of the batch
    seconds | gauge | s | duration of the batch
    rows_per_second | gauge | rows/s | of the batch
    topics | section | | by topic, below
""",
    ),
    "Spark query: topics": Section(
        "spark_topic",
        ("query", "topic"),
        """
    backlog | gauge | offsets | unread, of all partitions, when the batch was planned
    lag | gauge | offsets | unread, of the partition that has most
    rate | gauge | offsets/s | read by the batch
    arrival_rate | gauge | offsets/s | arrived since the batch before
    seconds_behind | gauge | s | so long ago, the topic ended where the batch ends; by the ends that earlier batches \
found, in proportion
""",
    ),
}
SECTIONS: Final = tuple(_SECTIONS)


def _exported(prefix: str, key: str, kind: str, unit: str) -> str:
    """Return the name in Prometheus: base units, `_total` for counters."""
    if kind not in VALUES:
        return ""
    name = key
    if unit in SECONDS:
        name = name.removesuffix("_sum").replace(_SUFFIXES[unit], "")
        name = "duration" if name == "seconds" else name.removeprefix("seconds_")
        name = f"{name}_seconds"
    elif unit == "bytes" and "bytes" not in key:
        name = f"{name}_bytes"
    total = "_total" if kind in COUNTERS else ""
    return f"{PREFIX}_{prefix}_{name}{total}"


def _read() -> tuple[Metric, ...]:
    found = []
    for title, section in _SECTIONS.items():
        for line in filter(None, map(str.strip, section.table.splitlines())):
            key, kind, unit, text = (cell.strip() for cell in line.split("|", 3))
            extra = {"state": (key,), "errors": ("error",), "place_errors": ("place", "error")}.get(kind, ())
            name = _exported(section.prefix, key, kind, unit)
            found.append(Metric(title, key, kind, unit, text, name, (*section.labels, *extra) if name else ()))
    return tuple(found)


METRICS: Final = _read()
"""All values of snapshots, in the order of docs/operate/metrics.md."""


@cache
def of_section(title: str) -> Mapping[str, Metric]:
    """Return the metrics of a section, by key."""
    return {metric.key: metric for metric in METRICS if metric.section == title}
