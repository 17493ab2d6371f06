"""Consumers and the process they are in: Ctrl-C, fork, exit, the GIL, and a thousand partitions."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.testing.cluster import KafkaCluster
from tests.support import programs, seeds
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.deadlines import ended, happened, until
from tests.support.known_topics import fill, make_topic, partitions_of, take, value_of
from tests.support.time_limits import within

pytestmark = pytest.mark.either_kafka

BEGIN = """
import asyncio, os, signal, sys, threading, time
import kafwire
from kafwire import AsyncConsumer, Consumer, TopicPartition
bootstrap, topic = sys.argv[1:]
where = TopicPartition(topic, 0)
def made(kind=Consumer, **options):
    return kind(bootstrap, assign=[where], **{"start": "earliest", **options})
"""


@pytest.fixture(scope="module")
def topic(cluster: KafkaCluster) -> str:
    """A partition with ten records."""
    name = make_topic(cluster.bootstrap, "consumer-process")
    fill(cluster.bootstrap, name, 1, 10, singly=True)
    return name


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as found:
        yield found


def program(cluster: KafkaCluster, topic: str, code: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return programs.program(BEGIN, code, cluster.bootstrap, topic)


def run(cluster: KafkaCluster, topic: str, code: str) -> tuple[int, str, str]:
    return programs.run(BEGIN, code, cluster.bootstrap, topic)


# -- Ctrl-C

READS = {
    "batches": "for batch in consumer.batches(): note()",
    "records": "for record in consumer: note()",
    "poll": "while True: consumer.poll(60.0) and note()",
    "stream": "for batch in consumer.partition_stream(where): note()",
    "arrow": "read_arrow()",
    "async": "asyncio.run(read_async())",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_ctrl_c_ends_a_read_that_waits(cluster: KafkaCluster, topic: str, read: str) -> None:
    """All ten records are there, and then nothing more: the program waits, and Ctrl-C ends it at once."""
    code = f"""
    def note():
        print("something", flush=True)
    async def read_async():
        async with made(AsyncConsumer) as mine:
            async for batch in mine.batches():
                note()
    def read_arrow():
        import pyarrow
        reader = consumer.arrow_stream().to_reader()
        try:
            while True:
                reader.read_next_batch()
                note()
        except OSError:  # all that an Arrow stream can raise; the interrupt follows
            while True:
                time.sleep(0.01)
    consumer = made(chunk_bytes=1)
    try:
        {read}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise
    """
    with program(cluster, topic, code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "something\n"
        with within(8):
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
    # The second line and those after it are not waited for: Ctrl-C may come while one is printed.
    assert out.replace("something", "").replace("\n", "") == "interrupted"
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert "Exception ignored" not in err
    assert "never retrieved" not in err


def test_after_ctrl_c_the_consumer_goes_on(cluster: KafkaCluster, topic: str) -> None:
    code = """
    with made(start="latest") as consumer:
        try:
            print("begun", flush=True)
            next(consumer.batches())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        consumer.seek(where, 8)
        source = iter(consumer)
        print(next(source).offset, next(source).offset)
    """
    with program(cluster, topic, code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "interrupted\n8 9\n", "")


# -- exit

EXITS = {
    "unread": "consumer = made()",
    "read": "consumer = made(); consumer.poll(10)",
    "half read": "batches = made().batches(); next(batches)",
    "record": "records = iter(made()); next(records)",
    "stream": "stream = made().partition_stream(where); next(stream)",
    "arrow": "reader = made().arrow_stream().to_reader(); reader.read_next_batch()",
    "dropped": "made().poll(10)",
    "async": "consumer = made(AsyncConsumer); asyncio.run(consumer.poll(10))",
    "group": "consumer = made(group_id='at-exit'); consumer.poll(10)",
    "hook": "consumer = made(metrics_hook=lambda found: None, metrics_interval_ms=1); consumer.poll(10)",
    "thread": "it = made(start='latest'); threading.Thread(target=lambda: list(it.batches()), daemon=True).start()",
    "cycle": "keep = [made(), made()]; keep.append(keep)",
}


@pytest.mark.parametrize("code", EXITS.values(), ids=EXITS)
def test_the_interpreter_ends_with_a_consumer_open(cluster: KafkaCluster, topic: str, code: str) -> None:
    """confluent-kafka #358, #1942: neither a crash nor a hang."""
    if "Thread(" in code:  # what it raises when the interpreter lets it go is not printed
        code = "threading.excepthook = lambda arguments: None\n" + code
    with within(15):
        assert run(cluster, topic, code) == (0, "", "")


def test_calls_after_close_are_refused(flavour: Flavour, cluster: KafkaCluster, topic: str) -> None:
    with flavour.consumer(cluster.bootstrap, topics=topic, start="earliest") as consumer:
        batches = consumer.batches()
        next(batches)
        consumer.close()
        consumer.close()
        where = TopicPartition(topic, 0)
        for call in (
            lambda: next(consumer.batches()),
            lambda: next(batches),
            lambda: next(iter(consumer)),
            consumer.poll,
            consumer.metrics,
            lambda: consumer.seek(where, 0),
            lambda: consumer.position(where),
            lambda: consumer.lag(where),
            consumer.end_offsets,
        ):
            with pytest.raises(kafwire.KafkaError, match="this consumer is closed"):
                call()


