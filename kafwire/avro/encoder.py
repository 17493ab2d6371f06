"""`AvroEncoder`: encodes Arrow columns as Avro values of one schema."""

from __future__ import annotations

from typing import Any, TypeAlias

from kafwire.avro._avro_writer import AvroWriter
from kafwire.avro.causes import wrong_value
from kafwire.avro.schema import Type, parse
from kafwire.avro.write_program import compile_writer
from kafwire.value_columns._value_encoding import Writer
from kafwire.value_columns.encoder import ColumnEncoder, EncodedValues
from kafwire.value_columns.node import Node

__all__ = ["AvroEncoder", "EncodedValues"]

Schema: TypeAlias = "str | dict[str, Any] | list[Any] | Type"


class AvroEncoder(ColumnEncoder):
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
        super().__init__(prefix)
        self._schema = schema if isinstance(schema, Type) else parse(schema)
        self._arguments = (schema, prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, self._arguments

    def _writer(self, node: Node) -> tuple[Writer, list[str]]:
        made = compile_writer(self._schema, node)
        return AvroWriter(made.operations, made.tables, bytes(made.constants), made.root, node.count()), made.places

    def _wrong(self, code: int, place: str, row: int, detail: int) -> Exception:
        return wrong_value(code, place=place, row=row, detail=detail)


def _made(schema: Schema, prefix: bytes) -> AvroEncoder:
    return AvroEncoder(schema, prefix=prefix)
