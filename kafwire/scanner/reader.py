"""A bounded read: its arguments and its stream; the common part of `Scan` and `AsyncScan`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata import TopicInfo
from kafwire.cluster.offset_spec import Bound, Timestamps
from kafwire.config import ClientConfig, ScanConfig
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.fetch.read_plan import LASTING_LAYOUTS
from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass
from kafwire.records._arrow import Layout
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.patched import reader_waiter
from kafwire.scanner.plan import ScanBudget, scan_plan
from kafwire.scanner.ranges import Bounds, Range, plan_ranges
from kafwire.serializer_calls import Deserializers

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.scanner.progress import Bar

# True: show the bar if standard error is a terminal.
ProgressOption = bool | Literal["force"]
Found = list[tuple[Range, TopicInfo]]

_ARGUMENTS = ("topics", "partitions", "start", "end", "columns", "layout", "timestamps", "progress")


@dataclass(frozen=True, slots=True)
class Reading:
    """The options of a scan's reader."""

    config: ScanConfig
    columns: Sequence[str] | None
    layout: Mapping[str, Any]
    window: tuple[int, int] | None

    def layout_of(self, *where: Any, transient: bool = False) -> Layout:
        """Return the Arrow layout of a topic and partition, or of none."""
        return Layout(*where, columns=self.columns, transient=transient, **self.layout)

    def schema_capsule(self, ranges: Sequence[Range]) -> object:
        """Return the schema of an Arrow stream of these ranges, with the columns of formats."""
        layout, deserializers = self.layout_of(), Deserializers.of(self.config, self.layout)
        if deserializers is None or not deserializers.has_columns:
            return layout.__arrow_c_schema__()
        from kafwire.consumer.delivery.typed_stream import typed_schema

        return typed_schema(layout, deserializers, one_topic(ranges))


def one_topic(ranges: Sequence[Range]) -> str:
    """Return the topic of ranges; "" for several topics."""
    topics = {each.topic for each in ranges}
    return topics.pop() if len(topics) == 1 else ""


class Asked:
    """A scan's arguments, checked: `ConfigError` for bad ones before any request is sent."""

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
        timestamps: Timestamps | None,
        progress: ProgressOption,
        options: Mapping[str, Any],
    ) -> None:
        """With a `cluster`, the options of connections are those of the cluster."""
        config = ScanConfig.build(options, others=_ARGUMENTS)
        if cluster is not None:
            shared = {f.name: getattr(cluster.config, f.name) for f in fields(ClientConfig) if f.name not in options}
            config = replace(config, **shared)
        names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else []
        if isinstance(columns, str):
            raise ConfigError(f"columns: a list of names is needed, not {columns!r}")
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigError(f"topics: a name or a list of names is needed, not {topics!r}")
        self._bounds = Bounds(names, partitions, start, end, timestamps)
        chosen = None if columns is None else list(columns)  # it may be an iterator
        self.reading = Reading(config, chosen, dict(layout or {}), self._bounds.window)
        self.reading.layout_of()  # raises an error for a wrong column
        self.title = f"reading {', '.join(names)}" if _is_shown(progress) else None
        self.force = progress == "force"

    async def find(self, cluster: Cluster) -> Found:
        """Return the ranges of offsets to read."""
        level = int(self.reading.config.isolation_level == "read_committed")
        return await plan_ranges(cluster, self._bounds, isolation_level=level)


