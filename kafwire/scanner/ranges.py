"""The offsets of a bounded read: checks of the user's bounds, and look-ups of exact offsets at the leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import EARLIEST, LATEST, Partition, Place, Time, list_offsets
from kafwire.cluster.metadata import TopicInfo
from kafwire.cluster.offset_spec import (
    Bound,
    ResolvedOffset,
    Timestamps,
    resolve_offset,
    resolve_offset_in,
    window_of,
)
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaConnectionError, KafkaTimeoutError, broker_error
from kafwire.integers import integer
from kafwire.runtime.retrieval import retrieve
from kafwire.types import Offset, Tail

Found = dict[Place, dict[Partition, int]]


class Range(NamedTuple):
    """The offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int


class Bounds:
    """The user's bounds and partitions, checked as far as possible without a broker."""

    def __init__(
        self,
        topics: Sequence[str],
        partitions: Sequence[int] | None,
        start: Bound,
        end: Bound,
        timestamps: Timestamps | None = None,
    ) -> None:
        self.topics = topics
        numbers = [integer(each) for each in partitions] if isinstance(partitions, Iterable) else [None]
        if partitions is not None and None in numbers:
            raise ConfigError(f"partitions: a list of partition numbers is needed, not {partitions!r}")
        self.partitions = None if partitions is None else [number for number in numbers if number is not None]
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

    def _check(self, bound: Bound, name: str) -> ResolvedOffset | dict[Partition, ResolvedOffset]:
        if not isinstance(bound, Mapping):
            return resolve_offset(bound, name)
        checked = {}
        for where, point in bound.items():
            partition = integer(where[1]) if isinstance(where, tuple) and len(where) == 2 else None
            if partition is None:
                raise ConfigError(f"an offset is given for {where!r}: a TopicPartition(topic, partition) is needed")
            topic = where[0]
            if topic not in self.topics:
                raise ConfigError(
                    f"an offset is given for {topic!r}, which is not among the topics {list(self.topics)}"
                )
            checked[topic, partition] = resolve_offset_in(where, point, name)
        return checked

    def partitions_of(self, info: TopicInfo) -> list[int]:
        """Return the requested partitions of a topic; `ConfigError` for one that the topic does not have."""
        if self.chosen is not None:
            wanted = sorted(partition for topic, partition in self.chosen if topic == info.name)
        else:
            wanted = sorted(info.partitions if self.partitions is None else set(self.partitions))
        for partition in wanted:
            if partition not in info.partitions:
                raise ConfigError(f"topic {info.name!r} has partitions 0 to {max(info.partitions)}, not {partition!r}")
        return wanted

    def all_partitions(self, infos: Mapping[str, TopicInfo]) -> list[Partition]:
        """Return the requested partitions of all topics; `ConfigError` for one that its topic does not have."""
        return [(topic, partition) for topic, info in infos.items() for partition in self.partitions_of(info)]

    def known_partitions(self, infos: Mapping[str, TopicInfo]) -> list[Partition]:
        """Return `all_partitions` of possibly stale metadata; an empty list if a topic seems to lack a partition."""
        try:
            return self.all_partitions(infos)
        except ConfigError:
            return []


