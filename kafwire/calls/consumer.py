"""The calls of `Consumer` and `AsyncConsumer`: arguments checked, then one piece of work on the engine.

Each method checks its arguments in the caller's thread, as their iterators may run any code, and returns the function
that the engine calls. A call that sends nothing returns its result.

The calls that deliver records stand in the faces, as a layer would cost each of them: `poll`, `batches`, the loops over
records, and those of streams. Their readers check a timeout by `timeouts.milliseconds`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import Place
from kafwire.cluster.offset_spec import (
    Bound,
    OffsetSpec,
    assignment_of,
    partition_of,
    partitions_of,
    place_of,
    resolve_offset,
    resolve_offset_in,
)
from kafwire.config import ConsumerConfig, from_config
from kafwire.config.bootstrap import shown_servers
from kafwire.consumer.core import ConsumerCore, nothing_assigned
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.delivery.partition_claim import Claim, not_explicit
from kafwire.consumer.delivery.partition_feed import PartitionFeed
from kafwire.consumer.group.assignment import Selection
from kafwire.consumer.group.rebalance_handlers import Handlers
from kafwire.consumer.offsets.commits import ToCommit
from kafwire.consumer.offsets.hand import Hand, Handed
from kafwire.consumer.offsets.partition_progress import PartitionProgress
from kafwire.consumer.offsets.start_positions import Start
from kafwire.errors import ConfigError
from kafwire.handles import refuse_copy
from kafwire.records._arrow import Layout
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine, Work
from kafwire.serializer_calls import Deserializers
from kafwire.timeouts import milliseconds, timeout_of
from kafwire.types import CommittedOffset, TopicPartition

_P = ParamSpec("_P")
_T = TypeVar("_T")

ARGUMENTS = (
    *("topics", "pattern", "assign", "start", "columns", "layout"),
    *("on_assigned", "on_revoked", "on_lost"),
)
keywords_of = partial(from_config, ConsumerConfig, arguments=ARGUMENTS)


class Move(NamedTuple, Generic[_T]):
    """A call that changes the next records. Undelivered records of its partitions are fetched again before its work."""

    work: Work[_T]
    partitions: Collection[TopicPartition] | None = None  # None: all
    seeks: bool = False  # whole batches of the partitions leave the hand after the work
    leaves: bool = False  # a member's `on_revoked` is called before the work


class ConsumerCalls:
    """The calls of `Consumer` and `AsyncConsumer`, which document them."""

    _core: ConsumerCore

    def __init__(self, core: ConsumerCore, hand: Hand) -> None:
        """`hand` has the records that the caller of a call may hold."""
        self._core = core
        self._hand = hand

    def new_claim(self, partition: TopicPartition, timeout: float | None) -> tuple[Claim, int]:
        """Return the claim of a stream of one partition, not taken yet, and the stream's timeout in milliseconds."""
        return self._core.assignment.new_claim(partition_of(partition)), milliseconds(timeout)

    def new_feed(self, timeout: float | None) -> tuple[PartitionFeed, Move[None], int]:
        """Return the feed of streams, the call that opens it, and the streams' timeout in milliseconds."""
        timeout_ms, feed = milliseconds(timeout), self._core.new_feed()
        return feed, Move(partial(self._core.open_feed, feed)), timeout_ms

    def arrow_stream(self, timeout: float | None) -> Move[Callable[..., FetchReader]]:
        """Begin to read all partitions; return the function that makes their reader."""
        limit_ms = milliseconds(timeout)

        async def ask() -> Callable[..., FetchReader]:
            if not self._core.fetcher.cursors and not self._core.is_member:
                raise nothing_assigned()
            await self._core.denied.try_all()
            if limit_ms >= 0:
                await self._core.assigned()
            await self._core.assignment.ask()
            return partial(self._core.reader, silence_ms=limit_ms)

        return Move(ask)

    def assign(self, partitions: Iterable[TopicPartition]) -> Move[None]:
        """Read only these partitions."""
        wanted = assignment_of(partitions, "assign(list(offsets)), then seek for each")
        return Move(partial(self._core.assign, wanted), leaves=True)

    def subscribe(self, topics: str | Iterable[str] | None, pattern: str | None) -> Move[None]:
        """Read only these topics, or those that match a pattern; `ConfigError` for both or neither."""
        if (topics is None) == (pattern is None):
            raise ConfigError("subscribe to topics, by their names or by a pattern: either topics or pattern is needed")
        names = [] if topics is None else names_of(topics)
        return Move(partial(self._core.subscribe, names, None if pattern is None else pattern_of(pattern)))

    def unsubscribe(self) -> Move[None]:
        """Read no partition any more."""
        return Move(partial(self._core.assign, []), leaves=True)

    def seek(self, partition: TopicPartition, offset: int) -> Move[None]:
        """Continue at an offset."""
        where = partition_of(partition)
        return Move(partial(self._core.positions.seek, where, offset), [where], seeks=True)

    def seek_to(self, when: OffsetSpec, partitions: Iterable[TopicPartition] | None) -> Move[dict[TopicPartition, int]]:
        """Continue at a time, or at the beginning or end of the log."""
        place, chosen = place_of(when), _chosen(partitions)
        return Move(partial(self._core.positions.seek_to, place, chosen), chosen, seeks=True)

    def pause(self, partitions: Iterable[TopicPartition]) -> Move[None]:
        """Fetch and deliver these partitions no more."""
        chosen = partitions_of(partitions)
        return Move(partial(self._core.assignment.pause, chosen, paused=True), chosen)

    def resume(self, partitions: Iterable[TopicPartition]) -> Work[None]:
        """Fetch and deliver these partitions again."""
        return partial(self._core.assignment.pause, partitions_of(partitions), paused=False)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, OffsetSpec]
    ) -> Work[dict[TopicPartition, int | None]]:
        """Look up the first offset at or after a time, for each partition."""
        return partial(self._core.positions.offsets_for_times, times_of(timestamps))

    def ends(self, partitions: Iterable[TopicPartition] | None, place: Place) -> Work[dict[TopicPartition, int]]:
        """Look up the first or the end offset of each partition."""
        return partial(self._core.positions.ends, _chosen(partitions), place)

    def lag(self, partition: TopicPartition | None) -> int | dict[TopicPartition, int | None] | None:
        """Return the lag of a partition, or (None) of all."""
        positions, in_hand = self._core.positions, self._hand.next()
        if partition is not None:
            return positions.lag(partition, in_hand)
        return {where: positions.lag(where, in_hand) for where in self._core.assignment.partitions}

    def commit(self, what: ToCommit | None) -> Work[None]:
        """Commit `what`, or (None) the processed offsets with the rows in the caller's hand."""
        handed = [] if what is not None else self._core.covered(self._hand)
        return partial(self._core.commits.commit, what, handed=handed)

    def committed(
        self, partitions: Iterable[TopicPartition] | None
    ) -> Work[dict[TopicPartition, CommittedOffset | None]]:
        """Look up the group's committed offsets."""
        return partial(self._core.commits.committed, _chosen(partitions))


