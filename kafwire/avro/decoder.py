"""`AvroDecoder`: decodes values with a schema id, or of one schema, to Arrow columns of the reader's schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from kafwire.avro._avro_program import AvroProgram
from kafwire.avro.causes import cause
from kafwire.avro.columns import Columns
from kafwire.avro.program import compile_program
from kafwire.avro.schema import Type, parse
from kafwire.bad_records import OnBad
from kafwire.errors import ConfigError
from kafwire.value_columns._value_columns import Program
from kafwire.value_columns.decoder import ColumnDecoder, Decoded

__all__ = ["AvroDecoder", "Decoded"]

Schema: TypeAlias = "str | dict[str, Any] | list[Any] | Type"

SchemaOf: TypeAlias = Callable[[int], Schema]


class AvroDecoder(ColumnDecoder):
    r"""Decodes values to Arrow columns of one reader's schema, without the GIL.

    Values begin with a zero byte and a schema id of four bytes (Confluent's format), whose writer's schema is looked up
    once; or all of them have the schema `writer`, without these five bytes. Any number of threads may decode at once.

    Args:
        reader: the schema of the columns: JSON text, its object, or a parsed `Type`.
        schema_of: returns the schema of an id, such as the method `schema` of a `SchemaRegistry`. If it raises
            `SchemaError` or `UnknownSchemaError`, the values with the id are bad; after the latter the next part asks
            again. Any other error ends the call that found the id.
        writer: the schema of values without an id.
        on_bad: the outcome of a value that cannot be decoded: "error" (a `DecodeError`), "null" (a null row), or "drop"
            (no row). With the last two, `Decoded.bad` has the value's row and the cause.
        null_values: "null" makes a null row of a value that is null; "bad" treats it as one that cannot be decoded.
        enums: "string", or "dictionary" for columns of Arrow's dictionary type.
        max_bytes: the limit of the columns of one `Decoded`; a value that alone takes more is bad.
        max_empty_items: how many items without bytes (of null, or of records without fields) one value may have. Such
            items cost memory that no byte of the value accounts for.

    Raises:
        SchemaError: the reader's or the writer's schema is not valid, or they do not match.
        ConfigError: an argument is wrong.

    Example:
        >>> from kafwire.avro import AvroDecoder
        >>> flight = '{"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}'
        >>> decoder = AvroDecoder(flight, schema_of={7: flight}.__getitem__)
        >>> decoder.decode([b"\0\0\0\0\7\4UA"]).to_arrow().to_pylist()
        [{'carrier': 'UA'}]
    """

    def __init__(
        self,
        reader: Schema,
        *,
        schema_of: SchemaOf | None = None,
        writer: Schema | None = None,
        on_bad: OnBad = "error",
        null_values: Literal["null", "bad"] = "null",
        enums: Literal["string", "dictionary"] = "string",
        max_bytes: int = 1 << 30,
        max_empty_items: int = 10_000,
    ) -> None:
        if enums not in ("string", "dictionary"):
            raise ConfigError(f"enums is 'string' or 'dictionary', not {enums!r}")
        if (schema_of is None) == (writer is None):
            raise ConfigError("AvroDecoder takes either schema_of, for values with a schema id, or writer")
        self._arguments = {
            "reader": reader,
            "schema_of": schema_of,
            "writer": writer,
            "on_bad": on_bad,
            "null_values": null_values,
            "enums": enums,
            "max_bytes": max_bytes,
            "max_empty_items": max_empty_items,
        }
        self._columns = Columns(_parsed(reader), enums)
        super().__init__(
            self._columns.columns,
            framed=writer is None,
            on_bad=on_bad,
            null_values=null_values,
            max_bytes=max_bytes,
            max_empty_items=max_empty_items,
        )
        self._schema_of = schema_of
        self._writer = None if writer is None else _parsed(writer)
        if writer is not None:
            self._keep(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._arguments,)

    @property
    def is_wrapped(self) -> bool:
        """True if the reader's schema is not a record: the rows have its values in the field `value`.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("long", writer="long").is_wrapped
            True
        """
        return self._columns.is_wrapped

    def _program(self, number: int) -> tuple[Program, list[str]]:
        if self._writer is not None:
            writer = self._writer
        else:
            assert self._schema_of is not None
            writer = _parsed(self._schema_of(number))
        compiled = compile_program(writer, self._columns)
        return AvroProgram(compiled.operations, compiled.tables, bytes(compiled.constants)), compiled.places

    def _cause(self, code: int, place: str, at: int, detail: int) -> str:
        return cause(code, place=place, at=at, detail=detail)


def _parsed(schema: Schema) -> Type:
    return schema if isinstance(schema, Type) else parse(schema)


def _made(arguments: dict[str, Any]) -> AvroDecoder:
    return AvroDecoder(**arguments)