# -- fork


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)"])
@pytest.mark.parametrize("in_child", ["refused", "closed", "new", "nothing"])
def test_0079_a_fork_harms_neither_parent_nor_child(cluster: KafkaCluster, topic: str, in_child: str, end: str) -> None:
    code = """
    def refused(call):
        try:
            call()
        except kafwire.KafkaError as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("not refused")
    def count(found, least):
        while least > 0:
            least -= len(next(found))
    consumer = made(chunk_bytes=1)
    batches = consumer.batches()
    count(batches, 3)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        if IN_CHILD == "refused":
            for call in (lambda: next(batches), consumer.poll, consumer.metrics, lambda: consumer.position(where)):
                refused(call)
        elif IN_CHILD == "closed":
            consumer.close()
        elif IN_CHILD == "new":
            with made() as mine:
                count(mine.batches(), 10)
        END
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    count(consumer.batches(), 10 - consumer.position(where))
    consumer.seek(where, 0)
    count(consumer.batches(), 10)
    consumer.close()
    """
    with within(20):
        assert run(cluster, topic, code.replace("IN_CHILD", repr(in_child)).replace("END", end)) == (0, "", "")


# -- the GIL


def test_an_arrow_stream_goes_on_while_another_thread_holds_the_gil(cluster: KafkaCluster, topic_name: str) -> None:
    """A thread keeps the GIL: fetched data is decoded all the same, in the thread that reads the stream."""
    rows = 400_000
    make_topic(cluster.bootstrap, topic_name)
    table = pa.table({"value": pa.array([bytes([number % 251]) * 100 for number in range(10_000)])})
    with kafwire.Producer(cluster.bootstrap, compression_type="lz4") as producer:
        for _ in range(rows // 10_000):
            producer.send_batch(topic_name, table, partition=0)
        producer.flush(60)
    where = TopicPartition(topic_name, 0)
    for _ in range(20):
        options: dict[str, Any] = {"columns": ["value"], "max_prefetch_batches": 1000, "fetch_memory": 1 << 30}
        with kafwire.Consumer(cluster.bootstrap, assign=[where], start="earliest", **options) as consumer:
            queue = consumer._core.fetcher.queue
            # Asks for everything, and reads nothing yet.
            stream = consumer.arrow_stream(timeout=1.0)
            until(lambda: consumer._core.fetcher.cursors[where].position == rows)
            total = queue.queued_bytes()
            reader = stream.to_reader()
            found: list[int] = []
            started = threading.Event()

            def body() -> None:
                started.set()  # noqa: B023
                found.append(len(reader.read_all()))  # noqa: B023

            thread = threading.Thread(target=body)
            interval = sys.getswitchinterval()
            sys.setswitchinterval(1000)  # the thread with the GIL keeps it until it gives it away
            try:
                thread.start()
                happened(started)
                begin = queue.queued_bytes()
                deadline = time.monotonic() + 30
                while (left := queue.queued_bytes()) and time.monotonic() < deadline:
                    pass
            finally:
                sys.setswitchinterval(interval)
            ended(thread)
            assert left == 0, f"{left} of {total} bytes were not decoded without the GIL"
            assert found == [rows]
            if begin > total // 2:  # else the machine was slow to hand the GIL over, and little was seen
                return
    raise AssertionError("the stream was always over before the GIL was held")


# -- a thousand partitions


def test_a_thousand_partitions(cluster: KafkaCluster, topic_name: str) -> None:
    """All are read, each from both flavours; then a trickle into a few of them costs requests that name only those
    few."""
    many = seeds.examples(100)
    make_topic(cluster.bootstrap, topic_name, many)
    expected = fill(cluster.bootstrap, topic_name, many, 1)
    for name in ("blocking", "async"):
        with (
            flavour_named(name) as flavour,
            flavour.consumer(cluster.bootstrap, topics=topic_name, start="earliest", fetch_max_wait_ms=200) as consumer,
        ):
            seen = take(consumer, sum(map(len, expected.values())))
            assert seen.values == expected
            assert consumer.assignment == set(partitions_of(topic_name, many))

            def sent() -> tuple[int, int]:
                connections = [
                    connection for connection in consumer.metrics()["connections"] if connection["role"] == "fetch"
                ]
                return sum(connection["bytes_out"] for connection in connections), sum(
                    connection["requests"] for connection in connections
                )

            before = sent()
            with kafwire.Producer(cluster.bootstrap, linger_ms=0) as producer:
                for number in range(20):
                    producer.send(topic_name, b"x", partition=number * 37 % many).result(20)
                    assert take(consumer, 1).values == {number * 37 % many: [b"x"]}
            size, count = (after - earlier for after, earlier in zip(sent(), before, strict=True))
            assert count >= 5
            # A full request names 1,000 partitions, in more than 30 bytes each.
            assert size / count < 1000, f"{size} bytes in {count} requests"
            expected = {
                number: [*values, *([b"x"] if number in {n * 37 % many for n in range(20)} else [])]
                for number, values in expected.items()
            }


# -- what keeps a consumer alive


def test_an_arrow_stream_keeps_its_consumer(flavour: Flavour, cluster: KafkaCluster, topic: str) -> None:
    """The stream alone may be referenced: it goes on, and when it is over, a warning names the unclosed consumer."""
    options: dict[str, Any] = {"topics": topic, "start": "earliest", "columns": ["value"]}
    consumer = flavour.consumer_from({"bootstrap.servers": cluster.bootstrap, **options})
    reader = consumer.arrow_stream(timeout=1.0).to_reader()
    del consumer
    gc.collect()
    assert reader.read_all()["value"].to_pylist() == [value_of(0, number) for number in range(10)]
    del reader
    with pytest.warns(ResourceWarning, match="never closed"):
        gc.collect()
