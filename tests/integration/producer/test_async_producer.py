"""`AsyncProducer` and what only an event loop can ask: cancellation, turns, several loops, and not being held up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.aio.deliveries import AsyncDelivery, LoopState
from kafwire.errors import BrokerError, ErrorCode, KafkaError, KafkaTimeoutError
from kafwire.producer.buffer._batch import Budget
from kafwire.runtime.interfaces import Clock, Waiter
from tests.support.broker import scripted_broker as scripted
from tests.support.broker.scripted_broker import ScriptedBroker
from tests.support.deadlines import ended
from tests.support.time_limits import within

QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50, "reconnect_backoff_ms": 10, "linger_ms": 0}
SMALL: dict[str, Any] = QUICK | {"buffer_memory": 5000, "batch_size": 2000}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2, "u": 1}) as running:
        yield running


def run(what: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with within(20):
        asyncio.run(what())


@contextlib.asynccontextmanager
async def producing(broker: ScriptedBroker, **options: Any) -> AsyncIterator[kafwire.AsyncProducer]:
    async with kafwire.AsyncProducer(broker.bootstrap, **QUICK | options) as producer:
        await (await producer.send("u", b"warm"))  # its topic is known, its connection open
        yield producer


async def turns(count: int = 20) -> None:
    """Let all tasks come to where they wait."""
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def meta_of(delivery: AsyncDelivery) -> kafwire.RecordMetadata:
    return await delivery


# -- awaiting deliveries


def test_many_tasks_are_woken_at_once(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call into the loop for a batch, whatever the number of its records and of waiting tasks."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        calls: list[object] = []
        real = loop.call_soon_threadsafe

        def counted(function: Any, *args: Any, **options: Any) -> asyncio.Handle:
            calls.append(function)
            return real(function, *args, **options)

        gate = threading.Event()
        async with producing(broker) as producer:
            broker.script("Produce", scripted.after(gate), scripted.after(gate))
            sent = [await producer.send("u", b"%d" % n) for n in range(1000)]
            tasks = [asyncio.ensure_future(meta_of(delivery)) for delivery in sent]
            await turns()
            await asyncio.to_thread(broker.wait_for_requests, "Produce", 2)
            batches = len({delivery._delivery.batch for delivery in sent})
            monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
            gate.set()
            metas = await asyncio.gather(*tasks)
            assert 1 <= len(calls) <= batches < 100
            assert [meta.offset for meta in metas] == list(range(1, 1001))
            assert all([(await delivery).offset for delivery in sent])  # known: no call asks the engine again
            assert len(calls) <= batches

    run(body)


def test_a_cancelled_wait_leaves_the_record_and_other_waiters_alone(broker: ScriptedBroker) -> None:
    async def body() -> None:
        gate = threading.Event()
        async with producing(broker) as producer:
            broker.script("Produce", scripted.after(gate))
            delivery = await producer.send("u", b"v")
            waiting, staying = (asyncio.ensure_future(meta_of(delivery)) for _ in range(2))
            await turns()
            await cancelled(waiting)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(meta_of(delivery), 0.05)
            gate.set()
            assert (await staying).offset == (await delivery).offset == 1
        assert broker.values("u") == [b"warm", b"v"]

    run(body)


def test_the_methods_of_a_delivery_in_each_state(broker: ScriptedBroker) -> None:
    async def body() -> None:
        gate = threading.Event()
        async with producing(broker) as producer:
            broker.script("Produce", scripted.after(gate), scripted.error(ErrorCode.INVALID_RECORD))
            delivery = await producer.send("u", b"v")
            assert not delivery.done()
            assert "pending" in repr(delivery)
            for ask in (delivery.result, delivery.exception):
                with pytest.raises(KafkaError, match="await"):
                    ask()
            gate.set()
            await delivery
            assert delivery.result().offset == 1
            bad = await producer.send("u", b"v")
            with pytest.raises(BrokerError):
                await bad
            assert isinstance(bad.exception(), BrokerError)
            with pytest.raises(BrokerError):
                bad.result()

    run(body)


def test_a_delivery_is_awaited_in_another_loop(broker: ScriptedBroker) -> None:
    async def body() -> None:
        gate = threading.Event()
        async with producing(broker) as producer:
            broker.script("Produce", scripted.after(gate))
            delivery = await producer.send("u", b"v")
            elsewhere = asyncio.ensure_future(asyncio.to_thread(asyncio.run, meta_of(delivery)))
            here = asyncio.ensure_future(meta_of(delivery))
            await turns()
            gate.set()
            assert await elsewhere == await here

    run(body)


def test_a_producer_is_used_from_several_loops(broker: ScriptedBroker) -> None:
    producer = kafwire.AsyncProducer(broker.bootstrap, **SMALL)

    async def send(name: int) -> None:
        for n in range(50):
            delivery = await producer.send("t", b"%d %d" % (name, n) + bytes(500), partition=0)
        await delivery

    threads = [threading.Thread(target=lambda n=n: asyncio.run(send(n))) for n in range(4)]
    with within(20):
        for thread in threads:
            thread.start()
        ended(*threads)
        asyncio.run(producer.close())
    values = [value.rstrip(b"\0").split() for value in broker.values("t") if value]
    assert len(values) == 200
    for name in range(4):
        assert [int(n) for sender, n in values if int(sender) == name] == list(range(50))


def test_a_loop_that_ended_is_not_called(broker: ScriptedBroker) -> None:
    gate = threading.Event()
    producer = kafwire.AsyncProducer(broker.bootstrap, **QUICK)
    broker.script("Produce", scripted.after(gate))

    async def begin() -> AsyncDelivery:
        delivery = await producer.send("u", b"v")
        waiting = asyncio.ensure_future(meta_of(delivery))
        await turns()
        await cancelled(waiting)
        return delivery

    async def end(delivery: AsyncDelivery) -> None:
        gate.set()
        assert (await delivery).offset == 0
        await producer.close()

    with within(10):
        asyncio.run(end(asyncio.run(begin())))
    assert len(producer._loops._loops) == 1


def test_callbacks_run_in_the_loop(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        seen: list[object] = []

        def fail(_delivery: object) -> None:
            raise ZeroDivisionError

        def note(delivery: AsyncDelivery) -> None:
            assert asyncio.get_running_loop() is home
            seen.append(delivery)

        home = asyncio.get_running_loop()
        async with producing(broker) as producer:
            delivery = await producer.send("u", b"v")
            for function in (note, fail, note):
                delivery.add_done_callback(function)
            await delivery
            assert seen == [delivery] * 2
            delivery.add_done_callback(note)
            assert len(seen) == 2  # never before the call has returned
            await turns()
            assert seen == [delivery] * 3

    run(body)
    assert "ZeroDivisionError" in caplog.text


# -- waiting for room and for topics


def test_nothing_holds_up_the_loop(broker: ScriptedBroker) -> None:
    """While senders wait for metadata, for room and for a flush, other tasks run."""

    async def body() -> None:
        async with kafwire.AsyncProducer(broker.bootstrap, **SMALL) as producer:
            for api, work in (
                ("Metadata", lambda: producer.send("t", b"v", partition=0)),
                ("Produce", lambda: producer.send_batch("t", pa.table({"value": [bytes(1000)] * 20}))),
                ("Produce", producer.flush),
            ):
                broker.script(api, scripted.after(0.3))
                if work == producer.flush:
                    await producer.send("t", b"v")
                task = asyncio.ensure_future(work())
                count = 0
                while not task.done():
                    await asyncio.sleep(0)
                    count += 1
                await task
                assert count > 5, api

    run(body)


def test_senders_get_room_in_turn(broker: ScriptedBroker) -> None:
    """A large record is not passed by small ones that come after it."""

    async def body() -> None:
        gate = threading.Event()
        order: list[int] = []

        async def send(number: int, size: int) -> None:
            await producer.send("u", bytes(size))
            order.append(number)

        async with producing(broker, buffer_memory=5000, batch_size=2000) as producer:
            broker.script("Produce", scripted.after(gate))
            sizes = [4500 if number % 5 == 4 else 100 * number for number in range(21)]
            tasks = [asyncio.ensure_future(send(number, size)) for number, size in enumerate(sizes)]
            await turns()
            assert 0 < len(order) < 10
            assert producer._accumulator.budget.waiting == 21 - len(order)
            gate.set()
            await asyncio.gather(*tasks)
            assert order == list(range(21))
            assert producer._accumulator.budget.waiting == 0

    run(body)


def test_a_sender_cancelled_in_the_queue_has_sent_nothing(broker: ScriptedBroker) -> None:
    async def body() -> None:
        gate = threading.Event()
        async with producing(broker, buffer_memory=5000, batch_size=2000) as producer:
            broker.script("Produce", scripted.after(gate))
            tasks = [asyncio.ensure_future(producer.send("u", b"%d" % n * 1000)) for n in range(8)]
            await turns()
            sent = sum(task.done() for task in tasks)
            assert 2 <= sent <= 4
            await cancelled(tasks[sent])  # the first in the queue
            await cancelled(tasks[6])
            rows = asyncio.ensure_future(producer.send_batch("u", pa.table({"value": [b"9" * 1000]})))
            await turns()
            await cancelled(rows)
            assert not tasks[sent + 1].done()
            gate.set()
            for n, task in enumerate(tasks):
                if n not in (sent, 6):
                    await (await task)
        found = [int(value[:1]) for value in broker.values("u")[1:] if value]
        assert found == [n for n in range(8) if n not in (sent, 6)]

    run(body)


def test_a_task_that_got_room_lets_the_next_one_look() -> None:
    """One notice of more room may be enough for all waiting tasks."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        home = LoopState(loop, Budget(100, Clock(), Waiter()))
        order: list[int] = []

        async def wait(number: int) -> None:
            place = home.enter()
            try:
                assert await place.wait(loop.time() + 10)
                order.append(number)
            finally:
                home.leave(place)

        tasks = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await turns()
        home.more_room()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)
        assert order == [0, 1, 2]

    run(body)


