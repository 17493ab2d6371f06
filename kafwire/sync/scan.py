"""`scan`: an exact, bounded read of topics as an Arrow stream."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from kafwire._arrow import Layout
from kafwire._slices import SliceReader
from kafwire.config import ClientConfig, ScanConfig
from kafwire.errors import ConfigError, KafkaError, broker_error
from kafwire.logic.fetch_plan import Cursor
from kafwire.logic.metadata import TopicInfo
from kafwire.logic.split import cut
from kafwire.net.cluster import Cluster
from kafwire.net.consumer import LASTING_LAYOUTS
from kafwire.net.engine import Engine, engine
from kafwire.net.ranges import Bound, Bounds, Range, Timestamps, plan_ranges
from kafwire.net.scan import UNKNOWN_TOPIC_ID, ScanFetcher

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.records import Batch
    from kafwire.sync.progress import Bar

# True: where standard error is a terminal.
ProgressOption = bool | Literal["force"]

_ARGUMENTS = ("topics", "partitions", "start", "end", "columns", "layout", "timestamps", "progress")


def scan(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    partitions: Sequence[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    columns: Sequence[str] | None = None,
    layout: Mapping[str, Any] | None = None,
    timestamps: Timestamps | None = None,
    progress: ProgressOption = False,
    **options: Any,
) -> Scan:
    """Read the records of `topics` between `start` and `end`, all partitions in parallel, without a group or session.

    `start` and `end` are "earliest", "latest", a datetime with a time zone, milliseconds since the epoch, or a mapping
    of `TopicPartition` to an offset (or "earliest", "latest"), which then also chooses the partitions. `end` is
    exclusive, and fixed by this call: records that arrive later are not read. `columns` names those of the schema
    (topic, partition, offset, timestamp, timestamp_type, key, value, headers) that are wanted, in that order; others
    cost nothing. `layout` varies the schema: {"names": {"timestamp": "ts"}} renames columns, and there are
    "timestamp_unit" ("ms", "us") and "timestamp_type" ("int8", "int32"). Options are those of
    `kafwire.config.ScanConfig`. `Client.scan` does the same over connections that stay.

    `timestamps` keeps only records whose timestamp lies in [from, to): datetimes with a time zone, milliseconds, or
    None for an open side. A datetime as `start` or `end` names an offset instead, that of the first record at or after
    it, between which earlier and later records may lie. Batches that hold nothing of the time asked for are passed over
    by their headers, without a look at their checksum; what comes before the first record of that time is not fetched.

    `progress=True` shows a progress bar on standard error if that is a terminal, "force" in any case; it needs the
    package rich (`kafwire[progress]`).

    Returns a `Scan`. Raises `ConfigError`, `BrokerError` for an unknown topic or an offset that does not exist,
    `KafkaConnectionError`.
    """
    return Scan(
        None,
        topics,
        partitions=partitions,
        start=start,
        end=end,
        columns=columns,
        layout=layout,
        timestamps=timestamps,
        progress=progress,
        options={"bootstrap_servers": bootstrap_servers, **options},
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a scan reads what it covers."""

    config: ScanConfig
    columns: Sequence[str] | None
    layout: Mapping[str, Any]
    window: tuple[int, int] | None

    def layout_of(self, *where: Any, transient: bool = False) -> Layout:
        return Layout(*where, columns=self.columns, transient=transient, **self.layout)


