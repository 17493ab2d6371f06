"""The choice of logs to compact, and of the time, as in Kafka's log cleaner; `compaction.py` compacts them.

A log is clean up to an offset, and dirty after it. The cleaner cleans whole segments of the dirty part: never the
active segment, none with an open transaction, none younger than `min.compaction.lag.ms`. It cleans a log when more than
`min.cleanable.dirty.ratio` of it is dirty, or a dirty segment began `max.compaction.lag.ms` ago.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafwire.broker.log.compaction import Compaction
from kafwire.broker.log.log import Extent
from kafwire.broker.topics.config_def import elements

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition, PartitionTopic
    from kafwire.broker.state import ClusterState
    from kafwire.broker.topics.topics import Topic

JOURNAL = "clean-offset"


@dataclass(frozen=True, slots=True)
class CleaningRules:
    """A topic's options, by Kafka's names."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


def offset_to_clean_to(
    dirty: Sequence[Extent], clean_bytes: int, stable_offset: int, now_ms: int, rules: CleaningRules
) -> int | None:
    """Return the offset up to which a log is cleaned now; None: it is not cleaned.

    Args:
        dirty: the segments of the dirty part, the active one last.
        clean_bytes: the size of the clean part.
        stable_offset: the last stable offset.
        now_ms: the wall clock's time.
        rules: the topic's options.
    """
    closed = list(dirty[:-1])
    cleanable = closed
    for number, segment in enumerate(closed):
        end = dirty[number + 1].base_offset
        is_young = segment.largest_timestamp > now_ms - rules.min_compaction_lag_ms
        if end > stable_offset or (rules.min_compaction_lag_ms > 0 and is_young):
            cleanable = closed[:number]
            break
    size = sum(segment.size for segment in cleanable)
    if not size:
        return None
    oldest = min((each.first_timestamp for each in closed if each.first_timestamp > 0), default=now_ms)
    is_due = oldest < now_ms - rules.max_compaction_lag_ms
    if not is_due and size / (clean_bytes + size) <= rules.min_cleanable_dirty_ratio:
        return None
    return dirty[len(cleanable)].base_offset


def segment_ms(state: ClusterState, topic: PartitionTopic) -> int:
    """Return the longest time of writes to a segment: at most `max.compaction.lag.ms` if the topic is compacted."""
    longest = int(state.topic_config(topic, "segment.ms"))
    if "compact" in elements(state.topic_config(topic, "cleanup.policy")):
        return min(longest, int(state.topic_config(topic, "max.compaction.lag.ms")))
    return longest


class Cleaner:
    """The cleaner of a cluster: `state.part(Cleaner)`. `clean_to`: the offset where each log's dirty part begins."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._is_watching = False
        self.clean_to: dict[Partition, int] = {}
        state.topics.deletion_watchers.append(self._forget)

    def watch(self) -> None:
        """Run every `log.cleaner.backoff.ms` from now on; a state does not start this by itself."""
        if not self._is_watching:
            self._is_watching = True
            self._wait()

    def _wait(self) -> None:
        self._state.after(max(1, self._state.config_int("log.cleaner.backoff.ms")), self._on_time)

    def _on_time(self) -> None:
        self.run()
        self._wait()

    def run(self) -> int:
        """Clean the logs that are due. Return the freed bytes."""
        state = self._state
        if not state.config_is("log.cleaner.enable"):
            return 0
        freed = 0
        for topic in list(state.topics):
            if "compact" in elements(state.topic_config(topic, "cleanup.policy")):
                freed += sum(self._clean(partition) for partition in topic.partitions)
        return freed

    def _clean(self, partition: Partition) -> int:
        state, log, topic = self._state, partition.log, partition.topic
        start = self._dirty_from(partition)
        dirty = log.extents(start, int(state.topic_config(topic, "segment.bytes")), segment_ms(state, topic))
        end = offset_to_clean_to(
            dirty,
            log.size - sum(segment.size for segment in dirty),
            partition.last_stable_offset,
            state.wall_ms,
            CleaningRules(
                float(state.topic_config(topic, "min.cleanable.dirty.ratio")),
                int(state.topic_config(topic, "min.compaction.lag.ms")),
                int(state.topic_config(topic, "max.compaction.lag.ms")),
            ),
        )
        if end is None:
            return 0
        compaction: Compaction = state.part(Compaction)
        freed = compaction.run_partition(partition, end)
        self.clean_to[partition] = end
        state.journal.write(JOURNAL, [topic.name, partition.index], end)
        return freed

    def _dirty_from(self, partition: Partition) -> int:
        log = partition.log
        known = self.clean_to.get(partition, log.start_offset)
        return known if log.start_offset <= known <= log.end_offset else log.start_offset

    def _forget(self, topic: Topic) -> None:
        for partition in topic.partitions:
            if self.clean_to.pop(partition, None) is not None:
                self._state.journal.write(JOURNAL, [topic.name, partition.index], None)

    # --- persistence, see `stored_parts.py`

    def entries(self) -> Iterator[tuple[str, list[str | int], Any]]:
        """Yield all offsets, in the form of the journal."""
        for partition, offset in self.clean_to.items():
            yield JOURNAL, [partition.topic.name, partition.index], offset

    def restore(self, topic: str, index: int, offset: int) -> None:
        """Restore an offset."""
        partition = self._state.topics.partition(topic, index)
        if partition is not None:
            self.clean_to[partition] = offset
