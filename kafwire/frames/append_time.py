"""The ends of a read by time, in topics where a later record has no earlier time.

Only brokers append in the order of their times: `message.timestamp.type=LogAppendTime`. The configuration is that of
now, so the record at the end has to be such a record too: a topic whose type was changed has older ones of producers.
The clocks of two brokers may differ, and a partition's leader may change: the read goes on for `CLOCKS_DIFFER_MS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kafwire.config import ClientConfig, ScanConfig
from kafwire.errors import BrokerError
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.ranges import Range
from kafwire.scanner.row_filter import HIGHEST, Bounds, RowFilter
from kafwire.sync.client import Client
from kafwire.types import Offset, TopicPartition

CLOCKS_DIFFER_MS = 60_000
_LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True)
class EndingFilter:
    """A `RowFilter` whose partitions end at given offsets."""

    inner: RowFilter
    ends: Mapping[TopicPartition, int]

    def bounds(self, topic: str | None = None, partition: int | None = None) -> Bounds:
        """Return the bounds of the inner filter, up to the end of the partition."""
        found = self.inner.bounds(topic, partition)
        end = HIGHEST if topic is None or partition is None else self.ends.get(TopicPartition(topic, partition), HIGHEST)
        return found.both(Bounds(stop=end))


def ended_by_time(
    row_filter: RowFilter, parts: Sequence[tuple[Range, Bounds]], config: ScanConfig, engine: Engine | None
) -> RowFilter:
    """Return the filter with the ends that its latest times allow. Without a latest time, no request is sent."""
    timed = {TopicPartition(part.topic, part.partition): bounds.until for part, bounds in parts if _is_limited(bounds)}
    if not timed:
        return row_filter
    options: Any = {field.name: getattr(config, field.name) for field in fields(ClientConfig)}
    with Client(options.pop("bootstrap_servers"), engine=engine, **options) as client:
        by_broker = {topic for topic in {where.topic for where in timed} if _has_append_time(client, topic)}
        ends: dict[TopicPartition, int] = {}
        for until in {until for where, until in timed.items() if where.topic in by_broker}:
            wanted = [where for where, each in timed.items() if each == until and where.topic in by_broker]
            found = client.offsets(wanted, until + CLOCKS_DIFFER_MS, isolation_level=config.isolation_level)
            ends |= {where: end for where, end in found.items() if end >= 0 and _is_of_broker(client, where, end)}
    return EndingFilter(row_filter, ends)


def _is_limited(bounds: Bounds) -> bool:
    return not bounds.with_null and 0 < bounds.until < HIGHEST - CLOCKS_DIFFER_MS


def _has_append_time(client: Client, topic: str) -> bool:
    try:
        return client.topic_config(topic).get("message.timestamp.type") == "LogAppendTime"
    except BrokerError:  # the user may not describe configurations
        return False


def _is_of_broker(client: Client, where: TopicPartition, offset: int) -> bool:
    """True if the record at an offset has the time of a broker."""
    scan = client.scan(
        where.topic,
        start={where: Offset(offset)},
        end={where: Offset(offset + 1)},
        columns=["offset", "timestamp_type"],
    )
    types = [record.timestamp_type for record in scan]
    return types == [_LOG_APPEND_TIME]
