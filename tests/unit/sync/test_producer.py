"""`Producer` and `AsyncProducer`, by one body, in the simulated world."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    PurgedError,
    TransactionAbortedError,
    TransactionStateError,
)
from kafwire.producer.transaction_state import State
from kafwire.records import decode_batches
from kafwire.types import ConsumerGroupMetadata, TopicPartition
from tests.support.simulated_consumer import log_of
from tests.support.simulated_flavours import Face, never
from tests.support.simulated_log import NEVER, Call
from tests.support.simulated_transactions import committed_values

T0 = TopicPartition("t", 0)
TABLE = pa.table({"value": [b"a", b"b", b"c"]})
TO_BOTH = pa.table({"topic": ["t", "u", "t"], "value": [b"a", b"b", b"c"]})

CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("send", ("t", b"v")),
    ("send_batch", ("t", TABLE)),
    ("send_batch", (None, TO_BOTH)),
    ("flush", ()),
    ("purge", ()),
    ("transaction", ()),
    ("init_transactions", ()),
    ("begin_transaction", ()),
    ("commit_transaction", ()),
    ("abort_transaction", ()),
    ("send_offsets", ({T0: 5}, "g")),
    ("partitions_for", ("t",)),
    ("metrics", ()),
]
TRANSACTIONAL = [call for call in CALLS if "transaction" in call[0] or call[0] == "send_offsets"]


def silent(_: Call) -> Any:
    return NEVER


@pytest.fixture
def face(face: Face) -> Face:
    face.world.create_topic("t", partitions=2)
    face.world.create_topic("u")
    return face


@pytest.mark.parametrize(("method", "args"), CALLS)
@pytest.mark.parametrize("known", [True, False])
def test_a_closed_producer_refuses(face: Face, method: str, args: tuple[Any, ...], *, known: bool) -> None:
    producer = face.producer(transactional_id="x" if ((method, args) in TRANSACTIONAL) else None)
    if known and (method, args) not in TRANSACTIONAL:
        face.get(producer.send_batch(None, TO_BOTH))
    face.get(producer.close())
    before = len(face.world.calls)
    with pytest.raises(KafkaError, match="this producer is closed"):
        face.get(getattr(producer, method)(*args))
    assert len(face.world.calls) == before


@pytest.mark.parametrize(("method", "args"), [call for call in CALLS if call[0] != "send"])
def test_a_producer_from_before_a_fork_refuses(face: Face, method: str, args: tuple[Any, ...]) -> None:
    producer = face.producer(transactional_id="x")
    face.engine.forked = True
    with pytest.raises(KafkaError, match="before a fork"):
        face.get(getattr(producer, method)(*args))
    assert not face.world.calls


@pytest.mark.parametrize(("method", "args"), TRANSACTIONAL)
def test_transactions_need_an_id(face: Face, method: str, args: tuple[Any, ...]) -> None:
    producer = face.producer()
    with pytest.raises(ConfigError, match="transactions need a transactional_id"):
        face.get(getattr(producer, method)(*args))


def test_records_go_where_and_as_they_are_said(face: Face) -> None:
    producer = face.producer()
    headers = iter([("a", b"1"), ("b", None)])
    first = face.get(producer.send("t", b"v", key=b"k", headers=headers, timestamp_ms=77, partition=1))
    face.get(producer.send("t", None, partition=1))
    meta = face.outcome(first)
    assert (meta.topic, meta.partition, meta.offset, meta.timestamp_ms) == ("t", 1, 0, 77)
    face.get(producer.flush())
    record = decode_batches(log_of(face.world, "t", 1).batches[0].data)[0][0]
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 77)
    assert list(record.headers) == [("a", b"1"), ("b", None)]
    assert log_of(face.world, "t", 1).values() == [b"v", None]


def test_a_topic_that_is_new_is_looked_up_once_and_for_no_longer_than_it_may(face: Face) -> None:
    producer = face.producer(max_block_ms=3_000)
    face.get(producer.send("t", b"1"))
    face.get(producer.send("t", b"2"))
    asked = [call for call in face.world.made("Metadata") if call.message.topics]
    assert [[topic.name for topic in call.message.topics] for call in asked] == [["t"]]
    with pytest.raises(KafkaError):
        face.get(producer.send("nowhere", b"3"))
    with pytest.raises(KafkaError):
        face.get(producer.send_batch("nowhere", TABLE))
    with pytest.raises(KafkaError):
        face.get(producer.send_batch(None, pa.table({"topic": ["t", "nowhere"], "value": [b"a", b"b"]})))


@pytest.mark.parametrize("topic", [b"t", "", 5])
def test_what_is_no_topic_is_refused(face: Face, topic: Any) -> None:
    producer = face.producer()
    with pytest.raises(ConfigError, match="a topic's name is needed"):
        face.get(producer.send(topic, b"v"))
    with pytest.raises(ConfigError, match="a topic's name is needed"):
        face.get(producer.send_batch(topic, TABLE))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"partition": "0"}, "partition='0'"),
        ({"timestamp_ms": "now"}, "timestamp_ms='now'"),
        ({"timestamp_ms": 1 << 63}, "timestamp_ms=9223372036854775808"),
        ({"headers": 5}, "headers=5"),
        ({"value": 5}, "the value must be bytes-like or None, not int"),
    ],
)
def test_an_argument_of_no_use_is_named(face: Face, arguments: dict[str, Any], told: str) -> None:
    producer = face.producer()
    face.get(producer.send("t", b"first"))
    for topic in ("t", "u"):
        with pytest.raises(ConfigError, match=told):
            face.get(producer.send(topic, **arguments))
    if "partition" in arguments:
        with pytest.raises(ConfigError, match=told):
            face.get(producer.send_batch("t", TABLE, partition="0"))


def test_rows_of_one_topic_and_of_several(face: Face) -> None:
    producer = face.producer()
    one = face.get(producer.send_batch("t", TABLE, partition=1))
    assert len(one) == 3
    assert face.outcome(one) == [("t", 1, 0, 3)]
    both = face.get(producer.send_batch(None, TO_BOTH, partition=0))
    assert sorted(face.outcome(both)) == [("t", 0, 0, 2), ("u", 0, 0, 1)]
    assert log_of(face.world, "t", 1).values() == [b"a", b"b", b"c"]
    assert log_of(face.world, "t", 0).values() == [b"a", b"c"]
    assert log_of(face.world, "u", 0).values() == [b"b"]


def test_a_large_table_goes_through_a_thread_and_comes_whole(face: Face) -> None:
    values = [b"%06d" % number * 50 for number in range(2_000)]
    producer = face.producer(batch_size=100_000)
    delivery = face.get(producer.send_batch("u", pa.table({"value": values})))
    assert [(topic, part, first, count) for topic, part, first, count in face.outcome(delivery)] == [("u", 0, 0, 2000)]
    assert log_of(face.world, "u").values() == values


def test_a_topic_that_was_forgotten_is_learnt_again(face: Face) -> None:
    producer = face.producer(metadata_max_idle_ms=5_000, metadata_max_age_ms=1_000)
    face.get(producer.send_batch("t", TABLE, partition=0))
    face.get(producer.flush())
    face.world.pass_time(60)
    face.get(producer.send("u", b"another"))
    face.world.pass_time(60)
    assert "t" not in producer._accumulator.topics
    face.get(producer.send_batch("t", TABLE, partition=0))
    face.get(producer.flush())
    assert log_of(face.world).values() == [b"a", b"b", b"c"] * 2


def test_no_room_is_told_in_time(face: Face) -> None:
    producer = face.producer(buffer_memory=20_000, batch_size=1_000, max_block_ms=60, linger_ms=0)
    face.get(producer.send("t", b"known"))
    face.get(producer.flush())
    face.world.on("Produce", silent)
    with pytest.raises(KafkaTimeoutError, match="no room in buffer_memory .20000 bytes. within max_block_ms .60"):
        for _ in range(100):
            face.get(producer.send("t", b"v" * 900))
    with pytest.raises(KafkaTimeoutError, match="no room") as caught:
        face.get(producer.send_batch("t", pa.table({"value": [b"v" * 900] * 100})))
    assert caught.value.delivery is not None
    face.world.off("Produce")
    with pytest.raises(KafkaTimeoutError, match="the producer was closed with .* not acknowledged"):
        face.get(producer.close(0.0))


def test_flush_sends_at_once_and_waits_for_the_outcome(face: Face) -> None:
    producer = face.producer(linger_ms=50_000)
    delivery = face.get(producer.send("t", b"v", partition=0))
    face.world.pass_time(1)
    assert not face.world.made("Produce")
    assert not delivery.done()
    began = face.world.loop.time()
    face.get(producer.flush())
    assert delivery.done()
    assert face.world.loop.time() - began < 1
    face.world.on("Produce", silent)
    face.get(producer.send("t", b"late", partition=0))
    began = face.world.loop.time()
    with pytest.raises(KafkaTimeoutError, match="within 2 s.*t-0"):
        face.get(producer.flush(2.0))
    assert 1.9 < face.world.loop.time() - began < 2.1
    face.world.off("Produce")
    face.world.break_connections(1)
    face.world.break_connections(2)


def test_purge_gives_up_what_was_not_sent_or_all(face: Face) -> None:
    producer = face.producer(linger_ms=50_000, request_timeout_ms=5_000)
    waiting = face.get(producer.send("t", b"v", partition=0))
    assert face.get(producer.purge()) == 1
    with pytest.raises(PurgedError):
        face.outcome(waiting)
    face.get(producer.send("t", b"first", partition=0))
    face.get(producer.flush())
    face.world.on("Produce", silent)
    flying = face.get(producer.send("t", b"v", partition=0))
    with pytest.raises(KafkaTimeoutError):
        face.get(producer.flush(0.5))
    assert face.get(producer.purge()) == 0
    assert not flying.done()
    assert face.get(producer.purge(in_flight=True)) == 1
    with pytest.raises(PurgedError):
        face.outcome(flying)
    face.world.off("Produce")


def test_partitions_and_metrics(face: Face) -> None:
    producer = face.producer()
    assert face.get(producer.partitions_for("t")) == {0, 1}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        face.get(producer.partitions_for("nowhere"))
    face.get(producer.send("t", b"v", partition=1))
    face.get(producer.flush())
    metrics = face.get(producer.metrics())
    assert metrics["partitions"].keys() == {TopicPartition("t", 1)}


# --- transactions


def test_a_transaction_is_committed_whole_or_not_at_all(face: Face) -> None:
    producer = face.producer(transactional_id="x")
    face.get(producer.init_transactions())
    assert face.world.made("InitProducerId")
    face.get(producer.begin_transaction())
    with pytest.raises(TransactionStateError):
        face.get(producer.begin_transaction())
    face.get(producer.send("t", b"in", partition=0))
    face.get(producer.send_offsets({T0: 7}, ConsumerGroupMetadata("g")))
    face.get(producer.commit_transaction())
    face.get(producer.begin_transaction())
    face.get(producer.send("t", b"out", partition=0))
    face.get(producer.send_offsets({T0: 9}, "g"))
    face.get(producer.abort_transaction())
    face.world.pass_time(1)
    assert committed_values(log_of(face.world)) == [b"in"]
    assert {where: kept.offset for where, kept in face.world.committed["g"].items()} == {T0: 7}


def test_a_block_commits_at_its_end_and_aborts_on_an_error(face: Face) -> None:
    producer = face.producer(transactional_id="x", linger_ms=50_000)
    block = producer.transaction()
    assert face.enter(block) is producer
    face.get(producer.send("t", b"in", partition=0))
    assert face.leave(block) is None
    block = producer.transaction()
    face.enter(block)
    lost = face.get(producer.send("t", b"out", partition=0))
    problem = ValueError("mine")
    assert face.leave(block, problem) is None
    assert not getattr(problem, "__notes__", [])
    with pytest.raises(TransactionAbortedError):
        face.outcome(lost)
    face.world.pass_time(1)
    assert committed_values(log_of(face.world)) == [b"in"]


def test_a_block_that_was_ended_inside_does_nothing_at_its_end(face: Face) -> None:
    producer = face.producer(transactional_id="x")
    for ended_by in ("commit_transaction", "abort_transaction"):
        block = producer.transaction()
        face.enter(block)
        face.get(getattr(producer, ended_by)())
        face.leave(block)
    block = producer.transaction()
    face.enter(block)
    face.get(producer.commit_transaction())
    face.get(producer.begin_transaction())
    face.get(producer.send("t", b"another's", partition=0))
    face.leave(block)
    assert producer._transactional().state is State.IN_TRANSACTION, "that one goes on"
    face.get(producer.commit_transaction())
    face.world.pass_time(1)
    assert committed_values(log_of(face.world)) == [b"another's"]


def test_a_block_that_could_not_be_aborted_says_so_with_its_error(face: Face) -> None:
    producer = face.producer(transactional_id="x", max_block_ms=2_000)
    block = producer.transaction(timeout=1.0)
    face.enter(block)
    face.get(producer.send("t", b"v", partition=0))
    face.get(producer.flush())
    face.world.on("EndTxn", silent)
    for error, limit_s in ((ValueError("mine"), 1.0), (KeyboardInterrupt(), 5.0)):
        began = face.world.loop.time()
        face.leave(block, error)
        assert [note[:36] for note in error.__notes__] == ["The transaction could not be aborted"]
        assert abs(face.world.loop.time() - began - limit_s) < 0.1
        block._number = producer._transactional().number
        if producer._transactional().state.name != "IN_TRANSACTION":
            break
    face.world.off("EndTxn")
    face.world.break_connections(1)
    face.world.break_connections(2)


def test_a_commit_that_cannot_be_aborts(face: Face) -> None:
    producer = face.producer(transactional_id="x")
    block = producer.transaction()
    face.enter(block)
    face.world.refuse = lambda _: 10  # MESSAGE_TOO_LARGE
    face.get(producer.send("t", b"v", partition=0))
    with pytest.raises(KafkaError, match="abort"):
        face.leave(block)
    face.world.refuse = lambda _: 0
    ends = face.world.made("EndTxn")
    assert all(not call.message.committed for call in ends)
    face.enter(producer.transaction())
    face.get(producer.abort_transaction())


# --- the end


def test_close_sends_what_is_left_once(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = face.producer(linger_ms=50_000)
    assert face.enter(producer) is producer
    delivery = face.get(producer.send("t", b"v", partition=0))
    face.leave(producer)
    assert face.outcome(delivery).offset == 0
    face.world.pass_time(0.1)
    assert all(connection.closed for connection in face.world.connections)
    monkeypatch.setattr(face.engine, "run", never)
    monkeypatch.setattr(face.engine, "start", never)
    face.get(producer.close())


@pytest.mark.parametrize("over", ["forked", "ended"])
def test_a_close_in_a_fork_or_at_the_end_leaves_all_alone(face: Face, over: str) -> None:
    producer = face.producer(linger_ms=50_000)
    delivery = face.get(producer.send("t", b"v", partition=0))
    setattr(face.engine, over, True)
    face.get(producer.close())
    face.world.pass_time(1)
    assert not delivery.done()


def test_a_close_that_is_not_in_time_says_what_is_lost(face: Face) -> None:
    producer = face.producer()
    face.get(producer.send("t", b"first", partition=0))
    face.get(producer.flush())
    face.world.on("Produce", silent)
    delivery = face.get(producer.send("t", b"v", partition=0))
    began = face.world.loop.time()
    with pytest.raises(KafkaTimeoutError, match=r"closed with 1 record.*t-0.* not acknowledged"):
        face.get(producer.close(3.0))
    assert 2.9 < face.world.loop.time() - began < 3.2
    with pytest.raises(KafkaError, match="may or may not be in the log"):
        face.outcome(delivery)


def test_an_interrupt_ends_a_block_at_once_and_an_error_does_not(face: Face, caplog: pytest.LogCaptureFixture) -> None:
    for error, may_last in ((KeyboardInterrupt(), False), (ValueError("mine"), True)):
        producer = face.producer(delivery_timeout_ms=20_000, request_timeout_ms=5_000)
        face.get(producer.send("t", b"first", partition=0))
        face.get(producer.flush())
        face.world.on("Produce", silent)
        face.get(producer.send("t", b"v", partition=0))
        began = face.world.loop.time()
        with caplog.at_level(logging.ERROR, "kafwire"):
            face.leave(producer, error)
        assert (face.world.loop.time() - began > 15) == may_last
        face.world.off("Produce")


def test_a_producer_that_is_dropped_sends_what_it_was_given_and_closes(face: Face) -> None:
    producer = face.producer(linger_ms=50_000)
    face.get(producer.send("t", b"v", partition=0))
    del producer
    face.drop()
    face.world.pass_time(5)
    assert log_of(face.world).values() == [b"v"]
    assert all(connection.closed for connection in face.world.connections)


def test_options_in_kafkas_spelling(face: Face) -> None:
    options = {"bootstrap.servers": face.world.bootstrap, "linger.ms": 3, "value.serializer": str}
    producer = face.class_of("producer").from_config(options)
    face.made.append(producer)
    assert producer._config.linger_ms == 3
    delivery = face.get(producer.send("t", "grün", partition=0))
    assert face.outcome(delivery).offset == 0
    face.get(producer.send_batch("t", pa.table({"value": ["a"]}), partition=0))
    face.get(producer.flush())
    assert log_of(face.world).values() == ["grün".encode(), b"a"]
    assert isinstance(producer, face.class_of("producer"))
    with pytest.raises(ConfigError, match="a topic's name is needed"):
        face.get(producer.send(5, "x"))


@pytest.mark.parametrize("face", ["aio"], indirect=True)
def test_who_is_cancelled_while_a_thread_encodes_leaves_when_it_has_come_to_a_stop(face: Face) -> None:
    producer = face.producer()
    face.get(producer.partitions_for("u"))
    table = pa.table({"value": [b"v" * 1_000] * 500})
    real = face.world.loop.run_in_executor

    async def cancelled() -> asyncio.CancelledError:
        await producer.send("u", b"known")
        gate = face.world.loop.create_future()

        def slow(executor: Any, function: Any, *args: Any) -> Any:
            async def later() -> Any:
                await gate
                return await real(executor, function, *args)

            return asyncio.ensure_future(later())

        face.world.loop.run_in_executor = slow  # type: ignore[method-assign, assignment]
        sending = asyncio.ensure_future(producer.send_batch("u", table))
        await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.sleep(0.1)
        assert not sending.done(), "rows may be on their way"
        gate.set_result(None)
        await asyncio.wait([sending], timeout=5)
        face.world.loop.run_in_executor = real  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError) as caught:
            await sending
        return caught.value

    error: Any = face.world.run(cancelled())
    assert len(error.delivery) == 500
    face.get(producer.flush())
    assert log_of(face.world, "u").values() == [b"known", *[b"v" * 1_000] * 500]
