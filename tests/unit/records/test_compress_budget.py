"""The process's budget for decompression: small batches never feel it, large ones wait, larger ones are refused."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator

import pytest
import zstandard

from kafwire.compression import budget, compress, decompress, set_budget
from kafwire.errors import ConfigError, ProtocolError
from kafwire.records import decode_batches
from tests.support.deadlines import ended
from tests.support.hostile_batches import (
    MIB,
    batch,
    large_record,
    lz4_bomb,
    message,
    snappy_bomb,
    xerial_bomb,
    zstd_bomb,
)

PACKED = {
    "gzip": compress("gzip", bytes(50 * MIB)),
    "snappy": snappy_bomb(50 * MIB),
    "lz4": lz4_bomb(50 * MIB),
    "zstd": zstd_bomb(50 * MIB),
}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    assert budget()[1] == 0, "a part of it is still in use"
    set_budget(1 << 30)


def test_it_is_one_gib_unless_set() -> None:
    assert budget() == (1 << 30, 0)
    set_budget(123)
    assert budget() == (123, 0)
    for wrong in (-1, 1 << 63, 1.5, None):
        with pytest.raises(ConfigError, match="budget"):
            set_budget(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", PACKED)
def test_data_larger_than_the_budget_is_refused(codec: str) -> None:
    set_budget(40 * MIB)
    with pytest.raises(ProtocolError, match="this process's budget for decompression, 41943040 bytes"):
        decompress(codec, PACKED[codec])
    with pytest.raises(ProtocolError, match="this process's budget for decompression, 41943040 bytes"):
        decode_batches(batch(PACKED[codec], codec=codec))
    set_budget(130 * MIB)
    assert decompress(codec, PACKED[codec]) == bytes(50 * MIB)


@pytest.mark.parametrize("codec", PACKED)
def test_small_batches_are_free(codec: str) -> None:
    set_budget(0)
    small = compress(codec, bytes(7 * MIB))
    assert decompress(codec, small) == bytes(7 * MIB)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_guess_that_is_more_than_the_budget_is_no_reason_to_refuse(codec: str) -> None:
    """Data that does not compress is expected to, fourfold: 12 MiB are first thought to be 48."""
    set_budget(40 * MIB)
    noise = random.Random(1).randbytes(12 * MIB)
    packed = (
        zstandard.ZstdCompressor(write_content_size=False).compress(noise)
        if codec == "zstd"
        else compress(codec, noise)
    )
    assert decompress(codec, packed) == noise


def test_everything_is_given_back_after_an_error_too() -> None:
    for data in (
        batch(xerial_bomb(300 * MIB), codec="snappy"),
        batch(zstd_bomb(100 * MIB), codec="zstd", count=3),
        message(1, 3, lz4_bomb(100 * MIB)),
    ):
        with pytest.raises(ProtocolError):
            decode_batches(data)
        assert budget()[1] == 0


@pytest.mark.parametrize("data", [large_record("lz4", "value", 60 * MIB), large_record("zstd", "key", 60 * MIB)])
def test_sound_batches_wait_for_one_another_and_never_fail(data: bytes) -> None:
    """Room for one and a half: a thread that comes too late gives up its part, waits, and decodes after the others."""
    set_budget(100 * MIB)
    threads, lengths, most = 6, [], [0]
    done = threading.Event()

    def read() -> None:
        (found,) = decode_batches(data, max_decompressed=128 * MIB)
        lengths.append(len(found[0].key or b"") + len(found[0].value or b""))

    def watch() -> None:
        while not done.wait(0.001):
            most[0] = max(most[0], budget()[1])

    watcher = threading.Thread(target=watch)
    readers = [threading.Thread(target=read) for _ in range(threads)]
    for thread in (watcher, *readers):
        thread.start()
    ended(*readers)
    done.set()
    ended(watcher)
    assert lengths == [60 * MIB] * threads
    assert most[0] <= 100 * MIB


def test_a_child_does_not_inherit_the_budget_of_its_parents_threads() -> None:
    data = large_record("zstd", "value", 200 * MIB)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            decode_batches(data)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while budget()[1] == 0 and time.monotonic() < deadline:
            pass
        child = os.fork()
        if child == 0:
            os._exit(0 if budget()[1] == 0 else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        ended(thread)
