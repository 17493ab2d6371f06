"""The base of decoders of values to Arrow columns, and their result."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kafwire.arrow import record_batch
from kafwire.bad_records import BadRecord, OnBad, check_on_bad, good_rows
from kafwire.errors import ConfigError, SchemaError, UnknownSchemaError
from kafwire.integers import HIGHEST, count, integer
from kafwire.value_columns._value_columns import Layout, Part, Program, Table, Values, decode_part, values_of
from kafwire.value_columns.causes import NO_SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

    from kafwire.value_columns.column import Column

__all__ = ["ColumnDecoder", "Decoded"]

_ON_BAD = {"error": 0, "null": 1, "drop": 2}  # as in `_value_columns.pxd`


class Decoded:
    r"""Rows decoded from values. It has `__arrow_c_array__`: a struct array, where a bad or null value is a null.

    `AvroDecoder` makes it, or `ProtobufDecoder`.

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


class ColumnDecoder(ABC):
    """Decodes values of one format to Arrow columns, without the GIL. Any number of threads may decode at once.

    A format derives its decoder, and passes its columns.

    Args:
        columns: the columns.
        framed: values begin with a zero byte and a schema id of four bytes.
        on_bad: the outcome of a value that cannot be decoded: "error", "null" or "drop".
        null_values: "null" makes a null row of a value that is null; "bad" treats it as one that cannot be decoded.
        max_bytes: the limit of the columns of one `Decoded`.
        max_empty_items: how many items without bytes one value may have.

    Raises:
        ConfigError: an argument is wrong.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        framed: bool,
        on_bad: OnBad,
        null_values: Literal["null", "bad"],
        max_bytes: int,
        max_empty_items: int = 0,
    ) -> None:
        check_on_bad(on_bad)
        if null_values not in ("null", "bad"):
            raise ConfigError(f"null_values is 'null' or 'bad', not {null_values!r}")
        limit, empty_items = count(max_bytes), integer(max_empty_items)
        if limit is None or empty_items is None or empty_items < 0:
            raise ConfigError(
                f"max_bytes is at least 1, not {max_bytes!r}; max_empty_items at least 0, not {max_empty_items!r}"
            )
        self._layout = Layout(columns)
        self._places: dict[int, Sequence[str]] = {}
        self._lock = threading.Lock()
        self._table = Table({})
        self._options: dict[str, Any] = {
            "on_bad": _ON_BAD[on_bad],
            "null_is_bad": null_values == "bad",
            "framed": framed,
            "max_empty_items": min(empty_items, HIGHEST),
            "max_bytes": min(limit, HIGHEST),
        }

    @abstractmethod
    def _program(self, number: int) -> tuple[Program, Sequence[str]]:
        """Return the program of a schema id, 0 for values without ids, and the places that its causes refer to.

        Raises:
            UnknownSchemaError: there is no such schema yet.
            SchemaError: the schema does not match the columns.
        """

    @abstractmethod
    def _cause(self, code: int, place: str, at: int, detail: int) -> str:
        """Return the text of a cause."""

    def __arrow_c_schema__(self) -> object:
        return self._layout.__arrow_c_schema__()

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

    def to_column(self, values: object) -> tuple[pa.Array, list[BadRecord]]:
        r"""Decode values to one column, of any size and in any number of chunks.

        Args:
            values: as for `decode`.

        Returns:
            A struct column, and the bad values.

        Raises:
            DecodeError: a value cannot be decoded, and `on_bad` is "error".
            ConfigError: the argument is no such data.

        Example:
            >>> from kafwire.avro import AvroDecoder
            >>> column, bad = AvroDecoder("string", writer="string", on_bad="null").to_column([b"\4UA", b"?"])
            >>> column.to_pylist(), len(bad)
            ([{'value': 'UA'}, None], 1)
        """
        import pyarrow as pa

        parts = list(self.parts(values))
        arrays = [pa.array(part) for part in parts]
        bad = [each for part in parts for each in part.bad]
        return (arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)), bad

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
        return BadRecord(before + row, self._cause(code, place, at, detail), schema_id)

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
        try:
            self._keep(number)
        except UnknownSchemaError as problem:
            unknown[number] = str(problem)
        except SchemaError as problem:
            self._table = Table({**self._table.programs, number: f"schema {number}: {problem}"})

    def _keep(self, number: int) -> None:
        """Add the program of an id to the table. Raises what `_program` raises."""
        program, self._places[number] = self._program(number)
        self._table = Table({**self._table.programs, number: program})
