"""`Text`: keys and values as text."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.schemas.format import Format, OnBadRecord
from kafwire.serialization import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Text"]


class Text(Format):
    """The format of text. Columns are string columns; those of UTF-8 share the memory of the bytes.

    Args:
        encoding: a name of Python's codecs.
        on_bad: the outcome of bytes that are no such text: "error", "null", or a function of a `BadRecord`.

    Raises:
        ConfigError: there is no such encoding, or `on_bad` is none of these.

    Example:
        >>> consumer = kafwire.Consumer(bootstrap, topics=[topic], key=kafwire.Text(), value=kafwire.Text())
        >>> consumer.close()
        >>> producer = kafwire.Producer("localhost:9092", value=kafwire.Text("latin-1"))
        >>> producer.close()
    """

    __module__ = "kafwire"

    def __init__(self, encoding: str = "utf-8", *, on_bad: OnBadRecord = "error") -> None:
        super().__init__(on_bad=on_bad)
        try:
            self.encoding = codecs.lookup(encoding).name
            "".encode(self.encoding)
        except (LookupError, TypeError):
            raise ConfigError(f"there is no encoding {encoding!r} of text: see Python's module codecs") from None

    def __repr__(self) -> str:
        return f"Text({self.encoding!r})"

    def serialize(self, value: str, ctx: SerializationContext) -> bytes:  # noqa: ARG002
        """Encode text.

        Args:
            value: the text.
            ctx: its record.

        Returns:
            The bytes.

        Raises:
            TypeError: the value is not a str.
            UnicodeEncodeError: the encoding has no bytes for a character.
        """
        if not isinstance(value, str):
            raise TypeError(f"text is needed, not {type(value).__name__}")
        return value.encode(self.encoding)

    def deserialize(self, data: bytes, ctx: SerializationContext) -> str | None:
        """Decode text.

        Args:
            data: the bytes.
            ctx: their record.

        Returns:
            The text; None for a bad record.

        Raises:
            DecodeError: the bytes are not text in the encoding, and `on_bad` is "error".
        """
        try:
            return data.decode(self.encoding)
        except UnicodeDecodeError as error:
            self.bad(data, ctx, error)
            return None

    def serialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Encode a string column.

        Args:
            column: a string column; a dictionary of strings becomes plain.
            ctx: its topic.

        Returns:
            A binary column.

        Raises:
            TypeError: the column is not of strings.
            UnicodeEncodeError: the encoding has no bytes for a character.
        """
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_null(column.type):
            return column.cast(pa.binary())
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or _is_view(column.type)):
            raise TypeError(f"a string column is needed, not {column.type}")
        if self.encoding != "utf-8":
            return super().serialize_column(column, ctx)
        return column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())

    def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Decode a binary column.

        Args:
            column: the bytes.
            ctx: its topic and rows.

        Returns:
            A string column.

        Raises:
            DecodeError: bytes are not text in the encoding, and `on_bad` is "error".
        """
        import pyarrow as pa

        if self.encoding == "utf-8":
            try:
                return column.cast(pa.large_string() if pa.types.is_large_binary(column.type) else pa.string())
            except pa.ArrowInvalid:
                pass  # the loop names the row
        return super().deserialize_column(column, ctx)

    def arrow_type(self, ctx: SerializationContext) -> pa.DataType:  # noqa: ARG002
        """Return the type string.

        Args:
            ctx: unused.

        Returns:
            pyarrow.string().
        """
        import pyarrow as pa

        return pa.string()


def _is_view(kind: Any) -> bool:
    return str(kind) == "string_view"
