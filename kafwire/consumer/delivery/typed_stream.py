"""Arrow streams whose keys and values are the columns of formats: a stream of bytes, converted batch by batch.

The native stream below reads, settles and reports as without formats. A batch that cannot be converted ends the stream
before it counts as processed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafwire.errors import SchemaError
from kafwire.serializer_calls import Deserializers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["typed_schema", "typed_stream"]


class _Capsule:
    """A stream that is taken once."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        del requested_schema
        return self._capsule


def typed_stream(capsule: object, deserializers: Deserializers, topic: str) -> pa.RecordBatchReader:
    """Return the stream of a capsule with the columns of formats.

    Args:
        capsule: an `arrow_array_stream` of bytes.
        deserializers: their codecs, of which one has a method for columns.
        topic: the topic; "" for several, whose names are in the column `topic` then.
    """
    import pyarrow as pa

    source = pa.RecordBatchReader.from_stream(_Capsule(capsule))
    schema = deserializers.schema(source.schema, topic)
    batches = (deserializers.stream_rows(rows, topic) for rows in source)
    if schema is None:
        first = next(batches, None)
        if first is None:
            return pa.RecordBatchReader.from_batches(source.schema, [])
        return pa.RecordBatchReader.from_batches(first.schema, _equal(first.schema, _before(first, batches)))
    return pa.RecordBatchReader.from_batches(schema, _equal(schema, batches))


def typed_schema(layout: Any, deserializers: Deserializers | None, topic: str) -> object:
    """Return the `arrow_schema` capsule of a stream; keys and values are bytes there if only rows tell their types."""
    if deserializers is None or not deserializers.has_columns:
        return layout.__arrow_c_schema__()
    import pyarrow as pa

    plain = pa.schema(layout)
    return (deserializers.schema(plain, topic) or plain).__arrow_c_schema__()


def _before(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from batches


def _equal(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of exactly this schema; `SchemaError` for columns of another type."""
    for rows in batches:
        if rows.schema.types != schema.types:
            name, made, wanted = next(
                (field.name, own.type, field.type)
                for field, own in zip(schema, rows.schema, strict=True)
                if own.type != field.type
            )
            raise SchemaError(
                f"the column {name} is {made} here, and {wanted} before: an Arrow stream has one type for each "
                "column; give the format a reader's schema, or read batches()"
            )
        yield rows.cast(schema) if rows.schema != schema else rows
