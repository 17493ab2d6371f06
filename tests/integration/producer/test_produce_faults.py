"""Faults of a producer's records: each arrives once and in order, or its delivery says why not.

"Once" is read from the log of a broker that recognises repeated batches as Kafka does, and fails on demand.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import (
    BrokerError,
    ConfigError,
    ErrorCode,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
)
from kafwire.producer.buffer._batch import Delivery
from kafwire.runtime import patched
from tests.support.broker import scripted_broker as scripted
from tests.support.broker.scripted_broker import ScriptedBroker, Step
from tests.support.deadlines import ended, until
from tests.support.forks import in_child
from tests.support.produce_faults import MENDED, QUICK, numbers
from tests.support.time_limits import within


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2, "u": 1}, nodes=2) as running:
        yield running


@pytest.mark.parametrize("step", MENDED.values(), ids=MENDED)
@pytest.mark.parametrize("in_flight", [1, 5])
def test_every_record_arrives_once_and_in_order(broker: ScriptedBroker, step: Step, in_flight: int) -> None:
    """One-record batches, many in flight, and every third request goes wrong."""
    broker.script("Produce", *[scripted.behave, scripted.behave, step] * 8)
    options = QUICK | {"batch_size": 1, "max_in_flight_requests_per_connection": in_flight}
    with kafwire.Producer(broker.bootstrap, **options) as producer, within(20):
        deliveries = [producer.send("t", value, partition=0) for value in numbers(40)]
        offsets = [delivery.result(20).offset for delivery in deliveries]
    assert broker.values("t", 0) == numbers(40)
    assert offsets == list(range(40))


@pytest.mark.parametrize(
    "step",
    [scripted.error(ErrorCode.NOT_LEADER_OR_FOLLOWER), scripted.error(ErrorCode.NOT_ENOUGH_REPLICAS), scripted.close],
)
def test_the_first_batch_of_a_partition_is_refused(broker: ScriptedBroker, step: Step) -> None:
    """The partition knows nothing of the producer yet: were the second batch taken, the first could never follow."""
    broker.script("Produce", step, scripted.behave, step)
    with kafwire.Producer(broker.bootstrap, **QUICK | {"batch_size": 1, "linger_ms": 50}) as producer, within(20):
        table = pa.table({"value": numbers(40)})
        assert producer.send_batch("t", table, partition=0).result(20) == [("t", 0, 0, 40)]
    assert broker.values("t", 0) == numbers(40)


def test_a_response_is_lost_of_rows_for_many_partitions(broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.lose_response, scripted.close_in_mid_frame, scripted.lose_response)
    table = pa.table({"value": numbers(1000), "partition": [number % 2 for number in range(1000)]})
    with kafwire.Producer(broker.bootstrap, **QUICK | {"batch_size": 2000}) as producer, within(20):
        ranges = producer.send_batch("t", table).result(20)
    assert broker.values("t", 0) == numbers(1000)[::2]
    assert broker.values("t", 1) == numbers(1000)[1::2]
    assert sorted(ranges) == [("t", 0, 0, 500), ("t", 1, 0, 500)]


def test_the_leader_moves_with_batches_in_flight(broker: ScriptedBroker) -> None:
    def move(exchange: scripted.Exchange) -> None:
        exchange.broker.lead("t", 0, 3 - exchange.request.node)
        scripted.behave(exchange)

    broker.script("Produce", scripted.behave, move, *[scripted.behave] * 6, move)
    with kafwire.Producer(broker.bootstrap, **QUICK | {"batch_size": 1}) as producer, within(20):
        for value in numbers(60):
            producer.send("t", value, partition=0)
        producer.flush(20)
    assert broker.values("t", 0) == numbers(60)
    assert {request.node for request in broker.seen("Produce")} == {1, 2}


def test_the_broker_vanishes_for_a_while(broker: ScriptedBroker) -> None:
    def come_back() -> None:
        for node in (1, 2):
            broker.start(node)

    def vanish(exchange: scripted.Exchange) -> None:
        exchange.execute()
        threading.Timer(0.5, come_back).start()
        for node in (1, 2):
            broker.stop(node)

    broker.script("Produce", scripted.behave, vanish)
    with kafwire.Producer(broker.bootstrap, **QUICK | {"batch_size": 1}) as producer, within(20):
        deliveries = [producer.send("t", value, partition=0) for value in numbers(30)]
        assert [delivery.result(20).offset for delivery in deliveries] == list(range(30))
    assert broker.values("t", 0) == numbers(30)


def test_other_partitions_do_not_wait_for_one_that_fails(broker: ScriptedBroker) -> None:
    broker.lead("t", 1, 2)
    broker.always("Produce", scripted.error(ErrorCode.NOT_LEADER_OR_FOLLOWER), node=2)
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        stuck = producer.send("t", b"stuck", partition=1)
        for value in numbers(20):
            producer.send("t", value, partition=0).result(10)
        assert not stuck.done()
        broker.always("Produce", None, node=2)
        assert stuck.result(10).offset == 0


def test_a_batch_that_the_broker_refuses_leaves_the_others_alone(broker: ScriptedBroker) -> None:
    """The refused one used sequence numbers: without a new epoch no later batch of its partition could follow."""
    broker.script("Produce", scripted.behave, scripted.behave, scripted.error(ErrorCode.INVALID_RECORD, "no key"))
    with kafwire.Producer(broker.bootstrap, **QUICK | {"batch_size": 1}) as producer, within(20):
        deliveries = [producer.send("t", value, partition=0) for value in numbers(20)]
        producer.flush(20)
        errors = [delivery.exception(1) for delivery in deliveries]
    (bad,) = [error for error in errors if error is not None]
    assert isinstance(bad, BrokerError)
    assert bad.name == "INVALID_RECORD"
    assert "t-0 on broker 1 at 127.0.0.1:" in str(bad)
    assert "no key" in str(bad)
    missing = numbers(20)[errors.index(bad)]
    assert broker.values("t", 0) == [value for value in numbers(20) if value != missing]


def test_a_record_too_large_for_the_broker(broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.behave, scripted.error(ErrorCode.MESSAGE_TOO_LARGE))
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        producer.send("t", b"before", partition=0).result(10)
        with pytest.raises(RecordTooLargeError, match="t-0 on broker 1 at 127") as caught:
            producer.send("t", b"big", partition=0).result(10)
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        assert producer.send("t", b"after", partition=0).result(10).offset == 1
    assert broker.values("t", 0) == [b"before", b"after"]


def test_an_unknown_topic_id_is_looked_up_again(broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.error(100))
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(20):
        assert producer.send("t", b"x", partition=0).result(10).offset == 0


# -- time


def expiring(**options: object) -> dict[str, Any]:
    return QUICK | {"request_timeout_ms": 200, "delivery_timeout_ms": 900} | options


def test_delivery_timeout_of_sent_records_says_that_they_may_be_stored(broker: ScriptedBroker) -> None:
    broker.always("Produce", scripted.lose_response)
    with kafwire.Producer(broker.bootstrap, **expiring()) as producer:
        with within(10, at_least=0.8), pytest.raises(KafkaTimeoutError, match="t-0.*may or may not be in the log"):
            producer.send("t", b"x", partition=0).result(10)
        assert broker.values("t", 0) == [b"x"]
        broker.always("Produce", None)
        with within(10):
            producer.send("t", b"y", partition=0).result(10)
    assert broker.values("t", 0) == [b"x", b"y"]


def test_delivery_timeout_of_unsent_records_says_why(broker: ScriptedBroker) -> None:
    with kafwire.Producer(broker.bootstrap, **expiring()) as producer, within(10):
        producer.send("t", b"x", partition=0).result(10)
        for node in (1, 2):
            broker.stop(node)
        first = producer.send("t", b"y", partition=0)
        with pytest.raises(KafkaTimeoutError, match=r"t-0.*delivery_timeout_ms \(900\)"):
            first.result(10)
        second = producer.send("t", b"z", partition=0)
        with pytest.raises(KafkaTimeoutError, match=r"1 record\(s\) to t-0 could not be sent.*127\.0\.0\.1.*refused"):
            second.result(10)


def test_no_producer_id_can_be_had(broker: ScriptedBroker) -> None:
    broker.always("InitProducerId", scripted.error(-1))
    with kafwire.Producer(broker.bootstrap, **expiring()) as producer, within(10):
        delivery = producer.send("t", b"x", partition=0)
        with pytest.raises(KafkaTimeoutError, match="could not be sent.*UNKNOWN_SERVER_ERROR.*producer id"):
            delivery.result(10)


def test_no_producer_id_may_be_had(broker: ScriptedBroker) -> None:
    broker.always("InitProducerId", scripted.error(31))
    with kafwire.Producer(broker.bootstrap) as producer, within(10):
        delivery = producer.send("t", b"x", partition=0)
        with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED.*producer id"):
            delivery.result(5)  # at once, and not when `delivery_timeout_ms` is over


def test_a_broker_that_hangs_is_given_up_after_request_timeout_ms(broker: ScriptedBroker) -> None:
    broker.script("Produce", scripted.no_response)
    with (
        kafwire.Producer(broker.bootstrap, **QUICK | {"request_timeout_ms": 300}) as producer,
        within(10, at_least=0.3),
    ):
        assert producer.send("t", b"x", partition=0).result(10).offset == 0


def test_flush_and_close_return_in_time(broker: ScriptedBroker) -> None:
    producer = kafwire.Producer(broker.bootstrap, **QUICK)
    producer.send("t", b"w", partition=0).result(10)
    broker.always("Produce", scripted.no_response)
    sent = producer.send("t", b"x", partition=0)
    broker.wait_for_requests("Produce", 2)
    with within(5, at_least=0.3), pytest.raises(KafkaTimeoutError, match="within 0.3 s"):
        producer.flush(0.3)
    assert not sent.done()
    with within(5), pytest.raises(KafkaTimeoutError, match="within 0 s"):
        producer.flush(0)
    with within(5, at_least=0.3), pytest.raises(KafkaTimeoutError, match="within 0.3 s"):
        sent.result(0.3)
    unsent = producer.send("t", b"y", partition=0)
    with within(5, at_least=0.3), pytest.raises(KafkaTimeoutError, match=r"2 record\(s\) to t-0 not acknowledged"):
        producer.close(0.3)
    for delivery in (sent, unsent):
        with pytest.raises(KafkaError, match="t-0.*may or may not be in the log"):
            delivery.result(1)
    producer.close()


def test_close_gives_up_unsent_records(broker: ScriptedBroker) -> None:
    broker.lead("t", 1, 2)
    producer = kafwire.Producer(broker.bootstrap, **QUICK)
    producer.send("t", b"x", partition=0).result(10)
    broker.stop(2)
    delivery = producer.send("t", b"y", partition=1)
    with within(5), pytest.raises(KafkaTimeoutError, match=r"1 record\(s\)"):
        producer.close(0.2)
    with pytest.raises(KafkaError, match=r"before 1 record\(s\) to t-1 were sent"):
        delivery.result(1)


def test_an_error_in_the_with_block_is_not_hidden_and_an_interrupt_does_not_wait(broker: ScriptedBroker) -> None:
    with within(10), pytest.raises(ZeroDivisionError), kafwire.Producer(broker.bootstrap, **QUICK) as producer:
        delivery = producer.send("t", b"x", partition=0)
        raise ZeroDivisionError
    assert delivery.result(0).offset == 0
    broker.always("Produce", scripted.no_response)
    with within(5), pytest.raises(KeyboardInterrupt), kafwire.Producer(broker.bootstrap, **QUICK) as producer:
        producer.send("t", b"x", partition=0)
        raise KeyboardInterrupt


def test_use_after_close(broker: ScriptedBroker) -> None:
    producer = kafwire.Producer(broker.bootstrap)
    producer.send("t", b"x").result(10)
    producer.close()
    calls: list[Callable[[], object]] = [
        lambda: producer.send("t", b"x"),
        lambda: producer.send("new", b"x"),
        lambda: producer.send_batch("t", pa.table({"value": [b"x"]})),
        producer.flush,
    ]
    for call in calls:
        with within(10), pytest.raises(KafkaError, match="producer is closed"):
            call()
    producer.close()
    client = kafwire.Client(broker.bootstrap)
    client.topic("t")
    client.close()
    for call in (client.metadata, lambda: client.topic("t"), lambda: client.offsets([])):
        with within(10), pytest.raises(KafkaError, match="client is closed"):
            call()
    client.close()
    scan = kafwire.scan(broker.bootstrap, "t")
    scan.close()
    scan.close()
    assert list(scan.batches()) == []


def test_close_ends_the_waits_of_other_threads(broker: ScriptedBroker) -> None:
    """A send that waits for room, a flush, a result, and a call that waits for a response."""
    ends: dict[str, BaseException | None] = {}

    def run(name: str, call: Callable[[], object]) -> threading.Thread:
        def body() -> None:
            try:
                call()
            except BaseException as error:
                ends[name] = error
            else:
                ends[name] = None

        thread = threading.Thread(target=body)
        thread.start()
        return thread

    broker.always("Produce", scripted.no_response)
    producer = kafwire.Producer(broker.bootstrap, **QUICK | {"buffer_memory": 3000})
    delivery = producer.send("t", b"x" * 2000, partition=0)
    broker.wait_for_requests("Produce")
    broker.script("Metadata", scripted.no_response, scripted.no_response)
    client = kafwire.Client(broker.bootstrap)
    threads = [
        run("send", lambda: producer.send("t", b"y" * 2000, partition=0)),
        run("flush", producer.flush),
        run("result", delivery.result),
        run("learn", lambda: producer.send("u", b"x")),
        run("call", client.metadata),
    ]
    broker.wait_for_requests("Metadata", 3)
    with within(10):
        with pytest.raises(KafkaTimeoutError):
            producer.close(0.2)
        client.close()
        ended(*threads)
    assert {name for name, end in ends.items() if isinstance(end, KafkaError)} == {"send", "result", "learn", "call"}, (
        ends
    )
    assert all(end is None or isinstance(end, KafkaError) for end in ends.values()), ends


# -- memory


def test_a_full_buffer_blocks_for_max_block_ms_and_no_longer(broker: ScriptedBroker) -> None:
    gate = threading.Event()
    broker.always("Produce", scripted.after(gate))
    options = QUICK | {"buffer_memory": 100_000, "batch_size": 10_000, "max_block_ms": 300}
    with kafwire.Producer(broker.bootstrap, **options) as producer:
        deliveries = []
        with (
            within(10, at_least=0.3),
            pytest.raises(KafkaTimeoutError, match=r"buffer_memory \(100000 bytes\).*\(300\)"),
        ):
            for _ in range(200):
                deliveries += [producer.send("t", b"x" * 1000, partition=0)]
        assert 60 <= len(deliveries) <= 100
        with within(10, at_least=0.3), pytest.raises(KafkaTimeoutError, match="buffer_memory"):
            producer.send_batch("t", pa.table({"value": [b"y" * 1000] * 200}), partition=0)
        gate.set()
        with within(10):
            deliveries.append(producer.send("t", b"x" * 1000, partition=0))
            assert len({delivery.result(10).offset for delivery in deliveries}) == len(deliveries)
    assert broker.values("t", 0).count(b"x" * 1000) == len(deliveries)


def test_a_record_larger_than_the_buffer_goes_when_the_buffer_is_empty(broker: ScriptedBroker) -> None:
    options = QUICK | {"buffer_memory": 1000, "batch_size": 500}
    with kafwire.Producer(broker.bootstrap, **options) as producer, within(10):
        for number in range(5):
            producer.send("t", b"%d" % number * 5000, partition=0)
        producer.flush(10)
    assert [value[:1] for value in broker.values("t", 0) if value] == numbers(5)


# -- callbacks


def test_delivery_callbacks(broker: ScriptedBroker) -> None:
    seen: list[tuple[str, object]] = []
    done = threading.Event()
    broker.script("Produce", scripted.behave, scripted.error(ErrorCode.INVALID_RECORD))
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(10):
        good = producer.send("t", b"x", partition=0)
        good.add_done_callback(lambda delivery: seen.append(("good", delivery.result(0).offset)))
        good.result(10)
        bad = producer.send("t", b"y", partition=0)

        def note(delivery: Delivery) -> None:
            seen.append(("bad", getattr(delivery.exception(0), "name", None)))
            done.set()

        bad.add_done_callback(note)
        assert done.wait(10)
        late: list[object] = []
        bad.add_done_callback(late.append)
        until(lambda: late == [bad])  # behind the one that is running
    assert seen == [("good", 0), ("bad", "INVALID_RECORD")]


def test_a_callback_that_raises_stops_nothing(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    def raise_it(_delivery: object) -> None:
        raise ZeroDivisionError

    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(10):
        for value in numbers(5):
            producer.send("t", value, partition=0).add_done_callback(raise_it)
        producer.flush(10)
        assert producer.send("t", b"last", partition=0).result(10).offset == 5
    until(lambda: caplog.text.count("delivery callback raised") == 5)
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_may_send_but_not_wait(broker: ScriptedBroker) -> None:
    ends: list[object] = []
    done = threading.Event()

    def go_on(_delivery: object) -> None:
        try:
            ends.append(producer.send("t", b"second", partition=0))
            ends.append(producer.send("unheard", b"third"))
            for call in (producer.flush, producer.close):
                try:
                    call()
                except KafkaError as error:
                    ends.append(str(error))
        finally:
            done.set()

    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(10):
        producer.send("t", b"first", partition=0).add_done_callback(go_on)
        assert done.wait(10)
        second, third, *refused = ends
        assert second.result(10).offset == 1  # type: ignore[attr-defined]
        assert "do not create topics" in str(third.exception(10))  # type: ignore[attr-defined]
        assert len(refused) == 2
        assert all("delivery callback" in str(text) for text in refused)


def test_a_callback_needs_no_room(broker: ScriptedBroker) -> None:
    """Room comes as callbacks return: one that waited for it would wait for itself."""
    ends: list[str] = []
    done = threading.Event()
    broker.script("Produce", scripted.behave)
    broker.always("Produce", scripted.no_response)

    def fill(_delivery: object) -> None:
        try:
            for _ in range(10):
                producer.send("t", bytes(1000), partition=0)
        except KafkaError as error:
            ends.append(str(error))
        finally:
            done.set()

    producer = kafwire.Producer(broker.bootstrap, **QUICK | {"buffer_memory": 5000, "batch_size": 2000})
    with within(10):
        producer.send("t", b"first", partition=0).add_done_callback(fill)
        assert done.wait(10)
        with pytest.raises(KafkaTimeoutError):
            producer.close(0.1)
    assert ends == []


def test_a_fork_within_a_callback_may_wait(broker: ScriptedBroker) -> None:
    ends: list[object] = []

    def child() -> None:
        with kafwire.Producer(broker.bootstrap, **QUICK) as producer:
            assert producer.send("t", b"child", partition=0).result(10).offset == 1

    def fork(_delivery: object) -> None:
        try:
            in_child(child)
            ends.append(None)
        except BaseException as error:
            ends.append(error)

    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(30):
        producer.send("t", b"parent", partition=0).add_done_callback(fork)
        producer.flush()
    assert ends == [None]


def test_a_callback_that_waits_for_another_delivery_is_refused(broker: ScriptedBroker) -> None:
    """The callback runs on the thread that would have to take in the response: it would wait for ever."""
    ends: list[object] = []
    done = threading.Event()
    gate = threading.Event()
    broker.script("Produce", scripted.behave, scripted.after(gate))

    def wait(_delivery: Delivery) -> None:
        try:
            ends.append(producer.send("t", b"second", partition=0).result(20))
        except KafkaError as error:
            ends.append(str(error))
        finally:
            done.set()

    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(10):
        producer.send("t", b"first", partition=0).add_done_callback(wait)
        assert done.wait(10)
        gate.set()
    assert "delivery callback" in str(ends[0])


def test_two_threads_wait_for_the_same_batch(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both begin to wait at the same moment; neither may take the other's alarm away."""
    meet = threading.Barrier(3)
    real = patched.allocate_lock
    results: list[object] = []

    def slow() -> object:
        if threading.current_thread().name.startswith("waiter"):
            meet.wait(10)
        return real()

    gate = threading.Event()
    broker.script("Produce", scripted.after(gate))
    with kafwire.Producer(broker.bootstrap, linger_ms=100) as producer, within(20):
        deliveries = [producer.send("t", value, partition=0) for value in numbers(2)]
        waiters = [
            threading.Thread(
                target=lambda d=delivery: results.append(d.result().offset), name=f"waiter {n}", daemon=True
            )
            for n, delivery in enumerate(deliveries)
        ]
        monkeypatch.setattr(patched, "allocate_lock", slow)
        for waiter in waiters:
            waiter.start()
        meet.wait(10)
        gate.set()
        ended(*waiters)
    assert sorted(map(str, results)) == ["0", "1"]


