"""The native I/O thread over loopback: its completions, their order, and the state that is left when it ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import random
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafwire.memory._buffer import Buffer, pool_bytes
from kafwire.runtime._io import CLOSED, CONNECTED, POSTED, RESPONSE, SENT, Loop
from tests.support.deadlines import ended
from tests.support.forks import in_child

LIMIT = 100 << 20
PATIENCE_S = 30
Event = tuple[int, int, int, Any]


def response_frame(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def framed(*segments: bytes) -> bytes:
    body = b"".join(segments)
    return struct.pack(">i", len(body)) + body


class Wire:
    """A loop, a listener, and what came out of the loop so far."""

    def __init__(self, family: int = socket.AF_INET) -> None:
        self.loop = Loop()
        self.family = family
        self.listener = socket.socket(family)
        self.listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        self.listener.listen(64)
        self.listener.settimeout(PATIENCE_S)
        self.peers: list[socket.socket] = []

    def close(self) -> None:
        self.loop.stop()
        for each in (self.listener, *self.peers):
            each.close()

    def connect(self, max_frame: int = LIMIT, receive: int = 0, **options: Any) -> tuple[int, socket.socket]:
        """A connection, opened: its number and the peer's socket, with a receive buffer of `receive` bytes."""
        if receive:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        number = self.loop.connect(self.listener.getsockname(), self.family, max_frame=max_frame, **options)
        peer = self.listener.accept()[0]
        peer.settimeout(PATIENCE_S)
        self.peers.append(peer)
        assert self.events(1) == [(CONNECTED, number, 0, None)]
        return number, peer

    def completions(self) -> list[Event]:
        assert self.readable(PATIENCE_S), "nothing completed"
        drained = self.loop.drain()
        assert drained, "readable, and nothing to drain"
        return drained

    def readable(self, seconds: float = 0) -> bool:
        return bool(select.select([self.loop.fileno()], [], [], seconds)[0])

    def events(self, count: int) -> list[Event]:
        """The next `count` completions, and no more are there; frames as bytes."""
        found: list[Event] = []
        while len(found) < count:
            found += self.completions()
        assert len(found) == count
        return [(*each[:3], bytes(each[3]) if isinstance(each[3], Buffer) else each[3]) for each in found]

    def until_closed(self, number: int) -> list[Event]:
        """All completions up to the CLOSED of `number`, which is the last one of that connection."""
        found: list[Event] = []
        while not any(kind == CLOSED and connection == number for kind, connection, _, _ in found):
            found += self.completions()
        assert [each[0] for each in found if each[1] == number][-1] == CLOSED
        return found


