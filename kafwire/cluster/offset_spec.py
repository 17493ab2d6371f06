"""The start or end of reading as users give it: checks, and the conversion for ListOffsets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

from kafwire.cluster.list_offsets import EARLIEST, LATEST, Partition, Place, Time
from kafwire.errors import ConfigError
from kafwire.integers import integer, natural
from kafwire.types import Offset, Tail, TopicPartition

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")

# A time: a name, a datetime with a time zone, or milliseconds since the epoch.
OffsetSpec = str | int | dt.datetime
# A range of time [from, to) for records; None: no limit.
Timestamps = tuple[int | dt.datetime | None, int | dt.datetime | None]
# Start or end of reading: "earliest", "latest", a datetime with a time zone, an offset, or a count before the end.
Point = str | dt.datetime | Offset | Tail
# One point for all partitions, or one each; only there a number is an offset, as it belongs to a partition.
Bound = Point | Mapping[TopicPartition, Point | int]
# A checked `Point`.
ResolvedOffset = Offset | Tail | Place


def partition_of(where: Any) -> TopicPartition:
    """Return a checked partition; raise `ConfigError` for any other value."""
    number = integer(where[1]) if isinstance(where, tuple) and len(where) == 2 else None
    if number is None or not isinstance(where[0], str):
        raise ConfigError(f"a partition must be a TopicPartition(topic, partition), not {where!r}")
    return TopicPartition(where[0], number)


def partitions_of(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return a checked list of partitions; `ConfigError` for anything else."""
    if isinstance(partitions, str | TopicPartition) or not isinstance(partitions, Iterable):
        hint = ": write [partition]" if isinstance(partitions, TopicPartition) else ""
        raise ConfigError(f"a list of TopicPartition(topic, partition) is needed, not {partitions!r}{hint}")
    return [partition_of(where) for where in partitions]


def assignment_of(partitions: Iterable[TopicPartition], line: str) -> list[TopicPartition]:
    """Return a checked list of the partitions to read; a mapping to offsets raises `ConfigError` with the `line`."""
    if isinstance(partitions, Mapping):
        raise ConfigError(f"a list of partitions is needed, not the mapping {partitions!r}: for offsets, write {line}")
    return partitions_of(partitions)


def milliseconds_of(when: dt.datetime) -> int:
    """Return a datetime as milliseconds, rounded up, 0 at least; raise `ConfigError` without a time zone."""
    if when.tzinfo is None:
        raise ConfigError(f"{when!r} has no time zone: use datetime(..., tzinfo=timezone.utc)")
    # A record before that millisecond is before the datetime itself. No record has a time before 1970.
    return max(0, -((_EPOCH - when) // dt.timedelta(milliseconds=1)))


def place_of(when: OffsetSpec) -> Place:
    """Return the place in the log for a name or a time; raise `ConfigError` for any other value."""
    if when == "earliest":
        return EARLIEST
    if when == "latest":
        return LATEST
    if isinstance(when, dt.datetime):
        return Time(milliseconds_of(when))
    if (number := natural(when)) is not None:
        return Time(number)
    raise ConfigError(f"{when!r} is not 'earliest', 'latest', a datetime or milliseconds since the epoch")


def isolation_number(isolation_level: str) -> int:
    """Return Kafka's number of an isolation level; raise `ConfigError` for any other value."""
    if isolation_level not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation_level={isolation_level!r}: allowed: {', '.join(ISOLATION_LEVELS)}")
    return ISOLATION_LEVELS.index(isolation_level)


def resolve_offset(point: Any, name: str) -> ResolvedOffset:
    """Return the checked form of `point`, the argument `name`; raise `ConfigError` for a bad value or a bare number."""
    if isinstance(point, Offset | Tail):
        return point
    if not isinstance(point, bool | float) and (number := integer(point)) is not None:
        point = number
    if isinstance(point, int | float):
        what = f"{name}={point!r}: a number alone may be an offset, a count or a time: write "
        if isinstance(point, bool | float):
            raise ConfigError(f"{what}kafwire.Offset(...), kafwire.Tail(...) or a datetime with a time zone")
        raise ConfigError(
            f"{what}{f'kafwire.Offset({point}), ' if point >= 0 else ''}kafwire.Tail({abs(point)}) for the last "
            f"{abs(point)} of each partition, or a datetime with a time zone"
        )
    if isinstance(point, str | dt.datetime) and (point in {"earliest", "latest"} or not isinstance(point, str)):
        return place_of(point)
    raise ConfigError(
        f"{name}={point!r} is not 'earliest', 'latest', a datetime with a time zone, kafwire.Offset(...) or "
        "kafwire.Tail(...)"
    )


def resolve_offset_in(where: TopicPartition | Partition, point: Any, name: str) -> ResolvedOffset:
    """Check `point` for one partition, where a number is an offset."""
    name = f"{name}[{where[0]}-{where[1]}]"
    if (number := integer(point)) is not None:
        if number < 0:
            raise ConfigError(f"{name}={number}: it must be an offset of 0 or more, or kafwire.Tail({-number})")
        return Offset(number)
    return resolve_offset(point, name)


def window_of(timestamps: Timestamps | None) -> tuple[int, int] | None:
    """Return the milliseconds [from, to) of a filter; None for no filter. Raises `ConfigError`."""
    if timestamps is None:
        return None
    if (
        not isinstance(timestamps, tuple | list)
        or len(timestamps) != 2
        or any(isinstance(each, str) for each in timestamps)
    ):
        raise ConfigError(
            f"timestamps must be a pair (from, to) of datetimes, milliseconds or None, not {timestamps!r}"
        )
    low, high = timestamps
    first = LOWEST if low is None else _milliseconds(low)
    last = HIGHEST if high is None else _milliseconds(high)
    if first > last:
        raise ConfigError(f"timestamps: {low!r} is after {high!r}")
    return first, last


def _milliseconds(when: int | dt.datetime) -> int:
    """Return a time in milliseconds; raise `ConfigError` for any other value."""
    place = place_of(when)
    if not isinstance(place, Time):
        raise ConfigError(f"{when!r} is not a datetime or milliseconds since the epoch")
    return place.ms
