"""The embedded broker under the fuzzer, and under clients that are hostile, slow, half open, or two thousand."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafwire
from kafwire import protocol
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.testing.fuzzer.campaign import Campaign, Options, resolve
from tests.support import deadlines as waiting

SEED = 20
SECONDS = 8.0  # of each campaign
CROWD = 2000
MEGABYTE = 1 << 20


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:  # raises at its end what went wrong inside
        running.create_topic("flights")
        yield running


def address(kafka: EmbeddedKafka) -> tuple[str, int]:
    host, port = kafka.bootstrap.split(":")
    return host, int(port)


def asked(message: object, version: int) -> bytes:
    frame = protocol.encode_request(message, version, 1, "test")  # type: ignore[arg-type]
    return struct.pack(">i", len(frame)) + frame


def is_well(kafka: EmbeddedKafka) -> bool:
    """True if others are served meanwhile."""
    with kafwire.Client(kafka.bootstrap, request_timeout_ms=5000) as client:
        response = client.call(protocol.MetadataRequest(topics=None), version=9)
    return "flights" in [topic.name for topic in response.topics] and not kafka.problems


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(5)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("destructive", [False, True], ids=["reading", "destructive"])
@pytest.mark.timeout(120)
def test_fuzzing_finds_nothing(kafka: EmbeddedKafka, destructive: bool) -> None:
    before = resident()
    options = Options(seed=SEED, seconds=SECONDS, destructive=destructive, timeout=5.0)
    result = Campaign(resolve(kafka.bootstrap, allow_remote=False, timeout=5.0), options).run()
    assert not [
        f"{find.api} {find.versions_text}: {find.violation.rule}, {find.violation.detail}" for find in result.finds
    ]
    assert not result.dead
    assert not kafka.problems
    assert result.cases > 100
    assert is_well(kafka)
    assert resident() - before < 400 * MEGABYTE


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 0x7FFFFFFF),
        struct.pack(">i", 101 * MEGABYTE),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 8, 3, 999, 1),  # no such version
        struct.pack(">ihhi", 8, 999, 0, 1),  # no such API
        struct.pack(">ihhih", 10, 3, 9, 1, 0x7FFF),  # a client id that is not there
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(200),  # TLS, to a plain port
    ],
)
def test_frames_that_no_client_sends_end_their_connection(kafka: EmbeddedKafka, data: bytes) -> None:
    with socket.create_connection(address(kafka)) as connection:
        connection.sendall(data)
        assert is_closed(connection)
    assert is_well(kafka)


def test_an_array_that_claims_to_be_huge_takes_no_memory(kafka: EmbeddedKafka) -> None:
    before = resident()
    with socket.create_connection(address(kafka)) as connection:
        body = struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 0x7FFFFFFF)
        connection.sendall(struct.pack(">i", len(body)) + body)
        assert is_closed(connection)
    assert resident() - before < 50 * MEGABYTE
    assert is_well(kafka)


def test_announced_frames_that_never_come_take_little_memory(kafka: EmbeddedKafka) -> None:
    before = resident()
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(socket.create_connection(address(kafka)))
            connection.sendall(struct.pack(">i", 90 * MEGABYTE) + b"x")
        assert is_well(kafka)
        assert resident() - before < 200 * MEGABYTE


def test_a_client_that_has_sent_all_still_gets_its_response(kafka: EmbeddedKafka) -> None:
    with socket.create_connection(address(kafka)) as connection:
        connection.sendall(asked(protocol.MetadataRequest(topics=None), 9)[:7])
        connection.shutdown(socket.SHUT_WR)  # half open, in the middle of a request
        assert is_closed(connection)
    assert is_well(kafka)


def test_a_slow_reader_delays_no_other_client_and_takes_no_memory(kafka: EmbeddedKafka) -> None:
    kafka.append("flights", [bytes(MEGABYTE // 2)] * 40)
    fetch = protocol.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=100 * MEGABYTE,
        session_epoch=-1,
        topics=[
            protocol.FetchRequest.FetchTopic(
                topic="flights",
                partitions=[
                    protocol.FetchRequest.FetchPartition(
                        partition=0, fetch_offset=0, partition_max_bytes=100 * MEGABYTE
                    )
                ],
            )
        ],
    )
    before = resident()
    with socket.create_connection(address(kafka)) as connection:
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            for _ in range(200):
                connection.sendall(asked(fetch, 11))  # nothing is read of the responses, of 20 MB each
        began = time.monotonic()
        assert is_well(kafka)
        assert time.monotonic() - began < 5
        assert resident() - before < 300 * MEGABYTE
    waiting.until(lambda: kafka.ask(lambda state: True), "the broker goes on")


def test_two_thousand_connections_are_served_and_forgotten(kafka: EmbeddedKafka) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CROWD + 500
    if hard < wanted:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(socket.create_connection(address(kafka))) for _ in range(CROWD)]
            request = asked(protocol.ApiVersionsRequest(), 0)
            for each in crowd:
                each.sendall(request)
            for each in crowd:
                each.settimeout(20)
                assert len(each.recv(4)) == 4
            assert is_well(kafka)
        server = kafka._server
        waiting.until(lambda: kafka.ask(lambda state: len(server._peers)) < 10, "their connections are forgotten")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
