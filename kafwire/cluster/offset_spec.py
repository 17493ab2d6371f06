"""Where reading begins or ends, as users say it: checked, and made what ListOffsets understands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from kafwire.cluster.list_offsets import EARLIEST, LATEST, Partition, Place, Time
from kafwire.errors import ConfigError
from kafwire.integers import integer, natural
from kafwire.types import Offset, Tail, TopicPartition

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1

# Where in time: a name, a datetime with a time zone, or milliseconds since the epoch.
OffsetSpec = str | int | dt.datetime
# A range of time [from, to) for records; None leaves a side open.
Timestamps = tuple[int | dt.datetime | None, int | dt.datetime | None]
# Where reading begins or ends: "earliest", "latest", a datetime with a time zone, an offset, or so many before the end.
Point = str | dt.datetime | Offset | Tail
# That of all partitions, or of each, where a number is an offset: nothing else has a partition.
Bound = Point | Mapping[TopicPartition, Point | int]
# A `Point`, checked.
ResolvedOffset = Offset | Tail | Place


def partition_of(where: Any) -> TopicPartition:
    """A partition, checked; `ConfigError` for anything else."""
    number = integer(where[1]) if isinstance(where, tuple) and len(where) == 2 else None
    if number is None or not isinstance(where[0], str):
        raise ConfigError(f"a TopicPartition(topic, partition) is needed, not {where!r}")
    return TopicPartition(where[0], number)


def milliseconds_of(when: dt.datetime) -> int:
    """Return the first millisecond from 1970 on that is not before a datetime; `ConfigError` for one without a zone."""
    if when.tzinfo is None:
        raise ConfigError(f"{when!r} has no time zone: say datetime(..., tzinfo=timezone.utc)")
    # What lies before that millisecond lies before the moment itself. No record has a time before 1970.
    return max(0, -((_EPOCH - when) // dt.timedelta(milliseconds=1)))


def place_of(when: OffsetSpec) -> Place:
    """Return the place of the log that a name or a time stands for; `ConfigError` for anything else."""
    if when == "earliest":
        return EARLIEST
    if when == "latest":
        return LATEST
    if isinstance(when, dt.datetime):
        return Time(milliseconds_of(when))
    if (number := natural(when)) is not None:
        return Time(number)
    raise ConfigError(f"{when!r} is not 'earliest', 'latest', a datetime or milliseconds since the epoch")


def resolve_offset(point: Any, name: str) -> ResolvedOffset:
    """The checked form of `point`, the argument `name`; `ConfigError` for anything else, and for a number alone."""
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
    """The same for one partition, of which a number is an offset."""
    name = f"{name}[{where[0]}-{where[1]}]"
    if (number := integer(point)) is not None:
        if number < 0:
            raise ConfigError(f"{name}={number}: an offset from 0 is needed, or kafwire.Tail({-number})")
        return Offset(number)
    return resolve_offset(point, name)


def window_of(timestamps: Timestamps | None) -> tuple[int, int] | None:
    """The milliseconds [from, to) of a filter; None for no filter. `ConfigError` for what is none."""
    if timestamps is None:
        return None
    if (
        not isinstance(timestamps, tuple | list)
        or len(timestamps) != 2
        or any(isinstance(each, str) for each in timestamps)
    ):
        raise ConfigError(
            f"timestamps: a pair (from, to) of datetimes, milliseconds or None is needed, not {timestamps!r}"
        )
    low, high = timestamps
    first = LOWEST if low is None else _milliseconds(low)
    last = HIGHEST if high is None else _milliseconds(high)
    if first > last:
        raise ConfigError(f"timestamps: {low!r} is after {high!r}")
    return first, last


def _milliseconds(when: int | dt.datetime) -> int:
    """A time in milliseconds; `ConfigError` for anything else."""
    place = place_of(when)
    if not isinstance(place, Time):
        raise ConfigError(f"{when!r} is not a datetime or milliseconds since the epoch")
    return place.ms
