"""Messages that every version is tried with, whatever chance draws: at their defaults, full, and with every null."""

import math
from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import UUID

from kafwire.protocol import Message, Struct
from kafwire.protocol.spec import Field

LONG = 20_000  # the length of a string whose compact length takes three bytes; an int16 can still hold it
UNKNOWN = 5000
"""A tag that no version of any struct knows."""


def samples(cls: type[Message], version: int) -> Iterator[Message]:
    """The messages of one version."""
    yield cls()
    flexible = version >= cls.flexible_from
    yield full(cls, version, flexible=flexible, numbers=count(1))
    yield nulls(cls, version)


def full(cls: type[Struct], version: int, *, flexible: bool, numbers: Iterator[int]) -> Any:
    """Every field has a value that is neither its default nor that of another field; the first text is a long one."""
    values = {
        field.name: _some(field, version, flexible, numbers) for field in cls.__fields__ if version in field.versions
    }
    unknown = ((UNKNOWN, b""), (UNKNOWN + next(numbers), b"unknown" * 30)) if flexible else ()
    return cls(**values, unknown_tagged_fields=unknown)


def _some(field: Field, version: int, flexible: bool, numbers: Iterator[int]) -> Any:
    if field.array:
        return [_one(field, version, flexible, numbers) for _ in range(2)]
    return _one(field, version, flexible, numbers)


def _one(field: Field, version: int, flexible: bool, numbers: Iterator[int]) -> Any:
    number = next(numbers)
    match field.kind:
        case "struct":
            assert field.struct is not None
            return full(field.struct, version, flexible=flexible, numbers=numbers)
        case "string":
            return f"text {number}é" if number > 4 else "x" * LONG
        case "bytes" | "records":
            return f"bytes {number}".encode() * 20
        case "uuid":
            return UUID(int=(0xFBEFFF << 104) + number)  # with both of the characters that are not plain base64
        case "bool":
            return not field.default
        case "float64":
            return math.pi * number
        case "int8":
            return -number % 0x7F + 1
    return -number if field.kind.startswith("int") else number


def nulls(cls: type[Struct], version: int) -> Any:
    """Every field is null that may be; an array that may not has an element, for the nulls in that."""
    values: dict[str, Any] = {}
    for field in cls.__fields__:
        if version not in field.versions:
            continue
        if version in field.nullable:
            values[field.name] = None
        elif field.struct is not None:
            inner = nulls(field.struct, version)
            values[field.name] = [inner] if field.array else inner
        elif field.kind == "records":
            values[field.name] = b""  # not nullable, and yet null is what it starts from
    return cls(**values)


def records_of(value: object) -> Iterator[bytes]:
    """The bytes of all records in a message, in the order of its fields."""
    if isinstance(value, list):
        for element in value:
            yield from records_of(element)
    elif isinstance(value, Struct):
        for field in type(value).__fields__:
            inner = getattr(value, field.name)
            if field.kind == "records" and inner is not None:
                yield bytes(inner)
            elif field.struct is not None:
                yield from records_of(inner)