@pytest.fixture
def wire() -> Iterator[Wire]:
    gc.collect()
    gc.collect()  # leftovers of other tests
    live, descriptors, threads = pool_bytes()[0], open_descriptors(), native_threads()
    made = Wire()
    yield made
    made.close()
    settles(native_threads, threads)
    del made.loop
    gc.collect()
    assert pool_bytes()[0] <= live
    assert open_descriptors() == descriptors


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def native_threads() -> set[str]:
    """The ids of this process's I/O threads; those of another loop may be among them."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            if (task / "comm").read_text() == "kafwire-io\n":
                found.add(task.name)
    return found


def descriptors_of_kind(kind: str) -> set[int]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if kind in os.readlink(entry):  # noqa: PTH115
                found.add(int(entry.name))
    return found


def settles(look: Callable[[], object], expected: object) -> None:
    """`look()` comes to `expected`: for what another thread does a moment after its effect can be seen."""
    end = time.monotonic() + PATIENCE_S
    while look() != expected and time.monotonic() < end:
        os.sched_yield()
    assert look() == expected


def receive(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = peer.recv(size - len(data))
        assert piece, f"closed after {len(data)} of {size} bytes"
        data += piece
    return bytes(data)


# ---- requests and responses


def test_a_request_and_its_response(wire: Wire) -> None:
    number, peer = wire.connect()
    wire.loop.submit(number, 2**64 - 1, 7, [b"head", Buffer(b"payload")], True)
    assert receive(peer, 15) == framed(b"head", b"payload")
    peer.sendall(response_frame(7, b"result"))
    assert wire.events(1) == [(RESPONSE, number, 2**64 - 1, struct.pack(">i", 7) + b"result")]


def test_requests_are_pipelined_and_responses_matched_in_order(wire: Wire) -> None:
    number, peer = wire.connect()
    for token in range(100):
        wire.loop.submit(number, token, 1000 + token, [b"request %3d" % token], True)
    assert receive(peer, 1500) == b"".join(framed(b"request %3d" % token) for token in range(100))
    peer.sendall(b"".join(response_frame(1000 + token, b"%d" % token) for token in range(100)))
    assert wire.events(100) == [
        (RESPONSE, number, token, struct.pack(">i", 1000 + token) + b"%d" % token) for token in range(100)
    ]


def test_many_small_responses_cost_few_receive_calls(wire: Wire) -> None:
    number, peer = wire.connect()
    for token in range(500):
        wire.loop.submit(number, token, token, [b"request"], True)
    receive(peer, 500 * 11)
    before = wire.loop.statistics()
    peer.sendall(b"".join(response_frame(token, b"x" * 20) for token in range(500)))
    wire.events(500)
    after = wire.loop.statistics()
    assert after["frames_in"] - before["frames_in"] == 500
    assert after["receive_calls"] - before["receive_calls"] <= 20
    assert after["notifications"] - before["notifications"] <= 20


def test_responses_byte_by_byte(wire: Wire) -> None:
    number, peer = wire.connect()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for token in range(20):
        wire.loop.submit(number, token, token, [b"request"], True)
    receive(peer, 20 * 11)
    for byte in b"".join(response_frame(token, b"body") for token in range(20)):
        peer.sendall(bytes([byte]))
    assert wire.events(20) == [(RESPONSE, number, token, struct.pack(">i", token) + b"body") for token in range(20)]


@pytest.mark.parametrize("size", [1, 16 << 10, 64 << 10, 1 << 20, 8 << 20, 40 << 20])
def test_responses_of_any_size(wire: Wire, size: int) -> None:
    number, peer = wire.connect()
    for token in range(2):
        wire.loop.submit(number, token, token, [b"fetch"], True)
    receive(peer, 2 * 9)
    body = random.Random(size).randbytes(size)
    sender = threading.Thread(target=peer.sendall, args=(response_frame(0, body) + response_frame(1, body[::-1]),))
    sender.start()
    first, second = wire.events(2)
    ended(sender)
    assert first == (RESPONSE, number, 0, bytes(4) + body)
    assert second == (RESPONSE, number, 1, b"\0\0\0\1" + body[::-1])


def test_requests_before_the_connection_is_open_wait_for_it(wire: Wire) -> None:
    number = wire.loop.connect(wire.listener.getsockname(), socket.AF_INET, max_frame=LIMIT)
    for token in range(3):
        wire.loop.submit(number, token, token, [b"early %d" % token], token != 1)
    with wire.listener.accept()[0] as peer:
        assert receive(peer, 33) == framed(b"early 0") + framed(b"early 1") + framed(b"early 2")
        assert wire.events(2) == [(CONNECTED, number, 0, None), (SENT, number, 1, None)]
        peer.sendall(response_frame(0) + response_frame(2))
        assert [each[2] for each in wire.events(2)] == [0, 2]


def test_a_request_without_a_response_is_reported_when_sent(wire: Wire) -> None:
    number, peer = wire.connect()
    wire.loop.submit(number, 1, 1, [b"first"], True)
    wire.loop.submit(number, 2, 2, [b"no response"], False)
    assert wire.events(1) == [(SENT, number, 2, None)]
    peer.sendall(response_frame(1))
    assert wire.events(1) == [(RESPONSE, number, 1, b"\0\0\0\1")]


def test_a_slow_reader_gets_every_byte_in_order(wire: Wire) -> None:
    number, peer = wire.connect(receive=16384, send_buffer=4096)
    dice = random.Random(5)
    live = pool_bytes()[0]
    out = b""
    for token in range(40):
        header, payload = dice.randbytes(20), dice.randbytes(dice.choice([0, 10, 300_000]))
        wire.loop.submit(number, token, token, [header, Buffer(payload)], token % 4 != 0)
        out += framed(header, payload)
    assert pool_bytes()[0] > live
    got = bytearray()
    while len(got) < len(out):
        got += peer.recv(dice.randrange(1, 5000))
    assert bytes(got) == out
    assert [each[2] for each in wire.events(10)] == list(range(0, 40, 4))
    settles(lambda: pool_bytes()[0], live)  # a request lets go of its buffers with its last byte
    settles(lambda: wire.loop.statistics()["frames_out"], 40)
    statistics = wire.loop.statistics()
    assert statistics["send_calls"] > 50
    assert statistics["bytes_out"] == len(out)


def test_more_segments_than_one_call_takes(wire: Wire) -> None:
    number, peer = wire.connect()
    parts = [bytes([65 + index % 26]) * (index % 5) for index in range(1000)]
    wire.loop.submit(number, 1, 1, [Buffer(part) if index % 2 else part for index, part in enumerate(parts)], False)
    assert receive(peer, 4 + sum(map(len, parts))) == framed(*parts)
    assert wire.events(1) == [(SENT, number, 1, None)]


def test_a_busy_connection_does_not_hold_another_back(wire: Wire) -> None:
    busy, busy_peer = wire.connect()
    calm, calm_peer = wire.connect()
    for token in range(64):
        wire.loop.submit(busy, token, token, [b"fetch"], True)
    receive(busy_peer, 64 * 9)
    body = bytes(4 << 20)

    def send() -> None:
        for token in range(64):
            busy_peer.sendall(response_frame(token, body))

    sender = threading.Thread(target=send)
    sender.start()
    while not (first := wire.completions()):
        pass
    wire.loop.submit(calm, 99, 99, [b"ping"], True)
    receive(calm_peer, 8)
    calm_peer.sendall(response_frame(99))
    order = [(connection, token) for _, connection, token, _ in first]
    while (busy, 63) not in order:
        order += [(connection, token) for _, connection, token, _ in wire.completions()]
    ended(sender)
    assert (calm, 99) in order
    assert [token for connection, token in order if connection == busy] == list(range(64))


def test_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    wire = Wire(socket.AF_INET6)
    try:
        number, peer = wire.connect()
        wire.loop.submit(number, 1, 1, [b"six"], True)
        assert receive(peer, 7) == framed(b"six")
    finally:
        wire.close()


def descriptor_of(address: object) -> int:
    """The descriptor of this process's socket with this local address."""
    for name in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone again
            if stat.S_ISSOCK(os.fstat(name).st_mode):
                with socket.socket(fileno=os.dup(name)) as probe:
                    if probe.getsockname() == address:
                        return name
    raise AssertionError(f"no socket at {address}")


