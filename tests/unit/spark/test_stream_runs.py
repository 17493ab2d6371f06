"""Random runs of a stream: Spark's order of calls, crashes between any two of them, and records that arrive meanwhile.

Every record from the pinned start on is read exactly once, a replayed batch has the same ranges, and AvailableNow ends.
"""

from __future__ import annotations

import random

import pytest

from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.spark.lookup import MemoryLookup, Planning

RUNS = 150
LIMITS: list[dict[str, str]] = [
    {},
    {"maxOffsetsPerTrigger": "7"},
    {"maxOffsetsPerTrigger": "25", "minOffsetsPerTrigger": "5"},
    {"maxBytesPerTrigger": "2000"},
    {"maxOffsetsPerTriggerByTopic": '{"a": 4, "ab": 9}'},
    {"minPartitions": "5", "maxOffsetsPerTrigger": "40"},
    {"maxRecordsPerPartition": "3"},
]


class CrashError(Exception):
    """The driver of the query was killed."""


class Query:
    """The state that Spark keeps of a query, and its calls of a source. `read` has the rows of each committed batch."""

    def __init__(self, chance: random.Random, planning: Planning) -> None:
        self.chance = chance
        self.planning = planning
        self.cluster = planning.cluster
        self.offsets: list[dict[TopicPartition, int]] = []
        self.committed = 0
        self.planned: dict[int, set[tuple[TopicPartition, int]]] = {}
        self.read: dict[int, list[tuple[TopicPartition, int]]] = {}

    def run(self, triggers: int, *, available_now: bool = False, may_crash: bool = True) -> None:
        """One run, of `triggers` at most; with AvailableNow until there is nothing new."""
        self.planning.restart()
        if available_now:
            self.planning.planner.prepare_available_now()
        try:
            if len(self.offsets) > self.committed:
                self._batch(may_crash)
            for _ in range(triggers):
                if not self._trigger(may_crash) and available_now:
                    return
            assert not available_now, "AvailableNow has not ended"
        except CrashError:
            pass

    def _trigger(self, may_crash: bool) -> bool:
        self._happen(may_crash)
        start = self.offsets[-1] if self.offsets else self.planning.planner.start()
        self._happen(may_crash)
        end = self.planning.latest(start)
        self.planning.now_ms += self.chance.choice([0, 1000, 1_000_000])
        if self.offsets and end == start:
            return False
        self.offsets.append(end)
        self._batch(may_crash)
        return True

    def _batch(self, may_crash: bool) -> None:
        number = self.committed
        self._happen(may_crash)
        start = self.offsets[number - 1] if number else self.planning.planner.start()
        rows = [
            (TopicPartition(topic, partition), offset)
            for topic, partition, first, end in self.planning.spans(start, self.offsets[number])
            for offset in range(first, end)
        ]
        assert len(set(rows)) == len(rows)
        assert self.planned.setdefault(number, set(rows)) == set(rows), f"batch {number} has other rows now"
        self._happen(may_crash)
        self.read[number] = rows
        self.committed += 1

    def _happen(self, may_crash: bool) -> None:
        """Records arrive, partitions and topics are added, the driver is killed."""
        for place in list(self.cluster.ends):
            if self.chance.random() < 0.3:
                self.cluster.ends[place] += self.chance.choice([1, 3, 12])
        if self.chance.random() < 0.1 and (self.offsets or not self.planning.options.read.start.named):
            topic = self.chance.choice(["a", "ab", "other"])
            number = sum(place.topic == topic for place in self.cluster.ends)
            if number:
                self.cluster.first[TopicPartition(topic, number)] = 0
                self.cluster.ends[TopicPartition(topic, number)] = self.chance.choice([0, 9])
            else:
                self.cluster.create(topic, 5)
        if may_crash and self.chance.random() < 0.15:
            raise CrashError


@pytest.mark.parametrize("start", ["earliest", "latest", '{"a": {"0": 7, "1": -2}}'])
def test_every_record_is_read_once(start: str) -> None:
    for number in range(seeds.examples(RUNS)):
        seed = seeds.derived(seeds.base("stream runs"), start, number)
        chance = random.Random(seed)
        cluster = MemoryLookup()
        cluster.create("a", 30, chance.choice([0, 100]))
        planning = Planning(cluster, subscribePattern="^a", startingOffsets=start, **chance.choice(LIMITS))
        query = Query(chance, planning)
        for _ in range(chance.randrange(6)):
            query.run(chance.randrange(1, 8), available_now=False)
        cluster.ends = {place: max(end, 1) for place, end in cluster.ends.items()}
        query.run(100_000, available_now=True, may_crash=False)
        pinned = query.offsets[0] if start == "latest" else dict(planning.options.read.start.named)
        ends = query.offsets[-1]
        expected = {
            (place, offset) for place, end in ends.items() for offset in range(max(0, pinned.get(place, 0)), end)
        }
        rows = [row for batch in query.read.values() for row in batch]
        assert len(rows) == len(expected), f"seed {seed}"
        assert set(rows) == expected, f"seed {seed}"
        assert query.committed == len(query.offsets), f"seed {seed}"
