"""The partitions of a consumer and their readers: assignments, subscriptions, demand, claims, pauses."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kafwire.cluster.list_offsets import PATIENCE_MS, may_pass
from kafwire.cluster.metadata import TopicInfo
from kafwire.config import ConsumerConfig
from kafwire.consumer.delivery.partition_claim import Claim, StreamEnded
from kafwire.consumer.delivery.partition_feed import PartitionFeed
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.cursor_lookup import cursor_of, cursors_of
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.fetch.read_plan import LASTING_LAYOUTS
from kafwire.consumer.offsets.commits import OffsetCommits
from kafwire.consumer.offsets.known_topics import KnownTopics, NewPartition
from kafwire.consumer.offsets.start_positions import Start, seek_to_start
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.errors import ConfigError, KafkaError
from kafwire.records._arrow import Layout
from kafwire.types import TopicPartition


class Selection(NamedTuple):
    """All partitions of `topics`, or of topics that match `pattern`, or those of `assign`; checked by `calls`."""

    topics: list[str] | None = None
    assign: list[TopicPartition] | None = None
    start: Start = None
    pattern: str | None = None


class Assignment:
    """The partitions of one consumer. Lives on the engine, apart from `new_claim`."""

    def __init__(
        self,
        fetcher: Fetcher,
        config: ConsumerConfig,
        selection: Selection,
        commits: OffsetCommits,
        layout: Callable[..., Layout],
    ) -> None:
        """`layout` makes the Arrow layout of a topic and partition."""
        self._fetcher = fetcher
        self._cluster = fetcher.cluster
        self._config = config
        self._selection = selection
        self._commits = commits
        self._layout = layout
        self._flowing = False
        self._claimed: dict[FetchCursor, weakref.ref[Claim]] = {}
        self.feed: PartitionFeed | None = None  # gets each new partition as a stream of its own
        self.on_claims: Callable[[], object] = lambda: None  # called when a claim ends or is released
        self._drop_listener: weakref.WeakMethod[Callable[[TopicPartition], object]] | None = None
        self._ending: set[FetchCursor] = set()  # no more records of these are delivered
        self._held: dict[FetchCursor, bool] = {}  # paused until a handler has run; the value: paused by the user too
        self._unstarted: set[FetchCursor] = set()  # halted, because the look-up of their start offset failed
        self._known = KnownTopics()
        self._lacked_ms: Callable[[str], float | None] = self._cluster.metadata.lacked_ms.get
        self._stop_listening: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Look up the selected partitions and their start offsets. A topic that does not exist raises `BrokerError`."""
        selection = self._selection
        if self._config.group_id is not None and selection.assign is None:
            pass  # the group assigns the partitions
        elif selection.topics is not None:
            infos = await self._cluster.topics(
                selection.topics, fresh=True, create=self._config.allow_auto_create_topics
            )
            found = [(info, number) for info in infos for number in sorted(info.partitions)]
            self._check_start({(info.name, number) for info, number in found})
            await self._add(found)
        else:
            self._check_start(set(selection.assign or ()))
            if selection.assign is not None:
                await self.assign(selection.assign)
        self._stop_listening = self._cluster.on_change(self._on_metadata)
        self._on_metadata({topic for topic, _ in self._fetcher.cursors})  # changes that came meanwhile

    def stop(self) -> None:
        """Stop following metadata changes."""
        self._stop_listening()

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read only these partitions. Current ones continue at their position; new ones begin at `start`."""
        wanted = dict.fromkeys(partitions)
        found = []
        for where in wanted:
            cursor = self._fetcher.cursors.get(where)
            if cursor is not None and not self._is_of_another_topic(cursor):
                continue
            info = await self._cluster.topic(
                where.topic,
                fresh=where.topic not in self._cluster.metadata.topics,
                create=self._config.allow_auto_create_topics,
            )
            if where.partition not in info.partitions:
                await self._cluster.refresh([where.topic], at_once=True)
                info = self._cluster.metadata.topics[where.topic]
            if where.partition not in info.partitions:
                raise ConfigError(
                    f"topic {where.topic!r} has partitions 0 to {max(info.partitions)}, not {where.partition!r}"
                )
            found.append((info, where.partition))
        dropped = [
            cursor
            for key, cursor in self._fetcher.cursors.items()
            if TopicPartition(*key) not in wanted or self._is_of_another_topic(cursor)
        ]
        if dropped and self._commits.is_automatic:
            await self._commits.auto_commit(timeout_ms=self._config.auto_commit_interval_ms)
        self._selection = self._selection._replace(topics=None)
        for cursor in dropped:
            self._drop(cursor)
        await self._add(found)
        self._keep_fresh()

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics and no others, without a group. Current partitions continue.

        Raises `BrokerError` for a topic that does not exist, `KafkaTimeoutError`, `KafkaConnectionError`. After an
        error the consumer still reads the earlier topics.
        """
        create = self._config.allow_auto_create_topics
        found = await self._cluster.topics(list(topics), fresh=True, create=create)
        names = {info.name for info in found}
        for cursor in list(self._fetcher.cursors.values()):
            if self._is_of_another_topic(cursor):
                self._drop(cursor)
        missing = [(info, n) for info in found for n in sorted(info.partitions)]
        await self._add(pair for pair in missing if (pair[0].name, pair[1]) not in self._fetcher.cursors)
        for cursor in list(self._fetcher.cursors.values()):
            if cursor.topic not in names:
                self._drop(cursor)
        self._selection = self._selection._replace(topics=[info.name for info in found])
        self._known.keep(names)
        self._on_metadata(names)  # changes that came meanwhile
        self._keep_fresh()

    def add(
        self,
        found: Iterable[tuple[TopicInfo, int]],
        owned: Mapping[TopicPartition, PartitionOwnership],
        *,
        held: bool = False,
    ) -> list[FetchCursor]:
        """Add partitions that the group assigned. Each begins at its committed offset, which is looked up meanwhile.

        `owned` has the ownership of each. `held` partitions are paused until `hold_no_more`. Transient failures of the
        look-up are retried; the next read raises any other.
        """
        pairs = [
            (info, number)
            for info, number in found
            if (cursor := self._fetcher.cursors.get((info.name, number))) is None or cursor.topic_id != info.topic_id
        ]
        self.see(info for info, _ in pairs)
        made = self._make(pairs, owned, held=held)
        self._go_on_with(made)
        self._fetcher.tasks.begin(self._find_start(made))
        return made

    def hold_no_more(self, cursors: Iterable[FetchCursor]) -> None:  # a callback of the engine
        """Resume partitions that were added as `held`, unless the user has paused them meanwhile."""
        for cursor in cursors:
            paused = self._held.pop(cursor, None)
            if paused is not None and cursor not in self._ending:
                self._fetcher.pause(cursor, paused=paused)

    def on_drop(self, listener: Callable[[TopicPartition], object]) -> None:
        """Call the method `listener` with each partition that is dropped. The reference to it is weak."""
        self._drop_listener = weakref.WeakMethod(listener)

    def know(self, infos: Collection[TopicInfo], lacked_ms: Callable[[str], float | None]) -> None:
        """Remember the current partitions of these topics, and of no others; partitions that come later are new.

        `lacked_ms` returns when the last metadata without a topic came, on the engine's clock.
        """
        self._lacked_ms = lacked_ms
        self._known.keep(info.name for info in infos)
        self.see(infos)

    def see(self, infos: Iterable[TopicInfo]) -> None:
        """Remember the current partitions of these topics, except of topics seen before."""
        for info in infos:
            self._known.see(info, self._lacked_ms(info.name))

    def _new_partition(self, cursor: FetchCursor) -> NewPartition | None:
        found = self._known.look(cursor.topic, cursor.topic_id, cursor.partition)
        if found is None:
            return None
        news, lacked_ms = found
        engine = self._cluster.engine
        ago_ms = 0.0 if lacked_ms is None else engine.now_ms() - lacked_ms
        return NewPartition(news, int(engine.clock.time_ns() // 1_000_000 - ago_ms))

    def _fail_to_start(self, cursors: Iterable[FetchCursor], error: KafkaError) -> None:
        for cursor in cursors:
            if cursor.position < 0 and self._fetcher.numbered(cursor.number) is cursor:
                self._unstarted.add(cursor)
                self._fetcher.halt(cursor, error)

    def start_again(self, cursors: Iterable[FetchCursor]) -> list[FetchCursor]:
        """Look up the start offsets of `cursors` again; return the cursors that have one already."""
        chosen = list(cursors)
        unstarted = [cursor for cursor in chosen if cursor in self._unstarted and cursor.position < 0]
        self._unstarted.difference_update(chosen)
        if unstarted:
            for cursor in unstarted:
                self._fetcher.seek(cursor, -1)  # its reader waits
            self._fetcher.tasks.begin(self._find_start(unstarted))
        return [cursor for cursor in chosen if cursor not in unstarted]

    async def _find_start(self, cursors: list[FetchCursor]) -> None:
        """Look up the start offset of each cursor. An unavailable committed offset is retried; the others begin.

        A warning names such a partition after `PATIENCE_MS`: the transaction that withholds the offset often ends
        before.
        """
        failures, began_ms = 0, self._cluster.engine.now_ms()
        while cursors := [c for c in cursors if c.position < 0 and self._fetcher.numbered(c.number) is c]:
            try:
                late = await self._seek_to_start(cursors, of_group=True)
            except KafkaError as error:
                if not may_pass(error):
                    self._fail_to_start(cursors, error)
                    return
                self._fetcher.errors.warn_once("positions", error, "start positions could not be found: ")
            else:
                cursors = list(late)
                if late and self._cluster.engine.now_ms() - began_ms >= PATIENCE_MS:
                    self._warn_late(late)
            failures += 1
            if cursors:
                await asyncio.sleep(self._cluster.backoff_ms(failures) / 1000)

    def _warn_late(self, late: Mapping[FetchCursor, KafkaError]) -> None:
        self._fetcher.errors.warn_of(late, "the committed offset of {} could not be fetched: ")

    def ending(self, partitions: Iterable[TopicPartition]) -> list[FetchCursor]:
        """Deliver no more records of these partitions. A partition's own stream ends after the slice it has begun."""
        cursors = [cursor for where in partitions if (cursor := self._fetcher.cursors.get(where)) is not None]
        for cursor in cursors:
            if cursor in self._ending:
                continue
            self._ending.add(cursor)
            claim = self._claimed[cursor]() if cursor in self._claimed else None
            if claim is not None:
                claim.is_ending = True
                claim.tell()
            if cursor in self._claimed:
                self._fetcher.cut_off(cursor, StreamEnded(f"{cursor.name} is given up"))
            else:
                self._fetcher.pause(cursor, paused=True)
        self.on_claims()
        return cursors

    def drop(self, cursors: Iterable[FetchCursor]) -> None:
        """Drop these cursors, unless they were dropped already."""
        for cursor in cursors:
            if self._fetcher.numbered(cursor.number) is cursor:
                self._drop(cursor)

    @property
    def topics(self) -> set[str]:
        """The topics of which the consumer reads all partitions."""
        return set(self._selection.topics or ())

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that the consumer reads."""
        return [TopicPartition(*key) for key in self._fetcher.cursors]

    async def ask(self, claim: Claim | None = None) -> None:
        """Begin to fetch for a reader: of a claimed partition (unless it was dropped), or of all unclaimed ones."""
        if claim is not None:
            self._fetcher.ask([] if claim.cursor is None else [claim.cursor])
            return
        self._flowing = True
        self._fetcher.ask([cursor for cursor in self._fetcher.cursors.values() if cursor not in self._claimed])

    def new_claim(self, where: TopicPartition) -> Claim:
        """Return a claim on a partition of the current assignment. `claim` takes it. From any thread."""
        cursor = self._fetcher.cursors.get(where)
        return Claim(where, self._cluster.engine, self.release, None if cursor is None else cursor.ownership)

    async def claim(self, claim: Claim) -> None:
        """Give a partition to one reader until the claim is closed. `KafkaError` if another reader has it.

        A partition that was dropped since the claim was made is not taken, even if it was assigned again: the stream
        ends.
        """
        if claim.is_over:
            return
        cursor = cursor_of(self._fetcher.cursors, claim.where)
        if cursor in self._claimed:
            raise KafkaError(f"{cursor.name} has a stream already: close that one first")
        if not claim.closed:
            self._take(claim, cursor)

    def _take(self, claim: Claim, cursor: FetchCursor) -> None:
        self._claimed[cursor] = weakref.ref(claim)
        claim.take(cursor)
        self._fetcher.queue.claim(cursor.number)

    def is_claimed(self, cursor: FetchCursor) -> bool:
        """Return True if a stream has claimed the partition and has begun to read it."""
        claim = self._claimed[cursor]() if cursor in self._claimed else None
        return claim is not None and claim.is_read

    def has_claim(self, cursor: FetchCursor) -> bool:
        """Return True if a stream has claimed the partition, whether or not it has begun to read."""
        return cursor in self._claimed

    def open_feed(self, feed: PartitionFeed) -> None:
        """Claim each current and future partition for a stream of its own, which the feed delivers."""
        if self.feed is not None and self.feed.is_open:
            raise KafkaError("partitions() is iterated over already: close that iterator first")
        self.feed = feed
        for cursor in self._fetcher.cursors.values():
            self._offer(cursor)

    def _offer(self, cursor: FetchCursor) -> None:
        if self.feed is not None and self.feed.is_open and cursor not in self._claimed and cursor not in self._ending:
            claim = self.new_claim(TopicPartition(cursor.topic, cursor.partition))
            self._take(claim, cursor)
            self.feed.offer(claim)

    def release(self, cursor: FetchCursor) -> None:
        """Give a partition back to the reader of all unclaimed ones. A closed claim calls this."""
        if cursor in self._claimed:
            del self._claimed[cursor]
            self._commits.ledger.leave(cursor)
            self._fetcher.queue.claim(cursor.number, False)
            if self._flowing:
                self._fetcher.ask([cursor])
            else:
                self._fetcher.leave(cursor)
            self._fetcher.pause(cursor, paused=cursor.paused or cursor in self._ending)
            self.on_claims()

    def pause_claimed(self, claim: Claim, paused: bool) -> None:  # a callback of the engine
        """Pause or resume a claimed partition."""
        if claim.cursor is not None:
            self._pause(claim.cursor, paused=paused)

    async def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Pause or resume fetching and delivery of these partitions; buffered records stay."""
        for cursor in cursors_of(self._fetcher.cursors, partitions):
            self._pause(cursor, paused=paused)

    def _pause(self, cursor: FetchCursor, *, paused: bool) -> None:
        if cursor in self._held:
            self._held[cursor] = paused
        elif cursor not in self._ending:
            self._fetcher.pause(cursor, paused=paused)

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        cursors = self._fetcher.cursors.items()
        return [TopicPartition(*key) for key, cursor in cursors if self._held.get(cursor, cursor.paused)]

    def _check_start(self, read: Collection[tuple[str, int]]) -> None:
        """Raise `ConfigError` if `start` names a partition that is not in `read`."""
        known = self._selection.start if isinstance(self._selection.start, dict) else {}
        strangers = [f"{topic}-{number}" for topic, number in known if (topic, number) not in read]
        if strangers:
            raise ConfigError(f"start names {', '.join(strangers)}, which this consumer does not read")

    def _is_of_another_topic(self, cursor: FetchCursor) -> bool:
        """Return True if the cursor's topic was recreated since."""
        known = self._cluster.metadata.topics.get(cursor.topic)
        return known is not None and cursor.halted and known.topic_id != cursor.topic_id

    def _layout_of(self, topic: str, partition: int) -> Layout:
        return self._layout(topic, partition, transient=len(self._fetcher.cursors) >= LASTING_LAYOUTS)

    def _drop(self, cursor: FetchCursor) -> None:
        cursor.ownership.release()
        self._fetcher.remove(cursor, claimed=cursor in self._claimed)
        listener = None if self._drop_listener is None else self._drop_listener()
        if listener is not None:
            listener(TopicPartition(cursor.topic, cursor.partition))
        if cursor in self._claimed:
            claim = self._claimed.pop(cursor)()
            if claim is not None:
                claim.cursor, claim.is_ending = None, True
                claim.tell()
            kind = StreamEnded if cursor in self._ending else KafkaError
            self._fetcher.halt(cursor, kind(f"{cursor.name} is not read by this consumer any more"))
        self._ending.discard(cursor)
        self._held.pop(cursor, None)
        self._unstarted.discard(cursor)
        self._commits.ledger.forget(cursor)

    async def _add(
        self, found: Iterable[tuple[TopicInfo, int]], *, of_group: bool = False, held: bool = False
    ) -> list[FetchCursor]:
        """Add partitions, look up their start offsets. `of_group`: committed offsets take precedence over `start`."""
        pairs = list(found)
        infos = {info.name: info for info, _ in pairs}
        self.see(infos.values())
        made = self._make(pairs, {}, held=held)
        try:
            late = await self._seek_to_start(made, of_group=of_group)
        except BaseException:
            self.drop(made)
            raise
        if late:  # the consumer reads the other partitions meanwhile
            self._warn_late(late)
            self._fetcher.tasks.begin(self._find_start(list(late)))
        made = [cursor for cursor in made if self._fetcher.numbered(cursor.number) is cursor]
        self._go_on_with(made)
        if not of_group:
            self._keep_fresh()
            # A partition is new once: a later `assign` of the same topics treats it like any other.
            self._known.keep({topic for topic, _ in self._fetcher.cursors} - infos.keys())
            self.see(infos.values())
        return made

    def _make(
        self,
        found: Iterable[tuple[TopicInfo, int]],
        owned: Mapping[TopicPartition, PartitionOwnership],
        *,
        held: bool,
    ) -> list[FetchCursor]:
        made = [
            self._fetcher.add(
                info,
                number,
                self._layout_of(info.name, number),
                ownership=owned.get(TopicPartition(info.name, number)),
            )
            for info, number in found
        ]
        for cursor in made if held else ():
            self._held[cursor] = False
            self._fetcher.pause(cursor, paused=True)
        return made

    async def _seek_to_start(self, cursors: list[FetchCursor], *, of_group: bool) -> dict[FetchCursor, KafkaError]:
        new = {cursor: found for cursor in cursors if (found := self._new_partition(cursor)) is not None}
        on_nowhere = self._fail_to_start if of_group else None
        options: dict[str, Any] = {"new": new, "of_group": of_group, "on_nowhere": on_nowhere}
        return await seek_to_start(
            self._fetcher, self._commits, cursors, self._selection.start, self._config, **options
        )

    def _go_on_with(self, made: list[FetchCursor]) -> None:
        """Give these cursors to the feed's streams, or to the reader of unclaimed partitions."""
        for cursor in made:
            self._offer(cursor)
        if self._flowing:
            self._fetcher.ask(cursor for cursor in made if cursor not in self._claimed)

    def _keep_fresh(self) -> None:
        self._cluster.keep_fresh({topic for topic, _ in self._fetcher.cursors})

    def _on_metadata(self, changed: set[str]) -> None:
        self._fetcher.brokers.on_metadata(changed)
        for name in changed.intersection(self._selection.topics or ()) if self._config.group_id is None else ():
            info = self._cluster.metadata.topics.get(name)
            if info is not None:
                added = [(info, n) for n in sorted(info.partitions) if (name, n) not in self._fetcher.cursors]
                made = self._make(added, {}, held=False)
                if made:
                    self._go_on_with(made)
                    self._fetcher.tasks.begin(self._find_start(made))
