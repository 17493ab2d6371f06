"""Pipelines that cannot be, and those that can."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.stream import ConsumerSource, FunctionSink, MemorySink, MemorySource, Pipeline, RetryTopic, TopicSink
from kafwire.stream.errors import NotNow
from kafwire.stream.invocation import is_async
from kafwire.stream.steps import Filter, FlatMap, ForEach, Gather, Map, plan

START = Pipeline()


async def handle(value: Any) -> None:
    """An async handler."""


def letters(value: Any) -> Iterator[Any]:
    """A generator."""
    yield value


async def async_letters(value: Any) -> AsyncIterator[Any]:
    """An async one."""
    yield value


class AsyncHandler:
    """One that is an object."""

    async def __call__(self, value: Any) -> None:
        """Handle."""


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: START.map(handle), "use for_each for an async function"),
        (lambda: START.filter(functools.partial(handle)), "use for_each for an async function"),
        (lambda: START.map(AsyncHandler()), "use for_each for an async function"),
        (lambda: START.map(None), "it must be a function"),  # type: ignore[arg-type]
        (lambda: START.map(str).map_batches(str), "comes first"),
        (lambda: START.batch(1).batch(1), "one batch"),
        (lambda: START.for_each(str).batch(1), "one batch"),
        (lambda: START.for_each(str).for_each(str), "one for_each"),
        (lambda: START.batch(1).for_each(str, by="key"), "a batch has no key"),
        (lambda: START.map_batches(str).for_each(str, by="key"), "a batch has no key"),
        (lambda: START.map(async_letters), "use for_each for an async function"),
        (lambda: START.filter(letters), "a generator is always true"),
        (lambda: START.for_each(letters), "a generator never runs here"),
        (lambda: START.for_each(functools.partial(async_letters)), "a generator never runs here"),
        (lambda: START.for_each(lambda value: value, run_in="processes"), "import the handler by name"),
        (lambda: START.batch(2.5), "max_records must be 1 or more"),  # type: ignore[arg-type]
        (lambda: START.batch(None), "max_records must be 1 or more"),  # type: ignore[arg-type]
        (lambda: START.batch(1, math.nan), "max_records must be 1 or more"),
        (lambda: START.for_each(str, workers=2.5), "above 0"),  # type: ignore[arg-type]
        (lambda: START.for_each(str, timeout_s=math.nan), "above 0"),
        (lambda: START.for_each(str, by=[1]), "by=.1."),  # type: ignore[arg-type]
        (lambda: START.commit(every="3"), "every must be 1 or more"),  # type: ignore[arg-type]
        (lambda: START.commit(within=math.nan), "every must be 1 or more"),
        (lambda: START.retry(True), "attempts must be 1"),
        (lambda: START.retry(2, backoff_s=math.nan), "attempts must be 1"),
        (lambda: START.retry(2, on="x"), "an exception class"),  # type: ignore[arg-type]
        (lambda: START.retry(2, on=()), "an exception class"),
        (lambda: START.retry(2, on=ValueError("no")), "an exception class"),  # type: ignore[arg-type]
        (lambda: START.retry(2, on=KeyboardInterrupt), "an exception class"),  # type: ignore[arg-type]
        (lambda: START.retry_topics("retry"), "each must be a RetryTopic"),  # type: ignore[arg-type]
        (lambda: RetryTopic("", 1), "a topic"),
        (lambda: RetryTopic("retry", "60"), "0 or more seconds"),  # type: ignore[arg-type]
        (lambda: RetryTopic("retry", math.inf), "0 or more seconds"),
        (lambda: START.dead_letters(""), "the topic must be"),
        (lambda: START.dead_letters(None), "the topic must be"),  # type: ignore[arg-type]
        (lambda: START.dead_letters(7), "the topic must be"),  # type: ignore[arg-type]
        (lambda: START.run(MemorySource(), print), "is not a sink"),  # type: ignore[arg-type]
        (lambda: ConsumerSource(None), "it must be an AsyncConsumer"),  # type: ignore[arg-type]
        (lambda: TopicSink(None, "bills"), "it must be an AsyncProducer"),  # type: ignore[arg-type]
        (lambda: NotNow("soon"), "0 or more"),  # type: ignore[arg-type]
        (lambda: START.batch(0), "max_records must be 1 or more"),
        (lambda: START.batch(1, -1.0), "max_records must be 1 or more"),
        (lambda: START.for_each(None), "it must be a function"),  # type: ignore[arg-type]
        (lambda: START.for_each(str, workers=0), "above 0"),
        (lambda: START.for_each(str, timeout_s=0), "above 0"),
        (lambda: START.for_each(str, by="keys"), "by='keys'"),  # type: ignore[arg-type]
        (lambda: START.for_each(str, run_in="loops"), "run_in='loops'"),  # type: ignore[arg-type]
        (lambda: START.for_each(handle, run_in="threads"), "runs in"),
        (lambda: START.for_each(str, run_in="tasks", timeout_s=1.0), "cannot be stopped"),
        (START.commit, "every must be 1 or more"),
        (lambda: START.commit(every=0), "every must be 1 or more"),
        (lambda: START.commit(within=-1), "every must be 1 or more"),
        (lambda: START.retry(0), "attempts must be 1"),
        (lambda: START.retry(1, backoff_s=-1), "attempts must be 1"),
        (lambda: START.retry_topics(RetryTopic("a", 1), RetryTopic("a", 2)), "named twice"),
        (lambda: START.limits(max_in_flight=0), "1 or more"),
        (lambda: START.limits(stop_timeout_s=-1), "1 or more"),
        (lambda: START.dead_letters("dead").run(MemorySource()), "give a sink"),
        (lambda: START.run(MemorySource(), guarantee="exactly"), "one of at_least_once"),  # type: ignore[arg-type]
        (lambda: START.retry(2).run(MemorySource(), guarantee="at_most_once"), "calls no step twice"),
        (
            lambda: START.for_each(str, run_in="processes", timeout_s=1).run(MemorySource(), guarantee="at_most_once"),
            "may be called again",
        ),
        (lambda: START.run(MemorySource(), FunctionSink(print), guarantee="exactly_once"), "supports none"),
        (lambda: START.run(MemorySource(), guarantee="exactly_once"), "supports none"),
        (
            lambda: START.run(MemorySource(), MemorySink(), guarantee="exactly_once", letters=MemorySink()),
            "remove letters",
        ),
        (lambda: NotNow(-1), "0 or more"),
        (lambda: MemorySource(batch_records=0), "1 or more"),
        (lambda: MemorySource({"orders": ["text"]}), "is not a record"),
    ],
)
def test_impossible_pipelines_are_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make()


def test_steps_have_their_places() -> None:
    pipeline = START.map(str).batch(5, 1.0).filter(len).for_each(handle, workers=3, by="partition").flat_map(list)
    found = plan(pipeline.steps)
    assert found.before == (Map(str),)
    assert found.gather == Gather(5, 1.0)
    assert found.between == (Filter(len),)
    assert found.for_each == ForEach(handle, 3, "partition", "tasks", None)
    assert found.after == (FlatMap(list),)
    assert not found.is_batchwise
    assert plan(START.map_batches(len).map_batches(str).map(repr).steps).is_batchwise


def test_a_pipeline_stays_as_it_is() -> None:
    START.map(str)
    assert START.steps == ()


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (handle, True),
        (functools.partial(handle), True),
        (AsyncHandler(), True),
        (str, False),
        (lambda value: value, False),
        (functools.partial(print), False),
    ],
)
def test_async_handlers_are_known(handler: Callable[[Any], Any], expected: bool) -> None:
    assert is_async(handler) is expected
    assert (START.for_each(handler).steps[0].run_in == "tasks") is expected  # type: ignore[union-attr]
