"""What a bounded read covers: the user's bounds, checked, and made exact offsets by asking the leaders."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafwire.errors import ConfigError, broker_error
from kafwire.logic.metadata import TopicInfo
from kafwire.net.cluster import Cluster
from kafwire.net.offsets import EARLIEST, LATEST, Partition, list_offsets
from kafwire.structs import Offset, Tail, TopicPartition

OFFSET_OUT_OF_RANGE = 1

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1

# Where in time: a name, a datetime with a time zone, or milliseconds since the epoch.
When = str | int | dt.datetime
# A range of time [from, to) for records; None leaves a side open.
Timestamps = tuple[int | dt.datetime | None, int | dt.datetime | None]
# Where reading begins or ends: "earliest", "latest", a datetime with a time zone, an offset, or so many before the end.
Point = str | dt.datetime | Offset | Tail
# That of all partitions, or of each, where a number is an offset: nothing else has a partition.
Bound = Point | Mapping[TopicPartition, Point | int]
# A `Point`, checked; a number is what ListOffsets understands.
Place = Offset | Tail | int


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


def place_of(point: Any, name: str) -> Place:
    """The checked form of `point`, the argument `name`; `ConfigError` for anything else, and for a number alone."""
    if isinstance(point, Offset | Tail):
        return point
    if isinstance(point, int | float):
        what = f"{name}={point!r}: a number alone may be an offset, a count or a time: write "
        if isinstance(point, bool | float):
            raise ConfigError(f"{what}kafwire.Offset(...), kafwire.Tail(...) or a datetime with a time zone")
        raise ConfigError(
            f"{what}{f'kafwire.Offset({point}), ' if point >= 0 else ''}kafwire.Tail({abs(point)}) for the last "
            f"{abs(point)} of each partition, or a datetime with a time zone"
        )
    if isinstance(point, str | dt.datetime) and (point in {"earliest", "latest"} or not isinstance(point, str)):
        return timestamp_of(point)
    raise ConfigError(
        f"{name}={point!r} is not 'earliest', 'latest', a datetime with a time zone, kafwire.Offset(...) or "
        "kafwire.Tail(...)"
    )


def place_in(where: TopicPartition | Partition, point: Any, name: str) -> Place:
    """The same for one partition, of which a number is an offset."""
    name = f"{name}[{where[0]}-{where[1]}]"
    if isinstance(point, int) and not isinstance(point, bool):
        if point < 0:
            raise ConfigError(f"{name}={point}: an offset from 0 is needed, or kafwire.Tail({-point})")
        return Offset(point)
    return place_of(point, name)


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
        self.start = self._check(start, "start")
        self.end = self._check(end, "end")
        self.window = window_of(timestamps)
        chosen = [set(bound) for bound in (self.start, self.end) if isinstance(bound, dict)]
        if chosen and partitions is not None:
            raise ConfigError("partitions and offsets by partition exclude each other: the offsets name the partitions")
        if len(chosen) == 2 and chosen[0] != chosen[1]:
            odd = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(chosen[0] ^ chosen[1]))
            raise ConfigError(f"start and end name different partitions: only one of them has {odd}")
        self.chosen = chosen[0] if chosen else None

    def _check(self, bound: Bound, name: str) -> Place | dict[Partition, Place]:
        if not isinstance(bound, Mapping):
            return place_of(bound, name)
        checked = {}
        for where, point in bound.items():
            if not isinstance(where, tuple) or len(where) != 2 or not isinstance(where[1], int):
                raise ConfigError(f"an offset is given for {where!r}: a TopicPartition(topic, partition) is needed")
            topic, partition = where
            if topic not in self.topics:
                raise ConfigError(
                    f"an offset is given for {topic!r}, which is not among the topics {list(self.topics)}"
                )
            checked[topic, partition] = place_in(where, point, name)
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

    With `isolation_level` 1 "latest" is the last stable offset. An end that the user names may lie above it, up to the
    high watermark: that is where a transaction ends which is decided, but whose marker is not written yet.

    A filter by time lets reading begin where its first record is: all before that one are earlier.
    """
    infos = {topic: await cluster.topic(topic, fresh=True) for topic in bounds.topics}
    wanted = [(topic, partition) for topic, info in infos.items() for partition in bounds.partitions_of(info)]

    async def ask(times: Mapping[int, Iterable[Partition]]) -> dict[int, dict[Partition, int]]:
        asked = (
            list_offsets(cluster, dict.fromkeys(of, when), isolation_level=isolation_level)
            for when, of in times.items()
        )
        return dict(zip(times, await asyncio.gather(*asked), strict=True))

    def bound_of(bound: Place | dict[Partition, Place], where: Partition) -> Place:
        # Who names the partitions by one of the bounds names them for both.
        return bound[where] if isinstance(bound, dict) else bound

    first = bounds.window[0] if bounds.window is not None else _LOWEST
    # The ends before the times: or a record that arrives between the two would lie before the end, and yet, as nobody
    # had seen one of its time, not be read.
    found = await ask({EARLIEST: wanted, LATEST: wanted})
    times: dict[int, dict[Partition, None]] = {}
    for where in wanted:
        for place in (bound_of(bounds.start, where), bound_of(bounds.end, where), first):
            if isinstance(place, int) and place >= 0:
                times.setdefault(place, {})[where] = None
    found |= await ask(times)
    written = dict(found[LATEST])
    if isolation_level:
        named = [w for w in wanted if any(isinstance(bound_of(b, w), Offset) for b in (bounds.start, bounds.end))]
        written |= await list_offsets(cluster, dict.fromkeys(named, LATEST), isolation_level=0)

    def resolve(place: Place, where: Partition) -> int:
        low, high = found[EARLIEST][where], found[LATEST][where]
        if isinstance(place, Tail):
            return max(low, high - place.count)
        if isinstance(place, int):
            offset = found[place][where]
            # No record at or after that time: then it lies at the end.
            return high if offset < 0 else min(offset, high)
        if not low <= place.offset <= written[where]:
            raise broker_error(
                OFFSET_OUT_OF_RANGE,
                f"{where[0]}-{where[1]} has the offsets {low} to {written[where]} (exclusive), not {place.offset}: it "
                "was deleted, or is not written yet",
            )
        return place.offset

    ranges = []
    for where in wanted:
        start, end = bound_of(bounds.start, where), bound_of(bounds.end, where)
        begin, stop = resolve(start, where), resolve(end, where)
        if begin > stop and isinstance(start, Offset) and isinstance(end, Offset):
            raise ConfigError(f"{where[0]}-{where[1]}: the start offset {begin} is after the end offset {stop}")
        if first >= 0 and begin <= stop:
            begin = min(stop, max(begin, resolve(first, where)))
        if begin > max(stop, found[LATEST][where]) and isinstance(start, Offset):
            raise broker_error(
                OFFSET_OUT_OF_RANGE,
                f"{where[0]}-{where[1]} is read up to its last stable offset {found[LATEST][where]}, where a "
                f"transaction is open, not from {begin}: name an end offset to wait for the transaction's end",
            )
        ranges.append((Range(*where, begin, max(begin, stop)), infos[where[0]]))
    return ranges
