"""The ends of a read by time, in topics where no later record has an earlier time.

Only brokers append in the order of their times: `message.timestamp.type=LogAppendTime`. The configuration is that of
now, so the record at the end has to have a broker's time too: a topic whose type was changed has older records with
producers' times. The clocks of two brokers may differ, and a partition's leader may change: the read goes on for
`CLOCKS_DIFFER_MS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafwire.calls.client import ClientCalls
from kafwire.cluster.cluster import Cluster
from kafwire.errors import BrokerError
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.narrowing import Part
from kafwire.scanner.ranges import Range
from kafwire.scanner.row_filter import END
from kafwire.sync.scan import Split
from kafwire.types import TopicPartition

CLOCKS_DIFFER_MS = 60_000
_LOG_APPEND_TIME = 1
Ends = dict[TopicPartition, int]


def ended_by_time(split: Split, parts: Sequence[Part], engine: Engine | None) -> Sequence[Part]:
    """Return the parts with the ends that their latest times allow. Without a latest time, no request is sent."""
    timed = {
        TopicPartition(part.topic, part.partition): bounds.until + CLOCKS_DIFFER_MS
        for part, bounds in parts
        if not bounds.with_null and 0 < bounds.until < END - CLOCKS_DIFFER_MS
    }
    if not timed:
        return parts
    config = split._reading.config
    running = default_engine() if engine is None else engine
    cluster = Cluster(running, config)
    ends: Ends = {}
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
    stops = _of_brokers(split, ends, engine) if ends else {}
    return [
        (part._replace(end=min(part.end, stops.get(TopicPartition(part.topic, part.partition), part.end))), bounds)
        for part, bounds in parts
    ]


def _has_append_time(calls: ClientCalls, topic: str, engine: Engine) -> bool:
    try:
        return engine.run(calls.topic_config(topic)).get("message.timestamp.type") == "LogAppendTime"
    except BrokerError:  # the user may not describe configurations
        return False


def _of_brokers(split: Split, ends: Ends, engine: Engine | None) -> Ends:
    """Return those ends whose record has the time of a broker."""
    reading = replace(split._reading, columns=("topic", "partition", "timestamp", "timestamp_type"), window=None)
    single = tuple(Range(*where, end, end + 1) for where, end in ends.items())
    with replace(split, ranges=single, _reading=reading).scan(engine=engine) as scan:
        certain = {(each.topic, each.partition) for each in scan if each.timestamp_type == _LOG_APPEND_TIME}
    return {where: end for where, end in ends.items() if where in certain}
