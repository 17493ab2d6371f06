"""A cluster in memory, as the planner of a Spark stream looks it up."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence

from kafwire.spark.byte_limit import Sample
from kafwire.spark.lookup import Topic
from kafwire.spark.options import Bound
from kafwire.spark.plan import is_wanted
from kafwire.spark.stream_options import StreamOptions, stream_options
from kafwire.spark.stream_planner import StreamPlanner
from kafwire.types import TopicPartition


class MemoryLookup:
    """Topics with the offsets [first, end) of each partition. `stale` are responses that are given first."""

    def __init__(self) -> None:
        self.options: StreamOptions | None = None
        self.ids: dict[str, uuid.UUID] = {}
        self.first: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.times: dict[TopicPartition, dict[int, int]] = {}
        self.commits: dict[str, dict[TopicPartition, int]] = {}
        self.refused: Exception | None = None
        self.stale: list[dict[TopicPartition, int]] = []
        self.record_bytes: Callable[[int], int] = lambda _: 100
        self.closed = False
        self.asked = 0
        self._count = 0

    def create(self, topic: str, *ends: int) -> None:
        """Make a topic, a new one each time, whose partitions end at `ends`."""
        self._count += 1
        self.delete(topic)
        self.ids[topic] = uuid.UUID(int=self._count)
        for number, end in enumerate(ends):
            self.first[TopicPartition(topic, number)] = 0
            self.ends[TopicPartition(topic, number)] = end

    def delete(self, topic: str) -> None:
        self.ids.pop(topic, None)
        for place in [place for place in self.ends if place.topic == topic]:
            del self.first[place], self.ends[place]

    def topics(self) -> dict[str, Topic]:
        assert self.options is not None
        return {
            name: Topic(topic_id, sum(place.topic == name for place in self.ends))
            for name, topic_id in self.ids.items()
            if is_wanted(self.options.read, name)
        }

    def earliest(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.first[place] for place in places if place in self.first}

    def latest(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked += 1
        found = {place: self.ends[place] for place in places}
        return found | self.stale.pop(0) if self.stale else found

    def matches(self, bound: Bound, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if not bound.by_timestamp:
            return {}
        return {place: self.times[place][bound.of(place)] for place in places if place in self.times}

    def committed(self, group: str, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        found = self.commits.get(group, {})
        return {place: found[place] for place in places if place in found}

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.refused is not None:
            raise self.refused
        self.commits[group] = dict(offsets)

    def samples(self, at: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Sample]:
        return {
            place: Sample(min(end - start, 50), sum(self.record_bytes(o) for o in range(start, min(end, start + 50))))
            for place, (start, end) in at.items()
        }

    def close(self) -> None:
        self.closed = True


class Planning:
    """A planner over `cluster`, with a clock that the test moves. `slept` are its waits, in seconds."""

    def __init__(self, cluster: MemoryLookup, **options: str) -> None:
        self.cluster = cluster
        self.now_ms = 0.0
        self.slept: list[float] = []
        chosen = {} if {"assign", "subscribePattern"} & options.keys() else {"subscribe": "a"}
        self.options = stream_options({"kafka.bootstrap.servers": "h:1", **chosen, **options})
        self.restart()

    def restart(self) -> None:
        """Begin another run of the query."""
        self.cluster.options = self.options
        self.planner = StreamPlanner(self.options, self.cluster, now_ms=lambda: self.now_ms, sleep=self.slept.append)

    def latest(self, start: dict[TopicPartition, int], *, has_limits: bool = True) -> dict[TopicPartition, int]:
        return self.planner.latest(start, has_limits=has_limits)

    def spans(
        self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]
    ) -> list[tuple[str, int, int, int]]:
        return [(r.topic, r.partition, r.start, r.end) for r in self.planner.ranges(start, end)]
