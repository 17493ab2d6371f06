"""`producer.send.direct_send`, `producer.buffer._direct_send`: records that bypass the engine, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.broker.request import Request
from kafwire.errors import ErrorCode, KafkaError
from kafwire.producer.send import direct_send as net_direct_send
from kafwire.testing.simulation.calls import HANGUP, NEVER
from tests.support.broker.served_kafka import ServedKafka
from tests.support.deadlines import until
from tests.support.simulated.producer import errors

SOON_S = 20


@pytest.fixture
def kafka() -> Iterator[ServedKafka]:
    with ServedKafka() as it:
        it.create_topic("t", 2)
        yield it


def queue_of(producer: Any, partition: int = 0) -> Any:
    return producer._accumulator.topics["t"].queues[partition]


def leased(producer: Any) -> int:
    """Send records one at a time until the partition is leased; how many it took."""
    for number in range(20):
        producer.send("t", b"%d" % number, partition=0).result(SOON_S)
        if producer._engine.run(_settled) is None and queue_of(producer).direct_send is not None:
            return number + 1
    raise AssertionError("never leased")


async def _settled() -> None:
    """Earlier calls to the engine are done."""


def values(kafka: ServedKafka, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in kafka.records("t", partition)]


def counted(producer: Any) -> dict[str, Any]:
    found: dict[str, Any] = producer.metrics()["partitions"]["t-0"]
    return found


@pytest.mark.parametrize("acks", ["all", 1])
@pytest.mark.parametrize("version", [5, 8, 9, 12, 13])
def test_records_go_past_the_engine_and_are_counted_like_others(kafka: ServedKafka, version: int, acks: Any) -> None:
    kafka.state.nodes[1].versions["Produce"] = (3, version)
    with kafwire.Producer(kafka.bootstrap, linger_ms=0, acks=acks) as producer:
        count = leased(producer)
        assert count == net_direct_send.LULLS
        direct_send = queue_of(producer).direct_send
        for number in range(count, count + 5):
            meta = producer.send("t", b"%d" % number, key=b"k", partition=0).result(SOON_S)
            assert (meta.partition, meta.offset) == (0, number)
        assert direct_send.sent == 5
        assert direct_send.batch is None
        reported = counted(producer)
        count += 5
        assert (reported["records"], reported["records_delivered"], reported["batches"]) == (count, count, count)
        assert reported["records_failed"] == reported["retries"] == 0
        sizes = [
            len(data.records)
            for seen in kafka.requests("Produce")
            for topic in seen.message.topic_data
            for data in topic.partition_data
        ]
        assert reported["bytes"] == sum(sizes)
        assert reported["batch_bytes_max"] == max(sizes)
        [connection] = [
            connection for connection in producer.metrics()["connections"] if connection["role"] == "produce"
        ]
        assert connection["requests"] == connection["responses"] == count + 1, "and the greeting"
        assert 0 < connection["latency_ms_max"] <= connection["latency_ms_sum"]
        number = kafka.requests("Produce")[0].connection
        assert (connection["bytes_out"], connection["bytes_in"]) == (kafka.received[number], kafka.sent[number])
        producer.send("t", b"last", partition=0)
    assert values(kafka) == [b"%d" % number for number in range(count)] + [b"last"]
    numbers = [
        (header.producer_id, header.base_sequence)
        for header in kafka.ask(lambda state: list(state.topics.by_name["t"].partitions[0].log.headers(0)))
    ]
    assert len(set(numbers)) == (count + 1 if acks == "all" else 1)
    if acks == "all":
        assert [sequence for _, sequence in numbers] == list(range(count + 1))


@pytest.mark.parametrize("how", ["flush", "two at once", "rows", "metrics", "transactional"])
def test_any_concurrency_takes_the_lease_back(kafka: ServedKafka, how: str) -> None:
    if how == "transactional":
        with kafwire.Producer(kafka.bootstrap, linger_ms=0, transactional_id="x") as producer:
            producer.begin_transaction()
            for number in range(8):
                producer.send("t", b"%d" % number, partition=0).result(SOON_S)
            assert queue_of(producer).direct_send is None
            producer.commit_transaction()
        return
    with kafwire.Producer(kafka.bootstrap, linger_ms=0) as producer:
        count = leased(producer)
        if how == "flush":
            producer.flush()
            assert queue_of(producer).direct_send is None
        elif how == "metrics":
            producer.metrics()
            assert queue_of(producer).direct_send is not None, "to look takes nothing back"
        elif how == "rows":
            producer.send_batch("t", pa.table({"value": [b"1", b"2"]}), partition=0).result(SOON_S)
            assert queue_of(producer).direct_send is None
        else:
            with kafka.hold("Produce"):
                first = producer.send("t", b"first", partition=0)
                second = producer.send("t", b"second", partition=0)
                until(lambda: queue_of(producer).direct_send is None, "it is taken back")
            assert (first.result(SOON_S).offset, second.result(SOON_S).offset) == (count, count + 1)
        more = producer.send("t", b"more", partition=0).result(SOON_S)
        assert values(kafka)[-1] == b"more"
        assert more.offset == len(values(kafka)) - 1
        reported = counted(producer)
        assert reported["records_delivered"] == reported["records"] == len(values(kafka))


@pytest.mark.parametrize("trouble", ["refused", "lost", "broken", "too large"])
def test_the_engine_mends_every_failed_request(kafka: ServedKafka, trouble: str) -> None:
    left = [None]

    def once(request: Request) -> Any:
        if not left:
            return None
        left.clear()
        if trouble == "refused":
            return errors(ErrorCode.NOT_ENOUGH_REPLICAS)(request)
        if trouble == "too large":
            return errors(ErrorCode.MESSAGE_TOO_LARGE)(request)
        return HANGUP

    with kafwire.Producer(kafka.bootstrap, linger_ms=0, retry_backoff_ms=1, retry_backoff_max_ms=1) as producer:
        count = leased(producer)
        if trouble == "lost":
            kafka.drop_response("Produce")
        else:
            kafka.on("Produce", once)
        delivery = producer.send("t", b"hard", partition=0)
        if trouble == "too large":
            with pytest.raises(KafkaError, match="max.message.bytes"):
                delivery.result(SOON_S)
        else:
            assert delivery.result(SOON_S).offset == count
        assert producer.send("t", b"next", partition=0).result(SOON_S).offset >= count
        expected = [b"%d" % number for number in range(count)]
        assert values(kafka) == [*expected, *([] if trouble == "too large" else [b"hard"]), b"next"]
        reported = counted(producer)
        assert reported["records_delivered"] == len(values(kafka))
        assert reported["records_failed"] == (trouble == "too large")


def test_a_request_without_a_response_runs_out_of_time(kafka: ServedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_direct_send, "WATCH_S", 0.02)
    options: dict[str, Any] = {"request_timeout_ms": 100, "delivery_timeout_ms": 200, "retry_backoff_ms": 1}
    with kafwire.Producer(kafka.bootstrap, linger_ms=0, **options) as producer:
        leased(producer)
        kafka.on("Produce", lambda _: NEVER)
        delivery = producer.send("t", b"hangs", partition=0)
        with pytest.raises(KafkaError) as caught:
            delivery.result(SOON_S)
        assert caught.value.in_doubt
        kafka.off("Produce")
        kafka.disconnect()


def test_an_unused_partition_is_given_back(kafka: ServedKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net_direct_send, "WATCH_S", 0.005)
    with kafwire.Producer(kafka.bootstrap, linger_ms=0) as producer:
        leased(producer)
        ways: Any = producer._core.sender._direct_send
        direct_send = queue_of(producer).direct_send
        for number in range(3):  # it is used: so it stays
            producer.send("t", b"%d" % number, partition=0).result(SOON_S)
            until(lambda: ways._used.get(queue_of(producer), (0, 0))[0] == direct_send.sent, "it is seen to be used")
        assert queue_of(producer).direct_send is direct_send
        monkeypatch.setattr(net_direct_send, "UNUSED_S", 0.001)
        until(lambda: queue_of(producer).direct_send is None, "it is taken back")
        until(lambda: ways._watch is None, "nothing is watched")
        assert ways._leased == ways._used == {}
        leased(producer)
        assert ways._watch is not None


def test_a_wait_that_timed_out_gets_nothing_and_the_record_goes_on(kafka: ServedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap, linger_ms=0) as producer:
        count = leased(producer)
        held = contextlib.ExitStack()
        held.enter_context(kafka.hold("Produce"))
        assert counted(producer)["batches_in_flight"] == 0
        delivery = producer.send("t", b"slow", partition=0)
        assert counted(producer)["batches_in_flight"] == 1
        with pytest.raises(KafkaError, match="still on its way"):
            delivery.result(0.01)
        called: list[Any] = []
        delivery.add_done_callback(called.append)
        held.close()
        assert delivery.result(SOON_S).offset == count
        until(lambda: called == [delivery], "its callback runs")
        assert producer.send("t", b"next", partition=0).result(SOON_S).offset == count + 1


@contextlib.contextmanager
def signalled_while_waiting(work: Any) -> Iterator[None]:
    """Call `work` once, in a signal's handler that interrupts the wait of this thread in the block."""
    left = [work]
    came = [0]

    def handler(number: int, frame: object) -> None:
        came[0] += 1
        if came[0] >= 5 and left:  # the first may have come before the wait
            left.pop()()

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not left


