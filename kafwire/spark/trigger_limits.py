"""The limits of one trigger of a stream: `maxOffsetsPerTrigger` and related options.

Pure: offsets and the time in, offsets out. Every limit leaves at least one offset to each partition that has any, as
Spark's own source does: no partition starves, and a stream always comes to the end of a topic that does not grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafwire.spark.stream_offsets import Offsets
    from kafwire.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one trigger; None and an empty mapping: no limit."""

    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    max_bytes: int | None
    max_by_topic: Mapping[str, int]

    @property
    def are_any(self) -> bool:
        """True if a trigger may have to leave offsets for the next one."""
        return bool(self.max_by_topic) or any(
            limit is not None for limit in (self.max_offsets, self.min_offsets, self.max_bytes)
        )


class MinimumDelay:
    """Postpones triggers that have fewer offsets than `minOffsetsPerTrigger`, for `maxTriggerDelay` at most."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last_ms: float | None = None

    def postpones(self, count: int, now_ms: float) -> bool:
        """True if a trigger at `now_ms` with `count` offsets is to wait. The first trigger never waits, as in Spark."""
        minimum = self._limits.min_offsets
        if minimum is None:
            return False
        is_due = self._last_ms is None or now_ms - self._last_ms >= self._limits.max_delay_ms
        if not is_due and count < minimum:
            return True
        self._last_ms = now_ms
        return False


def backlog(begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """Return the number of offsets from `begin` to `end`, for each partition that has any."""
    sizes = {place: offset - begin[place] for place, offset in end.items() if place in begin}
    return {place: size for place, size in sizes.items() if size > 0}


def within(limits: Limits, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """Return the end of a trigger that may read from `begin` to `end`, by the limits of offsets.

    `maxOffsetsPerTriggerByTopic` cuts each topic, then `maxOffsetsPerTrigger` cuts the rest of all topics.
    """
    cut = dict(end)
    for topic, limit in limits.max_by_topic.items():
        cut |= proportional(limit, begin, {place: offset for place, offset in cut.items() if place.topic == topic})
    return cut if limits.max_offsets is None else proportional(limits.max_offsets, begin, cut)


def proportional(limit: int, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """Divide `limit` offsets in proportion to the partitions' backlogs; each partition with any gets at least one.

    A partition whose end is not after its beginning keeps its end: the loss is reported elsewhere.
    """
    sizes = backlog(begin, end)
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    shares = {place: max(1, limit * size // total) for place, size in sizes.items()}
    return {place: begin[place] + shares[place] if place in shares else offset for place, offset in end.items()}
