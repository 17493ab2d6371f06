"""`_accumulator` places records: by every partitioner, one by one and by columns, and what sticks to a partition."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import ConfigError
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer.partitioner import weighted
from kafwire.records._arrow_rows import RowsReader
from tests.support.accumulator_store import Store
from tests.support.java.reference_partitions import HASHED, place

STICKING = ["murmur2_random", "consistent_random", "fnv1a_random"]


@pytest.fixture
def make_store() -> Callable[..., Store]:
    return Store


def share(store: Store, partitions: Sequence[int], ends: Sequence[int] | None = None) -> None:
    store.accumulator.set_weights("t", PartitionWeights(partitions, ends or range(1, len(partitions) + 1)))


def numbered(count: int, size: int = 100) -> list[bytes]:
    return [b"%06d" % i + b"." * (size - 6) for i in range(count)]


def places(store: Store) -> list[int]:
    """The partition of each record, in the order of their values."""
    found = {record.value: partition for partition, log in store.logs.items() for record in log}
    return [found[value] for value in sorted(value for value in found if value is not None)]


def runs(partitions: Sequence[int]) -> list[int]:
    return [len(list(run)) for _, run in itertools.groupby(partitions)]


def send(store: Store, keys: Sequence[bytes | None], *, how: str) -> list[int]:
    """Send records with these keys, and return where each went."""
    values = numbered(len(keys), 20)
    if how == "send":
        for key, value in zip(keys, values, strict=True):
            store.append(value, key=key)
    else:
        columns = {"value": pa.array(values, pa.binary())}
        if any(key is not None for key in keys) or how == "null column":
            columns["key"] = pa.array(keys, pa.binary())
        store.append_table(pa.table(columns))
    store.deliver()
    return places(store)


HOW = ["send", "send_batch"]


# ---- keys


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("partitioner", HASHED)
def test_keys_go_where_the_partitioner_says(make_store: Any, partitioner: str, how: str, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        partitions = chance.choice([1, 2, 3, 7, 12, 100])
        keys = [
            None if chance.random() < 0.1 else chance.randbytes(chance.choice([0, 1, 2, 3, 4, 5, 9, 70]))
            for _ in range(200)
        ]
        found = send(make_store(partitions, partitioner=partitioner), keys, how=how)
        expected = [place(partitioner, key, partitions) for key in keys]
        assert [got for got, wanted in zip(found, expected, strict=True) if wanted is not None] == [
            wanted for wanted in expected if wanted is not None
        ]


@pytest.mark.parametrize("how", [*HOW, "null column"])
@pytest.mark.parametrize("partitioner", ["murmur2", "consistent", "fnv1a"])
def test_without_a_key_the_consistent_ones_all_go_where_an_empty_key_goes(
    make_store: Any, partitioner: str, how: str
) -> None:
    found = send(make_store(7, partitioner=partitioner), [None] * 50, how=how)
    assert set(found) == {place(partitioner, b"", 7)}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("partitioner", HASHED)
def test_partitions_without_a_leader_keep_their_keys(make_store: Any, partitioner: str, how: str) -> None:
    store = make_store(7, partitioner=partitioner)
    share(store, [0, 3])
    keys = [b"%d" % i for i in range(200)]
    assert send(store, keys, how=how) == [place(partitioner, key, 7) for key in keys]


@pytest.mark.parametrize("how", HOW)
def test_ignored_keys_stick(make_store: Any, how: str) -> None:
    store = make_store(7, ignore_keys=True, batch_size=1_000_000)
    found = send(store, [b"%d" % i for i in range(100)], how=how)
    assert len(set(found)) == 1
    assert store.logs[found[0]][5].key == b"5"


def test_a_row_s_own_partition_comes_before_its_key_and_every_partitioner(make_store: Any) -> None:
    for partitioner in [*HASHED, "random", "round_robin", lambda *_: 1 / 0]:
        store = make_store(3, partitioner=partitioner)
        table = pa.table({"value": [b"1", b"2", b"3"], "key": [b"a", None, b""], "partition": [2, 0, 2]})
        store.append_table(table)
        store.append(b"4", key=b"a", partition=1)
        store.deliver()
        assert [store.values(p) for p in range(3)] == [[b"2"], [b"4"], [b"1", b"3"]]


# ---- without a key: KIP-480 and KIP-794


@pytest.mark.parametrize("how", [*HOW, "null column"])
@pytest.mark.parametrize("partitioner", STICKING)
def test_records_without_a_key_stick_to_a_partition_until_a_batch_is_full(
    make_store: Any, partitioner: str, how: str, seed: int
) -> None:
    store = make_store(3, partitioner=partitioner, rng_state=seed)
    values = numbered(240)
    if how == "send":
        for value in values:
            store.append(value)
    elif how == "send_batch":
        store.append_table(pa.table({"value": values}))
    else:
        store.append_table(pa.table({"value": values, "key": pa.nulls(len(values), pa.binary())}))
    store.deliver()
    found = places(store)
    assert len(found) == len(values)
    assert all(length % 8 == 0 for length in runs(found)), "a batch holds eight of them"
    assert len(runs(found)) > 10
    assert all(log == sorted(log) for log in map(store.values, range(3)))
    assert Counter(len(data) > 900 for _, data in store.batches) == {True: 30}, "no batch is left behind half full"


def test_an_empty_key_is_none_for_consistent_random_alone(make_store: Any) -> None:
    for partitioner in STICKING:
        store = make_store(50, partitioner=partitioner, batch_size=150)
        found = send(store, [b""] * 60, how="send_batch")
        assert (len(set(found)) > 1) == (partitioner == "consistent_random")


@pytest.mark.parametrize("how", ["send", "send_batch", "mixed"])
def test_partitions_get_even_parts(make_store: Any, how: str, seed: int) -> None:
    """Chi-squared over 3,000 batches and 20 partitions; 71 is passed by one seed in ten million."""
    store = make_store(20, rng_state=seed, buffer_memory=1 << 24)
    values = numbered(8 * 3_000)
    if how == "send":
        for value in values:
            store.append(value)
    else:
        columns = {"value": pa.array(values)}
        if how == "mixed":
            columns["key"] = pa.nulls(len(values), pa.binary())
        store.append_table(pa.table(columns))
    store.deliver()
    batches = Counter(partition for partition, _ in store.batches)
    assert batches.total() == 3_000
    expected = 3_000 / 20
    assert sum((batches[p] - expected) ** 2 / expected for p in range(20)) < 71


@pytest.mark.parametrize("how", HOW)
def test_partitions_get_their_weights(make_store: Any, how: str, seed: int) -> None:
    """Queues of 0, 3, 1 and 9: 10, 7, 9 and 1 parts of 27, and none for partition 4.

    38 is passed by one seed in ten million.
    """
    store = make_store(5, rng_state=seed, buffer_memory=1 << 24)
    share(store, *weighted([0, 1, 2, 3], {1: 3, 2: 1, 3: 9}, []))
    values = numbered(8 * 3_000)
    if how == "send":
        for value in values:
            store.append(value)
    else:
        store.append_table(pa.table({"value": values}))
    store.deliver()
    batches = Counter(partition for partition, _ in store.batches)
    assert batches.total() == 3_000
    parts = {0: 10, 1: 7, 2: 9, 3: 1}
    assert sum((batches[p] - 3_000 * part / 27) ** 2 / (3_000 * part / 27) for p, part in parts.items()) < 38
    assert not batches[4]


def test_seeds_distinguish_producers_and_topics(make_store: Any) -> None:
    orders = []
    for chance in range(2):
        store = make_store(10, rng_state=chance)
        store.accumulator.set_topic("u", 10, PartitionWeights(range(10), range(1, 11)))
        for topic in "tu":
            deliveries = [store.accumulator.append(topic, b"v" * 900, None, None, None, None) for _ in range(20)]
            orders.append([repr(delivery).split(":")[0].split("-")[1] for delivery in deliveries])
    assert len({tuple(order) for order in orders}) == 4


@pytest.mark.parametrize("how", HOW)
def test_small_batches_count_until_they_make_a_full_one(make_store: Any, how: str) -> None:
    """Lingering ends batches of two records: they go to one partition until about a batch did.

    A table, of which more may follow, is looked at before its rows: as long as one byte more has room, it goes there.
    """
    enough = 8 if how == "send" else 10
    store = make_store(100)
    values = numbered(160)
    for at in range(0, len(values), 2):
        if how == "send":
            store.append(values[at])
            store.append(values[at + 1])
        else:
            store.append_table(pa.table({"value": values[at : at + 2]}))
        store.deliver()
    found = runs(places(store))
    assert all(length % enough == 0 for length in found)
    assert len(found) > 10


@pytest.mark.parametrize("buffer_memory", [1, 5_000, 1 << 20])
def test_each_full_batch_of_a_table_is_drawn_a_partition_however_little_room_there_is(
    make_store: Any, buffer_memory: int
) -> None:
    store = make_store(10_000, buffer_memory=buffer_memory)
    store.append_table(pa.table({"value": numbered(400)}))
    store.deliver()
    found = runs(places(store))
    assert set(found) <= {8, 16}
    assert found.count(16) <= 2, "the same partition may be drawn again, which is rare"


def test_a_full_batch_does_not_linger_when_its_partition_is_left(make_store: Any) -> None:
    store = make_store(1_000, linger_ms=60_000)
    for value in numbered(80):
        store.append(value)
    assert store.deliver(everything=False) == 9, "the tenth is full only when another record comes"
    assert store.deliver() == 1


def test_a_batch_that_others_began_is_filled_before_the_next_partition_is_drawn(make_store: Any) -> None:
    """Records with a key come between, into the same partition: no batch may be left behind half full."""
    store = make_store(2)
    share(store, [1])
    stuck = store.append(b"." * 100)
    share(store, [0, 1])
    for _ in range(4):
        store.append(b"k" * 100, partition=1)
    deliveries = [stuck] + [store.append(b"." * 100) for _ in range(40)]
    store.deliver()
    assert all(delivery.done() for delivery in deliveries)
    sizes = [len(data) for partition, data in store.batches if partition == 1]
    assert sizes[0] > 850


def test_a_partition_is_left_after_twice_a_batch_whatever_is_open_there(make_store: Any) -> None:
    store = make_store(100, batch_size=10_000, max_request_size=10_000)
    share(store, [50])
    store.append(b"." * 100)
    share(store, range(100))
    stuck = 1
    while store.accumulator.topics["t"].sticky == 50:
        store.deliver()
        store.append(b"k", partition=50)  # opens a batch that has room, each time
        store.append(b"." * 100)
        stuck += 1
    assert 2 * 10_000 // 120 <= stuck <= 2 * 10_000 // 100


@pytest.mark.parametrize("how", HOW)
def test_a_partition_that_loses_its_share_is_left_at_once(make_store: Any, how: str) -> None:
    store = make_store(3)
    share(store, [2])
    store.append(b"000000")
    share(store, [0])
    assert store.accumulator.topics["t"].sticky == -1
    if how == "send":
        store.append(b"000001")
    else:
        store.append_table(pa.table({"value": [b"000001"]}))
    store.deliver()
    assert places(store) == [2, 0]


def test_a_partition_that_keeps_a_share_is_stayed_with(make_store: Any) -> None:
    store = make_store(100)
    share(store, [7])
    store.append(b"000000")
    share(store, range(100))
    store.append(b"000001")
    store.deliver()
    assert places(store) == [7, 7]


def test_added_partitions_are_used(make_store: Any) -> None:
    store = make_store(1)
    store.logs[1] = []
    store.accumulator.set_topic("t", 2, PartitionWeights([1], [1]))
    store.append(b"." * 900)
    store.append(b"." * 900)
    assert store.deliver() == 2
    assert len(store.logs[1]) == 2, "partition 0 has no share any more"


def test_weights_of_partitions_that_do_not_exist_are_refused(make_store: Any) -> None:
    store = make_store(2)
    with pytest.raises(ValueError, match="has 2 partitions"):
        share(store, [2])
    with pytest.raises(KeyError):
        store.accumulator.set_weights("other", PartitionWeights([0], [1]))


@pytest.mark.parametrize("how", HOW)
def test_records_larger_than_a_batch_are_spread_one_by_one(make_store: Any, how: str, seed: int) -> None:
    store = make_store(10, batch_size=100, max_request_size=10_000, rng_state=seed)
    values = numbered(200, 300)
    if how == "send":
        for value in values:
            store.append(value)
    else:
        store.append_table(pa.table({"value": values}))
    store.deliver()
    assert len(places(store)) == 200
    assert all(len(log) >= 3 for log in store.logs.values())


@pytest.mark.parametrize("partitioner", ["murmur2_random", "random", "round_robin"])
def test_weights_may_change_while_threads_place_records(make_store: Any, partitioner: str, seed: int) -> None:
    """Records and tables, with and without keys, from four threads; a fifth delivers, and sets leaders."""
    store = make_store(5, partitioner=partitioner, rng_state=seed, buffer_memory=1 << 24)
    chance = random.Random(seed)
    problems: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(30):
                values = [b"%d:%06d" % (name, number * 200 + i) for i in range(200)]
                if name == 0:
                    for value in values:
                        store.append(value)
                elif name == 1:
                    fill(pa.table({"value": values}))
                else:
                    keys = [None if i % name else b"%d" % i for i in range(200)]
                    fill(pa.table({"value": values, "key": pa.array(keys, pa.binary())}))
        except BaseException as problem:
            problems.append(problem)

    def fill(table: pa.Table) -> None:
        for rows in RowsReader(table):
            plan = store.accumulator.plan_rows("t", rows, None, 0)
            assert plan is not None
            assert store.accumulator.append_rows(plan, [])

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        partitions = sorted(chance.sample(range(5), chance.randint(1, 5)))
        share(store, *weighted(partitions, {p: chance.randint(0, 9) for p in partitions}, []))
        store.deliver()
    store.deliver()
    assert not problems
    values = [value for partition in range(5) for value in store.values(partition)]
    assert sorted(filter(None, values)) == sorted(b"%d:%06d" % (name, i) for name in range(4) for i in range(6_000))
    assert len(values) == 24_000
    assert store.used == 0


# ---- anywhere, and in turn


@pytest.mark.parametrize("how", HOW)
def test_random_goes_anywhere_that_has_a_leader_whatever_the_key(make_store: Any, how: str, seed: int) -> None:
    """Chi-squared of 4,000 records and 3 partitions; 32.2 is passed by one seed in ten million."""
    store = make_store(4, partitioner="random", rng_state=seed)
    share(store, [0, 2, 3])
    found = send(store, [b"same", None] * 2_000, how=how)
    counts = Counter(found)
    expected = 4_000 / 3
    assert set(counts) == {0, 2, 3}
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 32.2
    assert max(runs(found)) < 25


@pytest.mark.parametrize("how", HOW)
def test_turns_go_round_the_partitions_that_have_a_leader(make_store: Any, how: str) -> None:
    store = make_store(5, partitioner="round_robin")
    share(store, [0, 2, 3])
    assert send(store, [b"same", None, b""] * 20, how=how) == [0, 2, 3] * 20


def test_turns_go_on_between_records_tables_and_rows_that_name_a_partition(make_store: Any) -> None:
    store = make_store(3, partitioner="round_robin")
    store.append(b"000000")
    store.append_table(pa.table({"value": [b"000001", b"000002", b"000003"], "partition": [None, 0, None]}))
    store.append(b"000004", partition=2)
    store.append(b"000005")
    store.deliver()
    assert places(store) == [0, 1, 0, 2, 2, 0]


def test_a_record_that_finds_no_room_keeps_its_turn(make_store: Any) -> None:
    store = make_store(3, partitioner="round_robin", buffer_memory=400)
    sent = 0
    while sent < 9:
        if store.accumulator.append("t", b"%06d" % sent + b"." * 94, None, None, None, None) is None:
            store.deliver()
        else:
            sent += 1
    store.deliver()
    assert places(store) == [0, 1, 2] * 3


# ---- functions


@pytest.mark.parametrize("how", HOW)
def test_a_function_is_asked_for_every_record(make_store: Any, how: str) -> None:
    asked = []

    def choose(topic: str, key: bytes | None, partitions: int, available: tuple[int, ...]) -> int:
        asked.append((topic, key, partitions, available))
        return available[len(key or b"") % len(available)]

    store = make_store(4, partitioner=choose)
    share(store, [1, 3])
    keys = [None, b"", b"a", b"ab", "ж".encode(), b"abc"]
    assert send(store, keys, how=how) == [1, 1, 3, 1, 1, 3]
    assert asked == [("t", key, 4, (1, 3)) for key in keys]


def test_a_function_gets_bytes_of_whatever_is_like_bytes(make_store: Any) -> None:
    def choose(topic: str, key: bytes | None, partitions: int, available: tuple[int, ...]) -> int:
        seen.append(key)
        return 0

    seen: list[bytes | None] = []
    store = make_store(1, partitioner=choose)
    for key in (bytearray(b"a"), memoryview(b"b"), b"c"):
        store.append(key=key)
    assert seen == [b"a", b"b", b"c"]
    assert {type(key) for key in seen} == {bytes}


class Index:
    def __index__(self) -> int:
        return 2


def test_a_function_may_return_any_whole_number(make_store: Any) -> None:
    store = make_store(3, partitioner=lambda *_: Index())
    assert send(store, [None], how="send") == [2]


NONSENSE = [-1, 3, 2**40, None, "1", 1.0, True, [0]]


@pytest.mark.parametrize("result", NONSENSE, ids=repr)
def test_a_result_that_is_no_partition_loses_nothing(make_store: Any, result: Any) -> None:
    def choose(topic: str, key: bytes | None, partitions: int, available: tuple[int, ...]) -> Any:
        return result if key == b"bad" else 0

    store = make_store(3, partitioner=choose)
    store.append(b"000000")
    with pytest.raises(ConfigError) as raised:
        store.append(b"lost", key=b"bad")
    said = str(raised.value)
    assert f"choose returned {result!r}; it must return a partition of topic 't', 0 to 2, for key b'bad'" in said
    used = store.used
    chunks = pa.chunked_array([[b"000001", b"000002"], [b"lost", b"lost"]])
    keys = pa.chunked_array([pa.array([b"k", None], pa.binary()), pa.array([b"k", b"bad"], pa.binary())])
    with pytest.raises(ConfigError, match="row 3: the partitioner .*choose"):
        store.append_table(pa.table({"value": chunks, "key": keys}))
    assert store.used > used, "the chunk before was taken"
    store.append(b"000003")
    store.append_table(pa.table({"value": [b"000004"]}))
    store.deliver()
    assert store.values(0) == [b"%06d" % i for i in range(5)]
    assert store.used == 0


OF_ITS_OWN = [TypeError("of its own"), OverflowError(), ConfigError("of its own"), KeyError("x")]


@pytest.mark.parametrize("problem", OF_ITS_OWN, ids=repr)
def test_a_function_that_raises_is_named_and_its_error_is_the_cause(make_store: Any, problem: Exception) -> None:
    def choose(*_: Any) -> int:
        raise problem

    store = make_store(3, partitioner=choose)
    with pytest.raises(ConfigError, match=rf"choose raised {type(problem).__name__}: ") as raised:
        store.append(b"v", key=b"k" * 500)
    assert raised.value.__cause__ is problem
    assert len(str(raised.value)) < 400, "a long key is cut"
    assert store.used == 0


def test_an_interrupt_inside_a_function_is_not_hidden(make_store: Any) -> None:
    def choose(*_: Any) -> int:
        raise KeyboardInterrupt

    store = make_store(3, partitioner=choose)
    with pytest.raises(KeyboardInterrupt):
        store.append(b"v")
    with pytest.raises(KeyboardInterrupt):
        store.append_table(pa.table({"value": [b"v"]}))
    assert store.used == 0


def test_a_function_may_send_and_learn_of_new_partitions_itself(make_store: Any) -> None:
    def choose(topic: str, key: bytes | None, partitions: int, available: tuple[int, ...]) -> int:
        if key == b"outer":
            store.append(b"000000", key=b"inner")
            store.accumulator.set_topic("t", 3, PartitionWeights([2], [1]))
            return partitions - 1
        return 0

    store = make_store(2, partitioner=choose)
    store.logs[2] = []
    store.append(b"000001", key=b"outer")
    store.append_table(pa.table({"value": [b"000002"], "key": [b"outer"]}))
    store.deliver()
    assert store.values(0) == [b"000000", b"000000"]
    assert store.values(1) == [b"000001"]
    assert store.values(2) == [b"000002"]


def test_a_function_without_a_name_is_shown(make_store: Any) -> None:
    class Chooser:
        def __call__(self, *_: Any) -> int:
            return 9

        def __repr__(self) -> str:
            return "Chooser()"

    store = make_store(2, partitioner=Chooser())
    with pytest.raises(ConfigError, match=r"the partitioner Chooser\(\) returned 9"):
        store.append()
