"""Valid encodings with odd values: a server must respond to them, though no sane client sends them."""

import random
import struct
from typing import Any
from uuid import UUID

from kafwire._codec import crc32c_of
from kafwire.protocol.spec import Field, Request, Struct
from kafwire.records.batches import CRC_AT, CRC_FROM, HEADER_SIZE
from kafwire.testing.fuzzer import paths
from kafwire.testing.fuzzer.paths import Path

_LIMITS = {
    "int8": (-0x80, 0x7F),
    "int16": (-0x8000, 0x7FFF),
    "int32": (-0x80000000, 0x7FFFFFFF),
    "int64": (-0x8000000000000000, 0x7FFFFFFFFFFFFFFF),
    "uint16": (0, 0xFFFF),
    "uint32": (0, 0xFFFFFFFF),
}
_STRINGS = (
    "",
    " ",
    ".",
    "..",
    "\0",
    "a" * 249,
    "a" * 250,
    "a" * 32767,
    "\u00e9\u4e16\U0001f600",
    "no-such-thing",
    "%s%n${jndi:x}",
    "__consumer_offsets",
)
# With another number here the server may wait, so it stays.
_WAITS = {"max_wait_ms", "timeout_ms", "rebalance_timeout_ms", "session_timeout_ms"}
_KEEP = {"group_id", "transactional_id", "replica_id", "allow_auto_topic_creation", "v3_and_below_transactional_id"}
# A quota on the fuzzer itself, or a broker that is gone, would end the run.
_LEAVE_ALONE = {
    "AlterClientQuotas": {"entity_type", "entity_name", "value", "entity"},
    "UnregisterBroker": {"broker_id"},
    "UnregisterController": {"controller_id"},
}


def odd(rng: random.Random, api: str, version: int, request: Request[Any], *, destructive: bool) -> Request[Any]:
    """Return a copy of `request` with one to three odd values."""
    message: Request[Any] = paths.clone(request)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _one(rng, api, version, message, destructive=destructive)
    return message


def _one(rng: random.Random, api: str, version: int, message: Request[Any], *, destructive: bool) -> None:
    kept = set(_WAITS) | _LEAVE_ALONE.get(api, set()) | (set() if destructive else _KEEP)
    found = [each for each in paths.places(message, version) if each[1].name not in kept]
    if version >= message.flexible_from and (not found or rng.random() < 0.12):
        _tag(rng, message, version)
        return
    if not found:
        return
    path, field, value = rng.choice(found)
    if version in field.nullable and value is not None and rng.random() < 0.3:
        paths.put(message, path, None)
    elif field.array:
        _array(rng, message, path, field, value)
    elif field.struct is None:
        if field.kind == "string" and value is None:
            paths.put(message, path, "")
        else:
            paths.put(message, path, _scalar(rng, field, value))


def _array(rng: random.Random, message: Request[Any], path: Path, field: Field, value: Any) -> None:
    what = rng.random()
    if not value or what < 0.2:
        if field.struct is None and rng.random() < 0.7:
            paths.put(message, path, [_scalar(rng, field, None) for _ in range(rng.choice((1, 2, 50)))])
        elif field.struct is not None and rng.random() < 0.5:
            paths.put(message, path, [field.struct()])
        else:
            paths.put(message, path, [])
    elif what < 0.6:
        paths.put(message, path, [*value, paths.clone(rng.choice(value))])
    elif what < 0.7:
        paths.put(message, path, [paths.clone(value[0]) for _ in range(rng.choice((10, 100)))])
    elif what < 0.85:
        paths.put(message, path, [])
    else:
        paths.put(message, path, list(reversed(value)))


def _scalar(rng: random.Random, field: Field, value: Any) -> Any:
    if field.kind in _LIMITS:
        low, high = _LIMITS[field.kind]
        return rng.choice((low, high, max(low, -1), 0, 1, rng.randint(low, high)))
    if field.kind == "string":
        return rng.choice(_STRINGS)
    if field.kind == "float64":
        return rng.choice((float("nan"), float("inf"), -float("inf"), -0.0, -1.0, 5e-324))
    if field.kind == "bool":
        return not value
    if field.kind == "uuid":
        # Kafka reserves the first hundred, the last and the last but one.
        return rng.choice((UUID(int=0), UUID(int=1), UUID(int=99), UUID(int=(1 << 128) - 1)))
    if field.kind == "records" and value:
        return odd_batch(rng, bytes(value))
    return rng.choice((b"", b"\0", b"\xff" * 20, rng.randbytes(1000)))


def _tag(rng: random.Random, message: Request[Any], version: int) -> None:
    holders: list[Struct] = [message]
    for _, field, value in paths.places(message, version):
        if field.struct is not None and value:
            holders.extend(value if field.array else [value])
    tag = rng.choice((100, 9999, 1 << 20))
    rng.choice(holders).unknown_tagged_fields = ((tag, rng.choice((b"", b"\0", rng.randbytes(200)))),)


def stamp(batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int) -> bytes:
    """Return the batch as that producer would send it; its checksum is right."""
    data = bytearray(batch)
    struct.pack_into(">qhi", data, 43, producer_id, producer_epoch, base_sequence)
    return _sealed(data)


def _sealed(data: bytearray) -> bytes:
    struct.pack_into(">I", data, CRC_AT, crc32c_of(bytes(data[CRC_FROM:])))
    return bytes(data)


def odd_batch(rng: random.Random, batch: bytes) -> bytes:
    """Return records that a broker must refuse or correct, with right or wrong checksums."""
    if len(batch) <= HEADER_SIZE:
        return rng.choice((b"", b"\0" * HEADER_SIZE, rng.randbytes(100)))
    data = bytearray(batch)
    what = rng.randrange(11)
    if what == 0:
        data[CRC_AT] ^= 1
        return bytes(data)
    if what == 1:
        data[rng.randrange(HEADER_SIZE, len(data))] ^= 1 << rng.randrange(8)
        return bytes(data) if rng.random() < 0.5 else _sealed(data)
    if what == 2:
        data[16] = rng.choice((0, 1, 3, 0x7F, 0xFF))
        return bytes(data)
    if what == 3:
        struct.pack_into(">i", data, 57, rng.choice((-1, 0, 1, 1000, 0x7FFFFFFF, -0x80000000)))
        return _sealed(data)
    if what == 4:
        struct.pack_into(">h", data, 21, rng.choice((5, 6, 7, 0x10, 0x20, 0x30, 0x40, -1)))
        return _sealed(data)
    if what == 5:
        struct.pack_into(">i", data, 8, rng.choice((-1, 0, 1, 48, 49, len(data), 0x7FFFFFFF)))
        return bytes(data)
    if what == 6:
        return bytes(data[: rng.randrange(len(data))])
    if what == 7:
        return bytes(data) + bytes(data)
    if what == 8:
        struct.pack_into(">i", data, 23, rng.choice((-1, 5, 0x7FFFFFFF)))
        return _sealed(data)
    if what == 9:
        struct.pack_into(">q", data, 0, rng.choice((-1, 7, 0x7FFFFFFFFFFFFFFF)))
        return bytes(data)
    struct.pack_into(">qq", data, 27, rng.choice((-1, 0, 0x7FFFFFFFFFFFFFFF)), rng.choice((-1, 0, 0x7FFFFFFFFFFFFFFF)))
    return _sealed(data)
