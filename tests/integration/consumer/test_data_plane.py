"""The data plane is the native thread's: no asyncio receiver, no object for a record, and no GIL to decode."""

import asyncio
import gc
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import kafwire
from kafwire.runtime.engine import default_engine
from kafwire.runtime.native_transport import NativeConnection
from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import ended, happened, until

ROWS = 1_000_000


@pytest.fixture(scope="module")
def million(cluster: KafkaCluster) -> str:
    """A topic of a million records of 100 B in two partitions."""
    name = "data-plane-million"
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(name, partitions=2)
    table = pa.table({"value": pa.array([bytes([number % 251]) * 100 for number in range(10_000)])})
    with kafwire.Producer(cluster.bootstrap, compression_type="lz4") as producer:
        for number in range(ROWS // 10_000):
            producer.send_batch(name, table, partition=number % 2)
        producer.flush(60)
    return name


# -- which thread owns the sockets


@pytest.fixture
def spies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of asyncio's and socket's ways to connections that were taken during the test."""
    taken: list[str] = []

    def spy(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def note(*arguments: Any, **options: Any) -> Any:
            # The event loop's way to wake itself is a pair of Unix sockets.
            if owner is not socket.socket or arguments[0].family != socket.AF_UNIX:
                taken.append(f"{owner.__name__}.{name}")
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, note)

    loop = type(default_engine()._loop)
    for name in (
        *(
            "create_connection",
            "create_datagram_endpoint",
            "sock_connect",
            "sock_recv",
            "sock_recv_into",
            "sock_sendall",
        ),
        *("add_reader", "add_writer", "_add_reader", "_add_writer", "_make_socket_transport", "_make_ssl_transport"),
    ):
        spy(loop, name)
    spy(asyncio, "open_connection")
    spy(socket, "create_connection")
    for name in ("connect", "connect_ex", "recv", "recv_into", "send", "sendall", "sendmsg"):
        spy(socket.socket, name)
    return taken


def descriptors_of_the_event_loop() -> set[int]:
    """The descriptors that the engine's selector watches."""
    response: list[set[int]] = []
    asked = threading.Event()

    def look() -> None:
        selector: Any = default_engine()._loop
        response.append(set(selector._selector.get_map()))
        asked.set()

    default_engine().start(look)
    assert asked.wait(10)
    return response[0]


def connected(members: object) -> list[Any]:
    """The connections of a client that are connected."""
    cluster: Any = members
    return [connection for connection in cluster.connections if connection.is_ready]


def test_no_plain_connection_takes_an_asyncio_receiver(
    cluster: KafkaCluster, topic_name: str, spies: list[str]
) -> None:
    """A client, a producer and a scan at work: their bytes never pass through the event loop."""
    loop: Any = default_engine()._loop
    allowed = {loop._ssock.fileno(), default_engine().native.fileno()}
    before = default_engine().native.statistics()
    with kafwire.Client(cluster.bootstrap) as client, kafwire.Producer(cluster.bootstrap) as producer:
        client.create_topic(topic_name, partitions=2)
        value = bytes(100_000)
        for number in range(100):
            producer.send(topic_name, value, partition=number % 2)
        producer.flush(30)
        assert descriptors_of_the_event_loop() == allowed
        scan = kafwire.scan(cluster.bootstrap, topic_name, fetch_max_bytes=1 << 20, fetch_memory=2 << 20)
        fetcher = fetcher_of(scan)
        batches = scan.batches()
        total = len(next(batches))
        assert descriptors_of_the_event_loop() == allowed
        for of in (client._cluster, producer._cluster, fetcher.cluster):
            connections = connected(of)
            assert connections
            assert {connection.transport for connection in connections} == {NativeConnection}
        assert {connection.role for connection in connected(producer._cluster)} >= {"produce"}
        assert {connection.role for connection in connected(fetcher.cluster)} >= {"fetch"}
        total += sum(len(batch) for batch in batches)
    assert total == 100
    assert spies == []
    after = default_engine().native.statistics()
    assert after["bytes_out"] - before["bytes_out"] >= 100 * len(value), "the native thread sent it all"
    assert after["bytes_in"] - before["bytes_in"] >= 100 * len(value), "and received it all"


def test_the_spies_see_the_gil(spies: list[str]) -> None:
    """Were the engine to connect by asyncio, the test above would fail."""

    async def connect(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        default_engine().run(connect, listener.getsockname()[1])
    assert "asyncio.open_connection" in spies
    assert any(name.endswith("create_connection") for name in spies)


# -- the GIL


class Attempt(NamedTuple):
    """Bytes that waited to be decoded: in all, when the main thread began to hold the GIL, and when it stopped."""

    total: int
    begin: int
    end: int


def fetcher_of(scan: Any) -> Any:
    """The fetcher of a scan that has not begun to read."""
    return scan._start_fetching.__self__


def hold_the_gil(scan: Any, fetcher: Any, consume: Callable[[], object], limit: float) -> Attempt:
    """Fetch all, then consume it in a thread while this one holds the GIL, for `limit` seconds or until all is gone."""
    scan._start()
    until(lambda: fetcher.stopped)
    total = fetcher.queue.queued_bytes()
    started = threading.Event()

    def body() -> None:
        started.set()
        consume()

    thread = threading.Thread(target=body)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # the thread with the GIL keeps it until it gives it away
    try:
        thread.start()
        happened(started)
        begin = fetcher.queue.queued_bytes()
        deadline = time.monotonic() + limit
        while (end := fetcher.queue.queued_bytes()) and time.monotonic() < deadline:
            pass
    finally:
        sys.setswitchinterval(interval)
    ended(thread)
    return Attempt(total, begin, end)


def scan_all(cluster: KafkaCluster, topic: str) -> kafwire.Scan:
    return kafwire.scan(cluster.bootstrap, topic, columns=["offset", "value"], fetch_memory=1 << 30)


def test_an_arrow_stream_is_decoded_while_another_thread_holds_the_gil(cluster: KafkaCluster, million: str) -> None:
    """No measurement: were the GIL needed for one chunk, or one record, the stream would stand still."""
    for _ in range(20):
        tables: list[pa.Table] = []
        scan = scan_all(cluster, million)
        fetcher = fetcher_of(scan)
        reader = scan.to_reader()
        attempt = hold_the_gil(scan, fetcher, lambda: tables.append(reader.read_all()), limit=30)  # noqa: B023
        assert attempt.end == 0, f"{attempt.end} of {attempt.total} bytes were not decoded without the GIL"
        assert len(tables[0]) == ROWS
        if attempt.begin > attempt.total // 2:  # else the machine was slow to hand the GIL over, and little was seen
            return
    raise AssertionError("the stream was always over before the GIL was held")


def test_code_that_needs_the_gil_stops_meanwhile(cluster: KafkaCluster, million: str) -> None:
    """The test above can fail: batches as Python objects wait for the GIL."""
    scan = scan_all(cluster, million)
    batches = scan.batches()
    attempt = hold_the_gil(scan, fetcher_of(scan), lambda: list(batches), limit=0.5)
    assert attempt.end > attempt.total // 2


def test_no_python_object_is_kept_for_a_record_of_a_scan(cluster: KafkaCluster, million: str) -> None:
    """No object is made on the way either: the test above shows that decoding needs nothing of Python."""
    pa.table(kafwire.scan(cluster.bootstrap, million, columns=["offset"]))  # imports and caches of the first use
    gc.collect()
    gc.disable()
    before = sys.getallocatedblocks()
    table = pa.table(kafwire.scan(cluster.bootstrap, million))
    made = sys.getallocatedblocks() - before
    gc.enable()
    assert len(table) == ROWS
    assert made < 10_000


def test_prefetched_bytes_of_a_scan_stay_within_its_budget(cluster: KafkaCluster, million: str) -> None:
    """A reader that has not begun yet: fetching stops at fetch_memory, and goes on with the reading."""
    scan = kafwire.scan(cluster.bootstrap, million, fetch_memory=1_000_000, fetch_max_bytes=200_000)
    fetcher = fetcher_of(scan)
    scan._start()
    until(lambda: fetcher.queue.queued_bytes() > 500_000 and fetcher.budget.reserved == 0)
    # A response of 200,000 bytes is asked for while there is room for it, and lies in a buffer of 256 KiB.
    assert fetcher.queue.queued_bytes() <= 1_000_000 + 262_144 - 200_000
    assert sum(len(batch) for batch in scan.batches()) == ROWS