class Scan:
    """A bounded read, to be consumed once: as an Arrow stream (`pyarrow.table(scan)`), or by `batches()`.

    A partition's records come in order; partitions are mixed. `ranges` says what is read. `split` divides it among
    several readers.
    """

    ranges: list[Range]

    def __init__(
        self,
        cluster: Cluster | None,
        topics: str | Sequence[str],
        *,
        partitions: Sequence[int] | None,
        start: Bound,
        end: Bound,
        columns: Sequence[str] | None,
        layout: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        timestamps: Timestamps | None = None,
        progress: ProgressOption = False,
    ) -> None:
        """Plan the read, over the connections of `cluster`, or over its own (None), which it then also closes."""
        config = ScanConfig.build(options, others=_ARGUMENTS)
        if cluster is not None:
            shared = {f.name: getattr(cluster.config, f.name) for f in fields(ClientConfig) if f.name not in options}
            config = replace(config, **shared)
        names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
        if isinstance(columns, str):
            raise ConfigError(f"columns: a list of names is needed, not {columns!r}")
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigError(f"topics: a name or a list of names is needed, not {topics!r}")
        bounds = Bounds(names, partitions, start, end, timestamps)
        level = int(config.isolation_level == "read_committed")
        self._begin(
            cluster,
            _Reading(config, columns, dict(layout or {}), bounds.window),
            lambda cluster: plan_ranges(cluster, bounds, isolation_level=level),
            title=f"reading {', '.join(names)}" if _is_shown(progress) else None,
            force=progress == "force",
        )

    @classmethod
    def _of(cls, split: Split) -> Self:
        """Read a part of another scan."""
        scan = cls.__new__(cls)
        scan._begin(None, split._reading, lambda cluster: _same_topics(cluster, split))
        return scan

    def _begin(
        self,
        cluster: Cluster | None,
        reading: _Reading,
        plan: Callable[[Cluster], Coroutine[Any, Any, list[tuple[Range, TopicInfo]]]],
        *,
        title: str | None = None,
        force: bool = False,
    ) -> None:
        schema = reading.layout_of()  # a wrong column is told before a broker is asked for anything
        config = reading.config
        self._handed_over = True  # until there is something to close
        self._engine = engine()
        self._reading = reading
        owned = cluster is None
        if cluster is None:
            cluster = Cluster(self._engine, config)
        try:
            found = self._engine.run(plan(cluster))
        except BaseException:
            if owned:
                self._engine.run(cluster.close())
            raise
        self.ranges = [r for r, _ in found]
        self._topic_ids = {r.topic: info.topic_id for r, info in found}
        cursors = [
            Cursor(number, r.topic, info.topic_id, r.partition, r.start, r.end)
            for number, (r, info) in enumerate(found)
        ]
        fetcher = ScanFetcher(cluster, config, cursors)
        for r in self.ranges:
            layout = reading.layout_of(r.topic, r.partition, transient=len(self.ranges) > LASTING_LAYOUTS)
            fetcher.queue.add(r.topic, r.partition, layout)
        self._bar = None
        if title is not None:
            from kafwire.sync.progress import Bar

            self._bar = Bar(title, cursors, fetcher.queue, force=force)
        self._start_fetching: Callable[[], object] | None = fetcher.start
        self._reader = SliceReader(
            fetcher.queue,
            schema,
            chunk_bytes=config.chunk_bytes,
            max_decompressed=config.max_decompressed,
            verify_crc=config.check_crcs,
            timestamps=reading.window,
            on_close=_closer(self._engine, cluster if owned else None, fetcher, self._bar),
        )
        self._handed_over = False

    def __repr__(self) -> str:
        rows = sum(r.end - r.start for r in self.ranges)
        return f"<Scan of {len(self.ranges)} partitions, at most {rows} records>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The records as an Arrow C stream (PyCapsule interface); `requested_schema` is not followed."""
        self._start()
        capsule = self._reader.stream_capsule()
        self._handed_over = True  # the stream now closes what it reads from
        return capsule

    def __arrow_c_schema__(self) -> object:
        """The stream's schema (PyCapsule interface)."""
        return self._reader.schema_capsule()

    def to_reader(self) -> pa.RecordBatchReader:
        """The records as a `pyarrow.RecordBatchReader`."""
        from pyarrow import RecordBatchReader

        return RecordBatchReader.from_stream(self)

    def batches(self) -> Iterator[Batch]:
        """The records as `Batch` objects of one partition each; raises `KafkaError` where the stream would fail."""
        self._start()
        yield from self._reader

    def split(self, pieces: int) -> list[Split]:
        """Divide the read into at most `pieces` of about as many offsets each; this scan is closed.

        Partitions are given out whole where that fits, and cut where it does not. The pieces cover exactly what the
        scan would have read, each record in one of them. Every `Split` is read over connections of its own, with
        budgets of its own (`fetch_memory`): in threads, or in other processes, as it can be pickled. There is one piece
        at least, which may be empty. Raises `KafkaError` for a scan that is being read.
        """
        if isinstance(pieces, bool) or not isinstance(pieces, int) or pieces < 1:
            raise ConfigError(f"a scan is split into one piece or more, not {pieces!r}")
        self._engine.check_process()
        if self._start_fetching is None:
            raise KafkaError("this scan is being read, or is closed: split a new one, before it is read")
        self._start_fetching = None
        found = cut([(r.start, r.end) for r in self.ranges], pieces) or [[]]
        self.close()
        return [
            Split(
                tuple(self.ranges[n]._replace(start=start, end=end) for n, start, end in piece),
                self._topic_ids,
                self._reading,
            )
            for piece in found
        ]

    def close(self) -> None:
        """Read no more, and close the connections if they are its own. Happens by itself at the end of the read."""
        if not self._engine.is_foreign:
            self._start_fetching = None
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_handed_over", True):
            self.close()

    def _start(self) -> None:
        self._engine.check_process()
        start, self._start_fetching = self._start_fetching, None
        if start is not None:
            self._engine.start(start)
            if self._bar is not None:
                self._bar.start()


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a scan, which is read by whoever has it, as often as wanted: pickle it to another process.

    It holds the exact offsets (`ranges`), which topics are meant, and how to connect and read; connections are made
    when it is read, and closed at the end. Each reading is as that of a `Scan`. A topic that was deleted and made anew
    meanwhile raises `BrokerError`, as do offsets that were deleted.
    """

    ranges: tuple[Range, ...]
    _topic_ids: Mapping[str, uuid.UUID]
    _reading: _Reading

    def __repr__(self) -> str:
        rows = sum(r.end - r.start for r in self.ranges)
        return f"<Split of {len(self.ranges)} partitions, at most {rows} records>"

    def scan(self) -> Scan:
        """A new `Scan` of this part."""
        return Scan._of(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The records as an Arrow C stream (PyCapsule interface); `requested_schema` is not followed."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The stream's schema (PyCapsule interface)."""
        return self._reading.layout_of().__arrow_c_schema__()

    def to_reader(self) -> pa.RecordBatchReader:
        """The records as a `pyarrow.RecordBatchReader`."""
        return self.scan().to_reader()

    def batches(self) -> Iterator[Batch]:
        """The records as `Batch` objects of one partition each; raises `KafkaError` where the stream would fail."""
        with self.scan() as scan:
            yield from scan.batches()


