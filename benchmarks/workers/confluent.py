"""confluent-kafka, used as its documentation advises for throughput.

consume: `consume(10000)` on assigned partitions, `value()` of every message called, and `key()` in consume_keys. poll:
`poll()`, both called. latency: `poll()`, one record after the other as they come. produce: `produce()` record by
record with `poll(0)` every thousand, on BufferError a poll that waits; failed deliveries alone call back. batch:
`produce_batch()` with lists of ready dicts. Records are ready `bytes` objects before the clock starts. wait:
`produce()`, then `poll()` until it has called back, or `flush()` (by=flush), one record after the other. pressure:
`produce()` while the broker stands still, on BufferError a poll that waits.
"""

import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.payload import split_pool
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.delays import Delays
from benchmarks.workers.pressure import keep_sending
from benchmarks.workers.waits import wait_for_each

AT_ONCE = 10_000
WAIT_SECONDS = 30.0


def consume(options: Options) -> Callable[[], Pass]:
    """Read `records` records, the values; `dwell_ms` after each call."""
    expected = options.number("records")
    dwell = float(options.given.get("dwell_ms", "0")) / 1000

    def once() -> Pass:
        clock = Stopwatch()
        consumer = _assigned(options)
        records = size = 0
        while records < expected:
            # consume() returns when it has as many as asked for: asking for more than are left would wait in vain.
            messages = _some(consumer, min(AT_ONCE, expected - records), records, expected)
            for message in messages:
                value = message.value()
                if value is None:
                    raise RuntimeError(f"not a record: {message.error()}")
                size += len(value)
            records += len(messages)
            if dwell:
                time.sleep(dwell)
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, records, size)

    return once


def consume_keys(options: Options) -> Callable[[], Pass]:
    """Read `records` records, keys and values."""
    expected = options.number("records")

    def once() -> Pass:
        clock = Stopwatch()
        consumer = _assigned(options)
        records = size = 0
        while records < expected:
            messages = _some(consumer, min(AT_ONCE, expected - records), records, expected)
            for message in messages:
                message.key()
                value = message.value()
                if value is None:
                    raise RuntimeError(f"not a record: {message.error()}")
                size += len(value)
            records += len(messages)
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, records, size)

    return once


def poll_keys(options: Options) -> Callable[[], Pass]:
    """Read `records` records one by one, keys and values."""
    expected = options.number("records")

    def once() -> Pass:
        clock = Stopwatch()
        consumer = _assigned(options)
        records = size = 0
        while records < expected:
            message = consumer.poll(WAIT_SECONDS)
            if message is None:
                raise TimeoutError(f"no message for {WAIT_SECONDS:g} s at {records} of {expected}")
            message.key()
            value = message.value()
            if value is None:
                raise RuntimeError(f"not a record: {message.error()}")
            size += len(value)
            records += 1
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, records, size)

    return once


def latency(options: Options) -> Callable[[], Pass]:
    """Read records as they are produced."""

    def once() -> Pass:
        consumer = _assigned(options)
        with Delays(options) as delays:
            while not delays.done:
                message = consumer.poll(WAIT_SECONDS)
                if message is None:
                    raise TimeoutError(f"no message for {WAIT_SECONDS:g} s at {delays.records}")
                value = message.value()
                if value is None:
                    raise RuntimeError(f"not a record: {message.error()}")
                delays.add(value)
            found = delays.as_pass()
        consumer.close()
        return found

    return once


def produce(options: Options) -> Callable[[], Pass]:
    """Write `records` records one by one."""
    topic, expected = options.text("topic"), options.number("records")
    values = _values(options)
    configuration = _producer_configuration(options)

    def once() -> Pass:
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        clock = Stopwatch()
        producer = Producer(configuration)
        records = 0
        while records < expected:
            for value in values[: expected - records]:
                while True:
                    try:
                        producer.produce(topic, value, on_delivery=on_delivery)
                    except BufferError:
                        producer.poll(0.01)
                    else:
                        break
                records += 1
                if records % 1000 == 0:
                    producer.poll(0)
        left = producer.flush()
        seconds = clock.seconds()
        _check(failures, left)
        return Pass(seconds, records, records * options.number("value_bytes"))

    return once


