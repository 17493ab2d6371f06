"""The positions of the fields of an encoded request: every length, count, tag and value.

The bytes come from kafwire itself, so nothing is checked here. Damage uses these positions as its targets.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from kafwire.protocol.framing import request_header_version
from kafwire.protocol.header import RequestHeader
from kafwire.protocol.spec import Field, Request, Struct

_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


class Span(NamedTuple):
    """A range of bytes with one meaning. `role`: number, length, compact-length, count, compact-count, presence, text,
    blob, tag-count, tag, tag-size. `place` names the field: "body.topics[0].name".
    """

    place: str
    role: str
    start: int
    end: int
    kind: str = ""


def dissect(request: type[Request[Any]], version: int, frame: bytes) -> list[Span]:
    """Return the spans of a whole request (header and body, without its size), in order and without gaps."""
    walker = _Walker(frame)
    flexible = version >= request.flexible_from
    walker.message(RequestHeader, request_header_version(request, version), flexible, "header")
    walker.message(request, version, flexible, "body")
    assert walker.at == len(frame), (request.__name__, version, walker.at, len(frame))
    return walker.spans


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint and its end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


class _Walker:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.spans: list[Span] = []

    def message(self, cls: type[Struct], version: int, flexible: bool, place: str) -> None:
        tagged: dict[int, Field] = {}
        for field in cls.__fields__:
            if version in field.tagged and flexible:
                tagged[field.tag or 0] = field
            elif version in field.versions:
                self.field(field, version, flexible, f"{place}.{field.name}")
        if not flexible:
            return
        for index in range(self._varint(f"{place}.tags", "tag-count")):
            inner = f"{place}.tags[{index}]"
            tag = self._varint(inner, "tag")
            size = self._varint(inner, "tag-size")
            if tag in tagged:
                self.field(tagged[tag], version, flexible, f"{place}.{tagged[tag].name}")
            else:
                self._take(inner, "blob", size)

    def field(self, field: Field, version: int, flexible: bool, place: str) -> None:
        flexible = flexible and field.flexible
        if not field.array:
            self.value(field, version, flexible, place)
            return
        for index in range(self._length(place, "count", flexible, 4)):
            self.value(field, version, flexible, f"{place}[{index}]", element=True)

    def value(self, field: Field, version: int, flexible: bool, place: str, *, element: bool = False) -> None:
        kind = field.kind
        if kind == "struct":
            assert field.struct is not None
            if version in field.nullable and not element:
                self._take(place, "presence", 1)
                if self.data[self.at - 1] == 0xFF:
                    return
            self.message(field.struct, version, flexible, place)
        elif kind in _SIZES:
            self._take(place, "number", _SIZES[kind], kind)
        else:
            size = self._length(place, "length", flexible, 2 if kind == "string" else 4)
            self._take(place, "text" if kind == "string" else "blob", size, kind)

    def _length(self, place: str, role: str, flexible: bool, width: int) -> int:
        if flexible:
            return max(self._varint(place, f"compact-{role}") - 1, 0)
        self._take(place, role, width)
        (value,) = struct.unpack(">h" if width == 2 else ">i", self.data[self.at - width : self.at])
        return max(int(value), 0)

    def _varint(self, place: str, role: str) -> int:
        value, end = read_varint(self.data, self.at)
        self.spans.append(Span(place, role, self.at, end))
        self.at = end
        return value

    def _take(self, place: str, role: str, size: int, kind: str = "") -> None:
        self.spans.append(Span(place, role, self.at, self.at + size, kind))
        self.at += size


def gaps(spans: list[Span]) -> Iterator[tuple[int, int]]:
    """Yield the gaps between spans: (end of one, start of the next)."""
    for before, after in pairwise(spans):
        if before.end != after.start:
            yield before.end, after.start