class BoundedRead:
    """The records of known ranges, for one use. A partition's records come in order; partitions are mixed."""

    ranges: list[Range]

    def __init__(
        self,
        engine: Engine,
        cluster: Cluster,
        reading: Reading,
        found: Found,
        on_end: Callable[[], object] | None = None,
        *,
        title: str | None = None,
        force: bool = False,
    ) -> None:
        """Read over the connections of `cluster`, and call `on_end` on the engine at the end."""
        self._engine = engine
        self._reading = reading
        self.ranges = [r for r, _ in found]
        self._topic_ids = {r.topic: info.topic_id for r, info in found}
        fetcher = Fetcher(cluster, reading.config, scan_plan(reading.config), ScanBudget.of(reading.config))
        transient = len(self.ranges) > LASTING_LAYOUTS
        cursors = [
            fetcher.add(
                info,
                r.partition,
                reading.layout_of(r.topic, r.partition, transient=transient),
                start=r.start,
                end=r.end,
            )
            for r, info in found
        ]
        self._bar = None
        if title is not None:
            from kafwire.scanner.progress import Bar

            self._bar = Bar(title, cursors, fetcher.queue, force=force)
        self._start_fetching: Callable[[], object] | None = fetcher.start
        self._deserializers = Deserializers.of(reading.config, reading.layout)
        self._reader = FetchReader(
            fetcher.queue,
            reading.layout_of(),
            chunk_bytes=reading.config.chunk_bytes,
            max_decompressed=reading.config.max_decompressed,
            verify_crc=reading.config.check_crcs,
            skip_corrupt=reading.config.on_corrupt == "skip",
            deserializer=self._deserializers,
            timestamps=reading.window,
            waiter=reader_waiter(engine.waiter, lambda timeout_ms: engine.run(fetcher.readable, -1, timeout_ms)),
            on_close=_closer(engine, on_end, fetcher, self._bar),
        )
        self._handed_over = False

    def __repr__(self) -> str:
        ranges = getattr(self, "ranges", ())  # an error report may show an object whose `__init__` failed
        rows = sum(r.end - r.start for r in ranges)
        return f"<{type(self).__name__} of {len(ranges)} partitions, at most {rows} records>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the records as an Arrow C stream (PyCapsule interface); `requested_schema` is ignored."""
        if self._is_typed:
            return self.to_reader().__arrow_c_stream__(requested_schema)
        return self._capsule()

    def _capsule(self) -> object:
        self._start()
        capsule = self._reader.stream_capsule()
        self._handed_over = True  # the stream now closes the reader
        return capsule

    @property
    def _is_typed(self) -> bool:
        """True if keys or values are columns of a format."""
        return self._deserializers is not None and self._deserializers.has_columns

    def __arrow_c_schema__(self) -> object:
        """Return the stream's schema (PyCapsule interface)."""
        return self._reading.schema_capsule(self.ranges)

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the records as a `pyarrow.RecordBatchReader`.

        Returns:
            The reader, which blocks the thread that reads it.

        Raises:
            KafkaError: the process is a fork of the one that created the scan.

        Example:
            >>> kafwire.scan(bootstrap, topic, columns=["value"]).to_reader().read_all().num_rows
            3
        """
        from pyarrow import RecordBatchReader

        if self._is_typed:
            from kafwire.consumer.delivery.typed_stream import typed_stream

            assert self._deserializers is not None
            return typed_stream(self._capsule(), self._deserializers, one_topic(self.ranges))
        return RecordBatchReader.from_stream(self)

    def _end(self) -> None:
        if not self._engine.is_foreign:
            self._start_fetching = None
            self._reader.close()

    def __del__(self) -> None:
        if not getattr(self, "_handed_over", True):
            self._end()

    def _start(self) -> None:
        self._engine.check_process()
        start, self._start_fetching = self._start_fetching, None
        if start is not None:
            self._engine.start(start)
            if self._bar is not None:
                self._bar.start()


def _is_shown(progress: ProgressOption) -> bool:
    """Return True if a bar must be shown; `ConfigError` if it cannot be shown."""
    if not isinstance(progress, bool) and progress != "force":
        raise ConfigError(f'progress is True, False or "force", not {progress!r}')
    if progress is False:
        return False
    if find_spec("rich") is None:
        raise ConfigError('progress needs the package rich: pip install "kafwire[progress]"')
    return progress == "force" or (sys.stderr is not None and sys.stderr.isatty())


def _closer(
    engine: Engine, on_end: Callable[[], object] | None, fetcher: Fetcher, bar: Bar | None
) -> Callable[[], None]:
    """Return the function that ends a read, from any thread. A reference to the Scan would keep it from being freed."""

    def on_engine() -> None:
        fetcher.stop()
        if on_end is not None:
            on_end()

    def closed() -> None:
        engine.start(on_engine)
        if bar is not None:
            bar.stop()

    return closed