class StreamCalls:
    """The calls of `PartitionStream` and `AsyncPartitionStream` that wait for nothing; their base."""

    __reduce_ex__ = refuse_copy

    _has_ended = _paused = False
    _progress: PartitionProgress | None = None

    def __init__(self, core: ConsumerCore, engine: Engine, claim: Claim, hand: Hand, *, explicit: bool) -> None:
        self.topic, self.partition = claim.where
        self._core, self._engine = core, engine
        self._claim = claim
        self._hand = hand
        self._explicit = explicit
        self._closed = False

    @property
    def is_lost(self) -> bool:
        """True if another member processes the records in hand: the partition was lost, or revoked too early.

        Its offsets cannot be committed, and its results must not be written any more.
        """
        return self._claim.is_lost

    @property
    def has_ended(self) -> bool:
        """True if no more records come: the partition is given up, or the stream is closed."""
        return self._closed or self._claim.is_ending

    def complete(self, first_offset: int, next_offset: int) -> None:
        """Complete the records of [first_offset, next_offset) of an `explicit` stream. In any order, in any thread.

        Commits go up to the first record that is not completed. At most `max_uncommitted` offsets are delivered beyond
        it. Undelivered records are not completed by this.

        Args:
            first_offset: the offset of the first record.
            next_offset: the offset after the last record.

        Raises:
            KafkaError: the stream is not `explicit`.
            ValueError: the range ends before it begins.

        Example:
            >>> stream = consumer.partition_stream(partition, explicit=True)
            >>> batch = next(stream)
            >>> for record in reversed(list(batch)):
            ...     stream.complete(record.offset, record.offset + 1)
            >>> stream.commit()
            >>> consumer.committed()[partition]
            3
        """
        if not self._explicit:
            raise not_explicit(self.topic, self.partition)
        if self._progress is not None:
            self._progress.complete(first_offset, next_offset)

    def _covered(self, what: object) -> list[Handed]:
        """Return the rows in hand that `commit` covers."""
        return [] if what is not None or self._explicit else self._core.covered(self._hand)

    def pause(self) -> None:
        """Stop fetching and delivering until `resume`. Heartbeats continue."""
        self._paused = True
        self._engine.start(self._core.assignment.pause_claimed, self._claim, True)

    def resume(self) -> None:
        """Fetch and deliver again."""
        self._paused = False
        self._engine.start(self._core.assignment.pause_claimed, self._claim, False)

    def __repr__(self) -> str:
        state = ", lost" if self.is_lost else ", ended" if self._closed or self._claim.is_over else ""
        return f"<{type(self).__name__} of {self.topic}-{self.partition}{state}>"


