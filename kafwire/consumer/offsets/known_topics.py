"""The topics of a consumer as it first saw them, and the partitions that are new since.

`auto_offset_reset="latest"` skips the records that were there before the consumer. All records of a partition that was
added later, or of a recreated topic, came after it, and are read from the beginning. A topic that the consumer first
sees while it runs may be new, or old and only now visible: an ACL was granted, a mirror caught up. Timestamps tell
its records apart: the consumer reads those since the last metadata that lacked the topic.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable

from kafwire.cluster.list_offsets import EARLIEST, LATEST, Time
from kafwire.cluster.metadata import NO_TOPIC_ID, TopicInfo
from kafwire.cluster.offset_spec import ResolvedOffset
from kafwire.config import duration_ms
from kafwire.lazy_dataclass import dataclass

CLOCKS_MS = 60_000  # the clocks of producers and of this consumer differ by less


class News(enum.Enum):
    """Why a partition is new."""

    ADDED = "a partition was added"
    RECREATED = "the topic was recreated"
    FIRST_SEEN = "the topic is seen for the first time"


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition that is new since the consumer first saw its topic, or with its topic.

    `lacked_ms` is the time of the last metadata that lacked the topic, in ms since the epoch.
    """

    news: News
    lacked_ms: int = 0

    def begins(
        self, start: ResolvedOffset | None, policy: str, chosen: str, now_ms: int
    ) -> tuple[ResolvedOffset | None, str]:
        """Return the start (or None) and the reset policy of a new partition; None: the policy gives the start.

        `start` and `policy` are those of partitions that are not new, and `chosen` is the option
        `auto_offset_reset_new_partitions`.
        """
        if chosen != "auto":
            return None, chosen
        if self.news is not News.FIRST_SEEN:
            return EARLIEST, policy
        if start not in (None, LATEST) or (start is None and policy in ("earliest", "error")):
            return start, policy
        since_ms = self.lacked_ms - CLOCKS_MS
        duration = duration_ms(policy) if start is None else None
        return Time(max(0, since_ms if duration is None else min(since_ms, now_ms - duration))), policy


@dataclass(frozen=True, slots=True)
class _Sight:
    """A topic when the consumer first saw it."""

    topic_id: uuid.UUID
    partitions: int
    lacked_ms: float | None


class KnownTopics:
    """The topics of one consumer, as it first saw them. Times are the engine's, in ms."""

    def __init__(self) -> None:
        self._sights: dict[str, _Sight] = {}

    def see(self, info: TopicInfo, lacked_ms: float | None) -> None:
        """Remember a topic, unless it was seen before; `lacked_ms`: when the last metadata without it came."""
        if info.name not in self._sights:
            self._sights[info.name] = _Sight(info.topic_id, len(info.partitions), lacked_ms)

    def keep(self, topics: Iterable[str]) -> None:
        """Forget all other topics: the consumer does not read them any more."""
        kept = set(topics)
        self._sights = {name: sight for name, sight in self._sights.items() if name in kept}

    def look(self, topic: str, topic_id: uuid.UUID, partition: int) -> tuple[News, float | None] | None:
        """Return why a partition is new, and when the last metadata without its topic came; None: it is not new."""
        sight = self._sights.get(topic)
        if sight is None:
            return None
        if topic_id != sight.topic_id and NO_TOPIC_ID not in (topic_id, sight.topic_id):
            return News.RECREATED, None
        if partition >= sight.partitions:
            return News.ADDED, None
        return None if sight.lacked_ms is None else (News.FIRST_SEEN, sight.lacked_ms)
