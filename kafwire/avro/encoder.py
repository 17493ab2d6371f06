"""`AvroEncoder`: encodes Arrow columns as Avro values of one schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from kafwire.avro._encoder import Columns, Encoded, Reading, Writer, encode_columns
from kafwire.avro.causes import wrong_value
from kafwire.avro.schema import Type, parse
from kafwire.avro.write_program import Node, compile_writer
from kafwire.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AvroEncoder", "EncodedValues"]

Schema: TypeAlias = "str | dict[str, Any] | list[Any] | Type"

MAX_PROGRAMS = 64  # of Arrow types that one encoder keeps


class EncodedValues:
    """A binary column of Avro values. It has `__arrow_c_array__`, which hands the memory over once.

    `AvroEncoder` makes it.

    Example:
        >>> from kafwire.avro import AvroEncoder
        >>> len(AvroEncoder("long").encode(pa.array([1, 2])))
        2
    """

    def __init__(self, encoded: Encoded) -> None:
        self._encoded = encoded

    def __len__(self) -> int:
        return len(self._encoded)

    def to_arrow(self) -> pa.BinaryArray:
        r"""Make a pyarrow.BinaryArray that owns the values.

        Returns:
            The pyarrow.BinaryArray.

        Example:
            >>> from kafwire.avro import AvroEncoder
            >>> AvroEncoder("long").encode(pa.array([1, None])).to_arrow().to_pylist()
            [b'\x02', None]
        """
        import pyarrow as pa

        return pa.array(self)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._encoded.__arrow_c_array__(requested_schema)


class AvroEncoder:
    r"""Encodes Arrow columns as Avro values of one schema, without the GIL.

    The columns of a record are a struct: a pyarrow.RecordBatch, StructArray or Table, a polars or duckdb frame. Fields
    are found by name; a field without a column gets its default. A schema that is no record takes one column. A null
    row is a null value. The bytes are those of fastavro: arrays and maps have one block, and a decimal has as many
    bytes as its magnitude and a sign bit need. Any number of threads may encode at once.

    Args:
        schema: the schema: JSON text, its object, or a parsed `Type`.
        prefix: the bytes before each value, such as those of a framing with a schema id.

    Raises:
        SchemaError: the schema is not valid.
        ConfigError: the prefix is not bytes.

    Example:
        >>> from kafwire.avro import AvroEncoder
        >>> flight = '{"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}'
        >>> encoder = AvroEncoder(flight, prefix=b"\0\0\0\0\7")
        >>> encoder.encode(pa.record_batch({"carrier": ["UA"]})).to_arrow().to_pylist()
        [b'\x00\x00\x00\x00\x07\x04UA']
    """

    def __init__(self, schema: Schema, *, prefix: bytes = b"") -> None:
        if not isinstance(prefix, bytes):
            raise ConfigError(f"prefix is bytes, not {type(prefix).__name__}")
        self._schema = schema if isinstance(schema, Type) else parse(schema)
        self._prefix = prefix
        self._arguments = (schema, prefix)
        self._programs: dict[tuple[Any, ...], tuple[Writer, list[str]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, self._arguments

    def encode(self, columns: object) -> EncodedValues:
        r"""Encode columns.

        Args:
            columns: Arrow data in one piece: anything with `__arrow_c_array__`, or `__arrow_c_stream__` with one chunk.

        Returns:
            The values, as many as rows.

        Raises:
            SchemaError: the columns do not fit the schema.
            ConfigError: a value does not fit the schema, such as a null where the schema has none: the message names
                row and field. Or the argument is no Arrow data, has several chunks (use `parts`), or its values exceed
                the 2 GiB of a binary column.

        Example:
            >>> from kafwire.avro import AvroEncoder
            >>> AvroEncoder("string").encode(pa.array(["UA", None])).to_arrow().to_pylist()
            [b'\x04UA', None]
        """
        found = list(self.parts(columns))
        if len(found) != 1:
            raise ConfigError(f"the columns have {len(found)} chunks: call parts() instead of encode()")
        return found[0]

    def parts(self, columns: object) -> Iterator[EncodedValues]:
        r"""Encode columns chunk by chunk.

        Args:
            columns: as for `encode`, with any number of chunks.

        Returns:
            An iterator over the values of each chunk.

        Raises:
            SchemaError: as for `encode`.
            ConfigError: as for `encode`.

        Example:
            >>> from kafwire.avro import AvroEncoder
            >>> column = pa.chunked_array([["UA"], ["DL"]])
            >>> [part.to_arrow()[0].as_py() for part in AvroEncoder("string").parts(column)]
            [b'\x04UA', b'\x04DL']
        """
        before = 0
        for chunk in Reading(columns):
            yield self._encode(chunk, before)
            before += len(chunk)

    def _encode(self, chunk: Columns, before: int) -> EncodedValues:
        writer, places = self._program(chunk.description)
        made = encode_columns(writer, chunk, self._prefix)
        if made.wrong is not None:
            code, where, row, detail = made.wrong
            raise wrong_value(code, place=places[where], row=before + row, detail=detail)
        return EncodedValues(made)

    def _program(self, description: tuple[Any, ...]) -> tuple[Writer, list[str]]:
        found = self._programs.get(description)
        if found is None:
            node = Node.of(description)
            made = compile_writer(self._schema, node)
            writer = Writer(made.operations, made.tables, bytes(made.constants), made.root, node.count())
            found = writer, made.places
            if len(self._programs) >= MAX_PROGRAMS:
                self._programs = {}
            self._programs[description] = found
        return found


def _made(schema: Schema, prefix: bytes) -> AvroEncoder:
    return AvroEncoder(schema, prefix=prefix)
