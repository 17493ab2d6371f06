"""The offsets of a batch read, divided into Spark tasks.

Pure: options and the cluster's responses in, exact ranges `[start, end)` out. `reader` asks the brokers, once, on the
driver. Every range is decided before a task runs, so that retried tasks read the same records.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafwire.errors import ConfigError
from kafwire.spark.data_loss import data_loss
from kafwire.spark.offsets import EARLIEST, LATEST
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafwire.spark.options import Bound, ReadOptions

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets `[start, end)` of one partition. Its size counts offsets: compaction and transactions leave holes.

    `topic_id` is the topic that was planned; one of the same name that is created later has other records.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: uuid.UUID | None = None

    @property
    def size(self) -> int:
        """Offsets covered; 0 or less is an empty range."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class Situation:
    """The cluster's responses. A timestamp after the last record has no entry in `start_matches` or `end_matches`."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    start_matches: Mapping[TopicPartition, int]
    end_matches: Mapping[TopicPartition, int]


def is_wanted(options: ReadOptions, topic: str, *, is_internal: bool = False) -> bool:
    """True if the options name `topic`; a pattern leaves internal topics out."""
    if options.pattern is not None:
        return not is_internal and re.search(options.pattern, topic) is not None
    return topic in (options.topics or {place.topic for place in options.assign or ()})


def present(options: ReadOptions, counts: Mapping[str, int]) -> tuple[TopicPartition, ...]:
    """Return the partitions that `options` name and that exist, in order."""
    if options.assign is not None:
        return tuple(place for place in options.assign if place.partition < counts.get(place.topic, 0))
    topics = [topic for topic in sorted(counts) if is_wanted(options, topic)]
    return tuple(TopicPartition(topic, partition) for topic in topics for partition in range(counts[topic]))


def choose_partitions(
    options: ReadOptions, counts: Mapping[str, int], internal: Iterable[str] = (), *, may_be_none: bool = False
) -> tuple[TopicPartition, ...]:
    """The partitions that `options` name, in order.

    `counts` holds the partition count of every topic that exists (of the requested topics, at least); a pattern leaves
    out those in `internal`. Raises `ConfigError` for a topic or partition that does not exist, and, unless
    `may_be_none`, for a pattern that matches no topic.
    """
    if options.pattern is not None:
        left_out = set(internal)
        topics = [topic for topic in counts if is_wanted(options, topic, is_internal=topic in left_out)]
        if not topics and not may_be_none:
            raise ConfigError(f"option subscribePattern={options.pattern!r} matches none of {len(counts)} topics")
    else:
        wanted = options.topics or tuple(dict.fromkeys(place.topic for place in options.assign or ()))
        missing = [topic for topic in wanted if topic not in counts]
        if missing:
            raise ConfigError(f"no such topic: {', '.join(missing)}; create it first, or correct the option")
        topics = list(wanted)
    if options.assign is not None:
        beyond = [place for place in options.assign if place.partition >= counts[place.topic]]
        if beyond:
            raise ConfigError(
                f"option assign names {_listed(beyond)}, but {beyond[0].topic} has {counts[beyond[0].topic]} partitions"
            )
        return options.assign
    return tuple(TopicPartition(topic, partition) for topic in sorted(topics) for partition in range(counts[topic]))


def check_named(bound: Bound, places: Sequence[TopicPartition]) -> None:
    """Raise `ConfigError` unless `bound` names exactly `places`."""
    if bound.everywhere is not None:
        return
    missing = [place for place in places if place not in bound.named]
    extra = [place for place in bound.named if place not in set(places)]
    if missing:
        hint = "" if bound.by_timestamp else "; -2 stands for earliest, -1 for latest"
        raise ConfigError(
            f"option {bound.option} must name every partition that is read: {_listed(missing)} missing{hint}"
        )
    if extra:
        raise ConfigError(f"option {bound.option} names {_listed(extra)}, which the query does not read")


def plan(
    options: ReadOptions,
    places: Sequence[TopicPartition],
    now: Situation,
    narrow: Callable[[OffsetRange], OffsetRange] | None = None,
) -> tuple[list[OffsetRange], list[str]]:
    """Return the ranges of a batch read, one or more per partition with records to read, and the losses.

    `narrow` returns the part of a range that filters leave.

    Raises `DataLossError` when requested offsets are not in the topic and `options.fail_on_data_loss` is set; otherwise
    the range shrinks to the existing offsets, and the second list names the loss.
    """
    ranges, losses = [], []
    for place in places:
        start, end = _start(options, place, now), _end(options, place, now)
        if start is None:
            continue
        low, high = now.earliest[place], now.latest[place]
        wanted = OffsetRange(place.topic, place.partition, start, end)
        if not (low <= start <= high and low <= end <= high):
            losses.append(f"{wanted} was asked for, but the topic holds [{low}, {high})")
        elif start > end:
            raise ConfigError(
                f"{place.topic}-{place.partition}: {options.start.option} leads to offset {start}, after the {end} of "
                f"{options.end.option}"
            )
        ranges.append(replace(wanted, start=max(start, low), end=min(end, high)))
    if losses and options.fail_on_data_loss:
        raise data_loss("; ".join(losses[:_SHOWN]))
    if narrow is not None:
        ranges = [narrow(piece) for piece in ranges]
    return split(ranges, options.min_partitions, options.max_records), losses


def split(ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """Cut `ranges` into Spark tasks as Spark's own source does; empty ranges drop out.

    First no piece holds more than `max_records` offsets; then, if there are fewer than `min_partitions` pieces, the
    large ones are cut again in proportion to their size. The count reached is about `min_partitions`: each share is
    rounded separately.
    """
    pieces = [piece for piece in ranges if piece.size > 0]
    if max_records is not None:
        pieces = [part for piece in pieces for part in _cut(piece, -(-piece.size // max_records))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(piece.size for piece in pieces)
    # Pieces too small for a second task are left out of the sum; otherwise the large ones would get too few.
    large = [piece for piece in pieces if _share(piece.size, total, min_partitions) > 1]
    large_total = sum(piece.size for piece in large)
    wanted = max(min_partitions - (len(pieces) - len(large)), 1)
    chosen = set(large)
    return [
        part
        for piece in pieces
        for part in _cut(piece, _share(piece.size, large_total, wanted) if piece in chosen else 1)
    ]


def _share(size: int, total: int, wanted: int) -> int:
    # Rounds half up, as Java's Math.round; exact, where a double would not be.
    return max((2 * size * wanted + total) // (2 * total), 1)


def _cut(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = min(parts, piece.size)
    edges = [piece.start]
    for remaining in range(parts, 0, -1):
        edges.append(edges[-1] + (piece.end - edges[-1]) // remaining)
    return [replace(piece, start=low, end=high) for low, high in itertools.pairwise(edges)]


def _start(options: ReadOptions, place: TopicPartition, now: Situation) -> int | None:
    """Return the first offset, or None if the partition has no record at or after the timestamp."""
    asked = options.start.of(place)
    if not options.start.by_timestamp:
        return now.earliest[place] if asked == EARLIEST else asked
    if place in now.start_matches:
        return now.start_matches[place]
    if options.start_without_match == "error":
        raise ConfigError(
            f"option {options.start.option}: {place.topic}-{place.partition} has no record at or after {asked} ms; "
            "set startingOffsetsByTimestampStrategy to latest to read nothing from such partitions"
        )
    return None


def start_of(options: ReadOptions, place: TopicPartition, now: Situation) -> int:
    """The first offset of a stream, which may start at the end; raises `ConfigError` as `startingOffsets...` says."""
    if not options.start.by_timestamp and options.start.of(place) == LATEST:
        return now.latest[place]
    start = _start(options, place, now)
    return now.latest[place] if start is None else start


def _end(options: ReadOptions, place: TopicPartition, now: Situation) -> int:
    asked = options.end.of(place)
    if options.end.by_timestamp:
        return now.end_matches.get(place, now.latest[place])
    return now.latest[place] if asked == LATEST else asked


def _listed(places: Sequence[TopicPartition]) -> str:
    shown = ", ".join(f"{place.topic}-{place.partition}" for place in places[:_SHOWN])
    return shown if len(places) <= _SHOWN else f"{shown} and {len(places) - _SHOWN} more"
