"""The batch reader: ranges planned once on the driver, each read by one task as Arrow batches.

`partitions` runs in a helper process of the driver, `read` in the workers; the object in between is pickled, so it
holds no client.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError
from kafwire.spark import processes
from kafwire.spark.data_loss import COULD_NOT_READ_OFFSET_RANGE, START_OFFSET_RESET, Loss, data_loss, recreated
from kafwire.spark.lookup import client_options, describe, matches, named_topics
from kafwire.spark.options import client_names
from kafwire.spark.plan import OffsetRange, Situation, check_named, choose_partitions, plan
from kafwire.spark.pushed_filters import PushedFilters, push
from kafwire.spark.row_batches import RowBatches
from kafwire.spark.run_ahead import run_ahead
from kafwire.spark.schema import SCAN_LAYOUT
from kafwire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from kafwire import Client
    from kafwire.cluster.offset_spec import Timestamps
    from kafwire.spark.options import ReadOptions
    from kafwire.spark.value_decoding import Decodings

log = logging.getLogger("kafwire.spark")

# A task reads one partition, so that two responses are enough: one arrives while the other is decoded.
_FETCH_MEMORY = 16 << 20
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class KafwireReader(DataSourceReader):
    """Reads what `options` name, in the columns of `schema`."""

    def __init__(self, options: ReadOptions, schema: StructType, decoding: Decodings | None = None) -> None:
        """Keep the arguments; no request is sent yet."""
        self.options = options
        self.schema = schema
        self.decoding = decoding
        self.pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster once and return one exact range of offsets per task."""
        ranges, losses = find_ranges(self.options, self.pushed)
        for loss in losses:
            log.warning("data loss, as failOnDataLoss is false the read goes on: %s", loss)
        processes.freeze_modules()
        return [InputPartition(piece) for piece in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, in batches of a few megabytes."""
        # Spark passes one partition with the value None if there is nothing to read.
        piece = partition.value
        if piece is None:
            return iter(())
        return read_range(self.options, self.schema, piece, self.decoding, self.pushed.window)


class FilteringReader(KafwireReader):
    """A reader that takes filters from Spark.

    Spark refuses a reader with this method unless `spark.sql.python.filterPushdown.enabled` is true.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters that a read can apply, and return those that Spark has to apply."""
        self.pushed, left = push(filters)
        log.info("the read applies %s", self.pushed)
        return left


def read_range(
    options: ReadOptions,
    schema: StructType,
    piece: OffsetRange,
    decoding: Decodings | None = None,
    window: Timestamps | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one range in the columns of `schema`, in a worker, over a client that later tasks use too.

    With `window`, only those whose timestamps lie in it. The next batch is decoded while the JVM takes the last one.
    """
    return run_ahead(_opened(options, RowBatches(schema, decoding, f"{piece.topic}-{piece.partition}"), piece, window))


def _opened(
    options: ReadOptions, rows: RowBatches, piece: OffsetRange, window: Timestamps | None
) -> Generator[pa.RecordBatch, None, None]:
    client_rack = processes.rack(options.racks)
    near = {} if client_rack is None else {"client_rack": client_rack}
    with processes.client(client_options(options) | near) as client:
        yield from _read(client, options, rows, piece, window)
    processes.freeze_modules()


def _read(
    client: Client, options: ReadOptions, rows: RowBatches, piece: OffsetRange, window: Timestamps | None
) -> Iterator[pa.RecordBatch]:
    given = {name: value for name, value in options.client.items() if name not in client_names()}
    scan_options = {"fetch_memory": _FETCH_MEMORY, **given}
    place = TopicPartition(piece.topic, piece.partition)
    position, end = piece.start, piece.end
    while position < end:
        try:
            with client.scan(
                piece.topic,
                start={place: Offset(position)},
                end={place: Offset(end)},
                columns=rows.scan_columns,
                layout=SCAN_LAYOUT,
                timestamps=window,
                **scan_options,
            ) as scan:
                if _is_another(client, piece):
                    _report(options, recreated(piece.topic))
                    return
                for batch in scan.batches():
                    if len(batch):  # a chunk may hold control records only
                        yield from rows.of(batch.to_arrow())
                    position = batch.next_offset
        except BrokerError as error:
            if error.code in _GONE:
                what = f"topic {piece.topic} was deleted after {piece} was planned; it is read up to {position}"
                _report(options, Loss(COULD_NOT_READ_OFFSET_RANGE, what))
                return
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            left = _what_is_left(client, options, piece, position, end)
            if left == (position, end):
                raise
            position, end = left
        else:
            return


def _what_is_left(client: Client, options: ReadOptions, piece: OffsetRange, position: int, end: int) -> tuple[int, int]:
    """Return the part of [position, end) that the topic still has. Raises `DataLossError` as `failOnDataLoss` says."""
    place = TopicPartition(piece.topic, piece.partition)
    low, high = client.offsets([place], "earliest")[place], client.offsets([place], "latest")[place]
    if position < low or end > high:
        loss = Loss(
            START_OFFSET_RESET if position < low else COULD_NOT_READ_OFFSET_RANGE,
            f"{piece} was planned and read up to {position}, but the topic holds [{low}, {high}) now",
        )
        _report(options, loss)
    return max(position, low), min(end, high)


def _is_another(client: Client, piece: OffsetRange) -> bool:
    """True if the topic that the scan has just looked up is not the one that was planned."""
    return piece.topic_id is not None and client.topic(piece.topic).topic_id != piece.topic_id


def _report(options: ReadOptions, loss: Loss) -> None:
    if options.fail_on_data_loss:
        raise data_loss(loss) from None
    log.warning("data loss, as failOnDataLoss is false the read goes on: %s", loss)


def find_ranges(options: ReadOptions, pushed: PushedFilters) -> tuple[list[OffsetRange], list[str]]:
    """Look up topics and offsets, and plan; returns the ranges and the losses."""
    import kafwire

    with processes.naming_this_host():
        made = kafwire.Client(**client_options(options))
    with made as client:
        counts, internal = describe(client, named_topics(options))
        places = choose_partitions(options, counts, internal)
        check_named(options.start, places)
        check_named(options.end, places)
        isolation = options.client.get("isolation_level", "read_uncommitted")
        situation = Situation(
            earliest=client.offsets(places, "earliest"),
            latest=client.offsets(places, "latest", isolation_level=isolation),
            start_matches=matches(client, options.start, places, isolation),
            end_matches=matches(client, options.end, places, isolation),
        )
        since: dict[TopicPartition, int] = {}
        if pushed.since_ms is not None:
            # After the latest offsets: a record that arrives between the two lies behind the end.
            since = client.offsets(places, pushed.since_ms, isolation_level=isolation)
    return plan(options, places, situation, lambda piece: _narrowed(pushed, since, piece))


def _narrowed(pushed: PushedFilters, since: dict[TopicPartition, int], piece: OffsetRange) -> OffsetRange:
    """Return the part of a range that the filters leave. Partitions not in `since` have no record as late."""
    piece = pushed.narrowed(piece)
    if pushed.since_ms is None:
        return piece
    first = since.get(TopicPartition(piece.topic, piece.partition), -1)
    return replace(piece, start=max(piece.start, first) if first >= 0 else piece.end)
