"""confluent-kafka, used as its documentation advises for throughput.

consume: `consume(10000)` on an assigned partition, `value()` of every message called. produce: `produce()` record by
record with `poll(0)` every thousand, on BufferError a poll that waits; failed deliveries alone call back. batch:
`produce_batch()` with lists of ready dicts. Records are ready `bytes` objects before the clock starts.
"""

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.payload import split_pool
from benchmarks.workers.common import Options, Pass, Stopwatch, work

AT_ONCE = 10_000
WAIT_SECONDS = 30.0


def consume(options: Options) -> Callable[[], Pass]:
    """Read `records` records of partition 0."""
    topic, expected = options.text("topic"), options.number("records")
    configuration: dict[str, str] = {"bootstrap.servers": options.text("bootstrap"), **options.configuration()}

    def once() -> Pass:
        clock = Stopwatch()
        consumer = Consumer(configuration)
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = size = 0
        while records < expected:
            # consume() returns when it has as many as asked for: asking for more than are left would wait in vain.
            messages = consumer.consume(min(AT_ONCE, expected - records), WAIT_SECONDS)
            if not messages:
                raise TimeoutError(f"no messages for {WAIT_SECONDS:g} s at {records} of {expected}")
            for message in messages:
                value = message.value()
                if value is None:
                    raise RuntimeError(f"not a record: {message.error()}")
                size += len(value)
            records += len(messages)
        seconds = clock.seconds()
        consumer.close()
        return Pass(seconds, records, size)

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
                # What was refused carries its error: take it off, wait for room, try those again.
                messages = [message for message in messages if message.pop("_error", None) is not None]
                producer.poll(0.01)
            producer.poll(0)
        left = producer.flush()
        seconds = clock.seconds()
        _check(failures, left)
        return Pass(seconds, records, records * options.number("value_bytes"))

    return once


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
    work({"consume": consume, "produce": produce, "batch": batch}, metadata.version("confluent-kafka"))
