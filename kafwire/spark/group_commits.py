"""The committed offsets of a group, which a stream starts from or publishes, without a membership of the group."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit
from kafwire.config import ClientConfig
from kafwire.errors import KafkaError
from kafwire.runtime.engine import default_engine
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafwire.spark.stream_offsets import Offsets

log = logging.getLogger("kafwire.spark")

# The longest that a commit delays a trigger: Spark has the same offsets in its checkpoint.
_COMMIT_TIMEOUT_MS = 5_000.0


class GroupCommits:
    """The offsets of one group, over separate connections."""

    def __init__(self, group: str, options: Mapping[str, Any]) -> None:
        """Open no connection yet; `options` are a client's."""
        self._engine = default_engine()
        self._cluster = Cluster(self._engine, ClientConfig.build(options))
        self._group = group
        self._made: GroupOffsets | None = None

    def committed(self, places: Iterable[TopicPartition]) -> Offsets:
        """The committed offsets, without partitions that have none. Raises `KafkaError`."""
        wanted = [(place.topic, place.partition) for place in places]

        async def fetch() -> dict[tuple[str, int], Committed | None]:
            return await self._offsets().fetch(wanted)

        found = self._engine.run(fetch)
        return {TopicPartition(*where): value.offset for where, value in found.items() if value is not None}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit `offsets`. Raises `KafkaError`, for example because the group has members."""
        wanted = {(place.topic, place.partition): OffsetToCommit(offset) for place, offset in offsets.items()}

        async def commit() -> None:
            await self._offsets().commit(wanted, timeout_ms=_COMMIT_TIMEOUT_MS)

        self._engine.run(commit)

    def close(self) -> None:
        """Close its connections."""
        self._engine.run(self._cluster.close)

    def _offsets(self) -> GroupOffsets:
        """Return the offsets' client, created on the engine's event loop, to which its lock belongs."""
        if self._made is None:
            self._made = GroupOffsets(self._cluster, self._group)
        return self._made


class PublishedOffsets:
    """Commits the completed offsets of one stream for `commitGroup`, each once."""

    def __init__(self, commit: Callable[[str, Offsets], None], group: str | None) -> None:
        """Commit nothing yet. `group` is the value of `commitGroup`; without one, nothing is committed."""
        self._commit = commit
        self._group = group
        self._last: Offsets | None = None

    def publish(self, completed: Offsets) -> None:
        """Commit offsets, unless they are the last. After an error the stream goes on: its checkpoint has them."""
        if self._group is None or completed == self._last:
            return
        try:
            self._commit(self._group, completed)
        except KafkaError as error:
            log.warning("the offsets of the stream could not be committed for group %s: %s", self._group, error)
        else:
            self._last = completed
