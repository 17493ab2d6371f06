"""Turns an input's bytes into choices and values: a small change of the bytes is a small change of the values."""

from __future__ import annotations

import math
import struct
from typing import Any
from uuid import UUID

from fuzz.versions import version_of
from kafwire.protocol import MESSAGES, Message, Struct
from kafwire.protocol.spec import Field

NUMBERS = (
    *(0, 1, -1, 127, 128, -129, 255, 32767, 32768, 65535, 65536),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63), 2**64),
)
RANGES = {
    "int8": (8, True),
    "int16": (16, True),
    "uint16": (16, False),
    "int32": (32, True),
    "uint32": (32, False),
    "int64": (64, True),
}
DEEPEST = 6


class Choices:
    """Reads an input from its start; when it is used up, every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        """Return the next byte."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, limit: int) -> int:
        """Return a number from 0 to `limit` - 1."""
        return (self.byte() if limit <= 256 else self.byte() << 8 | self.byte()) % limit

    def one_in(self, count: int) -> bool:
        """True once in `count` times, by the input; never when the input is used up."""
        return self.byte() % count == count - 1

    def take(self, count: int) -> bytes:
        """Return as many of the next `count` bytes as there are."""
        self._at += count
        return self._data[self._at - count : self._at]

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(max(len(self._data) - self._at, 0))

    def text(self) -> str:
        """Return a short text, now and then with bytes that are not UTF-8."""
        data = self.take(self.byte() % 24)
        return data.decode("utf-8", "surrogateescape" if self.one_in(16) else "replace")

    def whole(self) -> int:
        """Return a whole number, often one at the edge of a type."""
        if self.byte() % 2:
            return NUMBERS[self.below(len(NUMBERS))]
        return int.from_bytes(self.take(self.byte() % 9), "big", signed=True)

    def anything(self, depth: int = 0) -> Any:
        """Return a value of any type that a user may pass."""
        kind = self.below(14 if depth < DEEPEST else 10)
        if kind < 3:
            return (None, True, False)[kind]
        if kind == 3:
            return self.whole()
        if kind == 4:
            return (math.nan, math.inf, -math.inf, -0.0, 0.5, 1e300, 1.0)[self.below(7)]
        if kind == 5:
            return self.text()
        if kind == 6:
            return self.take(self.byte() % 24)
        if kind == 7:
            return memoryview(self.take(self.byte() % 24))
        if kind == 8:
            return UUID(bytes=self.take(16).ljust(16, b"\0"))
        if kind == 9:
            return bytearray(self.take(self.byte() % 24))
        values = [self.anything(depth + 1) for _ in range(self.below(4))]
        if kind == 10:
            return values
        if kind == 11:
            return tuple(values)
        return {(self.text() if kind == 12 else self.whole()): value for value in values}

    def message_class(self) -> type[Message]:
        """Choose a message."""
        names = sorted(MESSAGES)
        return MESSAGES[names[self.below(len(names))]]

    def version(self, cls: type[Message]) -> int:
        """Choose a version of it."""
        return version_of(cls, self.below(cls.max_version - cls.oldest_version + 1))

    def fields(self, cls: type[Struct], version: int, depth: int = 0) -> dict[str, Any]:
        """Return values by field as `from_dict` takes them: right ones mostly, and sometimes something else."""
        values = {}
        for field in cls.__fields__:
            if (version in field.versions or self.one_in(32)) and not self.one_in(8):
                values[field.name] = self._field(field, version, depth)
        if self.one_in(16):
            values["unknown_tagged_fields"] = (
                self.anything() if self.one_in(8) else {self.below(300): self.take(self.byte() % 9)}
            )
        if self.one_in(64):
            values[self.text()] = self.anything()
        return values

    def _field(self, field: Field, version: int, depth: int) -> Any:
        if self.one_in(24):
            return self.anything()
        if version in field.nullable and self.one_in(4):
            return None
        if field.array:
            return [self._value(field, version, depth) for _ in range(self.below(3 if depth < DEEPEST else 1))]
        return self._value(field, version, depth)

    def _value(self, field: Field, version: int, depth: int) -> Any:
        if field.struct is not None:
            return self.fields(field.struct, version, depth + 1)
        if field.kind in RANGES:
            bits, signed = RANGES[field.kind]
            return int.from_bytes(self.take(bits // 8), "big", signed=signed)
        if field.kind == "bool":
            return bool(self.byte() & 1)
        if field.kind == "float64":
            return float(struct.unpack(">d", self.take(8).rjust(8, b"\0"))[0])
        if field.kind == "string":
            return self.text()
        if field.kind == "uuid":
            return UUID(bytes=self.take(16).rjust(16, b"\0"))
        return self.take(self.byte() % 40)
