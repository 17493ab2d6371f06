"""Records with a waiting sender, past the engine: once and in order, whatever happens on the way.

The broker recognises repeated batches as Kafka does. A partition is leased to the threads that send after a few batches
that found it idle; each test begins there.
"""

import gc
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire import records
from kafwire.errors import BrokerError, ErrorCode, KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.producer.buffer._batch import Delivery, ProducerBatch
from kafwire.producer.buffer._direct_send import PendingSend
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.send import direct_send as direct_send_ways
from kafwire.runtime.engine import default_engine
from tests.support.broker import scripted_broker as scripted
from tests.support.broker.scripted_broker import ScriptedBroker, Step
from tests.support.deadlines import ended, until
from tests.support.produce_faults import MENDED, QUICK, numbers
from tests.support.time_limits import within

FIRST = 8  # records until the partition is leased, for certain


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2, "u": 1}, nodes=2) as running:
        yield running


def sink_of(producer: kafwire.Producer, partition: int = 0) -> PartitionQueue:
    return producer._accumulator.topics["t"].queues[partition]


async def _turn() -> None:
    """Earlier calls to the engine are done after it: on a busy machine it leases a partition late."""


def warm_up(producer: kafwire.Producer, partition: int = 0) -> None:
    """Send until the partition is leased, and once more."""
    for value in numbers(FIRST):
        producer.send("t", value, partition=partition).result(10)
        producer._engine.run(_turn)
    direct_send = sink_of(producer, partition).direct_send
    assert direct_send is not None
    assert direct_send.sent


def went_by(producer: kafwire.Producer, partition: int = 0) -> int:
    """How many batches have gone past the engine since the partition was leased; 0: it is not."""
    direct_send = sink_of(producer, partition).direct_send
    return direct_send.sent if direct_send is not None else 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("options", [{}, {"acks": 1}, {"acks": "all", "enable_idempotence": False}], ids=str)
def test_records_that_are_waited_for_go_by_the_engine(
    broker: ScriptedBroker, options: dict[str, Any], compression: Any
) -> None:
    values = [b"%d" % number + bytes(500) for number in range(50)]  # others grow, and go uncompressed
    with kafwire.Producer(broker.bootstrap, **QUICK, **options, compression_type=compression) as producer, within(20):
        for number, value in enumerate(values):
            meta = producer.send("t", value, key=b"k", headers=[("h", b"1")], partition=0).result(10)
            assert (meta.topic, meta.partition, meta.offset) == ("t", 0, number)
        reported = producer.metrics()
        assert reported["producer"]["records"] == reported["producer"]["records_delivered"] == 50
        assert reported["producer"]["batches"] == 50
        (connection,) = [connection for connection in reported["connections"] if connection["role"] == "produce"]
        assert connection["in_flight"] == 0
        assert connection["responses"] == connection["requests"]
        assert connection["bytes_out"] > reported["producer"]["bytes"]
    assert broker.values("t", 0) == values
    (batch,) = records.decode_batches(broker.logs["t", 0][-1].data)
    assert batch.compression == compression
    assert (batch.base_sequence == 49) is ("acks" not in options)


def test_the_engine_is_not_woken(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        before = default_engine().native.statistics()["notifications"]
        for value in numbers(200):
            producer.send("t", value, partition=0).result(10)
        assert went_by(producer) >= 200
        assert default_engine().native.statistics()["notifications"] - before < 50
    assert broker.values("t", 0) == [*numbers(FIRST), *numbers(200)]


@pytest.mark.parametrize("version", [5, 7, 8, 9, 10, 12, 13])
def test_in_every_version(broker: ScriptedBroker, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafwire.protocol.ProduceRequest, "max_stable_version", version)
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer, 1)
        for value in numbers(12):
            producer.send("t", value, partition=1).result(10)
        assert went_by(producer, 1) >= 12
    assert {request.version for request in broker.seen("Produce")} == {version}
    assert broker.values("t", 1) == [*numbers(FIRST), *numbers(12)]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("step", MENDED.values(), ids=MENDED)
