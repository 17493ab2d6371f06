"""`ArrowStream`, the return type of a consumer's `arrow_stream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.handles import refuse_copies

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.serializer_calls import Deserializers


class _Schema:
    """The schema of a reader, of keys and values as bytes."""

    def __init__(self, reader: FetchReader) -> None:
        self._reader = reader

    def __arrow_c_schema__(self) -> object:
        return self._reader.schema_capsule()


class ArrowStream:
    """An Arrow stream of a consumer's records, for one use.

    A consumer's `arrow_stream` makes it.

    Example:
        >>> pa.table(consumer.arrow_stream(timeout=1.0)).num_rows
        3
    """

    __reduce_ex__ = refuse_copies("they read from connections of this process; hand over to_reader().read_all()")

    def __init__(self, reader: FetchReader, deserializers: Deserializers | None = None) -> None:
        """With `deserializers` that have a method for columns, the stream has their columns."""
        self._reader = reader
        self._typed = deserializers if deserializers is not None and deserializers.has_columns else None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream (PyCapsule interface); `requested_schema` is ignored."""
        if self._typed is not None:
            return self.to_reader().__arrow_c_stream__(requested_schema)
        return self._reader.stream_capsule()

    def __arrow_c_schema__(self) -> object:
        """Return the stream's schema (PyCapsule interface)."""
        if self._typed is None:
            return self._reader.schema_capsule()
        from kafwire.consumer.delivery.typed_stream import typed_schema

        return typed_schema(_Schema(self._reader), self._typed, "")

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the stream as a `pyarrow.RecordBatchReader`.

        Returns:
            The reader, which blocks the thread that reads it.
        """
        from pyarrow import RecordBatchReader

        if self._typed is not None:
            from kafwire.consumer.delivery.typed_stream import typed_stream

            return typed_stream(self._reader.stream_capsule(), self._typed, "")
        return RecordBatchReader.from_stream(self)
