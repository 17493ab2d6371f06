"""The consumer's engine side, which both flavours share: partitions, positions, commits, metrics.

The flavours hand commands over and read batches with the readers that they get here; they decide nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Any, NamedTuple

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit
from kafwire.cluster.list_offsets import EARLIEST, LATEST, list_offsets
from kafwire.cluster.metadata import TopicInfo
from kafwire.cluster.offset_spec import (
    Bound,
    OffsetSpec,
    ResolvedOffset,
    resolve_offset,
    resolve_offset_in,
    timestamp_of,
)
from kafwire.config import ConsumerConfig
from kafwire.consumer._fetch_reader import FetchReader, stream_threads
from kafwire.consumer.fetcher import Fetcher
from kafwire.consumer.partition_claim import Claim
from kafwire.consumer.partition_cursor import FetchCursor
from kafwire.consumer.read_plan import consumer_budget, consumer_plan
from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError
from kafwire.records._arrow import Layout
from kafwire.records._records import Batch, RecordIterator
from kafwire.runtime.engine import stream_thread_sources
from kafwire.runtime.metrics_reporter import Reporter
from kafwire.serializer_calls import Deserializers
from kafwire.types import ConsumerGroupMetadata, Offset, Tail, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("kafwire")

stream_thread_sources.append(stream_threads)

# So many partitions keep their constant columns from batch to batch; a thousand would keep gigabytes.
LASTING_LAYOUTS = 16
# One poll returns no more than so many batches, and none after those that make up so many bytes of decoded columns.
POLL_BATCHES = 64
POLL_BYTES = 16 << 20
CLOSE_SECONDS = 30.0  # for the last commit, as in Kafka's own client
_NAMES_TOLD = 10  # of partitions, in an error
_LONGEST_TIMEOUT = 1 << 20  # seconds
# Brokers forget what a group without members has not committed for a week: what does not change is committed again.
COMMIT_AGAIN_MS = 6 * 3600 * 1000
ENGINE_LAG_MS = 1_000
SESSION_END_SECONDS = 1.0  # for telling brokers that their fetch sessions are over


class Selection:
    """What a consumer is to read, and from where on: checked as far as that goes without a broker."""

    def __init__(
        self, topics: str | Iterable[str] | None, assign: Iterable[TopicPartition] | None, start: Bound | None
    ) -> None:
        """Raises `ConfigError`."""
        if topics is not None and assign is not None:
            raise ConfigError(
                "topics and assign exclude each other: all partitions of topics, or those named one by one"
            )
        self.topics = None if topics is None else names_of(topics)
        self.assign = None if assign is None else partitions_of(assign)
        self.start: ResolvedOffset | dict[TopicPartition, ResolvedOffset] | None = None
        if isinstance(start, Mapping):
            self.start = {_partition(where): resolve_offset_in(where, point, "start") for where, point in start.items()}
        elif start is not None:
            self.start = resolve_offset(start, "start")


class ConsumerCore:
    """One consumer. Lives on the engine, apart from `reader`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        selection: Selection,
        layout: Callable[..., Layout],
        deserializers: Deserializers | None = None,
    ) -> None:
        """`layout` makes the Arrow layout of a topic and partition, or of none; without `deserializers`: bytes."""
        if config.group_id is not None and selection.topics is not None:
            raise _no_membership()
        self.cluster = cluster
        self.config = config
        self.fetcher = Fetcher(cluster, config, consumer_plan(config), consumer_budget(config))
        self.closed = False
        self._selection = selection
        self._layout = layout
        self.deserializers = deserializers
        self._group = None
        if config.group_id is not None:
            self._group = GroupOffsets(cluster, config.group_id)
        self._start_lock = asyncio.Lock()
        self._started = False
        self._flowing = False
        self._claimed: set[FetchCursor] = set()
        self._committed: dict[FetchCursor, int] = {}
        self._committed_since_ms = cluster.engine.now_ms()
        self._tasks: list[asyncio.Task[None]] = []
        self._stop_listening: Callable[[], None] = lambda: None
        self._reporter: Reporter | None = None

    def reader(self, where: TopicPartition | None = None, *, silence_ms: int = -1, keeps: object = None) -> FetchReader:
        """A reader of one partition, or of all that nobody claimed. May be made and used in any thread.

        It keeps `keeps` alive: an Arrow stream may be all that the user holds of his consumer.
        """
        return FetchReader(
            self.fetcher.queue,
            self._layout(),
            chunk_bytes=self.config.chunk_bytes,
            max_decompressed=self.config.max_decompressed,
            verify_crc=self.config.check_crcs,
            only=-1 if where is None else self.cursor(where).number,
            owns=False,
            skip_corrupt=self.config.on_corrupt == "skip",
            on_close=None if keeps is None else partial(_let_go, keeps),
            on_refuse=partial(self.cluster.engine.start, self._fetch_again),
            silence_ms=silence_ms,
            what="consumer",
            deserializer=self.deserializers,
            waiter=self.cluster.engine.waiter,
        )

    # --- partitions -------------------------------------------------------------------------------------------------

    async def start_once(self) -> None:
        """`start`, for callers who may come at the same time."""
        async with self._start_lock:
            if not self._started:
                await self.start()

    async def start(self) -> None:
        """Find what is to be read, and where it begins. Raises `BrokerError` for a topic that does not exist."""
        selection = self._selection
        if selection.topics is not None:
            infos = await self.cluster.topics(selection.topics, fresh=True, create=self.config.allow_auto_create_topics)
            found = [(info, number) for info in infos for number in sorted(info.partitions)]
            self._check_start({(info.name, number) for info, number in found})
            await self._add(found)
        else:
            self._check_start(set(selection.assign or ()))
            if selection.assign is not None:
                await self.assign(selection.assign)
        self._stop_listening = self.cluster.on_change(self._on_metadata)
        self._on_metadata({topic for topic, _ in self.fetcher.cursors})  # what changed meanwhile
        if self.config.metrics_hook is not None:
            self._reporter = Reporter(self.cluster.engine, self.config.metrics_hook, self.config.metrics_interval_ms)
            self._reporter.start(self.metrics)
        auto = self._group is not None and self.config.enable_auto_commit
        self._every(self.config.auto_commit_interval_ms, self._auto_commit, when=auto)
        self._started = True

    def _check_start(self, read: Collection[tuple[str, int]]) -> None:
        """Refuse a start of partitions that are not among those that are `read`."""
        known = self._selection.start if isinstance(self._selection.start, dict) else {}
        strangers = [f"{topic}-{number}" for topic, number in known if (topic, number) not in read]
        if strangers:
            raise ConfigError(f"start names {', '.join(strangers)}, which this consumer does not read")

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these and no others. Those that are read already go on; new ones begin as `start` says."""
        wanted = dict.fromkeys(partitions)
        found = []
        for where in wanted:
            cursor = self.fetcher.cursors.get(where)
            if cursor is not None and not self._is_of_another_topic(cursor):
                continue
            info = await self.cluster.topic(
                where.topic,
                fresh=where.topic not in self.cluster.metadata.topics,
                create=self.config.allow_auto_create_topics,
            )
            if where.partition not in info.partitions:
                await self.cluster.refresh([where.topic])
                info = self.cluster.metadata.topics[where.topic]
            if where.partition not in info.partitions:
                raise ConfigError(
                    f"topic {where.topic!r} has partitions 0 to {max(info.partitions)}, not {where.partition!r}"
                )
            found.append((info, where.partition))
        dropped = [
            cursor
            for key, cursor in self.fetcher.cursors.items()
            if TopicPartition(*key) not in wanted or self._is_of_another_topic(cursor)
        ]
        if dropped and self._group is not None and self.config.enable_auto_commit:
            await self._auto_commit(timeout_ms=self.config.auto_commit_interval_ms)
        self._selection.topics = None
        for cursor in dropped:
            self._drop(cursor)
        await self._add(found)
        self._keep_fresh()

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Read all partitions of these topics and no others; those that are read already go on.

        Raises `ConfigError` with a `group_id`, `BrokerError` for a topic that does not exist, `KafkaTimeoutError`,
        `KafkaConnectionError`: what was read is read on then.
        """
        if self._group is not None:
            raise _no_membership()
        create = self.config.allow_auto_create_topics
        found = await self.cluster.topics(list(topics), fresh=True, create=create)
        names = {info.name for info in found}
        for cursor in list(self.fetcher.cursors.values()):
            if self._is_of_another_topic(cursor):
                self._drop(cursor)
        missing = [(info, n) for info in found for n in sorted(info.partitions)]
        await self._add(pair for pair in missing if (pair[0].name, pair[1]) not in self.fetcher.cursors)
        for cursor in list(self.fetcher.cursors.values()):
            if cursor.topic not in names:
                self._drop(cursor)
        self._selection.topics = [info.name for info in found]
        self._on_metadata(names)  # what changed meanwhile
        self._keep_fresh()

    @property
    def subscription(self) -> set[str]:
        """The topics that are read with all their partitions."""
        return set(self._selection.topics or ())

    def _is_of_another_topic(self, cursor: FetchCursor) -> bool:
        """Whether the topic of a cursor's name was made anew since."""
        known = self.cluster.metadata.topics.get(cursor.topic)
        return known is not None and cursor.halted and known.topic_id != cursor.topic_id

    def _layout_of(self, topic: str, partition: int) -> Layout:
        return self._layout(topic, partition, transient=len(self.fetcher.cursors) >= LASTING_LAYOUTS)

    def _drop(self, cursor: FetchCursor) -> None:
        self.fetcher.remove(cursor, claimed=cursor in self._claimed)
        if cursor in self._claimed:
            self._claimed.discard(cursor)
            self.fetcher.halt(cursor, KafkaError(f"{cursor.name} is not read by this consumer any more"))
        self._committed.pop(cursor, None)

    async def _add(self, found: Iterable[tuple[TopicInfo, int]]) -> None:
        made = [self.fetcher.add(info, number, self._layout_of(info.name, number)) for info, number in found]
        try:
            await self._begin(made)
        except BaseException:
            for cursor in made:
                self._drop(cursor)
            raise
        if self._flowing:
            self.fetcher.ask(made)
        self._keep_fresh()

    def _keep_fresh(self) -> None:
        self.cluster.keep_fresh({topic for topic, _ in self.fetcher.cursors})

    async def _begin(self, cursors: list[FetchCursor]) -> None:
        """Give new cursors their first position."""
        start = self._selection.start
        by_time: dict[int, list[FetchCursor]] = {}
        tails: dict[FetchCursor, int] = {}
        undecided: list[FetchCursor] = []
        for cursor in cursors:
            where = TopicPartition(cursor.topic, cursor.partition)
            place = start.get(where) if isinstance(start, dict) else start
            if isinstance(place, Offset):
                self.fetcher.seek(cursor, place.offset)
            elif isinstance(place, Tail):
                tails[cursor] = place.count
            elif place is not None:
                by_time.setdefault(place, []).append(cursor)
            else:
                undecided.append(cursor)
        if undecided and self._group is not None:
            found = await self._group.fetch([(cursor.topic, cursor.partition) for cursor in undecided])
            for cursor in undecided:
                committed = found[cursor.topic, cursor.partition]
                if committed is not None:
                    self.fetcher.seek(cursor, committed.offset, last_epoch=committed.leader_epoch)
                    self._committed[cursor] = committed.offset
            undecided = [cursor for cursor in undecided if cursor.position < 0]
        if undecided:
            policy = self.config.auto_offset_reset
            if policy == "error":
                names = ", ".join(cursor.name for cursor in undecided)
                raise ConfigError(
                    f"nothing says where to begin with {names}: there is no committed offset, and "
                    'auto_offset_reset is "error"; give start='
                )
            by_time.setdefault(self.fetcher.reset_time(policy), []).extend(undecided)
        if tails:
            low, high = await asyncio.gather(*(self.fetcher.offsets(tails, when) for when in (EARLIEST, LATEST)))
            for cursor, count in tails.items():
                self.fetcher.seek(cursor, max(low[cursor], high[cursor] - count))
        for timestamp, group in by_time.items():
            for cursor, offset in (await self.fetcher.offsets(group, timestamp)).items():
                self.fetcher.seek(cursor, offset)

    def _on_metadata(self, changed: set[str]) -> None:
        self.fetcher.on_metadata(changed)
        for name in changed.intersection(self._selection.topics or ()):
            info = self.cluster.metadata.topics.get(name)
            for number in sorted(info.partitions) if info is not None else ():
                if (name, number) not in self.fetcher.cursors and info is not None:
                    # Whatever is in it came after this consumer did, so it is read from its beginning.
                    cursor = self.fetcher.add(info, number, self._layout_of(name, number))
                    self.fetcher.seek_by_time(cursor, EARLIEST)
                    if self._flowing:
                        self.fetcher.ask([cursor])

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return [TopicPartition(*key) for key in self.fetcher.cursors]

    def cursor(self, where: TopicPartition) -> FetchCursor:
        """A partition's cursor; `ConfigError` for one that is not read."""
        cursor = self.fetcher.cursors.get(_partition(where))
        if cursor is None:
            names = sorted(cursor.name for cursor in self.fetcher.cursors.values())
            more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
            raise ConfigError(
                f"{where[0]}-{where[1]} is not read by this consumer, which reads "
                f"{', '.join(names[:_NAMES_TOLD]) or 'nothing'}{more}: assign it first"
            )
        return cursor

    def _cursors(self, partitions: Iterable[TopicPartition] | None) -> list[FetchCursor]:
        if partitions is None:
            return list(self.fetcher.cursors.values())
        return [self.cursor(where) for where in partitions_of(partitions)]

    # --- demand -----------------------------------------------------------------------------------------------------

    async def ask(self, where: TopicPartition | None = None) -> None:
        """Somebody begins to read: one partition, or all that nobody claimed."""
        if where is not None:
            self.fetcher.ask([self.cursor(where)])
            return
        self._flowing = True
        self.fetcher.ask([cursor for cursor in self.fetcher.cursors.values() if cursor not in self._claimed])

    async def claim(self, claim: Claim) -> None:
        """Leave a partition to one reader, until the claim is closed. `KafkaError` when another has it already."""
        cursor = self.cursor(claim.where)
        if cursor in self._claimed:
            raise KafkaError(f"{cursor.name} has a stream already: close that one first")
        if not claim.closed:
            self._claimed.add(cursor)
            claim.cursor = cursor
            self.fetcher.queue.claim(cursor.number)

    def release(self, cursor: FetchCursor) -> None:
        """Its reader reads no more: the partition is one of all again. What a closed claim calls."""
        if cursor in self._claimed:
            self._claimed.discard(cursor)
            self.fetcher.queue.claim(cursor.number, False)
            if self._flowing:
                self.fetcher.ask([cursor])
            else:
                self.fetcher.leave(cursor)
            self.fetcher.pause(cursor, paused=cursor.paused)

    async def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        """Fetch and hand out nothing of these, or go on; what is buffered stays."""
        for cursor in self._cursors(partitions):
            self.fetcher.pause(cursor, paused=paused)

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return [TopicPartition(*key) for key, cursor in self.fetcher.cursors.items() if cursor.paused]

    # --- positions --------------------------------------------------------------------------------------------------

    async def seek(self, where: TopicPartition, offset: int) -> None:
        """Read on at `offset`."""
        cursor = self.cursor(where)
        if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset < 1 << 63:
            raise ConfigError(f"the offset to seek in {cursor.name} is {offset!r}: a number from 0 is needed")
        self.fetcher.seek(cursor, offset)

    def put_back(self, rest: UnreadRemainder) -> None:
        """Hand a batch's rest out again, unless its log was cut meanwhile and reading goes on before it."""
        cursor = self.fetcher.cursors.get(rest.where)
        queue = self.fetcher.queue
        if cursor is None or rest.offset >= rest.end or queue.position(cursor.number) < rest.end:
            return
        processed = max(queue.processed(cursor.number), rest.processed)
        self.fetcher.seek(cursor, rest.offset)
        queue.process(cursor.number, min(processed, rest.offset))

    def _fetch_again(self, number: int, generation: int, offset: int) -> None:
        """A reader could hand out nothing from `offset` on, and has reset the partition to that `generation` for it."""
        cursor, queue = self.fetcher.numbered(number), self.fetcher.queue
        if cursor is not None and generation == cursor.generation + 1:  # nobody has sought in it since
            processed = queue.processed(number)
            self.fetcher.seek(cursor, offset)
            queue.process(number, processed)

    async def settled(self) -> None:
        """Return when the engine has done what was started before."""

    async def seek_to(self, when: OffsetSpec, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, int]:
        """Read on at the first record of a time, or at an end; the offsets."""
        found = await self.fetcher.offsets(self._cursors(partitions), timestamp_of(when))
        for cursor, offset in found.items():
            self.fetcher.seek(cursor, offset)
        return {TopicPartition(cursor.topic, cursor.partition): offset for cursor, offset in found.items()}

    async def position(self, where: TopicPartition) -> int:
        """The offset of the next record that a reader gets."""
        cursor = self.cursor(where)
        limit_s = self.config.default_api_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                await self.fetcher.placed(cursor)
        except TimeoutError:
            raise KafkaTimeoutError(
                f"it could not be found out within {limit_s:g} s where {cursor.name} is to be read on: its leader does "
                "not answer, or there is none"
            ) from None
        return self.fetcher.queue.position(cursor.number)

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time (ms), of each partition; None where there is none."""
        level = int(self.config.isolation_level == "read_committed")
        found = await list_offsets(
            self.cluster, {(where.topic, where.partition): time for where, time in times.items()}, isolation_level=level
        )
        return {where: None if found[where] < 0 else found[where] for where in times}

    async def ends(self, partitions: Iterable[TopicPartition] | None, timestamp: int) -> dict[TopicPartition, int]:
        """First or last offsets as the leaders know them now; the last stable ones with read_committed."""
        wanted = self.assignment if partitions is None else partitions_of(partitions)
        level = int(self.config.isolation_level == "read_committed")
        found = await list_offsets(self.cluster, dict.fromkeys(wanted, timestamp), isolation_level=level)
        return {TopicPartition(*where): offset for where, offset in found.items()}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, int]:
        """The first offsets."""
        return await self.ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, int]:
        """The offsets after the last."""
        return await self.ends(partitions, LATEST)

    async def readable(self, where: TopicPartition | None, timeout_ms: float | None) -> bool:
        """Wait until a reader (of a partition, or of all) would not have to; False when the time is up."""
        number = -1 if where is None else self.cursor(where).number
        queue = self.fetcher.queue
        arrived = asyncio.Event()
        stop = self.fetcher.listen(arrived.set)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while queue.ready(number) is None:
                    arrived.clear()
                    await arrived.wait()
        except TimeoutError:
            return False
        finally:
            stop()
        return True

    def lag(self, where: TopicPartition, in_hand: tuple[TopicPartition, int] | None = None) -> int | None:
        """Records not handed out yet, as the last answer of the broker knew; None before the first one.

        `in_hand` is a partition whose batch is handed out record by record, and the offset of the next one.
        """
        cursor = self.cursor(where)
        lag = self._lag(cursor)
        if lag is None or in_hand is None or in_hand[0] != where:
            return lag
        return lag + max(0, self.fetcher.queue.position(cursor.number) - in_hand[1])

    def high_watermark(self, where: TopicPartition) -> int | None:
        """The end of what readers may have, as the last answer of the broker knew; None before the first one."""
        cursor = self.cursor(where)
        end = max(cursor.high_watermark, self.fetcher.queue.log_end(cursor.number, False))
        return end if end >= 0 else None

    def _lag(self, cursor: FetchCursor) -> int | None:
        queue, committed_only = self.fetcher.queue, self.config.isolation_level == "read_committed"
        position = queue.position(cursor.number)
        # Records may be in the user's hand of an answer that the engine has not looked at: the I/O thread has.
        return cursor.lag(position, committed_only=committed_only, fed_end=queue.log_end(cursor.number, committed_only))

    # --- commits ----------------------------------------------------------------------------------------------------

    def _need_group(self) -> GroupOffsets:
        if self._group is None:
            raise ConfigError("a group_id is needed to commit offsets, and to ask for committed ones")
        return self._group

    async def commit(
        self, what: Batch | Mapping[TopicPartition, int] | None, *, timeout_ms: float | None = None
    ) -> None:
        """Commit the end of a batch, offsets, or how far everything is processed."""
        group = self._need_group()
        if what is None:
            chosen = self._processed()
        elif isinstance(what, Mapping):
            chosen = {self.cursor(where): _committable(where, offset) for where, offset in what.items()}
        elif what.topic is None or what.partition is None:
            raise ConfigError("this batch was decoded from bytes alone: it has no partition to commit for")
        else:
            chosen = {self.cursor(TopicPartition(what.topic, what.partition)): what.next_offset}
        if what is not None:
            for cursor, offset in chosen.items():
                self.fetcher.queue.process(cursor.number, offset)
        if chosen:
            await self._catch_up(chosen)
            await group.commit(
                {
                    (c.topic, c.partition): OffsetToCommit(offset, c.epochs.before(offset))
                    for c, offset in chosen.items()
                },
                topic_ids={cursor.topic: cursor.topic_id for cursor in chosen},
                timeout_ms=timeout_ms,
            )
            self._committed.update(chosen)

    async def _catch_up(self, read: Mapping[FetchCursor, int]) -> None:
        """Readers may be ahead of the engine, which is told of records when the I/O thread has queued them already."""
        position, until = self.fetcher.queue.position, self.cluster.engine.now_ms() + ENGINE_LAG_MS
        while any(c.position < min(offset, position(c.number)) for c, offset in read.items()):
            if self.cluster.engine.now_ms() > until:
                return
            await asyncio.sleep(0.001)

    def _processed(self) -> dict[FetchCursor, int]:
        queue = self.fetcher.queue
        now = self.cluster.engine.now_ms()
        if now > self._committed_since_ms + COMMIT_AGAIN_MS:
            self._committed.clear()
            self._committed_since_ms = now
        processed = {cursor: queue.processed(cursor.number) for cursor in self.fetcher.cursors.values()}
        return {c: offset for c, offset in processed.items() if offset >= 0 and self._committed.get(c) != offset}

    def processed(self) -> dict[TopicPartition, int]:
        """How far each partition is processed, where anything of it is. May be called in any thread."""
        queue = self.fetcher.queue
        found = {where: queue.processed(cursor.number) for where, cursor in list(self.fetcher.cursors.items())}
        return {TopicPartition(*where): offset for where, offset in found.items() if offset >= 0}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who commits: nobody who is a member."""
        return ConsumerGroupMetadata(self._need_group().group_id)

    async def committed(self, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Committed | None]:
        """What the group has committed."""
        wanted = self.assignment if partitions is None else partitions_of(partitions)
        found = await self._need_group().fetch(wanted)
        return {TopicPartition(*where): committed for where, committed in found.items()}

    async def _auto_commit(self, *, timeout_ms: float | None = None) -> None:
        try:
            await self.commit(None, timeout_ms=timeout_ms)
        except KafkaError as error:
            self.fetcher.tell_once("commits", error, "what was processed could not be committed: ")
        else:
            self.fetcher.errors.end("commits")

    # --- metrics ----------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, Any]:
        """A snapshot; see `Consumer.metrics`."""
        queue, now = self.fetcher.queue, self.cluster.engine.now_ms()
        partitions = {}
        for (topic, number), cursor in self.fetcher.cursors.items():
            slices, size = queue.queued(cursor.number)
            partitions[TopicPartition(topic, number)] = {
                "position": queue.position(cursor.number),
                "fetch_position": cursor.position,
                "high_watermark": cursor.high_watermark,
                "last_stable_offset": cursor.last_stable,
                "log_start_offset": cursor.log_start,
                "lag": self._lag(cursor),
                "buffered_answers": slices,
                "buffered_bytes": size,
                "answers": cursor.fetches,
                "bytes": cursor.bytes,
                "paused": cursor.paused,
                "failed": cursor.halted,
                "failing_ms": None if cursor.failing_since_ms is None else round(now - cursor.failing_since_ms),
                "skipped_batches": queue.place(cursor.number).skipped,
                "read_from_replica": cursor.replica,
            }
        return {
            "fetcher": self.fetcher.stats(),
            "partitions": partitions,
            "connections": [connection.stats() for connection in self.cluster.connections if connection.connects],
        }

    async def snapshot(self) -> dict[str, Any]:
        """`metrics`, on the engine."""
        return self.metrics()

    def _every(self, interval_ms: int, work: Callable[[], Coroutine[Any, Any, None]], *, when: bool) -> None:
        async def repeat() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                try:
                    await work()
                except Exception:
                    log.exception("kafwire: what is done every %d ms failed; it goes on", interval_ms)

        if when:
            self._tasks.append(asyncio.ensure_future(repeat()))

    # --- the end ----------------------------------------------------------------------------------------------------

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109  # of the last commit
        """Commit what is processed, if that is automatic, end the fetch sessions, and close the connections."""
        if self.closed:
            return
        self.closed = True
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._stop_listening()
        if self._reporter is not None:
            self._reporter.stop()
        try:
            if self._group is not None and self.config.enable_auto_commit:
                await self.commit(None, timeout_ms=min(timeout * 1000, self.config.default_api_timeout_ms))
        except KafkaError as error:
            log.warning(
                "closed without committing what was processed last: %s; who reads on from the committed offsets gets "
                "those records again",
                error,
            )
        finally:
            sessions = self.fetcher.sessions()
            self.fetcher.queue.close()
            self.fetcher.stop()
            try:
                async with asyncio.timeout(SESSION_END_SECONDS):
                    await asyncio.gather(*(self._end_session(*session) for session in sessions), return_exceptions=True)
            except TimeoutError:
                pass  # the broker forgets them by itself, in time
            finally:
                self.cluster.shut()

    def abandon(self) -> None:
        """Its user dropped it without a word: close as far as that goes without being waited for."""
        self._tasks.append(asyncio.ensure_future(self.close()))

    async def _end_session(self, node: int, closing: tuple[int, int]) -> None:
        """Over the control connection: a parked fetch may hold up the other, and a session is not bound to a
        connection.
        """
        connection = self.cluster.connection(node, "control")
        request = protocol.FetchRequest(
            max_wait_ms=0, min_bytes=0, session_id=closing[0], session_epoch=closing[1], rack_id=self.config.client_rack
        )
        await connection.call(request)