def test_every_record_arrives_once_and_in_order(broker: ScriptedBroker, step: Step, waits: bool) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        broker.script("Produce", step, scripted.behave, step)
        direct_send = sink_of(producer).direct_send
        assert direct_send is not None
        before = direct_send.sent
        first = producer.send("t", b"first", partition=0)
        if waits:
            assert first.result(20).offset == FIRST
            assert went_by(producer) == 0
        assert direct_send.sent == before + 1
        others = [producer.send("t", value, partition=0) for value in numbers(20)]
        assert [delivery.result(20).offset for delivery in others] == list(range(FIRST + 1, FIRST + 21))
        assert first.result(0).offset == FIRST
        producer.flush(20)
        warm_up(producer)
    assert broker.values("t", 0) == [*numbers(FIRST), b"first", *numbers(20), *numbers(FIRST)]


def test_acknowledged_records_leave_no_memory(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        for value in numbers(300):
            producer.send("t", value, partition=0).result(10)
        assert went_by(producer) >= 300
        gc.collect()
        assert sum(isinstance(each, ProducerBatch | PendingSend) for each in gc.get_objects()) < 50


def test_records_sent_while_one_is_in_flight_come_after_it(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        go = threading.Event()
        broker.script("Produce", scripted.after(go))
        first = producer.send("t", b"first", partition=0)
        assert sink_of(producer).direct_send is not None
        others = [producer.send("t", value, partition=0) for value in numbers(20)]
        rows = producer.send_batch("t", pa.table({"value": numbers(10, 20)}), partition=0)
        until(lambda: sink_of(producer).direct_send is None)
        go.set()
        assert first.result(10).offset == FIRST
        assert [delivery.result(10).offset for delivery in others] == list(range(FIRST + 1, FIRST + 21))
        assert rows.result(10) == [("t", 0, FIRST + 21, 10)]
    assert broker.values("t", 0) == [*numbers(FIRST), b"first", *numbers(30)]


def test_many_threads_wait_for_records_of_one_partition(broker: ScriptedBroker) -> None:
    """Each thread's records in its order, all of them once; every so often a response is lost."""
    count, each = 4, 60
    broker.script("Produce", *([scripted.behave] * 9 + [scripted.lose_response]) * 12)
    offsets: dict[int, list[int]] = {}

    def run(name: int) -> None:
        offsets[name] = [producer.send("t", b"%d-%d" % (name, n), partition=0).result(20).offset for n in range(each)]

    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(60):
        warm_up(producer)
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(run, range(count)))
    values = broker.values("t", 0)
    for name in range(count):
        assert [values[offset] for offset in offsets[name]] == [b"%d-%d" % (name, n) for n in range(each)]
        assert offsets[name] == sorted(offsets[name])
    assert len(values) == FIRST + count * each


def test_two_threads_wait_for_the_same_record(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        for value in numbers(20):
            go = threading.Event()
            broker.script("Produce", scripted.after(go))
            delivery = producer.send("t", value, partition=0)
            with ThreadPoolExecutor(2) as threads:
                reported = [threads.submit(delivery.result, 10) for _ in range(2)]
                go.set()
            assert [future.result(0).offset for future in reported] == [delivery.result(0).offset] * 2
    assert broker.values("t", 0) == [*numbers(FIRST), *numbers(20)]


def test_deliveries_without_a_waiting_thread(broker: ScriptedBroker) -> None:
    """Deliveries resolve by themselves, and callbacks run on the engine."""
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        names: list[str] = []
        for value in numbers(20):
            reported = threading.Event()

            def note(_: Delivery, reported: threading.Event = reported) -> None:
                names.append(threading.current_thread().name)
                reported.set()

            producer.send("t", value, partition=0).add_done_callback(note)
            assert reported.wait(10)
        assert went_by(producer) >= 20
        assert names == ["kafwire-callbacks"] * 20
        delivery = producer.send("t", b"last", partition=0)
        delivery.add_done_callback(lambda _: names.append(threading.current_thread().name))
        producer.flush(10)
        assert names == ["kafwire-callbacks"] * 21


def test_a_wait_that_is_over_leaves_the_record_on_its_way(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        go = threading.Event()
        broker.script("Produce", scripted.after(go))
        delivery = producer.send("t", b"late", partition=0)
        with pytest.raises(KafkaTimeoutError, match=r"no acknowledgement from t-0 within 0.05 s"):
            delivery.result(0.05)
        with pytest.raises(KafkaTimeoutError):
            delivery.result(0)
        go.set()
        assert delivery.result(10).offset == FIRST
        assert producer.send("t", b"next", partition=0).result(10).offset == FIRST + 1


class Interrupted(Exception):
    """Raised by a signal handler."""


def test_a_signal_ends_the_wait_and_nothing_else(broker: ScriptedBroker) -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    def strike(exchange: scripted.Exchange) -> None:
        go = struck  # the test goes on at once
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGUSR1)
        go.wait(10)
        scripted.behave(exchange)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
            warm_up(producer)
            for value in numbers(20):
                struck = threading.Event()
                broker.script("Produce", strike)
                delivery: Delivery | None = None
                with pytest.raises(Interrupted):
                    delivery = producer.send("t", value, partition=0)
                    delivery.result(10)
                struck.set()
                if delivery is not None:
                    delivery.result(10)
            producer.flush(10)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert broker.values("t", 0) == [*numbers(FIRST), *numbers(20)]


@pytest.mark.parametrize("options", [{}, {"enable_idempotence": False}], ids=str)
def test_a_signal_handler_waits_for_the_send_that_it_interrupted(
    broker: ScriptedBroker, options: dict[str, Any]
) -> None:
    seen: list[int] = []
    sent: list[Delivery] = []

    def look(*_: object) -> None:
        threading.Timer(0.05, go.set).start()
        seen.append(sent[-1].result(10).offset)

    def strike(exchange: scripted.Exchange) -> None:
        waits.wait(10)
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGUSR1)
        go.wait(10)
        scripted.behave(exchange)

    before = signal.signal(signal.SIGUSR1, look)
    try:
        with kafwire.Producer(broker.bootstrap, **QUICK, **options) as producer, within(20):
            for number in range(5):
                warm_up(producer)
                go, waits = threading.Event(), threading.Event()
                broker.script("Produce", strike)
                sent.append(producer.send("t", b"v", partition=0))
                waits.set()
                assert sent[-1].result(10).offset == seen[-1] == (number + 1) * (FIRST + 1) - 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert broker.values("t", 0) == [*numbers(FIRST), b"v"] * 5


def test_flush_waits_for_records_in_flight(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        go = threading.Event()
        broker.script("Produce", scripted.after(go))
        delivery = producer.send("t", b"v", partition=0)
        with pytest.raises(KafkaTimeoutError, match=r"1 record\(s\) to t-0"):
            producer.flush(0.05)
        go.set()
        producer.flush(10)
        assert delivery.done()
        assert delivery.result(0).offset == FIRST


def test_close_names_records_in_flight(broker: ScriptedBroker) -> None:
    with within(20):
        producer = kafwire.Producer(broker.bootstrap, **QUICK)
        warm_up(producer)
        broker.script("Produce", scripted.no_response)
        delivery = producer.send("t", b"v", partition=0)
        errors: list[BaseException | None] = []
        waiting = threading.Thread(target=lambda: errors.append(delivery.exception(10)))
        waiting.start()
        with pytest.raises(KafkaTimeoutError, match=r"1 record\(s\) to t-0"):
            producer.close(0.05)
        ended(waiting)
        (error,) = errors
        assert isinstance(error, KafkaError)
        assert error.in_doubt
        assert "they may or may not be in the log" in str(error)


def test_a_broker_that_hangs_is_given_up_after_request_timeout_ms(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_send_ways, "WATCH_S", 0.05)
    with kafwire.Producer(broker.bootstrap, **QUICK, request_timeout_ms=300) as producer, within(20):
        warm_up(producer)
        broker.script("Produce", scripted.no_response)
        assert producer.send("t", b"v", partition=0).result(10).offset == FIRST
    assert broker.values("t", 0) == [*numbers(FIRST), b"v"]


@pytest.mark.parametrize("ends", ["flush", "close"])
def test_a_broker_hangs_and_the_record_was_the_engines_by_then(broker: ScriptedBroker, ends: str) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK, request_timeout_ms=300) as producer, within(20):
        warm_up(producer)
        broker.script("Produce", scripted.no_response)
        delivery = producer.send("t", b"v", partition=0)
        getattr(producer, ends)()
        assert delivery.result(0).offset == FIRST
    assert broker.values("t", 0) == [*numbers(FIRST), b"v"]


def test_brokers_hang_one_after_the_other(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two partitions in flight on one connection, and one on another."""
    monkeypatch.setattr(direct_send_ways, "WATCH_S", 0.05)
    broker.topics["u"] = 1
    broker.lead("u", 0, 2)
    with kafwire.Producer(broker.bootstrap, **QUICK, request_timeout_ms=300) as producer, within(20):
        for value in numbers(FIRST):
            producer.send("u", value).result(10)
        warm_up(producer, 0)
        warm_up(producer, 1)
        broker.script("Produce", scripted.no_response, node=1)
        deliveries = [producer.send("t", b"v", partition=partition) for partition in range(2)]
        assert [went_by(producer, partition) > 0 for partition in range(2)] == [True, True]
        assert [delivery.result(10).offset for delivery in deliveries] == [FIRST, FIRST]
        broker.script("Produce", scripted.no_response, node=2)
        assert producer.send("u", b"v").result(10).offset == FIRST


def test_a_callback_sends_while_the_connection_is_given_up(broker: ScriptedBroker) -> None:
    """By then no code would handle a late response on the old connection."""
    options = QUICK | {"enable_idempotence": False, "request_timeout_ms": 5_000, "delivery_timeout_ms": 5_001}
    with kafwire.Producer(broker.bootstrap, **options) as producer, within(20):
        for _ in range(5):
            warm_up(producer, 0)
            warm_up(producer, 1)
            sent: list[Delivery] = []
            done = threading.Event()
            broker.script("Produce", scripted.error(ErrorCode.INVALID_RECORD, "no key"))

            def go_on(_: Delivery, sent: list[Delivery] = sent, done: threading.Event = done) -> None:
                connection = next(
                    connection for connection in producer._cluster.connections if connection.role == "produce"
                )
                connection.fail("a test")
                sent.append(producer.send("t", b"next", partition=1))
                done.set()

            producer.send("t", b"refused", partition=0).add_done_callback(go_on)
            assert done.wait(10)
            began = time.monotonic()
            sent[0].result(10)
            assert time.monotonic() - began < 4


def test_metadata_is_looked_at_again(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_send_ways, "WATCH_S", 0.05)
    with kafwire.Producer(broker.bootstrap, **QUICK, metadata_max_age_ms=200) as producer, within(20):
        warm_up(producer)
        before = len(broker.seen("Metadata"))
        while len(broker.seen("Metadata")) < before + 3:
            producer.send("t", b"v", partition=0).result(10)


def test_numbers_wrap(broker: ScriptedBroker) -> None:
    """Sequences go on from 0 behind 2**31 - 1."""
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        for value in numbers(2):
            producer.send("t", value, partition=0).result(10)
        identity, sequencer = producer._core.identity or pytest.fail("no identity"), sink_of(producer).sequencer
        _, _, ordinal = sequencer.lease(identity) or pytest.fail("nothing is under way")
        sequencer.resume(2**31 - 20, ordinal, None)
        _, known = broker._producers["t", 0, identity.producer_id]
        known.append((2**31 - 21, 1, 1))
        warm_up(producer)
        for value in numbers(40 - FIRST):
            producer.send("t", value, partition=0).result(10)
        assert went_by(producer) >= 30
    sequences = [records.decode_batches(stored.data)[0].base_sequence for stored in broker.logs["t", 0]]
    assert sequences == [0, 1, *range(2**31 - 20, 2**31), *range(20)]


def test_a_refused_record_fails_with_the_brokers_words(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        broker.script("Produce", scripted.error(ErrorCode.INVALID_RECORD, "no key"))
        with pytest.raises(BrokerError, match="no key"):
            producer.send("t", b"v", partition=0).result(10)
        warm_up(producer)
    assert broker.values("t", 0) == numbers(FIRST) * 2


def test_a_broker_that_has_forgotten_the_producer(broker: ScriptedBroker) -> None:
    """The partition moves to the next epoch of the producer (KIP-360), and the record goes again."""
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        broker.script("Produce", scripted.error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
        assert producer.send("t", b"v", partition=0).result(10).offset == FIRST
        warm_up(producer)
    epochs = [records.decode_batches(stored.data)[0].producer_epoch for stored in broker.logs["t", 0]]
    assert epochs == [0] * FIRST + [1] * (FIRST + 1)
    assert broker.values("t", 0) == [*numbers(FIRST), b"v", *numbers(FIRST)]


def test_the_leader_moves(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        for node in (2, 1, 2):
            warm_up(producer)
            broker.lead("t", 0, node)
        warm_up(producer)
    assert broker.values("t", 0) == numbers(FIRST) * 4


def test_a_topic_is_recreated(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        monkeypatch.setattr(broker, "topic_id", lambda name: uuid.uuid5(uuid.NAMESPACE_URL, name))
        broker.logs["t", 0].clear()
        broker._producers.clear()
        warm_up(producer)
        warm_up(producer)
    assert broker.values("t", 0) == numbers(FIRST) * 2


def test_the_buffer_is_full(broker: ScriptedBroker) -> None:
    """The engine wakes a thread that waits for room, not the thread whose record has made room."""
    options = QUICK | {"buffer_memory": 20_000, "batch_size": 4_000, "compression_type": "lz4", "max_block_ms": 10_000}
    with kafwire.Producer(broker.bootstrap, **options) as producer, within(20):
        warm_up(producer, 0)
        warm_up(producer, 1)

        def run(partition: int) -> list[int]:
            sizes = [2_000, 15_000, 10]
            return [producer.send("t", bytes(sizes[n % 3]), partition=partition).result(10).offset for n in range(90)]

        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(run, [0, 1, 0, 1]))
    for partition in range(2):
        offsets = sorted(offset for one in found[partition::2] for offset in one)
        assert offsets == list(range(FIRST, FIRST + 180))
        assert producer._accumulator.budget.used == 0


def throttle(exchange: scripted.Exchange) -> None:
    response = exchange.execute()
    response.throttle_time_ms = 300
    exchange.send(exchange.frame(response))


def test_a_broker_that_throttles_is_left_in_peace(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        broker.script("Produce", throttle)
        producer.send("t", b"throttled", partition=0).result(10)
        producer.send("t", b"next", partition=0).result(10)
        throttled, following = broker.seen("Produce")[-2:]
        assert following.at - throttled.at >= 0.28


def test_all_partitions_of_a_throttled_connection_wait(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer, 0)
        warm_up(producer, 1)
        broker.script("Produce", throttle)
        producer.send("t", b"throttled", partition=0).result(10)
        producer.send("t", b"next", partition=1).result(10)
        throttled, following = broker.seen("Produce")[-2:]
        assert following.at - throttled.at >= 0.28


def test_large_records_are_the_engines(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        producer.send("t", bytes(20_000), partition=0).result(10)
        assert went_by(producer) == 0
        warm_up(producer)
    assert broker.values("t", 0) == [*numbers(FIRST), bytes(20_000), *numbers(FIRST)]


def test_an_unused_partition_goes_back(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_send_ways, "WATCH_S", 0.02)
    monkeypatch.setattr(direct_send_ways, "UNUSED_S", 0.1)
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer)
        until(lambda: sink_of(producer).direct_send is None)
        warm_up(producer)
    assert broker.values("t", 0) == numbers(FIRST) * 2


def test_partitions_are_leased_one_by_one(broker: ScriptedBroker) -> None:
    broker.lead("t", 1, 2)
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        warm_up(producer, 0)
        assert went_by(producer, 1) == 0
        warm_up(producer, 1)
        go = threading.Event()
        broker.script("Produce", scripted.after(go), node=1)
        slow = producer.send("t", b"slow", partition=0)
        for value in numbers(10):
            producer.send("t", value, partition=1).result(10)
        assert not slow.done()
        go.set()
        assert slow.result(10).offset == FIRST


@pytest.mark.parametrize("options", [{"linger_ms": 1}, {"acks": 0}], ids=str)
def test_no_partition_is_leased_where_records_linger_or_need_no_response(
    broker: ScriptedBroker, options: dict[str, Any]
) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK | options) as producer, within(20):
        for value in numbers(20):
            producer.send("t", value, partition=0).result(10)
        assert sink_of(producer).direct_send is None


def test_the_connection_is_lost_between_two_records(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        for _ in range(5):
            warm_up(producer)
            connection = next(
                connection for connection in producer._cluster.connections if connection.role == "produce"
            )
            producer._engine.start(connection.fail, "a test")
            producer.send("t", b"v", partition=0).result(10)
    assert broker.values("t", 0) == [*numbers(FIRST), b"v"] * 5


def test_no_connection_any_more(broker: ScriptedBroker) -> None:
    options = QUICK | {"delivery_timeout_ms": 600, "request_timeout_ms": 300}
    with kafwire.Producer(broker.bootstrap, **options) as producer, within(20):
        warm_up(producer)
        broker.script("Produce", *[scripted.error(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 3)
        broker.always("Produce", scripted.close)
        with pytest.raises(KafkaError) as caught:
            producer.send("t", b"v", partition=0).result(10)
        assert isinstance(caught.value, KafkaTimeoutError | KafkaConnectionError)
        assert caught.value.in_doubt
        broker.always("Produce", None)
