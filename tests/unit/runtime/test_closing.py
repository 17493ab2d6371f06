"""`close(timeout)` bounds the whole close of every face, whatever the brokers leave without a response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

import kafwire
from kafwire.broker.request import Request
from kafwire.errors import KafkaError
from kafwire.stream import ConsumerSource, Pipeline, StopRequest, TopicSink
from kafwire.testing.simulation.cluster import ClusterWorld
from kafwire.types import TopicPartition

TIMEOUT_S = 2.0
GRACE_S = 0.2
GROUP_OPTIONS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
}


def hang(request: Request) -> None:
    """Brokers respond to nothing in time."""
    request.delay_ms = 300_000


@pytest.fixture
def world() -> Any:
    """Two brokers and a topic with records."""
    with ClusterWorld(brokers=2, configs=GROUP_OPTIONS) as it:
        topic = it.state.topics.create("t", 4, 1)
        it.state.group_configs["s"] = {"share.auto.offset.reset": "earliest"}
        for partition in topic.partitions:
            partition.append_values([b"v"] * 10)
        it.changed()
        yield it


def fails(world: ClusterWorld) -> None:
    """Let no broker respond from now on."""
    world.state.interceptors.insert(0, hang)


async def closing_beside(it: Any, call: Coroutine[Any, Any, Any]) -> Callable[[], Awaitable[None]]:
    """Begin a call, and return how the client is closed while that waits."""
    waiting = asyncio.ensure_future(call)
    await asyncio.sleep(0.5)

    async def close() -> None:
        await it.close(TIMEOUT_S)
        with suppress(KafkaError):
            await waiting

    return close


async def client(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    it = kafwire.AsyncClient(world.bootstrap, engine=world.engine)
    await it.metadata()
    fails(world)
    return it.close


async def client_that_waits(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    it = kafwire.AsyncClient(world.bootstrap, engine=world.engine)
    await it.metadata()
    fails(world)
    call = asyncio.ensure_future(it.offsets([TopicPartition("t", 0)]))
    await asyncio.sleep(0.5)

    async def close() -> None:
        await it.close()
        with pytest.raises(KafkaError):
            await call

    return close


def consumer(world: ClusterWorld, **options: Any) -> kafwire.AsyncConsumer:
    return kafwire.AsyncConsumer(
        world.bootstrap, engine=world.engine, **{"topics": ["t"], "auto_offset_reset": "earliest"} | options
    )


async def reader(world: ClusterWorld, **options: Any) -> Callable[[], Awaitable[None]]:
    it = consumer(world, **options)
    assert await it.poll(30.0)
    fails(world)
    return lambda: it.close(TIMEOUT_S)


async def committing(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    """The user's commit waits already."""
    it = consumer(world, group_id="g")
    assert await it.poll(30.0)
    fails(world)
    return await closing_beside(it, it.commit())


async def joining(world: ClusterWorld, **options: Any) -> Callable[[], Awaitable[None]]:
    """The member has no assignment yet, and a poll waits."""
    it = consumer(world, group_id="g", **options)
    await it.start()
    fails(world)
    return await closing_beside(it, it.poll(600.0))


