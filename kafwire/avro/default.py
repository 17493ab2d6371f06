"""Encodes defaults of a reader's fields, which are JSON values, as Avro bytes."""

from __future__ import annotations

import struct
from typing import Any

from kafwire.avro.schema import MISSING, Type
from kafwire.errors import SchemaError

__all__ = ["encode"]

MAX_VALUES = 100_000


class _Wrong(Exception):
    """The value does not have the type."""


def encode(of: Type, value: Any, path: str = "") -> bytes:
    """Encode a default.

    A union takes the first branch that fits the value. Bytes are text, one byte for each character up to U+00FF.

    Raises:
        SchemaError: the default is not a value of the type.
    """
    try:
        return _Encoder().encode(of, value)
    except _Wrong as problem:
        raise SchemaError(f"Avro schema, {path or 'value'}: the default is not a valid {of}: {problem}") from None


def encode_leaf(of: Type, value: Any) -> bytes:
    """Return the bytes of a value of a type without inner ones, given as JSON has it.

    Raises:
        SchemaError: the value does not have the type.
    """
    try:
        return _leaf(of, value)
    except _Wrong as problem:
        raise SchemaError(f"it is not a valid {of}: {problem}") from None


class _Encoder:
    def __init__(self) -> None:
        self._values = 0

    def encode(self, of: Type, value: Any) -> bytes:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _Wrong(f"it has more than {MAX_VALUES} values")
        kind = of.kind
        if kind == "union":
            return self._union(of, value)
        if kind == "record" and isinstance(value, dict):
            return b"".join(self.encode(each.type, _of_field(of, each.name, each.default, value)) for each in of.fields)
        if kind == "array" and isinstance(value, list):
            assert of.items is not None
            return _block([self.encode(of.items, each) for each in value])
        if kind == "map" and isinstance(value, dict):
            assert of.items is not None
            return _block([_counted(_utf8(key)) + self.encode(of.items, each) for key, each in value.items()])
        return _leaf(of, value)

    def _union(self, of: Type, value: Any) -> bytes:
        for i, branch in enumerate(of.branches):
            try:
                return _number(i) + self.encode(branch, value)
            except _Wrong:
                continue
        raise _Wrong(f"{value!r} has no type of the union")


def _leaf(of: Type, value: Any) -> bytes:
    kind = of.kind
    if kind == "null" and value is None:
        return b""
    if kind == "boolean" and isinstance(value, bool):
        return bytes([value])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    limit = {"int": 1 << 31, "long": 1 << 63}.get(kind, 0)
    if is_number and isinstance(value, int) and -limit <= value < limit:
        return _number(value)
    if is_number and kind in ("float", "double"):
        try:
            return struct.pack("<f" if kind == "float" else "<d", value)
        except OverflowError:
            raise _Wrong(f"{value!r} is out of range") from None
    if isinstance(value, str):
        if kind == "string":
            return _counted(_utf8(value))
        if kind == "enum" and value in of.symbols:
            return _number(of.symbols.index(value))
        if kind in ("bytes", "fixed"):
            return _bytes(of, value)
    raise _Wrong(f"{value!r}")


def _bytes(of: Type, value: str) -> bytes:
    try:
        data = value.encode("latin-1")
    except UnicodeEncodeError:
        raise _Wrong(f"{value!r} has characters beyond U+00FF") from None
    if of.kind == "bytes":
        return _counted(data)
    if len(data) != of.size:
        raise _Wrong(f"{value!r} has {len(data)} bytes, not {of.size}")
    return data


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _Wrong(f"{text!r} has half a surrogate pair") from None


def _of_field(of: Type, name: str, default: Any, value: dict[str, Any]) -> Any:
    found = value.get(name, default)
    if found is MISSING:
        raise _Wrong(f"the field {name!r} of {of} is missing")
    return found


def _block(items: list[bytes]) -> bytes:
    return (_number(len(items)) + b"".join(items) if items else b"") + b"\0"


def _counted(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
