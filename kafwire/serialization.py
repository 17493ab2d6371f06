"""What makes bytes of keys and values, and keys and values of bytes: the words of the options, and what users may give.

Imports no library: msgspec and pydantic are used for types of theirs, msgspec for "json" too if it is there.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol

__all__ = [
    "ArrowColumn",
    "Codec",
    "ColumnDeserializer",
    "ColumnSerializer",
    "Deserializer",
    "Deserializes",
    "Serializer",
    "Serializes",
    "deserializer",
    "serializer",
]

Headers = list[tuple[str, bytes | None]]


class ArrowColumn(Protocol):
    """A column of Arrow data, as the PyCapsule interface gives it.

    Example:
        >>> isinstance(pa.array(["EWR-IAH"]).__arrow_c_array__(), tuple)
        True
    """

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return PyCapsules "arrow_schema" and "arrow_array"."""


class Serializer(Protocol):
    """Makes bytes of keys or values. For an `AsyncProducer`, `serialize` may be async.

    Example:
        >>> class Rounded:
        ...     def serialize(self, value, topic, headers):
        ...         return b"%.2f" % value
        >>> producer = kafwire.Producer("localhost:9092", value_serializer=Rounded())
        >>> producer.close()
    """

    def serialize(self, value: Any, topic: str, headers: Headers) -> bytes | Awaitable[bytes]:
        """Make bytes of a key or value.

        Args:
            value: what was given to `send`; never None.
            topic: the topic that the record goes to.
            headers: the record's headers. What is appended is sent with the record.

        Returns:
            The bytes, or an awaitable of them.
        """


class Deserializer(Protocol):
    """Makes keys or values of bytes. For an `AsyncConsumer`, `deserialize` may be async.

    Example:
        >>> class Rounded:
        ...     def deserialize(self, data, topic, headers):
        ...         return float(data)
        >>> Rounded().deserialize(b"2.50", "prices", [])
        2.5
    """

    def deserialize(self, data: bytes, topic: str, headers: Headers) -> Any:
        """Make a key or value of bytes.

        Args:
            data: the bytes; never None.
            topic: the topic of the record.
            headers: the record's headers.

        Returns:
            The key or value.
        """


class ColumnSerializer(Serializer, Protocol):
    """A `Serializer` with a form for whole columns, which `send_batch` uses.

    Example:
        >>> class Rounded:
        ...     def serialize(self, value, topic, headers):
        ...         return b"%.2f" % value
        ...     def serialize_column(self, column, topic):
        ...         return pa.array([None if n is None else b"%.2f" % n for n in pa.array(column).to_pylist()])
        >>> Rounded().serialize_column(pa.array([2.5, None]), "prices").to_pylist()
        [b'2.50', None]
    """

    def serialize_column(self, column: ArrowColumn, topic: str | None) -> ArrowColumn:
        """Make a column of bytes.

        Args:
            column: what was given to `send_batch`.
            topic: the topic; None if a column names the topics.

        Returns:
            A column of the same length. Nulls stay.
        """


class ColumnDeserializer(Deserializer, Protocol):
    """A `Deserializer` with a form for whole columns, which `Batch.to_arrow` uses.

    Example:
        >>> class Rounded:
        ...     def deserialize(self, data, topic, headers):
        ...         return float(data)
        ...     def deserialize_column(self, column, topic):
        ...         return pa.array([None if data is None else float(data) for data in pa.array(column).to_pylist()])
        >>> Rounded().deserialize_column(pa.array([b"2.50", None]), "prices").to_pylist()
        [2.5, None]
    """

    def deserialize_column(self, column: ArrowColumn, topic: str) -> ArrowColumn:
        """Make a column of keys or values from a column of bytes.

        Args:
            column: the bytes.
            topic: the topic of the rows.

        Returns:
            A column of the same length. Nulls stay.
        """


# What the options take. Modules and classes are `json`, and types of msgspec and pydantic.
Serializes = str | type | ModuleType | Serializer | Callable[[Any, str, Headers], bytes | Awaitable[bytes]] | None
Deserializes = str | type | ModuleType | Deserializer | Callable[[bytes, str, Headers], Any] | None


class Codec:
    """A serializer or deserializer that was chosen by an option.

    `convert(data, topic, headers)` is its function, `column` its form for columns, or None. `serializer` and
    `deserializer` make it.

    Args:
        make: `serializer` or `deserializer`, for pickling.
        spec: what the option was.
        convert: the function.
        column: its form for columns, or None.

    Example:
        >>> from kafwire.serialization import serializer
        >>> serializer("json").convert({"carrier": "UA"}, "flights", [])
        b'{"carrier":"UA"}'
    """

    __slots__ = ("_make", "_spec", "column", "convert", "is_async")

    def __init__(
        self,
        make: Callable[[Any], Codec | None],
        spec: Any,
        convert: Callable[[Any, str, Headers], Any],
        column: Callable[[Any, str | None], Any] | None = None,
    ) -> None:
        self._make = make
        self._spec = spec
        self.convert: Final = convert
        self.column: Final = column
        self.is_async: Final = inspect.iscoroutinefunction(convert) or inspect.iscoroutinefunction(
            getattr(convert, "__call__", None)  # noqa: B004  # of an object with an async __call__
        )

    def __reduce__(self) -> tuple[object, ...]:
        return self._make, (self._spec,)

    def __repr__(self) -> str:
        return repr(self._spec)


