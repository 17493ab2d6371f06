"""Framings: where a record's bytes or headers hold the id of the schema that wrote them.

The layouts follow public sources:

- Confluent: the wire format in the documentation of its serializers, and `confluent_kafka.schema_registry` (`SchemaId`,
  `header_schema_id_serializer`, `dual_schema_id_deserializer`).
- Apicurio: its repository Apicurio/apicurio-registry, `Default4ByteIdHandler`, `Legacy8ByteIdHandler`, `SerdeHeaders`
  and `DefaultHeadersHandler`.
- AWS Glue: awslabs/aws-glue-schema-registry, `SerializationDataEncoder` and `GlueSchemaRegistryDeserializerDataParser`.

Every function here is pure: bytes and headers in, bytes and headers out. Requests to a registry, and the formats of
payloads, belong elsewhere.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias
from uuid import UUID

from kafwire.errors import ConfigError, FramingError
from kafwire.serializer_signature import SerializationContext

__all__ = [
    "ApicurioHeader",
    "ApicurioPrefix",
    "ConfluentHeader",
    "ConfluentPrefix",
    "Framing",
    "GluePrefix",
    "SchemaId",
]

SchemaId: TypeAlias = int | UUID
Context: TypeAlias = SerializationContext | None

MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1
UUID_BYTES = 16
CONFLUENT_ID, CONFLUENT_GUID = 0, 1  # first bytes: an int32 follows, or a UUID
GLUE_VERSION, GLUE_PLAIN, GLUE_ZLIB = 3, 0, 5
GLUE_HEADER_BYTES = 2 + UUID_BYTES
# Longer values than a broker takes by default, and few enough bytes to survive a zlib bomb.
MAX_DECOMPRESSED_BYTES = 64 << 20

_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")


class Framing(Protocol):
    """The place of a schema id in a record.

    Example:
        >>> from kafwire.registry.framing import ConfluentPrefix, Framing
        >>> framing: Framing = ConfluentPrefix()
        >>> framing.read(framing.write(7, b"payload"))
        (7, b'payload')
    """

    def write(self, schema_id: SchemaId, payload: bytes, ctx: Context = None, *, indexes: bytes = b"") -> bytes:
        """Return the record's key or value; framings with a header set it in `ctx.headers`.

        Args:
            schema_id: the schema's id: an int, or a UUID for framings with GUIDs.
            payload: the serialized value.
            ctx: the record; framings with a header need it.
            indexes: Protobuf's message indexes, which lie next to the id: after a prefix, or within Confluent's header.

        Returns:
            The bytes to send.

        Raises:
            FramingError: the id does not fit the framing, or `ctx` is missing.
        """

    def read(self, data: bytes, ctx: Context = None) -> tuple[SchemaId, bytes]:
        """Return the schema id and the payload of a record's key or value.

        Args:
            data: the key or value.
            ctx: the record; framings with a header need it.

        Returns:
            The id and the payload, which begins with Protobuf's message indexes if the record has them next to its id.

        Raises:
            FramingError: the bytes or headers do not hold an id where the framing expects it.
        """

    def prefix(self, schema_id: SchemaId) -> bytes | None:
        """Return the constant bytes before every payload of this id.

        Args:
            schema_id: the schema's id.

        Returns:
            The bytes; None if the framing writes a header, or compresses payloads.

        Raises:
            FramingError: the id does not fit the framing.
        """


@dataclass(frozen=True)
class ConfluentPrefix:
    r"""Confluent's default: a zero byte, and the id as int32. `read` also accepts a one byte and a GUID.

    Example:
        >>> from kafwire.registry.framing import ConfluentPrefix
        >>> ConfluentPrefix().write(7, b"payload")
        b'\x00\x00\x00\x00\x07payload'
    """

    @property
    def head_sizes(self) -> dict[int, int]:
        """The number of bytes that hold the id, by the first byte."""
        return {CONFLUENT_ID: 1 + _INT32.size, CONFLUENT_GUID: 1 + UUID_BYTES}

    def write(self, schema_id: SchemaId, payload: bytes, ctx: Context = None, *, indexes: bytes = b"") -> bytes:
        """Return the prefix, the indexes and the payload, as `Framing.write` does."""
        del ctx
        return self.prefix(schema_id) + indexes + payload

    def read(self, data: bytes, ctx: Context = None) -> tuple[SchemaId, bytes]:
        """Return the id and the payload, as `Framing.read` does."""
        del ctx
        return _read_confluent(data, "the value")

    def prefix(self, schema_id: SchemaId) -> bytes:
        """Return the five bytes of an id, or the 17 of a GUID, as `Framing.prefix` does."""
        if isinstance(schema_id, UUID):
            return bytes([CONFLUENT_GUID]) + schema_id.bytes
        return bytes([CONFLUENT_ID]) + _INT32.pack(_number(schema_id, MAX_INT32, "Confluent's prefix"))


@dataclass(frozen=True)
class ConfluentHeader:
    """Confluent's header `__key_schema_id` or `__value_schema_id`: a one byte, and the schema's GUID.

    A record without the header is read by its prefix, as Confluent's deserializers read it: a topic may have both.

    Example:
        >>> from uuid import UUID
        >>> from kafwire.registry.framing import ConfluentHeader
        >>> from kafwire.serialization import SerializationContext
        >>> ctx = SerializationContext("flights", "value", [])
        >>> ConfluentHeader().write(UUID(int=7), b"payload", ctx)
        b'payload'
        >>> ctx.headers[0][0], ConfluentHeader().read(b"payload", ctx)
        ('__value_schema_id', (UUID('00000000-0000-0000-0000-000000000007'), b'payload'))
    """

    def write(self, schema_id: SchemaId, payload: bytes, ctx: Context = None, *, indexes: bytes = b"") -> bytes:
        """Set the header, and return the payload unchanged, as `Framing.write` does."""
        if not isinstance(schema_id, UUID):
            raise FramingError(f"Confluent's header needs the schema's GUID, not the id {schema_id!r}")
        name, ctx = f"__{_field(ctx)}_schema_id", _needed(ctx)
        _set_header(ctx, name, bytes([CONFLUENT_GUID]) + schema_id.bytes + indexes)
        return payload

    def read(self, data: bytes, ctx: Context = None) -> tuple[SchemaId, bytes]:
        """Return the GUID of the header, or the id of the prefix, and the payload, as `Framing.read` does."""
        name = f"__{_field(ctx)}_schema_id"
        header = _last_header(ctx, name)
        if header is None:
            return _read_confluent(data, f"the value, which has no header {name}")
        schema_id, indexes = _read_confluent(header, f"header {name}")
        return schema_id, indexes + data if indexes else data

    def prefix(self, schema_id: SchemaId) -> None:
        """Return None, as `Framing.prefix` does for ids in a header."""
        del schema_id


@dataclass(frozen=True)
class ApicurioPrefix:
    r"""Apicurio's prefix: a zero byte, and the id as int64, or as int32 with `id_bytes=4`.

    Apicurio 2 writes eight bytes with the global id, Apicurio 3 four bytes with the content id, by default.

    Args:
        id_bytes: 8 or 4.

    Raises:
        ConfigError: `id_bytes` is another number.

    Example:
        >>> from kafwire.registry.framing import ApicurioPrefix
        >>> ApicurioPrefix().write(7, b"payload")
        b'\x00\x00\x00\x00\x00\x00\x00\x00\x07payload'
    """

    id_bytes: int = 8

    def __post_init__(self) -> None:
        if self.id_bytes not in (4, 8):
            raise ConfigError(f"id_bytes of Apicurio's prefix is 4 or 8, not {self.id_bytes!r}")

    @property
    def head_sizes(self) -> dict[int, int]:
        """The number of bytes that hold the id, by the first byte."""
        return {0: 1 + self.id_bytes}

    def write(self, schema_id: SchemaId, payload: bytes, ctx: Context = None, *, indexes: bytes = b"") -> bytes:
        """Return the prefix, the indexes and the payload, as `Framing.write` does."""
        del ctx
        return self.prefix(schema_id) + indexes + payload

    def read(self, data: bytes, ctx: Context = None) -> tuple[SchemaId, bytes]:
        """Return the id and the payload, as `Framing.read` does."""
        del ctx
        _check_first_byte(data, 0, "the value")
        layout = _INT32 if self.id_bytes == _INT32.size else _INT64
        return _read_number(data, 1, layout, "the value")

    def prefix(self, schema_id: SchemaId) -> bytes:
        """Return the zero byte and the id, as `Framing.prefix` does."""
        layout, most = (_INT32, MAX_INT32) if self.id_bytes == _INT32.size else (_INT64, MAX_INT64)
        return b"\0" + layout.pack(_number(schema_id, most, f"Apicurio's prefix of {self.id_bytes} bytes"))


@dataclass(frozen=True)
class ApicurioHeader:
    r"""Apicurio's header `apicurio.value.globalId`, or `...contentId`: the id as int64. The same with `key` for keys.

    A record without either header is read by its prefix, as Apicurio's deserializers read it. `read` accepts both
    headers, and prefers that of `id`.

    Args:
        id: the id that `write` sets: "globalId", Apicurio 2's default, or "contentId", Apicurio 3's.
        id_bytes: the width of the id in the prefix of records without a header, 8 or 4.

    Raises:
        ConfigError: an argument has another value.

    Example:
        >>> from kafwire.registry.framing import ApicurioHeader
        >>> from kafwire.serialization import SerializationContext
        >>> ctx = SerializationContext("flights", "value", [])
        >>> ApicurioHeader().write(7, b"payload", ctx), ctx.headers
        (b'payload', [('apicurio.value.globalId', b'\x00\x00\x00\x00\x00\x00\x00\x07')])
    """

    id: Literal["globalId", "contentId"] = "globalId"
    id_bytes: int = 8

    def __post_init__(self) -> None:
        if self.id not in ("globalId", "contentId"):
            raise ConfigError(f"id of Apicurio's header is 'globalId' or 'contentId', not {self.id!r}")
        ApicurioPrefix(self.id_bytes)

    def write(self, schema_id: SchemaId, payload: bytes, ctx: Context = None, *, indexes: bytes = b"") -> bytes:
        """Set the header, and return the indexes and the payload, as `Framing.write` does."""
        name = f"apicurio.{_field(ctx)}.{self.id}"
        _set_header(_needed(ctx), name, _INT64.pack(_number(schema_id, MAX_INT64, "Apicurio's header")))
        return indexes + payload

    def read(self, data: bytes, ctx: Context = None) -> tuple[SchemaId, bytes]:
        """Return the id of the header, or of the prefix, and the payload, as `Framing.read` does."""
        field = _field(ctx)
        encoding = _last_header(ctx, f"apicurio.{field}.encoding")
        if encoding is not None and encoding != b"BINARY":
            raise FramingError(f"header apicurio.{field}.encoding is {encoding[:20]!r}: only BINARY can be read")
        for kind in (self.id, "contentId" if self.id == "globalId" else "globalId"):
            name = f"apicurio.{field}.{kind}"
            header = _last_header(ctx, name)
            if header is not None:
                schema_id, rest = _read_number(header, 0, _INT64, f"header {name}")
                if rest:
                    raise FramingError(f"header {name} has {len(header)} bytes instead of 8")
                return schema_id, data
        if data[:1] != b"\0":
            raise FramingError(f"the record has no header apicurio.{field}.{self.id}, and its value no prefix of an id")
        return ApicurioPrefix(self.id_bytes).read(data)

    def prefix(self, schema_id: SchemaId) -> None:
        """Return None, as `Framing.prefix` does for ids in a header."""
        del schema_id


@dataclass(frozen=True)
class GluePrefix:
    r"""AWS Glue's prefix: the byte 3, a byte of compression, the UUID of a schema version.

    `read` decompresses payloads that have the byte of zlib; they may decompress to 64 MiB at most.

    Args:
        compress: True: `write` compresses payloads by zlib.

    Example:
        >>> from uuid import UUID
        >>> from kafwire.registry.framing import GluePrefix
        >>> data = GluePrefix(compress=True).write(UUID(int=7), b"payload")
        >>> data[:2], GluePrefix().read(data)
        (b'\x03\x05', (UUID('00000000-0000-0000-0000-000000000007'), b'payload'))
    """

    compress: bool = False

    def write(self, schema_id: SchemaId, payload: bytes, ctx: Context = None, *, indexes: bytes = b"") -> bytes:
        """Return the prefix, and the indexes and payload, compressed if asked, as `Framing.write` does."""
        del ctx
        head = self._head(schema_id)
        return head + (zlib.compress(indexes + payload) if self.compress else indexes + payload)

    def read(self, data: bytes, ctx: Context = None) -> tuple[SchemaId, bytes]:
        """Return the UUID and the payload, as `Framing.read` does."""
        del ctx
        _check_first_byte(data, GLUE_VERSION, "the value")
        if len(data) < GLUE_HEADER_BYTES:
            raise FramingError(f"the value has {len(data)} bytes: Glue's prefix has {GLUE_HEADER_BYTES}")
        schema_id, payload = UUID(bytes=bytes(data[2:GLUE_HEADER_BYTES])), bytes(data[GLUE_HEADER_BYTES:])
        if data[1] == GLUE_ZLIB:
            return schema_id, _decompressed(payload)
        if data[1] != GLUE_PLAIN:
            raise FramingError(f"the value has the compression byte {data[1]}: Glue has 0 (none) and 5 (zlib)")
        return schema_id, payload

    def prefix(self, schema_id: SchemaId) -> bytes | None:
        """Return the 18 bytes before a payload, or None with compression, as `Framing.prefix` does."""
        return None if self.compress else self._head(schema_id)

    def _head(self, schema_id: SchemaId) -> bytes:
        if not isinstance(schema_id, UUID):
            raise FramingError(f"Glue's prefix needs the UUID of a schema version, not {schema_id!r}")
        return bytes([GLUE_VERSION, GLUE_ZLIB if self.compress else GLUE_PLAIN]) + schema_id.bytes


def _read_confluent(data: bytes, where: str) -> tuple[SchemaId, bytes]:
    if data[:1] == bytes([CONFLUENT_GUID]):
        if len(data) < 1 + UUID_BYTES:
            raise FramingError(f"{where}: {len(data)} bytes are too few for the byte 1 and a GUID")
        return UUID(bytes=bytes(data[1 : 1 + UUID_BYTES])), bytes(data[1 + UUID_BYTES :])
    _check_first_byte(data, CONFLUENT_ID, where)
    return _read_number(data, 1, _INT32, where)


def _check_first_byte(data: bytes, expected: int, where: str) -> None:
    if not data:
        raise FramingError(f"{where}: there are no bytes, so there is no schema id")
    if data[0] != expected:
        raise FramingError(
            f"{where}: the first byte is {data[0]}, not {expected}: was it written with another framing?"
        )


def _read_number(data: bytes, at: int, layout: struct.Struct, where: str) -> tuple[int, bytes]:
    end = at + layout.size
    if len(data) < end:
        raise FramingError(f"{where}: {len(data)} bytes are too few for a schema id, which ends at byte {end}")
    (number,) = layout.unpack_from(data, at)
    if number < 0:
        raise FramingError(f"{where}: the schema id {number} is negative")
    return number, bytes(data[end:])


def _number(schema_id: SchemaId, most: int, framing: str) -> int:
    if not isinstance(schema_id, int) or isinstance(schema_id, bool):
        raise FramingError(f"{framing} needs a number as schema id, not {schema_id!r}")
    if not 0 <= schema_id <= most:
        raise FramingError(f"the schema id {schema_id} does not fit {framing}: it has ids from 0 to {most}")
    return schema_id


def _decompressed(payload: bytes) -> bytes:
    decoder = zlib.decompressobj()
    try:
        plain = decoder.decompress(payload, MAX_DECOMPRESSED_BYTES + 1)
    except zlib.error as problem:
        raise FramingError(f"the value cannot be decompressed by zlib: {problem}") from None
    if len(plain) > MAX_DECOMPRESSED_BYTES:
        raise FramingError(f"the value decompresses to more than {MAX_DECOMPRESSED_BYTES} bytes")
    if not decoder.eof or decoder.unused_data:
        raise FramingError("the value is cut off, or has bytes after its compressed payload")
    return plain


def _needed(ctx: Context) -> SerializationContext:
    if ctx is None:
        raise FramingError("a framing with a header needs the record's headers: use the serializer's parameter ctx")
    return ctx


def _field(ctx: Context) -> str:
    return str(_needed(ctx).field)


def _last_header(ctx: Context, name: str) -> bytes | None:
    """Return the last header of a name, as Kafka's `lastHeader`, or None if there is none, or its value is null."""
    headers: Iterable[tuple[str, Any]] = _needed(ctx).headers or ()
    found = None
    for key, value in headers:
        if key == name:
            found = value
    return found


def _set_header(ctx: SerializationContext, name: str, value: bytes) -> None:
    """Set the only header of a name: of an older one beside it, some readers take the first, some the last."""
    headers = ctx.headers
    headers[:] = [each for each in headers if each[0] != name]
    headers.append((name, value))
