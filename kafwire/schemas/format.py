"""`Format`, the base of all formats: its four methods, and the outcome of a bad record.

May not hold: bytes of a particular format, and requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from kafwire.bad_records import BadRecord
from kafwire.errors import ConfigError, DecodeError
from kafwire.serialization import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Format", "OnBadRecord"]

# "error": an error that names the record. "null": a null. A function gets the `BadRecord`, and the value is null.
OnBadRecord: TypeAlias = Literal["error", "null"] | Callable[[BadRecord], object]


class Format:
    """A format of keys or values: `kafwire.Text`, `Json`, `JsonSchema`, `Avro` and `Protobuf` are formats.

    A format is the value of `value=` and `key=`, and of the options for serializers and deserializers. A subclass
    defines the four methods, and calls `bad` for bytes that it cannot decode.

    Args:
        on_bad: the outcome of bytes that cannot be decoded: "error" (a `SerializationError` that names the record),
            "null", or a function that gets a `BadRecord`; the value is null then. A second conversion of the same rows
            calls the function again.

    Raises:
        ConfigError: `on_bad` is none of these.

    Example:
        >>> class Rounded(kafwire.schemas.Format):
        ...     def serialize(self, value, ctx):
        ...         return b"%.2f" % value
        ...     def deserialize(self, data, ctx):
        ...         try:
        ...             return float(data)
        ...         except ValueError as error:
        ...             return self.bad(data, ctx, str(error))
        >>> consumer = kafwire.Consumer(bootstrap, topics=[topic], value=Rounded(on_bad="null"))
        >>> consumer.close()
    """

    def __init__(self, *, on_bad: OnBadRecord = "error") -> None:
        if on_bad not in ("error", "null") and not callable(on_bad):
            raise ConfigError(f'on_bad is "error", "null" or a function of a BadRecord, not {on_bad!r}')
        self.on_bad = on_bad

    @property
    def adds_nulls(self) -> bool:
        """True if `deserialize_column` makes nulls of bad records. Without it, more nulls than before are an error."""
        return self.on_bad != "error"

    def serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        """Convert a key or value to bytes.

        Args:
            value: the key or value; never None.
            ctx: its record. A format may append to its headers.

        Returns:
            The bytes.

        Raises:
            Exception: the format has no form of the value.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method serialize: define it to send")

    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        """Convert bytes to a key or value.

        Args:
            data: the bytes; never None.
            ctx: their record.

        Returns:
            The key or value; None for a bad record.

        Raises:
            DecodeError: the bytes cannot be decoded, and `on_bad` is "error".
        """
        raise NotImplementedError(f"{type(self).__name__} has no method deserialize: define it to read")

    def serialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Convert a column to a column of bytes. Here, row by row.

        Args:
            column: a pyarrow.Array.
            ctx: its topic, "" if a column names the topics. The records get the headers that a format appends.

        Returns:
            A binary column of the same length. Nulls stay.

        Raises:
            Exception: the format has no form of a value.
        """
        import pyarrow as pa

        return pa.array(
            [None if value is None else self.serialize(value, ctx) for value in column.to_pylist()], pa.binary()
        )

    def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Convert a column of bytes to a typed column. Here, row by row.

        Args:
            column: a binary pyarrow.Array.
            ctx: its topic, the rows' headers and offsets.

        Returns:
            A column of the same length. Nulls stay; bad records are null, too.

        Raises:
            DecodeError: bytes cannot be decoded, and `on_bad` is "error".
        """
        import pyarrow as pa

        made = []
        for row, data in enumerate(column.to_pylist()):
            made.append(None if data is None else self.deserialize(data, ctx.of_row(row)))
        return pa.array(made, self.arrow_type(ctx))

    def arrow_type(self, ctx: SerializationContext) -> pa.DataType | None:  # noqa: ARG002
        """Return the type of a deserialized column, which scans, data sets and frames have before any row.

        Args:
            ctx: the topic, "" for several topics; there are no headers.

        Returns:
            The pyarrow.DataType; None if only rows tell it.
        """
        return None

    def bad(
        self, data: bytes | None, ctx: SerializationContext, cause: str | Exception, *, schema_id: Any = None
    ) -> None:
        """Report a bad record as `on_bad` says.

        Args:
            data: the bytes.
            ctx: their record; `ctx.of_row(row)` for a row of a column.
            cause: the mistake, and its place.
            schema_id: the id of the schema in the bytes or headers, an int or UUID; None if there is none.

        Raises:
            DecodeError: `on_bad` is "error".
        """
        if self.on_bad == "null":
            return
        row = 0 if ctx.row is None else ctx.row
        if self.on_bad == "error":
            self._fail(ctx, str(cause), row, schema_id, cause if isinstance(cause, Exception) else None)
        assert callable(self.on_bad)
        self.on_bad(BadRecord(row, str(cause), schema_id, data, ctx.topic, ctx.field, ctx.partition, ctx.offset))

    def report(self, bad: Sequence[BadRecord], column: pa.Array, ctx: SerializationContext) -> None:
        """Report the bad rows of a column that a decoder lists, as `bad` reports one.

        Args:
            bad: the rows, their causes and schema ids.
            column: the column of bytes.
            ctx: its context.

        Raises:
            DecodeError: `on_bad` is "error", and there is a bad row.
        """
        if self.on_bad != "null":
            for each in bad:
                self.bad(column[each.row].as_py(), ctx.of_row(each.row), each.cause, schema_id=each.schema_id)

    @staticmethod
    def _fail(ctx: SerializationContext, cause: str, row: int, schema_id: Any, error: Exception | None) -> NoReturn:
        text = cause if ctx.row is None else f"row {row}: {cause}"
        raise DecodeError(text, row=row, cause=cause, schema_id=schema_id) from error
