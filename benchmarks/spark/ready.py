"""The floor: the data source `ready`, whose reader yields ready Arrow batches, and whose writer ready record batches.

It shows the time of Spark itself. Workers make the batches once and use them again.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from benchmarks.payload import split_pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

_TIMESTAMP_US = 1_700_000_000_000_000
_IN_FLIGHT = 5
_PRODUCE_VERSION = 9


class ReadyDataSource(DataSource):
    """The format `ready`.

    Options of a read: `rows`, `tasks`, `values` (the file of the payload), `valueBytes`, `batchBytes` (of a batch in
    Arrow's memory); `endless` makes a stream that always has another batch, without rows. Options of a write:
    `kafka.bootstrap.servers`, `topic`, `partitions`, `batchBytes` (of a record batch before compression); without
    `topic` the writer drops the rows.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "ready"

    def schema(self) -> StructType:
        """Return the schema of Spark's own Kafka source."""
        from kafwire.spark.schema import full_schema

        return full_schema(include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader."""
        return ReadyReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the stream reader."""
        return ReadyStreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002
        """Return the batch writer."""
        return ReadyWriter(dict(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        """Return the stream writer."""
        return NothingWriter()


class ReadyReader(DataSourceReader):
    """Yields the rows in equal tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Keep both. Spark gives the names of options in lower case."""
        self.options = options
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one number of rows per task."""
        return [InputPartition(count) for count in shares(int(self.options["rows"]), int(self.options["tasks"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one batch again and again, and a slice of it at the end."""
        return _ready_batches(self.options, self.schema, partition.value)


class ReadyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Yields all rows in one micro-batch; or endless micro-batches without rows."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Keep both. Spark gives the names of options in lower case."""
        self.options = options
        self.schema = schema

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the start."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return no limit."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the end never moves."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """Return the end of the next micro-batch."""
        return {"rows": start["rows"] + 1 if "endless" in self.options else int(self.options["rows"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one number of rows per task."""
        rows = 0 if "endless" in self.options else end["rows"] - start["rows"]
        return [InputPartition(count) for count in shares(rows, int(self.options["tasks"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one batch again and again, and a slice of it at the end."""
        return _ready_batches(self.options, self.schema, partition.value)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Taken(WriterCommitMessage):
    """The rows of one task."""

    rows: int


class NothingWriter(DataSourceStreamArrowWriter):
    """Drops all rows."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Taken:
        """Count the rows."""
        return Taken(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing."""


class ReadyWriter(DataSourceArrowWriter):
    """Sends a ready record batch each time that as many rows arrived, with five requests in flight."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Keep the options."""
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Taken:
        """Count the rows, and send for them."""
        if "topic" not in self.options:
            return Taken(sum(batch.num_rows for batch in iterator))
        frames, records = _ready_frames(
            self.options["topic"],
            int(self.options["partitions"]),
            self.options["values"],
            int(self.options["valuebytes"]),
            int(self.options["batchbytes"]),
        )
        host, port = self.options["kafka.bootstrap.servers"].rsplit(":", 1)
        rows = sent = received = 0
        with socket.create_connection((host, int(port))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            responses = connection.makefile("rb")

            def send() -> None:
                nonlocal sent, received
                while sent - received >= _IN_FLIGHT:
                    received += _take_response(responses)
                connection.sendall(frames[sent % len(frames)])
                sent += 1

            for batch in iterator:
                rows += batch.num_rows
                while rows - sent * records >= records:
                    send()
            if rows > sent * records:
                send()
            while received < sent:
                received += _take_response(responses)
        return Taken(rows)


def shares(rows: int, tasks: int) -> list[int]:
    """`rows` in nearly equal parts."""
    return [rows * (task + 1) // tasks - rows * task // tasks for task in range(tasks)]


def _ready_batches(options: Mapping[str, str], schema: StructType, rows: int) -> Iterator[pa.RecordBatch]:
    if not rows:
        return
    batch = _ready_batch(
        tuple(schema.fieldNames()), options["values"], int(options["valuebytes"]), int(options["batchbytes"])
    )
    while rows > batch.num_rows:
        yield batch
        rows -= batch.num_rows
    yield batch.slice(0, rows)


@cache
def _ready_batch(names: tuple[str, ...], values: str, value_bytes: int, batch_bytes: int) -> pa.RecordBatch:
    import pyarrow as pa

    from kafwire.spark.schema import arrow_schema, schema_of

    pool = split_pool(Path(values).read_bytes(), value_bytes)
    schema = arrow_schema(schema_of(names))
    sizes: dict[str, int] = {"value": value_bytes + 4, "key": 4, "topic": 9, "timestamp": 8, "offset": 8}
    rows = batch_bytes // sum(sizes.get(name, 4) for name in names)
    columns: dict[str, Any] = {
        "key": [None] * rows,
        "value": (pool * (rows // len(pool) + 1))[:rows],
        "topic": ["bench"] * rows,
        "partition": [0] * rows,
        "offset": range(rows),
        "timestamp": [_TIMESTAMP_US] * rows,
        "timestampType": [0] * rows,
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[each.name], each.type) for each in schema], schema=schema)


@cache
def _ready_frames(
    topic: str, partitions: int, values: str, value_bytes: int, batch_bytes: int
) -> tuple[list[bytes], int]:
    """A Produce request with one lz4 record batch for each partition, and the records of each."""
    from kafwire import protocol
    from kafwire.records import Record, encode_batch

    records = batch_bytes // value_bytes
    pool = split_pool(Path(values).read_bytes(), value_bytes)
    frames = []
    for partition in range(partitions):
        begin = partition * records % len(pool)
        chosen = (pool[begin:] + pool * (records // len(pool) + 1))[:records]
        encoded = encode_batch([Record(value, timestamp_ms=0) for value in chosen], compression="lz4")
        data = protocol.ProduceRequest.PartitionProduceData(index=partition, records=encoded)
        request = protocol.ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[protocol.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        frame = protocol.encode_request(request, _PRODUCE_VERSION, partition, "ready")
        frames.append(len(frame).to_bytes(4, "big") + frame)
    return frames, records


def _take_response(responses: Any) -> int:
    """Read one response, and return 1; raises `RuntimeError` for an error code."""
    from kafwire import protocol

    body = responses.read(int.from_bytes(responses.read(4), "big"))
    _, response = protocol.decode_response(protocol.ProduceRequest, body, _PRODUCE_VERSION)
    error = response.responses[0].partition_responses[0].error_code
    if error:
        raise RuntimeError(f"the broker refuses a ready record batch with error {error}")
    return 1
