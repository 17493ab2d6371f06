"""`AvroDecoder`: decodes values with a schema id, or of one schema, to Arrow columns of the reader's schema."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kafwire.arrow import record_batch
from kafwire.avro._decoder import Layout, Part, Program, Table, Values, decode_part, values_of
from kafwire.avro.causes import NO_SCHEMA, cause
from kafwire.avro.columns import Columns
from kafwire.avro.program import compile_program
from kafwire.avro.schema import Type, parse
from kafwire.bad_records import BadRecord, OnBad, check_on_bad, good_rows
from kafwire.errors import ConfigError, SchemaError, UnknownSchemaError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AvroDecoder", "Decoded"]

Schema: TypeAlias = "str | dict[str, Any] | list[Any] | Type"

SchemaOf: TypeAlias = Callable[[int], Schema]

_ON_BAD = {"error": 0, "null": 1, "drop": 2}  # as in `_decoder.pxd`


class Decoded:
    r"""Rows decoded from values. It has `__arrow_c_array__`: a struct array, where a bad or null value is a null.

    `AvroDecoder` makes it.

    Example:
        >>> from kafwire.avro import AvroDecoder
        >>> decoded = AvroDecoder("long", writer="long").decode([b"\x02", b"\x04"])
        >>> len(decoded), decoded.to_arrow()["value"].to_pylist()
        (2, [1, 2])
    """

    def __init__(self, part: Part, bad: list[BadRecord], before: int) -> None:
        self._part = part
        self._bad = bad
        self._before = before  # number of values in earlier chunks

    def __len__(self) -> int:
        return len(self._part)

    @property
    def first(self) -> int:
        r"""The row of the first value decoded here.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("long", writer="long").decode([b"\x02"]).first
            0
        """
        return self._before + self._part.first

    @property
    def stop(self) -> int:
        r"""The row after the last value decoded here.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("long", writer="long").decode([b"\x02"]).stop
            1
        """
        return self._before + self._part.stop

    @property
    def bad(self) -> list[BadRecord]:
        r"""The values that cannot be decoded, by row; rows count from the first given value.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("long", writer="long", on_bad="drop").decode([b"\x02", b""]).bad[0].row
            1
        """
        return self._bad

    def good(self) -> pa.BooleanArray:
        r"""Return, for each value from `first` to `stop`, whether it is decoded.

        With `on_bad="drop"` this selects the rows of other columns that belong to the decoded ones.

        Returns:
            A pyarrow.BooleanArray.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("long", writer="long", on_bad="drop").decode([b"\x02", b""]).good().to_pylist()
            [True, False]
        """
        import pyarrow as pa

        rows = self.stop - self.first
        bits = good_rows(rows, [each._replace(row=each.row - self.first) for each in self._bad])
        return pa.BooleanArray.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bytes(bits))])

    def to_arrow(self) -> pa.RecordBatch:
        r"""Make a pyarrow.RecordBatch of the fields. All fields of a bad or null value are null.

        Returns:
            The pyarrow.RecordBatch.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("long", writer="long").decode([b"\x02"]).to_arrow().schema.names
            ['value']
        """
        return record_batch(_Fields(self._part))

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        del requested_schema
        return self._part.arrow()


class _Fields:
    """The same rows without null rows, as a record batch has none."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        del requested_schema
        return self._part.arrow(valid=True)


