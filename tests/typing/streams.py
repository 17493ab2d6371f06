"""Streams as type checkers judge them. Nothing here is run; see `options.py`."""

from __future__ import annotations

from typing import assert_type

import kafwire
from kafwire.stream import (
    ConsumerSource,
    FunctionSink,
    MemorySink,
    MemorySource,
    Pipeline,
    RetryTopic,
    Sink,
    Source,
    StreamSummary,
    TopicSink,
    TransactionalSink,
)


async def handle(record: kafwire.Record) -> bytes:
    return bytes(record.value)


async def right(consumer: kafwire.AsyncConsumer, producer: kafwire.AsyncProducer) -> None:
    sources: list[Source] = [ConsumerSource(consumer, idle_s=1.0), MemorySource()]
    sinks: list[Sink] = [TopicSink(producer, "bills"), MemorySink(), FunctionSink(print)]
    transactional: list[TransactionalSink] = [TopicSink(producer), MemorySink()]
    pipeline = (
        Pipeline()
        .filter(lambda record: record.value)
        .for_each(handle, workers=64, by="key", timeout_s=5)
        .retry(3, on=(OSError, TimeoutError))
        .retry_topics(RetryTopic("retry", 60))
        .dead_letters("dead")
        .commit(every=1000, within=1.0)
    )
    assert_type(pipeline, Pipeline)
    assert_type(pipeline.run(sources[0], sinks[0]), StreamSummary)
    assert_type(await pipeline.run_async(sources[0], transactional[0], guarantee="exactly_once"), StreamSummary)
    Pipeline().map_batches(len).batch(10).for_each(print, by=None, run_in="threads")
    Pipeline().for_each(handle, by=lambda record: record.key)


def misspelt(source: MemorySource) -> None:
    Pipeline().for_each(handle, by="keys")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Pipeline().for_each(handle, run_in="loop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Pipeline().for_each(handle, worker=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Pipeline().run(source, guarantee="once")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Pipeline().run(source, print)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Pipeline().flat_map(len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
