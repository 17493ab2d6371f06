"""Serializers and deserializers: the values that the options accept, and their conversion to codecs.

Imports no library: msgspec and pydantic are loaded for their own types. `serializer_signature` has the call of
functions and methods, `json_values` the format "json".
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol

from kafwire import json_values
from kafwire.serializer_signature import (
    Arguments,
    ColumnContext,
    SerializationContext,
    arguments_of_function,
    arguments_of_method,
    takes_ctx,
)

__all__ = [
    "ArrowColumn",
    "Codec",
    "ColumnContext",
    "ColumnDeserializer",
    "ColumnSerializer",
    "Deserializer",
    "Deserializes",
    "SerializationContext",
    "Serializer",
    "Serializes",
    "deserializer",
    "serializer",
]

Headers = list[tuple[str, bytes | None]]


class ArrowColumn(Protocol):
    """A column of Arrow data, with the PyCapsule interface.

    Example:
        >>> isinstance(pa.array(["EWR-IAH"]).__arrow_c_array__(), tuple)
        True
    """

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return PyCapsules "arrow_schema" and "arrow_array"."""


class Serializer(Protocol):
    """A converter of keys or values to bytes. For an `AsyncProducer`, `serialize` may be async.

    Example:
        >>> class Rounded:
        ...     def serialize(self, value, topic, headers):
        ...         return b"%.2f" % value
        >>> producer = kafwire.Producer("localhost:9092", value_serializer=Rounded())
        >>> producer.close()
    """

    def serialize(self, value: Any, topic: str, headers: Headers) -> bytes | str | Awaitable[bytes | str]:
        """Convert a key or value to bytes.

        Args:
            value: the argument of `send`; never None.
            topic: the topic of the record.
            headers: the record's headers. Appended headers are sent with the record.

        Returns:
            The bytes, or text, which is sent as UTF-8, or an awaitable of one of them.
        """


class Deserializer(Protocol):
    """A converter of bytes to keys or values. For an `AsyncConsumer`, `deserialize` may be async.

    Example:
        >>> class Rounded:
        ...     def deserialize(self, data, topic, headers):
        ...         return float(data)
        >>> Rounded().deserialize(b"2.50", "prices", [])
        2.5
    """

    def deserialize(self, data: bytes, topic: str, headers: Headers) -> Any:
        """Convert bytes to a key or value.

        Args:
            data: the bytes; never None.
            topic: the topic of the record.
            headers: the record's headers.

        Returns:
            The key or value.
        """


class ColumnSerializer(Serializer, Protocol):
    """A `Serializer` with a method for whole columns, which `send_batch` calls.

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
        """Convert a column to a column of bytes.

        Args:
            column: the column of the data of `send_batch`.
            topic: the topic; None if a column names the topics. A second parameter named `ctx` gets a `ColumnContext`.

        Returns:
            A column of the same length. Nulls stay.
        """


class ColumnDeserializer(Deserializer, Protocol):
    """A `Deserializer` with a method for whole columns, which `Batch.to_arrow` calls.

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
        """Convert a column of bytes to a column of keys or values.

        Args:
            column: the bytes.
            topic: the topic of the rows. A second parameter named `ctx` gets a `ColumnContext`.

        Returns:
            A column of the same length. Nulls stay.
        """


class _HasSerialize(Protocol):
    """An object whose `serialize` has parameters in another order, such as kafka-python's serializers."""

    @property
    def serialize(self) -> Callable[..., Any]: ...


class _HasDeserialize(Protocol):
    """An object whose `deserialize` has parameters in another order, such as kafka-python's deserializers."""

    @property
    def deserialize(self) -> Callable[..., Any]: ...


# Values of the options. The module is `json`; the classes are types of msgspec and pydantic.
Serializes = (
    str
    | type
    | ModuleType
    | Serializer
    | _HasSerialize
    | Callable[..., bytes | str | Awaitable[bytes | str] | None]
    | None
)
Deserializes = str | type | ModuleType | Deserializer | _HasDeserialize | Callable[..., Any] | None


class Codec:
    """The serializer or deserializer of an option.

    `convert(data, topic, headers)` is its function, `alone(data)` the same if it takes no other argument (else None),
    `contextual(data, ctx)` the same if these are its arguments (else None), `column(column, ctx)` its method for
    columns, or None. `adds_nulls` is True if this method makes nulls of bad records, `arrow_type(ctx)` the type that
    it makes, if the object has a method of this name. `lookups` are the `SchemaLookups` of a format with a registry, or
    None. `serializer` and `deserializer` return it.

    Args:
        make: `serializer` or `deserializer`, for pickling.
        spec: the option's value.
        function: the function.
        arguments: the arguments of its call.
        column: its method for columns, or None.
        part: "key" or "value".

    Example:
        >>> from kafwire.serialization import serializer
        >>> serializer("json").convert({"carrier": "UA"}, "flights", [])
        b'{"carrier":"UA"}'
    """

    __slots__ = (
        *("_arguments", "_function", "_make", "_spec", "adds_nulls", "alone", "arrow_type"),
        *("column", "contextual", "convert", "is_async", "lookups"),
    )

    def __init__(
        self,
        make: Callable[[Any], Codec | None],
        spec: Any,
        function: Callable[..., Any],
        arguments: Arguments,
        column: Callable[[Any, ColumnContext], Any] | None = None,
        part: str = "value",
    ) -> None:
        self._make = make
        self._spec = spec
        self._function = function
        self._arguments = arguments
        self.alone: Final = function if arguments.is_data_alone() else None
        self.contextual: Final = function if arguments == _WITH_CTX else None
        self.convert: Final = arguments.adapted(function, part)
        self.column: Final = column
        self.lookups: Final = getattr(spec, "schema_lookups", None)
        self.adds_nulls: Final = bool(getattr(spec, "adds_nulls", False))
        self.arrow_type: Final = getattr(spec, "arrow_type", None) if column is not None else None
        self.is_async: Final = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # of an object with an async __call__
        )

    def of(self, part: str) -> Codec:
        """Return the same codec for keys, or for values.

        Args:
            part: "key" or "value", for a function with a parameter `ctx`.

        Returns:
            The codec.
        """
        return Codec(self._make, self._spec, self._function, self._arguments, self.column, part)

    def __reduce__(self) -> tuple[object, ...]:
        return self._make, (self._spec,)

    def __repr__(self) -> str:
        return repr(self._spec)


