"""`Producer` and `AsyncProducer`, by one body, in the simulated world."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import pydoc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    PurgedError,
    TransactionAbortedError,
    TransactionStateError,
)
from kafwire.producer.transactions.state import State
from kafwire.records import decode_batches
from kafwire.testing.simulation.calls import NEVER, Call
from kafwire.types import ConsumerGroupMetadata, TopicPartition
from tests.support.simulated.consumer import log_of
from tests.support.simulated.flavours import Flavour, never
from tests.support.simulated.producer import committed_values
from tests.support.simulated.world import World

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
def flavour(flavour: Flavour) -> Flavour:
    flavour.world.create_topic("t", partitions=2)
    flavour.world.create_topic("u")
    return flavour


@pytest.mark.parametrize(("method", "args"), CALLS)
@pytest.mark.parametrize("known", [True, False])
def test_a_closed_producer_refuses(flavour: Flavour, method: str, args: tuple[Any, ...], *, known: bool) -> None:
    producer = flavour.producer(transactional_id="x" if ((method, args) in TRANSACTIONAL) else None)
    if known and (method, args) not in TRANSACTIONAL:
        flavour.get(producer.send_batch(None, TO_BOTH))
    flavour.get(producer.close())
    before = len(flavour.world.calls)
    with pytest.raises(KafkaError, match="this producer is closed"):
        flavour.get(getattr(producer, method)(*args))
    assert len(flavour.world.calls) == before


@pytest.mark.parametrize(("method", "args"), [call for call in CALLS if call[0] != "send"])
def test_a_producer_from_before_a_fork_refuses(flavour: Flavour, method: str, args: tuple[Any, ...]) -> None:
    producer = flavour.producer(transactional_id="x")
    flavour.engine.forked = True
    with pytest.raises(KafkaError, match="before a fork"):
        flavour.get(getattr(producer, method)(*args))
    assert not flavour.world.calls


@pytest.mark.parametrize(("method", "args"), TRANSACTIONAL)
def test_transactions_need_an_id(flavour: Flavour, method: str, args: tuple[Any, ...]) -> None:
    producer = flavour.producer()
    with pytest.raises(ConfigError, match="transactions need a transactional_id"):
        flavour.get(getattr(producer, method)(*args))


def test_records_go_where_and_as_they_are_said(flavour: Flavour) -> None:
    producer = flavour.producer()
    headers = iter([("a", b"1"), ("b", None)])
    first = flavour.get(producer.send("t", b"v", key=b"k", headers=headers, timestamp_ms=77, partition=1))
    flavour.get(producer.send("t", None, partition=1))
    meta = flavour.outcome(first)
    assert (meta.topic, meta.partition, meta.offset, meta.timestamp_ms) == ("t", 1, 0, 77)
    flavour.get(producer.flush())
    record = decode_batches(log_of(flavour.world, "t", 1).batches[0].data)[0][0]
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 77)
    assert list(record.headers) == [("a", b"1"), ("b", None)]
    assert log_of(flavour.world, "t", 1).values() == [b"v", None]


def test_a_topic_that_is_new_is_looked_up_once_and_for_no_longer_than_it_may(flavour: Flavour) -> None:
    producer = flavour.producer(max_block_ms=3_000)
    flavour.get(producer.send("t", b"1"))
    flavour.get(producer.send("t", b"2"))
    asked = [call for call in flavour.world.made("Metadata") if call.message.topics]
    assert [[topic.name for topic in call.message.topics] for call in asked] == [["t"]]
    with pytest.raises(KafkaError):
        flavour.get(producer.send("nowhere", b"3"))
    with pytest.raises(KafkaError):
        flavour.get(producer.send_batch("nowhere", TABLE))
    with pytest.raises(KafkaError):
        flavour.get(producer.send_batch(None, pa.table({"topic": ["t", "nowhere"], "value": [b"a", b"b"]})))


@pytest.mark.parametrize("topic", [b"t", "", 5])
def test_a_value_that_is_no_topic_is_refused(flavour: Flavour, topic: Any) -> None:
    producer = flavour.producer()
    with pytest.raises(ConfigError, match="the topic must be a non-empty str"):
        flavour.get(producer.send(topic, b"v"))
    with pytest.raises(ConfigError, match="the topic must be a non-empty str"):
        flavour.get(producer.send_batch(topic, TABLE))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partition": "0"}, "partition='0'"),
        ({"timestamp_ms": "now"}, "timestamp_ms='now'"),
        ({"timestamp_ms": 1 << 63}, "timestamp_ms=9223372036854775808"),
        ({"headers": 5}, "headers=5"),
        ({"value": 5}, "the value must be bytes-like or None, not int"),
    ],
)
def test_an_argument_of_no_use_is_named(flavour: Flavour, arguments: dict[str, Any], message: str) -> None:
    producer = flavour.producer()
    flavour.get(producer.send("t", b"first"))
    for topic in ("t", "u"):
        with pytest.raises(ConfigError, match=message):
            flavour.get(producer.send(topic, **arguments))
    if "partition" in arguments:
        with pytest.raises(ConfigError, match=message):
            flavour.get(producer.send_batch("t", TABLE, partition="0"))


def test_rows_of_one_topic_and_of_several(flavour: Flavour) -> None:
    producer = flavour.producer()
    one = flavour.get(producer.send_batch("t", TABLE, partition=1))
    assert len(one) == 3
    assert flavour.outcome(one) == [("t", 1, 0, 3)]
    both = flavour.get(producer.send_batch(None, TO_BOTH, partition=0))
    assert sorted(flavour.outcome(both)) == [("t", 0, 0, 2), ("u", 0, 0, 1)]
    assert log_of(flavour.world, "t", 1).values() == [b"a", b"b", b"c"]
    assert log_of(flavour.world, "t", 0).values() == [b"a", b"c"]
    assert log_of(flavour.world, "u", 0).values() == [b"b"]


def test_a_large_table_goes_through_a_thread_and_comes_whole(flavour: Flavour) -> None:
    values = [b"%06d" % number * 50 for number in range(2_000)]
    producer = flavour.producer(batch_size=100_000)
    delivery = flavour.get(producer.send_batch("u", pa.table({"value": values})))
    assert [(topic, part, first, count) for topic, part, first, count in flavour.outcome(delivery)] == [
        ("u", 0, 0, 2000)
    ]
    assert log_of(flavour.world, "u").values() == values


def test_a_topic_that_was_forgotten_is_learnt_again(flavour: Flavour) -> None:
    producer = flavour.producer(metadata_max_idle_ms=5_000, metadata_max_age_ms=1_000)
    flavour.get(producer.send_batch("t", TABLE, partition=0))
    flavour.get(producer.flush())
    flavour.world.pass_time(60)
    flavour.get(producer.send("u", b"another"))
    flavour.world.pass_time(60)
    assert "t" not in producer._accumulator.topics
    flavour.get(producer.send_batch("t", TABLE, partition=0))
    flavour.get(producer.flush())
    assert log_of(flavour.world).values() == [b"a", b"b", b"c"] * 2


def test_a_full_buffer_is_an_error_in_time(flavour: Flavour) -> None:
    producer = flavour.producer(buffer_memory=20_000, batch_size=1_000, max_block_ms=60, linger_ms=0)
    flavour.get(producer.send("t", b"known"))
    flavour.get(producer.flush())
    flavour.world.on("Produce", silent)
    with pytest.raises(KafkaTimeoutError, match="no room in buffer_memory .20000 bytes. within max_block_ms .60"):
        for _ in range(100):
            flavour.get(producer.send("t", b"v" * 900))
    with pytest.raises(KafkaTimeoutError, match="no room") as caught:
        flavour.get(producer.send_batch("t", pa.table({"value": [b"v" * 900] * 100})))
    assert caught.value.delivery is not None
    flavour.world.off("Produce")
    with pytest.raises(KafkaTimeoutError, match="the producer was closed with .* not acknowledged"):
        flavour.get(producer.close(0.0))


def test_flush_sends_at_once_and_waits_for_the_outcome(flavour: Flavour) -> None:
    producer = flavour.producer(linger_ms=50_000)
    delivery = flavour.get(producer.send("t", b"v", partition=0))
    flavour.world.pass_time(1)
    assert not flavour.world.made("Produce")
    assert not delivery.done()
    began = flavour.world.loop.time()
    flavour.get(producer.flush())
    assert delivery.done()
    assert flavour.world.loop.time() - began < 1
    flavour.world.on("Produce", silent)
    flavour.get(producer.send("t", b"late", partition=0))
    began = flavour.world.loop.time()
    with pytest.raises(KafkaTimeoutError, match="within 2 s.*t-0"):
        flavour.get(producer.flush(2.0))
    assert 1.9 < flavour.world.loop.time() - began < 2.1
    flavour.world.off("Produce")
    flavour.world.break_connections(1)
    flavour.world.break_connections(2)


def test_purge_gives_up_unsent_records_or_all(flavour: Flavour) -> None:
    producer = flavour.producer(linger_ms=50_000, request_timeout_ms=5_000)
    waiting = flavour.get(producer.send("t", b"v", partition=0))
    assert flavour.get(producer.purge()) == 1
    with pytest.raises(PurgedError):
        flavour.outcome(waiting)
    flavour.get(producer.send("t", b"first", partition=0))
    flavour.get(producer.flush())
    flavour.world.on("Produce", silent)
    flying = flavour.get(producer.send("t", b"v", partition=0))
    with pytest.raises(KafkaTimeoutError):
        flavour.get(producer.flush(0.5))
    assert flavour.get(producer.purge()) == 0
    assert not flying.done()
    assert flavour.get(producer.purge(in_flight=True)) == 1
    with pytest.raises(PurgedError):
        flavour.outcome(flying)
    flavour.world.off("Produce")


def test_partitions_and_metrics(flavour: Flavour) -> None:
    producer = flavour.producer()
    assert flavour.get(producer.partitions_for("t")) == {0, 1}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        flavour.get(producer.partitions_for("nowhere"))
    flavour.get(producer.send("t", b"v", partition=1))
    flavour.get(producer.flush())
    metrics = flavour.get(producer.metrics())
    assert metrics["partitions"].keys() == {"t-1"}
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


# --- transactions


def test_a_transaction_is_committed_whole_or_not_at_all(flavour: Flavour) -> None:
    producer = flavour.producer(transactional_id="x")
    flavour.get(producer.init_transactions())
    assert flavour.world.made("InitProducerId")
    flavour.get(producer.begin_transaction())
    with pytest.raises(TransactionStateError):
        flavour.get(producer.begin_transaction())
    flavour.get(producer.send("t", b"in", partition=0))
    flavour.get(producer.send_offsets({T0: 7}, ConsumerGroupMetadata("g")))
    flavour.get(producer.commit_transaction())
    flavour.get(producer.begin_transaction())
    flavour.get(producer.send("t", b"out", partition=0))
    flavour.get(producer.send_offsets({T0: 9}, "g"))
    flavour.get(producer.abort_transaction())
    flavour.world.pass_time(1)
    assert committed_values(log_of(flavour.world)) == [b"in"]
    assert {where: kept.offset for where, kept in flavour.world.committed["g"].items()} == {T0: 7}


def test_a_block_commits_at_its_end_and_aborts_on_an_error(flavour: Flavour) -> None:
    producer = flavour.producer(transactional_id="x", linger_ms=50_000)
    block = producer.transaction()
    assert flavour.enter(block) is producer
    flavour.get(producer.send("t", b"in", partition=0))
    assert flavour.leave(block) is None
    block = producer.transaction()
    flavour.enter(block)
    lost = flavour.get(producer.send("t", b"out", partition=0))
    problem = ValueError("mine")
    assert flavour.leave(block, problem) is None
    assert not getattr(problem, "__notes__", [])
    with pytest.raises(TransactionAbortedError):
        flavour.outcome(lost)
    flavour.world.pass_time(1)
    assert committed_values(log_of(flavour.world)) == [b"in"]


def test_a_block_that_was_ended_inside_does_nothing_at_its_end(flavour: Flavour) -> None:
    producer = flavour.producer(transactional_id="x")
    for ended_by in ("commit_transaction", "abort_transaction"):
        block = producer.transaction()
        flavour.enter(block)
        flavour.get(getattr(producer, ended_by)())
        flavour.leave(block)
    block = producer.transaction()
    flavour.enter(block)
    flavour.get(producer.commit_transaction())
    flavour.get(producer.begin_transaction())
    flavour.get(producer.send("t", b"another's", partition=0))
    flavour.leave(block)
    assert producer._calls.transactions().state is State.IN_TRANSACTION, "that one goes on"
    flavour.get(producer.commit_transaction())
    flavour.world.pass_time(1)
    assert committed_values(log_of(flavour.world)) == [b"another's"]


@pytest.mark.parametrize(("kind", "limit_s"), [(ValueError, 1.0), (KeyboardInterrupt, 5.0)])
def test_a_block_that_could_not_be_aborted_says_so_with_its_error(
    flavour: Flavour, kind: type[BaseException], limit_s: float
) -> None:
    producer = flavour.producer(transactional_id="x", max_block_ms=2_000)
    block = producer.transaction(timeout=1.0)
    flavour.enter(block)
    flavour.get(producer.send("t", b"v", partition=0))
    flavour.get(producer.flush())
    flavour.world.on("EndTxn", silent)
    error = kind()
    began = flavour.world.loop.time()
    flavour.leave(block, error)
    assert [note[:36] for note in error.__notes__] == ["The transaction could not be aborted"]
    assert abs(flavour.world.loop.time() - began - limit_s) < 0.1
    flavour.world.off("EndTxn")
    flavour.world.break_connections(1)
    flavour.world.break_connections(2)


def test_a_commit_that_cannot_be_aborts(flavour: Flavour) -> None:
    producer = flavour.producer(transactional_id="x")
    block = producer.transaction()
    flavour.enter(block)
    flavour.world.refuse = lambda _: 10  # MESSAGE_TOO_LARGE
    flavour.get(producer.send("t", b"v", partition=0))
    with pytest.raises(KafkaError, match="abort"):
        flavour.leave(block)
    flavour.world.refuse = lambda _: 0
    ends = flavour.world.made("EndTxn")
    assert all(not call.message.committed for call in ends)
    flavour.enter(producer.transaction())
    flavour.get(producer.abort_transaction())


# --- the end


def test_close_sends_the_rest_once(flavour: Flavour, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = flavour.producer(linger_ms=50_000)
    assert flavour.enter(producer) is producer
    delivery = flavour.get(producer.send("t", b"v", partition=0))
    flavour.leave(producer)
    assert flavour.outcome(delivery).offset == 0
    flavour.world.pass_time(0.1)
    assert all(connection.closed for connection in flavour.world.connections)
    monkeypatch.setattr(flavour.engine, "run", never)
    monkeypatch.setattr(flavour.engine, "start", never)
    flavour.get(producer.close())


@pytest.mark.parametrize("over", ["forked", "ended"])
def test_a_close_in_a_fork_or_at_the_end_leaves_all_alone(flavour: Flavour, over: str) -> None:
    producer = flavour.producer(linger_ms=50_000)
    delivery = flavour.get(producer.send("t", b"v", partition=0))
    setattr(flavour.engine, over, True)
    flavour.get(producer.close())
    flavour.world.pass_time(1)
    assert not delivery.done()


@pytest.mark.parametrize("timeout", [-1, "3", float("nan")])
def test_a_close_with_a_wrong_timeout_leaves_the_producer_open(flavour: Flavour, timeout: Any) -> None:
    producer = flavour.producer()
    with pytest.raises(ConfigError, match="seconds from 0 are needed"):
        flavour.get(producer.close(timeout))
    delivery = flavour.get(producer.send("t", b"v", partition=0))
    flavour.get(producer.close(3.0))
    assert flavour.outcome(delivery).offset == 0


def test_a_close_that_is_not_in_time_names_the_lost_records(flavour: Flavour) -> None:
    producer = flavour.producer()
    flavour.get(producer.send("t", b"first", partition=0))
    flavour.get(producer.flush())
    flavour.world.on("Produce", silent)
    delivery = flavour.get(producer.send("t", b"v", partition=0))
    began = flavour.world.loop.time()
    with pytest.raises(KafkaTimeoutError, match=r"closed with 1 record.*t-0.* not acknowledged"):
        flavour.get(producer.close(3.0))
    assert 2.9 < flavour.world.loop.time() - began < 3.2
    with pytest.raises(KafkaError, match="may or may not be in the log"):
        flavour.outcome(delivery)


def test_an_interrupt_ends_a_block_at_once_and_an_error_does_not(
    flavour: Flavour, caplog: pytest.LogCaptureFixture
) -> None:
    for error, may_last in ((KeyboardInterrupt(), False), (ValueError("mine"), True)):
        producer = flavour.producer(delivery_timeout_ms=20_000, request_timeout_ms=5_000)
        flavour.get(producer.send("t", b"first", partition=0))
        flavour.get(producer.flush())
        flavour.world.on("Produce", silent)
        flavour.get(producer.send("t", b"v", partition=0))
        began = flavour.world.loop.time()
        with caplog.at_level(logging.ERROR, "kafwire"):
            flavour.leave(producer, error)
        assert (flavour.world.loop.time() - began > 15) == may_last
        flavour.world.off("Produce")


def test_a_dropped_producer_sends_its_records_and_closes(flavour: Flavour) -> None:
    producer = flavour.producer(linger_ms=50_000)
    flavour.get(producer.send("t", b"v", partition=0))
    del producer
    flavour.drop()
    flavour.world.pass_time(5)
    assert log_of(flavour.world).values() == [b"v"]
    assert all(connection.closed for connection in flavour.world.connections)


def test_options_in_kafkas_spelling(flavour: Flavour) -> None:
    options = {"bootstrap.servers": flavour.world.bootstrap, "linger.ms": 3, "value.serializer": str}
    producer = flavour.class_of("producer").from_config(options, engine=flavour.engine)
    flavour.made.append(producer)
    assert producer._config.linger_ms == 3
    delivery = flavour.get(producer.send("t", "grün", partition=0))
    assert flavour.outcome(delivery).offset == 0
    flavour.get(producer.send_batch("t", pa.table({"value": ["a"]}), partition=0))
    flavour.get(producer.flush())
    assert log_of(flavour.world).values() == ["grün".encode(), b"a"]
    assert isinstance(producer, flavour.class_of("producer"))
    with pytest.raises(ConfigError, match="the topic must be a non-empty str"):
        flavour.get(producer.send(5, "x"))


@pytest.mark.parametrize("is_derived", [False, True])
def test_help_and_names_are_the_same_with_serializers(flavour: Flavour, is_derived: bool) -> None:
    plain = flavour.class_of("producer")

    class Derived(plain):  # type: ignore[misc, valid-type]
        """One of a user."""

    kind = Derived if is_derived else plain
    made = [
        kind(flavour.world.bootstrap, engine=flavour.engine, key_serializer=str, value_serializer=str) for _ in range(2)
    ]
    flavour.made.extend(made)
    for producer in made:
        assert producer.send.__doc__ == plain.send.__doc__ != ""
        assert "Buffer one record" in pydoc.plain(pydoc.render_doc(producer.send))
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            assert getattr(type(producer), name) == getattr(kind, name)
        assert list(inspect.signature(producer.send).parameters) == list(inspect.signature(plain.send).parameters)[1:]
    assert isinstance(made[0], kind)
    assert type(made[0]) is type(made[1]), "a class of each producer's own"


def test_help_for_send_names_no_class_of_kafwires_own(flavour: Flavour) -> None:
    shown = pydoc.plain(pydoc.render_doc(flavour.producer().send))
    assert "RecordSender.send" not in shown
    assert "Buffer one record, and return the handle of its delivery" in shown


@pytest.mark.parametrize("flavour", ["aio"], indirect=True)
def test_a_send_cancelled_while_a_thread_encodes_ends_when_the_thread_has_stopped(flavour: Flavour) -> None:
    producer = flavour.producer()
    flavour.get(producer.partitions_for("u"))
    table = pa.table({"value": [b"v" * 1_000] * 500})
    real = flavour.world.loop.run_in_executor

    async def cancelled() -> asyncio.CancelledError:
        await producer.send("u", b"known")
        gate = flavour.world.loop.create_future()

        def slow(executor: Any, function: Any, *args: Any) -> Any:
            async def later() -> Any:
                await gate
                return await real(executor, function, *args)

            return asyncio.ensure_future(later())

        flavour.world.loop.run_in_executor = slow  # type: ignore[method-assign, assignment]
        sending = asyncio.ensure_future(producer.send_batch("u", table))
        await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.sleep(0.1)
        assert not sending.done(), "rows may be on their way"
        gate.set_result(None)
        await asyncio.wait([sending], timeout=5)
        flavour.world.loop.run_in_executor = real  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError) as caught:
            await sending
        return caught.value

    error: Any = flavour.world.run(cancelled())
    assert len(error.delivery) == 500
    flavour.get(producer.flush())
    assert log_of(flavour.world, "u").values() == [b"known", *[b"v" * 1_000] * 500]


# --- times and numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when", [-1, -5, 1.5, float("nan"), 1.7e9, True, "1", 2**63, np.int64(-1), np.float64(1.0)], ids=repr
)
def test_a_time_that_no_record_can_have_is_refused(flavour: Flavour, when: Any) -> None:
    producer = flavour.producer()
    with pytest.raises(ConfigError, match="timestamp_ms=.*whole milliseconds since the epoch"):
        flavour.get(producer.send("t", b"v", timestamp_ms=when))
    assert producer._accumulator.budget.used == 0


def test_a_negative_time_in_a_column_is_refused(flavour: Flavour) -> None:
    producer = flavour.producer()
    table = pa.table({"value": [b"a", b"b"], "timestamp": [1, -5]})
    with pytest.raises(KafkaError, match="row 1: a timestamp out of range"):
        flavour.get(producer.send_batch("t", table, partition=0))


def test_numpy_integers_name_partitions_and_times(flavour: Flavour) -> None:
    producer = flavour.producer(linger_ms=0)
    delivery = flavour.get(producer.send("t", b"v", partition=np.int64(1), timestamp_ms=np.int64(1_700_000_000_000)))
    rows = flavour.get(producer.send_batch("t", TABLE, partition=np.int32(1)))
    flavour.get(producer.flush())
    assert rows.done()
    assert delivery.done()
    assert len(log_of(flavour.world, "t", 1).values()) == 4


@pytest.mark.parametrize("partition", [True, 1.0, "1"])
def test_a_partition_that_is_no_integer_is_refused(flavour: Flavour, partition: Any) -> None:
    producer = flavour.producer()
    for call, data in ((producer.send, b"v"), (producer.send_batch, TABLE)):
        with pytest.raises(ConfigError, match="partition=.*it must be a whole number or None"):
            flavour.get(call("t", data, partition=partition))


@pytest.mark.parametrize("partition", [1 << 63, -(1 << 70)])
def test_a_partition_that_no_topic_has_is_refused(flavour: Flavour, partition: int) -> None:
    producer = flavour.producer()
    for call, data in ((producer.send, b"v"), (producer.send_batch, TABLE)):
        with pytest.raises(ConfigError, match=rf"partition={partition}: it must be from 0 to 2\*\*31 - 1"):
            flavour.get(call("t", data, partition=partition))


@pytest.mark.parametrize(
    "record", [{"value": memoryview(b"abcdef")[::2]}, {"headers": [("\ud800", b"")]}, {"key": memoryview(b"ab")[::-1]}]
)
def test_bytes_that_cannot_be_read_are_refused(flavour: Flavour, record: dict[str, Any]) -> None:
    producer = flavour.producer()
    with pytest.raises(ConfigError):
        flavour.get(producer.send("t", **{"value": b"v", **record}))


# --- partitions that were added ---------------------------------------------------------------------------------------

GROWN = [
    pytest.param(("t", b"v"), {"partition": 2}, id="send"),
    pytest.param(("t", pa.table({"value": [b"v"]})), {"partition": 2}, id="send_batch"),
    pytest.param(("t", pa.table({"value": [b"v"] * 2, "partition": [0, 2]})), {}, id="column"),
    pytest.param((None, pa.table({"value": [b"v"], "topic": ["t"], "partition": [2]})), {}, id="topics"),
]


def grow(flavour: Flavour, topic: str = "t") -> None:
    flavour.world.add_partitions(topic, 1)


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize(("arguments", "named"), GROWN)
def test_a_record_may_name_a_partition_that_was_added(
    flavour: Flavour, arguments: tuple[Any, ...], named: dict[str, int], *, transactional: bool
) -> None:
    producer = flavour.producer(linger_ms=0, transactional_id="x" if transactional else None)
    if transactional:
        flavour.get(producer.begin_transaction())
    flavour.get(flavour.get(producer.send("t", b"0", partition=0)))
    grow(flavour)
    call = producer.send if isinstance(arguments[1], bytes) else producer.send_batch
    started = flavour.engine.now_ms()
    delivery = flavour.get(call(*arguments, **named))
    assert flavour.engine.now_ms() - started < 2_000
    flavour.get(producer.flush())
    assert log_of(flavour.world, "t", 2).values() == [b"v"]
    assert delivery.done()


@pytest.mark.parametrize(("arguments", "named"), GROWN)
def test_a_partition_that_is_not_added_is_refused_after_max_block_ms(
    flavour: Flavour, arguments: tuple[Any, ...], named: dict[str, int]
) -> None:
    producer = flavour.producer(linger_ms=0, max_block_ms=20_000)
    flavour.get(flavour.get(producer.send("t", b"0", partition=0)))
    asked = len(flavour.world.made("Metadata"))
    call = producer.send if isinstance(arguments[1], bytes) else producer.send_batch
    started = flavour.engine.now_ms()
    with pytest.raises(ConfigError, match=r"topic 't' has (partitions )?0 to 1.*max_block_ms \(20000\)"):
        flavour.get(call(*arguments, **named))
    assert 15_000 < flavour.engine.now_ms() - started <= 20_100
    assert 5 < len(flavour.world.made("Metadata")) - asked < 40
    flavour.get(flavour.get(producer.send("t", b"1", partition=1)))


@pytest.mark.parametrize("partition", [-1, 2**31, 2**70])
def test_a_number_that_no_partition_has_is_refused_at_once(flavour: Flavour, partition: int) -> None:
    producer = flavour.producer()
    started = flavour.engine.now_ms()
    for call, data in ((producer.send, b"v"), (producer.send_batch, TABLE)):
        with pytest.raises(ConfigError, match=f"{partition}"):
            flavour.get(call("t", data, partition=partition))
    assert flavour.engine.now_ms() - started < 1_000


def test_an_added_partition_outside_of_a_transaction_is_refused_at_once(flavour: Flavour) -> None:
    producer = flavour.producer(transactional_id="x")
    flavour.get(producer.begin_transaction())
    flavour.get(producer.send("t", b"v"))
    flavour.get(producer.commit_transaction())
    with pytest.raises(TransactionStateError):
        flavour.get(producer.send("t", b"v", partition=9))


def test_partitions_for_asks_for_metadata(flavour: Flavour) -> None:
    producer = flavour.producer()
    assert flavour.get(producer.partitions_for("t")) == {0, 1}
    grow(flavour)
    assert flavour.get(producer.partitions_for("t")) == {0, 1, 2}


def test_an_async_producer_is_started_as_a_consumer_is() -> None:
    with World() as world:
        world.create_topic("t")

        async def main() -> None:
            producer = kafwire.AsyncProducer(world.bootstrap, engine=world.engine, value_serializer="json")
            await producer.start()
            assert world.made("Metadata")
            calls = len(world.calls)
            await producer.start()
            assert len(world.calls) == calls, "it is started"
            assert (await producer.send_and_wait("t", 1)).offset == 0
            await producer.close()
            with pytest.raises(KafkaError, match="closed"):
                await producer.start()

        world.run(main())


def test_a_start_without_a_broker_fails_in_time() -> None:
    with World() as world:

        async def main() -> None:
            producer = kafwire.AsyncProducer("nowhere:1", engine=world.engine, default_api_timeout_ms=3000)
            with pytest.raises(KafkaConnectionError, match="connecting did not succeed within 3 s.*nowhere"):
                await producer.start()
            await producer.close()

        world.run(main())