async def plan_ranges(cluster: Cluster, bounds: Bounds, *, isolation_level: int) -> list[tuple[Range, TopicInfo]]:
    """Return the exact current offsets to read. Offsets that do not exist raise `BrokerError`.

    The result has all partitions, or the call fails: a scan without a leaderless partition would look complete. The
    look-up ends after `default_api_timeout_ms`, with an error that names the partition.

    With `isolation_level` 1, "latest" is the last stable offset. An end offset of the user may lie above it, up to the
    high watermark: the end of a decided transaction whose marker is not written yet lies there.

    With a filter by time, reading begins at the first record at or after its begin: all before that one are earlier.

    For known topics, the leaders are asked while the metadata is refreshed, and again if the metadata has changed: a
    recreated topic, more partitions, another leader.
    """

    def bound_of(bound: ResolvedOffset | dict[Partition, ResolvedOffset], where: Partition) -> ResolvedOffset:
        # One bound that names partitions names them for both.
        return bound[where] if isinstance(bound, dict) else bound

    # A window with an open begin has no first time.
    first = Time(bounds.window[0]) if bounds.window is not None and bounds.window[0] >= 0 else None
    # Look up the ends before the times. Otherwise a record that arrives between the two lies before the end, and is
    # still not read, as the look-up by time came too early to find it.
    infos, found = await _ends(cluster, bounds, isolation_level=isolation_level)
    wanted = bounds.all_partitions(infos)
    times: dict[Place, dict[Partition, None]] = {}
    for where in wanted:
        for place in (bound_of(bounds.start, where), bound_of(bounds.end, where), first):
            if isinstance(place, Time):
                times.setdefault(place, {})[where] = None
    found |= await _ask(cluster, times, isolation_level=isolation_level)
    written = dict(found[LATEST])
    if isolation_level:
        named = [w for w in wanted if any(isinstance(bound_of(b, w), Offset) for b in (bounds.start, bounds.end))]
        written |= await _offsets(cluster, named, LATEST, isolation_level=0)

    def resolve(place: ResolvedOffset, where: Partition) -> int:
        low, high = found[EARLIEST][where], found[LATEST][where]
        if isinstance(place, Tail):
            return max(low, high - place.count)
        if not isinstance(place, Offset):
            offset = found[place][where]
            # No record at or after that time: the bound is the end.
            return high if offset < 0 else min(offset, high)
        if not low <= place.offset <= written[where]:
            raise broker_error(
                ErrorCode.OFFSET_OUT_OF_RANGE,
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
        if first is not None and begin <= stop:
            begin = min(stop, max(begin, resolve(first, where)))
        if begin > max(stop, found[LATEST][where]) and isinstance(start, Offset):
            raise broker_error(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{where[0]}-{where[1]} is read up to its last stable offset {found[LATEST][where]}, where a "
                f"transaction is open, not from {begin}: name an end offset to wait for the transaction's end",
            )
        ranges.append((Range(*where, begin, max(begin, stop)), infos[where[0]]))
    return ranges


async def _ends(cluster: Cluster, bounds: Bounds, *, isolation_level: int) -> tuple[dict[str, TopicInfo], Found]:
    """Return the current topics, and both ends of each partition."""

    async def ask(wanted: Iterable[Partition]) -> Found:
        return await _ask(cluster, {EARLIEST: wanted, LATEST: wanted}, isolation_level=isolation_level)

    known = {topic: cluster.metadata.topics[topic] for topic in bounds.topics if topic in cluster.metadata.topics}
    ahead = None
    if known.keys() == set(bounds.topics) and (partitions := bounds.known_partitions(known)):
        ahead = asyncio.ensure_future(ask(partitions))
        ahead.add_done_callback(retrieve)
    try:
        infos = {topic: await cluster.topic(topic, fresh=True) for topic in bounds.topics}
        wanted = bounds.all_partitions(infos)
        return infos, await (ahead if ahead is not None and infos == known else ask(wanted))
    finally:
        if ahead is not None:
            ahead.cancel()


async def _ask(cluster: Cluster, times: Mapping[Place, Iterable[Partition]], *, isolation_level: int) -> Found:
    first = next(iter(times), None)
    asked = (
        _offsets(cluster, of, when, isolation_level=isolation_level, warns=when == first) for when, of in times.items()
    )
    return dict(zip(times, await asyncio.gather(*asked), strict=True))


async def _offsets(
    cluster: Cluster, partitions: Iterable[Partition], place: Place, *, isolation_level: int, warns: bool = True
) -> dict[Partition, int]:
    wanted = dict.fromkeys(partitions, place)
    try:
        return await list_offsets(cluster, wanted, isolation_level=isolation_level, warns=warns)
    except (KafkaConnectionError, KafkaTimeoutError) as error:
        raise type(error)(f"{error}; to scan without such a partition, name the others by partitions=") from None