class InProgressBatch:
    """What a consumer's user has in hand, record by record: the rest of that batch is not in the queue any more."""

    def __init__(self, core: ConsumerCore, batches: Iterator[Batch]) -> None:
        self.records = RecordIterator(batches)
        self._core = core

    def rest(self) -> tuple[TopicPartition, int] | None:
        """The partition in hand, and the offset of its next record; None when nothing is."""
        batch = self.records.batch
        if batch is None or batch.topic is None or batch.partition is None:
            return None
        where = TopicPartition(batch.topic, batch.partition)
        if where not in self._core.fetcher.cursors:
            return None
        offset = self.records.next_offset
        return where, offset if offset >= 0 else batch.base_offset

    def next(self) -> tuple[TopicPartition, int] | None:
        """The partition in hand and the offset of its next record; None when all in hand were handed out.

        Then the next one may lie further on than where the batch ended: behind markers that came after it.
        """
        return self.rest() if length_hint(self.records) else None

    def put_back(self, only: Iterable[TopicPartition] | None = None) -> UnreadRemainder | None:
        """Let go of what is in hand (of these partitions); what is left of it is to be fetched again."""
        rest, batch = self.rest(), self.records.batch
        if rest is not None and only is not None and rest[0] not in only:
            return None
        processed = self._processed()
        self.records.drop()
        return (
            UnreadRemainder(*rest, batch.next_offset, processed)
            if rest is not None and isinstance(batch, Batch)
            else None
        )

    def _processed(self) -> int:
        """The offset of the record that was handed out last: those before it are processed. -1: none was."""
        return self.records.offset

    def mark_processed(self) -> None:
        """Of the batch in hand, all records before the last one that was handed out are processed."""
        rest, offset = self.rest(), self._processed()
        if rest is not None and offset >= 0:
            queue, number = self._core.fetcher.queue, self._core.cursor(rest[0]).number
            if offset > queue.processed(number):  # more may have been committed by hand
                queue.process(number, offset)


