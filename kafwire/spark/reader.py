"""The batch reader: ranges planned once on the driver, each read by one task as Arrow batches.

`partitions` runs in a helper process of the driver, `read` in the workers; the object in between is pickled, so it
holds no client.
"""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafwire.config import ClientConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError
from kafwire.spark import processes
from kafwire.spark.plan import OffsetRange, Situation, check_named, choose_partitions, data_loss, plan
from kafwire.spark.schema import SCAN_LAYOUT, SCAN_NAMES, arrow_schema
from kafwire.types import Offset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafwire import Client
    from kafwire.spark.options import Bound, ReadOptions

log = logging.getLogger("kafwire.spark")


class KafwireReader(DataSourceReader):
    """Reads what `options` name, in the columns of `schema`."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Keep both; nothing is asked of the cluster yet."""
        self.options = options
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster once and return one exact range of offsets per task."""
        ranges, losses = find_ranges(self.options)
        for loss in losses:
            log.warning("data loss, as failOnDataLoss is false the read goes on: %s", loss)
        return [InputPartition(piece) for piece in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, in batches of a few megabytes."""
        # Spark puts one partition without a value where there is nothing to read.
        return iter(()) if partition.value is None else self._read(partition.value)

    def _read(self, piece: OffsetRange) -> Iterator[pa.RecordBatch]:
        client = processes.client(_client_options(self.options))
        options = {name: value for name, value in self.options.client.items() if name not in _client_names()}
        place = TopicPartition(piece.topic, piece.partition)
        schema = arrow_schema(self.schema)
        columns = [SCAN_NAMES[name] for name in schema.names]
        position, end = piece.start, piece.end
        while position < end:
            try:
                with client.scan(
                    piece.topic,
                    start={place: Offset(position)},
                    end={place: Offset(end)},
                    columns=columns,
                    layout=SCAN_LAYOUT,
                    **options,
                ) as scan:
                    for batch in scan.batches():
                        if len(batch):  # a chunk may hold control records only
                            yield to_spark(batch.to_arrow(), schema)
                        position = batch.next_offset
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                left = self._what_is_left(piece, position, end)
                if left == (position, end):
                    raise
                position, end = left
            else:
                return

    def _what_is_left(self, piece: OffsetRange, position: int, end: int) -> tuple[int, int]:
        """The part of [position, end) that the topic still holds; `DataLossError` if that is not to be put up with."""
        place = TopicPartition(piece.topic, piece.partition)
        client = processes.client(_client_options(self.options))
        low, high = client.offsets([place], "earliest")[place], client.offsets([place], "latest")[place]
        what = f"{piece} was planned and read up to {position}, but the topic holds [{low}, {high}) now"
        if position < low or end > high:
            if self.options.fail_on_data_loss:
                raise data_loss(what)
            log.warning("data loss, as failOnDataLoss is false the read goes on: %s", what)
        return max(position, low), min(end, high)


def find_ranges(options: ReadOptions) -> tuple[list[OffsetRange], list[str]]:
    """Ask the cluster what there is, and plan; returns the ranges and what was lost."""
    import kafwire

    with processes.naming_this_host():
        made = kafwire.Client(**_client_options(options))
    with made as client:
        wanted = options.topics or tuple({place.topic for place in options.assign or ()})
        counts, internal = _describe(client, wanted)
        places = choose_partitions(options, counts, internal)
        check_named(options.start, places)
        check_named(options.end, places)
        isolation = options.client.get("isolation_level", "read_uncommitted")
        situation = Situation(
            earliest=client.offsets(places, "earliest"),
            latest=client.offsets(places, "latest", isolation_level=isolation),
            start_matches=_matches(client, options.start, places, isolation),
            end_matches=_matches(client, options.end, places, isolation),
        )
    return plan(options, places, situation)


def _describe(client: Client, wanted: Sequence[str]) -> tuple[dict[str, int], set[str]]:
    """Partition counts of the topics that exist, of all of them if none is named, and which are internal."""
    counts: dict[str, int] = {}
    internal: set[str] = set()
    if wanted:
        for name in wanted:
            try:
                counts[name] = len(client.topic(name).partitions)
            except BrokerError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        return counts, internal
    for topic in client.metadata().topics:
        if topic.error_code in {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}:
            counts[topic.name] = len(topic.partitions)
            if topic.is_internal:
                internal.add(topic.name)
    return counts, internal


def _matches(
    client: Client, bound: Bound, places: Sequence[TopicPartition], isolation: str
) -> dict[TopicPartition, int]:
    """The first offsets at or after the timestamps of `bound`; without those partitions that have none."""
    if not bound.by_timestamp:
        return {}
    groups: dict[int, list[TopicPartition]] = {}
    for place in places:
        groups.setdefault(bound.of(place), []).append(place)
    found = {}
    for timestamp, group in groups.items():
        found.update(client.offsets(group, timestamp, isolation_level=isolation))
    return {place: offset for place, offset in found.items() if offset >= 0}


def _client_options(options: ReadOptions) -> dict[str, Any]:
    """Those of a scan's options that any client takes."""
    return {name: value for name, value in options.client.items() if name in _client_names()}


def _client_names() -> set[str]:
    return {item.name for item in fields(ClientConfig)}


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch`, whose columns have the types of `schema` already, with its very fields."""
    import pyarrow as pa

    columns = [_headers(column) if pa.types.is_list(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _headers(column: pa.ListArray) -> pa.ListArray:
    """A record without headers has null there, as in Spark's own source."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_empty = pc.equal(pc.list_value_length(column), 0)
    return pc.if_else(is_empty, pa.scalar(None, column.type), column)
