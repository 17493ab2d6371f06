"""`Consumer` and `AsyncConsumer`, and scans, by one body, in the simulated world."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import json
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.consumer.core import ConsumerCore
from kafwire.errors import BrokerError, ConfigError, KafkaError
from kafwire.records import Record, encode_batch
from kafwire.testing.simulation.calls import NEVER
from kafwire.types import Offset, TopicPartition
from tests.support.simulated.consumer import fill, log_of, write
from tests.support.simulated.flavours import Flavour, never, rows
from tests.support.simulated.world import World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("poll", ()),
    ("batches", ()),
    ("__iter__", ()),
    ("partition_stream", (T0,)),
    ("arrow_stream", ()),
    ("assign", ([T0],)),
    ("subscribe", ("t",)),
    ("unsubscribe", ()),
    ("seek", (T0, 1)),
    ("seek_to_timestamp", (0,)),
    ("seek_to_beginning", ()),
    ("seek_to_end", ()),
    ("pause", (T0,)),
    ("resume", (T0,)),
    ("position", (T0,)),
    ("offsets_for_times", ({T0: 0},)),
    ("partitions_for", ("t",)),
    ("beginning_offsets", ()),
    ("end_offsets", ()),
    ("lag", ()),
    ("lag", (T0,)),
    ("high_watermark", (T0,)),
    ("commit", ()),
    ("commit", ({T0: 3},)),
    ("committed", ()),
    ("processed", ()),
    ("metrics", ()),
]


def called(flavour: Flavour, consumer: Any, method: str, args: tuple[Any, ...]) -> None:
    """Make a call; what it gives is begun, if it is to be iterated over."""
    if method == "__iter__" and not flavour.blocks:
        method = "__aiter__"
    said = getattr(consumer, method)(*args)
    if hasattr(said, "__anext__") or hasattr(said, "__next__"):
        flavour.some(said, 1)
    else:
        flavour.get(said)


@pytest.mark.parametrize(("method", "args"), CALLS)
def test_a_closed_consumer_refuses(flavour: Flavour, method: str, args: tuple[Any, ...]) -> None:
    fill(flavour.world, "t")
    consumer = flavour.consumer(assign=[T0], group_id="g", start="earliest")
    flavour.get(consumer.close())
    flavour.world.pass_time(1)
    before = len(flavour.world.calls)
    with pytest.raises(KafkaError, match="this consumer is closed"):
        called(flavour, consumer, method, args)
    assert len(flavour.world.calls) == before


@pytest.mark.parametrize(("method", "args"), CALLS)
def test_a_consumer_from_before_a_fork_refuses(flavour: Flavour, method: str, args: tuple[Any, ...]) -> None:
    fill(flavour.world, "t")
    consumer = flavour.consumer(assign=[T0], group_id="g", start="earliest")
    before = len(flavour.world.calls)
    flavour.engine.forked = True
    with pytest.raises(KafkaError, match="before a fork"):
        called(flavour, consumer, method, args)
    assert len(flavour.world.calls) == before


@pytest.fixture
def filled(flavour: Flavour) -> Any:
    return fetched(flavour)


def fetched(flavour: Flavour) -> Any:
    """A consumer of two partitions with two batches of three records each, and all of it fetched."""
    fill(flavour.world, "t", partitions=2, batches=2, records=3)
    consumer = flavour.consumer(assign=[T0, T1], group_id="g", start="earliest", chunk_bytes=1)
    assert flavour.get(consumer.poll()) == []
    flavour.world.pass_time(1)
    return consumer


def committed(flavour: Flavour) -> dict[int, int]:
    return {where[1]: kept.offset for where, kept in flavour.world.committed.get("g", {}).items()}


def test_poll_gives_all_that_is_there(flavour: Flavour, filled: Any) -> None:
    found = flavour.get(filled.poll())
    assert rows(found) == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}
    assert [batch.partition for batch in found].count(0) == 2
    assert flavour.get(filled.poll()) == []
    assert flavour.get(filled.position(T0)) == 6


@pytest.mark.parametrize(("limit", "value"), [("POLL_BATCHES", 3), ("POLL_BYTES", 1)])
def test_poll_gives_no_more_than_it_should(
    flavour: Flavour, filled: Any, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    module = "kafwire.sync.batch_reader" if flavour.blocks else "kafwire.aio.consumer"
    monkeypatch.setattr(f"{module}.{limit}", value)
    assert len(flavour.get(filled.poll())) == value
    assert len(flavour.get(filled.poll())) == min(value, 4 - value)


class Interruptible:
    """A reader that is interrupted when it has given as many batches as `left` says."""

    left: list[int]

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def read(self, *timeout_ms: int) -> Any:
        if self.left == [0]:
            raise KeyboardInterrupt
        self.left[:] = [left - 1 for left in self.left]
        return self._reader.read(*timeout_ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def test_an_interrupted_poll_loses_nothing(flavour: Flavour, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ConsumerCore.reader
    monkeypatch.setattr(ConsumerCore, "reader", lambda *args, **named: Interruptible(reader(*args, **named)))
    monkeypatch.setattr(Interruptible, "left", [], raising=False)
    consumer = fetched(flavour)
    Interruptible.left.append(2)
    with pytest.raises(KeyboardInterrupt):
        flavour.get(consumer.poll())
    Interruptible.left.clear()
    found: list[Any] = []
    for _ in range(5):
        found += flavour.get(consumer.poll())
        flavour.world.pass_time(1)
    assert rows(found) == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}


def test_the_engine_is_asked_to_fetch_once(flavour: Flavour, filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filled._core.assignment, "ask", never)
    assert len(flavour.get(filled.poll())) == 4
    assert flavour.get(filled.poll()) == []


def test_poll_waits_for_the_first(flavour: Flavour) -> None:
    fill(flavour.world, "t", batches=1, records=3)
    consumer = flavour.consumer(topics="t", start="latest")
    assert flavour.get(consumer.poll()) == []
    if flavour.blocks:
        flavour.world.pass_time(1)
    else:
        flavour.world.loop.call_later(3, lambda: write(flavour.world, "t"))
        began = flavour.world.loop.time()
        assert rows(flavour.get(consumer.poll(10))) == {0: [3]}
        assert 3 <= flavour.world.loop.time() - began < 4
        began = flavour.world.loop.time()
        assert flavour.get(consumer.poll(2)) == []
        assert 2 <= flavour.world.loop.time() - began < 2.1
    with pytest.raises(ConfigError, match="timeout=-1"):
        flavour.get(consumer.poll(-1))


def test_batches_end_when_none_come(flavour: Flavour, filled: Any) -> None:
    found = flavour.all(filled.batches(timeout=0))
    assert [len(batch) for batch in found] == [3] * 4
    flavour.get(filled.commit())
    assert committed(flavour) == {0: 6, 1: 6}, "the last one too: another was asked for"


def test_a_batch_is_processed_when_the_next_is_asked_for(flavour: Flavour, filled: Any) -> None:
    batches = filled.batches(timeout=0)
    flavour.some(batches, 1)
    assert filled.processed() == {T0: 0, T1: 0}
    [second] = flavour.some(batches, 1)
    assert sum(filled.processed().values()) == 3
    flavour.get(filled.commit(second))
    assert committed(flavour)[second.partition] == second.next_offset


def test_a_consumer_without_partitions_reads_nothing(flavour: Flavour) -> None:
    fill(flavour.world, "t")
    consumer = flavour.consumer()
    for method in ("poll", "batches", "arrow_stream"):
        with pytest.raises(KafkaError, match="nothing is read by this consumer"):
            called(flavour, consumer, method, ())
    flavour.get(consumer.assign(iter([T0])))
    assert consumer.assignment == {T0}


def test_an_assignment_to_offsets_is_refused_with_the_lines_to_write(flavour: Flavour) -> None:
    fill(flavour.world, "t")
    consumer = flavour.consumer(assign=[T0])
    offsets: Any = {T0: 5}
    with pytest.raises(ConfigError, match=r"the mapping .* write assign\(list\(offsets\)\), then seek for each"):
        flavour.get(consumer.assign(offsets))
    assert consumer.assignment == {T0}
    with pytest.raises(ConfigError, match=r"write assign=list\(offsets\), start=offsets"):
        flavour.consumer(assign=offsets)


@pytest.mark.parametrize("value", ["t", ["t"], [("t",)], [("t", "0")], [(0, "t")], None])
@pytest.mark.parametrize("method", ["assign", "pause", "partition_stream", "seek"])
def test_partitions_are_checked_before_the_call_begins(flavour: Flavour, method: str, value: Any) -> None:
    fill(flavour.world, "t")
    consumer = flavour.consumer(assign=[T0])
    before = len(flavour.world.calls)
    with pytest.raises(ConfigError, match=r"TopicPartition\(topic, partition\)"):
        called(flavour, consumer, method, (value, 1) if method == "seek" else (value,))
    assert consumer.assignment == {T0}
    assert len(flavour.world.calls) == before


def test_assign_takes_no_single_partition(flavour: Flavour) -> None:
    fill(flavour.world, "t")
    consumer = flavour.consumer(assign=[T0])
    with pytest.raises(ConfigError, match=r"write \[partition\]"):
        flavour.get(consumer.assign(T0))


def test_a_record_counts_as_processed_when_the_next_is_asked_for(flavour: Flavour) -> None:
    fill(flavour.world, "t", batches=2, records=3)
    consumer = flavour.consumer(assign=[T0], group_id="g", start="earliest", enable_auto_commit=False)
    flavour.get(consumer.poll())
    flavour.world.pass_time(1)
    records = iter(consumer) if flavour.blocks else aiter(consumer)
    assert [record.offset for record in flavour.some(records, 2)] == [0, 1]
    assert consumer.processed() == {T0: 1}
    assert flavour.get(consumer.position(T0)) == 2
    assert consumer.lag(T0) == 4
    assert consumer.lag() == {T0: 4}
    flavour.get(consumer.commit({T0: 1}))
    assert [record.offset for record in flavour.some(records, 1)] == [2]
    assert flavour.get(consumer.position(T0)) == 3
    assert consumer.processed() == {T0: 2}
    assert [record.offset for record in flavour.some(records, 2)] == [3, 4]
    assert flavour.get(consumer.committed()) == {T0: 1}


@pytest.mark.parametrize(
    "way", ["poll", "batches", "stream", "pause", "assign", "subscribe", "arrow", "seek", "seek_to_end"]
)
def test_the_rest_of_a_batch_comes_again_by_another_way(flavour: Flavour, way: str) -> None:
    fill(flavour.world, "t", partitions=2, batches=1, records=5)
    consumer = flavour.consumer(topics="t", start="earliest")
    flavour.get(consumer.pause(T1))
    flavour.get(consumer.poll())
    flavour.world.pass_time(1)
    records = iter(consumer) if flavour.blocks else aiter(consumer)
    assert [record.offset for record in flavour.some(records, 2)] == [0, 1]
    expected = [2, 3, 4]
    if way == "batches":
        assert flavour.all(consumer.batches(timeout=0)) == []
    elif way == "stream":
        assert flavour.all(consumer.partition_stream(T0, timeout=0)) == []
    elif way == "pause":
        flavour.get(consumer.pause(T0))
        assert flavour.get(consumer.poll()) == []
        flavour.get(consumer.resume(T0))
    elif way == "assign":
        flavour.get(consumer.assign([T0]))
    elif way == "subscribe":
        flavour.get(consumer.subscribe(["t"]))
    elif way == "seek":
        flavour.get(consumer.seek(T0, 4))
        expected = [4]
    elif way == "seek_to_end":
        flavour.get(consumer.seek_to_end(T1))
    elif way == "arrow":
        flavour.get(consumer.arrow_stream(timeout=0))
        assert flavour.get(consumer.position(T0)) == 2
    else:
        assert flavour.get(consumer.poll()) == []
    if way == "seek_to_end":  # of another partition: it stays in hand
        assert [record.offset for record in flavour.some(records, 3)] == expected
        return
    flavour.world.pass_time(1)
    assert rows(flavour.get(consumer.poll())) == {0: expected}


def test_the_rest_in_hand_is_dropped_with_its_partition(flavour: Flavour) -> None:
    fill(flavour.world, "t", partitions=2, batches=1, records=5)
    for leave in ("unsubscribe", "assign"):
        consumer = flavour.consumer(assign=[T0], start="earliest")
        flavour.get(consumer.poll())
        flavour.world.pass_time(1)
        records = iter(consumer) if flavour.blocks else aiter(consumer)
        flavour.some(records, 2)
        flavour.get(consumer.unsubscribe() if leave == "unsubscribe" else consumer.assign([T1]))
        flavour.get(consumer.assign([T1]))
        assert flavour.get(consumer.poll()) == []
        flavour.world.pass_time(1)
        records = iter(consumer) if flavour.blocks else aiter(consumer)
        assert [(record.partition, record.offset) for record in flavour.some(records, 2)] == [(1, 0), (1, 1)]


def test_a_partitions_stream_has_it_alone(flavour: Flavour, filled: Any) -> None:
    stream = filled.partition_stream(T1, timeout=0)
    [first] = flavour.some(stream, 1)
    assert (first.partition, first.base_offset) == (1, 0)
    other = filled.partition_stream(T1, timeout=0) if not flavour.blocks else None
    with pytest.raises(KafkaError, match="has a stream already"):
        if other is None:
            filled.partition_stream(T1)
        else:
            flavour.some(other, 1)
    assert set(rows(flavour.get(filled.poll()))) == {0}
    if flavour.blocks:
        stream.close()
        assert list(stream) == []
    else:
        flavour.world.run(stream.aclose())
    flavour.world.pass_time(1)
    assert rows(flavour.get(filled.poll())) == {1: [3, 4, 5]}
    again = filled.partition_stream(T1, timeout=0)
    assert flavour.all(again) == [], "it ends, and lets go"
    flavour.all(filled.partition_stream(T1, timeout=0))


def test_an_arrow_stream_has_all(flavour: Flavour, filled: Any) -> None:
    stream = flavour.get(filled.arrow_stream(timeout=0))
    table = pa.RecordBatchReader.from_stream(stream).read_all()
    assert sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == [
        (partition, offset) for partition in (0, 1) for offset in range(6)
    ]
    with pytest.raises(ConfigError, match="timeout='x'"):
        flavour.get(filled.arrow_stream(timeout="x"))


def test_positions_are_sought(flavour: Flavour, filled: Any) -> None:
    flavour.get(filled.seek(T0, 4))
    assert flavour.get(filled.position(T0)) == 4
    assert flavour.get(filled.position(T1)) == 0
    assert flavour.get(filled.seek_to_end(T0)) == {T0: 6}
    assert flavour.get(filled.seek_to_beginning(T0)) == {T0: 0}
    assert flavour.get(filled.seek_to_end()) == {T0: 6, T1: 6}
    assert (flavour.get(filled.position(T0)), flavour.get(filled.position(T1))) == (6, 6)
    assert flavour.get(filled.seek_to_beginning()) == {T0: 0, T1: 0}
    later = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    assert flavour.get(filled.seek_to_timestamp(later, iter([T1]))) == {T1: 6}
    assert flavour.get(filled.position(T0)) == 0
    flavour.world.pass_time(1)
    assert rows(flavour.get(filled.poll())) == {0: [0, 1, 2, 3, 4, 5]}
    with pytest.raises(ConfigError, match="u-0 is not read by this consumer"):
        flavour.get(filled.seek(TopicPartition("u", 0), 1))


def test_offsets_of_the_leaders(flavour: Flavour, filled: Any) -> None:
    fill(flavour.world, "u", batches=1, records=2)
    u0 = TopicPartition("u", 0)
    log_of(flavour.world).delete_before(3)
    assert flavour.get(filled.beginning_offsets()) == {T0: 3, T1: 0}
    assert flavour.get(filled.end_offsets()) == {T0: 6, T1: 6}
    assert flavour.get(filled.beginning_offsets(iter([u0]))) == {u0: 0}
    assert flavour.get(filled.end_offsets(iter([u0]))) == {u0: 2}
    later = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    log_of(flavour.world, "u").append(encode_batch([Record(b"v", timestamp_ms=5_000)]))
    assert flavour.get(filled.offsets_for_times({u0: 4_000, T0: later})) == {u0: 2, T0: None}
    assert flavour.get(filled.partitions_for("u")) == {0}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        flavour.get(filled.partitions_for("nowhere"))


def test_lag_and_the_end_need_no_request(flavour: Flavour, filled: Any) -> None:
    before = len(flavour.world.calls)
    assert filled.lag() == {T0: 6, T1: 6}
    assert filled.lag(T1) == 6
    assert filled.high_watermark(T0) == 6
    assert len(flavour.world.calls) == before
    flavour.get(filled.poll())
    assert filled.lag() == {T0: 0, T1: 0}


def test_json_carries_the_metrics(flavour: Flavour, filled: Any) -> None:
    flavour.get(filled.poll())
    metrics = flavour.get(filled.metrics())
    assert metrics["partitions"].keys() == {"t-0", "t-1"}
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


def test_a_topic_is_subscribed_to_and_left(flavour: Flavour) -> None:
    fill(flavour.world, "t", partitions=2, batches=1, records=2)
    fill(flavour.world, "u", batches=1, records=2)
    consumer = flavour.consumer(topics="t", start="earliest")
    assert (consumer.subscription, consumer.assignment) == ({"t"}, {T0, T1})
    flavour.get(consumer.subscribe("u"))
    assert (consumer.subscription, consumer.assignment) == ({"u"}, {TopicPartition("u", 0)})
    flavour.get(consumer.unsubscribe())
    assert (consumer.subscription, consumer.assignment) == (set(), set())
    with pytest.raises(ConfigError, match="topics: a name or a list"):
        flavour.get(consumer.subscribe(5))
    assert set(flavour.get(consumer.metrics())["partitions"]) == set()


def test_offsets_are_committed_by_hand(flavour: Flavour, filled: Any) -> None:
    flavour.get(filled.commit({T0: 2}))
    assert committed(flavour) == {0: 2}
    assert flavour.get(filled.committed()) == {T0: 2, T1: None}
    assert flavour.get(filled.committed(iter([T1]))) == {T1: None}
    assert filled.group_metadata().group_id == "g"
    with pytest.raises(ConfigError, match="a number from 0"):
        flavour.get(filled.commit({T0: -1}))
    stranger = flavour.consumer(topics="t")
    for call in (stranger.commit, stranger.committed, stranger.group_metadata):
        with pytest.raises(ConfigError, match="a group_id is needed"):
            flavour.get(call())


def test_a_paused_partition_is_left_out(flavour: Flavour, filled: Any) -> None:
    flavour.get(filled.pause(T0))
    assert filled.paused == {T0}
    flavour.get(filled.pause())
    assert filled.paused == {T0}
    assert set(rows(flavour.get(filled.poll()))) == {1}
    flavour.get(filled.resume(T0))
    assert filled.paused == set()
    assert rows(flavour.get(filled.poll())) == {0: [0, 1, 2, 3, 4, 5]}


# --- the end


def test_a_close_commits_processed_records_once(flavour: Flavour, filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert flavour.enter(filled) is filled
    records = iter(filled) if flavour.blocks else aiter(filled)
    flavour.some(records, 2)
    flavour.leave(filled)
    assert sum(committed(flavour).values()) == 1, "the second one was not seen to be done"
    flavour.world.pass_time(2)
    assert all(connection.closed for connection in flavour.world.connections)
    assert "closed" in repr(filled)
    monkeypatch.setattr(flavour.engine, "run", never)
    monkeypatch.setattr(flavour.engine, "start", never)
    flavour.get(filled.close())


def test_a_close_waits_for_its_commit_as_long_as_it_may(flavour: Flavour, filled: Any) -> None:
    flavour.get(filled.poll())
    flavour.get(filled.poll())
    flavour.world.on("OffsetCommit", lambda _: NEVER)
    began = flavour.world.loop.time()
    flavour.get(filled.close(4.0))
    assert 3.9 < flavour.world.loop.time() - began < 5.5


@pytest.mark.parametrize("over", ["forked", "ended"])
def test_a_close_in_a_fork_or_at_the_end_leaves_all_alone(flavour: Flavour, filled: Any, over: str) -> None:
    setattr(flavour.engine, over, True)
    flavour.get(filled.close())
    flavour.world.pass_time(1)
    assert any(not connection.closed for connection in flavour.world.connections)
    assert "closed" not in repr(filled)


def test_a_consumer_that_is_dropped_says_so_and_closes(flavour: Flavour) -> None:
    fill(flavour.world, "t", batches=1)
    consumer = flavour.consumer(topics="t", start="earliest")
    flavour.get(consumer.poll())
    flavour.world.pass_time(1)
    del consumer
    with pytest.warns(ResourceWarning, match="never closed: <"):
        flavour.drop()
    flavour.world.pass_time(2)
    assert all(connection.closed for connection in flavour.world.connections)


def test_one_that_was_closed_or_never_began_is_dropped_without_a_word(flavour: Flavour) -> None:
    fill(flavour.world, "t", batches=1)
    consumer = flavour.consumer(topics="t")
    flavour.get(consumer.close())
    made = (
        None
        if flavour.blocks
        else flavour.class_of("consumer")(flavour.world.bootstrap, topics="t", engine=flavour.engine)
    )
    del consumer, made
    flavour.drop()  # a warning is an error


def test_one_that_cannot_start_is_closed(flavour: Flavour) -> None:
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        if flavour.blocks:
            flavour.class_of("consumer")(flavour.world.bootstrap, topics="nowhere", engine=flavour.engine)
        else:
            flavour.enter(
                flavour.class_of("consumer")(flavour.world.bootstrap, topics="nowhere", engine=flavour.engine)
            )
    flavour.world.pass_time(2)
    assert flavour.world.connections
    assert all(connection.closed for connection in flavour.world.connections)
    flavour.drop()


def test_options_in_kafkas_spelling(flavour: Flavour) -> None:
    fill(flavour.world, "t", batches=1, records=2)
    options = {"bootstrap.servers": flavour.world.bootstrap, "topics": ["t"], "auto.offset.reset": "earliest"}
    consumer = flavour.class_of("consumer").from_config(options, engine=flavour.engine)
    flavour.made.append(consumer)
    if not flavour.blocks:
        assert not flavour.world.calls
    for _ in range(1 if flavour.blocks else 2):  # the first of an AsyncConsumer begins to connect, and returns at once
        flavour.get(consumer.poll())
        flavour.world.pass_time(1)
    assert rows(flavour.get(consumer.poll())) == {0: [0, 1]}


# --- only awaited


@pytest.mark.parametrize("flavour", ["aio"], indirect=True)
def test_one_task_reads_at_a_time(flavour: Flavour, filled: Any) -> None:
    flavour.get(filled.poll())

    async def both() -> None:
        first = asyncio.ensure_future(filled.poll(5))
        await asyncio.sleep(0.1)
        with pytest.raises(KafkaError, match="read by one task at a time"):
            await filled.poll()
        assert await first == []
        assert await filled.poll() == []

    flavour.world.run(both())


@pytest.mark.parametrize("flavour", ["aio"], indirect=True)
def test_a_consumer_starts_once_at_the_first_call(flavour: Flavour) -> None:
    fill(flavour.world, "t", batches=1)
    consumer = flavour._make("consumer", topics="t", start={T0: Offset(1)})
    flavour.world.pass_time(1)
    assert not flavour.world.calls
    assert consumer.assignment == set()

    async def together() -> None:
        await asyncio.gather(consumer.position(T0), consumer.end_offsets(), consumer.start())

    flavour.world.run(together())
    assert consumer.assignment == {T0}
    assert len([call for call in flavour.world.made("Metadata") if call.message.topics]) == 1
    assert flavour.get(consumer.position(T0)) == 1


# --- scans


def test_a_scan_has_everything_once(flavour: Flavour) -> None:
    fill(flavour.world, "t", partitions=2, batches=2, records=3)
    client = flavour.client()
    scan = flavour.get(client.scan("t"))
    assert flavour.enter(scan) is scan
    scan._start()
    flavour.world.pass_time(1)
    assert rows(flavour.all(scan.batches())) == {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}
    flavour.leave(scan)
    assert flavour.all(scan.batches()) == []


def test_a_scan_that_is_closed_reads_no_more(flavour: Flavour) -> None:
    fill(flavour.world, "t", batches=2, records=3)
    scan = flavour.get(flavour.client().scan("t"))
    flavour.get(scan.close())
    assert flavour.all(scan.batches()) == []
    flavour.world.pass_time(1)
    assert not flavour.world.made("Fetch")


# --- what programs of other clients write


@pytest.mark.parametrize("topics", ["t", ["t", "u"]])
def test_topics_come_after_the_servers(flavour: Flavour, topics: Any) -> None:
    for name in ("t", "u"):
        fill(flavour.world, name)
    consumer = flavour._make("consumer", topics)
    assert flavour.get(consumer.poll()) == []
    assert consumer.subscription == {"t", "u"}.intersection([topics] if isinstance(topics, str) else topics)


@pytest.mark.parametrize(
    ("topics", "shown"), [(["t"], "'t'"), (["t", "u"], r"\['t', 'u'\]"), (["a@h:1"], r"'\*\*\*@h:1'")]
)
@pytest.mark.parametrize("name", ["Consumer", "AsyncConsumer", "ShareConsumer", "AsyncShareConsumer"])
def test_topics_before_the_servers_are_an_error_with_the_line(name: str, topics: list[str], shown: str) -> None:
    with pytest.raises(ConfigError, match=rf"write {name}\(bootstrap_servers, topics={shown}\)"):
        getattr(kafwire, name)(*topics, bootstrap_servers="127.0.0.1:1")
    if len(topics) > 1:
        with pytest.raises(ConfigError, match=rf"write {name}\(bootstrap_servers, topics={shown}\)"):
            getattr(kafwire, name)("127.0.0.1:1", *topics)


def test_the_order_of_arguments_does_not_hide_the_signature() -> None:
    class Mine(kafwire.Consumer):
        def __init__(self, topic: str, bootstrap_servers: str) -> None:
            super().__init__(bootstrap_servers, topic)

    assert list(inspect.signature(kafwire.Consumer).parameters)[:3] == ["bootstrap_servers", "topics", "pattern"]
    assert list(inspect.signature(Mine).parameters) == ["topic", "bootstrap_servers"]
    with pytest.raises(KafkaError, match="option default_api_timeout_ms|within"):
        kafwire.Consumer(bootstrap_servers="127.0.0.1:1", topics="t", default_api_timeout_ms=1)
    with pytest.raises(TypeError, match="bootstrap_servers"):
        kafwire.Consumer(topics="t")  # type: ignore[call-arg]


def test_properties_say_so_when_they_are_called(flavour: Flavour, filled: Any) -> None:
    for name in ("assignment", "subscription", "paused"):
        with pytest.raises(TypeError, match=f"{name} is a property, not a method: write consumer.{name}"):
            getattr(filled, name)()


def test_a_loop_over_records_ends_after_the_consumer_timeout_and_another_goes_on() -> None:
    with World() as world:
        fill(world, "t", records=3)
        with kafwire.Consumer(
            world.bootstrap, "t", start="earliest", consumer_timeout_ms=3000, engine=world.engine
        ) as consumer:
            assert [record.offset for record in consumer] == list(range(log_of(world).end))
            before = world.engine.now_ms()
            assert list(consumer) == []
            assert world.engine.now_ms() - before == pytest.approx(3000, abs=50)
            ((_, value),) = write(world, "t")
            assert [record.value for record in consumer] == [value]
            assert consumer.poll() == [], "the time of a poll is its own"


def test_an_async_consumer_says_that_it_has_no_consumer_timeout(caplog: pytest.LogCaptureFixture) -> None:
    consumer = kafwire.AsyncConsumer("127.0.0.1:1", "t", consumer_timeout_ms=200)
    assert caplog.messages == ["consumer_timeout_ms has no effect here: batches(timeout=seconds) ends after a silence"]
    del consumer


def test_stop_is_not_awaited() -> None:
    with World() as world:
        fill(world, "t")

        async def main() -> None:
            consumer = kafwire.AsyncConsumer(world.bootstrap, "t", engine=world.engine)
            await consumer.start()
            with pytest.raises(TypeError, match="write `await consumer.close\\(\\)`"):
                await consumer.stop()  # type: ignore[func-returns-value, misc]
            assert not consumer.stop()  # type: ignore[func-returns-value]
            await consumer.close()

        world.run(main())


@pytest.mark.parametrize("timeout", ["soon", -1, None])
def test_a_close_with_a_wrong_timeout_leaves_the_consumer_open(flavour: Flavour, timeout: Any) -> None:
    fill(flavour.world, "t")
    consumer = flavour.consumer(topics="t", start="earliest")
    with pytest.raises(ConfigError, match="seconds"):
        flavour.get(consumer.close(timeout))
    assert flavour.get(consumer.partitions_for("t")) == {0}
