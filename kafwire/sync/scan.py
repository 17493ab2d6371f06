"""`scan`: an exact, bounded read of topics as an Arrow stream."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.offset_spec import Bound, Timestamps
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaError, broker_error
from kafwire.options import ScanOptions
from kafwire.runtime.engine import engine
from kafwire.scanner.ranges import Range
from kafwire.scanner.reader import Asked, BoundedRead, Found, ProgressOption, Reading
from kafwire.scanner.split import cut
from kafwire.serializer_calls import Deserializers

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.records import Batch


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
    **options: Unpack[ScanOptions],
) -> Scan:
    """Read the records of `topics` between `start` and `end`, all partitions in parallel, without a group or session.

    `start` and `end` are "earliest", "latest", a datetime with a time zone, `kafwire.Offset(n)`, `kafwire.Tail(n)` (n
    before the end: the last n of each partition), or a mapping of `TopicPartition` to one of these or to a plain
    offset, which then also chooses the partitions. A number alone is refused, as it may be any of these. `end` is
    exclusive, and fixed by this call: records that arrive later are not read. With `isolation_level="read_committed"`
    "latest" is the last stable offset, and an end that is named is waited for until that has passed it.

    `columns` names those of the schema (topic, partition, offset, timestamp, timestamp_type, key, value, headers) that
    are wanted, in that order; others cost nothing. `layout` varies the schema: {"names": {"timestamp": "ts"}} renames
    columns, and there are "timestamp_unit" ("ms", "us") and "timestamp_type" ("int8", "int32"). Options are those of
    `kafwire.config.ScanConfig`. `Client.scan` does the same over connections that stay.

    `timestamps` keeps only records whose timestamp lies in [from, to): datetimes with a time zone, milliseconds, or
    None for an open side. A datetime as `start` or `end` names an offset instead, that of the first record at or after
    it, between which earlier and later records may lie. Batches that hold nothing of the time asked for are passed over
    by their headers, without a look at their checksum; what comes before the first record of that time is not fetched.

    `progress=True` shows a progress bar on standard error if that is a terminal, "force" in any case; it needs the
    package rich (`kafwire[progress]`).

    Returns a `Scan`. Raises `ConfigError`, `BrokerError` for an unknown topic or an offset that does not exist,
    `KafkaConnectionError`; reading raises `KafkaTimeoutError` where a partition gives no records for
    `default_api_timeout_ms`.
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


class Scan(BoundedRead):
    """A bounded read, to be consumed once: as an Arrow stream (`pyarrow.table(scan)`), or by `batches()`.

    A partition's records come in order; partitions are mixed. `ranges` says what is read. `split` divides it among
    several readers.
    """

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
        Deserializers.of(asked.reading.config, layout, blocking=True)  # an async one is told here
        self._open(cluster, asked.reading, asked.find, title=asked.title, force=asked.force)

    @classmethod
    def _of(cls, split: Split) -> Self:
        """Read a part of another scan."""
        scan = cls.__new__(cls)
        scan._open(None, split._reading, lambda cluster: _same_topics(cluster, split))
        return scan

    def _open(
        self,
        cluster: Cluster | None,
        reading: Reading,
        find: Callable[[Cluster], Coroutine[Any, Any, Found]],
        *,
        title: str | None = None,
        force: bool = False,
    ) -> None:
        running = engine()
        owns = cluster is None
        if cluster is None:
            cluster = Cluster(running, reading.config)
        try:
            found = running.run(find(cluster))
        except BaseException:
            if owns:
                running.run(cluster.close())
            raise
        super().__init__(running, cluster, reading, found, owns=owns, title=title, force=force)

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
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a scan, which is read by whoever has it, as often as wanted: pickle it to another process.

    It holds the exact offsets (`ranges`), which topics are meant, and how to connect and read; connections are made
    when it is read, and closed at the end. Each reading is as that of a `Scan`. A topic that was deleted and made anew
    meanwhile raises `BrokerError`, as do offsets that were deleted.
    """

    ranges: tuple[Range, ...]
    _topic_ids: Mapping[str, uuid.UUID]
    _reading: Reading

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


async def _same_topics(cluster: Cluster, split: Split) -> Found:
    """The ranges of a split. A topic of the same name and another id holds other records."""
    infos = {topic: await cluster.topic(topic, fresh=True) for topic in dict.fromkeys(r.topic for r in split.ranges)}
    for topic, info in infos.items():
        if info.topic_id != split._topic_ids[topic]:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"topic {topic!r} was deleted and made anew since the scan was split: the offsets are those of the old "
                "one; scan it again",
            )
    return [(r, infos[r.topic]) for r in split.ranges]
