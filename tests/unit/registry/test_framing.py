"""Framings against bytes of other implementations.

Confluent's bytes are from confluent-kafka 2.16.1 (`prefix_schema_id_serializer`, `header_schema_id_serializer`), and
are compared with it again where it is installed. Apicurio's and Glue's follow the sources that the module names.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kafwire.errors import ConfigError, FramingError
from kafwire.registry import framing as module
from kafwire.registry.framing import (
    ApicurioHeader,
    ApicurioPrefix,
    ConfluentHeader,
    ConfluentPrefix,
    Framing,
    GluePrefix,
    SchemaId,
)
from kafwire.serialization import SerializationContext

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
RAW = bytes.fromhex("89791762233641869674299b90a802e2")
ALL: list[tuple[Framing, SchemaId]] = [
    (ConfluentPrefix(), 7),
    (ConfluentPrefix(), GUID),
    (ConfluentHeader(), GUID),
    (ApicurioPrefix(), 2**40),
    (ApicurioPrefix(4), 7),
    (ApicurioHeader(), 2**40),
    (ApicurioHeader("contentId"), 7),
    (GluePrefix(), GUID),
    (GluePrefix(compress=True), GUID),
]


def context(field: str = "value", *headers: tuple[str, bytes | None]) -> SerializationContext:
    return SerializationContext("flights", field, list(headers))


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize(("framing", "schema_id"), ALL)
def test_what_is_written_is_read(framing: Framing, schema_id: SchemaId, field: str) -> None:
    for payload, indexes in [(b"payload", b""), (b"", b""), (b"payload", b"\x04\x02\x04")]:
        ctx = context(field, ("other", b"1"))
        data = framing.write(schema_id, payload, ctx, indexes=indexes)
        assert framing.read(data, ctx) == (schema_id, indexes + payload)
        assert ctx.headers[0] == ("other", b"1")
        prefix = framing.prefix(schema_id)
        if prefix is not None:
            assert data == prefix + indexes + payload


@pytest.mark.parametrize(("framing", "schema_id"), ALL)
def test_a_framing_pickles_and_compares(framing: Framing, schema_id: SchemaId) -> None:
    again = pickle.loads(pickle.dumps(framing))
    assert again == framing
    assert again.write(schema_id, b"p", context()) == framing.write(schema_id, b"p", context())


@pytest.mark.parametrize(
    ("framing", "schema_id", "data"),
    [
        (ConfluentPrefix(), 7, bytes.fromhex("0000000007706179")),
        (ConfluentPrefix(), 2**31 - 1, b"\0\x7f\xff\xff\xffpay"),
        (ConfluentPrefix(), GUID, b"\1" + RAW + b"pay"),
        (ApicurioPrefix(), 7, b"\0\0\0\0\0\0\0\0\7pay"),
        (ApicurioPrefix(4), 7, b"\0\0\0\0\7pay"),
        (GluePrefix(), GUID, b"\3\0" + RAW + b"pay"),
    ],
)
def test_the_bytes_of_a_prefix(framing: Framing, schema_id: SchemaId, data: bytes) -> None:
    assert framing.write(schema_id, b"pay") == data
    assert framing.read(data) == (schema_id, b"pay")


@pytest.mark.parametrize(
    ("framing", "schema_id", "name", "header"),
    [
        (ConfluentHeader(), GUID, "__{}_schema_id", b"\1" + RAW),
        (ApicurioHeader(), 7, "apicurio.{}.globalId", b"\0\0\0\0\0\0\0\7"),
        (ApicurioHeader("contentId"), 7, "apicurio.{}.contentId", b"\0\0\0\0\0\0\0\7"),
    ],
)
@pytest.mark.parametrize("field", ["key", "value"])
def test_the_bytes_of_a_header(framing: Framing, schema_id: SchemaId, name: str, header: bytes, field: str) -> None:
    ctx = context(field)
    assert framing.write(schema_id, b"pay", ctx) == b"pay"
    assert ctx.headers == [(name.format(field), header)]


def test_protobuf_indexes_lie_in_confluents_header() -> None:
    ctx = context()
    assert ConfluentHeader().write(GUID, b"pay", ctx, indexes=b"\4\2\4") == b"pay"
    assert ctx.headers == [("__value_schema_id", b"\1" + RAW + b"\4\2\4")]
    assert ConfluentHeader().read(b"pay", ctx) == (GUID, b"\4\2\4pay")
    assert ConfluentPrefix().write(7, b"pay", indexes=b"\0") == bytes.fromhex("000000000700706179")


def test_confluents_own_functions_agree() -> None:
    theirs = pytest.importorskip("confluent_kafka.schema_registry")
    serde = pytest.importorskip("confluent_kafka.schema_registry.serde")
    for kind, indexes, encoded in [("AVRO", None, b""), ("PROTOBUF", [0], b"\0"), ("PROTOBUF", [1, 2], b"\4\2\4")]:
        schema_id = serde.SchemaId(kind, 7, str(GUID), indexes)
        assert theirs.prefix_schema_id_serializer(b"pay", None, schema_id) == ConfluentPrefix().write(
            7, b"pay", indexes=encoded
        )
        ctx, other = context(), context()
        theirs.header_schema_id_serializer(b"pay", ctx, schema_id)
        ConfluentHeader().write(GUID, b"pay", other, indexes=encoded)
        assert ctx.headers == other.headers
        for data, given in [(b"pay", other), (ConfluentPrefix().write(GUID, b"pay", indexes=encoded), context())]:
            found = serde.SchemaId(kind)
            assert theirs.dual_schema_id_deserializer(data, given, found).read() == b"pay"
            assert (found.guid, found.message_indexes) == (GUID, indexes)


def test_glue_compresses_by_zlib() -> None:
    data = GluePrefix(compress=True).write(GUID, b"pay" * 99)
    assert data[:18] == b"\3\5" + RAW
    assert zlib.decompress(data[18:]) == b"pay" * 99
    assert GluePrefix().read(b"\3\5" + RAW + zlib.compress(b"pay", 1)) == (GUID, b"pay")
    assert GluePrefix(compress=True).prefix(GUID) is None


def test_a_record_without_the_header_is_read_by_its_prefix() -> None:
    assert ConfluentHeader().read(b"\0\0\0\0\7pay", context()) == (7, b"pay")
    assert ApicurioHeader().read(b"\0\0\0\0\0\0\0\0\7pay", context()) == (7, b"pay")
    assert ApicurioHeader("contentId", id_bytes=4).read(b"\0\0\0\0\7pay", context()) == (7, b"pay")
    assert ConfluentHeader().read(b"\0\0\0\0\7pay", context("value", ("__key_schema_id", b"\1" + RAW)))[0] == 7


def test_the_last_header_counts_and_a_written_one_is_alone() -> None:
    old, new = b"\1" + bytes(16), b"\1" + RAW
    ctx = context("value", ("__value_schema_id", old), ("a", b"b"), ("__value_schema_id", new))
    assert ConfluentHeader().read(b"pay", ctx)[0] == GUID
    ConfluentHeader().write(UUID(int=5), b"pay", ctx)
    assert ctx.headers == [("a", b"b"), ("__value_schema_id", b"\1" + UUID(int=5).bytes)]


def test_apicurios_other_header_is_read_too() -> None:
    ids = [("apicurio.value.contentId", b"\0\0\0\0\0\0\0\1"), ("apicurio.value.globalId", b"\0\0\0\0\0\0\0\2")]
    assert ApicurioHeader().read(b"pay", context("value", *ids))[0] == 2
    assert ApicurioHeader("contentId").read(b"pay", context("value", *ids))[0] == 1
    assert ApicurioHeader().read(b"pay", context("value", ids[0], ("apicurio.value.encoding", b"BINARY")))[0] == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ConfluentPrefix().read(b""), "there are no bytes"),
        (lambda: ConfluentPrefix().read(b"{}"), "the first byte is 123, not 0"),
        (lambda: ConfluentPrefix().read(b"\0\0\0\7"), "4 bytes are too few for a schema id, which ends at byte 5"),
        (lambda: ConfluentPrefix().read(b"\0\xff\xff\xff\xff"), "the schema id -1 is negative"),
        (lambda: ConfluentPrefix().read(b"\1" + RAW[:15]), "16 bytes are too few for the byte 1 and a GUID"),
        (lambda: ConfluentPrefix().write(2**31, b""), "2147483648 does not fit Confluent's prefix"),
        (lambda: ConfluentPrefix().write(-1, b""), "-1 does not fit"),
        (lambda: ConfluentPrefix().write(True, b""), "needs a number as schema id, not True"),
        (lambda: ConfluentHeader().write(7, b"", context()), "needs the schema's GUID, not the id 7"),
        (lambda: ConfluentHeader().write(GUID, b""), "use the serializer's parameter ctx"),
        (lambda: ConfluentHeader().read(b""), "use the serializer's parameter ctx"),
        (lambda: ConfluentHeader().read(b"pay", context()), "has no header __value_schema_id: the first byte is 112"),
        (
            lambda: ConfluentHeader().read(b"pay", context("key", ("__key_schema_id", b"\1abc"))),
            "header __key_schema_id: 4 bytes are too few",
        ),
        (lambda: ApicurioPrefix().read(b"\0\0\0\0\7pay"), "8 bytes are too few for a schema id, which ends at byte 9"),
        (lambda: ApicurioPrefix().write(GUID, b""), "needs a number as schema id"),
        (lambda: ApicurioPrefix(4).write(2**31, b""), "does not fit Apicurio's prefix of 4 bytes"),
        (
            lambda: ApicurioHeader().read(b"pay", context("value", ("apicurio.value.globalId", b"\7"))),
            "header apicurio.value.globalId: 1 bytes are too few",
        ),
        (
            lambda: ApicurioHeader().read(b"pay", context("value", ("apicurio.value.globalId", bytes(9)))),
            "has 9 bytes instead of 8",
        ),
        (
            lambda: ApicurioHeader().read(b"pay", context()),
            "no header apicurio.value.globalId, and its value no prefix",
        ),
        (
            lambda: ApicurioHeader().read(b"pay", context("value", ("apicurio.value.encoding", b"JSON"))),
            "encoding is b'JSON': only BINARY can be read",
        ),
        (lambda: GluePrefix().write(7, b""), "needs the UUID of a schema version, not 7"),
        (lambda: GluePrefix().read(b"\0\0" + RAW), "the first byte is 0, not 3"),
        (lambda: GluePrefix().read(b"\3\0" + RAW[:15]), "17 bytes: Glue's prefix has 18"),
        (lambda: GluePrefix().read(b"\3\1" + RAW), r"compression byte 1: Glue has 0 \(none\) and 5 \(zlib\)"),
        (lambda: GluePrefix().read(b"\3\5" + RAW + b"no zlib"), "cannot be decompressed by zlib"),
        (lambda: GluePrefix().read(b"\3\5" + RAW + zlib.compress(b"pay")[:-1]), "is cut off"),
        (lambda: GluePrefix().read(b"\3\5" + RAW + zlib.compress(b"pay") + b"x"), "has bytes after"),
    ],
)
def test_bytes_and_ids_that_do_not_fit(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(FramingError, match=said):
        call()


def test_a_zlib_bomb_stops_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECOMPRESSED_BYTES", 1000)
    assert GluePrefix().read(b"\3\5" + RAW + zlib.compress(bytes(1000)))[1] == bytes(1000)
    bomb = b"\3\5" + RAW + zlib.compress(bytes(10_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(FramingError, match="decompresses to more than 1000 bytes"):
            GluePrefix().read(bomb)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_arguments_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="id_bytes of Apicurio's prefix is 4 or 8, not 5"):
        ApicurioPrefix(5)
    with pytest.raises(ConfigError, match="'globalId' or 'contentId', not 'guid'"):
        ApicurioHeader("guid")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="id_bytes"):
        ApicurioHeader(id_bytes=5)


def test_random_bytes_raise_nothing_else() -> None:
    chance = random.Random(5)
    framings = [each for each, _ in ALL]
    for _ in range(3000):
        data = bytes([chance.choice([0, 1, 3])]) + chance.randbytes(chance.randrange(30))
        for each in framings:
            with contextlib.suppress(FramingError):
                each.read(data, context("value", ("__value_schema_id", chance.randbytes(chance.randrange(20)))))
