"""`ArrowStream`, the return type of a consumer's `arrow_stream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.handles import refuse_copies

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowStream:
    """An Arrow stream of a consumer's records, for one use.

    A consumer's `arrow_stream` makes it.

    Example:
        >>> pa.table(consumer.arrow_stream(timeout=1.0)).num_rows
        3
    """

    __reduce_ex__ = refuse_copies("they read from connections of this process; hand over to_reader().read_all()")

    def __init__(self, reader: FetchReader) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream (PyCapsule interface); `requested_schema` is ignored."""
        return self._reader.stream_capsule()

    def __arrow_c_schema__(self) -> object:
        """Return the stream's schema (PyCapsule interface)."""
        return self._reader.schema_capsule()

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the stream as a `pyarrow.RecordBatchReader`.

        Returns:
            The reader, which blocks the thread that reads it.
        """
        from pyarrow import RecordBatchReader

        return RecordBatchReader.from_stream(self)