def test_socket_options_are_set(wire: Wire) -> None:
    _, peer = wire.connect(send_buffer=50_000, receive_buffer=60_000)
    mine = descriptor_of(peer.getpeername())
    assert not os.get_inheritable(mine)
    with socket.socket(fileno=os.dup(mine)) as probe:
        assert probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert probe.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        assert probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 10
        assert probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 6
        assert probe.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 100_000
        assert probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 120_000
        assert fcntl.fcntl(mine, fcntl.F_GETFL) & os.O_NONBLOCK


# ---- ends


def test_no_server_listens(wire: Wire) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = closed.getsockname()
        number = wire.loop.connect(address, socket.AF_INET, max_frame=LIMIT)
        with contextlib.suppress(BrokenPipeError):  # it may be known already
            wire.loop.submit(number, 1, 1, [Buffer(b"never sent")], True)
        assert wire.events(1) == [(CLOSED, number, 0, (errno.ECONNREFUSED, "connect failed: Connection refused"))]


def test_no_route(wire: Wire) -> None:
    number = wire.loop.connect(("255.255.255.255", 9), socket.AF_INET, max_frame=LIMIT)
    ((kind, connection, _, (code, reason)),) = wire.events(1)
    assert (kind, connection) == (CLOSED, number)
    assert code in {errno.ENETUNREACH, errno.EACCES, errno.EHOSTUNREACH, errno.EPERM}
    assert reason.startswith("connect failed: ")


