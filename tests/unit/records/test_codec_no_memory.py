"""When there is no memory: MemoryError and nothing else, wherever it happens, and every buffer goes back."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard

from kafwire.compression import CODECS, compress, decompress
from kafwire.memory._buffer import budget, fail_after, pool_bytes, trim_pool
from kafwire.records import decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support.hostile_batches import message

ROWS: list[Any] = [
    (b"key-%d" % i, (b"value %d " % i) * 30, i if i % 5 else None, [("h", b"%d" % i), ("n", None)]) for i in range(600)
]
ROWS[7:9] = [(None, None), (b"", None, 5)]
NOISE = random.Random(4).randbytes(200_000)


@pytest.fixture(autouse=True)
def plenty_afterwards() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # leftovers of other tests need not be looked through each time
    yield
    gc.unfreeze()
    fail_after(-1)


def failures(call: Callable[[], object]) -> int:
    """Let one allocation after the other fail; how many of them the call could not do without."""
    call()
    gc.collect()
    live, failed = pool_bytes()[0], 0
    for number in range(10_000):
        trim_pool()
        fail_after(number)
        try:
            call()
        except MemoryError:
            failed += 1
        if fail_after(-1) >= 0:  # it needs no more than these
            return failed
        gc.collect()
        assert pool_bytes()[0] <= live, f"allocation {number}"
        assert budget()[1] == 0
    raise AssertionError("it never ends")


def mixed_types() -> bytes:
    return b"".join(encode_batch(ROWS[:40], base_offset=40 * i, timestamp_type=1 if i % 2 else 0) for i in range(6))


@pytest.mark.parametrize("codec", CODECS)
def test_decoding(codec: str) -> None:
    data = encode_batch(ROWS, compression=codec)
    assert failures(lambda: decode_batches(data)) >= 10
    assert failures(lambda: decode_chunks(data * 1, Layout("t", 0), chunk_bytes=0)) >= 10


def test_decoding_batches_that_grow() -> None:
    parts, offset = [], 0
    for count in (1, 40, 300, 600):
        parts.append(encode_batch(ROWS[:count], base_offset=offset, compression="lz4"))
        offset += count
    data = b"".join(parts)
    assert failures(lambda: decode_chunks(data, Layout("t", 0), chunk_bytes=0)) >= 15
    plain = [(b"k" * 50, b"v", 3)] * 40 + [(None, None)]
    nulls = encode_batch(plain[:40]) + encode_batch(plain, base_offset=40) + encode_batch(plain * 9, base_offset=81)
    assert failures(lambda: decode_chunks(nulls, Layout("t", 0), chunk_bytes=0)) >= 10
    data = mixed_types()
    assert failures(lambda: decode_chunks(data, Layout("t", 0), chunk_bytes=0)) >= 10


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_decoding_old_messages(magic: int, codec: str) -> None:
    inner = b"".join(message(magic, 0, b"value %d" % i * 9, i) for i in range(5))
    number = CODECS.index(codec)
    data = inner if codec == "none" else message(magic, number, compress(codec, inner), 4)
    assert failures(lambda: decode_batches(data)) >= 5


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(codec: str) -> None:
    for content in (NOISE, bytes(3_000_000)):
        packed = compress(codec, content)
        assert failures(lambda packed=packed: decompress(codec, packed)) >= 1  # type: ignore[misc]
        assert failures(lambda content=content: compress(codec, content)) >= 1  # type: ignore[misc]


def test_zstd_frames_that_need_a_second_attempt() -> None:
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(5_000_000))
    assert failures(lambda: decompress("zstd", packed)) >= 1


def test_large_buffers() -> None:
    packed = compress("lz4", bytes(40 << 20))
    assert failures(lambda: decompress("lz4", packed)) >= 2
    data = encode_batch([(None, bytes(30 << 20)), (bytes(20 << 20), None)], compression="zstd")
    assert failures(lambda: decode_batches(data)) >= 8
