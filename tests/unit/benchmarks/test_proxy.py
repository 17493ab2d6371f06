"""The proxy that counts: bytes arrive unchanged, whole or in crumbs, and every request is counted once, by client."""

import random
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.counted import NOTHING, difference, read_counts
from benchmarks.programs import build_proxy
from tests.support.deadlines import ended
from tests.support.socket_server import SocketServer, echo

FETCH, METADATA = 1, 3


def request(api: int, client_id: str | None, body: bytes = b"") -> bytes:
    name = (client_id or "").encode()
    frame = struct.pack(">hhih", api, 12, 7, len(name) if client_id is not None else -1) + name + body
    return struct.pack(">i", len(frame)) + frame


@pytest.fixture
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """The proxy's port, and where it reports."""
    folder = Path(tmp_path_factory.getbasetemp()) / "benchmarks"
    server = SocketServer(echo)
    command = [str(build_proxy(folder))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        port, report = proxy.stdout.readline().split()
        proxy.stdin.write(f"{server.address}\n")
        proxy.stdin.flush()
        yield int(port), f"127.0.0.1:{report}"
        proxy.stdin.close()
        assert proxy.wait(10) == 0
    server.close()


def exchange(port: int, data: bytes, step: int) -> None:
    """Send in steps of so many bytes, and get the same back."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send() -> None:
            for at in range(0, len(data), step):
                connection.sendall(data[at : at + step])

        sender = threading.Thread(target=send)
        sender.start()
        back = b""
        while len(back) < len(data):
            back += connection.recv(1 << 20)
        ended(sender)
        assert back == data


@pytest.mark.parametrize("step", [1, 5, 1 << 20])
def test_every_request_is_counted_once(ports: tuple[int, str], step: int) -> None:
    port, report = ports
    chance = random.Random(20130101)
    long_name = "n" * 300  # counted by its beginning
    parts = [request(FETCH, "counted", chance.randbytes(chance.randrange(90))) for _ in range(20)]
    parts += [request(METADATA, "counted"), request(FETCH, long_name), request(FETCH, "counted", bytes(3000))]
    exchange(port, b"".join(parts), step)
    exchange(port, request(METADATA, None) + request(METADATA, long_name), step)
    exchange(port, request(METADATA, long_name, b"x"), step)
    size = sum(map(len, parts))
    found = read_counts(report)
    expected = {"made": 1, "requests": 23, "fetches": 22, "request_bytes": size, "response_bytes": size}
    assert {name: found[name] for name in expected} == expected
    # A connection is its first request's.
    assert read_counts(report, long_name[:64])["requests"] == 1
    assert read_counts(report, "")["requests"] == 2
    assert read_counts(report, "nobody") == NOTHING


def test_large_responses_pass_and_slow_readers_do_not_lose_any(ports: tuple[int, str]) -> None:
    port, report = ports
    data = request(FETCH, "counted", random.Random(5).randbytes(20_000_000))
    exchange(port, data, 1 << 20)
    assert read_counts(report)["response_bytes"] == len(data)


def test_open_connections_are_a_state_and_the_rest_are_sums(ports: tuple[int, str]) -> None:
    port, report = ports
    data = request(METADATA, "counted")
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(data)
        assert connection.recv(1000)
        before = read_counts(report)
        assert before["open"] == 1
        connection.sendall(data)
        assert connection.recv(1000)
        change = difference(before, read_counts(report))
    assert (change["open"], change["made"], change["requests"], change["request_bytes"]) == (1, 0, 1, len(data))
    # A response on another connection comes after the end of the first was seen.
    exchange(port, request(METADATA, "other"), 100)
    assert read_counts(report)["open"] == 0
