"""Batches of a blob that is too large for memory put their columns away, and are the same when they come back."""

from __future__ import annotations

import gc
import random
import threading

import pytest

from kafwire.errors import ProtocolError
from kafwire.memory._buffer import pool_bytes
from kafwire.records import decode_batches, encode_batch, iter_batches
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from tests.support.deadlines import ended
from tests.support.hostile_batches import batch, large_record, record_with_headers

CAP = 1 << 20  # and 32 MiB, which every decode may take
NOISE = random.Random(8).randbytes(1 << 20)


def values(number: int) -> list[bytes]:
    return [bytes([number, i]) + NOISE[i * 1000 :][:600_000] for i in range(3)]


def blob(batches: int) -> bytes:
    packed = [encode_batch(values(i), base_offset=3 * i, compression="lz4") for i in range(batches)]
    return b"".join(packed)


LARGE = blob(40)


def test_all_records_can_be_read_in_any_order() -> None:
    batches = decode_batches(LARGE, max_decompressed=2 * CAP)
    gc.collect()
    assert pool_bytes()[0] < (2 << 20) + (48 << 20)
    order = list(range(40))
    random.Random(3).shuffle(order)
    for number in order + list(range(40)):
        assert len(batches[number]) == 3
        assert batches[number].base_offset == 3 * number
        assert [record.value for record in batches[number]] == values(number)
        assert batches[number].to_arrow().column("value").to_pylist() == values(number)
    assert pool_bytes()[0] < (2 << 20) + (48 << 20)


def test_two_readers_side_by_side() -> None:
    batches = decode_batches(LARGE, max_decompressed=2 * CAP)
    for first, last in zip(batches, reversed(batches), strict=True):
        for a, b in zip(first, last, strict=True):
            assert a.value[1] == b.value[1]


def test_threads_that_push_each_other_out() -> None:
    batches = decode_batches(LARGE, max_decompressed=2 * CAP)
    wrong: list[object] = []

    def read(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(30):
            number = dice.randrange(40)
            try:
                if [r.value for r in batches[number]] != values(number):
                    wrong.append(number)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    ended(*threads)
    assert not wrong


def test_a_batch_outlives_its_list() -> None:
    live = pool_bytes()[0]
    batches = decode_batches(LARGE, max_decompressed=2 * CAP)
    kept = [batches[0], batches[17]]
    del batches
    gc.collect()
    assert [r.value for r in kept[0]] == values(0)
    assert [r.value for r in kept[1]] == values(17)
    del kept
    gc.collect()
    assert pool_bytes()[0] <= live + 4096


def test_bytes_that_changed_meanwhile_are_found_out() -> None:
    data = bytearray(LARGE)
    batches = decode_batches(data, max_decompressed=2 * CAP)
    data[100] ^= 1
    with pytest.raises(ProtocolError, match="CRC-32C"):
        list(batches[0])
    assert [r.value for r in batches[39]] == values(39)


def test_bytes_are_let_go_where_nothing_had_to_be_put_away() -> None:
    data = bytearray(encode_batch([b"a"]) * 3)
    batches = decode_batches(data)
    data.clear()  # no buffer of it is held
    assert [record.value for found in batches for record in found] == [b"a"] * 3


def test_one_by_one_nothing_is_decoded_twice_and_errors_come_in_their_place() -> None:
    damaged = LARGE + LARGE[:100] + b"\0" + LARGE[101:]
    found: list[int] = []
    with pytest.raises(ProtocolError) as caught:
        found.extend(each.base_offset for each in iter_batches(damaged, max_decompressed=2 * CAP))
    assert found == [3 * i for i in range(40)]
    assert caught.value.offset is not None
    assert caught.value.offset >= len(LARGE)
    assert list(iter_batches(b"")) == []
    assert [len(each) for each in iter_batches(LARGE[:-1], max_decompressed=2 * CAP)] == [3] * 39


def test_a_chunk_ends_before_the_batch_that_does_not_fit() -> None:
    """Rows that are there are a chunk; a batch that does not fit alone is an error."""
    chunks = decode_chunks(LARGE, Layout("t", 0), chunk_bytes=0, max_decompressed=2 * CAP)
    assert 2 <= len(chunks) < 40
    assert [record.value for chunk in chunks for record in chunk] == [v for i in range(40) for v in values(i)]


def test_headers_are_counted_too() -> None:
    count = 6_000_000
    data = batch(record_with_headers(count, b"\0\1" * count))
    assert len(decode_batches(data)[0]) == 1
    for before in (b"", encode_batch([b"a"])):
        with pytest.raises(ProtocolError, match="the headers take more memory than max_decompressed allows"):
            decode_batches(before + data, max_decompressed=13_000_000)
        with pytest.raises(ProtocolError, match="the headers take more memory"):
            decode_chunks(before + data, Layout("t", 0), max_decompressed=13_000_000)


def test_header_keys_that_are_no_text_count_with_their_size_in_arrow() -> None:
    data = large_record("zstd", "bad text", 9 << 20)
    assert len(decode_batches(data, max_decompressed=10 << 20)) == 1
    data = large_record("zstd", "bad text", 12 << 20)
    for before in (b"", encode_batch([b"a"])):
        with pytest.raises(ProtocolError, match="take more memory as columns than max_decompressed = 12582999"):
            decode_chunks(before + data, Layout("t", 0), max_decompressed=(12 << 20) + 87)


def test_a_record_that_is_too_much_as_objects_is_refused_and_can_be_read_as_columns() -> None:
    (found,) = decode_batches(large_record("lz4", "value", 40 << 20), max_decompressed=41 << 20)
    with pytest.raises(ProtocolError, match=r"record 0 takes \d+ bytes as Python objects.*to_arrow"):
        found[0]
    assert found.to_arrow().column("value")[0].as_buffer().size == 40 << 20
