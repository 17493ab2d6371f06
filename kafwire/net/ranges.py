"""What a bounded read covers: the user's bounds, checked, and made exact offsets by asking the leaders."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafwire.errors import ConfigError, broker_error
from kafwire.logic.metadata import TopicInfo
from kafwire.net.cluster import Cluster
from kafwire.net.offsets import EARLIEST, LATEST, Partition, list_offsets
from kafwire.structs import TopicPartition

OFFSET_OUT_OF_RANGE = 1

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1

# Where in time: a name, a datetime with a time zone, or milliseconds since the epoch.
When = str | int | dt.datetime
# A range of time [from, to) for records; None leaves a side open.
Timestamps = tuple[int | dt.datetime | None, int | dt.datetime | None]
# One end of a read: a point in time for all partitions, or an offset (or a point in time by name) for each.
Bound = When | Mapping[TopicPartition, int | str]


class Range(NamedTuple):
    """The offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def timestamp_of(when: When) -> int:
    """What ListOffsets understands: -2 earliest, -1 latest, else milliseconds; `ConfigError` for anything else."""
    if when == "earliest":
        return EARLIEST
    if when == "latest":
        return LATEST
    if isinstance(when, dt.datetime):
        if when.tzinfo is None:
            raise ConfigError(f"{when!r} has no time zone: say datetime(..., tzinfo=timezone.utc)")
        # The first millisecond not before it: what lies before that lies before the moment itself.
        return -((_EPOCH - when) // dt.timedelta(milliseconds=1))
    if isinstance(when, int) and not isinstance(when, bool) and when >= 0:
        return when
    raise ConfigError(f"{when!r} is not 'earliest', 'latest', a datetime or milliseconds since the epoch")


def window_of(timestamps: Timestamps | None) -> tuple[int, int] | None:
    """The milliseconds [from, to) of a filter; None for no filter. `ConfigError` for what is none."""
    if timestamps is None:
        return None
    if (
        not isinstance(timestamps, tuple | list)
        or len(timestamps) != 2
        or "str" in (type(t).__name__ for t in timestamps)
    ):
        raise ConfigError(
            f"timestamps: a pair (from, to) of datetimes, milliseconds or None is needed, not {timestamps!r}"
        )
    low, high = timestamps
    first = _LOWEST if low is None else timestamp_of(low)
    last = _HIGHEST if high is None else timestamp_of(high)
    if first > last:
        raise ConfigError(f"timestamps: {low!r} is after {high!r}")
    return first, last


class Bounds:
    """What the user asked for, checked as far as that goes without a broker."""

    def __init__(
        self,
        topics: Sequence[str],
        partitions: Sequence[int] | None,
        start: Bound,
        end: Bound,
        timestamps: Timestamps | None = None,
    ) -> None:
        self.topics = topics
        numbers = partitions if isinstance(partitions, Iterable) else ("none",)
        if partitions is not None and not all(isinstance(number, int) for number in numbers):
            raise ConfigError(f"partitions: a list of partition numbers is needed, not {partitions!r}")
        self.partitions = partitions
        self.start = self._check(start)
        self.end = self._check(end)
        self.window = window_of(timestamps)
        chosen = [set(bound) for bound in (self.start, self.end) if isinstance(bound, dict)]
        if chosen and partitions is not None:
            raise ConfigError("partitions and offsets by partition exclude each other: the offsets name the partitions")
        if len(chosen) == 2 and chosen[0] != chosen[1]:
            odd = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(chosen[0] ^ chosen[1]))
            raise ConfigError(f"start and end name different partitions: only one of them has {odd}")
        self.chosen = chosen[0] if chosen else None

    def _check(self, bound: Bound) -> int | dict[Partition, int]:
        if not isinstance(bound, Mapping):
            return timestamp_of(bound)
        checked = {}
        for where, value in bound.items():
            if not isinstance(where, tuple) or len(where) != 2 or not isinstance(where[1], int):
                raise ConfigError(f"an offset is given for {where!r}: a TopicPartition(topic, partition) is needed")
            topic, partition = where
            if topic not in self.topics:
                raise ConfigError(
                    f"an offset is given for {topic!r}, which is not among the topics {list(self.topics)}"
                )
            if isinstance(value, str):
                checked[topic, partition] = timestamp_of(value)
            elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                checked[topic, partition] = value
            else:
                raise ConfigError(f"the offset of {topic}-{partition} is {value!r}: a number from 0 is needed")
        return checked

    def partitions_of(self, info: TopicInfo) -> list[int]:
        """The partitions of a topic that are asked for; `ConfigError` for one that the topic does not have."""
        if self.chosen is not None:
            wanted = sorted(partition for topic, partition in self.chosen if topic == info.name)
        else:
            wanted = sorted(info.partitions if self.partitions is None else set(self.partitions))
        for partition in wanted:
            if partition not in info.partitions:
                raise ConfigError(f"topic {info.name!r} has partitions 0 to {max(info.partitions)}, not {partition!r}")
        return wanted


async def plan_ranges(cluster: Cluster, bounds: Bounds, *, isolation_level: int) -> list[tuple[Range, TopicInfo]]:
    """The exact offsets to read, as they stand now. Raises `BrokerError` for offsets that do not exist.

    A filter by time lets reading begin where its first record is: all before that one are earlier.
    """
    infos = {topic: await cluster.topic(topic, fresh=True) for topic in bounds.topics}
    wanted = [(topic, partition) for topic, info in infos.items() for partition in bounds.partitions_of(info)]

    async def offsets(timestamp: int) -> dict[Partition, int]:
        return await list_offsets(cluster, dict.fromkeys(wanted, timestamp), isolation_level=isolation_level)

    async def ask(timestamps: set[int]) -> dict[int, dict[Partition, int]]:
        return dict(zip(timestamps, await asyncio.gather(*map(offsets, timestamps)), strict=True))

    first = bounds.window[0] if bounds.window is not None else _LOWEST
    # The ends before the times: or a record that arrives between the two would lie before the end, and yet, as nobody
    # had seen one of its time, not be read.
    found = await ask({EARLIEST, LATEST})
    times = {when for when in (bounds.start, bounds.end, first) if isinstance(when, int) and when >= 0}
    found |= await ask(times)

    def resolve(bound: int | dict[Partition, int], where: Partition) -> int:
        low, high = found[EARLIEST][where], found[LATEST][where]
        value = bound[where] if isinstance(bound, dict) else bound
        if value in (EARLIEST, LATEST):
            return found[value][where]
        if isinstance(bound, int):
            # No record at or after that time: then it lies at the end.
            offset = found[bound][where]
            return high if offset < 0 else min(offset, high)
        if not low <= value <= high:
            raise broker_error(
                OFFSET_OUT_OF_RANGE,
                f"{where[0]}-{where[1]} has the offsets {low} to {high} (exclusive), not {value}: it was deleted, or "
                "is not written yet",
            )
        return value

    ranges = []
    for where in wanted:
        begin, stop = resolve(bounds.start, where), resolve(bounds.end, where)
        if first >= 0 and begin <= stop:
            begin = min(stop, max(begin, resolve(first, where)))
        if begin > stop and isinstance(bounds.start, dict) and isinstance(bounds.end, dict):
            raise ConfigError(f"{where[0]}-{where[1]}: the start offset {begin} is after the end offset {stop}")
        ranges.append((Range(*where, begin, max(begin, stop)), infos[where[0]]))
    return ranges