# -- acks


@pytest.mark.parametrize(("acks", "wire"), [("all", -1), (1, 1), (0, 0)])
def test_acks(broker: ScriptedBroker, acks: str | int, wire: int) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK | {"acks": acks}) as producer, within(10):
        offsets = [producer.send("t", value, partition=0).result(10).offset for value in numbers(3)]
        assert offsets == ([-1] * 3 if acks == 0 else [0, 1, 2])
    broker.wait_for_requests("Produce", 3)
    assert {request.message.acks for request in broker.seen("Produce")} == {wire}
    broker.wait_for(lambda: len(broker.logs["t", 0]) == 3)
    assert broker.values("t", 0) == numbers(3)
    batches = [kafwire.records.decode_batches(stored.data)[0] for stored in broker.logs["t", 0]]
    assert all((batch.producer_id >= 0) == (acks == "all") for batch in batches)


def test_without_acks_a_closed_connection_fails_its_unwritten_records(broker: ScriptedBroker) -> None:
    """No more can be known: a sent record is done, the next record finds another connection."""
    broker.script("Produce", scripted.close)
    with kafwire.Producer(broker.bootstrap, **QUICK | {"acks": 0}) as producer, within(10):
        producer.send("t", b"lost", partition=0).result(10)
        broker.wait_for_requests("Produce")

        def stored() -> list[bytes | None]:
            producer.send("t", b"x", partition=0).result(10)
            return broker.values("t", 0)

        until(stored)


