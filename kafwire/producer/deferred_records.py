"""Records that delivery callbacks send to topics which the producer does not know: they wait here, in order.

A callback may not wait for metadata: the thread that calls callbacks is one, and `flush` waits for it. So `send` checks
the record, and returns its Delivery at once. The engine looks the topic up, and the callback thread appends the records
then, before any that callbacks send to the topic later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from kafwire.errors import ConfigError, KafkaError
from kafwire.producer._accumulator import Accumulator
from kafwire.producer._batch import Delivery, ProducerBatch
from kafwire.runtime.interfaces import Engine

_Record = tuple[tuple[str, Any, Any, Any, int], int | None, Delivery]


class DeferredRecords:
    """Those of one producer. `send` and `_place` run where callbacks run, the rest on the engine.

    Args:
        learn: makes a topic known to the accumulator, or raises.
        on_news: called on the engine when records were appended, or failed with the error that it is given.
    """

    def __init__(
        self,
        engine: Engine,
        accumulator: Accumulator,
        learn: Callable[[list[str]], Coroutine[Any, Any, None]],
        on_news: Callable[[KafkaError | None], object],
    ) -> None:
        self._engine = engine
        self._accumulator = accumulator
        self._learn = learn
        self._on_news = on_news
        self._waiting: dict[str, deque[_Record]] = {}
        self._placing: Delivery | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        accumulator.deferred = self._waiting

    def send(
        self, topic: str, value: Any, key: Any, headers: Any, timestamp_ms: int | None, partition: int | None
    ) -> Delivery:
        """`Producer.send` within a delivery callback: it never waits."""
        accumulator = self._accumulator
        while topic not in self._waiting and topic in accumulator.topics:
            delivery = accumulator.append_beyond(topic, value, key, headers, timestamp_ms, partition)
            if delivery is not None:  # else the topic was recreated meanwhile
                return delivery
        value, key = _checked(value, "value"), _checked(key, "key")
        if headers:
            headers = list(headers.items() if isinstance(headers, dict) else headers)
        record, delivery = accumulator.defer(topic, value, key, headers, timestamp_ms)
        is_first = topic not in self._waiting
        self._waiting.setdefault(topic, deque()).append((record, partition, delivery))
        if is_first:
            self._engine.start(self._look_up, topic)
        return delivery

    @property
    def batches(self) -> list[ProducerBatch]:
        """What stands for the records that wait, until they have an outcome."""
        placing = self._placing
        waiting = [delivery for records in list(self._waiting.values()) for _, _, delivery in list(records)]
        return [delivery.batch for delivery in [*waiting, *([] if placing is None else [placing])]]

    def give_up(self, error_of: Callable[[ProducerBatch], KafkaError]) -> int:
        """Fail the records that wait. Returns how many it were."""
        count = 0
        for records in list(self._waiting.values()):
            while records:
                try:
                    _, _, delivery = records.popleft()
                except IndexError:  # the callback thread took the last one
                    break
                delivery.batch.fail(error_of(delivery.batch))
                count += 1
        return count

    def stop(self) -> None:
        """Look nothing up any more."""
        for task in self._tasks.values():
            task.cancel()

    def _look_up(self, topic: str) -> None:
        self._tasks[topic] = asyncio.ensure_future(self._look_up_now(topic))

    async def _look_up_now(self, topic: str) -> None:
        error: KafkaError | None = None
        try:
            await self._learn([topic])
        except KafkaError as problem:
            error = problem
        finally:
            del self._tasks[topic]
        self._engine.callbacks.submit(partial(self._place, topic, error))

    def _place(self, topic: str, error: KafkaError | None) -> None:
        """Append the records of a topic that is known now, or fail them."""
        records = self._waiting[topic]
        failure: KafkaError | None = None
        while True:
            try:
                record, partition, self._placing = records.popleft()
            except IndexError:  # `give_up` may take them at the same time
                break
            problem = error
            if problem is None:
                try:
                    appended = self._accumulator.append_beyond(*record, partition)
                except KafkaError as refusal:
                    problem = refusal
                else:
                    if appended is None:  # the topic was forgotten, or recreated
                        records.appendleft((record, partition, self._placing))
                        self._placing = None
                        self._engine.start(self._look_up, topic)
                        return
                    self._placing.batch.follow(appended)
            if problem is not None:
                failure = problem
                self._placing.batch.fail(problem)
            self._placing = None
        del self._waiting[topic]
        self._engine.start(self._on_news, failure)


def _checked(value: Any, name: str) -> Any:
    """A value or a key that cannot change while it waits."""
    if value is None or isinstance(value, bytes | str):  # a text is refused with the record
        return value
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise ConfigError(f"the {name} must be bytes-like or None, not {type(value).__name__}") from None