@pytest.mark.parametrize(
    ("address", "family", "message"),
    [
        (("localhost", 9092), socket.AF_INET, "not a numeric address of that family"),
        (("::1", 9092), socket.AF_INET, "not a numeric address of that family"),
        (("127.0.0.1", 9092), socket.AF_INET6, "not a numeric address of that family"),
        (("path", 1), socket.AF_UNIX, "neither AF_INET nor AF_INET6"),
    ],
)
def test_an_address_that_is_not_numeric_is_refused(
    wire: Wire, address: tuple[str, int], family: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        wire.loop.connect(address, family, max_frame=LIMIT)


def test_the_peer_closes_between_frames(wire: Wire) -> None:
    number, peer = wire.connect()
    wire.loop.submit(number, 1, 1, [b"answered"], True)
    wire.loop.submit(number, 2, 2, [b"not answered"], True)
    receive(peer, 28)
    peer.sendall(response_frame(1))
    peer.close()
    assert wire.events(2) == [
        (RESPONSE, number, 1, b"\0\0\0\1"),
        (CLOSED, number, 0, (errno.EPIPE, "the peer closed the connection")),
    ]


@pytest.mark.parametrize("size", [100, 50_000])
def test_the_peer_closes_at_every_point_of_a_frame(wire: Wire, size: int) -> None:
    whole = response_frame(1, b"x" * size)
    for cut in sorted({*range(12), size // 2, size + 6, size + 7}):
        number, peer = wire.connect()
        wire.loop.submit(number, 1, 1, [b"fetch"], True)
        receive(peer, 9)
        peer.sendall(whole[:cut])
        peer.close()
        reason = "the peer closed the connection" + (" in the middle of a frame" if cut else "")
        assert wire.events(1) == [(CLOSED, number, 0, (errno.EPIPE, reason))]


def test_a_peer_that_resets_differs_from_one_that_closes(wire: Wire) -> None:
    number, peer = wire.connect()
    wire.loop.submit(number, 1, 1, [b"request"], True)
    receive(peer, 11)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    reason = f"receive failed: {os.strerror(errno.ECONNRESET)}"
    assert wire.events(1) == [(CLOSED, number, 0, (errno.ECONNRESET, reason))]


def test_the_peer_resets_at_every_point_of_a_request(wire: Wire) -> None:
    payload = Buffer(b"y" * 200_000)
    for read in (0, 1, 3, 4, 5, 1000, 100_000):
        number, peer = wire.connect(receive=16384, send_buffer=4096)
        wire.loop.submit(number, 1, 1, [b"produce", payload], True)
        receive(peer, read)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        ((kind, connection, _, (code, reason)),) = wire.events(1)
        assert (kind, connection) == (CLOSED, number)
        assert code in {errno.ECONNRESET, errno.EPIPE}, reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", -1), "bad frame: size prefix -1, but a response has at least 4 bytes"),
        (struct.pack(">i", 2), "bad frame: size prefix 2, but a response has at least 4 bytes"),
        (struct.pack(">i", 1001), "bad frame: size prefix 1001 exceeds the limit of 1000 bytes"),
        (b"HTTP/1.1 400 Bad Request", "bad frame: size prefix 1213486160 exceeds the limit of 1000 bytes"),
        (response_frame(4), "bad response: correlation id 4, but the oldest pending request has 2"),
        (
            response_frame(2) + response_frame(3) + response_frame(4),
            "bad response: correlation id 4, but no request is pending",
        ),
    ],
)
def test_bytes_that_make_no_sense_close_the_connection(wire: Wire, data: bytes, reason: str) -> None:
    number, peer = wire.connect(max_frame=1000)
    for token in (1, 2, 3):
        wire.loop.submit(number, token, token, [b"request"], True)
    receive(peer, 33)
    peer.sendall(response_frame(1) + data)
    events = wire.until_closed(number)
    assert events[0][:3] == (RESPONSE, number, 1)
    code = errno.EMSGSIZE if "exceeds" in reason else errno.EPROTO
    assert events[-1] == (CLOSED, number, 0, (code, reason))
    with contextlib.suppress(ConnectionResetError):
        assert peer.recv(1) == b""


def test_a_response_without_a_request_closes_the_connection(wire: Wire) -> None:
    number, peer = wire.connect()
    peer.sendall(response_frame(0))
    reason = "bad response: correlation id 0, but no request is pending"
    assert wire.events(1) == [(CLOSED, number, 0, (errno.EPROTO, reason))]


def test_the_frame_limit_can_be_raised(wire: Wire) -> None:
    number, peer = wire.connect(max_frame=100)
    for token in (1, 2, 3):
        wire.loop.submit(number, token, token, [b"request"], True)
    receive(peer, 33)
    wire.loop.set_max_frame(number, 1000)
    peer.sendall(response_frame(1, b"x" * 996))
    assert len(wire.events(1)[0][3]) == 1000
    peer.sendall(response_frame(2, b"x" * 997))
    reason = "bad frame: size prefix 1001 exceeds the limit of 1000 bytes"
    assert wire.events(1) == [(CLOSED, number, 0, (errno.EMSGSIZE, reason))]


def test_settings_of_a_connection_that_is_closed_already_are_no_error(wire: Wire) -> None:
    number, _ = wire.connect()
    wire.loop.close_connection(number)
    assert wire.events(1) == [(CLOSED, number, 0, (0, "closed by this side"))]
    for unknown in (number, 12345):
        wire.loop.set_max_frame(unknown, 2000)
        wire.loop.hold(unknown, True)


def test_closing_drops_queued_and_owed_requests_and_is_idempotent(wire: Wire) -> None:
    live = pool_bytes()[0]
    number, peer = wire.connect(receive=16384, send_buffer=4096)
    for token in range(5):
        wire.loop.submit(number, token, token, [b"head", Buffer(b"z" * 100_000)], token != 3)
    wire.loop.close_connection(number)
    wire.loop.close_connection(number)
    assert wire.readable(PATIENCE_S)
    assert pool_bytes()[0] == live, "released by closing, before the next drain"
    assert wire.events(1) == [(CLOSED, number, 0, (0, "closed by this side"))]
    wire.loop.close_connection(number)
    wire.loop.close_connection(12345)
    assert not wire.readable()
    assert wire.loop.drain() == []
    assert pool_bytes()[0] == live
    with contextlib.suppress(ConnectionResetError):
        while peer.recv(100_000):
            pass
    for unknown in (number, 12345):
        with pytest.raises(BrokenPipeError, match="the connection is closed"):
            wire.loop.submit(unknown, 1, 1, [b"late"], True)
    assert pool_bytes()[0] == live


def test_closing_before_the_connection_is_open(wire: Wire) -> None:
    for _ in range(50):
        number = wire.loop.connect(wire.listener.getsockname(), socket.AF_INET, max_frame=LIMIT)
        wire.loop.submit(number, 1, 1, [b"request"], True)
        wire.loop.close_connection(number)
        kinds = [kind for kind, _, _, _ in wire.until_closed(number)]
        assert kinds in ([CLOSED], [CONNECTED, CLOSED])


def test_closing_a_connection_that_never_opens(wire: Wire) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        numbers = [wire.loop.connect(full.getsockname(), socket.AF_INET, max_frame=LIMIT) for _ in range(4)]
        found = wire.completions()
        for number in numbers:
            wire.loop.close_connection(number)
        while sum(kind == CLOSED for kind, _, _, _ in found) < 4:
            found += wire.completions()
        assert sum(kind == CONNECTED for kind, _, _, _ in found) < 4, "all of them opened: the subject was missed"
        assert {payload for kind, _, _, payload in found if kind == CLOSED} == {(0, "closed by this side")}


def test_no_descriptors_left(wire: Wire) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as lowest:
        free = lowest.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        number = wire.loop.connect(wire.listener.getsockname(), socket.AF_INET, max_frame=LIMIT)
        assert wire.events(1) == [(CLOSED, number, 0, (errno.EMFILE, "socket failed: Too many open files"))]
        with pytest.raises(OSError, match="the I/O thread cannot start: Too many open files"):
            Loop()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    wire.connect()


def test_closed_descriptors_end_it_without_spinning() -> None:
    pollers = descriptors_of_kind("[eventpoll]")
    threads = native_threads()
    wire = Wire()
    number, _ = wire.connect()
    (poller,) = descriptors_of_kind("[eventpoll]") - pollers
    blank = os.open(os.devnull, os.O_RDONLY)
    os.dup2(blank, poller)
    os.close(blank)
    with contextlib.suppress(BrokenPipeError, RuntimeError):  # it may have noticed already
        wire.loop.submit(number, 1, 1, [b"wakes it up"], True)
    assert len(wire.until_closed(number)) == 1
    settles(native_threads, threads)
    with pytest.raises(RuntimeError, match="stopped"):
        wire.loop.submit(number, 1, 1, [b"late"], True)
    wire.close()


def test_a_request_that_cannot_be_is_refused(wire: Wire) -> None:
    number, _ = wire.connect()
    live = pool_bytes()[0]
    with pytest.raises(ValueError, match="1 byte to 2 GiB"):
        wire.loop.submit(number, 1, 1, [], True)
    with pytest.raises(ValueError, match="1 byte to 2 GiB"):
        wire.loop.submit(number, 1, 1, [b""], True)
    with pytest.raises(TypeError, match="bytes or a Buffer, not str"):
        wire.loop.submit(number, 1, 1, [Buffer(b"x"), "text"], True)  # type: ignore[list-item]
    with pytest.raises(OverflowError):
        wire.loop.submit(number, -1, 1, [b"x"], True)
    with pytest.raises(OverflowError):
        wire.loop.submit(number, 1, 2**31, [b"x"], True)
    assert pool_bytes()[0] == live
    assert wire.loop.drain() == []


# ---- waking


def test_posted_cookies_wake_and_merge(wire: Wire) -> None:
    assert not wire.readable()
    for cookie in (5, 2**64 - 1, 5, 0, 5):
        wire.loop.post(cookie)
    assert wire.readable()
    assert wire.loop.drain() == [(POSTED, 0, 5, None), (POSTED, 0, 2**64 - 1, None), (POSTED, 0, 0, None)]
    assert not wire.readable()
    wire.loop.post(5)
    assert wire.loop.drain() == [(POSTED, 0, 5, None)]
    assert wire.loop.drain() == []


def test_many_different_cookies(wire: Wire) -> None:
    before = wire.loop.statistics()["notifications"]
    for cookie in range(5000):
        wire.loop.post(cookie)
        wire.loop.post(cookie)
    assert wire.loop.statistics()["notifications"] == before + 1
    assert [token for _, _, token, _ in wire.loop.drain()] == list(range(5000))


def test_a_post_from_another_thread_is_never_missed(wire: Wire) -> None:
    rounds = 2000
    seen = threading.Semaphore(0)

    def post() -> None:
        for cookie in range(rounds):
            wire.loop.post(cookie)
            assert seen.acquire(timeout=PATIENCE_S)

    poster = threading.Thread(target=post)
    poster.start()
    for cookie in range(rounds):
        assert wire.completions() == [(POSTED, 0, cookie, None)]
        seen.release()
    ended(poster)


def test_threads_submit_to_all_connections_at_once(wire: Wire) -> None:
    connections = [wire.connect() for _ in range(4)]
    per_thread = 300

    def serve(peer: socket.socket) -> None:
        for _ in range(3 * per_thread):
            size, correlation_id = struct.unpack(">ii", receive(peer, 8))
            peer.sendall(response_frame(correlation_id, receive(peer, size - 4)[::-1]))

    order = [threading.Lock() for _ in connections]
    next_id = [0] * len(connections)
    sent: dict[tuple[int, int], bytes] = {}

    def submit(seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(per_thread):
            for index, (number, _) in enumerate(connections):
                body = dice.randbytes(dice.choice([1, 50, 5000]))
                with order[index]:
                    token = next_id[index]
                    next_id[index] += 1
                    sent[number, token] = body
                    wire.loop.submit(number, token, token, [struct.pack(">i", token), body], True)

    threads = [threading.Thread(target=serve, args=(peer,)) for _, peer in connections]
    threads += [threading.Thread(target=submit, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    done: dict[int, int] = dict.fromkeys((number for number, _ in connections), 0)
    while any(count < 3 * per_thread for count in done.values()):
        for kind, number, token, payload in wire.completions():
            assert kind == RESPONSE
            assert token == done[number]
            assert bytes(payload) == struct.pack(">i", token) + sent.pop((number, token))[::-1]
            done[number] += 1
    ended(*threads)
    assert not sent


# ---- life


def test_stop_closes_everything_and_completions_can_be_drained(wire: Wire) -> None:
    first, _ = wire.connect()
    second, peer = wire.connect()
    wire.loop.submit(first, 1, 1, [Buffer(b"owed")], True)
    before = native_threads()
    wire.loop.stop()
    wire.loop.stop()
    settles(lambda: len(before - native_threads()), 1)
    assert wire.readable()
    closed = wire.loop.drain()
    assert sorted(closed) == [
        (CLOSED, first, 0, (0, "the I/O thread was stopped")),
        (CLOSED, second, 0, (0, "the I/O thread was stopped")),
    ]
    assert not wire.readable()
    assert peer.recv(1) == b""
    assert wire.loop.statistics()["connections_open"] == 0
    wire.loop.close_connection(second)
    refused: list[Callable[[], object]] = [
        lambda: wire.loop.connect(("127.0.0.1", 9), socket.AF_INET, max_frame=LIMIT),
        lambda: wire.loop.submit(first, 1, 1, [b"late"], True),
        lambda: wire.loop.set_max_frame(first, 9),
        lambda: wire.loop.post(1),
    ]
    for call in refused:
        with pytest.raises(RuntimeError, match="the I/O thread was stopped"):
            call()


def test_stopping_while_threads_submit() -> None:
    gc.collect()  # leftovers of other tests
    live, descriptors = pool_bytes()[0], open_descriptors()
    for seed in range(20):
        wire = Wire()
        numbers = [wire.connect()[0] for _ in range(3)]
        started = threading.Barrier(4)

        def submit(loop: Loop, seed: int, numbers: list[int], started: threading.Barrier) -> None:
            dice = random.Random(seed)
            started.wait(PATIENCE_S)
            with contextlib.suppress(RuntimeError, BrokenPipeError):
                for token in range(100_000):
                    loop.submit(dice.choice(numbers), token, token, [Buffer(b"z" * dice.choice([1, 100_000]))], True)
                    loop.post(token % 3)

        threads = [threading.Thread(target=submit, args=(wire.loop, seed * 3 + i, numbers, started)) for i in range(3)]
        for thread in threads:
            thread.start()
        started.wait(PATIENCE_S)
        for _ in range(seed):
            wire.loop.statistics()
        wire.loop.stop()
        ended(*threads)
        closed = [number for kind, number, _, _ in wire.loop.drain() if kind == CLOSED]
        assert sorted(closed) == sorted(numbers)
        wire.close()
        del wire
    gc.collect()
    assert pool_bytes()[0] <= live
    assert open_descriptors() == descriptors


def test_a_loop_that_is_only_dropped_stops_too(wire: Wire) -> None:
    before = native_threads()
    loop = Loop()
    number = loop.connect(wire.listener.getsockname(), socket.AF_INET, max_frame=LIMIT)
    loop.submit(number, 1, 1, [Buffer(b"x" * 1000)], True)
    loop.post(1)
    with wire.listener.accept()[0] as peer:
        receive(peer, 1004)
        del loop
        gc.collect()
        assert peer.recv(1) == b""
    settles(native_threads, before)


def test_a_forked_child_cannot_use_it_and_does_not_harm_it(wire: Wire) -> None:
    number, peer = wire.connect()
    wire.loop.submit(number, 1, 1, [b"before"], True)
    receive(peer, 10)
    wire.loop.post(7)

    def child() -> None:
        loop = wire.loop
        calls: list[Callable[[], object]] = [
            loop.fileno,
            loop.drain,
            loop.statistics,
            lambda: loop.connect(("127.0.0.1", 9), socket.AF_INET, max_frame=LIMIT),
            lambda: loop.submit(number, 2, 2, [b"from the child"], True),
            lambda: loop.set_max_frame(number, 9),
            lambda: loop.close_connection(number),
            lambda: loop.post(1),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="after a fork, make a new one"):
                call()
        before = open_descriptors()
        loop.stop()
        assert open_descriptors() == before, "nothing of the parent's is closed"
        fresh = Wire()
        own, own_peer = fresh.connect()
        fresh.loop.submit(own, 1, 1, [b"own"], True)
        assert receive(own_peer, 7) == framed(b"own")
        own_peer.sendall(response_frame(1))
        assert [kind for kind, _, _, _ in fresh.events(1)] == [RESPONSE]
        fresh.close()

    in_child(child)
    assert wire.events(1) == [(POSTED, 0, 7, None)]
    peer.sendall(response_frame(1))
    assert wire.events(1) == [(RESPONSE, number, 1, b"\0\0\0\1")]
    wire.loop.submit(number, 2, 2, [b"after"], True)
    assert receive(peer, 9) == framed(b"after")


def test_a_close_arrives_although_a_forked_child_holds_the_descriptor(wire: Wire) -> None:
    number, peer = wire.connect()
    hold, release = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(release)
        os.read(hold, 1)
        os._exit(0)
    try:
        wire.loop.close_connection(number)
        assert wire.events(1) == [(CLOSED, number, 0, (0, "closed by this side"))]
        assert peer.recv(1) == b""
    finally:
        os.close(release)
        os.close(hold)
        os.waitpid(child, 0)


def test_signals_go_to_the_interpreter() -> None:
    before = native_threads()
    loop = Loop()
    (thread,) = native_threads() - before
    status = Path("/proc/self/task", thread, "status").read_text()
    blocked = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk")), 16)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGPROF):
        assert blocked >> (number - 1) & 1
    loop.stop()


def test_importing_it_brings_no_socket_ssl_or_asyncio() -> None:
    code = (
        "import sys, kafwire.runtime._io, kafwire.runtime.frames;"
        "print(*{'socket', 'ssl', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


SELF_CONNECT = """
import fcntl, select, socket, struct
from kafwire.runtime._io import Loop
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up and running
open("/proc/sys/net/ipv4/ip_local_port_range", "w").write("40000 40001")
loop = Loop()
for port in (40000, 40001):
    loop.connect(("127.0.0.1", port), socket.AF_INET, max_frame=100)
    select.select([loop.fileno()], [], [], 20)
    print(loop.drain())
loop.stop()
"""


def test_a_connection_to_itself_counts_as_refused() -> None:
    """Where only two local ports are left, connecting to a free one of them picks that port for its own end."""
    command = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c"]
    if subprocess.run([*command, ""], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets no user make a network namespace")
    done = subprocess.run([*command, SELF_CONNECT], capture_output=True, text=True, check=True)
    assert done.stdout.count(f"({errno.ECONNREFUSED}, 'connect failed: Connection refused')") == 2, done.stdout