def test_a_signal_handler_may_wait_for_the_delivery_of_its_thread(kafka: ServedKafka) -> None:
    """The response comes once: the first wait is called off, and the engine resolves both."""
    with kafwire.Producer(kafka.bootstrap, linger_ms=0) as producer:
        count = leased(producer)
        held = contextlib.ExitStack()
        held.enter_context(kafka.hold("Produce"))
        delivery = producer.send("t", b"slow", partition=0)
        offsets = []

        def wait_too() -> None:
            held.close()
            offsets.append(delivery.result(SOON_S).offset)

        began = time.monotonic()
        with signalled_while_waiting(wait_too):
            offsets.append(delivery.result(SOON_S).offset)
        assert offsets == [count, count]
        assert time.monotonic() - began < SOON_S / 2
        assert producer.send("t", b"next", partition=0).result(SOON_S).offset == count + 1


def test_a_purge_ends_a_wait_for_a_record_in_flight(kafka: ServedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap, linger_ms=0) as producer:
        leased(producer)
        held = contextlib.ExitStack()
        held.enter_context(kafka.hold("Produce"))
        delivery = producer.send("t", b"slow", partition=0)
        purged: list[int] = []
        began = time.monotonic()
        with (
            signalled_while_waiting(lambda: purged.append(producer.purge(in_flight=True))),
            pytest.raises(KafkaError, match="purged before they were acknowledged"),
        ):
            delivery.result(SOON_S)
        assert time.monotonic() - began < SOON_S / 2, "the response is not waited for"
        assert purged == [1]
        held.close()


