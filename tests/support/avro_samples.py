"""Random Avro schemas, readers of them, values, and their bytes by a slow, obvious encoder.

A union's values are `Branch`es. Blocks of arrays and maps are cut anywhere, with and without their sizes.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context
from typing import Any

import pyarrow as pa

Json = Any

PRIMITIVES = ["boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}
PROMOTED = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"]}
DAY_MS = 86_400_000
# Python's type of a value, which shows the branch that another decoder took.
FAMILY = {"int": int, "long": int, "float": float, "double": float, "bytes": bytes, "string": str, "boolean": bool}


@dataclass(frozen=True)
class Branch:
    """A value of a union."""

    index: int
    value: Any


class Samples:
    """Draws from one seed.

    Args:
        seed: the seed.
        apart: no branch of a union can be promoted to another. fastavro's readers take the first branch that matches,
            Java's and kafwire's that of the same type before one that it can be promoted to.
    """

    def __init__(self, seed: int, *, apart: bool = False) -> None:
        self.random = random.Random(seed)
        self._apart = apart
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    # --- schemas ----------------------------------------------------------------------------------------------------

    def schema(self, depth: int = 3) -> Json:
        """A type of at most this depth."""
        chance = self.random
        kinds = ["primitive"] * 4 + ["logical", "decimal", "enum", "fixed"] + ["nested"] * (2 * (depth > 0))
        kind = chance.choice(kinds)
        if kind == "primitive":
            return chance.choice(PRIMITIVES)
        if kind == "logical":
            name = chance.choice(list(LOGICAL))
            return {"type": LOGICAL[name], "logicalType": name}
        if kind == "decimal":
            return self._decimal()
        if kind == "enum":
            return {
                "type": "enum",
                "name": self._name(),
                "symbols": [self._name() for _ in range(chance.randint(1, 4))],
            }
        if kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": chance.choice([0, 1, 4, 16])}
        return self._nested(depth)

    def _decimal(self) -> Json:
        precision = self.random.choice([1, 9, 18, 19, 38, 39, 76])
        logical = {"logicalType": "decimal", "precision": precision, "scale": self.random.randint(0, precision)}
        if self.random.random() < 0.5:
            return {"type": "bytes", **logical}
        size = (len(bin(10**precision)) - 2) // 8 + 1
        return {"type": "fixed", "name": self._name(), "size": size + self.random.randint(0, 2), **logical}

    def _nested(self, depth: int) -> Json:
        kind = self.random.choice(["record", "array", "map", "optional", "union"])
        if kind == "record":
            return self.record(depth - 1)
        if kind == "array":
            return {"type": "array", "items": self.schema(depth - 1)}
        if kind == "map":
            return {"type": "map", "values": self.schema(depth - 1)}
        if kind == "optional":
            other = self.schema(depth - 1)
            if isinstance(other, list):
                return other
            return ["null", other] if self.random.random() < 0.8 else [other, "null"]
        families = [["int", "long"], ["float", "double"], ["bytes"], ["string"], ["boolean"], ["null"]]
        if self._apart:
            families = [["int", "long", "float", "double"], ["bytes", "string"], ["boolean"], ["null"]]
        chosen = self.random.sample(families, self.random.randint(1, 4))
        branches: list[Json] = [self.random.choice(family) for family in chosen]
        if self.random.random() < 0.3:
            branches.append(self.record(depth - 1))
        if self.random.random() < 0.3:
            branches.append({"type": "array", "items": self.schema(depth - 1)})
        return branches

    def record(self, depth: int = 3) -> Json:
        """A record of up to five fields."""
        fields = [{"name": self._name(), "type": self.schema(depth)} for _ in range(self.random.randint(0, 5))]
        return {"type": "record", "name": self._name(), "fields": fields}

    def reader(self, writer: Json) -> Json:
        """A schema that reads values of `writer`: fields reordered, dropped, renamed and added, types promoted."""
        chance = self.random
        if isinstance(writer, list):
            return [self.reader(branch) if isinstance(branch, dict) else branch for branch in writer]
        if isinstance(writer, str):
            promoted = chance.choice(PROMOTED[writer]) if writer in PROMOTED and chance.random() < 0.3 else writer
            return ["null", promoted] if chance.random() < 0.2 else promoted
        kind = writer["type"]
        if kind == "array":
            return {**writer, "items": self.reader(writer["items"])}
        if kind == "map":
            return {**writer, "values": self.reader(writer["values"])}
        if kind == "record":
            return self._record_reader(writer)
        if kind == "enum" and chance.random() < 0.3:
            symbols = [*writer["symbols"][1:], self._name()]
            return {**writer, "symbols": symbols, "default": symbols[-1]}
        return writer

    def _record_reader(self, writer: Json) -> Json:
        chance = self.random
        fields = []
        for field in writer["fields"]:
            if chance.random() < 0.2:
                continue
            made = {"name": field["name"], "type": self.reader(field["type"])}
            if chance.random() < 0.2:
                made["aliases"] = [made["name"]]
                made["name"] = self._name()
            fields.append(made)
        for _ in range(chance.randint(0, 2)):
            kind, default = chance.choice(
                [
                    ("long", 7),
                    ("string", "new"),
                    ("bytes", "\u00ff"),
                    (["null", "int"], None),
                    ({"type": "array", "items": "int"}, [1, -2]),
                    ({"type": "map", "values": "double"}, {"k": 1.5}),
                    ("boolean", True),
                ]
            )
            fields.append({"name": self._name(), "type": kind, "default": default})
        chance.shuffle(fields)
        return {**writer, "fields": fields}

    # --- values -----------------------------------------------------------------------------------------------------

    def value(self, schema: Json) -> Any:
        """A value of a type."""
        chance = self.random
        if isinstance(schema, list):
            index = chance.randrange(len(schema))
            return Branch(index, self.value(schema[index]))
        kind = schema["type"] if isinstance(schema, dict) else schema
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if logical == "decimal":
            return self._unscaled(schema)
        if logical in ("time-millis", "time-micros"):
            return chance.randrange(DAY_MS * (1 if logical == "time-millis" else 1000))
        if kind in ("int", "long"):
            bits = chance.randint(0, 31 if kind == "int" else 63)
            return chance.choice([chance.getrandbits(bits), -chance.getrandbits(bits) - 1])
        if kind == "float":
            return struct.unpack("<f", struct.pack("<f", chance.gauss(0, 1000)))[0]
        if kind == "record":
            return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(chance.randint(0, 4))]
        if kind == "map":
            return {self._text(): self.value(schema["values"]) for _ in range(chance.randint(0, 3))}
        makers: dict[str, Callable[[], Any]] = {
            "null": lambda: None,
            "boolean": lambda: chance.random() < 0.5,
            "double": lambda: chance.choice([chance.gauss(0, 1e9), 0.0, -0.0, float("inf")]),
            "bytes": lambda: chance.randbytes(chance.randint(0, 20)),
            "string": self._text,
            "fixed": lambda: chance.randbytes(schema["size"]),
            "enum": lambda: chance.choice(schema["symbols"]),
        }
        return makers[kind]()

    def _text(self) -> str:
        return "".join(
            chr(self.random.choice([65, 98, 0xE9, 0x20AC, 0x1F600])) for _ in range(self.random.randint(0, 9))
        )

    def _unscaled(self, schema: Json) -> bytes:
        limit = 10 ** schema["precision"] - 1
        unscaled: int = self.random.choice([limit, -limit, 0, -1, self.random.randint(-limit, limit)])
        if schema["type"] == "fixed":
            return unscaled.to_bytes(schema["size"], "big", signed=True)
        return unscaled.to_bytes(len(bin(abs(unscaled))) // 8 + 1 + self.random.randint(0, 40), "big", signed=True)

    # --- bytes ------------------------------------------------------------------------------------------------------

    def encode(self, schema: Json, value: Any) -> Any:
        """The bytes of a value."""
        if isinstance(schema, list):
            return number(value.index) + self.encode(schema[value.index], value.value)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind == "record":
            return b"".join(self.encode(field["type"], value[field["name"]]) for field in schema["fields"])
        if kind == "array":
            return self._blocks([self.encode(schema["items"], each) for each in value])
        if kind == "map":
            pairs = [
                number(len(key.encode())) + key.encode() + self.encode(schema["values"], each)
                for key, each in value.items()
            ]
            return self._blocks(pairs)
        if kind == "fixed" or (kind == "bytes" and isinstance(value, bytes)):
            return value if kind == "fixed" else number(len(value)) + value
        if kind == "enum":
            return number(schema["symbols"].index(value))
        if kind == "string":
            return number(len(value.encode())) + value.encode()
        if kind in ("float", "double"):
            return struct.pack("<f" if kind == "float" else "<d", value)
        if kind in ("null", "boolean"):
            return b"" if value is None else bytes([value])
        return number(value)

    def _blocks(self, items: list[bytes]) -> bytes:
        out = b""
        while items:
            count = self.random.randint(1, len(items))
            block, items = b"".join(items[:count]), items[count:]
            out += number(-count) + number(len(block)) + block if self.random.random() < 0.5 else number(count) + block
        return out + b"\0"


def number(value: int) -> bytes:
    """A zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def without_logical(schema: Json) -> Json:
    """The schema without logical types."""
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: each for key, each in schema.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("items", "values"):
        if key in out:
            out[key] = without_logical(out[key])
    if "fields" in out:
        out["fields"] = [{**field, "type": without_logical(field["type"])} for field in out["fields"]]
    return out


