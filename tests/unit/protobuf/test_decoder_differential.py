"""Random types and messages: the columns hold what the package protobuf reads, whatever the order of the bytes."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError as TheirError

from kafwire.protobuf import ProtobufDecoder
from tests.support.protobuf_samples import Samples, expected, plain
from tests.support.seeds import examples, of_test

ROWS = 5


def rows(decoder: ProtobufDecoder, values: list[bytes]) -> list[Any]:
    decoded = decoder.decode(values).to_arrow()
    decoded.validate(full=True)
    return [plain(row, pa.struct(list(decoded.schema))) for row in decoded.to_pylist()]


def shown(values: list[Any]) -> str:
    """Rows as text, in which NaN equals NaN and 0.0 differs from -0.0."""
    return repr(values)


def joined(chance: random.Random, data: bytes, more: bytes) -> bytes:
    """Bytes of one message that are the concatenation of two, with unknown fields between them."""
    unknown = [
        b"",
        b"\xa2\xf4\x03\x02hi",
        b"\xa3\xf4\x03\x08\x01\xa4\xf4\x03",
        b"\xa0\xf4\x03\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    ]
    return chance.choice(unknown).join([b"", data, more, b""])


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
def test_columns_agree_with_protobuf(syntax: str) -> None:
    first = of_test()
    for seed in range(first, first + examples(300)):
        samples = Samples(seed, syntax=syntax)
        kind = samples.message()
        decoder = ProtobufDecoder(kind)
        values = [samples.fill(kind()).SerializeToString() for _ in range(ROWS)]
        values += [joined(samples.chance, *samples.chance.choices(values, k=2)) for _ in range(ROWS)]
        assert shown(rows(decoder, values)) == shown([expected(kind.FromString(each)) for each in values]), seed


def damaged(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(4):
            case 0:
                del made[at : at + chance.randint(1, 4)]
            case 1:
                made[at:at] = chance.randbytes(chance.randint(1, 3))
            case 2:
                made[at : at + 1] = bytes([chance.choice([0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF])])
            case _:
                end = chance.randrange(len(made) + 1)
                made[at:at] = made[min(at, end) : max(at, end)]
    return bytes(made)


def test_damaged_values_are_bad_where_protobuf_refuses_them() -> None:
    first = of_test()
    refused = accepted = 0
    for seed in range(first, first + examples(300)):
        samples = Samples(seed, syntax="proto3", times=False, maps=False)
        kind = samples.message()
        decoder = ProtobufDecoder(kind, on_bad="null")
        for _ in range(ROWS):
            value = damaged(samples.chance, samples.fill(kind()).SerializeToString())
            try:
                wanted: Any = expected(kind.FromString(value))
            except TheirError:
                wanted = None
                refused += 1
            else:
                accepted += 1
            decoded = decoder.decode([value])
            assert bool(decoded.bad) == (wanted is None), (seed, value.hex(), decoded.bad)
            if wanted is not None:
                assert shown(rows(decoder, [value])) == shown([wanted]), (seed, value.hex())
    assert refused > accepted // 20
    assert accepted > refused // 20
