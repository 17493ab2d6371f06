"""Recursive Avro schemas, which Arrow has no type for: bytes of values, cut at the records that contain themselves.

A record that contains itself stands in a column as one text. `flat` is the schema of such columns, and `Splice` turns
bytes of the one schema into bytes of the other.
"""

from __future__ import annotations

import json
import math
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from kafwire.avro.default import encode_leaf
from kafwire.avro.schema import Type
from kafwire.errors import SchemaError

__all__ = [
    "MAX_LEVELS",
    "Malformed",
    "Splice",
    "as_text",
    "cycle_of",
    "encoded",
    "flat",
    "from_text",
    "recursive_names",
    "refused",
    "value_at",
]

MAX_LEVELS = 100  # records within each other in one value
MAX_EMPTY_ITEMS = 10_000  # items without bytes in one value
INT_LIMIT = 1 << 31

# Returns the bytes that stand for a record, and the position behind it.
Replace: TypeAlias = Callable[[Type, bytes, int], tuple[bytes, int]]


class Malformed(ValueError):
    """The bytes are no value of the schema."""


def _inner(of: Type) -> list[tuple[str, Type]]:
    """Return the types directly within a type, each with its step of a path."""
    made = [(each.name, each.type) for each in of.fields] + [(f"<{each}>", each) for each in of.branches]
    if of.items is not None:
        made.append(("[]" if of.kind == "array" else "{}", of.items))
    return made


def recursive_names(schema: Type) -> frozenset[str]:
    """Return the names of the records that contain themselves, in time linear in the schema's types."""
    types = _types(schema)
    into: dict[int, list[Type]] = {id(each): [] for each in types}
    for each in types:
        for _, inner in _inner(each):
            into[id(inner)].append(each)
    # Kosaraju's algorithm: types that reach each other have one root.
    found: set[str] = set()
    done: set[int] = set()
    for start in reversed(_left_in_order(schema)):
        group, waiting = [], [start]
        while waiting:
            of = waiting.pop()
            if id(of) not in done:
                done.add(id(of))
                group.append(of)
                waiting += into[id(of)]
        if len(group) > 1 or any(inner is start for _, inner in _inner(start)):
            found |= {each.name for each in group if each.kind == "record"}
    return frozenset(found)


def _types(schema: Type) -> list[Type]:
    """Return a type and all types within it, each once."""
    seen, waiting = {id(schema): schema}, [schema]
    while waiting:
        for _, each in _inner(waiting.pop()):
            if id(each) not in seen:
                seen[id(each)] = each
                waiting.append(each)
    return list(seen.values())


def _left_in_order(schema: Type) -> list[Type]:
    """Return all types, in the order in which a search in depth leaves them."""
    left, seen = [], {id(schema)}
    stack = [(schema, iter(_inner(schema)))]
    while stack:
        of, inner = stack[-1]
        following = next((each for _, each in inner if id(each) not in seen), None)
        if following is None:
            left.append(of)
            stack.pop()
        else:
            seen.add(id(following))
            stack.append((following, iter(_inner(following))))
    return left


def cycle_of(schema: Type) -> tuple[str, list[str]] | None:
    """Return the path of a field that closes a cycle, and the names of the records in it; None without one."""
    names = recursive_names(schema)
    if not names:
        return None
    path, record = ("", schema) if schema.name in names else _way(schema, lambda each: each.name in names)[-1]
    way = _way(record, lambda each: each is record)
    path += way[-1][0] if way[-1][0][0] in "[{<" or not path else f".{way[-1][0]}"
    return path, [record.name, *(each.name for _, each in way if each.kind == "record")]


def _way(start: Type, is_goal: Callable[[Type], bool]) -> list[tuple[str, Type]]:
    """Return the shortest way into a type that leads to a goal: each type with its path from the start."""
    ways: deque[list[tuple[str, Type]]] = deque([[("", start)]])
    seen: set[int] = set()
    while ways:
        way = ways.popleft()
        path, of = way[-1]
        for step, each in _inner(of):
            joined = f"{path}{step}" if step[0] in "[{<" or not path else f"{path}.{step}"
            if is_goal(each):
                return [*way[1:], (joined, each)]
            if id(each) not in seen:
                seen.add(id(each))
                ways.append([*way, (joined, each)])
    raise AssertionError("the goal is within the type")


def refused(schema: Type) -> SchemaError | None:
    """Return the error of columns of a recursive schema; None for others."""
    found = cycle_of(schema)
    if found is None:
        return None
    path, names = found
    return SchemaError(
        f"Avro schema, {path}: the record {names[0]!r} contains itself ({' > '.join(names)}), and Arrow has no "
        'recursive types: read rows, or let kafwire.Avro(recursive="json") make columns of JSON text'
    )


