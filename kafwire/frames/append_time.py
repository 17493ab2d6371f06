"""The ends of a read by time, in topics where no later record has an earlier time.

Only brokers append in the order of their times: `message.timestamp.type=LogAppendTime`. The configuration is that of
now, so the record at the end has to have a broker's time too: a topic whose type was changed has older records with
producers' times. The clocks of two brokers may differ, and a partition's leader may change: the read goes on for
`CLOCKS_DIFFER_MS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafwire.calls.client import ClientCalls
from kafwire.cluster.cluster import Cluster
from kafwire.errors import BrokerError
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.narrowing import narrowed
from kafwire.scanner.ranges import Range
from kafwire.scanner.row_filter import HIGHEST, Bounds, RowFilter
from kafwire.sync.scan import Split
from kafwire.types import TopicPartition

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
        if topic is None or partition is None:
            return found
        return found.both(Bounds(stop=self.ends.get(TopicPartition(topic, partition), HIGHEST)))


def ended_by_time(split: Split, row_filter: RowFilter, engine: Engine | None) -> RowFilter:
    """Return the filter with the ends that its latest times allow. Without a latest time, no request is sent."""
    timed = {
        TopicPartition(part.topic, part.partition): bounds.until + CLOCKS_DIFFER_MS
        for part, bounds in narrowed(split.ranges, row_filter)
        if not bounds.with_null and 0 < bounds.until < HIGHEST - CLOCKS_DIFFER_MS
    }
    if not timed:
        return row_filter
    config = split._reading.config
    running = default_engine() if engine is None else engine
    cluster = Cluster(running, config)
    ends: dict[TopicPartition, int] = {}
    try:
        calls = ClientCalls(cluster)
        by_broker = {topic for topic in {where.topic for where in timed} if _has_append_time(calls, topic, running)}
        timed = {where: until for where, until in timed.items() if where.topic in by_broker}
        for until in set(timed.values()):
            wanted = [where for where, each in timed.items() if each == until]
            found, _ = running.run(calls.offsets(wanted, until, config.isolation_level, available=False))
            ends |= {where: end for where, end in found.items() if end >= 0}
    finally:
        running.run(cluster.close)
    certain = {where: end for where, end in ends.items() if _is_of_broker(split, where, end, engine)}
    return EndingFilter(row_filter, certain)


def _has_append_time(calls: ClientCalls, topic: str, engine: Engine) -> bool:
    try:
        return engine.run(calls.topic_config(topic)).get("message.timestamp.type") == "LogAppendTime"
    except BrokerError:  # the user may not describe configurations
        return False


def _is_of_broker(split: Split, where: TopicPartition, offset: int, engine: Engine | None) -> bool:
    """True if the record at an offset has the time of a broker."""
    reading = replace(split._reading, columns=("timestamp", "timestamp_type"), window=None)
    one = replace(split, ranges=(Range(where.topic, where.partition, offset, offset + 1),), _reading=reading)
    return [record.timestamp_type for record in one.scan(engine=engine)] == [_LOG_APPEND_TIME]
