"""Lookups of a plan: topics, offsets, samples of the log, and the commits of a group.

No pyspark here. `plan` and `stream_planner` decide; this module asks the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, KafkaError, broker_error
from kafwire.spark import processes
from kafwire.spark.byte_limit import Sample
from kafwire.spark.group_commits import GroupCommits
from kafwire.spark.options import client_names
from kafwire.spark.plan import is_wanted
from kafwire.types import Offset, TopicPartition

if TYPE_CHECKING:
    import uuid
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from kafwire import Client
    from kafwire.cluster.offset_spec import OffsetSpec
    from kafwire.spark.options import Bound, ReadOptions
    from kafwire.spark.stream_offsets import Offsets

# Passing states of a topic that exists.
_THERE = (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
_ABSENT = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
# A sample ends after this many offsets, and its request takes this many bytes: one record batch or a few.
_SAMPLE_OFFSETS = 500
_SAMPLE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that exists: its id, and its number of partitions."""

    topic_id: uuid.UUID
    partitions: int


class Lookup(Protocol):
    """The cluster, as the planner of a stream sees it."""

    def topics(self) -> dict[str, Topic]:
        """The topics that exist and that the options name."""

    def earliest(self, places: Collection[TopicPartition]) -> Offsets:
        """The first offset of each partition that exists."""

    def latest(self, places: Collection[TopicPartition]) -> Offsets:
        """The end of each partition that exists, or its last stable offset."""

    def matches(self, bound: Bound, places: Sequence[TopicPartition]) -> Offsets:
        """The first offsets at or after the timestamps of `bound`."""

    def committed(self, group: str, places: Sequence[TopicPartition]) -> Offsets:
        """The committed offsets of a group, without partitions that have none."""

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit `offsets` for a group."""

    def samples(self, at: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Sample]:
        """A sample from the beginning of each range [start, end) of `at`."""

    def close(self) -> None:
        """Close all connections."""


class ClusterLookup:
    """The lookups of one query over one warm client, made at the first of them."""

    def __init__(self, options: ReadOptions) -> None:
        """Connect to nothing yet."""
        self._options = options
        self._isolation = options.client.get("isolation_level", "read_uncommitted")
        self._made: Client | None = None
        self._groups: dict[str, GroupCommits] = {}

    def topics(self) -> dict[str, Topic]:
        """See `Lookup`. One Metadata request; raises `BrokerError` for a topic that may not be described."""
        wanted = named_topics(self._options)
        found = {}
        for topic in self._client.metadata(wanted or None).topics:
            if topic.error_code in _THERE:
                if is_wanted(self._options, topic.name, is_internal=topic.is_internal):
                    found[topic.name] = Topic(topic.topic_id, len(topic.partitions))
            elif wanted and topic.error_code not in _ABSENT:
                raise broker_error(
                    topic.error_code, "looking up the topics of the stream", api="Metadata", topic=topic.name
                )
        return found

    def earliest(self, places: Collection[TopicPartition]) -> Offsets:
        """See `Lookup`."""
        return self._offsets(places, "earliest")

    def latest(self, places: Collection[TopicPartition]) -> Offsets:
        """See `Lookup`."""
        return self._offsets(places, "latest")

    def matches(self, bound: Bound, places: Sequence[TopicPartition]) -> Offsets:
        """See `Lookup`."""
        return matches(self._client, bound, places, self._isolation)

    def committed(self, group: str, places: Sequence[TopicPartition]) -> Offsets:
        """See `Lookup`."""
        return self._commits(group).committed(places)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `Lookup`. Raises `KafkaError`, for example because the group has members."""
        if offsets:
            self._commits(group).commit(offsets)

    def samples(self, at: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, Sample]:
        """See `Lookup`. One scan of all partitions; deleted records and partitions count as 0 bytes."""
        try:
            return self._sampled(at, at)
        except BrokerError as error:
            if error.code not in (ErrorCode.OFFSET_OUT_OF_RANGE, *_ABSENT):
                raise
        low = self.earliest(at)
        left = {place: (max(start, low.get(place, end)), end) for place, (start, end) in at.items()}
        return self._sampled({place: range_ for place, range_ in left.items() if range_[0] < range_[1]}, at)

    def _sampled(
        self, left: Mapping[TopicPartition, tuple[int, int]], at: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, Sample]:
        """Samples of the ranges `left`, whose offsets count from the beginning of the ranges `at`."""
        import pyarrow as pa

        found: dict[TopicPartition, Sample] = {}
        if not left:
            return found
        ends = {place: min(end, start + _SAMPLE_OFFSETS) for place, (start, end) in left.items()}
        with self._client.scan(
            sorted({place.topic for place in left}),
            start={place: Offset(start) for place, (start, _) in left.items()},
            end={place: Offset(end) for place, end in ends.items()},
            columns=["key", "value", "headers"],
            fetch_max_bytes=_SAMPLE_BYTES,
        ) as scan:
            for batch in scan.batches():
                if batch.topic is None or batch.partition is None:
                    continue  # never in a scan
                place = TopicPartition(batch.topic, batch.partition)
                before = found.get(place, Sample(0, 0))
                size = payload(pa.table(batch)) if len(batch) else 0
                found[place] = Sample(min(batch.next_offset, ends[place]) - at[place][0], before.size + size)
                if len(found) == len(left):
                    break  # large records: the first ones suffice as a sample
        return found

    def close(self) -> None:
        """See `Lookup`."""
        made, self._made = self._made, None
        groups, self._groups = self._groups, {}
        for commits in groups.values():
            commits.close()
        if made is not None:
            made.close()

    def _offsets(self, places: Collection[TopicPartition], when: OffsetSpec) -> Offsets:
        """Offsets of the partitions that exist. A partition may have been deleted since its topic was looked up.

        A partition without a leader is waited for, as long as the client's options say, and is an error after that.
        """
        if not places:
            return {}
        failed: dict[TopicPartition, KafkaError] = {}
        found = self._client.offsets(
            places, when, isolation_level=self._isolation, on_error=lambda place, error: failed.update({place: error})
        )
        if not failed:
            return found
        counts = {
            topic.name: len(topic.partitions)
            for topic in self._client.metadata({place.topic for place in failed}).topics
            if topic.error_code not in _ABSENT
        }
        waiting = [place for place in failed if place.partition < counts.get(place.topic, 0)]
        return found | self._client.offsets(waiting, when, isolation_level=self._isolation)

    @property
    def _client(self) -> Client:
        if self._made is None:
            import kafwire

            with processes.naming_this_host():
                self._made = kafwire.Client(**client_options(self._options))
        return self._made

    def _commits(self, group: str) -> GroupCommits:
        if group not in self._groups:
            with processes.naming_this_host():
                self._groups[group] = GroupCommits(group, client_options(self._options))
        return self._groups[group]


