"""The flights of the demo as Protobuf values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from demo.flights import load_flights

ROWS = 100_000


def kind() -> Any:
    """The flights' message: 19 fields, each of which may be absent."""
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {pa.string(): field.TYPE_STRING, pa.int64(): field.TYPE_INT64, pa.float64(): field.TYPE_DOUBLE}
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="demo", syntax="proto3")
    made = file.message_type.add(name="Flight")
    for number, each in enumerate(load_flights().schema):
        made.field.add(
            name=each.name,
            number=number + 1,
            label=field.LABEL_OPTIONAL,
            type=kinds[each.type],
            proto3_optional=True,
            oneof_index=number,
        )
        made.oneof_decl.add(name=f"_{each.name}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("demo.Flight"))


def values(of: Any, rows: int = ROWS) -> list[bytes]:
    """The first flights as values."""
    return [
        of(**{name: value for name, value in row.items() if value is not None}).SerializeToString()
        for row in load_flights().slice(0, rows).to_pylist()
    ]