class UnreadRemainder(NamedTuple):
    """What is left of a batch that is handed out record by record."""

    where: TopicPartition
    offset: int
    end: int
    processed: int


def rests_of(batches: Iterable[Batch]) -> list[UnreadRemainder]:
    """What has to come again if nobody gets these batches; of each partition only the first."""
    found: dict[TopicPartition, UnreadRemainder] = {}
    for batch in batches:
        if batch.topic is not None and batch.partition is not None:
            where = TopicPartition(batch.topic, batch.partition)
            first = iter(batch).next_offset  # known if offsets are among the columns that were decoded
            found.setdefault(
                where, UnreadRemainder(where, first if first >= 0 else batch.base_offset, batch.next_offset, -1)
            )
    return list(found.values())


def _let_go(_: object) -> None:
    """What a closed reader does with what it kept."""


def _no_membership() -> ConfigError:
    return ConfigError(
        "group_id with topics would be a membership in a group, which is not there yet: name the partitions "
        "(assign=[TopicPartition(...)]), or leave group_id out to read all partitions"
    )


def times_of(timestamps: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int]:
    """Partitions and times in ms, checked; `ConfigError` for anything else."""
    if not isinstance(timestamps, Mapping):
        raise ConfigError(f"a mapping of TopicPartition(topic, partition) to a time is needed, not {timestamps!r}")
    return {_partition(where): timestamp_of(when) for where, when in timestamps.items()}


