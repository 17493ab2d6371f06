"""A steady producer in a process of its own: one record after the other, each with the moment it was handed over.

It is confluent-kafka's, for every contender: what a producer takes to send is then the same in all figures. `linger.ms`
is 0. The moments are those of the machine's monotonic clock, which all its processes share.

Every partition gets a greeting first. The reader says when it has them all, and thereby all partitions.
"""

import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STAMP = struct.Struct("<qq")  # nanoseconds, number of the record
GREETING = -1  # instead of a number
_PARTITION_STEP = 7919  # a prime: the next record is for a partition far away


@contextmanager
def trickle(
    bootstrap: str, topic: str, *, partitions: int, records: int, interval_us: int, value_bytes: int
) -> Iterator[Callable[[], None]]:
    """Produce during the block: greetings at once, and `records` records when the function that it yields is called."""
    arguments = [bootstrap, topic, *map(str, (partitions, records, interval_us, value_bytes))]
    command = [sys.executable, "-m", "benchmarks.trickle", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:

        def go() -> None:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

        try:
            yield go
        finally:
            process.kill()


def main() -> None:
    """Produce; a failure is printed to standard error, since the consumer would wait for the record in vain."""
    from confluent_kafka import KafkaError, Message, Producer

    bootstrap, topic, *numbers = sys.argv[1:]
    partitions, records, interval_us, value_bytes = map(int, numbers)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "client.id": "trickle"})
    rest = bytes(value_bytes - STAMP.size)

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            sys.exit(f"a record was not delivered: {error}")

    for partition in range(partitions):
        value = STAMP.pack(time.monotonic_ns(), GREETING) + rest
        producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
    producer.flush()
    if sys.stdin.readline() != "go\n":
        return  # the reader is gone
    start = time.monotonic()
    for number in range(records):
        while (wait := start + number * interval_us / 1e6 - time.monotonic()) > 0:
            producer.poll(0)
            time.sleep(wait)
        value = STAMP.pack(time.monotonic_ns(), number) + rest
        producer.produce(topic, value, partition=number * _PARTITION_STEP % partitions, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    main()