def serializer(spec: Any) -> Codec | None:
    """Return the codec of an option `key_serializer` or `value_serializer`.

    Args:
        spec: str, "json", bytes, None, a msgspec.Struct or pydantic.BaseModel class, a function (data),
            (data, topic, headers) or (data, ctx), or a `Serializer`.

    Returns:
        The codec; None for bytes as they are.

    Raises:
        ValueError: `spec` is none of these, or cannot be called with these parameters.

    Example:
        >>> from kafwire.serialization import serializer
        >>> serializer(str).convert("EWR", "flights", [])
        b'EWR'
    """
    return _codec(serializer, spec, ("serialize", "serialize_column"), _encode_text, json_values.encode, _to_type)


def deserializer(spec: Any) -> Codec | None:
    """Return the codec of an option `key_deserializer` or `value_deserializer`.

    Args:
        spec: str, "json", bytes, None, a msgspec.Struct or pydantic.BaseModel class, a function (data),
            (data, topic, headers) or (data, ctx), or a `Deserializer`.

    Returns:
        The codec; None for bytes as they are.

    Raises:
        ValueError: `spec` is none of these, or cannot be called with these parameters.

    Example:
        >>> from kafwire.serialization import deserializer
        >>> deserializer("json").convert(b'{"carrier": "UA"}', "flights", [])
        {'carrier': 'UA'}
    """
    return _codec(
        deserializer, spec, ("deserialize", "deserialize_column"), bytes.decode, json_values.decode, _from_type
    )


def _codec(
    make: Callable[[Any], Codec | None],
    spec: Any,
    methods: Sequence[str],
    text: Callable[[Any], Any],
    of_json: Callable[[Any], Any],
    of_type: Callable[[type, str], Callable[[Any], Any]],
) -> Codec | None:
    if spec is None or spec is bytes or (isinstance(spec, str) and spec == "bytes"):
        return None
    if spec is str or (isinstance(spec, str) and spec in ("str", "string")):
        return Codec(make, str, text, _ALONE)
    if spec is json or (isinstance(spec, str) and spec == "json"):
        return Codec(make, "json", of_json, _ALONE)
    is_type = isinstance(spec, type)
    method, column = methods
    if is_type:
        library = _library(spec)
        if library is not None:
            return Codec(make, spec, of_type(spec, library), _ALONE)
    elif callable(convert := getattr(spec, method, None)):
        by_column = getattr(spec, column, None)
        of_column = _by_context(by_column) if callable(by_column) else None
        return Codec(make, spec, convert, arguments_of_method(spec, method), of_column)
    elif callable(spec):
        return Codec(make, spec, spec, arguments_of_function(spec))
    raise ValueError(
        'allowed: str, "json", bytes, a msgspec.Struct or pydantic.BaseModel class, a function (data), '
        f"(data, topic, headers) or (data, ctx), or an object with `{method}(data, topic, headers)`"
        + (f"; an object of the class, {spec.__name__}(), is one" if is_type and _makes_codecs(spec, method) else "")
    )


_ALONE = Arguments(("data",))
_WITH_CTX = Arguments(("data", "ctx"))


def _by_context(method: Callable[..., Any]) -> Callable[[Any, ColumnContext], Any]:
    """Return a method for columns as a function (column, ctx)."""
    return method if takes_ctx(method) else lambda column, ctx: method(column, ctx.topic or None)


def _makes_codecs(kind: type, method: str) -> bool:
    """Return True if an instance of the class can be the option's value. The class itself cannot."""
    return any(name in vars(base) for base in kind.__mro__[:-1] for name in (method, "__call__"))


def _library(kind: type) -> str | None:
    """Return the library of a type: "msgspec", "pydantic", or None."""
    for base in kind.__mro__:
        if (base.__module__.partition(".")[0], base.__name__) in (("msgspec", "Struct"), ("pydantic", "BaseModel")):
            if base.__name__ == "BaseModel" and not hasattr(kind, "model_validate_json"):
                raise ValueError("pydantic 2 or newer is needed")
            return base.__module__.partition(".")[0]
    return None


def _encode_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"text is needed, not {type(value).__name__}")
    return value.encode()


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