def expected(schema: Json, value: Any) -> Any:
    """The form that `storage` gives to a value that another decoder read without logical types."""
    if isinstance(schema, list):
        return _expected_of_union(schema, value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if logical == "decimal":
        return int.from_bytes(value, "big", signed=True)
    if kind == "record":
        return {field["name"]: expected(field["type"], value[field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [expected(schema["items"], each) for each in value]
    if kind == "map":
        return [(key, expected(schema["values"], each)) for key, each in value.items()]
    if kind == "bytes" and isinstance(value, str):  # a default, which fastavro leaves as JSON has it
        return value.encode("latin-1")
    if kind in ("float", "double"):
        return repr(struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float" else float(value))
    return value


def _expected_of_union(schema: list[Json], value: Any) -> Any:
    others = [branch for branch in schema if branch != "null"]
    if value is None or not others:
        return None
    if len(others) == 1:
        return expected(others[0], value)

    def holds(branch: Json) -> bool:
        kind = branch["type"] if isinstance(branch, dict) else branch
        return type(value) is {"record": dict, "array": list}.get(kind, FAMILY.get(kind))

    chosen = next(i for i, branch in enumerate(others) if holds(branch))
    return {f"member{i}": expected(branch, value) if i == chosen else None for i, branch in enumerate(others)}


def storage(array: pa.Array) -> Any:
    """The values of an array as numbers, bytes and text: no time that Python cannot hold."""
    kind = array.type
    if pa.types.is_struct(kind):
        columns = [storage(array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        rows = (
            [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if columns else [{}] * len(array)
        )
        return [row if there else None for row, there in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_map(kind):
        pairs = list(zip(storage(array.keys), storage(array.items), strict=True))
        return [None if a is None else pairs[a:b] for a, b in _spans(array)]
    if pa.types.is_list(kind):
        items = storage(array.values)
        return [None if a is None else items[a:b] for a, b in _spans(array)]
    if pa.types.is_temporal(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    if pa.types.is_decimal(kind):
        return [None if each is None else int(each.scaleb(kind.scale, _EXACT)) for each in array.to_pylist()]
    if pa.types.is_floating(kind):
        return [None if each is None else repr(each) for each in array.to_pylist()]
    return array.to_pylist()


def _spans(array: pa.Array) -> list[tuple[Any, Any]]:
    offsets = array.offsets.to_pylist()
    there = array.is_valid().to_pylist()
    return [(offsets[i], offsets[i + 1]) if there[i] else (None, None) for i in range(len(array))]


_EXACT = Context(prec=100)


def text(schema: Json) -> str:
    """The schema as JSON."""
    return json.dumps(schema)


def ordered(value: Any) -> Any:
    """The value with the pairs of maps in the order of their keys: Java's maps have an order of their own."""
    if isinstance(value, dict):
        return {key: ordered(each) for key, each in value.items()}
    if isinstance(value, list):
        made = [ordered(each) for each in value]
        return sorted(made, key=lambda pair: pair[0]) if made and isinstance(made[0], tuple) else made
    return (value[0], ordered(value[1])) if isinstance(value, tuple) else value
