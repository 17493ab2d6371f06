"""`scan`: an exact, bounded read of topics as an Arrow stream."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafwire.calls.pushing_cluster import CONSUMER, PushingCluster
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.offset_spec import Bound, Timestamps
from kafwire.errors import ConfigError, KafkaError
from kafwire.handles import Closing, refuse_copy
from kafwire.integers import natural
from kafwire.lazy_dataclass import dataclass
from kafwire.records._records import RecordIterator
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.narrowing import Part, Window, both_windows, same_topics, started_by_time
from kafwire.scanner.ranges import Range
from kafwire.scanner.reader import Asked, BoundedRead, Found, ProgressOption, Reading
from kafwire.scanner.split import cut
from kafwire.serializer_calls import Deserializers

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.config.typed_options import ScanOptions
    from kafwire.records import Batch, Record


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
    engine: Engine | None = None,
    **options: Unpack[ScanOptions],
) -> Scan:
    """Read the records of topics between two bounds, all partitions in parallel, without a consumer group.

    The end offsets are captured by this call. Records that arrive later are not read. With
    `isolation_level="read_committed"`, "latest" is the last stable offset, and the read waits until the last stable
    offset has passed an end that you name.

    A bound is "earliest", "latest", a datetime with a time zone (the first record at or after it), `kafwire.Offset(n)`,
    `kafwire.Tail(n)` (n offsets before the end of each partition), or a mapping of `TopicPartition` to one of these or
    to an offset. A mapping also chooses the partitions. A bare number is refused, as it could be an offset, a count or
    a time.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: one topic or several.
        partitions: the partition numbers to read; None reads all.
        start: the start bound.
        end: the end bound; exclusive.
        columns: the columns to decode, in this order, out of topic, partition, offset, timestamp, timestamp_type, key,
            value and headers. None decodes all. Columns that are left out cost no time.
        layout: variations of the schema: `{"names": {"timestamp": "ts"}}` renames columns, "timestamp_unit" is "ms" or
            "us", "timestamp_type" is "int8" or "int32".
        timestamps: a pair (from, to): only records with a timestamp in [from, to) are read. Each is a datetime with a
            time zone, milliseconds since the epoch, or None for an open side. Batches outside of it are skipped by
            their headers, without a check of their checksum.
        progress: True shows a progress bar on standard error if that is a terminal, "force" shows it always. This needs
            the package rich (`kafwire[progress]`).
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ScanConfig`, for example `isolation_level="read_committed"`.

    Returns:
        A `Scan`, which is an Arrow stream.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic or an offset does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: the bounds were not known within `default_api_timeout_ms`. Reading raises it too, if a
            partition delivers no records for that long.

    Example:
        >>> pa.table(kafwire.scan(bootstrap, topic, columns=["offset", "value"])).to_pylist()[0]
        {'offset': 0, 'value': b'EWR-IAH'}
        >>> pa.table(kafwire.scan(bootstrap, topic, start=kafwire.Tail(2), columns=["offset"]))["offset"].to_pylist()
        [1, 2]
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
        engine=engine,
        options={"bootstrap_servers": bootstrap_servers, **options},
    )


class Scan(BoundedRead, Closing):
    """A bounded read. Consume it once: as an Arrow stream (`pyarrow.table(scan)`), by `batches()`, or record by record.

    The records of a partition come in order; partitions are mixed. `ranges` has the offsets that are read.
    `kafwire.scan` makes it.

    Example:
        >>> with kafwire.scan(bootstrap, topic) as scan:
        ...     [(r.partition, r.start, r.end) for r in scan.ranges]
        [(0, 0, 3)]
    """

    __reduce_ex__ = refuse_copy

    _records: RecordIterator | None = None

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
        engine: Engine | None = None,
    ) -> None:
        """Plan the read, over the connections of `cluster`, or (None) over its own, which it closes at the end."""
        asked = Asked(
            cluster,
            topics,
            partitions=partitions,
            start=start,
            end=end,
            columns=columns,
            layout=layout,
            timestamps=timestamps,
            progress=progress,
            options=options,
        )
        Deserializers.of(asked.reading.config, layout, blocking=True)  # raises an error for an async one
        self._open(cluster, asked.reading, asked.find, title=asked.title, force=asked.force, engine=engine)

    @classmethod
    def _of(cls, split: Split, engine: Engine | None) -> Self:
        """Read a part of another scan."""
        scan = cls.__new__(cls)
        scan._open(None, split._reading, lambda cluster: _of_split(cluster, split), engine=engine)
        return scan

    @classmethod
    def _passing(
        cls,
        split: Split,
        columns: Sequence[str] | None,
        parts: Sequence[Part],
        window: Window | None,
        engine: Engine | None,
    ) -> Self:
        """Read these columns of the records of a split that can pass a filter, and perhaps of others."""
        reading = replace(split._reading, columns=columns, window=both_windows(split._reading.window, window))
        scan = cls.__new__(cls)
        scan._open(None, reading, lambda cluster: _of_parts(cluster, split, parts), engine=engine)
        return scan

    def _open(
        self,
        cluster: Cluster | None,
        reading: Reading,
        find: Callable[[Cluster], Coroutine[Any, Any, Found]],
        *,
        title: str | None = None,
        force: bool = False,
        engine: Engine | None = None,
    ) -> None:
        own = None
        if cluster is None:
            cluster = Cluster(default_engine() if engine is None else engine, reading.config)
            own = PushingCluster(cluster, CONSUMER)
        running = cluster.engine
        try:
            found = running.run(find, cluster)
        except BaseException:
            if own is not None:
                running.run(own.close)
            raise
        super().__init__(running, cluster, reading, found, own.end if own else None, title=title, force=force)

    def batches(self) -> Iterator[Batch]:
        """Iterate over the records as batches, each of one partition.

        Returns:
            An iterator of `Batch`.

        Raises:
            KafkaError: the read failed: `BrokerError`, `CorruptBatchError`, `KafkaTimeoutError` and others.

        Example:
            >>> for batch in kafwire.scan(bootstrap, topic).batches():
            ...     print(batch.partition, [record.value for record in batch])
            0 [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
        """
        self._start()
        yield from self._reader

    def __iter__(self) -> Iterator[Record]:
        """Iterate over single records. A second loop continues where the first one stopped.

        Returns:
            An iterator of `Record`.

        Raises:
            KafkaError: as `batches` does; after a `SerializationError`, the next read starts at the same record.

        Example:
            >>> [record.value for record in kafwire.scan(bootstrap, topic)]
            [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
        """
        self._start()
        if self._records is None:
            self._records = RecordIterator(self._reader)
        yield from self._records  # in a generator, which keeps the scan alive

    def split(self, pieces: int) -> list[Split]:
        """Divide the read into pieces of about the same number of offsets, and close this scan.

        The pieces cover exactly the scan's records, each record in one piece. A partition stays whole if it fits into a
        piece, and is cut otherwise. Each `Split` is read over its own connections and with its own `fetch_memory`, in a
        thread or in another process.

        Args:
            pieces: the most pieces; 1 or more.

        Returns:
            The pieces. There is at least one, which may be empty.

        Raises:
            ConfigError: `pieces` is not a whole number from 1 on.
            KafkaError: the scan is being read, or is closed.

        Example:
            >>> splits = kafwire.scan(bootstrap, topic).split(2)
            >>> [pa.table(split).num_rows for split in splits]
            [1, 2]
        """
        _check_pieces(pieces)
        self._engine.check_process()
        if self._start_fetching is None:
            raise KafkaError("this scan is being read, or is closed: split a new one, before it is read")
        self._start_fetching = None
        whole = Split(tuple(self.ranges), self._topic_ids, self._reading)
        self.close()
        return whole.divided(pieces)

    def close(self) -> None:
        """Stop reading, and close the connections that the scan owns. The end of the read does this too."""
        self._end()


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a scan. It can be pickled, and read as often as you like.

    It holds the exact offsets (`ranges`), the ids of the topics, and the options. It connects when it is read, and
    closes the connections at the end. `Scan.split` makes it.

    Raises:
        BrokerError: when it is read: a topic was deleted and recreated, or offsets were deleted.

    Example:
        >>> import pickle
        >>> split, = kafwire.scan(bootstrap, topic).split(1)
        >>> pa.table(pickle.loads(pickle.dumps(split))).num_rows
        3
    """

    ranges: tuple[Range, ...]
    _topic_ids: Mapping[str, uuid.UUID]
    _reading: Reading

    def __repr__(self) -> str:
        rows = sum(r.end - r.start for r in self.ranges)
        return f"<Split of {len(self.ranges)} partitions, at most {rows} records>"

    def divided(self, pieces: int) -> list[Split]:
        """Divide this part once more, as `Scan.split` does.

        Args:
            pieces: the most pieces; 1 or more.

        Returns:
            The pieces. There is at least one, which may be empty.

        Raises:
            ConfigError: `pieces` is not a whole number from 1 on.
        """
        _check_pieces(pieces)
        found = cut([(r.start, r.end) for r in self.ranges], pieces) or [[]]
        return [
            replace(self, ranges=tuple(self.ranges[n]._replace(start=start, end=end) for n, start, end in piece))
            for piece in found
        ]

    def scan(self, *, engine: Engine | None = None) -> Scan:
        """Start to read this part.

        Args:
            engine: the engine to run on; None: the engine of this process.

        Returns:
            A new `Scan`.

        Raises:
            BrokerError: a topic was deleted and recreated.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.
        """
        return Scan._of(self, engine)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the records as an Arrow C stream (PyCapsule interface); `requested_schema` is ignored."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Return the stream's schema (PyCapsule interface)."""
        return self._reading.schema_capsule(self.ranges)

    def to_reader(self) -> pa.RecordBatchReader:
        """Read this part as a `pyarrow.RecordBatchReader`.

        Returns:
            The reader, which blocks the thread that reads it.

        Raises:
            KafkaError: as `Split.scan` does.
        """
        return self.scan().to_reader()

    def batches(self) -> Iterator[Batch]:
        """Iterate over the records of this part as batches, each of one partition.

        Returns:
            An iterator of `Batch`.

        Raises:
            KafkaError: as `Split.scan` and `Scan.batches` do.
        """
        with self.scan() as scan:
            yield from scan.batches()

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the single records of this part, from its beginning.

        Returns:
            An iterator of `Record`.

        Raises:
            KafkaError: as `Split.scan` and `Scan.batches` do.
        """
        with self.scan() as scan:
            yield from scan


def _check_pieces(pieces: int) -> None:
    if not natural(pieces):
        raise ConfigError(f"a scan is split into one piece or more, not {pieces!r}")


async def _of_split(cluster: Cluster, split: Split) -> Found:
    """Return the ranges of a split."""
    infos = await same_topics(cluster, (r.topic for r in split.ranges), split._topic_ids, "the scan was split")
    return [(r, infos[r.topic]) for r in split.ranges]


async def _of_parts(cluster: Cluster, split: Split, parts: Sequence[Part]) -> Found:
    """Return the parts of a split, from the first record on that is late enough."""
    infos = await same_topics(cluster, (r.topic for r, _ in parts), split._topic_ids, "the scan was made")
    level = int(split._reading.config.isolation_level == "read_committed")
    ranges = await started_by_time(cluster, parts, isolation_level=level)
    return [(r, infos[r.topic]) for r in ranges]