async def _same_topics(cluster: Cluster, split: Split) -> list[tuple[Range, TopicInfo]]:
    """The ranges of a split. A topic of the same name and another id holds other records."""
    infos = {topic: await cluster.topic(topic, fresh=True) for topic in dict.fromkeys(r.topic for r in split.ranges)}
    for topic, info in infos.items():
        if info.topic_id != split._topic_ids[topic]:
            raise broker_error(
                UNKNOWN_TOPIC_ID,
                f"topic {topic!r} was deleted and made anew since the scan was split: the offsets are those of the old "
                "one; scan it again",
            )
    return [(r, infos[r.topic]) for r in split.ranges]


def _is_shown(progress: ProgressOption) -> bool:
    """Whether a bar is to be shown; `ConfigError` where one is wanted that cannot be."""
    if not isinstance(progress, bool) and progress != "force":
        raise ConfigError(f'progress is True, False or "force", not {progress!r}')
    if progress is False:
        return False
    if find_spec("rich") is None:
        raise ConfigError('progress needs the package rich: pip install "kafwire[progress]"')
    return progress == "force" or (sys.stderr is not None and sys.stderr.isatty())


def _closer(engine: Engine, cluster: Cluster | None, fetcher: ScanFetcher, bar: Bar | None) -> Callable[[], None]:
    """What ends a read, from whichever thread its reader dies in. Must not know the Scan, or it would never die."""

    def on_engine() -> None:
        fetcher.stop()
        if cluster is not None:
            cluster.shut()

    def closed() -> None:
        engine.start(on_engine)
        if bar is not None:
            bar.stop()

    return closed
