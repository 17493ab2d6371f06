"""Classes of Protobuf messages that tests declare field by field."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

Field = descriptor_pb2.FieldDescriptorProto


def classes(*messages: Any, syntax: str = "proto3", enums: Any = ()) -> list[type[Any]]:
    """The classes of a file's messages."""
    pool = descriptor_pool.DescriptorPool()
    for known in (Timestamp, Duration):
        pool.AddSerializedFile(known.DESCRIPTOR.file.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="t.proto", package="t", syntax=syntax, message_type=messages, enum_type=enums
    )
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("timestamp", "duration"))
    pool.AddSerializedFile(file.SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{each.name}")) for each in messages]


def message(name: str, **fields: Any) -> Any:
    """A message type: its fields by name, each a type or the attributes of its descriptor."""
    made = descriptor_pb2.DescriptorProto(name=name)
    for number, (field, kind) in enumerate(fields.items(), start=1):
        more = {"type": kind} if isinstance(kind, int) else kind
        made.field.add(name=field, number=number, **{"label": Field.LABEL_OPTIONAL, **more})
    return made


FLIGHT = message("Flight", carrier=Field.TYPE_STRING, distance=Field.TYPE_INT32)
