"""Converts batches of a scan to the record batches that Spark expects, with decoded values if the options say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.errors import DecodeError
from kafwire.spark.schema import SCAN_NAMES, arrow_schema
from kafwire.spark.value_decoding import Part
from kafwire.spark.value_options import BAD_RECORD, ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafwire.bad_records import BadRecord
    from kafwire.spark.value_decoding import Decodings


class RowBatches:
    """Makes record batches in the columns of `schema`.

    `place` is the topic and partition, for errors.
    """

    def __init__(self, schema: StructType, decoding: Decodings | None, place: str) -> None:
        self._schema = arrow_schema(schema)
        self._place = place
        key, value = (None, None) if decoding is None else (decoding.key, decoding.value)
        self._keys = None if key is None else key.decoder()
        self._decoder = None if value is None else value.decoder()
        self._is_strict = any(each is not None and each.format.bad == ERROR for each in (key, value))

    @property
    def scan_columns(self) -> list[str]:
        """The columns that a scan has to decode: the declared ones, and those that decoding needs."""
        names = dict.fromkeys(SCAN_NAMES[name] for name in self._schema.names if name in SCAN_NAMES)
        if self._decoder is not None:
            names |= dict.fromkeys(("value", "offset"))
        if self._keys is not None:
            names |= dict.fromkeys(("key", "offset"))
        return list(names)

    def of(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, in one batch or several."""
        if self._decoder is None and self._keys is None:
            yield to_spark(rows, self._schema)
            return
        keys, bad_keys = self._decoded_keys(rows)
        parts = [Part(0, rows.num_rows, None, ())] if self._decoder is None else self._decoder.parts(rows["value"])
        for part in parts:
            if part.bad and self._is_strict:
                raise self._error(part.bad[0], rows)
            yield self._decoded(part, rows, keys, bad_keys)

    def _decoded_keys(self, rows: pa.RecordBatch) -> tuple[pa.Array | None, dict[int, BadRecord]]:
        """Return the column of keys, None if keys are not decoded, and the bad ones by row."""
        import pyarrow as pa

        if self._keys is None:
            return None, {}
        parts = list(self._keys.parts(rows["key"]))
        bad = {each.row: each for part in parts for each in part.bad}
        if bad and self._is_strict:
            raise self._error(bad[min(bad)], rows)
        return parts[0].values if len(parts) == 1 else pa.concat_arrays([part.values for part in parts]), bad

    def _decoded(
        self, part: Part, rows: pa.RecordBatch, keys: pa.Array | None, bad_keys: dict[int, BadRecord]
    ) -> pa.RecordBatch:
        import pyarrow as pa

        here = rows.slice(part.first, part.stop - part.first)
        columns = []
        for field in self._schema:
            if field.name == "value" and self._decoder is not None:
                columns.append(part.values)
            elif field.name == "key" and keys is not None:
                columns.append(keys.slice(part.first, part.stop - part.first))
            elif field.name == BAD_RECORD:
                columns.append(_dead_letters(part, here, bad_keys, field.type))
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


def _dead_letters(part: Part, rows: pa.RecordBatch, bad_keys: dict[int, BadRecord], wanted: pa.DataType) -> pa.Array:
    """Return the cause, the schema id and the bytes of bad values and keys; null for the others.

    A record with both has its value's, as a cause that begins with "key: " tells a key.
    """
    import pyarrow as pa

    found: list[dict[str, object] | None] = [None] * (part.stop - part.first)
    for number, bad in bad_keys.items():
        row = number - part.first
        if 0 <= row < len(found):
            data = rows["key"][row].as_py()
            found[row] = {"cause": f"key: {bad.cause}", "schemaId": bad.schema_id, "value": data}
    for bad in part.bad:
        row = bad.row - part.first
        found[row] = {"cause": bad.cause, "schemaId": bad.schema_id, "value": rows["value"][row].as_py()}
    return pa.array(found, wanted)
