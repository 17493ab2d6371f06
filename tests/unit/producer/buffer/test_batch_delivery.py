"""`BatchDelivery`: its error, its callback, and that what ends a `send_batch` carries it."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kafwire.aio.deliveries import AsyncBatchDelivery, LoopRegistry
from kafwire.aio.producer import AsyncProducer
from kafwire.errors import KafkaError, KafkaTimeoutError, ProtocolError
from kafwire.producer.buffer._batch import BatchDelivery
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer.partitioner import even
from kafwire.producer.core import ProducerCore
from kafwire.runtime.interfaces import Clock
from kafwire.sync.producer import Producer
from tests.support.accumulator_store import Store
from tests.support.pass_clock import PassClock


@pytest.fixture
def store() -> Store:
    made = Store(3, batch_size=300)
    made.accumulator.set_topic("u", 1, PartitionWeights(*even(range(1))))
    return made


def table(count: int) -> Any:
    return pa.table({"value": [b"%030d" % number for number in range(count)]})


def parts_of(flavour: Any, store: Store) -> Any:
    """A producer of either flavour whose records go to the store."""
    producer = flavour.__new__(flavour)
    producer._closed = False
    producer._config = SimpleNamespace(max_block_ms=1, buffer_memory=0)
    producer._engine = SimpleNamespace(
        check_process=lambda: None, check_caller=lambda: None, is_over=True, clock=Clock()
    )
    producer._accumulator = store.accumulator
    core: Any = SimpleNamespace(
        accumulator=store.accumulator, sender=SimpleNamespace(last_problem=""), config=producer._config
    )
    core.no_room = partial(ProducerCore.no_room, core)
    producer._core = core
    producer._loops = LoopRegistry(store.accumulator.budget)
    return producer


def send_batch(flavour: Any, store: Store, topic: str | None, data: Any) -> Any:
    producer = parts_of(flavour, store)
    if flavour is Producer:
        return producer.send_batch(topic, data)
    return asyncio.run(producer.send_batch(topic, data))


@pytest.mark.parametrize("flavour", [Producer, AsyncProducer])
def test_an_error_in_a_chunk_for_several_topics_carries_the_sent_rows(store: Store, flavour: Any) -> None:
    """The first row of "u" is bad; those of "t" came before it."""
    data = pa.table(
        {
            "topic": ["t", "t", "u", "t"],
            "value": [b"1", b"2", b"3", b"4"],
            "timestamp": pa.array([1, 2, 2**62, 4], pa.timestamp("s")),
        }
    )
    with pytest.raises(ProtocolError, match="row 2") as caught:
        send_batch(flavour, store, None, data)
    delivery = caught.value.delivery
    assert type(delivery) is (BatchDelivery if flavour is Producer else AsyncBatchDelivery)
    assert len(delivery) == 3
    store.deliver()
    assert sum(count for topic, _, _, count in delivery.result() if topic == "t") == 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.delivery is None
    assert str(again) == str(caught.value)


@pytest.mark.parametrize("flavour", [Producer, AsyncProducer])
def test_an_error_of_a_full_buffer_carries_the_sent_rows(flavour: Any) -> None:
    store = Store(1, batch_size=300, buffer_memory=1_000)
    with pytest.raises(KafkaTimeoutError, match="no room") as caught:
        send_batch(flavour, store, "t", table(500))
    delivery = caught.value.delivery
    assert 0 < len(delivery) < 500
    store.deliver()
    assert delivery.result() == [("t", 0, 0, len(delivery))]


@pytest.mark.parametrize("flavour", [Producer, AsyncProducer])
def test_an_interrupt_carries_the_sent_rows(flavour: Any) -> None:
    """The interrupt comes behind the second pass: the rows of the first are on their way."""
    clock = PassClock()
    store = Store(1, batch_size=300, clock=clock)
    passes = itertools.count()

    def interrupt() -> None:
        if next(passes) == 1:
            raise KeyboardInterrupt

    interrupted = pytest.raises(KeyboardInterrupt)
    with clock.behind_passes(store.accumulator, interrupt), interrupted as caught:
        send_batch(flavour, store, "t", table(200))
    delivery = caught.value.delivery  # type: ignore[attr-defined]
    assert 0 < len(delivery) < 200
    store.deliver()
    assert delivery.result() == [("t", 0, 0, len(delivery))]


def test_no_other_error_carries_one() -> None:
    assert KafkaError("x").delivery is None


def test_a_callback_is_called_once_when_all_is_known(store: Store) -> None:
    delivery = store.append_table(table(40), partition=0)
    assert len(delivery.parts) > 2
    called: list[BatchDelivery] = []
    delivery.add_done_callback(called.append)
    for batch, _, _ in delivery.parts[:-1]:
        batch.succeed(0, -1)
    assert called == []
    assert not delivery.done()
    delivery.parts[-1][0].succeed(0, -1)
    assert called == [delivery]
    delivery.add_done_callback(called.append)
    assert called == [delivery] * 2
    empty = BatchDelivery([])
    empty.add_done_callback(called.append)
    assert called[-1] is empty


def test_the_first_error_is_the_exception(store: Store) -> None:
    delivery = store.append_table(table(40), partition=0)
    with pytest.raises(KafkaTimeoutError, match="no acknowledgement"):
        delivery.exception(0.01)
    problem = KafkaError("refused")
    (first, _, _), *_, (last, _, _) = delivery.parts
    last.fail(problem)
    first.fail(KafkaError("the first"))
    for batch, _, _ in delivery.parts:
        batch.succeed(0, -1)
    assert str(delivery.exception(0)) == "the first"
    with pytest.raises(KafkaError, match="the first"):
        delivery.result(0)


def test_without_an_error_there_is_no_exception(store: Store) -> None:
    delivery = store.append_table(table(2), partition=1)
    store.deliver()
    assert delivery.exception() is None


def test_awaited_it_has_the_same(store: Store) -> None:
    async def scenario() -> None:
        homes = LoopRegistry(store.accumulator.budget)
        rows = store.append_table(table(40), partition=0)
        delivery = AsyncBatchDelivery(homes, rows)
        with pytest.raises(KafkaError, match="not known yet"):
            delivery.exception()
        with pytest.raises(KafkaError, match="not known yet"):
            delivery.result()
        called: list[AsyncBatchDelivery] = []
        delivery.add_done_callback(called.append)
        await asyncio.sleep(0)
        for batch, _, _ in rows.parts:
            batch.succeed(0, -1)
        await delivery
        await asyncio.sleep(0)
        assert called == [delivery]
        assert delivery.exception() is None
        assert len(delivery.result()) > 1

    asyncio.run(scenario())


def test_send_and_wait_gives_the_metadata(store: Store) -> None:
    async def scenario() -> None:
        producer = parts_of(AsyncProducer, store)
        sending = asyncio.ensure_future(producer.send_and_wait("t", b"v", key=b"k", partition=2, timestamp_ms=5))
        await asyncio.sleep(0)
        assert not sending.done()
        store.deliver()
        meta = await sending
        assert (meta.topic, meta.partition, meta.offset, meta.timestamp_ms) == ("t", 2, 0, 5)

    asyncio.run(scenario())


def test_one_awaited_record_has_its_outcome(store: Store) -> None:
    async def scenario() -> None:
        producer = parts_of(AsyncProducer, store)
        good, bad = [await producer.send("t", b"v", partition=partition) for partition in (0, 1)]
        called: list[Any] = []
        good.add_done_callback(called.append)
        for delivery in (good, bad):
            assert not delivery.done()
            for ask in (delivery.result, delivery.exception):
                with pytest.raises(KafkaError, match="not known yet"):
                    ask()
        bad._delivery.batch.fail(KafkaError("refused"))
        good._delivery.batch.succeed(7, -1)
        assert good.done()
        assert called == []
        await asyncio.sleep(0)
        assert called == [good]
        assert (good.result().offset, good.exception()) == (7, None)
        assert (await good).offset == 7
        assert str(bad.exception()) == "refused"
        with pytest.raises(KafkaError, match="refused"):
            bad.result()
        with pytest.raises(KafkaError, match="refused"):
            await bad

    asyncio.run(scenario())


def test_a_cancelled_task_stops_waiting_and_the_record_goes_on(store: Store) -> None:
    async def scenario() -> None:
        producer = parts_of(AsyncProducer, store)
        delivery = await producer.send("t", b"v", partition=0)

        async def wait() -> int:
            meta = await delivery
            return int(meta.offset)

        cancelled, other = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        cancelled.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await cancelled
        assert not other.done()
        assert not delivery.done()
        delivery._delivery.batch.succeed(3, -1)
        assert await asyncio.wait_for(other, 10) == 3
        late = asyncio.ensure_future(wait())
        assert await late == 3
        assert not late.cancel()

    asyncio.run(scenario())
