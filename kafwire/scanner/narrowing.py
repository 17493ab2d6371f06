"""The ranges of a filtered read: the parts of a snapshot's ranges whose records can pass a filter."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import Partition, Time, list_offsets
from kafwire.cluster.metadata import TopicInfo
from kafwire.error_codes import ErrorCode
from kafwire.errors import broker_error
from kafwire.scanner.ranges import Range

if TYPE_CHECKING:
    from kafwire.scanner.row_filter import Bounds, RowFilter

Window = tuple[int, int]
Part = tuple[Range, "Bounds"]


def narrowed(ranges: Sequence[Range], row_filter: RowFilter) -> list[Part]:
    """Return the part of each range whose offsets can pass, with the partition's bounds; none that is empty."""
    found = []
    for whole in ranges:
        bounds = row_filter.bounds(whole.topic, whole.partition)
        part = whole._replace(start=max(whole.start, bounds.first), end=min(whole.end, bounds.stop))
        if part.start < part.end and not bounds.is_empty:
            found.append((part, bounds))
    return found


def both_windows(one: Window | None, other: Window | None) -> Window | None:
    """Return the times [from, to) in both; None stands for all, records without a timestamp included."""
    if one is None or other is None:
        return other if one is None else one
    since, until = max(one[0], other[0]), min(one[1], other[1])
    return since, max(since, until)


async def same_topics(
    cluster: Cluster, names: Iterable[str], topic_ids: Mapping[str, uuid.UUID], since: str
) -> dict[str, TopicInfo]:
    """Return the topics. One with the same name and another id raises an error: its records differ."""
    infos = {topic: await cluster.topic(topic, fresh=True) for topic in dict.fromkeys(names)}
    for topic, info in infos.items():
        if info.topic_id != topic_ids[topic]:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"topic {topic!r} was deleted and recreated since {since}: the offsets are those of the old one; scan "
                "it again",
            )
    return infos


async def started_by_time(cluster: Cluster, parts: Sequence[Part], *, isolation_level: int) -> list[Range]:
    """Return the ranges without the records before the first one that is as late as its filter needs.

    A timestamp bounds a read from below only: all records before that one are earlier, and later ones may be, too.
    """
    asked: dict[Partition, Time] = {
        (part.topic, part.partition): Time(bounds.since)
        for part, bounds in parts
        if bounds.since > 0 and not bounds.with_null
    }
    firsts = await list_offsets(cluster, asked, isolation_level=isolation_level) if asked else {}
    found = []
    for part, _ in parts:
        first = firsts.get((part.topic, part.partition), part.start)
        start = part.end if first < 0 else max(part.start, first)  # -1: no record is that late
        if start < part.end:
            found.append(part._replace(start=start))
    return found
