"""The throughput of the embedded broker: `python -m benchmarks.embedded_broker`, into docs/guide/broker.md by hand.

It runs as a process of its own, as `kafwire broker`. A plain socket sends Produce and Fetch with ready-made frames, so
that only the broker is measured; beside the wall clock's rate stands that of its own processor time. With `--kafka`, a
record that is produced and waited for is timed on Apache Kafka too, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil

import kafwire
from kafwire import protocol
from kafwire.records import encode_batch
from kafwire.testing import EmbeddedKafka, KafkaCluster

BATCHES = 1000
FETCHED = 8 << 20
RECORDS = 1030  # of 1,000 bytes: a batch of 1 MiB, less some
WAITS = 3000
PARTITIONS = 10_000


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", action="store_true", help="compare with Apache Kafka, which needs a JDK")
    parser.add_argument("--data", help="a folder for the broker's logs, else they are in memory")
    chosen = parser.parse_args()
    began = time.perf_counter()
    with EmbeddedKafka():
        tell("start in this process, with imports made", f"{(time.perf_counter() - began) * 1000:.1f} ms")
    options = ["--data", chosen.data] if chosen.data else []
    with command(*options) as (bootstrap, process, started_s):
        tell("start as a command, imports included", f"{started_s:.2f} s")
        tell("memory without topics", f"{process.memory_info().rss / 2**20:.0f} MiB")
        rates(bootstrap, process)
        many_partitions(bootstrap)
    with contextlib.ExitStack() as stack:
        servers = {"embedded": stack.enter_context(command(*options))[0]}
        if chosen.kafka:
            servers["Kafka"] = stack.enter_context(KafkaCluster()).bootstrap
        waits(servers)


def tell(what: str, figure: str) -> None:
    """Print a figure."""
    print(f"{what:60} {figure}", flush=True)


@contextlib.contextmanager
def command(*options: str) -> Iterator[tuple[str, psutil.Process, float]]:
    """`kafwire broker`, running: where it is, its process, and how long it took to start."""
    began = time.perf_counter()
    run = [sys.executable, "-m", "kafwire", "broker", "--port", "0", "--topic", "t", *options]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().strip()
            yield bootstrap, psutil.Process(process.pid), time.perf_counter() - began
        finally:
            process.terminate()


def rates(bootstrap: str, process: psutil.Process) -> None:
    """Produce and fetch batches of 1 MiB."""
    with kafwire.Client(bootstrap) as client:
        topic_id = client.call(protocol.MetadataRequest(topics=None)).topics[0].topic_id
    data = encode_batch([bytes(1000)] * RECORDS)
    request: Any = protocol.ProduceRequest
    topic = request.TopicProduceData(name="", topic_id=topic_id)
    topic.partition_data = [request.PartitionProduceData(index=0, records=data)]
    produce = framed(request(acks=1, timeout_ms=30_000, topic_data=[topic]), 13)
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port))) as connection, timed(process) as spent:
        window = 3
        for _ in range(window):
            connection.sendall(produce)
        for number in range(BATCHES):
            receive(connection)
            if number < BATCHES - window:
                connection.sendall(produce)
    report("produce, 1 MiB batches", BATCHES * len(data), spent)
    asked: Any = protocol.FetchRequest
    size = 0
    with socket.create_connection((host, int(port))) as connection, timed(process) as spent:
        for _ in range(10):
            for offset in range(0, (BATCHES - 8) * RECORDS, 8 * RECORDS):
                part = asked.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCHED)
                fetch = asked(max_wait_ms=100, min_bytes=1, max_bytes=FETCHED, session_epoch=-1)
                fetch.topics = [asked.FetchTopic(topic_id=topic_id, partitions=[part])]
                connection.sendall(framed(fetch, 17))
                size += receive(connection)
    report("fetch, responses of 8 MiB", size, spent)


@contextlib.contextmanager
def timed(process: psutil.Process) -> Iterator[list[float]]:
    """The wall clock's time, and the process's own."""
    spent: list[float] = []
    before, began = process.cpu_times(), time.perf_counter()
    yield spent
    after = process.cpu_times()
    spent += [time.perf_counter() - began, after.user + after.system - before.user - before.system]


def report(what: str, size: int, spent: list[float]) -> None:
    """Print a rate."""
    wall_s, processor_s = spent
    tell(what, f"{size / wall_s / 1e6:.0f} MB/s, {size / processor_s / 1e6:.0f} MB per second of one core")


def framed(message: Any, version: int) -> bytes:
    """A request, as it is on a connection."""
    frame = protocol.encode_request(message, version, 1, "bench")
    return struct.pack(">i", len(frame)) + frame


_SCRATCH = memoryview(bytearray(64 << 20))


def receive(connection: socket.socket) -> int:
    """Read a response and return its size."""
    size = int.from_bytes(_take(connection, 4), "big")
    _take(connection, size)
    return size


def _take(connection: socket.socket, size: int) -> memoryview:
    got = 0
    while got < size:
        got += connection.recv_into(_SCRATCH[got:size])
    return _SCRATCH[:size]


def many_partitions(bootstrap: str) -> None:
    """One client produces to many partitions and fetches from all."""
    topics = ["many", "more"]  # no request may ask for 10,000 partitions
    each = PARTITIONS // len(topics)
    with kafwire.Client(bootstrap) as client:
        began = time.perf_counter()
        for topic in topics:
            client.create_topic(topic, partitions=each)
        tell(f"topics of {PARTITIONS:,} partitions are made", f"{time.perf_counter() - began:.2f} s")
    with kafwire.Producer(bootstrap, linger_ms=50) as producer:
        began = time.perf_counter()
        for topic in topics:
            for index in range(each):
                producer.send(topic, b"value", partition=index)
        producer.flush(60)
        tell("a record to each of them", f"{time.perf_counter() - began:.2f} s")
    began = time.perf_counter()
    with kafwire.Consumer(bootstrap, topics=topics, start="earliest") as consumer:
        count = 0
        for batch in consumer.batches(timeout=30):
            count += len(batch)
            if count >= PARTITIONS:
                break
    assert count == PARTITIONS, count
    tell("a consumer reads them all", f"{time.perf_counter() - began:.2f} s")


def waits(servers: dict[str, str]) -> None:
    """A record is sent and waited for, at each in turns."""
    with contextlib.ExitStack() as stack:
        producers = {}
        for name, bootstrap in servers.items():
            stack.enter_context(kafwire.Client(bootstrap)).create_topic("waited")
            producer = stack.enter_context(kafwire.Producer(bootstrap, linger_ms=0))
            producer.send("waited", b"value").result(30)
            producers[name] = producer
        found: dict[str, list[float]] = {name: [] for name in producers}
        for _ in range(WAITS):
            for name, producer in producers.items():
                began = time.perf_counter()
                producer.send("waited", b"value").result(30)
                found[name].append(time.perf_counter() - began)
    for name, times in found.items():
        cuts = statistics.quantiles(times, n=100)
        tell(f"send().result(), {name}: p50, p99", f"{cuts[49] * 1000:.3f}, {cuts[98] * 1000:.3f} ms")


if __name__ == "__main__":
    main()
