"""What a consumer commits for its group: how far each partition is processed, or what its user says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit, came_back, lost_to_others
from kafwire.config import ConsumerConfig
from kafwire.consumer.arguments import cursor_of, partitions_of
from kafwire.consumer.fetcher import Fetcher
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.consumer.partition_progress import PartitionProgress
from kafwire.errors import ConfigError, KafkaError
from kafwire.records._records import Batch
from kafwire.types import ConsumerGroupMetadata, TopicPartition

# Brokers forget what a group without members has not committed for a week: what does not change is committed again.
COMMIT_AGAIN_MS = 6 * 3600 * 1000
ENGINE_LAG_MS = 1_000


class OffsetCommits:
    """The offsets of one consumer's group, if it has one. Lives on the engine, apart from `processed`."""

    def __init__(self, fetcher: Fetcher, config: ConsumerConfig) -> None:
        self._fetcher = fetcher
        self._engine = fetcher.cluster.engine
        self.group = GroupOffsets(fetcher.cluster, config.group_id) if config.group_id is not None else None
        self.progress: dict[FetchCursor, PartitionProgress] = {}  # of partitions whose users say what is processed
        self._committed: dict[FetchCursor, int] = {}
        self._handed_over: dict[FetchCursor, int] = {}  # how far transactions went that asked who commits them
        self._asks_processed = False  # and whether they asked what is processed
        self._committed_since_ms = self._engine.now_ms()
        self.is_automatic = self.group is not None and config.enable_auto_commit

    async def commit(
        self,
        what: Batch | Mapping[TopicPartition, int] | None,
        *,
        only: Iterable[FetchCursor] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit the end of a batch, offsets, or how far everything is processed (of `only` these)."""
        group = self._need_group()
        if what is None:
            chosen = self._processed(only)
        elif isinstance(what, Mapping):
            said = zip(partitions_of(what), what.values(), strict=True)
            chosen = {self._owned(where): _committable(where, offset) for where, offset in said}
        elif not isinstance(what, Batch):
            raise ConfigError(f"a batch, or offsets by partition, can be committed, not {what!r}")
        elif what.topic is None or what.partition is None:
            raise ConfigError("this batch was decoded from bytes alone: it has no partition to commit for")
        else:
            cursor = self._owned(TopicPartition(what.topic, what.partition))
            if group.member is not None and (cursor.lowest < 0 or what.next_offset < cursor.lowest):
                raise came_back((cursor.topic, cursor.partition), group.group_id)
            chosen = {cursor: what.next_offset}
        if what is not None:
            for cursor, offset in chosen.items():
                self._fetcher.queue.process(cursor.number, offset)
                progress = self.progress.get(cursor)
                if progress is not None:
                    progress.commit(offset)
        if chosen:
            await self._catch_up(chosen)
            places = {(cursor.topic, cursor.partition): cursor for cursor in chosen}
            await group.commit(
                {
                    (c.topic, c.partition): OffsetToCommit(offset, c.epochs.before(offset))
                    for c, offset in chosen.items()
                },
                topic_ids={cursor.topic: cursor.topic_id for cursor in chosen},
                is_owned=lambda where: places[where].ownership.is_owned,
                timeout_ms=timeout_ms,
            )
            self._committed.update(chosen)

    async def _catch_up(self, read: Mapping[FetchCursor, int]) -> None:
        """Readers may be ahead of the engine, which is told of records when the I/O thread has queued them already."""
        position, until = self._fetcher.queue.position, self._engine.now_ms() + ENGINE_LAG_MS
        while any(c.position < min(offset, position(c.number)) for c, offset in read.items()):
            if self._engine.now_ms() > until:
                return
            await asyncio.sleep(0.001)

    def _owned(self, where: TopicPartition) -> FetchCursor:
        """The cursor of a partition to commit for. Raises `CommitFailedError` for one that a group took away."""
        group, cursors = self._need_group(), self._fetcher.cursors
        if where not in cursors and group.member is not None:
            raise lost_to_others([where], group.group_id)
        return cursor_of(cursors, where)

    def _processed(self, only: Iterable[FetchCursor] | None) -> dict[FetchCursor, int]:
        now = self._engine.now_ms()
        if now > self._committed_since_ms + COMMIT_AGAIN_MS:
            self._committed.clear()
            self._committed_since_ms = now
        chosen = list(self._fetcher.cursors.values() if only is None else only)
        for cursor in chosen:
            self._drop_finished(cursor)
        processed = {cursor: self._processed_of(cursor) for cursor in chosen}
        return {c: offset for c, offset in processed.items() if offset >= 0 and self._committed.get(c) != offset}

    def _processed_of(self, cursor: FetchCursor) -> int:
        # Before the progress: a batch that is taken meanwhile is not in it.
        processed = self._fetcher.queue.processed(cursor.number)
        progress = self.progress.get(cursor)
        if progress is None:
            return processed
        return max(processed, progress.committable) if progress.is_finished else progress.committable

    def follow(self, cursor: FetchCursor, on_advance: Callable[[], object]) -> PartitionProgress:
        """Have a user say what is processed. What he began in a stream before, and did not complete, is still open."""
        self._drop_finished(cursor)
        progress = self.progress.setdefault(cursor, PartitionProgress(on_advance))
        progress.is_left = progress.is_abandoned = False
        return progress

    def leave(self, cursor: FetchCursor) -> None:
        """The stream of a partition is closed."""
        progress = self.progress.get(cursor)
        if progress is not None:
            progress.is_left = True
            self._drop_finished(cursor)

    def _drop_finished(self, cursor: FetchCursor) -> None:
        """Once all is completed that a closed stream handed out, a batch counts when the next one is taken."""
        progress = self.progress.get(cursor)
        if progress is not None and progress.is_finished:
            self._fetcher.queue.process(cursor.number, self._processed_of(cursor))
            del self.progress[cursor]

    def processed(self) -> dict[TopicPartition, int]:
        """How far each partition is processed, where anything of it is. May be called in any thread."""
        found = {cursor: self._processed_of(cursor) for cursor in list(self._fetcher.cursors.values())}
        self._asks_processed = True
        self._handed_over = {cursor: offset for cursor, offset in found.items() if offset >= 0}
        return {TopicPartition(cursor.topic, cursor.partition): o for cursor, o in self._handed_over.items()}

    def is_uncommitted(self, cursor: FetchCursor) -> bool:
        """Whether more of it was read than its user has committed, or has asked for to commit it in a transaction."""
        queue, processed = self._fetcher.queue, self._processed_of(cursor)
        if self.is_automatic or (processed < 0 and not queue.in_hand(cursor.number)):
            return False
        read = processed if self._asks_processed else queue.position(cursor.number)
        return read > max(self._handed_over.get(cursor, -1), self._committed.get(cursor, -1))

    def uncommitted(self, cursor: FetchCursor) -> int | None:
        """Offsets that were handed out beyond what the group has committed; None when it has committed nothing."""
        committed = self._committed.get(cursor)
        return None if committed is None else max(0, self._fetcher.queue.position(cursor.number) - committed)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who commits: a member, or nobody who is one."""
        group, queue = self._need_group(), self._fetcher.queue
        if group.member is None:
            return ConsumerGroupMetadata(group.group_id)
        if not self._asks_processed:
            self._handed_over = {c: queue.position(c.number) for c in list(self._fetcher.cursors.values())}
        return group.member.metadata_of_read()

    async def committed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Committed | None]:
        """What the group has committed."""
        wanted = self._fetcher.cursors if partitions is None else partitions_of(partitions)
        found = await self._need_group().fetch(list(wanted))
        return {TopicPartition(*where): committed for where, committed in found.items()}

    async def auto_commit(self, only: Iterable[FetchCursor] | None = None, *, timeout_ms: float | None = None) -> None:
        """Commit how far everything is processed (or `only` these); an error is told, and no more."""
        try:
            await self.commit(None, only=only, timeout_ms=timeout_ms)
        except KafkaError as error:
            self._fetcher.errors.tell_once("commits", error, "what was processed could not be committed: ")
        else:
            self._fetcher.errors.end("commits")

    async def positions_of(self, cursors: Iterable[FetchCursor]) -> dict[FetchCursor, Committed]:
        """Where the group was in these, for those of which it has committed anything; nothing without a group."""
        if self.group is None:
            return {}
        found = await self.group.fetch([(cursor.topic, cursor.partition) for cursor in cursors])
        there = {cursor: found[cursor.topic, cursor.partition] for cursor in cursors}
        return {cursor: committed for cursor, committed in there.items() if committed is not None}

    def note(self, cursor: FetchCursor, offset: int) -> None:
        """That is what the group has committed of it."""
        self._committed[cursor] = offset

    def forget(self, cursor: FetchCursor) -> None:
        """It is not read any more."""
        self._committed.pop(cursor, None)
        self.progress.pop(cursor, None)
        self._handed_over.pop(cursor, None)

    def _need_group(self) -> GroupOffsets:
        if self.group is None:
            raise ConfigError("a group_id is needed to commit offsets, and to ask for committed ones")
        return self.group


def _committable(where: TopicPartition, offset: Any) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset < 1 << 63:
        raise ConfigError(f"the offset to commit for {where[0]}-{where[1]} is {offset!r}: a number from 0 is needed")
    return offset