def batch(options: Options) -> Callable[[], Pass]:
    """Write `records` records in lists."""
    topic, expected = options.text("topic"), options.number("records")
    ready = [{"value": value} for value in _values(options)]
    configuration = _producer_configuration(options)

    def once() -> Pass:
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        clock = Stopwatch()
        producer = Producer(configuration)
        records = 0
        while records < expected:
            first = records % len(ready)
            messages = ready[first : first + min(AT_ONCE, expected - records)]
            records += len(messages)
            while messages:
                taken = producer.produce_batch(topic, messages, on_delivery=on_delivery)
                if taken == len(messages):
                    break
                # Refused messages carry their error: take it off, wait for room, try those again.
                messages = [message for message in messages if message.pop("_error", None) is not None]
                producer.poll(0.01)
            producer.poll(0)
        left = producer.flush()
        seconds = clock.seconds()
        _check(failures, left)
        return Pass(seconds, records, records * options.number("value_bytes"))

    return once


def wait(options: Options) -> Callable[[], Pass]:
    """Write records one by one, each when the one before it is acknowledged."""
    topic, by_flush = options.text("topic"), options.given.get("by") == "flush"

    def once() -> Pass:
        outcomes: list[KafkaError | None] = []
        producer = Producer({"bootstrap.servers": options.text("bootstrap"), **options.configuration()})

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            outcomes.append(error)

        def send_and_wait(value: bytes) -> None:
            producer.produce(topic, value, on_delivery=on_delivery)
            if by_flush:
                producer.flush()
            else:
                while not outcomes:
                    producer.poll(WAIT_SECONDS)
            error = outcomes.pop()
            if error is not None:
                raise RuntimeError(f"not delivered: {error}")

        return wait_for_each(options, send_and_wait)

    return once


def pressure(options: Options) -> Callable[[], Pass]:
    """Send record by record while the broker stands still."""
    topic, values = options.text("topic"), _values(options)
    configuration = _producer_configuration(options)

    def once() -> Pass:
        failures: list[KafkaError] = []

        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        clock = Stopwatch()
        producer = Producer(configuration)
        producer.produce(topic, b"first", on_delivery=on_delivery)
        producer.flush()
        number = 0

        def send_next() -> int:
            nonlocal number
            number += 1
            try:
                producer.produce(topic, values[number % len(values)], on_delivery=on_delivery)
            except BufferError:
                producer.poll(0.1)
                return 0
            return 1

        taken, refused = keep_sending(options, send_next)
        left = producer.flush()
        seconds = clock.seconds()
        _check(failures, left)
        return Pass(seconds, 1 + taken, taken * options.number("value_bytes"), figures={"refused": refused})

    return once


def _assigned(options: Options) -> Consumer:
    consumer = Consumer({"bootstrap.servers": options.text("bootstrap"), **options.configuration()})
    topic = options.text("topic")
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(options.number("partitions"))])
    return consumer


def _some(consumer: Consumer, most: int, records: int, expected: int) -> list[Message]:
    messages = consumer.consume(most, WAIT_SECONDS)
    if not messages:
        raise TimeoutError(f"no messages for {WAIT_SECONDS:g} s at {records} of {expected}")
    return messages


def _values(options: Options) -> list[bytes]:
    return split_pool(Path(options.text("payload")).read_bytes(), options.number("value_bytes"))


def _producer_configuration(options: Options) -> dict[str, str | bool]:
    return {
        "bootstrap.servers": options.text("bootstrap"),
        "delivery.report.only.error": True,
        **options.configuration(),
    }


def _check(failures: list[KafkaError], left: int) -> None:
    if failures or left:
        raise RuntimeError(f"{len(failures)} records failed, {left} not delivered: {failures[:1]}")


if __name__ == "__main__":
    tasks = {
        "consume": consume,
        "consume_keys": consume_keys,
        "poll_keys": poll_keys,
        "latency": latency,
        "produce": produce,
        "batch": batch,
        "wait": wait,
        "pressure": pressure,
    }
    work(tasks, metadata.version("confluent-kafka"))
