"""`Json`: keys and values as JSON documents, without a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafwire import json_values
from kafwire.json_columns import JsonDecoder
from kafwire.schemas.format import Format, OnBadRecord
from kafwire.schemas.text import Text
from kafwire.serialization import SerializationContext

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Json"]

# The Arrow types of documents; the forms of polars and DuckDB among them.
_DOCUMENTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


class Json(Format):
    """The format of JSON documents. Rows are Python values, as those of the serializer "json".

    With a schema, columns are struct columns of its fields: a member that the schema does not have is ignored, a
    missing one is null, and a document that does not fit is a bad record. Without a schema, a column stays text: a
    string column of documents, which is checked for UTF-8 alone. A struct column is written as objects, a string or
    binary column as the documents that it has.

    Args:
        schema: a pyarrow.Schema of the documents' fields, or None.
        on_bad: the outcome of a document that cannot be decoded: "error", "null", or a function of a `BadRecord`.

    Raises:
        ConfigError: `schema` is no pyarrow.Schema, or `on_bad` is none of these.

    Example:
        >>> carriers = kafwire.Json(pa.schema([("carrier", pa.string()), ("delay", pa.int32())]))
        >>> consumer = kafwire.Consumer(bootstrap, topics=[topic], value=carriers)
        >>> consumer.close()
    """

    __module__ = "kafwire"

    def __init__(self, schema: pa.Schema | None = None, *, on_bad: OnBadRecord = "error") -> None:
        super().__init__(on_bad=on_bad)
        self.schema = schema
        self._decoder = None if schema is None else JsonDecoder(schema, on_bad="null")

    def __repr__(self) -> str:
        return "Json()" if self.schema is None else f"Json(<schema of {', '.join(self.schema.names)}>)"

    def serialize(self, value: Any, ctx: SerializationContext) -> bytes:  # noqa: ARG002
        """Encode a value.

        Args:
            value: a value with a form in JSON.
            ctx: its record.

        Returns:
            The document.

        Raises:
            TypeError: JSON has no form of the value.
            ValueError: the value is NaN, an infinity, or text that is not Unicode.
        """
        return json_values.encode(value)

    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        """Decode a document.

        Args:
            data: the document.
            ctx: its record.

        Returns:
            The value; None for a bad record.

        Raises:
            DecodeError: the bytes are not JSON in UTF-8, and `on_bad` is "error".
        """
        try:
            return json_values.decode(data)
        except (ValueError, RecursionError) as error:
            self.bad(data, ctx, error)
            return None

    def serialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Encode a column.

        Args:
            column: a column; one of strings or bytes has documents already.
            ctx: its topic.

        Returns:
            A binary column.

        Raises:
            TypeError: JSON has no form of a value.
            ValueError: a value is NaN or an infinity.
        """
        import pyarrow as pa

        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if str(column.type) in _DOCUMENTS:
            return column.cast(pa.binary())
        return super().serialize_column(column, ctx)

    def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
        """Decode a column of documents.

        Args:
            column: the documents.
            ctx: its topic and rows.

        Returns:
            A struct column of the schema's fields; a string column without a schema.

        Raises:
            DecodeError: a document cannot be decoded, and `on_bad` is "error".
        """
        if self._decoder is None:
            return Text(on_bad=self.on_bad).deserialize_column(column, ctx)
        decoded = self._decoder.decode(column)
        self.report(decoded.bad, column, ctx)
        return decoded.to_struct()

    def arrow_type(self, ctx: SerializationContext) -> pa.DataType:  # noqa: ARG002
        """Return the type of a column of documents.

        Args:
            ctx: unused.

        Returns:
            A struct of the schema's fields; pyarrow.string() without a schema.
        """
        import pyarrow as pa

        return pa.string() if self.schema is None else pa.struct(list(self.schema))
