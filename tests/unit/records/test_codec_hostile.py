"""Bytes that lie: whatever they are, the decoder returns records or raises a ProtocolError, in bounded memory."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import crc32c
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.memory._buffer import pool_bytes, trim_pool
from kafwire.records import decode_batches, encode_batch
from tests.support import seeds
from tests.support.reference_codec import CODECS, PlainBatch, PlainRecord, compress, varint
from tests.support.reference_codec import encode_batch as reference_encode

COMPRESSED = [codec for codec in CODECS if codec != "none"]


def sample(codec: str = "none", count: int = 3) -> PlainBatch:
    records = [
        PlainRecord(i, 1000 + i, b"key", b"value %d" % i * 3, [(b"h", b"x"), (b"n", None)]) for i in range(count)
    ]
    return PlainBatch(records, 40, codec=codec, last_offset_delta=count - 1, base_timestamp=1000, max_timestamp=1002)


def with_right_crc(data: bytes) -> bytes:
    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:]


@pytest.mark.parametrize("codec", CODECS)
def test_an_incomplete_batch_at_the_end_is_no_error_and_gives_nothing(codec: str) -> None:
    whole = reference_encode(sample(codec))
    for size in range(len(whole)):
        assert decode_batches(whole[:size]) == []
        assert len(decode_batches(whole + whole[:size])) == 1


@pytest.mark.parametrize("length", [13, 0, -1, -(1 << 31)])
def test_a_length_that_no_batch_can_have_is_an_error_as_soon_as_it_is_there(length: int) -> None:
    with pytest.raises(ProtocolError, match="below the smallest batch"):
        decode_batches(struct.pack(">qi", 0, length))
    assert decode_batches(struct.pack(">qi", 0, 14)) == []


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("lie", [-1, 0, 1, 2, 4, 1 << 20, (1 << 31) - 1])
def test_a_record_count_that_lies_is_an_error(codec: str, lie: int) -> None:
    batch = sample(codec)
    batch.count = lie
    with pytest.raises(ProtocolError, match=r"record count|left over|record length"):
        decode_batches(reference_encode(batch))


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_left_over_after_the_last_record_are_an_error(codec: str) -> None:
    batch = sample(codec)
    records = b"".join(reference_encode(batch)[61:] for batch in [sample()]) + b"\0"
    with pytest.raises(ProtocolError, match="left over after the last record"):
        decode_batches(reference_encode(batch, payload=compress(codec, records)))


def test_the_checksum_is_looked_at_before_anything_is_decompressed() -> None:
    for codec in COMPRESSED:
        data = reference_encode(sample(codec), payload=b"no compressed data", good_crc=False)
        with pytest.raises(ProtocolError, match="CRC-32C"):
            decode_batches(data)
        with pytest.raises(ProtocolError, match=codec):
            decode_batches(data, verify_crc=False)


def test_without_verification_a_wrong_checksum_passes() -> None:
    data = reference_encode(sample(), good_crc=False)
    (batch,) = decode_batches(data, verify_crc=False)
    assert [record.value for record in batch] == [record.value for record in sample().records]


def test_an_error_names_its_place() -> None:
    good = reference_encode(sample())
    bad = bytearray(good)
    bad[61] = 0x7E  # the first record's length: 63, more than there is... of the record after it
    bad[:8] = (77).to_bytes(8, "big")
    with pytest.raises(ProtocolError, match=r"offset 77 .*record 0 of 3") as failure:
        decode_batches(good + with_right_crc(bytes(bad)))
    assert failure.value.offset == len(good) + 61


@pytest.mark.parametrize("codec", COMPRESSED)
def test_decompression_stops_at_the_cap_without_taking_the_memory(codec: str) -> None:
    bomb = compress(codec, bytes(64 << 20)) if codec != "snappy" else xerial_bomb(64 << 20)
    data = reference_encode(sample(codec), payload=bomb)
    trim_pool()
    with pytest.raises(ProtocolError, match="max_decompressed = 1000000"):
        decode_batches(data, max_decompressed=1_000_000)
    live, idle = pool_bytes()
    assert live + idle < 16 << 20


def xerial_bomb(size: int) -> bytes:
    block = compress("snappy", bytes(1 << 20))[16:]
    return compress("snappy", b"")[:16] + block * (size >> 20)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_cap_is_exact(codec: str) -> None:
    data = encode_batch([(None, bytes(99_000))], compression=codec)
    size = len(encode_batch([(None, bytes(99_000))])) - 61
    assert len(decode_batches(data, max_decompressed=size)) == 1
    with pytest.raises(ProtocolError, match="max_decompressed"):
        decode_batches(data, max_decompressed=size - 1)


@pytest.mark.parametrize("promise", [1 << 20, 1 << 30, (1 << 32) - 1, 1 << 33])
def test_a_snappy_block_that_promises_more_than_it_can_hold_is_refused(promise: int) -> None:
    length, rest = b"", promise
    while rest > 127:
        length, rest = length + bytes([rest & 127 | 128]), rest >> 7
    with pytest.raises(ProtocolError, match="not plausible"):
        decode_batches(reference_encode(sample("snappy"), payload=length + bytes([rest]) + b"\x04ab"))


@pytest.mark.parametrize(
    "record",
    [
        varint(8) + b"\0" + b"\x80" * 10 + b"\1",  # a timestamp of 11 bytes
        varint(12) + b"\0" + b"\xff" * 9 + b"\2" + b"\0",  # ... whose 10th byte holds more than a 64th bit
        b"\xff\xff\xff\xff\x7f" + bytes(20),  # a length of more than 32 bits
        varint(7) + b"\0\0\0" + varint(-2) + b"\1\0\0",  # a key length below null
        varint(7) + b"\0\0\0\1" + varint(-2) + b"\0\0",
        varint(7) + b"\0\0\0\1\1" + varint(-1) + b"\0",  # a header count below zero
        varint(8) + b"\0\0\0\1\1" + varint(60) + b"\0\0",  # more headers than bytes
        varint(-7) + bytes(7),
    ],
)
def test_numbers_out_of_range_are_errors(record: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_batches(reference_encode(PlainBatch([], count=1), payload=record))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 5), (-1, 0)])
def test_offsets_must_rise_and_stay_within_the_batch(deltas: tuple[int, int]) -> None:
    records = [PlainRecord(delta, 0, None, b"v") for delta in deltas]
    with pytest.raises(ProtocolError, match="offset delta"):
        decode_batches(reference_encode(PlainBatch(records, last_offset_delta=4)))


def test_the_largest_offset_of_all_is_no_offset_of_a_record() -> None:
    """A compressed message of magic 1 whose last offset is 2^63 - 1: there is no offset to go on from."""
    wrapper = bytes.fromhex(
        "7ffffffffffffffe000000376ed132110003ffffffff0000002904224d1860401a1a0000807fffffffffffffff0000000ea7ec68030000"
        "ffffffffffffffff00000000"
    )
    with pytest.raises(ProtocolError, match="an offset above the largest"):
        decode_batches(wrapper)


@pytest.mark.parametrize("codec", CODECS)
def test_damage_behind_a_right_checksum_never_escapes(codec: str) -> None:
    seed = seeds.of_test()
    dice = random.Random(seed)
    whole = reference_encode(sample(codec, 8))
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(dice.choice([1, 1, 1, 2, 8])):
            damaged[dice.randrange(21, len(damaged))] = dice.choice([0, 1, 127, 128, 255, dice.randrange(256)])
        with suppress(ProtocolError):
            decode_batches(with_right_crc(bytes(damaged)), max_decompressed=1 << 20)


@given(st.binary(max_size=200))
@example(bytes(11) + b"\x0e")
@example(struct.pack(">qi", 0, -1) + bytes(60))
@example(struct.pack(">qiib", 0, 49, 0, 3) + bytes(60))
@example(struct.pack(">qiib", 0, 48, 0, 2) + bytes(60))
def test_any_bytes_are_batches_or_an_error(data: bytes) -> None:
    try:
        decode_batches(data)
    except ProtocolError as error:
        assert error.offset is not None
