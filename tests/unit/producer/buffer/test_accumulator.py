"""`_accumulator`: where records go, how they are batched, and that every byte of the budget comes back."""

from __future__ import annotations

import random
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.config import CODECS
from kafwire.errors import ConfigError, KafkaError, KafkaTimeoutError, ProtocolError, RecordTooLargeError
from kafwire.memory._buffer import pool_bytes
from kafwire.producer.buffer._batch import BatchDelivery, Delivery, ProducerBatch
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.records import decode_batches
from kafwire.records._arrow_rows import RowsReader
from kafwire.runtime._interfaces import Clock
from tests.support import seeds
from tests.support.accumulator_store import Store
from tests.support.deadlines import ended, until
from tests.support.forks import fork_in_c, in_child
from tests.support.java.reference_partitions import murmur2, partition_of

# Keys and their hashes, as Java's `Utils.murmur2` has them.
JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.fixture
def make_store() -> Any:
    return Store


# ---- partitions


@pytest.mark.parametrize(("key", "expected"), JAVA_MURMUR2.items())
def test_the_reference_hashes_as_java_does(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20), st.integers(1, 1000))
def test_keys_choose_partitions_as_java_does(keys: list[bytes], partitions: int) -> None:
    store = Store(partitions)
    for key in [*keys, *JAVA_MURMUR2]:
        delivery = store.append(key=key)
        assert f" t-{partition_of(key, partitions)}:" in repr(delivery)
    store.append_table(pa.table({"value": keys, "key": pa.array(keys, pa.binary())}))
    store.deliver()
    for partition, log in store.logs.items():
        assert {partition_of(record.key or b"", partitions) for record in log} <= {partition}


def test_an_empty_key_is_a_key(make_store: Any) -> None:
    store = make_store(7)
    for _ in range(3):
        store.append(b"v" * 900, key=b"")
    store.deliver()
    assert len(store.logs[partition_of(b"", 7)]) == 3


def test_a_partition_may_be_named(make_store: Any) -> None:
    store = make_store(3)
    store.append(b"1", key=b"any", partition=2)
    store.append_table(pa.table({"value": [b"2", b"3"], "key": [b"a", b"b"], "partition": [0, 1]}), 2)
    store.deliver()
    assert store.values(2) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("partition", [-1, 3, 2**31])
def test_a_partition_that_does_not_exist_is_refused(make_store: Any, partition: int) -> None:
    store = make_store(3)
    with pytest.raises(ConfigError, match=rf"topic 't' has partitions 0 to 2, not {partition}"):
        store.append(partition=partition)
    with pytest.raises(ConfigError, match=rf"topic 't' has partitions 0 to 2, not {partition}"):
        store.append_table(pa.table({"value": [b"v"]}), partition)
    table = pa.table({"value": [b"v"] * 3, "partition": pa.array([0, None, partition], pa.int64())})
    with pytest.raises(ConfigError, match="row 2: its partition does not exist; topic 't' has 0 to 2"):
        store.append_table(table)
    assert store.used == 0


def test_an_unknown_topic_has_to_be_learnt_first(make_store: Any) -> None:
    store = make_store()
    (rows,) = RowsReader(pa.table({"value": [b"v"]}))
    assert store.accumulator.append("other", b"v", None, None, None, None) is None
    assert store.accumulator.plan_rows("other", rows, None, 0) is None


def test_a_topic_may_grow_but_not_shrink(make_store: Any) -> None:
    store = make_store(2)
    store.accumulator.set_topic("t", 4, PartitionWeights(range(4), range(1, 5)))
    store.accumulator.set_topic("t", 1, PartitionWeights([0], [1]))
    assert [queue.name for queue in store.accumulator.topics["t"].queues] == ["t-0", "t-1", "t-2", "t-3"]