def names_of(topics: str | Iterable[str]) -> list[str]:
    """A list of topics, each once; `ConfigError` for anything else."""
    names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"topics: a name or a list of names is needed, not {topics!r}")
    return list(dict.fromkeys(names))


def _partition(where: Any) -> TopicPartition:
    if (
        not isinstance(where, tuple)
        or len(where) != 2
        or not isinstance(where[0], str)
        or not isinstance(where[1], int)
    ):
        raise ConfigError(f"a TopicPartition(topic, partition) is needed, not {where!r}")
    return TopicPartition(*where)


def partitions_of(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """A list of partitions, checked; `ConfigError` for anything else."""
    if isinstance(partitions, str | TopicPartition) or not isinstance(partitions, Iterable):
        raise ConfigError(f"a list of TopicPartition(topic, partition) is needed, not {partitions!r}")
    return [_partition(where) for where in partitions]


def _committable(where: TopicPartition, offset: Any) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset < 1 << 63:
        raise ConfigError(f"the offset to commit for {where[0]}-{where[1]} is {offset!r}: a number from 0 is needed")
    return offset


def nothing_assigned() -> KafkaError:
    """What a reader of nothing would wait for for ever."""
    return KafkaError("nothing is read by this consumer: give topics= or assign=, or call assign()")


def layouts(columns: Sequence[str] | None, layout: Mapping[str, Any] | None) -> Callable[..., Layout]:
    """What makes the layout of a topic and partition; a wrong column is told at once."""
    if isinstance(columns, str):
        raise ConfigError(f"columns: a list of names is needed, not {columns!r}")

    def make(topic: str | None = None, partition: int = -1, *, transient: bool = False) -> Layout:
        return Layout(topic, partition, columns=columns, transient=transient, **(layout or {}))

    make()
    return make


def milliseconds(timeout: float | None) -> int:
    """Seconds as the readers count: -1 for ever."""
    if timeout is None:
        return -1
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= _LONGEST_TIMEOUT:
        raise ConfigError(f"timeout={timeout!r}: seconds from 0 to {_LONGEST_TIMEOUT} are needed, or None")
    return round(timeout * 1000)


class ArrowStream:
    """An Arrow stream of a consumer's records. Consume it once.

    The `arrow_stream` of a consumer makes it.

    Example:
        >>> pa.table(consumer.arrow_stream(timeout=1.0)).num_rows
        3
    """

    def __init__(self, reader: FetchReader) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream (PyCapsule interface); `requested_schema` is not followed."""
        return self._reader.stream_capsule()

    def __arrow_c_schema__(self) -> object:
        """The stream's schema (PyCapsule interface)."""
        return self._reader.schema_capsule()

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the stream as a `pyarrow.RecordBatchReader`.

        Returns:
            The reader, which blocks the thread that reads it.
        """
        from pyarrow import RecordBatchReader

        return RecordBatchReader.from_stream(self)


def repr_of(consumer: object, core: ConsumerCore, *, closed: bool) -> str:
    """How `Consumer` and `AsyncConsumer` show themselves."""
    group = f" for group {core.config.group_id!r}" if core.config.group_id is not None else ""
    return f"<{type(consumer).__name__} of {len(core.assignment)} partitions{group}{', closed' if closed else ''}>"