def test_records_larger_than_max_request_size_are_refused_at_once(broker: ScriptedBroker) -> None:
    options = QUICK | {"max_request_size": 10_000, "batch_size": 5000}
    with kafwire.Producer(broker.bootstrap, **options) as producer, within(10):
        producer.send("t", b"before", partition=0)
        with pytest.raises(RecordTooLargeError, match=r"'t' is larger than max_request_size \(10000\)"):
            producer.send("t", b"x" * 10_001, partition=0)
        with pytest.raises(RecordTooLargeError, match=r"'t' is larger than max_request_size \(10000\)"):
            producer.send("t", b"x", key=b"k" * 10_001, partition=0)
        rows = pa.table({"value": [b"row 0", b"x" * 10_001, b"row 2"]})
        delivery = producer.send_batch("t", rows, partition=0)
        with pytest.raises(RecordTooLargeError, match=r"'t' is larger than max_request_size \(10000\)"):
            delivery.result(10)
        producer.send("t", b"x" * 9000, partition=0)
        producer.send("t", b"after", partition=0)
        producer.flush(10)
    assert broker.values("t", 0) == [b"before", b"row 0", b"row 2", b"x" * 9000, b"after"]


# -- wrong rows and records


def test_wrong_records_are_named_and_leave_the_producer_of_use(broker: ScriptedBroker) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"value": "text"}, "the value is text: encode it"),
        ({"value": 5}, "the value must be bytes-like or None, not int"),
        ({"key": 5}, "the key must be bytes-like or None, not int"),
        ({"partition": "0"}, "partition='0': it must be a whole number"),
        ({"partition": 1.0}, "partition=1.0: it must be a whole number"),
        ({"timestamp_ms": "now"}, "timestamp_ms='now': it must be whole milliseconds"),
        ({"timestamp_ms": 2**70}, "timestamp_ms=1180591620717411303424"),
        ({"headers": 5}, "headers=5: it must be a list"),
        ({"headers": [("a",)]}, "header must be a .key, value. pair"),
        ({"headers": [("a", 5)]}, "header value must be bytes, str or None, not int"),
        ({"headers": [(5, b"b")]}, "header key must be str or bytes, not int"),
    ]
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(10):
        producer.send("t", b"before", partition=0).result(10)
        for arguments, message in wrong:
            with pytest.raises(ConfigError, match=message):
                producer.send("t", **arguments)
        for topic in (5, None, ""):
            with pytest.raises(ConfigError, match="the topic must be a non-empty str"):
                producer.send(topic, b"x")  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match="no topic" if topic is None else "the topic must be a non-empty str"):
                producer.send_batch(topic, pa.table({"value": [b"x"]}))  # type: ignore[arg-type]
        producer.send("t", b"after", partition=0).result(10)
    assert broker.values("t", 0) == [b"before", b"after"]
    assert broker.values("t", 1) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"values": [b"x"]}, "values"),
        ({"key": [b"x"]}, "value"),
        ({"value": [1]}, "column 'value' must be binary or string"),
        ({"value": [1.5]}, "column 'value' must be binary or string"),
        ({"value": [b"x"], "key": [5]}, "key"),
        ({"value": [b"x"], "partition": ["0"]}, "partition"),
        ({"value": [b"x"], "partition": [7]}, "row 0.*partition.*0 to 1"),
        ({"value": [b"x"], "partition": [-1]}, "row 0.*partition.*0 to 1"),
        ({"value": [b"x"], "timestamp": ["now"]}, "timestamp"),
        ({"value": [b"x"], "headers": [b"h"]}, "headers"),
        ({"value": [b"x"], "headers": [[{"key": "a"}]]}, "headers"),
    ],
)
def test_wrong_columns_are_named(broker: ScriptedBroker, columns: dict[str, Any], message: str) -> None:
    with kafwire.Producer(broker.bootstrap, **QUICK, max_block_ms=1000) as producer, within(10):
        with pytest.raises(ConfigError, match=message):
            producer.send_batch("t", pa.table(columns))
        assert producer.send("t", b"x", partition=0).result(10).offset == 0


@pytest.mark.parametrize("data", [None, 5, b"x", [b"x"], {"value": [b"x"]}, "text"])
def test_data_that_is_not_arrow_is_refused(broker: ScriptedBroker, data: object) -> None:
    with (
        kafwire.Producer(broker.bootstrap, **QUICK) as producer,
        within(10),
        pytest.raises(ConfigError, match="Arrow|__arrow_c"),
    ):
        producer.send_batch("t", data)


def test_an_arrow_stream_that_breaks_says_so(broker: ScriptedBroker) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": [b"first"]})
        raise ZeroDivisionError("the source broke")

    schema = pa.schema({"value": pa.binary()})
    with kafwire.Producer(broker.bootstrap, **QUICK) as producer, within(10):
        with pytest.raises(OSError, match="the Arrow stream failed.*the source broke"):
            producer.send_batch("t", pa.RecordBatchReader.from_batches(schema, batches()), partition=0)
        producer.flush(10)
        assert broker.values("t", 0) == [b"first"]


def test_errors_are_caught_by_pythons_own_names_too() -> None:
    assert issubclass(KafkaConnectionError, ConnectionError)
    assert issubclass(KafkaTimeoutError, TimeoutError)
    assert issubclass(ConfigError, ValueError)
