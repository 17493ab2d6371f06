"""Commits of a consumer for its group: processed offsets, or offsets that the user gives."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit, came_back, lost_to_others
from kafwire.cluster.offset_spec import partitions_of
from kafwire.config import ConsumerConfig
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.cursor_lookup import cursor_of
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.offsets.hand import Handed
from kafwire.consumer.offsets.ledger import Ledger, by_partition
from kafwire.errors import ConfigError, KafkaError
from kafwire.integers import natural
from kafwire.records._records import Batch, Record
from kafwire.runtime.log import consumer_log as log
from kafwire.types import CommittedOffset, ConsumerGroupMetadata, TopicPartition

# Brokers drop offsets of a group without members a week after their commit: commit unchanged offsets again.
COMMIT_AGAIN_MS = 6 * 3600 * 1000
ENGINE_LAG_MS = 1_000
# The argument of `commit`.
ToCommit = Batch | Record | Iterable[Batch | Record] | Mapping[TopicPartition, int | tuple[int, str]]
_FORMS = (
    "commit() takes a batch, a record, a list of these, or a mapping of TopicPartition(topic, partition) to the offset "
    "of the next record, or to (offset, text)"
)


class OffsetCommits:
    """The offsets of one consumer's group, if it has one. Lives on the engine, apart from `processed`."""

    def __init__(self, fetcher: Fetcher, config: ConsumerConfig) -> None:
        self._fetcher = fetcher
        self._engine = fetcher.cluster.engine
        self._config = config
        self.group = GroupOffsets(fetcher.cluster, config.group_id) if config.group_id is not None else None
        self.is_automatic = self.group is not None and config.enable_auto_commit
        self.ledger = Ledger(fetcher, is_automatic=self.is_automatic)
        self._all_since_ms = self._engine.now_ms()
        self._begun: list[FetchCursor] = []  # cursors whose start offsets must be committed
        self._starting: dict[FetchCursor, asyncio.Task[None]] = {}  # commits of start offsets in progress

    def commit_starts(self) -> None:
        """From now on, commit the start offset of a partition that begins by a reset.

        Without a committed offset, and with `latest`, a partition that is assigned again would begin at its end again,
        and skip the records in between.
        """
        self._fetcher.offset_reset.on_begun = self._on_begun

    def _on_begun(self, cursor: FetchCursor) -> None:
        self._begun.append(cursor)
        self._fetcher.tasks.soon(self._begin_commit)

    def _begin_commit(self) -> None:
        begun, self._begun = self._begun, []
        task = self._fetcher.tasks.begin(self._commit_starts(begun))
        self._starting.update(dict.fromkeys(begun, task))

    async def _commit_starts(self, cursors: list[FetchCursor]) -> None:
        try:
            await self.commit(None, only=[cursor for cursor in cursors if cursor.ownership.is_owned])
        except KafkaError as error:
            log.debug("kafwire: the start offset could not be committed: %s", error, error=error)
        finally:
            for cursor in cursors:
                self._starting.pop(cursor, None)

    async def start_is_settled(self, cursor: FetchCursor | None) -> None:
        """Wait until the commit of a start offset has ended: a transaction must commit after it.

        The transaction commits on another connection, and a late commit of the start would set its offset back.
        """
        task = None if cursor is None else self._starting.get(cursor)
        if task is not None:
            await asyncio.wait([task])

    async def commit(
        self,
        what: ToCommit | None,
        *,
        only: Iterable[FetchCursor] | None = None,
        handed: Collection[Handed] = (),
        timeout_ms: float | None = None,
    ) -> None:
        """Commit the user's offsets, or the processed offsets of all (or `only` these) and of the rows `handed`.

        Raises `CommitFailedError` for rows in hand of a lost partition, after the others are committed.
        """
        group = self._need_group()
        gone = [each for each in handed if each.rows and each.cursor.ownership.is_lost]
        if what is None:
            self.ledger.advance(handed)
            chosen = {cursor: OffsetToCommit(offset) for cursor, offset in self._to_commit(only).items()}
        else:
            chosen = self._said(what)
            for cursor, (offset, *_) in chosen.items():
                self.ledger.process(cursor, offset)
        if chosen:
            await self._send(group, chosen, timeout_ms)
        if gone and group.member is not None:
            raise lost_to_others([(cursor.topic, cursor.partition) for cursor, *_ in gone], group.group_id)

    async def _send(
        self, group: GroupOffsets, chosen: dict[FetchCursor, OffsetToCommit], timeout_ms: float | None
    ) -> None:
        offsets = {cursor: offset for cursor, (offset, *_) in chosen.items()}
        await self._engine_knows(offsets)
        places = {(cursor.topic, cursor.partition): cursor for cursor in chosen}
        await group.commit(
            {
                (c.topic, c.partition): value._replace(leader_epoch=c.epochs.before(value.offset))
                for c, value in chosen.items()
            },
            topic_ids={cursor.topic: cursor.topic_id for cursor in chosen},
            is_owned=lambda where: places[where].ownership.is_owned,
            timeout_ms=timeout_ms,
        )
        self.ledger.note_committed(offsets)

    def _said(self, what: ToCommit) -> dict[FetchCursor, OffsetToCommit]:
        """Return the user's offsets by partition; of batches and records, the highest of each partition."""
        if isinstance(what, Mapping):
            named = zip(partitions_of(what), what.values(), strict=True)
            return {self._owned(where): _committable(where, value) for where, value in named}
        if isinstance(what, Batch | Record):
            what = (what,)
        if isinstance(what, str | bytes) or not isinstance(what, Iterable):
            raise ConfigError(f"{_FORMS}, not {what!r}")
        highest: dict[TopicPartition, int] = {}
        for each in what:
            if not isinstance(each, Batch | Record):
                raise ConfigError(f"{_FORMS}; one of the list is {each!r}")
            if each.topic is None or each.partition is None:
                raise ConfigError("this batch was decoded from bytes alone: it has no partition to commit for")
            where = TopicPartition(each.topic, each.partition)
            next_offset = each.next_offset if isinstance(each, Batch) else each.offset + 1
            highest[where] = max(next_offset, highest.get(where, 0))
        return {self._read_here(where, offset): OffsetToCommit(offset) for where, offset in highest.items()}

    def _read_here(self, where: TopicPartition, next_offset: int) -> FetchCursor:
        """Return the cursor that read a batch; `CommitFailedError` if the partition was assigned again since."""
        group, cursor = self._need_group(), self._owned(where)
        if group.member is not None and (cursor.lowest < 0 or next_offset < cursor.lowest):
            raise came_back((cursor.topic, cursor.partition), group.group_id)
        return cursor

    def _owned(self, where: TopicPartition) -> FetchCursor:
        """Return the cursor of a partition to commit for; `CommitFailedError` if the group has revoked it."""
        group, cursors = self._need_group(), self._fetcher.cursors
        if where not in cursors and group.member is not None:
            raise lost_to_others([where], group.group_id)
        return cursor_of(cursors, where)

    async def _engine_knows(self, read: Mapping[FetchCursor, int]) -> None:
        """Wait until the engine has read the responses of delivered records: commits need their leader epochs.

        A reader may be ahead of the engine: the I/O thread queues records before the engine reads the response.
        """
        position = self._fetcher.queue.position

        def lags() -> bool:
            return any(c.position < min(offset, position(c.number)) for c, offset in read.items())

        if not lags():
            return
        arrived = asyncio.Event()
        stop = self._fetcher.listen(arrived.set)
        try:
            async with asyncio.timeout(ENGINE_LAG_MS / 1000):
                while lags():
                    arrived.clear()
                    await arrived.wait()
        except TimeoutError:
            pass  # then the commit has no leader epoch
        finally:
            stop()

    def _to_commit(self, only: Iterable[FetchCursor] | None) -> dict[FetchCursor, int]:
        now = self._engine.now_ms()
        if now > self._all_since_ms + COMMIT_AGAIN_MS:
            self.ledger.commit_again()
            self._all_since_ms = now
        return self.ledger.to_commit(only)

    def processed(self, handed: Iterable[Handed] = ()) -> dict[TopicPartition, int]:
        """Return the processed offset of each partition with processed records. Any thread."""
        return by_partition(self.ledger.processed_of_all(handed))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata: the group, and its member if the consumer is one."""
        group = self._need_group()
        if group.member is None:
            return ConsumerGroupMetadata(group.group_id)
        self.ledger.hand_over()
        return group.member.metadata_of_read()

    async def committed(
        self, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the group's committed offsets."""
        wanted = self._fetcher.cursors if partitions is None else partitions
        found = await self._need_group().fetch(list(wanted))
        return {
            TopicPartition(*where): None if kept is None else CommittedOffset(kept.offset, kept.metadata)
            for where, kept in found.items()
        }

    async def auto_commit(self, only: Iterable[FetchCursor] | None = None, *, timeout_ms: float | None = None) -> None:
        """Commit the processed offsets of all (or `only` these) partitions. An error is only logged."""
        try:
            await self.commit(None, only=only, timeout_ms=timeout_ms)
        except KafkaError as error:
            self._fetcher.errors.warn_once("commits", error, "processed offsets could not be committed: ")
        else:
            self._fetcher.errors.end("commits")

    async def keep_committing(self) -> None:
        """Commit the processed offsets every `auto_commit_interval_ms`, until this is cancelled."""
        interval_ms = self._config.auto_commit_interval_ms
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await self.auto_commit()
            except Exception:
                log.exception(
                    "kafwire: the automatic commit failed; the next one follows in %d ms",
                    interval_ms,
                    interval_ms=interval_ms,
                )

    async def positions_of(
        self, cursors: Iterable[FetchCursor], *, patience_ms: float
    ) -> tuple[dict[FetchCursor, Committed], dict[FetchCursor, KafkaError]]:
        """Return (committed offsets, errors) of these cursors; a cursor without a committed offset is in neither.

        Both are empty without a group. `GroupOffsets.fetch_available` describes the errors that it raises.
        """
        if self.group is None:
            return {}, {}
        by_name = {(cursor.topic, cursor.partition): cursor for cursor in cursors}
        topic_ids = {cursor.topic: cursor.topic_id for cursor in by_name.values()}
        found, failed = await self.group.fetch_available(by_name, topic_ids, patience_ms=patience_ms)
        return (
            {by_name[where]: committed for where, committed in found.items() if committed is not None},
            {by_name[where]: error for where, error in failed.items()},
        )

    def _need_group(self) -> GroupOffsets:
        if self.group is None:
            raise ConfigError("a group_id is needed to commit offsets, and to ask for committed ones")
        return self.group


def _committable(where: TopicPartition, value: Any) -> OffsetToCommit:
    offset, text = value if isinstance(value, tuple) and len(value) == 2 else (value, "")
    number = natural(offset)
    if number is None:
        raise ConfigError(f"the offset to commit for {where[0]}-{where[1]} is {offset!r}: a number from 0 is needed")
    if not isinstance(text, str):
        raise ConfigError(f"the text to commit with {where[0]}-{where[1]} is {text!r}: a str is needed")
    return OffsetToCommit(number, metadata=text)
