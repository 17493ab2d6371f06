"""Records that delivery callbacks send to topics or partitions that the producer does not know yet; order is kept.

A callback must not wait for metadata: `flush` waits for the callback thread. So `send` checks the record, and returns
its Delivery at once. The engine looks the topic or the partition up, and the callback thread then appends the records,
before any that callbacks send to the topic later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from kafwire.errors import ConfigError, KafkaError, UnknownPartition
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.buffer._batch import Delivery, ProducerBatch
from kafwire.runtime.interfaces import Engine

_Record = tuple[tuple[str, Any, Any, Any, int], int | None, Delivery]


class DeferredRecords:
    """The deferred records of one producer. `send` and `_place` run on the callback thread, the rest on the engine.

    Args:
        learn: makes a topic known to the accumulator, or raises.
        learn_partition: waits until the accumulator knows an added partition, or raises.
        on_news: called on the engine when records were appended (None), or failed (the error).
    """

    def __init__(
        self,
        engine: Engine,
        accumulator: Accumulator,
        learn: Callable[[list[str]], Coroutine[Any, Any, None]],
        learn_partition: Callable[[UnknownPartition], Coroutine[Any, Any, None]],
        on_news: Callable[[KafkaError | None], object],
    ) -> None:
        self._engine = engine
        self._accumulator = accumulator
        self._learn = learn
        self._learn_partition = learn_partition
        self._on_news = on_news
        self._waiting: dict[str, deque[_Record]] = {}
        self._placing: Delivery | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        accumulator.deferred = self._waiting

    def send(
        self, topic: str, value: Any, key: Any, headers: Any, timestamp_ms: int | None, partition: int | None
    ) -> Delivery:
        """`Producer.send` for a delivery callback: it never waits."""
        accumulator = self._accumulator
        missing: UnknownPartition | None = None
        while topic not in self._waiting and topic in accumulator.topics and missing is None:
            try:
                delivery = accumulator.append_beyond(topic, value, key, headers, timestamp_ms, partition)
            except UnknownPartition as error:
                missing = error
            else:
                if delivery is not None:  # else the topic was recreated meanwhile
                    return delivery
        value, key = _checked(value, "value"), _checked(key, "key")
        if headers:
            headers = list(headers.items() if isinstance(headers, dict) else headers)
        is_first = topic not in self._waiting
        records = self._waiting.setdefault(topic, deque())  # before `defer`: no later record may overtake this one
        try:
            record, delivery = accumulator.defer(topic, value, key, headers, timestamp_ms)
        except BaseException:
            if is_first:
                del self._waiting[topic]
            raise
        records.append((record, partition, delivery))
        if is_first:
            self._engine.start(self._look_up, topic, missing)
        return delivery

    @property
    def batches(self) -> list[ProducerBatch]:
        """The placeholder batches of the waiting records, until these have an outcome."""
        placing = self._placing
        waiting = [delivery for records in list(self._waiting.values()) for _, _, delivery in list(records)]
        return [delivery.batch for delivery in [*waiting, *([] if placing is None else [placing])]]

    def give_up(self, error_of: Callable[[ProducerBatch], KafkaError]) -> int:
        """Fail the waiting records. Return their number."""
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
        """Cancel the lookups."""
        for task in self._tasks.values():
            task.cancel()

    def _look_up(self, topic: str, missing: UnknownPartition | None) -> None:
        self._tasks[topic] = asyncio.ensure_future(self._look_up_now(topic, missing))

    async def _look_up_now(self, topic: str, missing: UnknownPartition | None) -> None:
        error: KafkaError | None = None
        try:
            await (self._learn([topic]) if missing is None else self._learn_partition(missing))
        except KafkaError as problem:
            error = problem
        finally:
            del self._tasks[topic]
        self._engine.callbacks.submit(partial(self._place, topic, error, missing))

    def _place(self, topic: str, error: KafkaError | None, missing: UnknownPartition | None) -> None:
        """Append the records of a topic that was looked up, or fail them with `error`.

        The error fails the first record if its partition is `missing`, and all records if the topic is unknown.
        """
        records = self._waiting[topic]
        failure: KafkaError | None = None
        while True:
            try:
                record, partition, self._placing = records.popleft()
            except IndexError:  # `give_up` may take them at the same time
                break
            problem = error
            if problem is None:
                appended, problem = self._append(record, partition)
                if (problem is None and appended is None) or isinstance(problem, UnknownPartition):
                    # The topic was forgotten or recreated, or has no such partition yet.
                    records.appendleft((record, partition, self._placing))
                    self._placing = None
                    self._engine.start(self._look_up, topic, problem)
                    if failure is not None:
                        self._engine.start(self._on_news, failure)
                    return
                if appended is not None:
                    self._placing.batch.follow(appended)
            if problem is not None:
                failure = problem
                self._placing.batch.fail(problem)
            if missing is not None:
                error = missing = None
            self._placing = None
        del self._waiting[topic]
        self._engine.start(self._on_news, failure)

    def _append(
        self, record: tuple[str, Any, Any, Any, int], partition: int | None
    ) -> tuple[Delivery | None, KafkaError | None]:
        """Append one record; return its Delivery, or its error, or neither if the topic is unknown."""
        try:
            return self._accumulator.append_beyond(*record, partition, is_deferred=True), None
        except KafkaError as refusal:
            return None, refusal
        # A partitioner's `sys.exit()` must not leave other records without an outcome.
        except BaseException as refusal:  # noqa: BLE001
            error = KafkaError(f"the record for topic {record[0]!r} could not be added: {refusal!r}")
            error.__cause__ = refusal
            return None, error


def _checked(value: Any, name: str) -> Any:
    """Return a value or a key in a form that cannot change while it waits."""
    if value is None or isinstance(value, bytes | str):  # text is rejected together with the record
        return value
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise ConfigError(f"the {name} must be bytes-like or None, not {type(value).__name__}") from None
