"""A slow, obvious encoder of declared messages, to compare the compiled one with; and strategies that make messages.

It follows Kafka's protocol guide word for word and shares only the declarations with `kafwire._message`.
"""

import struct
from typing import Any

from hypothesis import strategies as st

from kafwire.protocol import Message, Struct
from kafwire.protocol.spec import Field

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
        return b"\xff" if value is None else b"\1" + encode_value(field, value, version, flexible)
    return encode_value(field, value, version, flexible)


def encode(instance: Struct, version: int, flexible: bool) -> bytes:
    blank = type(instance)()
    data = b""
    tagged = dict(instance.unknown_tagged_fields)
    for field in type(instance).__fields__:
        value = getattr(instance, field.name)
        if version in field.tagged:
            if value != getattr(blank, field.name):
                tagged[field.tag] = encode_field(field, value, version, flexible)
        elif version in field.versions:
            data += encode_field(field, value, version, flexible)
    if flexible:
        data += uvarint(len(tagged))
        for tag in sorted(tagged):
            data += uvarint(tag) + uvarint(len(tagged[tag])) + tagged[tag]
    return data


# --- strategies ---

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.just("x" * 200)
BYTES = st.binary(max_size=8) | st.just(bytes(300))
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-0x80, 0x7F),
    "int16": st.integers(-0x8000, 0x7FFF),
    "uint16": st.integers(0, 0xFFFF),
    "int32": st.integers(-0x80000000, 0x7FFFFFFF),
    "uint32": st.integers(0, 0xFFFFFFFF),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": TEXT,
    "bytes": BYTES,
    "records": BYTES,
    "uuid": st.uuids(allow_nil=True),
}


def values(field: Field, version: int, flexible: bool, unknown: bool) -> st.SearchStrategy[Any]:
    one = instances(field.struct, version, flexible, unknown) if field.struct else PLAIN[field.kind]
    if field.array:
        one = st.lists(one, max_size=3)
    return one | st.none() if version in field.nullable else one


def instances(cls: type[Struct], version: int, flexible: bool, unknown: bool) -> st.SearchStrategy[Any]:
    fields = {
        field.name: values(field, version, flexible, unknown) for field in cls.__fields__ if version in field.versions
    }
    if flexible and unknown:
        taken = {field.tag for field in cls.__fields__ if version in field.tagged}
        tags = st.integers(0, 2**32 - 1).filter(lambda tag: tag not in taken)
        pairs = st.dictionaries(tags, st.binary(max_size=200), max_size=2)
        fields["unknown_tagged_fields"] = pairs.map(lambda chosen: tuple(sorted(chosen.items())))
    return st.builds(cls, **fields)


def messages(cls: type[Message], version: int, *, unknown: bool = True) -> st.SearchStrategy[Any]:
    """Messages whose fields are those of `version`; with `unknown`, also tagged fields that nobody has declared."""
    return instances(cls, version, version >= cls.flexible_from, unknown)