def serializer(spec: Any) -> Codec | None:
    """Return what an option `key_serializer` or `value_serializer` names.

    Args:
        spec: str, "json", bytes, None, a msgspec.Struct or pydantic.BaseModel class, a function (data, topic, headers),
            or a `Serializer`.

    Returns:
        The codec; None for bytes as they are.

    Raises:
        ValueError: `spec` is none of these.

    Example:
        >>> from kafwire.serialization import serializer
        >>> serializer(str).convert("EWR", "flights", [])
        b'EWR'
    """
    return _codec(serializer, spec, ("serialize", "serialize_column"), _encode_text, _to_json, _to_type)


def deserializer(spec: Any) -> Codec | None:
    """Return what an option `key_deserializer` or `value_deserializer` names.

    Args:
        spec: str, "json", bytes, None, a msgspec.Struct or pydantic.BaseModel class, a function (data, topic, headers),
            or a `Deserializer`.

    Returns:
        The codec; None for bytes as they are.

    Raises:
        ValueError: `spec` is none of these.

    Example:
        >>> from kafwire.serialization import deserializer
        >>> deserializer("json").convert(b'{"carrier": "UA"}', "flights", [])
        {'carrier': 'UA'}
    """
    return _codec(deserializer, spec, ("deserialize", "deserialize_column"), _decode_text, _from_json, _from_type)


def _codec(
    make: Callable[[Any], Codec | None],
    spec: Any,
    methods: Sequence[str],
    text: Callable[[Any, str, Headers], Any],
    of_json: Callable[[], Callable[[Any], Any]],
    of_type: Callable[[type, str], Callable[[Any], Any]],
) -> Codec | None:
    if spec is None or spec is bytes or (isinstance(spec, str) and spec == "bytes"):
        return None
    if spec is str or (isinstance(spec, str) and spec in ("str", "string")):
        return Codec(make, str, text)
    if spec is json or (isinstance(spec, str) and spec == "json"):
        return Codec(make, "json", _of_one(of_json()))
    if isinstance(spec, type):
        library = _library(spec)
        if library is not None:
            return Codec(make, spec, _of_one(of_type(spec, library)))
    else:
        convert, column = (getattr(spec, name, None) for name in methods)
        if callable(convert):
            return Codec(make, spec, convert, column if callable(column) else None)
        if callable(spec):
            return Codec(make, spec, spec)
    raise ValueError(
        'allowed: str, "json", bytes, a msgspec.Struct or pydantic.BaseModel class, a function (data, topic, headers), '
        f"or an object with `{methods[0]}(data, topic, headers)`"
    )


def _of_one(function: Callable[[Any], Any]) -> Callable[[Any, str, Headers], Any]:
    """A function of the data alone, as one that is told where it belongs."""
    return lambda data, topic, headers: function(data)  # noqa: ARG005


def _library(kind: type) -> str | None:
    """Whose kind of type this is: "msgspec", "pydantic", or None."""
    for base in kind.__mro__:
        if (base.__module__.partition(".")[0], base.__name__) in (("msgspec", "Struct"), ("pydantic", "BaseModel")):
            if base.__name__ == "BaseModel" and not hasattr(kind, "model_validate_json"):
                raise ValueError("pydantic 2 or newer is needed")
            return base.__module__.partition(".")[0]
    return None


def _encode_text(value: Any, topic: str, headers: Headers) -> bytes:  # noqa: ARG001
    if not isinstance(value, str):
        raise TypeError(f"text is needed, not {type(value).__name__}")
    return value.encode()


def _decode_text(data: bytes, topic: str, headers: Headers) -> str:  # noqa: ARG001
    return data.decode()


def _to_json() -> Callable[[Any], bytes]:
    try:
        encode: Callable[[Any], bytes] = import_module("msgspec.json").encode
    except ImportError:
        dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
        return lambda value: dump(value).encode()
    return encode


def _from_json() -> Callable[[bytes], Any]:
    try:
        decode: Callable[[bytes], Any] = import_module("msgspec.json").decode
    except ImportError:
        return json.loads
    return decode


def _to_type(kind: type, library: str) -> Callable[[Any], bytes]:
    if library == "msgspec":
        encode: Callable[[Any], bytes] = import_module("msgspec.json").Encoder().encode
    else:

        def encode(value: Any) -> bytes:
            text: str = value.model_dump_json()
            return text.encode()

    def convert(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise TypeError(f"a {kind.__name__} is needed, not {type(value).__name__}")
        return encode(value)

    return convert


def _from_type(kind: Any, library: str) -> Callable[[bytes], Any]:
    if library == "msgspec":
        decode: Callable[[bytes], Any] = import_module("msgspec.json").Decoder(kind).decode
    else:
        decode = kind.model_validate_json
    return decode
