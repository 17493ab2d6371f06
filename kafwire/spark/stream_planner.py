"""The offsets of a stream: its start, the end of each batch, and the ranges of a batch.

Pure but for the `Lookup` that asks the cluster, and no pyspark: time and waiting are arguments. One planner serves one
run of a query. It remembers what Spark does not keep: the resolved start, the ends that AvailableNow pinned, and the
ids of topics. Spark's offsets hold no topic id, so a recreated topic is detected for certain within a run, and only by
its offsets after a restart.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafwire.errors import ConfigError
from kafwire.spark.byte_limit import within_bytes
from kafwire.spark.data_loss import check_pinned, check_there, data_loss, losses_of_batch, recreated
from kafwire.spark.group_commits import PublishedOffsets
from kafwire.spark.plan import OffsetRange, Situation, check_named, choose_partitions, present, split, start_of
from kafwire.spark.stream_offsets import names
from kafwire.spark.trigger_limits import MinimumDelay, backlog, within

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafwire.spark.data_loss import Loss
    from kafwire.spark.lookup import Lookup, Topic
    from kafwire.spark.stream_offsets import Offsets
    from kafwire.spark.stream_options import StreamOptions
    from kafwire.types import TopicPartition

log = logging.getLogger("kafwire.spark")


class StreamPlanner:
    """Plans the batches of one run of a query."""

    def __init__(
        self,
        options: StreamOptions,
        lookup: Lookup,
        *,
        now_ms: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        """Send no request yet. `sleep` waits for some seconds before a doubtful lookup is repeated."""
        self._options = options
        self._lookup = lookup
        self._now_ms = now_ms
        self._sleep = sleep
        self._delay = MinimumDelay(options.limits)
        self._start: Offsets | None = None
        self._wrong_start = ""  # why the options' start does not fit the partitions that exist
        self._is_asked = False  # `latest` was called, so a replay of batch 0 is over
        self._pins_start = False
        self._is_available_now = False
        self._pinned: Offsets | None = None
        self._latest: Offsets | None = None
        self._published = PublishedOffsets(lookup.commit, options.commit_group)
        self._ids: dict[str, uuid.UUID] = {}
        self._former_ids: set[uuid.UUID] = set()
        # Partitions of recreated topics: the offset in the old topic, and the first offset of the new one.
        self._restarts: dict[TopicPartition, tuple[int, int]] = {}

    def start(self) -> Offsets:
        """Return the stream's start. Spark calls this twice in the first batch, and gets the same offsets."""
        if self._start is None:
            self._start = self._find_start()
            self._pins_start = self._options.start_moves
        return self._start

    def prepare_available_now(self) -> None:
        """Pin the ends of all partitions at the next call of `latest`: the query reads to there and ends."""
        self._is_available_now = True

    def latest(self, start: Offsets, *, has_limits: bool) -> Offsets:
        """Return the end of the batch that begins at `start`; without `has_limits` (trigger Once) the latest offsets.

        If the stream's start moves, as that of `latest` does, the first batch is empty: Spark writes its end to the
        checkpoint, and has the start from there after a crash. The only batch of the trigger Once reads records.

        Raises `ConfigError` for a start that names other partitions than those of the stream. A new stream calls this
        before its first batch; one that replays batch 0 does not.
        """
        if self._wrong_start:
            raise ConfigError(self._wrong_start)
        self._is_asked = True
        self._latest = latest = self._find_latest(start)
        completed = {place: offset for place, offset in start.items() if place in latest}
        if completed != self._start:  # no batch has completed the start of the stream
            self._published.publish(completed)
        pins_start, self._pins_start = self._pins_start, False
        if pins_start and has_limits and start == self._start:
            first = self._first_offsets(place for place in latest if place not in start)
            return {place: offset for place, offset in (first | start).items() if place in latest}
        return self._limited(start, latest) if has_limits and self._options.limits.are_any else latest

    def reported(self) -> Offsets | None:
        """Return the ends that the last `latest` found, before limits; None before it, or without partitions."""
        return self._latest or None

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """Return the ranges of the batch from `start` to `end`, one or more per partition with records to read."""
        if not self._is_asked and self._start is not None and start == self._start:
            start = self._replayed_start(start, end)
        self._pins_start = False
        self._wrong_start = ""  # the batch is planned: partitions without a start are new since
        if self._pinned is not None:
            check_pinned(self._pinned, end)
            check_there(end, self._still_there(end))
        begin = {
            place: end[place] if self._restarts_at(place, offset, end) else offset for place, offset in start.items()
        }
        first = self._first_offsets(place for place in end if place not in start)
        self._report(losses_of_batch(begin, end, first))
        begin |= first
        ranges = [
            OffsetRange(place.topic, place.partition, begin[place], end[place], self._ids.get(place.topic))
            for place in sorted(end)
            if place in begin
        ]
        read = self._options.read
        return split(ranges, read.min_partitions, read.max_records)

    def close(self) -> None:
        """Close the connections. The offsets of the last batch stay unpublished: it may not be committed."""
        self._lookup.close()

    def _find_start(self) -> Offsets:
        options = self._options
        topics = self._lookup.topics()
        self._ids |= {name: topic.topic_id for name, topic in topics.items()}
        places = choose_partitions(options.read, _counts(topics), may_be_none=True)
        try:
            check_named(options.read.start, places)
        except ConfigError as error:
            self._wrong_start = str(error)
            places = tuple(place for place in places if place in options.read.start.named)
        now = Situation(
            earliest=self._lookup.earliest(places),
            latest=self._lookup.latest(places),
            start_matches=self._lookup.matches(options.read.start, places),
            end_matches={},
        )
        gone = {place for place in places if place not in now.earliest or place not in now.latest}
        if gone:
            raise ConfigError(f"the partitions {names(gone)} were deleted while the stream was starting")
        if options.start_group is not None:
            start = self._start_of_group(options.start_group, places, now.earliest)
        else:
            start = {place: start_of(options.read, place, now) for place in places}
        log.info("the stream starts at %s", _shown(start))
        return start

    def _start_of_group(
        self, group: str, places: Sequence[TopicPartition], earliest: Mapping[TopicPartition, int]
    ) -> Offsets:
        committed = self._lookup.committed(group, places)
        if places and not committed:
            raise ConfigError(
                f"option startingOffsets=group:{group}: the group has no committed offset for {names(set(places))}; "
                "correct its id, or start from earliest or latest"
            )
        without = {place for place in places if place not in committed}
        if without:
            log.warning(
                "group %s has no committed offset for %s: the stream reads them from earliest", group, names(without)
            )
        return {place: committed.get(place, earliest[place]) for place in places}

    def _find_latest(self, start: Offsets) -> Offsets:
        if self._pinned is not None:
            return self._pinned
        topics, latest = self._settled(start)
        for name, topic in topics.items():
            self._meet(name, topic, start, latest)
        # An empty range brings the checkpoint to the new topic's first offset; the next batch reads from there.
        self._restarts = {place: ends for place, ends in self._restarts.items() if start.get(place) == ends[0]}
        latest |= {place: first for place, (_, first) in self._restarts.items() if place in latest}
        if self._is_available_now:
            self._pinned = latest
        return latest

    def _settled(self, known: Offsets) -> tuple[dict[str, Topic], Offsets]:
        """Return topics and their latest offsets; repeat the lookup while a (stale) response contradicts `known`."""
        attempts = self._options.attempts
        while True:
            topics = self._lookup.topics()
            latest = self._lookup.latest(present(self._options.read, _counts(topics)))
            attempts -= 1
            doubts = self._doubts(topics, latest, known)
            if not doubts or attempts <= 0:
                return topics, latest
            log.warning("a broker's response contradicts an earlier one, asking again: %s", doubts)
            self._sleep(self._options.retry_interval_ms / 1000)

    def _still_there(self, known: Offsets) -> Offsets:
        """Return the latest offsets of partitions whose topic has this run's id: a recreated one lost its records."""
        topics, latest = self._settled(known)
        return {
            place: offset
            for place, offset in latest.items()
            if topics[place.topic].topic_id == self._ids.get(place.topic)
        }

    def _doubts(self, topics: Mapping[str, Topic], latest: Offsets, known: Offsets) -> str:
        said = []
        missing = {place for place in known if place not in latest}
        if missing:
            said.append(f"{names(missing)} missing")
        said += [
            f"{place.topic}-{place.partition} ends at {latest[place]}, before {offset}"
            for place, offset in known.items()
            if place in latest and latest[place] < offset
        ]
        said += [
            f"topic {name} has another id"
            for name, topic in topics.items()
            if name in self._ids and topic.topic_id != self._ids[name]
        ]
        return "; ".join(said[:5])

    def _meet(self, name: str, topic: Topic, start: Offsets, latest: Offsets) -> None:
        """Note a topic's id; a new id of a topic that the stream reads is a loss."""
        known = self._ids.setdefault(name, topic.topic_id)
        if topic.topic_id == known:
            return
        places = [place for place in start if place.topic == name and place in latest]
        if topic.topic_id in self._former_ids:  # this broker does not know the new topic yet
            latest |= {place: start[place] for place in places}
            return
        if places:
            self._report([recreated(name)])
            first = self._lookup.earliest(places)
            self._restarts |= {
                place: (start[place], offset) for place, offset in first.items() if start[place] != offset
            }
        self._former_ids.add(known)
        self._ids[name] = topic.topic_id

    def _restarts_at(self, place: TopicPartition, start: int, end: Offsets) -> bool:
        return place in end and self._restarts.get(place) == (start, end[place])

    def _limited(self, start: Offsets, latest: Offsets) -> Offsets:
        begin = start | self._first_offsets(place for place in latest if place not in start)
        count = sum(backlog(begin, latest).values())
        # AvailableNow reads everything up to its ends: a rest below the minimum would end the query unread.
        if not self._is_available_now and self._delay.postpones(count, self._now_ms()):
            return start
        limits = self._options.limits
        end = within(limits, begin, latest)
        return end if limits.max_bytes is None else within_bytes(limits.max_bytes, begin, end, self._lookup.samples)

    def _replayed_start(self, start: Offsets, end: Offsets) -> Offsets:
        """Return the start of batch 0 when it is replayed: Spark does not keep the start, and it may have moved since.

        A partition that now starts after the batch's end has nothing to read. That is this source's own empty first
        batch; or the first batch of Spark's own source, if another format wrote the checkpoint.
        """
        start = {place: offset for place, offset in start.items() if place in end}  # the others are new since
        passed = {place for place, offset in start.items() if offset > end[place]}
        if passed and self._options.start_moves:
            log.warning(
                "batch 0 was planned and not committed, and the stream's start has moved past its end since; nothing "
                "is read of %s. If Spark's own source wrote this checkpoint, its first batch is lost: let that source "
                "finish it",
                "; ".join(f"{p.topic}-{p.partition} ends at {end[p]}, the start is {start[p]}" for p in sorted(passed)),
            )
            return start | {place: end[place] for place in passed}
        return start

    def _first_offsets(self, places: Iterable[TopicPartition]) -> Offsets:
        wanted = list(places)
        return self._lookup.earliest(wanted) if wanted else {}

    def _report(self, losses: Sequence[Loss]) -> None:
        if losses and self._options.read.fail_on_data_loss:
            raise data_loss("; ".join(map(str, losses[:5])))
        for loss in losses:
            log.warning("data loss, as failOnDataLoss is false the stream goes on: %s", loss)


def _counts(topics: Mapping[str, Topic]) -> dict[str, int]:
    return {name: topic.partitions for name, topic in topics.items()}


def _shown(offsets: Offsets) -> str:
    return ", ".join(f"{place.topic}-{place.partition}: {offset}" for place, offset in sorted(offsets.items()))