def flat(schema: Type) -> Type:
    """Return the schema whose records that contain themselves are strings, all but the schema's own record."""
    names = recursive_names(schema)
    made: dict[int, Type] = {}

    def flattened(of: Type) -> Type:
        if of.name in names:
            return Type("string", of.name, of.aliases)
        if id(of) not in made:
            made[id(of)] = within(of)
        return made[id(of)]

    def within(of: Type) -> Type:
        return replace(
            of,
            fields=tuple(replace(each, type=flattened(each.type)) for each in of.fields),
            branches=tuple(flattened(each) for each in of.branches),
            items=None if of.items is None else flattened(of.items),
        )

    return within(schema) if names else schema


def as_text(of: Type, data: bytes, at: int) -> tuple[bytes, int]:
    """Return a record's JSON text as an Avro string: the `put` of a `Splice` that decodes."""
    value, end = value_at(of, data, at)
    return encode_leaf(_STRING, json.dumps(value, ensure_ascii=False, separators=(",", ":"))), end


def from_text(of: Type, data: bytes, at: int) -> tuple[bytes, int]:
    """Return the record that an Avro string of JSON text stands for: the `put` of a `Splice` that encodes."""
    end = _leaf_end(_STRING, data, at)
    text = _leaf(_STRING, data, at, end)
    try:
        return encoded(of, json.loads(text)), end
    except (ValueError, RecursionError) as problem:
        raise Malformed(f"{text[:60]!r} is no {of} in Avro's JSON encoding: {problem}") from None


class Splice:
    """Copies values, and replaces the records that contain themselves, all but the schema's own record.

    Args:
        schema: the recursive schema.
        put: returns the bytes that stand for such a record at a position, and the position behind it.
    """

    def __init__(self, schema: Type, put: Replace) -> None:
        self._schema = schema
        self._put = put
        self._names = recursive_names(schema)
        self._empty = 0

    @property
    def has_work(self) -> bool:
        """True if the schema is recursive."""
        return bool(self._names)

    def spliced(self, data: bytes) -> bytes:
        """Return the bytes of a value.

        Raises:
            Malformed: the bytes are no value of the schema.
        """
        out = bytearray()
        self._empty = 0
        try:
            end = self._within(self._schema, data, 0, out)
        except RecursionError:
            raise Malformed("the value is nested too deep") from None
        if end != len(data):
            raise Malformed(f"{len(data) - end} bytes follow the value, which ends at byte {end}")
        return bytes(out)

    def _copy(self, of: Type, data: bytes, at: int, out: bytearray) -> int:
        if of.name in self._names:
            made, end = self._put(of, data, at)
            out += made
            return end
        return self._within(of, data, at, out)

    def _within(self, of: Type, data: bytes, at: int, out: bytearray) -> int:
        if of.kind == "record":
            for each in of.fields:
                at = self._copy(each.type, data, at, out)
            return at
        if of.kind == "union":
            branch, end = _branch(of, data, at)
            out += data[at:end]
            return self._copy(branch, data, end, out)
        if of.kind not in ("array", "map"):
            end = _leaf_end(of, data, at)
            out += data[at:end]
            return end
        assert of.items is not None
        while True:
            count, at = _count(data, at)
            out += varint(count)  # without the size of the block, which changes
            if not count:
                return at
            for _ in range(count):
                begin = at
                if of.kind == "map":
                    end = _leaf_end(_STRING, data, at)
                    out += data[at:end]
                    at = end
                at = self._copy(of.items, data, at, out)
                self._empty = _counted_empty(self._empty, begin == at, at)


