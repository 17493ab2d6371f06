"""`_parts`: a batch that is cut into parts; the records are the same, and each delivery follows its own."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from kafwire.config import CODECS
from kafwire.errors import KafkaError
from kafwire.producer.buffer._batch import BatchDelivery, Delivery, ProducerBatch
from kafwire.records import Record, decode_batches
from tests.support import seeds
from tests.support.accumulator_store import Store, sealed


@pytest.fixture(params=CODECS)
def store(request: pytest.FixtureRequest) -> Store:
    return Store(1, batch_size=1 << 20, max_request_size=1 << 20, buffer_memory=1 << 24, compression=request.param)


def records_of(store: Store, batch: ProducerBatch) -> list[Record]:
    """The records that would be sent of a part."""
    batch.producer, batch.sequence = (7, 1), 9
    store.accumulator.prepare([batch])
    (decoded,) = decode_batches(bytes(batch.payload()))
    assert (decoded.producer_id, decoded.producer_epoch, decoded.base_sequence) == (7, 1, 9)
    assert decoded.last_offset == len(decoded) - 1
    assert decoded.max_timestamp_ms == max(record.timestamp_ms or 0 for record in decoded)
    return list(decoded)


def essence(records: list[Record]) -> list[tuple[Any, ...]]:
    return [(record.timestamp_ms, record.key, record.value, record.headers) for record in records]


def fill(store: Store, chance: random.Random, count: int) -> list[Delivery]:
    """Records of all shapes, the lengths of whose offsets and times differ by place."""
    return [
        store.append(
            None if chance.random() < 0.1 else chance.randbytes(chance.choice([0, 3, 200])),
            key=chance.randbytes(chance.randint(0, 9)) if chance.random() < 0.5 else None,
            headers=[("h", b"v"), ("n", None)] if chance.random() < 0.3 else None,
            timestamp_ms=1_700_000_000_000 + chance.choice([0, -5, 1 << 33, chance.randint(0, 999)]),
        )
        for _ in range(count)
    ]


@seeds.several(12)
def test_parts_have_the_records_of_the_whole(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice([2, 5, 70, 300])
    deliveries = fill(store, chance, count)
    whole = sealed(store)
    (decoded,) = decode_batches(bytes(whole.payload()))
    wanted = essence(list(decoded))
    starts = sorted({0, *chance.sample(range(count), chance.randint(1, min(4, count)))})
    parts = store.accumulator.cut(whole, starts)
    assert [part.count for part in parts] == [b - a for a, b in zip(starts, [*starts[1:], count], strict=True)]
    found = [records_of(store, part) for part in parts]
    assert essence([record for part in found for record in part]) == wanted
    offset = 100
    for part in parts:
        assert not whole.done
        part.succeed(offset, -1)
        offset += part.count + 3
    assert whole.done
    for index, delivery in enumerate(deliveries):
        cuts = sum(start <= index for start in starts) - 1
        assert delivery.result(0).offset == 100 + index + 3 * cuts
    assert store.used == 0


def test_a_part_may_be_cut_again(store: Store) -> None:
    deliveries = fill(store, random.Random(1), 10)
    whole = sealed(store)
    first, second = store.accumulator.cut(whole, [0, 5])
    records_of(store, second)
    third, fourth = store.accumulator.cut(second, [0, 1])
    first.succeed(0, -1)
    fourth.succeed(20, -1)
    assert not deliveries[0].done()
    third.fail(KafkaError("too large"))
    assert whole.done
    assert [delivery.result(0).offset for delivery in deliveries if delivery.exception(0) is None] == [
        *range(5),
        *range(20, 24),
    ]
    assert [index for index, delivery in enumerate(deliveries) if delivery.exception(0) is not None] == [5]
    assert "failed" in repr(deliveries[5])
    assert "delivered" in repr(deliveries[6])
    assert store.used == 0


def test_refused_records_fail_and_are_not_in_any_part(store: Store) -> None:
    deliveries = fill(store, random.Random(2), 6)
    whole = sealed(store)
    (decoded,) = decode_batches(bytes(whole.payload()))
    wanted = essence(list(decoded))
    refused = {0: KafkaError("no key"), 3: KafkaError("bad")}
    parts = store.accumulator.cut(whole, [0, 1, 3, 4], refused)
    assert essence([r for part in parts for r in records_of(store, part)]) == [*wanted[1:3], *wanted[4:]]
    seen: list[Delivery] = []
    for delivery in deliveries:
        delivery.add_done_callback(seen.append)
    for number, part in enumerate(parts):
        part.succeed(10 * number, -1)
    assert seen == deliveries
    assert [str(delivery.exception(0)) for delivery in deliveries] == ["no key", "None", "None", "bad", "None", "None"]
    assert deliveries[4].result(0).offset == 10
    assert store.used == 0


def test_rows_find_theirs(store: Store) -> None:
    """Tables that begin and end in the middle of a part; ranges that touch are still one."""
    before = store.append(b"before")
    table = store.append_table(pa.table({"value": [b"%d" % n for n in range(10)]}))
    other = store.append_table(pa.table({"value": [b"a", b"b"]}))
    whole = sealed(store)
    first, second = store.accumulator.cut(whole, [0, 6])
    records_of(store, second)
    first.succeed(0, -1)
    third, fourth = store.accumulator.cut(second, [0, 4])
    third.succeed(6, -1)
    assert not table.done()
    fourth.succeed(50, -1)
    assert table.result(0) == [("t", 0, 1, 9), ("t", 0, 50, 1)]
    assert other.result(0) == [("t", 0, 51, 2)]
    assert before.result(0).offset == 0
    assert isinstance(table, BatchDelivery)
    assert len(table) == 10


def test_a_batch_that_is_not_sealed_cannot_be_cut(store: Store) -> None:
    fill(store, random.Random(3), 4)
    (queue,), _ = store.accumulator.collect(everything=True)
    if store.accumulator.topics["t"].queues[0].sealed[0].size:
        with pytest.raises(ValueError, match="only a sealed batch can be split"):
            store.accumulator.cut(queue.sealed[0], [0, 2])