def test_a_sender_cancelled_as_room_comes_passes_it_on(broker: ScriptedBroker) -> None:
    """The first in the queue is woken and cancelled in one turn: the next one must not wait for ever."""

    async def body() -> None:
        gate = threading.Event()
        async with producing(broker, buffer_memory=5000, batch_size=2000) as producer:
            broker.script("Produce", scripted.after(gate))
            tasks = [asyncio.ensure_future(producer.send("u", bytes(2000))) for _ in range(4)]
            await turns()
            first, second = (task for task in tasks if not task.done())
            home = producer._loops.here()
            place = home.senders[0]
            real = place.wake

            def wake_and_cancel() -> None:
                real()
                first.cancel()

            place.wake = wake_and_cancel  # type: ignore[method-assign]
            gate.set()
            await (await asyncio.wait_for(second, 10))
            assert first.cancelled()
            assert not home.senders

    run(body)


def test_a_sender_cancelled_while_its_topic_is_looked_up(broker: ScriptedBroker) -> None:
    async def body() -> None:
        gate = threading.Event()
        async with producing(broker) as producer:
            broker.script("Metadata", scripted.after(gate))
            tasks = [asyncio.ensure_future(producer.send("t", b"%d" % n, partition=0)) for n in range(2)]
            await turns()
            await asyncio.to_thread(broker.wait_for_requests, "Metadata", 2)
            await cancelled(tasks[0])
            gate.set()
            await (await tasks[1])
        assert broker.values("t", 0) == [b"1"]

    run(body)