def value_at(schema: Type, data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return a value in Avro's JSON encoding, and the position behind it.

    Raises:
        Malformed: the bytes are no value of the schema, or have more than `MAX_LEVELS` records within each other.
    """
    try:
        return _value(schema, data, at, 0, [0])
    except RecursionError:
        raise Malformed("the value is nested too deep") from None


def _value(of: Type, data: bytes, at: int, level: int, empty: list[int]) -> tuple[Any, int]:
    if of.kind == "record":
        if level >= MAX_LEVELS:
            raise Malformed(f"the value has more than {MAX_LEVELS} records within each other (byte {at})")
        made = {}
        for each in of.fields:
            made[each.name], at = _value(each.type, data, at, level + 1, empty)
        return made, at
    if of.kind == "union":
        branch, at = _branch(of, data, at)
        value, at = _value(branch, data, at, level, empty)
        return (None if branch.kind == "null" else {branch.name or branch.kind: value}), at
    if of.kind in ("array", "map"):
        return _items(of, data, at, level, empty)
    end = _leaf_end(of, data, at)
    return _leaf(of, data, at, end), end


def _items(of: Type, data: bytes, at: int, level: int, empty: list[int]) -> tuple[Any, int]:
    assert of.items is not None
    items: list[Any] = []
    names: list[str] = []
    while True:
        count, at = _count(data, at)
        if not count:
            return (dict(zip(names, items, strict=True)) if of.kind == "map" else items), at
        for _ in range(count):
            begin = at
            if of.kind == "map":
                end = _leaf_end(_STRING, data, at)
                names.append(_leaf(_STRING, data, at, end))
                at = end
            value, at = _value(of.items, data, at, level, empty)
            items.append(value)
            empty[0] = _counted_empty(empty[0], begin == at, at)


def _leaf(of: Type, data: bytes, at: int, end: int) -> Any:
    kind = of.kind
    if kind in ("int", "long", "enum"):
        number = number_at(data, at)[0]
        return of.symbols[number] if kind == "enum" else number
    if kind in ("string", "bytes"):
        at = number_at(data, at)[1]
        return data[at:end].decode("utf-8" if kind == "string" else "latin-1")
    if kind in ("float", "double"):
        number = struct.unpack("<f" if kind == "float" else "<d", data[at:end])[0]
        return number if math.isfinite(number) else _SPECIAL[str(number)]
    return {"null": None, "boolean": data[at:end] == b"\1", "fixed": data[at:end].decode("latin-1")}[kind]


def encoded(of: Type, value: Any, level: int = 0) -> bytes:
    """Return the bytes of a value in Avro's JSON encoding.

    Raises:
        Malformed: the value does not have the schema.
    """
    if of.kind == "record" and isinstance(value, dict) and value.keys() == {each.name for each in of.fields}:
        if level >= MAX_LEVELS:
            raise Malformed(f"the value has more than {MAX_LEVELS} records within each other")
        return b"".join(encoded(each.type, value[each.name], level + 1) for each in of.fields)
    if of.kind == "union":
        ((name, inner),) = value.items() if isinstance(value, dict) and len(value) == 1 else (("null", value),)
        for number, branch in enumerate(of.branches):
            if (branch.name or branch.kind) == name:
                return varint(number) + encoded(branch, inner, level)
    elif of.kind in ("array", "map") and isinstance(value, list if of.kind == "array" else dict):
        assert of.items is not None
        names = [b""] * len(value) if of.kind == "array" else [encode_leaf(_STRING, each) for each in value]
        inner = list(value.values()) if isinstance(value, dict) else value
        items = [name + encoded(of.items, each, level) for name, each in zip(names, inner, strict=True)]
        return (varint(len(items)) + b"".join(items) if items else b"") + b"\0"
    elif of.kind not in ("record", "array", "map"):
        if of.kind in ("float", "double") and isinstance(value, str) and value in _SPECIAL.values():
            value = float(value)
        try:
            return encode_leaf(of, value)
        except SchemaError:
            pass
    raise Malformed(f"{repr(value)[:60]} is no {of}")


# Floats that JSON has no number for, as Java's JSON encoder writes them.
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_STRING = Type("string")


def _counted_empty(count: int, is_empty: bool, at: int) -> int:
    if is_empty and count >= MAX_EMPTY_ITEMS:
        raise Malformed(f"the value has more than {MAX_EMPTY_ITEMS} items without bytes (byte {at})")
    return count + is_empty


def _branch(of: Type, data: bytes, at: int) -> tuple[Type, int]:
    number, end = number_at(data, at)
    if not 0 <= number < len(of.branches):
        raise Malformed(f"the index {number} is none of the union's {len(of.branches)} types (byte {at})")
    return of.branches[number], end


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of items of a block, and the position of the first."""
    count, at = number_at(data, at)
    if count >= 0:
        return count, at
    size, at = number_at(data, at)
    if not 0 <= size <= len(data) - at:
        raise Malformed(f"a block of {size} bytes does not fit the value (byte {at})")
    return -count, at


def _leaf_end(of: Type, data: bytes, at: int) -> int:
    kind = of.kind
    if kind in ("int", "long", "enum"):
        number, end = number_at(data, at)
        if kind == "int" and not -INT_LIMIT <= number < INT_LIMIT:
            raise Malformed(f"{number} is no int (byte {at})")
        if kind == "enum" and not 0 <= number < len(of.symbols):
            raise Malformed(f"the index {number} is none of the enum's {len(of.symbols)} symbols (byte {at})")
        return end
    if kind in ("string", "bytes"):
        size, at = number_at(data, at)
        end = at + size
        if size < 0:
            raise Malformed(f"the length {size} is negative (byte {at})")
    else:
        end = at + {"null": 0, "boolean": 1, "float": 4, "double": 8, "fixed": of.size}[kind]
    if end > len(data):
        raise Malformed(f"the value ends too early: {end} bytes are needed here (byte {at})")
    if kind == "boolean" and data[at] > 1:
        raise Malformed(f"{data[at]} is no boolean (byte {at})")
    if kind == "string":
        try:
            data[at:end].decode()
        except UnicodeDecodeError:
            raise Malformed(f"the text is not UTF-8 (byte {at})") from None
    return end


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number, and the position behind it."""
    made = shift = 0
    for end in range(at, min(at + 10, len(data))):
        made |= (data[end] & 127) << shift
        shift += 7
        if data[end] < 128:
            if made >> 64:
                break
            return made >> 1 ^ -(made & 1), end + 1
    raise Malformed(f"the value ends too early, or a number is too long (byte {at})")


def varint(number: int) -> bytes:
    """Return a number that is not negative, as zigzag varint."""
    number <<= 1
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])