def consumer_core(
    bootstrap_servers: str | Iterable[str],
    options: Mapping[str, Any],
    engine: Engine | None,
    topics: str | Iterable[str] | None,
    pattern: str | None,
    assign: Iterable[TopicPartition] | None,
    start: Bound | None,
    columns: Sequence[str] | None,
    layout: Mapping[str, Any] | None,
    handlers: Handlers,
    *,
    blocking: bool = False,
) -> ConsumerCore:
    """Return the core of a new consumer, not started; `ConfigError` for bad arguments of its constructor."""
    config = ConsumerConfig.build({"bootstrap_servers": bootstrap_servers, **options}, others=ARGUMENTS)
    make_layout = layouts(columns, layout)
    selection = selection_of(topics, assign, start, pattern)
    deserializers = Deserializers.of(config, layout, blocking=blocking)
    cluster = Cluster(default_engine() if engine is None else engine, config)
    return ConsumerCore(cluster, config, selection, make_layout, deserializers, handlers)


def servers_first(init: Callable[_P, None]) -> Callable[_P, None]:
    """Wrap an `__init__` so that topics given first, as in kafka-python and aiokafka, raise a `ConfigError`.

    The error has the line to write instead.
    """

    @wraps(init)
    def checked(*args: _P.args, **options: _P.kwargs) -> None:
        topics = list(args[2:] if "bootstrap_servers" not in options else args[1:])
        if ("bootstrap_servers" in options and topics) or len(topics) > 1:
            shown = shown_servers(topics if len(topics) > 1 else topics[0])  # it hides passwords
            line = f"{type(args[0]).__name__}(bootstrap_servers, topics={shown})"
            raise ConfigError(f"the servers come first, then one topic or a list of topics: write {line}")
        init(*args, **options)

    return checked


def selection_of(
    topics: str | Iterable[str] | None,
    assign: Iterable[TopicPartition] | None,
    start: Bound | None,
    pattern: str | None = None,
) -> Selection:
    """Return the checked selection and start of a consumer; `ConfigError` for what needs no broker to be wrong."""
    if sum(each is not None for each in (topics, assign, pattern)) > 1:
        raise ConfigError(
            "topics, pattern and assign exclude each other: all partitions of topics, by their names or by a "
            "pattern, or partitions named one by one"
        )
    pattern = None if pattern is None else pattern_of(pattern)
    names = None if topics is None else names_of(topics)
    named = None if assign is None else assignment_of(assign, "assign=list(offsets), start=offsets")
    begin: Start = None
    if isinstance(start, Mapping):
        begin = {partition_of(where): resolve_offset_in(where, point, "start") for where, point in start.items()}
    elif start is not None:
        begin = resolve_offset(start, "start")
    return Selection(names, named, begin, pattern)


def closing_seconds(timeout: float) -> float:
    """Return the checked timeout of a consumer's close, which always has a limit."""
    seconds = timeout_of(timeout)
    if seconds is None:
        raise ConfigError("timeout=None: a close needs a number of seconds")
    return seconds


def names_of(topics: str | Iterable[str], *, in_share_group: bool = False) -> list[str]:
    """Return a list of distinct topic names; `ConfigError` for anything but names."""
    names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"topics: a name or a list of names is needed, not {topics!r}")
    for name in names:
        if name.startswith("^"):
            hint = f"write pattern={name[1:].removesuffix('$')!r}, which whole names match"
            if in_share_group:
                hint = "a share group subscribes to topics by their names"
            raise ConfigError(f"topics: {name!r} is a pattern: {hint}")
    return list(dict.fromkeys(names))


def pattern_of(pattern: Any) -> str:
    """Return a regular expression that Python compiles; `ConfigError` for anything else."""
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(f"pattern={pattern!r}: a regular expression is needed, as text, which whole names match")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"pattern={pattern!r} is no regular expression: {error}") from None
    return pattern


def _chosen(partitions: Iterable[TopicPartition] | None) -> list[TopicPartition] | None:
    return None if partitions is None else partitions_of(partitions)


def times_of(timestamps: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, Place]:
    """Return the checked place of each partition; `ConfigError` for anything but a mapping of partitions to times."""
    if not isinstance(timestamps, Mapping):
        raise ConfigError(f"a mapping of TopicPartition(topic, partition) to a time is needed, not {timestamps!r}")
    return {partition_of(where): place_of(when) for where, when in timestamps.items()}


def layouts(columns: Sequence[str] | None, layout: Mapping[str, Any] | None) -> Callable[..., Layout]:
    """Return a function that makes the layout of a topic and partition; a wrong column raises an error at once."""
    if isinstance(columns, str):
        raise ConfigError(f"columns: a list of names is needed, not {columns!r}")

    def make(topic: str | None = None, partition: int = -1, *, transient: bool = False) -> Layout:
        return Layout(topic, partition, columns=columns, transient=transient, **(layout or {}))

    make()
    return make
