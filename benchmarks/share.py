"""Share groups beside others: `python -m benchmarks.share [--short] [NAME ...]`, into docs/internals/results/groups.md.

One Apache Kafka on this machine, one topic for each size of records, one member in a group of its own for each turn.
Each reads for some seconds from its first records on. Rounds take turns. The plain `Consumer` shows the ceiling.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import confluent_kafka
import numpy as np
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import kafwire
from kafwire import TopicPartition, protocol
from kafwire.testing import KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java
from tests.support.java.client import LOGGING, compiled, end

SOURCE = Path(__file__).parent / "java" / "ShareReader.java"
# Topics: size of values, bytes of a producer's batch, records. Kafka's own producer has batches of 16 KiB.
TOPICS = ((100, 16_384, 2_000_000), (1000, 16_384, 600_000), (100, 1_000_000, 3_000_000))
PARTITIONS = 4
# A member has its partitions with its second heartbeat.
QUICK = {"group.share.heartbeat.interval.ms": 500, "group.share.min.heartbeat.interval.ms": 500}
PATIENCE_S = 5.0
_groups = (f"bench-share-{number}" for number in itertools.count())

# Reads a topic as a group's member for so many seconds. Returns records and seconds after the first records.
Read = Callable[[str, str, str, float], tuple[int, float]]


class JavaReaders:
    """`KafkaShareConsumer` in one JVM."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kafwire-java-")
        logging = Path(self._folder.name) / "log4j2.xml"
        logging.write_text(LOGGING)
        command = [java(), "-Xmx512m", f"-Dlog4j2.configurationFile={logging}"]
        command += ["-cp", f"{compiled(SOURCE)}:{class_path()}", "ShareReader"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def reader(self, mode: str) -> Read:
        """One that acknowledges in that mode."""

        def read(bootstrap: str, topic: str, group: str, seconds: float) -> tuple[int, float]:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(f"{bootstrap} {topic} {group} {mode} {seconds}\n")
            self._process.stdin.flush()
            records, took = self._process.stdout.readline().split()
            return int(records), float(took)

        return read

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        end(self._process, self._folder)


def timed(counts: Iterator[int], seconds: float) -> tuple[int, float]:
    """Take numbers of records until the time is up, which begins with the first. Returns their sum, and seconds."""
    began, got, now = 0.0, 0, 0.0
    for count in counts:
        now = time.perf_counter()
        if not began:
            began = now
            continue
        got += count
        if now - began >= seconds:
            break
    return got, now - began


def plain(bootstrap: str, topic: str, _group: str, seconds: float) -> tuple[int, float]:
    """A consumer without a group, which reads to the end, or until its time is up."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with kafwire.Consumer(bootstrap, assign=partitions, auto_offset_reset="earliest") as consumer:
        rows = (batch.to_arrow().num_rows for batch in consumer.batches())
        return timed(up_to(rows, sum(consumer.end_offsets(partitions).values())), seconds)


def up_to(counts: Iterator[int], limit: int) -> Iterator[int]:
    """Numbers until their sum is there."""
    for count in counts:
        yield count
        limit -= count
        if limit <= 0:
            return


def implicit(bootstrap: str, topic: str, group: str, seconds: float) -> tuple[int, float]:
    """Batches of kafwire's as Arrow data, accepted by asking for the next."""
    with kafwire.ShareConsumer(bootstrap, topics=topic, group_id=group) as consumer:
        return timed((batch.to_arrow().num_rows for batch in consumer.batches(PATIENCE_S)), seconds)


def column(bootstrap: str, topic: str, group: str, seconds: float) -> tuple[int, float]:
    """Batches of kafwire's as Arrow data, each acknowledged by a column."""

    def counts() -> Iterator[int]:
        for batch in consumer.batches(PATIENCE_S):
            rows = batch.to_arrow().num_rows
            batch.acknowledge(np.ones(rows, np.int8))
            yield rows

    with kafwire.ShareConsumer(
        bootstrap, topics=topic, group_id=group, share_acknowledgement_mode="explicit"
    ) as consumer:
        return timed(counts(), seconds)


def records(bootstrap: str, topic: str, group: str, seconds: float) -> tuple[int, float]:
    """Records of kafwire's one by one, each accepted by asking for the next."""
    with kafwire.ShareConsumer(bootstrap, topics=topic, group_id=group) as consumer:
        began, got, now = 0.0, 0, 0.0
        for record in consumer:
            assert record.value
            got += 1
            if not got % 64:
                now = time.perf_counter()
                began = began or now
                if now - began >= seconds:
                    break
        return got - 64, now - began


def each(bootstrap: str, topic: str, group: str, seconds: float) -> tuple[int, float]:
    """Records of kafwire's one by one, each accepted by a call."""

    def counts() -> Iterator[int]:
        for batch in consumer.batches(PATIENCE_S):
            for record in batch:
                assert record.value
                batch.accept(record)
            yield len(batch)

    with kafwire.ShareConsumer(
        bootstrap, topics=topic, group_id=group, share_acknowledgement_mode="explicit"
    ) as consumer:
        return timed(counts(), seconds)


def confluent(mode: str) -> Read:
    """The share consumer of librdkafka, by confluent-kafka."""

    def read(bootstrap: str, topic: str, group: str, seconds: float) -> tuple[int, float]:
        def counts() -> Iterator[int]:
            empty = 0.0
            while time.perf_counter() - empty < PATIENCE_S or not empty:
                messages: Any = consumer.poll(PATIENCE_S)
                for message in messages:
                    assert message.value()
                    if mode == "explicit":
                        consumer.acknowledge(message)
                if len(messages):
                    empty = time.perf_counter()
                    yield len(messages)

        consumer: Any = confluent_kafka.ShareConsumer(  # type: ignore[attr-defined,unused-ignore]
            {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode, "log_level": 0}
        )
        consumer.subscribe([topic])
        try:
            return timed(counts(), seconds)
        finally:
            consumer.close()

    return read


def readers(java: JavaReaders) -> dict[str, Read]:
    """All, by name."""
    found: dict[str, Read] = {
        "plain": plain,
        "kafwire-implicit": implicit,
        "kafwire-column": column,
        "kafwire-records": records,
        "kafwire-each": each,
        "java-implicit": java.reader("implicit"),
        "java-explicit": java.reader("explicit"),
    }
    if hasattr(confluent_kafka, "ShareConsumer"):
        found |= {f"confluent-{mode}": confluent(mode) for mode in ("implicit", "explicit")}
    return found


def create(bootstrap: str, size: int, batch_size: int, count: int) -> str:
    """A topic of such records."""
    topic = f"bench-share-{size}-{batch_size}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(30)
    value = b"v" * size
    with kafwire.Producer(bootstrap, batch_size=batch_size) as producer:
        for number in range(count):
            producer.send(topic, value, partition=number % PARTITIONS)
    return topic


def begin_early(bootstrap: str, group: str) -> None:
    """A share group that reads from the first record on."""
    alter = protocol.IncrementalAlterConfigsRequest
    config = alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = alter.AlterConfigsResource(resource_type=32, resource_name=group, configs=[config])
    with kafwire.Client(bootstrap) as client:
        (altered,) = client.call(alter(resources=[resource])).responses
    assert altered.error_code == 0


def main() -> None:
    """Run the readers that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of readers, such as kafwire-implicit")
    parser.add_argument("--short", action="store_true", help="two short rounds, and fewer records")
    chosen = parser.parse_args()
    rounds, seconds, share = (2, 1.0, 3) if chosen.short else (5, 3.0, 1)
    with KafkaCluster(properties=QUICK) as cluster, JavaReaders() as java:
        bootstrap = cluster.bootstrap
        known = readers(java)
        chosen_readers = {name: known[name] for name in chosen.names or known}
        for size, batch_size, count in TOPICS:
            topic = create(bootstrap, size, batch_size, count // share)
            loads = [os.getloadavg()[0]]
            rates: dict[str, list[float]] = {name: [] for name in chosen_readers}
            for turn in range(rounds + 1):
                for name, read in chosen_readers.items():
                    group = next(_groups)
                    begin_early(bootstrap, group)
                    got, took = read(bootstrap, topic, group, seconds)
                    assert got, f"{name} read nothing"
                    if turn:  # the first one of each warms caches, and Java
                        rates[name].append(got / took)
                loads.append(os.getloadavg()[0])
            print(f"{size} B in batches of {batch_size} B, medians of {rounds} turns of up to {seconds:g} s,")
            print(f"  load of the machine {min(loads):.1f} to {max(loads):.1f}, this run's included:")
            for name, its in rates.items():
                median = statistics.median(its)
                span = f"{min(its) / 1000:.0f} to {max(its) / 1000:.0f}"
                print(f"  {name:20} {median / 1000:7.1f} k/s ({span}), {median * size / 1e6:7.1f} MB/s", flush=True)


if __name__ == "__main__":
    main()
