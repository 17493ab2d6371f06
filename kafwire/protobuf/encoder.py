"""`ProtobufEncoder`: encodes Arrow columns as values of one message type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafwire.protobuf._protobuf_writer import ProtobufWriter
from kafwire.protobuf.causes import wrong_value
from kafwire.protobuf.program import descriptor_of
from kafwire.protobuf.write_program import compile_writer
from kafwire.value_columns._value_encoding import Writer
from kafwire.value_columns.encoder import ColumnEncoder
from kafwire.value_columns.node import Node

__all__ = ["ProtobufEncoder"]


class ProtobufEncoder(ColumnEncoder):
    r"""Encodes Arrow columns as values of a Protobuf message type, without the GIL and without Python objects.

    The columns of a message are a struct: a pyarrow.RecordBatch, StructArray or Table, a polars or duckdb frame. Fields
    are found by name; a field without a column is absent. A null row is a null value, a null of a field an absent
    field. Columns have the types that `ProtobufDecoder` gives them, or narrower ones. Any number of threads may encode
    at once.

    Args:
        message: a generated message class, or its descriptor.
        prefix: the bytes before each value, such as those of a framing with a schema id, and the message's indexes.
        texts: the full names of message types whose columns are strings, which are written in place of a message.

    Raises:
        ConfigError: an argument is wrong.

    Example:
        >>> from google.protobuf.wrappers_pb2 import Int64Value
        >>> from kafwire.protobuf import ProtobufEncoder
        >>> ProtobufEncoder(Int64Value).encode(pa.record_batch({"value": [7, 0]})).to_arrow().to_pylist()
        [b'\x08\x07', b'']
    """

    def __init__(self, message: Any, *, prefix: bytes = b"", texts: frozenset[str] = frozenset()) -> None:
        super().__init__(prefix)
        self._texts = texts
        self._descriptor = descriptor_of(message)

    def _writer(self, node: Node) -> tuple[Writer, Sequence[str]]:
        made = compile_writer(self._descriptor, node, self._texts)
        rows = [each.row() for each in made.operations]
        return ProtobufWriter(rows, made.count, made.tables, bytes(made.texts), node.number, node.count()), made.places

    def _wrong(self, code: int, place: str, row: int, detail: int) -> Exception:
        return wrong_value(code, place=place, row=row, detail=detail)
