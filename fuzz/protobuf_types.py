"""Protobuf types, and values of them, for the targets that decode Protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import DESCRIPTOR as WRAPPERS

__all__ = ["TYPES", "corpus"]

Field = descriptor_pb2.FieldDescriptorProto
NUMBERS = [each for each in range(1, 19) if each not in (Field.TYPE_GROUP, Field.TYPE_MESSAGE, Field.TYPE_ENUM)]


def _message(name: str, **fields: Any) -> Any:
    made = descriptor_pb2.DescriptorProto(name=name)
    for number, (field, given) in enumerate(fields.items(), start=1):
        made.field.add(name=field, **{"number": number, "label": Field.LABEL_OPTIONAL, **given})
    return made


def _inner(name: str, **more: Any) -> dict[str, Any]:
    return {"type": Field.TYPE_MESSAGE, "type_name": name, **more}


def _files() -> Iterator[Any]:
    repeated = {"label": Field.LABEL_REPEATED}
    plain = _message("Plain", **{f"f{kind}": {"type": kind} for kind in NUMBERS})
    lists = _message("Lists", **{f"f{kind}": {"type": kind, **repeated} for kind in NUMBERS})
    leaf = _message(
        "Leaf", n={"type": Field.TYPE_SINT64, "number": 2_000_000}, s={"type": Field.TYPE_STRING, **repeated}
    )
    nested = _message(
        "Nested",
        a=_inner(".f.Leaf"),
        b=_inner(".f.Leaf", **repeated),
        c=_inner(".google.protobuf.Timestamp"),
        d=_inner(".google.protobuf.Duration", **repeated),
        e=_inner(".google.protobuf.StringValue"),
        f=_inner(".f.Nested.GEntry", **repeated),
        h={"type": Field.TYPE_ENUM, "type_name": ".f.E", **repeated},
    )
    entry = _message("GEntry", key={"type": Field.TYPE_STRING}, value=_inner(".f.Leaf"))
    entry.options.map_entry = True
    nested.nested_type.append(entry)
    one = _message("One", a=_inner(".f.Leaf"), b={"type": Field.TYPE_INT32}, c={"type": Field.TYPE_STRING})
    one.oneof_decl.add(name="one")
    for each in one.field:
        each.oneof_index = 0
    enum = descriptor_pb2.EnumDescriptorProto(name="E")
    for number, name in enumerate(("ZERO", "ONE", "TWO")):
        enum.value.add(name=name, number=number)
    yield descriptor_pb2.FileDescriptorProto(
        name="f.proto",
        package="f",
        syntax="proto3",
        message_type=[plain, lists, leaf, nested, one],
        enum_type=[enum],
        dependency=[f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers")],
    )
    old = _message("Old", e={"type": Field.TYPE_ENUM, "type_name": ".o.E"})
    old.nested_type.append(_message("G", n={"type": Field.TYPE_INT64, **repeated}))
    for number, label in ((2, Field.LABEL_OPTIONAL), (3, Field.LABEL_REPEATED)):
        old.field.add(name=f"g{number}", number=number, label=label, type=Field.TYPE_GROUP, type_name=".o.Old.G")
    entry = _message("MEntry", key={"type": Field.TYPE_INT32}, value={"type": Field.TYPE_ENUM, "type_name": ".o.E"})
    entry.options.map_entry = True
    old.nested_type.append(entry)
    old.field.add(name="m", number=4, label=Field.LABEL_REPEATED, type=Field.TYPE_MESSAGE, type_name=".o.Old.MEntry")
    yield descriptor_pb2.FileDescriptorProto(
        name="o.proto", package="o", syntax="proto2", message_type=[old], enum_type=[enum]
    )


def _types() -> list[Any]:
    pool = descriptor_pool.DescriptorPool()
    for known in (Timestamp.DESCRIPTOR.file, Duration.DESCRIPTOR.file, WRAPPERS):
        pool.AddSerializedFile(known.serialized_pb)
    for file in _files():
        pool.AddSerializedFile(file.SerializeToString())
    names = ["f.Plain", "f.Lists", "f.Nested", "f.One", "o.Old"]
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


TYPES = _types()


def _values() -> Iterator[tuple[int, Any]]:
    plain, lists, nested, one, old = TYPES
    numbers = {f"f{kind}": 1 for kind in NUMBERS}
    texts = {f"f{Field.TYPE_STRING}": "\u00e4b", f"f{Field.TYPE_BYTES}": b"\xff"}
    yield 0, plain(**numbers | texts)
    yield 1, lists(**{name: [value, value] for name, value in (numbers | texts).items()})
    value = nested(a={"n": -1, "s": ["x", ""]}, b=[{"n": 5}, {}], h=[1, 2, 7])
    value.c.seconds, value.c.nanos = -1, 999_999_999
    value.d.add().nanos = -1
    value.e.value = "wrapped"
    value.f["key"].n = 9
    yield 2, value
    yield from ((3, one(b=4)), (3, one(a={"s": ["y"]})), (3, one(c="")))
    value = old(e=1)
    value.g2.n.extend([1, 2])
    value.g3.add().n.append(1 << 40)
    value.m[3] = 1
    yield 4, value


def corpus() -> list[bytes]:
    """Two values of a type: its number, the length of the first value, both values."""
    found = []
    for number, value in _values():
        data = value.SerializeToString()
        found += [bytes([number, len(data)]) + data + data, bytes([number, 0]) + data]
    return found
