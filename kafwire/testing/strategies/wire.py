"""Bytes with the positions of their lengths, which `mutated` replaces by wrong ones.

`encoded` writes a message field by field, slowly and simply, and notes each length and count. It shares only the
declarations with kafwire's own encoder.
"""

import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from kafwire._codec import crc32c_of
from kafwire.protocol.spec import Field, Message, Struct

__all__ = ["Place", "Wire", "Writer", "encoded", "uvarint", "varint", "with_right_checksums"]

_FORMATS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
Repair = Callable[[bytes], bytes]


class Place(NamedTuple):
    """The position of a length, a count or a presence marker in some bytes.

    Args:
        offset: the position in bytes.
        size: its number of bytes.
        form: the encoding of the number: int8, int16, int32, uvarint (unsigned; a compact length is the length plus
            one) or varint (zigzag).
        name: the measured field, for example `topics[0].name`.

    Example:
        >>> from kafwire.testing.strategies import Place
        >>> Place(0, 4, "int32", "topics").form
        'int32'
    """

    offset: int
    size: int
    form: str
    name: str


class Wire(bytes):
    r"""Bytes that know the positions of their lengths.

    Args:
        data: the bytes.
        places: the positions.
        repair: a function that corrects checksums after damage, or None.

    Example:
        >>> from kafwire.testing.strategies import Place, Wire
        >>> Wire(b"\x00\x00\x00\x00", [Place(0, 4, "int32", "topics")]).places[0].name
        'topics'
    """

    places: tuple[Place, ...]
    repair: Repair | None

    def __new__(cls, data: bytes, places: Iterable[Place] = (), repair: Repair | None = None) -> Self:
        """Store the bytes and their places."""
        made = super().__new__(cls, data)
        made.places = tuple(places)
        made.repair = repair
        return made


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Return a zigzag varint of up to 64 bits."""
    return uvarint((value << 1) ^ (value >> 63))


class Writer:
    """Bytes under construction, and the places noted so far."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.places: list[Place] = []

    def mark(self, form: str, name: str, written: bytes) -> None:
        """Append a number that is the length or count of `name`."""
        self.places.append(Place(len(self.data), len(written), form, name))
        self.data += written

    def add(self, part: bytes, prefix: str = "") -> None:
        """Append bytes, with their places if it is a `Wire`; `prefix` goes before the names of these."""
        if isinstance(part, Wire):
            here = len(self.data)
            self.places += [
                Place(place.offset + here, place.size, place.form, prefix + place.name) for place in part.places
            ]
        self.data += part

    def wire(self, repair: Repair | None = None) -> Wire:
        """Return the bytes and places so far."""
        return Wire(bytes(self.data), self.places, repair)

    def length(self, name: str, size: int, compact: bool, form: str) -> None:
        """Append a length or a count; -1 is null."""
        if compact:
            self.mark("uvarint", name, uvarint(size + 1))
        else:
            self.mark(form, name, struct.pack(_FORMATS[form], size))


def encoded(message: Message, version: int) -> Wire:
    """Return the body of a message, with the positions of its lengths.

    The bytes are those of `message.encode(version)`.

    Args:
        message: a message that the version can carry.
        version: the version.

    Returns:
        The body.

    Example:
        >>> from kafwire.testing.strategies import encoded
        >>> [place.name for place in encoded(kafwire.protocol.MetadataRequest(topics=None), 1).places]
        ['topics: number of elements']
    """
    writer = Writer()
    _struct(writer, message, version, version >= type(message).flexible_from, "")
    return writer.wire()


def _struct(writer: Writer, value: Struct, version: int, flexible: bool, path: str) -> None:
    blank = type(value)()
    tagged: dict[int, bytes] = dict(value.unknown_tagged_fields)
    for field in type(value).__fields__:
        content = getattr(value, field.name)
        name = f"{path}.{field.name}" if path else field.name
        if version in field.tagged:
            if field.tag is not None and content != getattr(blank, field.name):
                inner = Writer()
                _field(inner, field, content, version, flexible, name)
                tagged[field.tag] = inner.wire()
        elif version in field.versions:
            _field(writer, field, content, version, flexible, name)
    if flexible:
        where = path or type(value).__name__
        writer.mark("uvarint", f"{where}: number of tagged fields", uvarint(len(tagged)))
        for tag, data in sorted(tagged.items()):
            writer.mark("uvarint", f"{where}: a tag", uvarint(tag))
            writer.mark("uvarint", f"{where}: size of tag {tag}", uvarint(len(data)))
            writer.add(data)


def _field(writer: Writer, field: Field, value: Any, version: int, flexible: bool, name: str) -> None:
    compact = flexible and field.flexible
    if field.array:
        writer.length(f"{name}: number of elements", -1 if value is None else len(value), compact, "int32")
        for i, element in enumerate(value or ()):
            _value(writer, field, element, version, flexible, f"{name}[{i}]")
        return
    if field.kind == "struct" and version in field.nullable:
        null = b"\0" if version in field.tagged else b"\xff"
        writer.mark("int8", f"{name}: presence", null if value is None else b"\1")
        if value is None:
            return
    _value(writer, field, value, version, flexible, name)


def _value(writer: Writer, field: Field, value: Any, version: int, flexible: bool, name: str) -> None:
    compact = flexible and field.flexible
    kind = field.kind
    if kind == "struct":
        _struct(writer, value, version, flexible, name)
    elif kind in {"string", "bytes", "records"}:
        data = value.encode() if kind == "string" and value is not None else value
        writer.length(
            f"{name}: length",
            -1 if data is None else len(data),
            compact,
            "int16" if kind == "string" else "int32",
        )
        if data is not None:
            writer.add(data)
    elif kind == "uuid":
        writer.add(value.bytes)
    elif kind == "bool":
        writer.add(b"\1" if value else b"\0")
    else:
        writer.add(struct.pack(_FORMATS[kind], value))


def with_right_checksums(data: bytes) -> bytes:
    """Return the same record batches with the checksum of each whole one corrected, of any magic."""
    out = bytearray(data)
    at = 0
    while at + 17 <= len(out):
        end = at + 12 + int.from_bytes(out[at + 8 : at + 12], "big", signed=True)
        if not at + 17 <= end <= len(out):
            break
        magic = out[at + 16]
        if magic == 2 and end >= at + 61:
            out[at + 17 : at + 21] = crc32c_of(bytes(out[at + 21 : end])).to_bytes(4, "big")
        elif magic in {0, 1}:
            out[at + 12 : at + 16] = zlib.crc32(bytes(out[at + 16 : end])).to_bytes(4, "big")
        at = end
    return bytes(out)