async def starting(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    """No broker responds to the first request."""
    fails(world)
    it = consumer(world, group_id="g")
    return await closing_beside(it, it.poll(600.0))


async def slow_handler(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    async def on_revoked(*_: object) -> None:
        await asyncio.sleep(60.0)

    it = consumer(world, group_id="g", on_revoked=on_revoked)
    assert await it.poll(30.0)
    return lambda: it.close(TIMEOUT_S)


async def streams(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    """Partition streams with records in hand."""
    it = consumer(world, group_id="g")
    stream = await anext(it.partitions())
    await anext(stream)
    fails(world)
    return lambda: it.close(TIMEOUT_S)


async def share(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    it = kafwire.AsyncShareConsumer(world.bootstrap, topics="t", group_id="s", engine=world.engine)
    assert await it.poll(30.0)
    fails(world)
    return lambda: it.close(TIMEOUT_S)


async def share_that_starts(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    fails(world)
    it = kafwire.AsyncShareConsumer(world.bootstrap, topics="t", group_id="s", engine=world.engine)
    return await closing_beside(it, it.poll(600.0))


async def share_that_commits(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    it = kafwire.AsyncShareConsumer(world.bootstrap, topics="t", group_id="s", engine=world.engine)
    assert await it.poll(30.0)
    fails(world)
    return await closing_beside(it, it.commit())


async def producer(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    it = kafwire.AsyncProducer(world.bootstrap, engine=world.engine)
    await it.send_and_wait("t", b"v")
    fails(world)
    await it.send("t", b"v")
    return lambda: it.close(TIMEOUT_S)


async def producer_of_an_unknown_topic(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    fails(world)
    it = kafwire.AsyncProducer(world.bootstrap, engine=world.engine)
    return await closing_beside(it, it.send("t", b"v"))


async def transaction(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    """A commit waits already."""
    it = kafwire.AsyncProducer(world.bootstrap, engine=world.engine, transactional_id="x")
    await it.init_transactions()
    await it.begin_transaction()
    await it.send_and_wait("t", b"v")
    fails(world)
    return await closing_beside(it, it.commit_transaction())


async def producer_that_begins(world: ClusterWorld) -> Callable[[], Awaitable[None]]:
    fails(world)
    it = kafwire.AsyncProducer(world.bootstrap, engine=world.engine, transactional_id="x")
    return await closing_beside(it, it.init_transactions())


CLASSIC = {"group_protocol": "classic"}
FACES: dict[str, Callable[[ClusterWorld], Awaitable[Callable[[], Awaitable[None]]]]] = {
    "client": client,
    "client that waits": client_that_waits,
    "reader": reader,
    "member": lambda world: reader(world, group_id="g"),
    "classic member": lambda world: reader(world, group_id="g", **CLASSIC),
    "member that commits": committing,
    "member that joins": joining,
    "classic member that joins": lambda world: joining(world, **CLASSIC),
    "member that starts": starting,
    "member with a slow handler": slow_handler,
    "streams": streams,
    "share": share,
    "share that starts": share_that_starts,
    "share that commits": share_that_commits,
    "producer": producer,
    "producer of an unknown topic": producer_of_an_unknown_topic,
    "transaction": transaction,
    "producer that begins": producer_that_begins,
}


@pytest.mark.parametrize("face", FACES)
def test_close_ends_in_time(world: ClusterWorld, face: str) -> None:
    async def main() -> None:
        close = await FACES[face](world)
        began = world.loop.time()
        with suppress(KafkaError):  # records were given up
            await close()
        assert world.loop.time() - began < TIMEOUT_S + GRACE_S

    world.run(main())


@pytest.mark.parametrize("way", ["close", "with"])
def test_a_scan_ends_at_once(world: ClusterWorld, way: str) -> None:
    scan = kafwire.scan(world.bootstrap, "t", engine=world.engine)
    batches = scan.batches()
    fails(world)
    began = world.loop.time()
    del batches
    if way == "close":
        scan.close()
    else:
        with scan:
            pass
    assert world.loop.time() - began < GRACE_S


def test_a_client_closes_at_once(world: ClusterWorld) -> None:
    it = kafwire.Client(world.bootstrap, engine=world.engine)
    it.metadata()
    fails(world)
    began = world.loop.time()
    it.close()
    assert world.loop.time() - began < GRACE_S


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_stream_stops_before_kubernetes_loses_patience(world: ClusterWorld, guarantee: Any, is_busy: bool) -> None:
    """Running calls, the last commit, the hooks and the end of the source share one limit."""

    async def main() -> None:
        seen, read = list[object](), world.loop.create_future()

        async def handle(record: object) -> None:
            seen.append(record)
            if len(seen) == 40:
                read.set_result(None)
                await asyncio.sleep(600.0 if is_busy else 0.0)

        stop = StopRequest()
        source = ConsumerSource(consumer(world, group_id="g", enable_auto_commit=False))
        it = kafwire.AsyncProducer(world.bootstrap, engine=world.engine, transactional_id="x")
        sink = TopicSink(it, "t") if guarantee == "exactly_once" else None
        pipeline = Pipeline().for_each(handle)
        running = asyncio.ensure_future(pipeline.run_async(source, sink, stop=stop, guarantee=guarantee))
        await asyncio.wait_for(read, 60.0)
        fails(world)
        began = world.loop.time()
        stop.request()
        with suppress(KafkaError):
            await running
        with suppress(KafkaError):
            await it.close(0.0)
        assert world.loop.time() - began < 28.5

    world.run(main())