def test_a_large_table_cancelled_while_it_is_encoded(broker: ScriptedBroker) -> None:
    """Rows that were in batches by then are sent, and nothing is sent twice."""

    async def body() -> None:
        table = pa.table({"value": [b"%06d" % n * 50 for n in range(20_000)]})
        async with producing(broker, buffer_memory=300_000, batch_size=20_000) as producer:
            task = asyncio.ensure_future(producer.send_batch("u", table))
            await asyncio.to_thread(broker.wait_for_requests, "Produce", 2)
            await cancelled(task)
            await producer.flush()
            after = len(broker.values("u"))
            await (await producer.send("u", b"last"))
        values = broker.values("u")
        assert 1 < after < 20_001
        assert values[1:-1] == [b"%06d" % n * 50 for n in range(after - 1)]
        assert values[-1] == b"last"

    run(body)


# -- the end


def test_a_cancelled_close_closes(broker: ScriptedBroker) -> None:
    async def body() -> None:
        gate = threading.Event()
        producer = kafwire.AsyncProducer(broker.bootstrap, **QUICK)
        broker.script("Produce", scripted.after(gate))
        delivery = await producer.send("u", b"v")
        closing = asyncio.ensure_future(producer.close())
        await turns()
        await cancelled(closing)
        gate.set()
        assert (await delivery).offset == 0
        await producer.close()
        with pytest.raises(KafkaError, match="closed"):
            await producer.send("u", b"v")

    run(body)


def test_a_cancelled_block_still_delivers(broker: ScriptedBroker) -> None:
    async def body() -> None:
        async def work() -> None:
            async with kafwire.AsyncProducer(broker.bootstrap, **QUICK | {"linger_ms": 60_000}) as producer:
                await producer.send("u", b"v")
                await asyncio.sleep(60)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), 0.5)
        assert broker.values("u") == [b"v"]

    run(body)


def test_a_cancelled_block_does_not_wait_for_a_dead_broker(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async def work() -> None:
            async with producing(broker) as producer:
                broker.always("Produce", scripted.no_response)
                sent.append(await producer.send("u", b"v"))
                await asyncio.sleep(60)

        sent: list[AsyncDelivery] = []
        with within(10), pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), 0.5)
        with pytest.raises(KafkaError, match="closed"):
            await sent[0]
        assert "1 record(s)" in caplog.text

    run(body)


def test_closing_ends_the_wait_for_room(broker: ScriptedBroker) -> None:
    async def body() -> None:
        broker.script("Produce", scripted.behave)
        broker.always("Produce", scripted.no_response)
        producer = kafwire.AsyncProducer(broker.bootstrap, **SMALL)
        await (await producer.send("u", b"warm"))
        tasks = [asyncio.ensure_future(producer.send("u", bytes(2000))) for _ in range(5)]
        await turns()
        with pytest.raises(KafkaTimeoutError):
            await producer.close(0.1)
        for task in tasks:
            with pytest.raises(KafkaError, match="closed"):
                await (await task)

    run(body)


def test_a_producer_needs_no_loop_to_be_made() -> None:
    producer = kafwire.AsyncProducer("127.0.0.1:1")
    with pytest.raises(RuntimeError, match="no running event loop"):
        producer.send("t", b"v").send(None)
    asyncio.run(producer.close())
