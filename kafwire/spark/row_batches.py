"""Converts batches of a scan to the record batches that Spark expects, with decoded values if the options say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.errors import DecodeError
from kafwire.spark.schema import SCAN_NAMES, arrow_schema
from kafwire.spark.value_options import BAD_RECORD, ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafwire.bad_records import BadRecord
    from kafwire.spark.value_decoding import Part, ValueDecoding


class RowBatches:
    """Makes record batches in the columns of `schema`.

    `place` is the topic and partition, for errors.
    """

    def __init__(self, schema: StructType, decoding: ValueDecoding | None, place: str) -> None:
        self._schema = arrow_schema(schema)
        self._place = place
        self._decoder = None if decoding is None else decoding.decoder()
        self._is_strict = decoding is not None and decoding.format.bad == ERROR

    @property
    def scan_columns(self) -> list[str]:
        """The columns that a scan has to decode: the declared ones, and those that decoding of values needs."""
        names = dict.fromkeys(SCAN_NAMES[name] for name in self._schema.names if name in SCAN_NAMES)
        if self._decoder is not None:
            names |= dict.fromkeys(("value", "offset"))
        return list(names)

    def of(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, in one batch or several."""
        if self._decoder is None:
            yield to_spark(rows, self._schema)
            return
        for part in self._decoder.parts(rows["value"]):
            if part.bad and self._is_strict:
                raise self._error(part.bad[0], rows)
            yield self._decoded(part, rows)

    def _decoded(self, part: Part, rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        here = rows.slice(part.first, part.stop - part.first)
        columns = []
        for field in self._schema:
            if field.name == "value":
                columns.append(part.values)
            elif field.name == BAD_RECORD:
                columns.append(_dead_letters(part, here["value"], field.type))
            else:
                columns.append(_column(here, field.name))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _error(self, bad: BadRecord, rows: pa.RecordBatch) -> DecodeError:
        offset = rows["offset"][bad.row].as_py()
        return DecodeError(
            f"{self._place}, offset {offset}: {bad.cause}; set badRecords to null or deadLetter to read on",
            row=bad.row,
            cause=bad.cause,
            schema_id=bad.schema_id,
        )


def to_spark(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `rows` with exactly the fields of `schema`; the columns have its types already."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([_column(rows, name) for name in rows.schema.names], schema=schema)


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column. Headers of a record without any are null, as in Spark's own source."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows[name]
    if name != "headers":
        return column
    is_empty = pc.equal(pc.list_value_length(column), 0)
    return pc.if_else(is_empty, pa.scalar(None, column.type), column)


def _dead_letters(part: Part, values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the cause, the schema id and the bytes of bad values; null for the others."""
    import pyarrow as pa

    found: list[dict[str, object] | None] = [None] * (part.stop - part.first)
    for bad in part.bad:
        row = bad.row - part.first
        found[row] = {"cause": bad.cause, "schemaId": bad.schema_id, "value": values[row].as_py()}
    return pa.array(found, wanted)
