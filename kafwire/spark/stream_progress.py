"""The lag of a stream, computed from the progress that Spark reports for each batch.

Pure: the JSON of `StreamingQueryProgress` in, numbers out. Spark has no metrics of Python sources, but reports
`endOffset`, where a batch ends, and `latestOffset`, where the partitions ended when the batch was planned. All numbers
are of that moment. A source counts if its offsets are those of Kafka partitions: Spark's own Kafka source does too.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kafwire.spark.offsets import parse_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafwire.spark.stream_offsets import Offsets
    from kafwire.types import TopicPartition

# Ends kept per partition; above this number, ends that are close in time are dropped.
_MOST_ENDS = 512


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """One topic of a stream. None: Spark's reports lack the number.

    `backlog` are the unread offsets of all partitions and `lag` those of the partition with the most, holes of
    compaction and transactions included. `rate` are the offsets that the batch read per second of its duration, and
    `arrival_rate` those that arrived per second since the batch before. `seconds_behind`: the time since the topic's
    end was the batch's end, in the partition that is furthest behind.
    """

    topic: str
    backlog: int
    lag: int
    rate: float | None
    arrival_rate: float | None
    seconds_behind: float | None


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch of a query. `query` is its name, or its id if it has no name."""

    query: str
    run_id: str
    batch: int
    at_s: float
    seconds: float
    rows: int
    topics: tuple[TopicProgress, ...]
    ends: Mapping[TopicPartition, int]

    def as_metrics(self) -> dict[str, Any]:
        """Return the numbers as plain values, for hooks."""
        return {
            "query": self.query,
            "run_id": self.run_id,
            "batch": self.batch,
            "seconds": self.seconds,
            "rows": self.rows,
            "rows_per_second": self.rows / self.seconds if self.seconds > 0 else None,
            "topics": {
                topic.topic: {
                    "backlog": topic.backlog,
                    "lag": topic.lag,
                    "rate": topic.rate,
                    "arrival_rate": topic.arrival_rate,
                    "seconds_behind": topic.seconds_behind,
                }
                for topic in self.topics
            },
        }


class ProgressHistory:
    """The reports of one run of a query, one after the other."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, list[tuple[float, int]]] = {}

    def add(self, report: Mapping[str, Any]) -> BatchProgress:
        """Add the report of a batch, and return its progress."""
        at_s = dt.datetime.fromisoformat(report["timestamp"]).timestamp()
        seconds = report.get("batchDuration", 0) / 1000
        sources = report.get("sources", ())
        begin = _lowest(sources, "startOffset")
        end = _lowest(sources, "endOffset")
        latest = _lowest(sources, "latestOffset")
        arrived = {place: self._observe(place, at_s, offset) for place, offset in latest.items()}
        topics = [
            self._topic(topic, at_s, seconds, begin, end, latest, arrived)
            for topic in sorted({place.topic for place in end})
        ]
        return BatchProgress(
            query=report.get("name") or report["id"],
            run_id=report["runId"],
            batch=report["batchId"],
            at_s=at_s,
            seconds=seconds,
            rows=report.get("numInputRows", 0),
            topics=tuple(topics),
            ends=end,
        )

    def _topic(
        self,
        topic: str,
        at_s: float,
        seconds: float,
        begin: Offsets,
        end: Offsets,
        latest: Offsets,
        arrived: Mapping[TopicPartition, float | None],
    ) -> TopicProgress:
        places = [place for place in end if place.topic == topic]
        # Another source may have read further while this one was planned: the backlog is never negative.
        unread = [max(0, latest.get(place, end[place]) - end[place]) for place in places]
        read = [end[place] - begin[place] for place in places if place in begin]
        rates = [arrived.get(place) for place in places]
        known = [rate for rate in rates if rate is not None]
        behind = [self._behind(place, at_s, end[place]) for place in places]
        waits = [wait for wait in behind if wait is not None]
        return TopicProgress(
            topic=topic,
            backlog=sum(unread),
            lag=max(unread),
            rate=sum(read) / seconds if seconds > 0 and len(read) == len(places) else None,
            arrival_rate=sum(known) if known and len(known) == len(rates) else None,
            seconds_behind=max(waits) if len(waits) == len(behind) else None,
        )

    def _observe(self, place: TopicPartition, at_s: float, offset: int) -> float | None:
        """Note the end of a partition; return the offsets per second since the last note."""
        ends = self._ends.setdefault(place, [])
        if ends and offset < ends[-1][1]:  # the topic was recreated, or lost records
            ends.clear()
        before = ends[-1] if ends else None
        if before is not None and at_s <= before[0]:
            return None
        ends.append((at_s, offset))
        if len(ends) > _MOST_ENDS:
            ends[:] = _thinned(ends)
        return None if before is None else (offset - before[1]) / (at_s - before[0])

    def _behind(self, place: TopicPartition, at_s: float, offset: int) -> float | None:
        """The seconds since the partition ended at `offset`, interpolated between two notes; older notes are dropped.

        None if the partition was longer in the first note already.
        """
        ends = self._ends.get(place, [])
        if not ends:
            return None
        if ends[-1][1] <= offset:
            del ends[:-1]
            return 0.0
        for number, ((time, low), (after, high)) in enumerate(pairwise(ends)):
            if low <= offset < high:
                del ends[:number]
                return at_s - (time + (after - time) * (offset - low) / (high - low))
        return None


def _thinned(ends: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return at most half of the ends, evenly spaced in time, with the first and the last."""
    (first, _), (last, _) = ends[0], ends[-1]
    least = (last - first) / (_MOST_ENDS // 2 - 1)
    kept = ends[:1]
    for end in ends[1:-1]:
        if end[0] - kept[-1][0] >= least:
            kept.append(end)
    return [*kept, ends[-1]]


def _lowest(sources: Any, field: str) -> Offsets:
    """The offsets of all Kafka sources; the lowest of a partition that several of them read."""
    found: Offsets = {}
    for source in sources:
        for place, offset in _offsets(source.get(field)).items():
            found[place] = min(offset, found.get(place, offset))
    return found


def _offsets(shape: Any) -> Offsets:
    """The offsets of a Kafka source, which come as JSON or as its text; empty for other sources."""
    try:
        if isinstance(shape, str):
            shape = json.loads(shape)
        return parse_topics(shape, 0) if isinstance(shape, dict) else {}
    except ValueError:
        return {}