def test_a_purge_takes_it_back_and_gives_up_records_in_flight(kafka: ServedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap, linger_ms=0) as producer:
        count = leased(producer)
        held = contextlib.ExitStack()
        held.enter_context(kafka.hold("Produce"))
        delivery = producer.send("t", b"slow", partition=0)
        assert producer.purge(in_flight=True) == 1
        with pytest.raises(KafkaError, match="purged before they were acknowledged"):
            delivery.result(SOON_S)
        held.close()
        kafka.off("Produce")
        assert producer.send("t", b"next", partition=0).result(SOON_S).offset == count + 1
        assert values(kafka)[count:] == [b"slow", b"next"]


def test_awaited_records_do_not_go_that_way_but_come(kafka: ServedKafka) -> None:
    async def main() -> None:
        async with kafwire.AsyncProducer(kafka.bootstrap, linger_ms=0) as producer:
            for number in range(8):
                assert (await producer.send_and_wait("t", b"%d" % number, partition=0)).offset == number

    asyncio.run(main())
    assert values(kafka) == [b"%d" % number for number in range(8)]


def test_a_thread_each_for_its_partition(kafka: ServedKafka) -> None:
    with kafwire.Producer(kafka.bootstrap, linger_ms=0) as producer:

        def work(partition: int) -> None:
            for number in range(12):
                sent = producer.send("t", b"%d" % number, partition=partition).result(SOON_S)
                offsets[partition].append(sent.offset)

        offsets: dict[int, list[int]] = {0: [], 1: []}
        threads = [threading.Thread(target=work, args=(partition,)) for partition in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON_S)
    assert offsets == {0: list(range(12)), 1: list(range(12))}
    for partition in (0, 1):
        assert values(kafka, partition) == [b"%d" % number for number in range(12)]
