"""`_partitioner`: hashes of keys, compared with slow ones and with librdkafka's own; draws by weights."""

from __future__ import annotations

import ctypes
import itertools
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.producer.buffer._partitioner import PartitionWeights, hash_key
from tests.support import seeds
from tests.support.accumulator_store import Store
from tests.support.java.reference_partitions import HASHED, fnv1a, murmur2, sample_keys

COUNTS = [1, 2, 3, 7, 12, 100, 1000]


@given(st.binary(max_size=300))
def test_hashes_are_those_of_the_reference(key: bytes) -> None:
    assert hash_key("murmur2", key) == murmur2(key)
    assert hash_key("crc32", key) == zlib.crc32(key)
    assert hash_key("fnv1a", key) == fnv1a(key)


def test_an_unknown_hash_is_refused() -> None:
    with pytest.raises(KeyError):
        hash_key("md5", b"key")


def test_the_check_values_of_the_hashes() -> None:
    """The values are from the catalogue of CRCs, and from the list of FNV's authors."""
    assert hash_key("crc32", b"123456789") == 0xCBF43926
    for key, unsigned in ((b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"b", 0xE70C2DE5), (b"foobar", 0xBF9CF968)):
        assert hash_key("fnv1a", key) == 2**32 - unsigned


def test_an_fnv1a_of_the_smallest_number_keeps_its_sign() -> None:
    """-2**31 has no counterpart above zero; as 32 bits without a sign it is what librdkafka divides."""
    assert hash_key("fnv1a", b"\xdfQb\xc2\xcd") == 0x80000000


def librdkafka() -> ctypes.CDLL:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    libraries = list(folder.glob("librdkafka-*.so*"))
    if not libraries:
        pytest.skip("this confluent-kafka does not bring librdkafka as a library of its own")
    return ctypes.CDLL(str(libraries[0]))


def their_place(library: ctypes.CDLL, partitioner: str) -> Callable[[bytes | None, int], int]:
    choose = getattr(library, f"rd_kafka_msg_partitioner_{partitioner}")
    choose.argtypes = [
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32),
        *(ctypes.c_void_p, ctypes.c_void_p),
    ]
    choose.restype = ctypes.c_int32
    return lambda key, partitions: int(choose(None, key, len(key or b""), partitions, None, None))


@pytest.fixture(scope="module")
def keys() -> list[bytes | None]:
    seed = seeds.of(__name__)
    return sample_keys(seed)


@pytest.mark.parametrize("partitions", seeds.sampled(COUNTS, 3, 100))
@pytest.mark.parametrize("partitioner", HASHED)
def test_a_hundred_thousand_keys_are_placed_as_librdkafka_places_them(
    keys: list[bytes | None], partitioner: str, partitions: int
) -> None:
    """Through `send_batch`, and a part through `send`. Keys that are not hashed are left out: theirs needs a topic."""
    theirs = their_place(librdkafka(), partitioner)
    hashed = [key for key in keys if (-1 if key is None else len(key)) >= HASHED[partitioner][1]]
    expected = [theirs(key, partitions) for key in hashed]
    store = Store(
        partitions, partitioner=partitioner, batch_size=1 << 20, max_request_size=1 << 20, buffer_memory=1 << 30
    )
    numbers = pa.array(range(len(hashed)), pa.int32()).cast(pa.string())
    store.append_table(pa.table({"key": pa.array(hashed, pa.binary()), "value": numbers}))
    some = range(0, len(hashed), 50)
    deliveries = [store.append(key=hashed[i]) for i in some]
    store.deliver()
    assert [delivery.result().partition for delivery in deliveries] == [expected[i] for i in some]
    found = {value: partition for partition in range(partitions) for value in store.values(partition)}
    assert [found[b"%d" % i] for i in range(len(hashed))] == expected


# ---- weights


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(0, 2**64 - 1))
def test_each_partition_is_drawn_by_as_many_numbers_as_its_share(weights: list[int], start: int) -> None:
    ids = [3 * i for i in range(len(weights))]
    drawn = PartitionWeights(ids, itertools.accumulate(weights))
    tickets = [partition for partition, share in zip(ids, weights, strict=True) for _ in range(share)]
    assert [drawn.pick(number) for number in range(len(tickets))] == tickets
    assert drawn.pick(start) == tickets[start % len(tickets)]
    assert drawn.ids == tuple(ids)


@pytest.mark.parametrize(
    ("ids", "ends"),
    [([], []), ([1], []), ([1], [0]), ([1, 2], [1, 1]), ([1, 2], [2, 1]), ([-1], [1]), ([1], [1, 2])],
)
def test_weights_that_are_none_are_refused(ids: list[int], ends: list[int]) -> None:
    with pytest.raises(ValueError, match="weight"):
        PartitionWeights(ids, ends)


def test_weights_may_be_larger_than_32_bits() -> None:
    weights = PartitionWeights([0, 1], [2**40, 2**41])
    assert [weights.pick(n) for n in (0, 2**40 - 1, 2**40, 2**41 - 1, 2**41)] == [0, 0, 1, 1, 0]