def payload(table: pa.Table) -> int:
    """Return the bytes of keys, values and headers, without Arrow's overhead."""
    import pyarrow.compute as pc

    headers = pc.list_flatten(table["headers"])
    columns = [table["key"], table["value"], *(pc.struct_field(headers, name) for name in ("key", "value"))]
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)


def named_topics(options: ReadOptions) -> tuple[str, ...]:
    """The topics that the options name; none for a pattern."""
    return options.topics or tuple(dict.fromkeys(place.topic for place in options.assign or ()))


def describe(client: Client, wanted: Sequence[str]) -> tuple[dict[str, int], set[str]]:
    """Return the partition counts of existing topics (all topics if none is named), and the internal topics."""
    counts: dict[str, int] = {}
    internal: set[str] = set()
    if wanted:
        for name in wanted:
            try:
                counts[name] = len(client.topic(name).partitions)
            except BrokerError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        return counts, internal
    for topic in client.metadata().topics:
        if topic.error_code in _THERE:
            counts[topic.name] = len(topic.partitions)
            if topic.is_internal:
                internal.add(topic.name)
    return counts, internal


def matches(
    client: Client, bound: Bound, places: Iterable[TopicPartition], isolation: str
) -> dict[TopicPartition, int]:
    """The first offsets at or after the timestamps of `bound`; without those partitions that have none."""
    if not bound.by_timestamp:
        return {}
    groups: dict[int, list[TopicPartition]] = {}
    for place in places:
        groups.setdefault(bound.of(place), []).append(place)
    found = {}
    for timestamp, group in groups.items():
        found.update(client.offsets(group, timestamp, isolation_level=isolation))
    return {place: offset for place, offset in found.items() if offset >= 0}


def client_options(options: ReadOptions) -> dict[str, Any]:
    """Return the options of a scan that any client accepts."""
    return {name: value for name, value in options.client.items() if name in client_names()}