def random_table(chance: random.Random, partitions: int) -> tuple[Any, list[tuple[Any, Any, Any]]]:
    """Rows of (value, key, partition), with and without nulls and columns, in one chunk or several."""
    rows: list[tuple[Any, Any, Any]] = []
    keyed, placed = chance.random() < 0.7, chance.random() < 0.5
    for i in range(chance.choice([0, 1, 2, 5, 20, 60])):
        value = None if chance.random() < 0.1 else b"%d-" % i + chance.randbytes(chance.randint(0, 30))
        key = chance.randbytes(chance.randint(0, 6)) if keyed and chance.random() < 0.7 else None
        rows.append((value, key, chance.randrange(partitions) if placed and chance.random() < 0.5 else None))
    columns = {"value": pa.array([row[0] for row in rows], pa.binary())}
    if keyed:
        columns["key"] = pa.array([row[1] for row in rows], chance.choice([pa.binary(), pa.large_binary()]))
    if placed:
        columns["partition"] = pa.array([row[2] for row in rows], chance.choice([pa.int32(), pa.int64(), pa.int16()]))
    table = pa.table(columns)
    if rows and chance.random() < 0.5:
        cut = chance.randint(0, len(rows))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table, rows


@seeds.several(10)
def test_a_thousand_random_tables_are_grouped_as_the_obvious_way_groups_them(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        partitions = chance.randint(1, 9)
        store = Store(partitions, batch_size=chance.choice([100, 300, 10_000]), rng_state=chance.getrandbits(64))
        table, rows = random_table(chance, partitions)
        delivery = store.append_table(table)
        store.deliver()
        expected: dict[int, list[tuple[Any, Any]]] = {p: [] for p in range(partitions)}
        free = []
        for value, key, partition in rows:
            if partition is not None:
                expected[partition].append((value, key))
            elif key is not None:
                expected[partition_of(key, partitions)].append((value, key))
            else:
                free.append((value, key))
        got = {p: [(record.value, record.key) for record in log] for p, log in store.logs.items()}
        assert sum(map(len, got.values())) == len(rows)
        # Rows that may go anywhere keep their order within a partition, and so do all others.
        for partition, log in got.items():
            placed = [row for row in log if row not in free]
            assert placed == [row for row in expected[partition] if row not in free]
            wanted = [row[:2] for row in rows]
            positions = [wanted.index(row) for row in log if wanted.count(row) == 1]
            assert positions == sorted(positions)
        assert store.used == 0
        assert len(delivery) == len(rows)
        assert sum(count for _, _, _, count in delivery.result()) == len(rows)


# ---- batches


@pytest.mark.parametrize("compression", CODECS)
def test_no_batch_is_larger_than_batch_size(make_store: Any, compression: str) -> None:
    seed = seeds.of_test()
    chance = random.Random(seed)
    store = make_store(3, batch_size=700, compression=compression)
    sent = 0
    for _ in range(120):
        headers = [("h" * chance.randint(0, 9), chance.randbytes(chance.randint(0, 9)))] * chance.randint(0, 2)
        if chance.random() < 0.5:
            key = chance.randbytes(chance.randint(0, 40)) if chance.random() < 0.5 else None
            store.append(chance.randbytes(chance.randint(0, 500)), key=key, headers=headers)
            sent += 1
        else:
            values = [chance.randbytes(chance.randint(0, 500)) for _ in range(chance.randint(1, 20))]
            store.append_table(pa.table({"value": values, "headers": [headers] * len(values)}, TABLE_WITH_HEADERS))
            sent += len(values)
    store.deliver()
    assert max(len(data) for _, data in store.batches) <= (700 if compression == "none" else 760)
    assert sum(len(log) for log in store.logs.values()) == sent
    assert store.used == 0


TABLE_WITH_HEADERS = pa.schema(
    {
        "value": pa.binary(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)


def test_a_record_larger_than_a_batch_has_one_of_its_own(make_store: Any) -> None:
    store = make_store(1, batch_size=100, max_request_size=1_000)
    store.append(b"1")
    store.append(b"2" * 500)
    store.append(b"3")
    store.append_table(pa.table({"value": [b"4", b"5" * 500, b"6"]}))
    store.deliver()
    assert [len(value or b"") for value in store.values(0)] == [1, 500, 1, 1, 500, 1]
    assert [len(decode_batches(data)[0]) for _, data in store.batches] == [1, 1, 2, 1, 1]


def test_a_record_larger_than_a_request_is_refused(make_store: Any) -> None:
    store = make_store(1, batch_size=100, max_request_size=1_000)
    with pytest.raises(RecordTooLargeError, match=r"for topic 't' is larger than max_request_size \(1000\)") as caught:
        store.append(b"." * 1_000)
    assert caught.value.code == 10
    assert store.used == 0
    delivery = store.append_table(pa.table({"value": [b"1", b"." * 1_000, b"2"]}))
    store.deliver()
    with pytest.raises(RecordTooLargeError, match="larger than max_request_size"):
        delivery.result()
    assert store.values(0) == [b"1", b"2"]
    assert store.used == 0


def test_a_bad_row_is_named_and_the_rows_before_it_are_sent(make_store: Any) -> None:
    headers = [[{"key": "k", "value": b"v"}], [], None, [{"key": None, "value": b"v"}], []]
    table = pa.table({"value": [b"0", b"1", b"2", b"3", b"4"], "headers": headers}, TABLE_WITH_HEADERS)
    store = make_store(1)
    before = store.append(b"before")
    with pytest.raises(ProtocolError, match="row 3: "):
        store.append_table(table)
    after = store.append(b"after")
    store.deliver()
    assert store.values(0) == [b"before", b"0", b"1", b"2", b"after"]
    assert before.result(0).offset == 0
    assert after.result(0).offset == 4
    assert store.used == 0


def test_timestamps_and_headers_arrive(make_store: Any) -> None:
    store = make_store(1)
    delivery = store.append(b"v", key=b"k", headers=[("a", b"1"), ("b", None)], timestamp_ms=1_234_567)
    store.deliver()
    (record,) = store.logs[0]
    assert (record.timestamp_ms, record.key, record.headers) == (1_234_567, b"k", [("a", b"1"), ("b", None)])
    assert delivery.result().timestamp_ms == 1_234_567


@pytest.mark.parametrize("kind", [bytearray, memoryview, pa.py_buffer])
def test_anything_bytes_like_is_taken(make_store: Any, kind: Any) -> None:
    store = make_store(1)
    store.append(kind(b"value"), key=kind(b"key"))
    store.deliver()
    assert [(record.value, record.key) for record in store.logs[0]] == [(b"value", b"key")]


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        ({"value": "text"}, "the value is text: encode it first"),
        ({"key": "text"}, "the key is text: encode it first"),
        ({"value": 5}, "the value must be bytes-like or None, not int"),
        ({"key": [b"k"]}, "the key must be bytes-like or None, not list"),
    ],
)
def test_values_that_are_not_bytes_are_refused(make_store: Any, arguments: dict[str, Any], because: str) -> None:
    store = make_store()
    with pytest.raises(ConfigError, match=because):
        store.append(**arguments)
    assert store.used == 0


def test_a_batch_lingers_from_its_first_record_on(make_store: Any) -> None:
    class Manual(Clock):
        now = 100.0

        def monotonic(self) -> float:
            return self.now

        def time_ns(self) -> int:
            return 0

    clock = Manual()
    store = make_store(2, linger_ms=50, clock=clock)
    store.append(partition=0)
    clock.now += 0.030
    store.append(partition=1)
    store.append(partition=0)
    assert store.accumulator.collect() == ([], 20)
    clock.now += 0.020
    (queue,), wait = store.accumulator.collect()
    assert (queue.name, wait) == ("t-0", 30)
    assert [batch.count for batch in queue.sealed] == [2]
    clock.now += 0.030
    (queue,), wait = store.accumulator.collect()
    assert (queue.name, wait) == ("t-1", None)
    assert store.accumulator.collect() == ([], None)


def test_the_engine_is_woken_by_the_first_record_and_by_a_full_batch(make_store: Any) -> None:
    store = make_store(1, batch_size=200)

    woken = store.notifier.take
    assert not woken()
    store.append(b"v" * 50)
    assert woken()
    store.append(b"v" * 50)
    assert not woken()
    store.append(b"v" * 50)
    assert woken()


def test_a_queue_is_named_once_however_many_batches_wait(make_store: Any) -> None:
    store = make_store(1, batch_size=100)
    for _ in range(5):
        store.append(b"v" * 60)
    queues, _ = store.accumulator.collect(everything=True)
    assert len(queues) == 1
    assert len(queues[0].sealed) == 5
    assert store.accumulator.collect(everything=True) == ([], None)


def test_a_second_stamp_does_not_change_bytes_that_were_handed_out(make_store: Any) -> None:
    store = make_store(1)
    store.append(b"v")
    (queue,), _ = store.accumulator.collect(everything=True)
    (batch,) = queue.sealed
    batch.producer, batch.sequence = (42, 3), 77
    store.accumulator.prepare([batch])
    first = batch.payload()
    store.accumulator.prepare([batch])
    assert bytes(batch.payload()) == bytes(first)
    before = bytes(first)
    batch.producer, batch.sequence = (42, 4), 0
    store.accumulator.prepare([batch])
    assert bytes(first) == before, "a connection that died may still hold these bytes"
    stamps = []
    for data in (first, batch.payload()):
        (decoded,) = decode_batches(data)
        stamps.append((decoded.producer_id, decoded.producer_epoch, decoded.base_sequence))
    assert stamps == [(42, 3, 77), (42, 4, 0)]


# ---- deliveries


def test_offsets_are_those_of_the_records(make_store: Any) -> None:
    store = make_store(2, batch_size=150)
    deliveries = [store.append(b"%d" % i * 20, partition=i % 2) for i in range(40)]
    assert not any(delivery.done() for delivery in deliveries)
    store.deliver()
    for i, delivery in enumerate(deliveries):
        meta = delivery.result()
        assert (meta.topic, meta.partition) == ("t", i % 2)
        assert store.values(i % 2)[meta.offset] == b"%d" % i * 20


def test_the_ranges_of_a_table_cover_its_rows(make_store: Any) -> None:
    store = make_store(3, batch_size=300)
    store.append(b"before", partition=1)
    keys = [b"%d" % (i % 7) for i in range(100)]
    delivery = store.append_table(pa.table({"value": [b"%d" % i for i in range(100)], "key": keys}))
    store.deliver()
    ranges = delivery.result()
    assert len(ranges) == len({partition for _, partition, _, _ in ranges})
    rows = [
        store.values(partition)[offset]
        for _, partition, first, count in ranges
        for offset in range(first, first + count)
    ]
    assert sorted(map(int, filter(None, rows))) == list(range(100))


def test_a_delivery_that_takes_too_long_says_so(make_store: Any) -> None:
    store = make_store(1)
    delivery = store.append()
    with pytest.raises(KafkaTimeoutError, match=r"no acknowledgement from t-0 within 0\.01 s"):
        delivery.result(0.01)
    with pytest.raises(KafkaTimeoutError):
        delivery.exception(0.01)
    table = store.append_table(pa.table({"value": [b"v"]}))
    with pytest.raises(KafkaTimeoutError):
        table.result(0.01)
    assert not table.done()


def test_a_failed_batch_is_the_error_of_all_its_records(make_store: Any) -> None:
    store = make_store(1)
    deliveries = [store.append(), store.append()]
    table = store.append_table(pa.table({"value": [b"v"]}))
    (queue,), _ = store.accumulator.collect(everything=True)
    queue.sealed[0].fail(KafkaError("lost"))
    for delivery in deliveries:
        with pytest.raises(KafkaError, match="lost"):
            delivery.result()
        assert isinstance(delivery.exception(), KafkaError)
        assert "failed" in repr(delivery)
    with pytest.raises(KafkaError, match="lost"):
        table.result()
    assert store.used == 0


def test_an_outcome_counts_once(make_store: Any) -> None:
    store = make_store(1)
    store.append()
    (queue,), _ = store.accumulator.collect(everything=True)
    batch = queue.sealed[0]
    batch.succeed(5, -1)
    batch.succeed(9, -1)
    assert store.used == 0


def test_a_callback_that_raises_does_not_keep_others_from_running(
    make_store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store(1)
    seen: list[Delivery] = []
    delivery = store.append()
    delivery.add_done_callback(lambda _: 1 / 0)
    delivery.add_done_callback(seen.append)
    store.deliver()
    assert seen == [delivery]
    assert "a delivery callback raised" in caplog.text


# ---- the budget


def test_memory_is_bounded_and_comes_back(make_store: Any) -> None:
    store = make_store(2, buffer_memory=3_000)
    taken = 0
    while store.accumulator.append("t", b"v" * 100, None, None, None, None) is not None:
        taken += 1
        assert store.used <= 3_000
    assert 20 <= taken <= 30
    assert not store.accumulator.budget.has_room()
    assert not store.accumulator.budget.wait(0)
    store.deliver()
    assert store.used == 0
    assert store.accumulator.budget.wait(0)
    assert store.append(b"v" * 100)


def test_a_record_larger_than_the_budget_comes_alone(make_store: Any) -> None:
    store = make_store(1, buffer_memory=100)
    store.append(b"v" * 500)
    assert store.accumulator.append("t", b"v", None, None, None, None) is None
    store.deliver()
    assert store.append(b"v")


@pytest.mark.parametrize("buffer_memory", [1, 1_500, 5_000, 50_000])
def test_a_table_larger_than_the_budget_goes_through_it_piece_by_piece(make_store: Any, buffer_memory: int) -> None:
    store = make_store(3, buffer_memory=buffer_memory)
    values = [b"%05d" % i + b"." * 95 for i in range(1_000)]
    store.append_table(pa.table({"value": values, "key": values}))
    store.deliver()
    assert sorted(record.value for log in store.logs.values() for record in log) == values
    assert store.used == 0


def test_compression_releases_the_saved_memory(make_store: Any) -> None:
    store = make_store(1, batch_size=100_000, max_request_size=100_000, compression="lz4")
    store.append_table(pa.table({"value": [b"." * 1_000] * 50}))
    before = store.used
    (queue,), _ = store.accumulator.collect(everything=True)
    store.accumulator.prepare(list(queue.sealed))
    assert store.used < before / 10
    queue.sealed[0].succeed(0, -1)
    assert store.used == 0


def test_a_thread_that_waits_for_room_is_woken_when_there_is_some(make_store: Any) -> None:
    store = make_store(1, buffer_memory=1_000)
    while store.accumulator.append("t", b"v" * 100, None, None, None, None) is not None:
        pass
    woken: list[bool] = []
    waiting = threading.Thread(target=lambda: woken.append(store.accumulator.budget.wait(3600)), daemon=True)
    waiting.start()
    until(lambda: store.accumulator.budget.waiting, "it waits")
    store.deliver()
    ended(waiting)
    assert woken == [True]


def test_a_closed_accumulator_takes_nothing_more(make_store: Any) -> None:
    store = make_store()
    store.accumulator.budget.close("closed for the test")
    for topic in ("t", "unknown"):
        with pytest.raises(KafkaError, match="closed for the test"):
            store.accumulator.append(topic, b"v", None, None, None, None)
    with pytest.raises(KafkaError, match="closed for the test"):
        store.append_table(pa.table({"value": [b"v"]}))
    assert store.accumulator.budget.wait(0)


def test_threads_that_send_at_once_lose_nothing_and_each_keeps_its_order(make_store: Any) -> None:
    """Records and tables from four threads, while a fifth delivers."""
    store = make_store(2, batch_size=2_000, max_request_size=2_000, buffer_memory=1 << 24)
    rounds, rows = 40, 60
    problems: list[BaseException] = []

    def send(name: int) -> None:
        try:
            for number in range(rounds):
                values = [b"%d:%06d" % (name, number * rows + i) for i in range(rows)]
                if name % 2:
                    store_table(pa.table({"value": values}))
                else:
                    for value in values:
                        store.append(value, partition=1)
        except BaseException as problem:
            problems.append(problem)

    def store_table(table: Any) -> None:
        parts: list[tuple[ProducerBatch, int, int]] = []
        for rows in RowsReader(table):
            plan = store.accumulator.plan_rows("t", rows, 1, 0)
            assert store.accumulator.append_rows(plan, parts)

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        store.deliver()
    store.deliver()
    assert not problems
    for name in range(4):
        mine = [value for value in store.values(1) if value and value.startswith(b"%d:" % name)]
        assert mine == [b"%d:%06d" % (name, i) for i in range(rounds * rows)]
    assert store.used == 0


class Filling:
    """A thread that encodes a table without the GIL, long enough to do things meanwhile."""

    def __init__(self, store: Store, *, megabytes: int = 12) -> None:
        self.store = store
        self.parts: list[tuple[ProducerBatch, int, int]] = []
        self.problem: BaseException | None = None
        noise = random.Random(1).randbytes(1 << 20)
        self.table = pa.table({"value": [noise[i << 10 : (i + 1) << 10] for i in range(1024)] * megabytes})
        self.thread = threading.Thread(target=self._fill)
        before = pool_bytes()[0]
        self.thread.start()
        while pool_bytes()[0] < before + (2 << 20) and self.thread.is_alive():
            pass
        assert self.thread.is_alive(), "too fast for this test: give it more to do"

    def _fill(self) -> None:
        try:
            for rows in RowsReader(self.table):
                plan = self.store.accumulator.plan_rows("t", rows, 0, 0)
                assert plan is not None
                while not self.store.accumulator.append_rows(plan, self.parts):
                    raise AssertionError("no room")
        except BaseException as problem:
            self.problem = problem

    def filled(self) -> BatchDelivery:
        ended(self.thread)
        return BatchDelivery(self.parts)


@pytest.fixture
def slow_store(make_store: Any) -> Store:
    size = 1 << 20
    store: Store = make_store(
        1, batch_size=size, max_request_size=size, buffer_memory=1 << 30, compression="gzip", level=9, linger_ms=60_000
    )
    return store


def test_records_sent_during_another_threads_fill_stay_in_order(slow_store: Store) -> None:
    before = slow_store.append(b"before")
    filling = Filling(slow_store)
    after = slow_store.append(b"after")
    queues, _ = slow_store.accumulator.collect(everything=True)
    waiting = [batch for queue in queues for batch in queue.sealed]
    assert filling.thread.is_alive()
    assert [batch.filling for batch in waiting] == [True, False], "a flush has to know of both"
    delivery = filling.filled()
    assert not any(batch.filling for batch in waiting)
    slow_store.deliver()
    assert before.result(0).offset == 0
    assert after.result(0).offset > 0
    assert sum(count for _, _, _, count in delivery.result(0)) == len(filling.table)
    assert slow_store.used == 0


def test_a_batch_that_is_being_filled_cannot_be_sent(slow_store: Store) -> None:
    slow_store.append(b"before")
    filling = Filling(slow_store)
    (queue,), _ = slow_store.accumulator.collect(everything=True)
    with pytest.raises(ValueError, match="is being filled"):
        slow_store.accumulator.prepare(list(queue.sealed))
    filling.filled()


def test_a_batch_that_was_filled_and_not_asked_for_is_open_again(slow_store: Store) -> None:
    slow_store.append(b"before")
    slow_store.append_table(pa.table({"value": [b"1", b"2"]}))
    assert not slow_store.accumulator.topics["t"].queues[0].sealed
    slow_store.append(b"after")
    assert slow_store.deliver() == 1
    assert slow_store.values(0) == [b"before", b"1", b"2", b"after"]


def test_closing_while_a_thread_fills_a_batch_leaves_no_delivery_without_an_outcome(slow_store: Store) -> None:
    before = slow_store.append(b"before")
    filling = Filling(slow_store)
    slow_store.accumulator.budget.close("closed")
    queues, _ = slow_store.accumulator.collect(everything=True)
    slow_store.accumulator.end("ended")
    (batch,) = queues[0].sealed
    assert batch.filling
    batch.fail(KafkaError("given up"))
    delivery = filling.filled()
    assert delivery.done()
    with pytest.raises(KafkaError, match="given up"):
        before.result(0)
    with pytest.raises(KafkaError, match="given up|ended"):
        delivery.result(0)
    assert slow_store.used == 0


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("table", [False, True])
def test_data_that_does_not_shrink_goes_uncompressed(make_store: Any, compression: str, *, table: bool) -> None:
    store = make_store(1, compression=compression, batch_size=200_000, max_request_size=100_000)
    value = random.Random(5).randbytes(99_000)
    store.append_table(pa.table({"value": [value]}), 0) if table else store.append(value, partition=0)
    store.deliver()
    assert store.values(0) == [value]
    ((_, data),) = store.batches
    assert len(data) < 99_200
    assert data[22] & 7 == 0, "compressed"


def test_a_fork_takes_no_records(make_store: Any) -> None:
    """Nothing in a fork sends them: taken silently, they would be lost. Also where no hook of Python's has run."""
    store = make_store()
    store.append(b"before", partition=0)

    def child() -> None:
        with pytest.raises(KafkaError, match="made before a fork: make one in each process"):
            store.append(b"after", partition=0)

    in_child(child)
    in_child(child, fork_in_c)
    store.append(b"after", partition=0)
    store.deliver()
    assert store.values(0) == [b"before", b"after"]
