"""Random Protobuf types and messages, by the package `protobuf`, and the rows that their columns have."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import DESCRIPTOR as WRAPPERS

Field = descriptor_pb2.FieldDescriptorProto
PACKAGE = "samples"
SCALARS = [
    *(Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_INT64, Field.TYPE_UINT64, Field.TYPE_INT32, Field.TYPE_FIXED64),
    *(Field.TYPE_FIXED32, Field.TYPE_BOOL, Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_UINT32),
    *(Field.TYPE_SFIXED32, Field.TYPE_SFIXED64, Field.TYPE_SINT32, Field.TYPE_SINT64),
]
KEYS = [each for each in SCALARS if each not in (Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_BYTES)]
TIMES = ["google.protobuf.Timestamp", "google.protobuf.Duration"]
WRAPPED = [f"google.protobuf.{name}" for name in WRAPPERS.message_types_by_name]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INTEGERS = [0, 1, -1, 127, 128, 300, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63)]
TEXTS = ["", "a", "EWR-IAH", "ä€😀", "x" * 200]


class Samples:
    """The types and messages of one seed.

    Args:
        seed: decides everything.
        syntax: "proto2" or "proto3".
        times: fields of Timestamp and Duration, whose values have limits.
        open_enums: numbers without a symbol.
        whole_micros: times have no digits beyond microseconds.
        maps: fields of maps. The package's parser drops an entry that has an unknown field, as no other parser does.
    """

    def __init__(
        self,
        seed: int,
        *,
        syntax: str,
        times: bool = True,
        maps: bool = True,
        open_enums: bool = True,
        whole_micros: bool = False,
    ) -> None:
        self.chance = random.Random(seed)
        self._syntax = syntax
        self._times = times
        self._maps = maps
        self._open_enums = open_enums
        self._nanos = [0, 1000, 999_999_000] if whole_micros else [0, 1, 999, 1000, 999_999_999]
        self._file = descriptor_pb2.FileDescriptorProto(name=f"s{seed}.proto", package=PACKAGE, syntax=syntax)
        self._count = 0

    def message(self) -> type[Any]:
        """A message class."""
        name = self._message(0)
        pool = descriptor_pool.DescriptorPool()
        for module in (Timestamp, Duration):
            pool.AddSerializedFile(module.DESCRIPTOR.file.serialized_pb)
        pool.AddSerializedFile(WRAPPERS.serialized_pb)
        self._file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers"))
        pool.AddSerializedFile(self._file.SerializeToString())
        found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        return found

    def _enum(self) -> str:
        self._count += 1
        made = self._file.enum_type.add(name=f"E{self._count}")
        numbers = [0, 1, 2, 7, -3, 100_000][: self.chance.randint(1, 6)]
        for number in numbers:
            made.value.add(name=f"S{self._count}_{numbers.index(number)}", number=number)
        return f".{PACKAGE}.{made.name}"

    def _message(self, depth: int) -> str:
        self._count += 1
        name = f"M{self._count}"
        made = descriptor_pb2.DescriptorProto(name=name)
        numbers = self.chance.sample([*range(1, 20), 77, 1000, (1 << 29) - 1], self.chance.randint(1, 9))
        for number in numbers:
            self._field(made, number, depth)
        members = [each for each in made.field if each.label == Field.LABEL_OPTIONAL and not each.proto3_optional]
        if len(members) > 2 and self.chance.random() < 0.5:
            made.oneof_decl.add(name="one")
            for each in self.chance.sample(members, 3):
                each.oneof_index = 0
        optional = [each for each in made.field if each.proto3_optional]
        for each in optional:  # their oneofs come last
            made.oneof_decl.add(name=f"_{each.name}")
            each.oneof_index = len(made.oneof_decl) - 1
        self._file.message_type.append(made)
        return name

    def _field(self, made: Any, number: int, depth: int) -> None:
        chance = self.chance
        field = made.field.add(name=f"f{number}", number=number, label=Field.LABEL_OPTIONAL)
        kind = chance.choice(["scalar"] * 5 + ["enum", "message", "map", "known"])
        if kind == "map" and self._maps:
            self._map(made, field, depth)
            return
        self._type(field, kind, depth)
        if chance.random() < 0.3:
            field.label = Field.LABEL_REPEATED
            if field.type not in (Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_MESSAGE):
                field.options.packed = chance.random() < 0.5
        elif self._syntax == "proto3" and field.type != Field.TYPE_MESSAGE and chance.random() < 0.3:
            field.proto3_optional = True

    def _type(self, field: Any, kind: str, depth: int) -> None:
        chance = self.chance
        if kind == "enum":
            field.type, field.type_name = Field.TYPE_ENUM, self._enum()
        elif kind == "message" and depth < 3:
            field.type, field.type_name = Field.TYPE_MESSAGE, f".{PACKAGE}.{self._message(depth + 1)}"
        elif kind == "known":
            names = [*WRAPPED, *TIMES] if self._times else WRAPPED
            field.type, field.type_name = Field.TYPE_MESSAGE, f".{chance.choice(names)}"
        else:
            field.type = chance.choice(SCALARS)

    def _map(self, made: Any, field: Any, depth: int) -> None:
        entry = made.nested_type.add(name=f"F{field.number}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=Field.LABEL_OPTIONAL, type=self.chance.choice(KEYS))
        value = entry.field.add(name="value", number=2, label=Field.LABEL_OPTIONAL)
        self._type(value, self.chance.choice(["scalar", "message", "known"]), depth)
        outer = f".{PACKAGE}.{made.name}"
        field.label, field.type = Field.LABEL_REPEATED, Field.TYPE_MESSAGE
        field.type_name = f"{outer}.{entry.name}"

    # --- values -----------------------------------------------------------------------------------------------------

    def fill(self, message: Any) -> Any:
        """Fill a message; returns it."""
        for field in message.DESCRIPTOR.fields:
            if self.chance.random() < 0.3:
                continue
            if not field.is_repeated:
                self._set(message, field)
            elif is_map(field):
                self._fill_map(message, field)
            else:
                values = getattr(message, field.name)
                for _ in range(self.chance.randint(0, 4)):
                    if field.message_type is None:
                        values.append(self._scalar(field))
                    else:
                        self._fill_value(values.add())
        return message

    def _set(self, message: Any, field: Any) -> None:
        if field.message_type is None:
            setattr(message, field.name, self._scalar(field))
        else:
            inner = getattr(message, field.name)
            inner.SetInParent()
            self._fill_value(inner)

    def _fill_map(self, message: Any, field: Any) -> None:
        key, value = field.message_type.fields
        values = getattr(message, field.name)
        for _ in range(self.chance.randint(0, 4)):
            if value.message_type is None:
                values[self._scalar(key)] = self._scalar(value)
            else:
                self._fill_value(values[self._scalar(key)])

    def _fill_value(self, message: Any) -> None:
        name = message.DESCRIPTOR.full_name
        if name == TIMES[0]:
            message.seconds = self.chance.choice([0, 1, -62135596800, 253402300799, 1_700_000_000])
            message.nanos = self.chance.choice(self._nanos)
        elif name == TIMES[1]:
            sign = self.chance.choice([1, -1])
            message.seconds = sign * self.chance.choice([0, 1, 86_400, 10**9])
            message.nanos = sign * self.chance.choice(self._nanos)
        else:
            self.fill(message)

    def _scalar(self, field: Any) -> Any:
        chance = self.chance
        if field.enum_type is not None:
            known = [each.number for each in field.enum_type.values]
            return chance.choice(known if field.enum_type.is_closed or not self._open_enums else [*known, 55, -9])
        if field.type == Field.TYPE_STRING:
            return chance.choice(TEXTS)
        if field.type == Field.TYPE_BYTES:
            return chance.randbytes(chance.choice([0, 1, 5, 200]))
        if field.type == Field.TYPE_BOOL:
            return chance.random() < 0.5
        if field.type in (Field.TYPE_DOUBLE, Field.TYPE_FLOAT):
            return chance.choice([0.0, -0.0, 1.5, -2.25, float("inf"), 65_536.0])
        bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
        number = chance.choice(INTEGERS) & ((1 << bits) - 1)
        signed = field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64)
        return number - (1 << bits) if signed and number >> (bits - 1) else number


def is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def expected(message: Any) -> dict[str, Any]:
    """The row of a message, as `RecordBatch.to_pylist` has it; maps are dictionaries."""
    return {field.name: _value_of(message, field) for field in message.DESCRIPTOR.fields}


def _value_of(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if is_map(field):
        kind = field.message_type.fields_by_name["value"]
        return {key: _one(kind, value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_one(field, each) for each in value]
    return None if field.has_presence and not message.HasField(field.name) else _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        symbol = field.enum_type.values_by_number.get(value)
        return str(value) if symbol is None else symbol.name
    if field.message_type is None:
        return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
    name = field.message_type.full_name
    if name == TIMES[0]:
        return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name == TIMES[1]:
        return timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    return value.value if name in WRAPPED else expected(value)


def plain(value: Any, kind: Any = None) -> Any:
    """A row of columns with its maps as dictionaries, by the Arrow type."""
    import pyarrow as pa

    if isinstance(kind, pa.MapType) and value is not None:
        return {key: plain(item, kind.item_type) for key, item in sorted(dict(value).items())}
    if isinstance(value, list):
        return [plain(each, kind.value_type) for each in value]
    if isinstance(value, dict):
        return {name: plain(each, kind.field(name).type) for name, each in value.items()}
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
