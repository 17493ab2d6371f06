"""A slow, obvious encoder of declared messages, to compare the compiled one with; and Kafka's JSON form.

It follows Kafka's protocol guide word for word and shares only the declarations with `kafwire.protocol._message`.
"""

import base64
import re
import struct
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kafwire.protocol import Message, Struct
from kafwire.protocol.spec import Field
from kafwire.testing import strategies

FORMATS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q", "float64": ">d"}


def uvarint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def length(size: int, compact: bool, width: str) -> bytes:
    """A length or count; -1 is null."""
    return uvarint(size + 1) if compact else struct.pack(FORMATS[width], size)


def encode_value(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    compact = flexible and field.flexible
    if field.kind == "struct":
        return encode(value, version, flexible)
    if field.kind == "string":
        data = None if value is None else value.encode()
        return length(-1, compact, "int16") if data is None else length(len(data), compact, "int16") + data
    if field.kind in {"bytes", "records"}:
        return length(-1, compact, "int32") if value is None else length(len(value), compact, "int32") + bytes(value)
    if field.kind == "uuid":
        assert isinstance(value, UUID)
        return value.bytes
    if field.kind == "bool":
        return b"\1" if value else b"\0"
    return struct.pack(FORMATS[field.kind], value)


def encode_field(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    if field.array:
        compact = flexible and field.flexible
        if value is None:
            return length(-1, compact, "int32")
        elements = [encode_value(field, element, version, flexible) for element in value]
        return length(len(elements), compact, "int32") + b"".join(elements)
    if field.kind == "struct" and version in field.nullable:
        null = b"\0" if version in field.tagged else b"\xff"
        return null if value is None else b"\1" + encode_value(field, value, version, flexible)
    return encode_value(field, value, version, flexible)


def encode(instance: Struct, version: int, flexible: bool) -> bytes:
    blank = type(instance)()
    data = b""
    tagged = dict(instance.unknown_tagged_fields)
    for field in type(instance).__fields__:
        value = getattr(instance, field.name)
        if version in field.tagged:
            if value != getattr(blank, field.name):
                assert field.tag is not None
                tagged[field.tag] = encode_field(field, value, version, flexible)
        elif version in field.versions:
            data += encode_field(field, value, version, flexible)
    if flexible:
        data += uvarint(len(tagged))
        for tag in sorted(tagged):
            data += uvarint(tag) + uvarint(len(tagged[tag])) + tagged[tag]
    return data


# --- Kafka's own JSON ---


def kafka_json(value: Any, version: int | None = None, name: str = "") -> Any:
    """A value in the form that Kafka's own JSON converters give it, which leaves out record bytes.

    With all fields, or with those of one version.
    """
    if name == "records":
        return None if value is None else ""
    if isinstance(value, Struct):
        return {
            re.sub(r"_(\w)", lambda match: match[1].upper(), item.name): kafka_json(
                getattr(value, item.name), version, item.name
            )
            for item in type(value).__fields__
            if version is None or version in item.versions
        }
    if isinstance(value, list):
        return [kafka_json(element, version) for element in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value


def holds(expected: Any, actual: Any, place: str) -> None:
    """Compare by the names that are expected: fields at their default in a tag, or of other versions, are left out."""
    if isinstance(expected, dict):
        assert expected.keys() <= actual.keys(), place
        for key, value in expected.items():
            holds(value, actual[key], f"{place}.{key}")
    elif isinstance(expected, list):
        assert isinstance(actual, list), place
        assert len(actual) == len(expected), place
        for i, (one, other) in enumerate(zip(expected, actual, strict=True)):
            holds(one, other, f"{place}[{i}]")
    elif place.endswith(".records"):
        assert (expected is None) == (actual is None), place
    else:
        assert actual == expected, place


def messages(cls: type[Message], version: int, *, unknown: bool = True) -> st.SearchStrategy[Any]:
    """Messages whose fields are those of `version`; with `unknown`, also undeclared tagged fields."""
    return strategies.messages(cls, version, unknown_tags=unknown)
