"""Kafka's own partitioners and kafwire's put records into the same partitions."""

import random
import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest

from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer.partitioner import Balance
from tests.support import seeds
from tests.support.accumulator_store import Store
from tests.support.java.oracle import Oracle
from tests.support.java.reference_partitions import sample_keys

COUNTS = [1, 2, 3, 7, 12, 100, 1000]


@pytest.fixture(scope="module")
def chance() -> random.Random:
    seed = seeds.of(__name__)
    return random.Random(seed)


@pytest.fixture(scope="module")
def keys(chance: random.Random) -> list[bytes]:
    return [key for key in sample_keys(chance.getrandbits(32), 103_000) if key is not None]


def packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def unpacked(data: bytes) -> list[int]:
    return list(struct.unpack(f">{len(data) // 4}i", data))


def leaders_of(chance: random.Random, partitions: int) -> list[int]:
    """Some partitions without a leader, or none, or all."""
    absent = chance.choice([0.0, 0.0, 0.3, 0.9, 1.0])
    return [-1 if chance.random() < absent else chance.randrange(3) for _ in range(partitions)]


@pytest.mark.parametrize("partitions", COUNTS)
def test_a_hundred_thousand_keys(oracle: Oracle, keys: list[bytes], partitions: int) -> None:
    assert len(keys) > 100_000
    blob = b"".join(struct.pack(">i", len(key)) + key for key in keys)
    theirs = unpacked(oracle.one("place", str(partitions), blob)[0])
    store = Store(partitions, batch_size=1 << 20, max_request_size=1 << 20, buffer_memory=1 << 30)
    numbers = pa.array(range(len(keys)), pa.int32()).cast(pa.string())
    store.append_table(pa.table({"key": pa.array(keys, pa.binary()), "value": numbers}))
    store.deliver()
    found = {value: partition for partition in range(partitions) for value in store.values(partition)}
    assert [found[b"%d" % i] for i in range(len(keys))] == theirs


def test_turns(oracle: Oracle, chance: random.Random) -> None:
    for _ in range(seeds.examples(100)):
        leaders = leaders_of(chance, chance.choice(COUNTS[:6]))
        records = chance.randint(1, 300)
        theirs = unpacked(oracle.one("turns", packed(leaders), str(records))[0])
        store = Store(len(leaders), partitioner="round_robin", batch_size=1 << 20, max_request_size=1 << 20)
        store.accumulator.set_weights("t", PartitionWeights(*Balance(timeout_ms=0).lead("t", leaders)))
        one_by_one = chance.randint(0, records)
        deliveries = [store.append(b"%d" % i, key=b"same") for i in range(one_by_one)]
        store.append_table(pa.table({"value": [b"%d" % i for i in range(one_by_one, records)]}))
        store.deliver()
        assert len(deliveries) == one_by_one
        found = {value: partition for partition in range(len(leaders)) for value in store.values(partition)}
        assert [found[b"%d" % i] for i in range(records)] == theirs


def test_the_same_numbers_draw_the_same_partitions(oracle: Oracle, chance: random.Random) -> None:
    """KIP-794, with leaders, queues and slow partitions of all kinds."""
    for _ in range(seeds.examples(400)):
        leaders = leaders_of(chance, chance.choice([1, 2, 3, 7, 12, 100]))
        led = [partition for partition, leader in enumerate(leaders) if leader >= 0]
        longest = chance.choice([0, 1, 3, 50])
        queues = [chance.randint(0, longest) for _ in led]
        # Java leaves out as slow only what has something waiting.
        slow_part = chance.choice([0.0, 0.0, 0.3, 1.0])
        slow = {p for p, queue in zip(led, queues, strict=True) if queue and chance.random() < slow_part}
        ids = [p for p in led if p not in slow]
        sizes = [queue for p, queue in zip(led, queues, strict=True) if p not in slow]
        sizes += [0] * (len(leaders) - len(sizes))  # as long as if all had a leader and none were slow
        randoms = [chance.randrange(2**31) for _ in range(50)]
        theirs = unpacked(oracle.one("draw", packed(leaders), packed(ids), packed(sizes), packed(randoms))[0])

        balance = Balance(timeout_ms=1)
        split = balance.lead("t", leaders)
        backlog = {p: queue for p, queue in zip(led, queues, strict=True) if queue}
        weights = PartitionWeights(*(balance.weights("t", backlog, frozenset(slow)) or split))
        assert [weights.pick(number) for number in randoms] == theirs


def test_weights_are_even_without_adaptive_partitioning(oracle: Oracle, chance: random.Random) -> None:
    for _ in range(seeds.examples(50)):
        leaders = leaders_of(chance, chance.choice(COUNTS[:6]))
        randoms = [chance.randrange(2**31) for _ in range(50)]
        theirs = unpacked(oracle.one("draw", packed(leaders), b"", b"", packed(randoms))[0])
        weights = PartitionWeights(*Balance(timeout_ms=0).lead("t", leaders))
        assert [weights.pick(number) for number in randoms] == theirs
