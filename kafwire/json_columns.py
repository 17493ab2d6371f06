"""The decoder of JSON documents to Arrow columns of a declared schema.

`_json_columns` reads the rows of schemas of plain types, without the GIL; it leaves every row that is not plain to
pyarrow's JSON reader, which reads all rows of other schemas. So both have the same values and the same mistakes.

pyarrow reads a text of documents, and fails as a whole without naming a row. So each value becomes the member of its
own object, and if a text of several values fails, its halves are read. No value can merge with the next one: `}`, a
line end and `{` follow it, which no document has inside. So equal numbers of documents and values mean one document for
each value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafwire import _json_columns as native
from kafwire.bad_records import BadRecord, OnBad, check_on_bad, good_rows
from kafwire.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JsonDecoded", "JsonDecoder"]

MAX_TEXT = 1 << 26  # bytes of values that are read at once
_MEMBER = "v"
Texts = Sequence[bytes | None] | Mapping[int, bytes | None]


class JsonDecoded:
    """Rows decoded from JSON documents.

    `JsonDecoder` makes it.

    Example:
        >>> from kafwire.json_columns import JsonDecoder
        >>> decoded = JsonDecoder(pa.schema([("n", pa.int64())]), on_bad="null").decode([b'{"n": 1}', b"?"])
        >>> decoded.to_arrow()["n"].to_pylist()
        [1, None]
    """

    def __init__(self, array: pa.StructArray, rows: int, bad: list[BadRecord]) -> None:
        self._array = array
        self._rows = rows
        self._bad = bad

    def __len__(self) -> int:
        return len(self._array)

    @property
    def bad(self) -> list[BadRecord]:
        """The values that cannot be decoded, by row.

        Example:
            >>> from kafwire.json_columns import JsonDecoder
            >>> JsonDecoder(pa.schema([("n", pa.int64())]), on_bad="null").decode([b"?"]).bad[0].row
            0
        """
        return self._bad

    def good(self) -> pa.BooleanArray:
        """Return True for each decoded value, False for each bad one.

        Returns:
            A pyarrow.BooleanArray.

        Example:
            >>> from kafwire.json_columns import JsonDecoder
            >>> JsonDecoder(pa.schema([("n", pa.int64())]), on_bad="drop").decode([b"?", b"{}"]).good().to_pylist()
            [False, True]
        """
        import pyarrow as pa

        bits = pa.py_buffer(bytes(good_rows(self._rows, self._bad)))
        return pa.BooleanArray.from_buffers(pa.bool_(), self._rows, [None, bits])

    def to_arrow(self) -> pa.RecordBatch:
        """Return a pyarrow.RecordBatch of the fields. A bad or null value has all of them null.

        Returns:
            The pyarrow.RecordBatch.

        Example:
            >>> from kafwire.json_columns import JsonDecoder
            >>> JsonDecoder(pa.schema([("n", pa.int64())])).decode([b'{"n": 1}']).to_arrow().num_rows
            1
        """
        import pyarrow as pa

        return pa.RecordBatch.from_arrays(self._array.flatten(), schema=pa.schema(list(self._array.type)))

    def to_struct(self) -> pa.StructArray:
        """Return a struct column of the fields. A bad or null value is null.

        Returns:
            The pyarrow.StructArray.

        Example:
            >>> from kafwire.json_columns import JsonDecoder
            >>> JsonDecoder(pa.schema([("n", pa.int64())])).decode([b'{"n": 1}', None]).to_struct().to_pylist()
            [{'n': 1}, None]
        """
        return self._array

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        found: tuple[object, object] = self._array.__arrow_c_array__(requested_schema)
        return found


class JsonDecoder:
    """A decoder of JSON objects to Arrow columns of one schema.

    A member that the schema does not have is ignored; a field that an object does not have is null. Numbers, text,
    times (ISO 8601) and nested values are read as pyarrow's JSON reader reads them.

    Args:
        schema: the columns: a pyarrow.Schema.
        on_bad: the outcome of a value that cannot be decoded: "error" (a `DecodeError`), "null" (a null row), or
            "drop" (no row). With the last two, `JsonDecoded.bad` has the value's row and the cause.
        null_values: "null" makes a null row of a null value; "bad" treats it as a value that cannot be decoded.

    Raises:
        ConfigError: an argument is wrong.

    Example:
        >>> from kafwire.json_columns import JsonDecoder
        >>> decoder = JsonDecoder(pa.schema([("carrier", pa.string())]))
        >>> decoder.decode([b'{"carrier": "UA", "year": 2013}']).to_arrow().to_pylist()
        [{'carrier': 'UA'}]
    """

    def __init__(self, schema: pa.Schema, *, on_bad: OnBad = "error", null_values: str = "null") -> None:
        import pyarrow as pa
        import pyarrow.compute  # as pa.compute below

        check_on_bad(on_bad)
        if null_values not in ("null", "bad"):
            raise ConfigError(f"null_values is 'null' or 'bad', not {null_values!r}")
        if not isinstance(schema, pa.Schema):
            raise ConfigError(f"schema is a pyarrow.Schema, not {type(schema).__name__}")
        self._type = pa.struct(list(schema))
        self._plain = _plain_fields(schema)
        self._explicit = pa.schema([(_MEMBER, self._type)])
        self._on_bad = on_bad
        self._null_is_bad = null_values == "bad"

    def decode(self, values: Any) -> JsonDecoded:
        """Decode values.

        Args:
            values: a binary or string column of pyarrow, or a list of bytes and None.

        Returns:
            The rows, as many as values, unless bad ones are dropped.

        Raises:
            DecodeError: a value cannot be decoded, and `on_bad` is "error".

        Example:
            >>> from kafwire.json_columns import JsonDecoder
            >>> JsonDecoder(pa.schema([("n", pa.int64())])).decode([b'{"n": 1}', None]).to_arrow()["n"].to_pylist()
            [1, None]
        """
        import pyarrow as pa

        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, pa.binary())
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        column = column.cast(pa.binary())
        found = self._read_natively(column)
        if found is None:
            return self._decode_slowly(column)
        array, left = found
        bad: list[BadRecord] = []
        if self._null_is_bad and column.null_count:
            bad = [BadRecord(row, "the value is null") for row in _rows_of(column.is_null())]
        if left:
            array = self._with_left(array, left, column, bad)
        bad.sort()
        if bad and self._on_bad == "error":
            raise bad[0].error()
        if bad and self._on_bad == "drop":
            array = array.filter(JsonDecoded(array, len(column), bad).good())
        return JsonDecoded(array, len(column), bad)

    def _read_natively(self, column: pa.Array) -> tuple[pa.StructArray, list[int]] | None:
        """Return the rows, null where they are not plain, and the numbers of those; None for other schemas."""
        import pyarrow as pa

        if self._plain is None:
            if not len(column) or column.nbytes > MAX_TEXT:
                return None
            return self._read_joined(column)
        rows = len(column)
        left, outcome, is_read, found = native.read_rows(self._plain, *_addresses(column))
        arrays = []
        for field, (nulls, valid, values, offsets) in zip(self._type, found, strict=True):
            buffers = [_buffer(valid), *([] if offsets is None else [_buffer(offsets)]), _buffer(values)]
            arrays.append(pa.Array.from_buffers(field.type, rows, buffers, nulls))
        array = pa.Array.from_buffers(self._type, rows, [_buffer(is_read)], children=arrays)
        if not left:
            return array, []
        outcomes = pa.Array.from_buffers(pa.uint8(), rows, [None, _buffer(outcome)])
        return array, _rows_of(outcomes, native.ROW_LEFT)

    def _read_joined(self, column: pa.Array) -> tuple[pa.StructArray, list[int]] | None:
        """Return the rows by pyarrow's reader; None if one of them is bad."""
        import pyarrow as pa

        try:
            column.cast(pa.string())  # pyarrow's reader does not refuse bytes that are no UTF-8
            found = self._parsed_text(_buffer(native.join_rows(*_addresses(column))), len(column) - column.null_count)
        except ValueError:
            return None
        if column.null_count:
            there = column.is_valid()
            places = pa.compute.if_else(there, pa.compute.cumulative_sum(there.cast(pa.int64())), None)
            found = found.take(pa.compute.subtract(places, 1))
        return found, []

    def _with_left(self, array: pa.Array, left: list[int], column: pa.Array, bad: list[BadRecord]) -> pa.StructArray:
        """Read the rows that are left by pyarrow's reader, and put them into their places."""
        import pyarrow as pa

        texts = dict(zip(left, column.take(pa.array(left, pa.int64())).to_pylist(), strict=True))
        pieces = [piece for rows in _cut(left, texts) for piece in self._read(rows, texts, bad)]
        wrong = {each.row for each in bad}
        good = pa.array([row for row in left if row not in wrong], pa.int64())
        places = pa.array(range(len(array)), pa.int64())
        mask = pa.compute.is_in(places, value_set=good)
        more = pa.array(range(len(array), len(array) + len(good)), pa.int64())
        places = pa.compute.replace_with_mask(places, mask, more)
        return pa.concat_arrays([array, *pieces]).take(places)

    def _decode_slowly(self, column: pa.Array) -> JsonDecoded:
        """Decode values of a schema that is not plain, one or more of them bad."""
        texts = column.to_pylist()
        there = [row for row, text in enumerate(texts) if text is not None]
        bad: list[BadRecord] = []
        if self._null_is_bad:
            bad = [BadRecord(row, "the value is null") for row, text in enumerate(texts) if text is None]
        pieces = [piece for rows in _cut(there, texts) for piece in self._read(rows, texts, bad)]
        bad.sort()
        if bad and self._on_bad == "error":
            raise bad[0].error()
        return JsonDecoded(self._placed(pieces, texts, bad), len(texts), bad)

    def _placed(self, pieces: list[pa.Array], texts: Sequence[bytes | None], bad: list[BadRecord]) -> pa.StructArray:
        """Return the rows in order, with null rows between them."""
        import pyarrow as pa

        found = pa.concat_arrays([*pieces, pa.array([], self._type)])
        wrong = {each.row for each in bad}
        indices: list[int | None] = []
        taken = 0
        for row, text in enumerate(texts):
            if row in wrong or text is None:
                if row not in wrong or self._on_bad == "null":
                    indices.append(None)
            else:
                indices.append(taken)
                taken += 1
        return found.take(pa.array(indices, pa.int64()))

    def _read(self, rows: Sequence[int], texts: Texts, bad: list[BadRecord]) -> Iterator[pa.Array]:
        """Yield the rows that can be read; append the others to `bad`."""
        if not rows:
            return
        try:
            yield self._parsed([texts[row] or b"" for row in rows])
        except ValueError as problem:  # pyarrow's errors are of this class, too
            if len(rows) == 1:
                bad.append(BadRecord(rows[0], str(problem)))
            else:
                yield from self._read(rows[: len(rows) // 2], texts, bad)
                yield from self._read(rows[len(rows) // 2 :], texts, bad)

    def _parsed(self, texts: Sequence[bytes]) -> pa.Array:
        import pyarrow as pa

        text = b"".join(b'{"%b":%b}\n' % (_MEMBER.encode(), each) for each in texts)
        text.decode()  # pyarrow's reader does not refuse bytes that are no UTF-8
        return self._parsed_text(pa.py_buffer(text), len(texts))

    def _parsed_text(self, text: pa.Buffer, rows: int) -> pa.Array:
        import pyarrow as pa
        from pyarrow import json

        if not rows:
            return pa.array([], self._type)
        table = json.read_json(
            pa.BufferReader(text),
            read_options=json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=json.ParseOptions(
                explicit_schema=self._explicit, newlines_in_values=True, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != rows:
            raise ValueError("more than one JSON document")
        column = table[_MEMBER].combine_chunks()
        if column.null_count:
            raise ValueError("null is no JSON object")
        return column


def _plain_fields(schema: pa.Schema) -> list[tuple[bytes, int, int, int, int]] | None:
    """Return the fields for `_json_columns`; None if a type is not plain, or a name is there twice."""
    import pyarrow as pa

    found = []
    for field in schema:
        kind = field.type
        if not field.nullable:
            return None
        name = field.name.encode()
        if pa.types.is_integer(kind):
            bits = kind.bit_width
            low, high = (0, 2**bits - 1) if str(kind).startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            found.append((name, native.INT, bits // 8, low, min(high, 2**63 - 1)))
        elif kind in (pa.string(), pa.bool_(), pa.float32(), pa.float64()):
            numbers = {pa.string(): native.STRING, pa.bool_(): native.BOOL, pa.float32(): native.FLOAT32}
            found.append((name, numbers.get(kind, native.FLOAT64), 4 if kind == pa.float32() else 8, 0, 0))
        else:
            return None
    return found if found and len(set(schema.names)) == len(found) else None


def _addresses(column: pa.Array) -> tuple[int, int, int, int, int]:
    """Return the arguments of `_json_columns` for a binary column."""
    valid, offsets, data = column.buffers()
    if offsets is None or not len(column):
        return 0, 0, 0, 0, 0
    is_given = column.null_count and valid is not None
    return 0 if data is None else data.address, offsets.address, column.offset, len(column), is_given and valid.address


def _buffer(memory: native.Memory) -> pa.Buffer:
    import pyarrow as pa

    return pa.foreign_buffer(memory.address, memory.size, memory)


def _rows_of(column: pa.Array, value: Any = True) -> list[int]:
    """Return the numbers of the rows of this value."""
    import pyarrow as pa

    found: list[int] = pa.compute.indices_nonzero(pa.compute.equal(column, value)).to_pylist()
    return found


def _cut(rows: Sequence[int], texts: Texts) -> Iterator[list[int]]:
    """Divide rows into groups of about `MAX_TEXT` bytes."""
    group: list[int] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(texts[row] or b"")
        if size >= MAX_TEXT:
            yield group
            group, size = [], 0
    if group:
        yield group
