"""The batch reader: ranges planned once on the driver, each read by one task as Arrow batches.

`partitions` runs in a helper process of the driver, `read` in the workers; the object in between is pickled, so it
holds no client.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError
from kafwire.spark import processes
from kafwire.spark.data_loss import COULD_NOT_READ_OFFSET_RANGE, START_OFFSET_RESET, Loss, data_loss, recreated
from kafwire.spark.lookup import client_names, client_options, describe, matches, named_topics
from kafwire.spark.plan import OffsetRange, Situation, check_named, choose_partitions, plan
from kafwire.spark.row_batches import RowBatches
from kafwire.spark.schema import SCAN_LAYOUT
from kafwire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafwire import Client
    from kafwire.spark.options import ReadOptions
    from kafwire.spark.value_decoding import ValueDecoding

log = logging.getLogger("kafwire.spark")

_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class KafwireReader(DataSourceReader):
    """Reads what `options` name, in the columns of `schema`."""

    def __init__(self, options: ReadOptions, schema: StructType, decoding: ValueDecoding | None = None) -> None:
        """Keep them; nothing is asked of the cluster yet."""
        self.options = options
        self.schema = schema
        self.decoding = decoding

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster once and return one exact range of offsets per task."""
        ranges, losses = find_ranges(self.options)
        for loss in losses:
            log.warning("data loss, as failOnDataLoss is false the read goes on: %s", loss)
        return [InputPartition(piece) for piece in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, in batches of a few megabytes."""
        # Spark puts one partition without a value where there is nothing to read.
        piece = partition.value
        return iter(()) if piece is None else read_range(self.options, self.schema, piece, self.decoding)


def read_range(
    options: ReadOptions, schema: StructType, piece: OffsetRange, decoding: ValueDecoding | None = None
) -> Iterator[pa.RecordBatch]:
    """The records of one range in the columns of `schema`, read in a worker over a client that later tasks use too."""
    rows = RowBatches(schema, decoding, f"{piece.topic}-{piece.partition}")
    with processes.client(client_options(options)) as client:
        yield from _read(client, options, rows, piece)


def _read(client: Client, options: ReadOptions, rows: RowBatches, piece: OffsetRange) -> Iterator[pa.RecordBatch]:
    scan_options = {name: value for name, value in options.client.items() if name not in client_names()}
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
    """The part of [position, end) that the topic still holds; `DataLossError` if that is not to be put up with."""
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


def find_ranges(options: ReadOptions) -> tuple[list[OffsetRange], list[str]]:
    """Ask the cluster what there is, and plan; returns the ranges and what was lost."""
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
    return plan(options, places, situation)
