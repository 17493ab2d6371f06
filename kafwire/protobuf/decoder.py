"""`ProtobufDecoder`: decodes values of one message type to Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from kafwire.bad_records import OnBad
from kafwire.errors import ConfigError
from kafwire.protobuf._protobuf_program import ProtobufProgram
from kafwire.protobuf.causes import cause
from kafwire.protobuf.program import Enums, compile_message, descriptor_of, indexes_of
from kafwire.value_columns._value_columns import Program
from kafwire.value_columns.decoder import ColumnDecoder

__all__ = ["ProtobufDecoder"]


class ProtobufDecoder(ColumnDecoder):
    r"""Decodes values of a Protobuf message type to Arrow columns, without the GIL and without Python objects.

    Fields that the type does not have are skipped; those that a value does not have are null if the type knows their
    presence, else zero or empty. Any number of threads may decode at once.

    Args:
        message: a generated message class, or its descriptor.
        framed: values begin with a zero byte, a schema id of four bytes and the indexes of the message in its schema
            (Confluent's format). A value of another message of the schema is bad.
        check_id: is called once for each schema id. If it raises `SchemaError` or `UnknownSchemaError`, the values with
            the id are bad; after the latter the next part calls it again.
        on_bad: the outcome of a value that cannot be decoded: "error" (a `DecodeError`), "null" (a null row), or "drop"
            (no row). With the last two, `Decoded.bad` has the value's row and the cause.
        null_values: "null" makes a null row of a value that is null; "bad" treats it as one that cannot be decoded.
        enums: "string", "dictionary" for columns of Arrow's dictionary type, or "number". A number without a symbol is
            its digits as text, null in a dictionary, and the number.
        times: the unit of Timestamp and Duration, "us" or "ns". Digits below it are cut off, towards the past.
        max_bytes: the limit of the columns of one `Decoded`; a value that alone takes more is bad.
        texts: the full names of message types that values have as a text instead of a message.

    Raises:
        SchemaError: the type has no fields, contains itself, or is too large.
        ConfigError: an argument is wrong.

    Example:
        >>> from google.protobuf.wrappers_pb2 import Int64Value
        >>> from kafwire.protobuf import ProtobufDecoder
        >>> ProtobufDecoder(Int64Value).decode([Int64Value(value=7).SerializeToString()]).to_arrow().to_pylist()
        [{'value': 7}]
    """

    def __init__(
        self,
        message: Any,
        *,
        framed: bool = False,
        check_id: Callable[[int], object] | None = None,
        on_bad: OnBad = "error",
        null_values: Literal["null", "bad"] = "null",
        enums: Enums = "string",
        times: Literal["us", "ns"] = "us",
        max_bytes: int = 1 << 30,
        texts: frozenset[str] = frozenset(),
    ) -> None:
        descriptor = descriptor_of(message)
        if enums not in ("string", "dictionary", "number") or times not in ("us", "ns"):
            raise ConfigError(
                f"enums is 'string', 'dictionary' or 'number', not {enums!r}; times is 'us' or 'ns', not {times!r}"
            )
        if check_id is not None and not framed:
            raise ConfigError("check_id needs framed=True: values without a schema id have none to check")
        compiled = compile_message(descriptor, enums=enums, times=times, texts=texts)
        super().__init__(compiled.columns, framed=framed, on_bad=on_bad, null_values=null_values, max_bytes=max_bytes)
        self._message_places = compiled.places
        self._check_id = check_id
        self._made = ProtobufProgram(
            compiled.messages,
            compiled.fields,
            compiled.tables,
            bytes(compiled.texts),
            indexes_of(descriptor) if framed else None,
        )
        if not framed:
            self._keep(0)

    def _program(self, number: int) -> tuple[Program, Sequence[str]]:
        if self._check_id is not None:
            self._check_id(number)
        return self._made, self._message_places

    def _cause(self, code: int, place: str, at: int, detail: int) -> str:
        return cause(code, place=place, at=at, detail=detail)