class AvroDecoder:
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
        check_on_bad(on_bad)
        if null_values not in ("null", "bad") or enums not in ("string", "dictionary"):
            raise ConfigError(
                f"null_values is 'null' or 'bad', not {null_values!r}; enums is 'string' or 'dictionary', not {enums!r}"
            )
        if (schema_of is None) == (writer is None):
            raise ConfigError("AvroDecoder takes either schema_of, for values with a schema id, or writer")
        if max_bytes < 1 or max_empty_items < 0:
            raise ConfigError(
                f"max_bytes is at least 1, not {max_bytes}; max_empty_items at least 0, not {max_empty_items}"
            )
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
        self._layout = Layout(self._columns.columns)
        self._schema_of = schema_of
        self._places: dict[int, list[str]] = {}
        self._lock = threading.Lock()
        self._table = Table({})
        self._options: dict[str, Any] = {
            "on_bad": _ON_BAD[on_bad],
            "null_is_bad": null_values == "bad",
            "framed": writer is None,
            "max_empty_items": max_empty_items,
            "max_bytes": max_bytes,
        }
        if writer is not None:
            self._table = Table({0: self._program(0, _parsed(writer))})

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._arguments,)

    def __arrow_c_schema__(self) -> object:
        return self._layout.__arrow_c_schema__()

    @property
    def is_wrapped(self) -> bool:
        """True if the reader's schema is not a record: the rows have its values in the field `value`.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("long", writer="long").is_wrapped
            True
        """
        return self._columns.is_wrapped

    def decode(self, values: object) -> Decoded:
        r"""Decode values.

        Args:
            values: a binary column (anything with `__arrow_c_array__` or `__arrow_c_stream__`), rows with a column
                named `value`, such as a `Batch`, or a list of bytes and None.

        Returns:
            The rows, as many as values, unless bad ones are dropped.

        Raises:
            DecodeError: a value cannot be decoded, and `on_bad` is "error".
            ConfigError: the argument is no such data; or the columns hold more than `max_bytes`, or come in several
                chunks: use `parts` for these.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> AvroDecoder("string", writer="string").decode([b"\4UA", None]).to_arrow().to_pylist()
            [{'value': 'UA'}, {'value': None}]
        """
        found = list(self.parts(values))
        if len(found) != 1:
            raise ConfigError(
                f"the values need {len(found)} parts, one per chunk and per max_bytes ({self._options['max_bytes']}): "
                "call parts() instead of decode()"
            )
        return found[0]

    def parts(self, values: object) -> Iterator[Decoded]:
        r"""Decode values, of any size and in any number of chunks.

        Args:
            values: as for `decode`.

        Returns:
            An iterator over the rows: a part for each chunk, and for each `max_bytes` of columns.

        Raises:
            DecodeError: a value cannot be decoded, and `on_bad` is "error".
            ConfigError: the argument is no such data.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> column = pa.chunked_array([[b"\4UA"], [b"\4DL"]], pa.binary())
            >>> [part.to_arrow()["value"][0].as_py() for part in AvroDecoder("string", writer="string").parts(column)]
            ['UA', 'DL']
        """
        before = 0
        unknown: dict[int, str] = {}
        for chunk in values_of(values):
            yield from self._chunk(chunk, before, unknown)
            before += len(chunk)

    def _chunk(self, values: Values, before: int, unknown: dict[int, str]) -> Iterator[Decoded]:
        def with_schema(number: int) -> Table:
            return self._table_with(number, unknown)

        row = 0
        while row < len(values) or not row:
            part = decode_part(self._layout, self._table, values, row, with_schema, **self._options)
            bad = [self._bad(part, before, each) for each in part.bad]
            if part.stopped:
                raise bad[-1].error()
            yield Decoded(part, bad, before)
            row = part.stop
            if not len(values):
                return

    def _bad(self, part: Part, before: int, found: tuple[int, int, int, int, int, int]) -> BadRecord:
        row, number, code, where, at, detail = found
        schema_id = None if number < 0 or not self._options["framed"] else number
        if code == NO_SCHEMA:
            return BadRecord(before + row, str(part.programs[number]), schema_id)
        place = self._places[number][where] if where else ""
        return BadRecord(before + row, cause(code, place=place, at=at, detail=detail), schema_id)

    def _table_with(self, number: int, unknown: dict[int, str]) -> Table:
        """Return the table with one more id. Only the first thread that finds an id asks for its schema.

        `unknown` are the ids without a schema, for the values of one call: they may get one later.
        """
        with self._lock:
            if number not in self._table.programs and number not in unknown:
                self._ask(number, unknown)
            return Table({**self._table.programs, **unknown}) if unknown else self._table

    def _ask(self, number: int, unknown: dict[int, str]) -> None:
        """Look up the schema of an id; add the id to the table, or to the unknown ids."""
        assert self._schema_of is not None
        try:
            made: Program | str = self._program(number, _parsed(self._schema_of(number)))
        except UnknownSchemaError as problem:
            unknown[number] = str(problem)
            return
        except SchemaError as problem:
            made = f"schema {number}: {problem}"
        self._table = Table({**self._table.programs, number: made})

    def _program(self, number: int, writer: Type) -> Program:
        compiled = compile_program(writer, self._columns)
        self._places[number] = compiled.places
        return Program(compiled.operations, compiled.tables, bytes(compiled.constants))


def _parsed(schema: Schema) -> Type:
    return schema if isinstance(schema, Type) else parse(schema)


def _made(arguments: dict[str, Any]) -> AvroDecoder:
    return AvroDecoder(**arguments)
