"""`scan`: an exact, bounded read of topics as an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kafwire._arrow import Layout
from kafwire._slices import SliceReader
from kafwire.config import ScanConfig
from kafwire.errors import ConfigError
from kafwire.logic.fetch_plan import Cursor
from kafwire.net.cluster import Cluster
from kafwire.net.engine import Engine, engine
from kafwire.net.ranges import Bound, Bounds, Range, plan_ranges
from kafwire.net.scan import ScanFetcher

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.records import Batch

_ARGUMENTS = ("topics", "partitions", "start", "end", "columns", "layout")


def scan(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    partitions: Sequence[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    columns: Sequence[str] | None = None,
    layout: Mapping[str, Any] | None = None,
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
        options={"bootstrap_servers": bootstrap_servers, **options},
    )


class Scan:
    """A bounded read, to be consumed once: as an Arrow stream (`pyarrow.table(scan)`), or by `batches()`.

    A partition's records come in order; partitions are mixed. `ranges` says what is read.
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
    ) -> None:
        """Plan the read, over the connections of `cluster`, or over its own (None), which it then also closes."""
        layout = layout or {}
        config = ScanConfig.build(options, others=_ARGUMENTS)
        names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
        if isinstance(columns, str):
            raise ConfigError(f"columns: a list of names is needed, not {columns!r}")
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigError(f"topics: a name or a list of names is needed, not {topics!r}")
        bounds = Bounds(names, partitions, start, end)
        empty = Layout(columns=columns, **layout)  # a wrong column is told before a broker is asked for anything
        self._handed_over = True  # until there is something to close
        self._engine = engine()
        owned = cluster is None
        if cluster is None:
            cluster = Cluster(self._engine, config)
        isolation_level = int(config.isolation_level == "read_committed")
        try:
            found = self._engine.run(plan_ranges(cluster, bounds, isolation_level=isolation_level))
        except BaseException:
            if owned:
                self._engine.run(cluster.close())
            raise
        self.ranges = [r for r, _ in found]
        cursors = [
            Cursor(number, r.topic, info.topic_id, r.partition, r.start, r.end)
            for number, (r, info) in enumerate(found)
        ]
        fetcher = ScanFetcher(cluster, config, cursors)
        for r in self.ranges:
            fetcher.queue.add(r.topic, r.partition, Layout(r.topic, r.partition, columns=columns, **layout))
        self._start_fetching: Callable[[], object] | None = fetcher.start
        self._reader = SliceReader(
            fetcher.queue,
            empty,
            chunk_bytes=config.chunk_bytes,
            max_decompressed=config.max_decompressed,
            verify_crc=config.check_crcs,
            on_close=_closer(self._engine, cluster if owned else None, fetcher),
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

    def close(self) -> None:
        """Read no more, and close the connections if they are its own. Happens by itself at the end of the read."""
        if not self._engine.is_foreign:
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


def _closer(engine: Engine, cluster: Cluster | None, fetcher: ScanFetcher) -> Callable[[], None]:
    """What ends a read, from whichever thread its reader dies in. Must not know the Scan, or it would never die."""

    def on_engine() -> None:
        fetcher.stop()
        if cluster is not None:
            cluster.shut()

    return lambda: engine.start(on_engine)
