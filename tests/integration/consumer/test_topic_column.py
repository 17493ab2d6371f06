"""Arrow data whose column `topic` says where each row goes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import BrokerError, ConfigError, ProtocolError
from tests.support import seeds
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.broker.scripted_broker import ScriptedBroker
from tests.support.time_limits import within

TOPICS = {"t": 2, "u": 1, "w": 5}
QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50, "linger_ms": 0}


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as it:
        yield it


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker(TOPICS, nodes=2) as running:
        yield running


def logs(broker: ScriptedBroker) -> dict[tuple[str, int], list[bytes | None]]:
    return {(topic, number): broker.values(topic, number) for topic, count in TOPICS.items() for number in range(count)}


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()], ids=str)
@pytest.mark.parametrize("rows", [9, 30_000], ids=["small", "large"])  # of large ones AsyncProducer encodes in a thread
def test_each_row_goes_to_its_topic(flavour: Flavour, broker: ScriptedBroker, rows: int, kind: pa.DataType) -> None:
    names = [("u", "t", "t")[n % 3] for n in range(rows)]
    table = pa.table(
        {"topic": pa.array(names, kind), "value": [b"%d" % n for n in range(rows)], "partition": [0] * rows}
    )
    with flavour.producer(broker.bootstrap, **QUICK, batch_size=5000) as producer, within(20):
        sent = producer.send_batch(None, table)
        assert len(sent) == rows
        assert sorted(sent.result(10)) == [("t", 0, 0, rows * 2 // 3), ("u", 0, 0, rows // 3)]
    assert broker.values("t", 0) == [b"%d" % n for n in range(rows) if n % 3]
    assert broker.values("u", 0) == [b"%d" % n for n in range(0, rows, 3)]


def test_rows_go_where_they_would_go_topic_by_topic(flavour: Flavour, broker: ScriptedBroker) -> None:
    """Rows go by partition, key or a function, in several chunks, through a buffer smaller than the table."""
    seed = seeds.of_test()
    chance = random.Random(seed)
    rows = 4000
    table = pa.table(
        {
            "value": [b"%4d" % n * 10 for n in range(rows)],
            "topic": [chance.choice("tuuw") for _ in range(rows)],
            "key": [chance.choice([None, b"%d" % chance.randrange(50)]) for _ in range(rows)],
            "partition": [chance.choice([None, None, 0]) for _ in range(rows)],
        }
    )
    chunks = pa.Table.from_batches(
        [batch for at in range(0, rows, 1300) for batch in table.slice(at, 1300).to_batches()]
    )
    options = QUICK | {"batch_size": 2000, "buffer_memory": 10_000, "partitioner": by_function}
    with flavour.producer(broker.bootstrap, **options) as producer, within(30):
        sent = producer.send_batch(None, chunks)
        assert sum(count for *_, count in sent.result(10)) == rows
    together = logs(broker)
    with (
        ScriptedBroker(TOPICS, nodes=2) as other,
        flavour.producer(other.bootstrap, **options) as producer,
        within(30),
    ):
        for name in TOPICS:
            producer.send_batch(name, table.filter(pa.compute.equal(table["topic"], name))).result(10)
        assert together == logs(other)
    assert all(any(together[name, number] for number in range(count)) for name, count in TOPICS.items())


def by_function(_topic: str, key: bytes | None, partitions: int, _available: tuple[int, ...]) -> int:
    return sum(key or b"none") % partitions


@pytest.mark.parametrize("partitioner", ["murmur2_random", "consistent_random", "round_robin"])
def test_rows_without_a_key_are_spread(flavour: Flavour, broker: ScriptedBroker, partitioner: str) -> None:
    rows = 600
    table = pa.table({"value": [b"%3d" % n * 40 for n in range(rows)], "topic": ["w", "t", "w"] * (rows // 3)})
    with flavour.producer(broker.bootstrap, **QUICK, batch_size=1000, partitioner=partitioner) as producer, within(20):
        producer.send_batch(None, table).result(10)
    found = {topic: [broker.values(topic, number) for number in range(count)] for topic, count in TOPICS.items()}
    assert {value for log in found["w"] for value in log} == {b"%3d" % n * 40 for n in range(rows) if n % 3 != 1}
    assert {value for log in found["t"] for value in log} == {b"%3d" % n * 40 for n in range(rows) if n % 3 == 1}
    assert sum(map(len, found["w"] + found["t"])) == rows
    assert all(found["w"] + found["t"])


@pytest.mark.parametrize(
    "names", [["t", None], [5, 6], pa.array(["t", "t"]).dictionary_encode()], ids=["null", "numbers", "dictionary"]
)
def test_a_topic_for_all_passes_the_column_over(flavour: Flavour, broker: ScriptedBroker, names: Any) -> None:
    """Rows that were read from one topic can be written to another as they are."""
    table = pa.table({"value": [b"a", b"b"], "topic": names})
    with flavour.producer(broker.bootstrap, **QUICK) as producer, within(10):
        assert producer.send_batch("u", table).result(10) == [("u", 0, 0, 2)]


@pytest.mark.parametrize("size", [10, 400], ids=["small", "large"])
def test_topics_are_learnt_as_they_come(flavour: Flavour, size: int) -> None:
    """Each chunk brings topics of its own, and those of a chunk are asked for at once."""
    names = [f"topic-{number}" for number in range(300)]
    chunks = [
        pa.record_batch({"topic": names[: at + 100][::-1], "value": [b"%3d" % at * size] * (at + 100)})
        for at in (0, 100, 200)
    ]
    with (
        ScriptedBroker(dict.fromkeys(names, 1)) as broker,
        flavour.producer(broker.bootstrap, **QUICK, buffer_memory=100_000, batch_size=5000) as producer,
        within(20),
    ):
        assert len(producer.send_batch(None, pa.Table.from_batches(chunks)).result(10)) == 300
        # There may be more requests, where a broker takes its time: they have no new names.
        asked = [{topic.name for topic in each.message.topics or ()} for each in broker.seen("Metadata")]
        new = [len(topics - set().union(*asked[:at])) for at, topics in enumerate(asked)]
        assert [count for count in new if count] == [100, 100, 100]
        values = [b"%3d" % at * size for at in (0, 100, 200)]
        for number, name in enumerate(names):
            assert broker.values(name) == values[number // 100 :]


def test_names_that_look_alike(flavour: Flavour) -> None:
    """More topics than a table of them has room for at first, in turns, one the beginning of another."""
    names = [prefix + "x" * length for length in range(100) for prefix in "ab"]
    rows = [names[n * 7 % len(names)] for n in range(2000)]
    with (
        ScriptedBroker(dict.fromkeys(names, 1)) as broker,
        flavour.producer(broker.bootstrap, **QUICK) as producer,
        within(20),
    ):
        producer.send_batch(None, pa.table({"topic": rows, "value": [b"%d" % n for n in range(2000)]})).result(10)
        for name in names:
            assert broker.values(name) == [b"%d" % n for n in range(2000) if rows[n] == name]


def test_a_partition_for_all_is_one_of_each_topic(flavour: Flavour, broker: ScriptedBroker) -> None:
    table = pa.table({"value": [b"a", b"b", b"c"], "topic": ["t", "w", "t"]})
    with flavour.producer(broker.bootstrap, **QUICK, max_block_ms=1000) as producer, within(10):
        assert producer.send_batch(None, table, partition=1).result(10) == [("t", 1, 0, 2), ("w", 1, 0, 1)]
        with pytest.raises(ConfigError, match="topic 't' has partitions 0 to 1, not 2"):
            producer.send_batch(None, table, partition=2)


def test_wrong_rows_are_named_and_earlier_rows_are_sent(flavour: Flavour, broker: ScriptedBroker) -> None:
    first = pa.record_batch({"value": [b"1", b"2"], "topic": ["u", "u"]})

    def table(*names: Any, **columns: Any) -> pa.Table:
        values = pa.array([b"v"] * len(names), pa.binary())
        return pa.table({"value": values, "topic": pa.array(names, pa.string()), **columns})

    def after_first(*names: Any) -> pa.Table:
        return pa.Table.from_batches([first, *table(*names).to_batches()])

    with flavour.producer(broker.bootstrap, **QUICK, max_block_ms=1000) as producer, within(20):
        with pytest.raises(ConfigError, match="row 3: its topic is null"):
            producer.send_batch(None, after_first("t", None))
        producer.flush(10)
        assert broker.values("u") == [b"1", b"2"]
        with pytest.raises(BrokerError, match="topic 'nowhere' does not exist"):
            producer.send_batch(None, after_first("t", "nowhere"))
        with pytest.raises(ConfigError, match="row 1: its partition does not exist; topic 'u' has 0 to 0"):
            producer.send_batch(None, table("t", "u", partition=[1, 1]))
        with pytest.raises(ProtocolError, match="row 2: a timestamp out of range"):
            producer.send_batch(None, table("t", "w", "w", timestamp=pa.array([1, 2, 1 << 62], pa.timestamp("s"))))
        with pytest.raises(ConfigError, match="topic"):
            producer.send_batch(None, table(""))
        with pytest.raises(ConfigError, match="no topic: name one for all rows, or give the table a column 'topic'"):
            producer.send_batch(None, pa.table({"value": [b"v"]}))
        with pytest.raises(ConfigError, match="row 0: its topic is not UTF-8"):
            producer.send_batch(None, pa.table({"value": [b"v"], "topic": [b"\xff"]}))
        with pytest.raises(ConfigError, match="column 'topic' must be"):
            producer.send_batch(None, pa.table({"value": [b"v"], "topic": [5]}))
        producer.flush(10)
        assert broker.values("u") == [b"1", b"2"] * 2
        assert producer.send_batch(None, table()).result(10) == []
