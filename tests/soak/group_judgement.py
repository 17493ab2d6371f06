"""The judge of a group's members, by their files: records skipped, commits beyond the processed records.

Times are in milliseconds, all of one machine's clock. A member writes down what it processed before it commits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = 1 << 62
_SHOWN = 5


class Commit(NamedTuple):
    """A commit of a group's coordinator, in the order of its log."""

    partition: int
    offset: int
    time_ms: int


@dataclass
class PartitionProgress:
    """When each offset of a partition was processed first, and how often."""

    times: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    frontier: int = 0  # all before it are processed

    def add(self, time_ms: int, first: int, following: int) -> None:
        """Records of these offsets were processed."""
        missing = following - len(self.times)
        if missing > 0:
            self.times += [NEVER] * missing
            self.counts += [0] * missing
        for offset in range(first, following):
            self.times[offset] = min(self.times[offset], time_ms)
            self.counts[offset] += 1
        while self.frontier < len(self.counts) and self.counts[self.frontier]:
            self.frontier += 1

    def reached(self) -> list[int]:
        """When all before an offset were processed, for each offset."""
        found, latest = [0], 0
        for time_ms in self.times:
            latest = max(latest, time_ms)
            found.append(latest)
        return found


class GroupProgress:
    """The records that the members of one group have processed, from the lines of their journals."""

    def __init__(self) -> None:
        self.partitions: defaultdict[int, PartitionProgress] = defaultdict(PartitionProgress)
        self.commits: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.said: list[str] = []
        self.assignments = 0
        self.generations: set[int] = set()

    def take(self, line: str) -> None:
        """One line of one member."""
        kind, time_ms, *rest = line.split(" ", 4)
        if kind == "R":
            partition, first, following = map(int, rest)
            self.partitions[partition].add(int(time_ms), first, following)
        elif kind == "A":
            self.assignments += 1
            self.generations.add(int(rest[0]))
        elif kind == "C":
            self.commits[rest[0]] += 1
        elif kind == "E":
            self.errors[rest[0]] += 1
            self.said.append(" ".join(rest))

    @property
    def records(self) -> int:
        """How many records were processed at least once."""
        return sum(sum(map(bool, each.counts)) for each in self.partitions.values())

    @property
    def repeated(self) -> int:
        """How many were processed again."""
        return sum(map(sum, (each.counts for each in self.partitions.values()))) - self.records

    def lacks(self, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """The partitions that are not processed up to these ends: how far they are, and the end."""
        return {
            partition: (self.partitions[partition].frontier, end)
            for partition, end in ends.items()
            if self.partitions[partition].frontier < end
        }


def findings(progress: GroupProgress, ends: Mapping[int, int], commits: Iterable[Commit]) -> list[str]:
    """The violations, given where the logs end and all that was committed."""
    found = [
        f"partition {partition}: record {at} was skipped, the log ends at {end}"
        for partition, (at, end) in progress.lacks(ends).items()
    ]
    return found + _wrong_commits(progress, commits)


def _wrong_commits(progress: GroupProgress, commits: Iterable[Commit]) -> list[str]:
    reached = {number: each.reached() for number, each in progress.partitions.items()}
    beyond, back = [], []
    last: defaultdict[int, Commit] = defaultdict(lambda: Commit(0, 0, 0))
    for commit in commits:
        partition, offset, time_ms = commit
        known = reached.get(partition, [0])
        before = last[partition]
        if offset >= len(known) or known[offset] > time_ms:
            beyond.append((commit, before))
        if offset < before.offset:
            back.append((commit, before))
        last[partition] = commit
    return [
        *_reported("committed beyond the processed records", beyond),
        *_reported("committed back, before an earlier commit", back),
    ]


def _reported(what: str, commits: Sequence[tuple[Commit, Commit]]) -> list[str]:
    shown = ", ".join(
        f"partition {each.partition}: {each.offset} at {each.time_ms}, after {before.offset} at {before.time_ms}"
        for each, before in commits[:_SHOWN]
    )
    return [f"{len(commits)} times {what}: {shown}"] if commits else []


def not_once(inputs: Mapping[int, int], outputs: Iterable[bytes]) -> list[str]:
    """The faults of a sink that is to have `partition/offset` of each input once, given where the inputs end."""
    come = Counter(outputs)
    wanted = {b"%d/%d" % (partition, offset) for partition, end in inputs.items() for offset in range(end)}
    kinds = {
        "lost": sorted(wanted - come.keys()),
        "twice": sorted(value for value, count in come.items() if count > 1),
        "never sent": sorted(come.keys() - wanted),
    }
    return [
        f"{len(values)} {what}, as {', '.join(value.decode() for value in values[:_SHOWN])}"
        for what, values in kinds.items()
        if values
    ]
