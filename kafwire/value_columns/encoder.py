"""The base of encoders of Arrow columns to values, and their result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.value_columns._value_encoding import Columns, Encoded, Reading, Writer, encode_columns
from kafwire.value_columns.node import Node

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnEncoder", "EncodedValues"]

MAX_PROGRAMS = 64  # of Arrow types that one encoder keeps


class EncodedValues:
    """A binary column of values. It has `__arrow_c_array__`, which hands the memory over once.

    `AvroEncoder` makes it, or `ProtobufEncoder`.

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


class ColumnEncoder(ABC):
    """Encodes Arrow columns to values of one format, without the GIL. Any number of threads may encode at once.

    A format derives its encoder.

    Args:
        prefix: the bytes before each value.

    Raises:
        ConfigError: the prefix is not bytes.
    """

    def __init__(self, prefix: bytes) -> None:
        if not isinstance(prefix, bytes):
            raise ConfigError(f"prefix is bytes, not {type(prefix).__name__}")
        self._prefix = prefix
        self._programs: dict[tuple[Any, ...], tuple[Writer, Sequence[str]]] = {}

    @abstractmethod
    def _writer(self, node: Node) -> tuple[Writer, Sequence[str]]:
        """Return the program for an Arrow type, and the places that its causes refer to.

        Raises:
            SchemaError: the columns do not fit the schema.
        """

    @abstractmethod
    def _wrong(self, code: int, place: str, row: int, detail: int) -> Exception:
        """Return the error for a value that the schema does not allow."""

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
            raise self._wrong(code, places[where], before + row, detail)
        return EncodedValues(made)

    def _program(self, description: tuple[Any, ...]) -> tuple[Writer, Sequence[str]]:
        found = self._programs.get(description)
        if found is None:
            found = self._writer(Node.of(description))
            if len(self._programs) >= MAX_PROGRAMS:
                self._programs = {}
            self._programs[description] = found
        return found
