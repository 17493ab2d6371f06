"""The stream reader that Spark calls: `StreamPlanner` decides, `read_range` reads, offsets travel as JSON.

The reader lives in one process of the driver for as long as the query runs, and keeps its connections warm. The workers
get a pickle of it, without the planner.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from kafwire.spark.lookup import ClusterLookup
from kafwire.spark.reader import read_range
from kafwire.spark.stream_offsets import from_json, to_json
from kafwire.spark.stream_planner import StreamPlanner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafwire.errors import KafkaError
    from kafwire.spark.stream_offsets import Json
    from kafwire.spark.stream_options import StreamOptions
    from kafwire.spark.value_decoding import Decodings

# Spark's read limits cannot express the options of this source. Any limit except `ReadAllAvailable` means: apply the
# options. `ReadAllAvailable`, which then comes only with the trigger Once, means: apply none.
_BY_OPTIONS = 2**63 - 1


class KafwireStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the stream that `options` name, in the columns of `schema`."""

    def __init__(self, options: StreamOptions, schema: StructType, decoding: Decodings | None = None) -> None:
        """Keep the arguments; no request is sent yet."""
        self.options = options
        self.schema = schema
        self.decoding = decoding
        self._made: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the planner, which holds connections."""
        return {**self.__dict__, "_made": None}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return a limit that means: apply the options."""
        return ReadMaxRows(_BY_OPTIONS)

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the stream's start."""
        return to_json(self._planner.start())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Pin the ends of this run."""
        self._planner.prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        """Return the end of the batch that begins at `start`."""
        has_limits = not isinstance(limit, ReadAllAvailable)
        return to_json(self._planner.latest(from_json(start), has_limits=has_limits))

    def reportLatestOffset(self) -> Json | None:  # noqa: N802 - Spark's name
        """Return the ends of all partitions, as the last `latestOffset` found them."""
        found = self._planner.reported()
        return None if found is None else to_json(found)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one exact range of offsets per task."""
        return [InputPartition(piece) for piece in self._planner.ranges(from_json(start), from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, in batches of a few megabytes."""
        return read_range(self.options.read, self.schema, partition.value, self.decoding)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: `latestOffset` publishes completed offsets earlier, and Spark never calls this for the last."""

    def stop(self) -> None:
        """Close the connections."""
        if self._made is not None:
            self._made.close()
            self._made = None

    @property
    def _planner(self) -> StreamPlanner:
        if self._made is None:
            lookup = ClusterLookup(self.options.read)
            self._made = StreamPlanner(self.options, lookup, now_ms=lambda: time.monotonic() * 1000, sleep=time.sleep)
        return self._made


class RefusedStreamReader(DataSourceStreamReader):
    """Raises `error` when the query starts.

    pyspark hides an error of `DataSource.streamReader` behind an UnboundLocalError of its own.
    """

    def __init__(self, error: KafkaError) -> None:
        """Keep the error."""
        self._error = error

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:  # noqa: ARG002, N802 - Spark's name
        """Raise the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raise the error."""
        raise self._error
