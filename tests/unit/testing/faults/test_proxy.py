"""The proxy's sockets: what a client and a server see of each fault, of each other's end, and of the proxy's own."""

import contextlib
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafwire.testing.faults import (
    CONNECT,
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Fault,
    FaultProxy,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Rule,
    Throttle,
)
from kafwire.testing.faults.reactor import Reactor
from tests.support import seeds
from tests.support.broker.frame_server import FrameServer, Peer
from tests.support.deadlines import ended, until
from tests.support.fault_stage import request, response

ONE, TWO, THREE = (request("Metadata", number) for number in (1, 2, 3))
FIRST, SECOND, THIRD = (response(number) for number in (1, 2, 3))
SIZE = len(FIRST)
SHORT = 0.2  # long enough to differ from nothing


@pytest.fixture
def server() -> Iterator[FrameServer]:
    with FrameServer() as running:
        yield running


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def fill(peer: Peer) -> int:
    """Send until nothing has been taken for a while; how much was taken."""
    frame = request("Produce", 1, bytes(100_000))
    peer.socket.setblocking(False)
    taken = 0
    while select.select([], [peer.socket], [], 2 * SHORT)[1]:
        with contextlib.suppress(BlockingIOError):
            taken += peer.socket.send(frame[taken % len(frame) :])
    peer.socket.settimeout(10)
    return taken


@pytest.fixture
def proxy(server: FrameServer) -> Iterator[FaultProxy]:
    with FaultProxy({1: server.address}) as running:
        print("seed", running.seed)
        yield running


@pytest.fixture
def peer(proxy: FaultProxy) -> Iterator[Peer]:
    with Peer(proxy.addresses[1]) as connected:
        yield connected


def played(proxy: FaultProxy) -> list[tuple[str, int, Fault]]:
    return [(event.api, event.correlation_id, event.fault) for event in proxy.events]


# -- without faults


def test_bytes_pass_unchanged_on_many_connections(server: FrameServer) -> None:
    seed = seeds.of_test()
    big = random.Random(seed).randbytes(3_000_000)
    with (
        FrameServer(response_to=lambda number: response(number, big)) as large,
        FaultProxy({1: large.address}) as proxy,
    ):

        def talk(first: int) -> None:
            with Peer(proxy.bootstrap) as peer:
                numbers = range(first, first + 4)
                sender = threading.Thread(
                    target=peer.send, args=(b"".join(request("Fetch", number, big) for number in numbers),)
                )
                sender.start()
                whole = b"".join(response(number, big) for number in numbers)
                assert peer.receive(len(whole)) == whole
                ended(sender)
                done.append(first)

        done: list[int] = []
        threads = [threading.Thread(target=talk, args=(first,)) for first in (10, 20, 30)]
        for thread in threads:
            thread.start()
        ended(*threads)
        assert sorted(done) == [10, 20, 30]
        assert not proxy.events
        assert proxy.requests == {(1, "me", "Fetch"): 12, (1, None, CONNECT): 3}


def test_bytes_that_are_no_frame_pass() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with FaultProxy({1: address}, [Rule(Reset())]) as proxy, Peer(proxy.bootstrap) as peer:
            peer.send(b"\x16\x03\x01 hello")
            there, _ = listener.accept()
            with there:
                there.settimeout(10)
                assert there.recv(100) == b"\x16\x03\x01 hello"
                there.sendall(b"\xff\xff\xff\xff back")
                assert peer.receive(9) == b"\xff\xff\xff\xff back"
                peer.socket.shutdown(socket.SHUT_WR)
                assert there.recv(100) == b""
                there.sendall(b"last")
            assert peer.receive(100) == b"last"


def test_a_slow_reader_gets_everything() -> None:
    big = bytes(20_000_000)
    with (
        FrameServer(response_to=lambda number: response(number, big)) as large,
        FaultProxy({1: large.address}) as proxy,
        Peer(proxy.bootstrap) as slow,
        Peer(proxy.bootstrap) as other,
    ):
        slow.send(ONE + TWO)
        for number in range(10):  # it holds no other
            other.send(request("Metadata", number + 10))
            assert other.receive(len(big) + 8)[4:8] == (number + 10).to_bytes(4, "big")
        assert len(slow.receive(2 * len(big) + 16)) == 2 * len(big) + 16


# -- each fault


def test_delay(proxy: FaultProxy, peer: Peer, server: FrameServer) -> None:
    proxy.add(Rule(Delay(SHORT), count=1), Rule(Delay(SHORT, "request"), count=1))
    for frame, expected in ((ONE, FIRST), (TWO, SECOND)):
        begin = time.monotonic()
        peer.send(frame)
        assert peer.receive(SIZE) == expected
        assert time.monotonic() - begin >= SHORT
    assert played(proxy) == [("Metadata", 1, Delay(SHORT)), ("Metadata", 2, Delay(SHORT, "request"))]
    server.wait_for(1, 2)


def test_hold(proxy: FaultProxy, peer: Peer, server: FrameServer) -> None:
    proxy.add(Rule(Hold(SHORT)))
    begin = time.monotonic()
    peer.send(ONE)
    with pytest.raises(ConnectionResetError):
        peer.receive(1)
    assert server.received == []
    server.wait_for(1, -1)
    assert time.monotonic() - begin >= SHORT


def test_drop_response(proxy: FaultProxy, peer: Peer, server: FrameServer) -> None:
    proxy.add(Rule(DropResponse()))
    peer.send(ONE)
    with pytest.raises(ConnectionResetError):
        peer.receive(1)
    server.wait_for(1, -1)
    (event,) = proxy.events
    assert (event.broker, event.connection, event.client_id, event.api, event.correlation_id, event.kind) == (
        *(1, 1, "me", "Metadata", 1),
        "DropResponse",
    )
    assert abs(event.at - time.monotonic()) < 10


def test_drop_response_and_go_on(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(DropResponse(reset=False), count=1))
    peer.send(ONE + TWO)
    assert peer.receive(SIZE) == SECOND


def test_reset(proxy: FaultProxy, peer: Peer, server: FrameServer) -> None:
    proxy.add(Rule(Reset(), skip=1))
    peer.send(ONE)
    assert peer.receive(SIZE) == FIRST
    peer.send(TWO)
    with pytest.raises(ConnectionResetError):
        peer.receive(1)
    server.wait_for(1, -1)


def test_reset_of_new_connections(proxy: FaultProxy, server: FrameServer) -> None:
    proxy.add(Rule(Reset(), api=CONNECT, count=1))
    with pytest.raises(ConnectionResetError), Peer(proxy.bootstrap) as peer:
        peer.receive(1)
    with Peer(proxy.bootstrap) as peer:
        peer.send(ONE)
        assert peer.receive(SIZE) == FIRST


@pytest.mark.parametrize("reset", [False, True])
def test_cut_of_a_response(proxy: FaultProxy, peer: Peer, server: FrameServer, reset: bool) -> None:
    proxy.add(Rule(Cut(0.5, reset=reset)))
    peer.send(ONE + TWO)
    if reset:
        with pytest.raises(ConnectionResetError):
            peer.receive(SIZE)
    else:
        assert peer.receive(SIZE) == FIRST[: SIZE // 2]
    server.wait_for(1, 2, -1)


def test_a_cut_is_an_orderly_end_although_not_all_was_read() -> None:
    responded = threading.Event()

    def late_response(number: int) -> bytes:
        assert responded.wait(20)
        return response(number)

    with (
        FrameServer(response_to=late_response) as server,
        FaultProxy({1: server.address}) as proxy,
        Peer(proxy.bootstrap) as peer,
    ):
        proxy.add(Rule(Cut(0.5), api="Metadata"), Rule(BlackHole("request"), api="Produce"))
        peer.send(ONE)
        fill(peer)
        responded.set()
        assert peer.receive(SIZE) == FIRST[: SIZE // 2]


def test_cut_of_a_request(proxy: FaultProxy, peer: Peer, server: FrameServer) -> None:
    proxy.add(Rule(Cut(0.5, "request")))
    peer.send(ONE)
    assert peer.receive(1) == b""
    server.wait_for(-1)


def test_corrupt(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Corrupt(where="anywhere", spot=0.0, mask=1)))
    peer.send(ONE)
    assert peer.receive(SIZE) == FIRST[:4] + b"\1" + FIRST[5:]


def test_duplicate(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Duplicate(), count=1))
    peer.send(ONE + TWO)
    assert peer.receive(3 * SIZE) == FIRST + FIRST + SECOND


def test_reorder(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Reorder(10.0), count=1))
    peer.send(ONE)
    assert peer.is_silent(SHORT)
    peer.send(TWO + THREE)
    assert peer.receive(3 * SIZE) == SECOND + FIRST + THIRD


def test_reorder_alone(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Reorder(SHORT)))
    peer.send(ONE)
    assert peer.receive(SIZE) == FIRST
    assert played(proxy) == [("Metadata", 1, Delay(SHORT))]


@pytest.mark.parametrize("way", ["request", "response", "both"])
def test_black_hole(proxy: FaultProxy, peer: Peer, server: FrameServer, way: str) -> None:
    proxy.add(Rule(BlackHole(way), count=1))  # type: ignore[arg-type]
    peer.send(ONE)
    if way == "response":
        server.wait_for(1)
    assert peer.is_silent(SHORT)
    assert server.received == ([1] if way == "response" else [])
    with Peer(proxy.bootstrap) as other:
        other.send(TWO)
        assert other.receive(SIZE) == SECOND
    proxy.heal()
    assert peer.receive(SIZE) == FIRST


def test_black_hole_of_the_broker(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(BlackHole(seconds=2 * SHORT, scope="broker"), count=1))
    begin = time.monotonic()
    peer.send(ONE)
    proxy.wait_for(lambda events: events)
    with Peer(proxy.bootstrap) as other:
        other.send(TWO)
        assert other.is_silent(SHORT / 2)
        assert other.receive(SIZE) == SECOND
        assert peer.receive(SIZE) == FIRST
    assert time.monotonic() - begin >= 2 * SHORT
    with Peer(proxy.bootstrap) as other:
        other.send(THREE)
        assert other.receive(SIZE) == THIRD


def test_black_holes_replace_one_another(proxy: FaultProxy, peer: Peer) -> None:
    proxy.play(BlackHole(scope="broker"))
    peer.send(ONE)
    proxy.play(BlackHole(seconds=SHORT, scope="broker"))
    assert peer.receive(SIZE) == FIRST
    with Peer(proxy.bootstrap) as other:
        other.send(TWO)
        assert other.receive(SIZE) == SECOND
    proxy.play(BlackHole(scope="broker"))
    proxy.heal()
    with Peer(proxy.bootstrap) as other:
        other.send(TWO)
        assert other.receive(SIZE) == SECOND


def test_throttle(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Throttle(100_000.0, "response"), count=1))
    begin = time.monotonic()
    peer.send(b"".join(request("Metadata", number) for number in range(3000)))
    assert peer.receive(3000 * SIZE) == b"".join(response(number) for number in range(3000))
    expected = 3000 * SIZE / 100_000
    assert expected - 0.05 <= time.monotonic() - begin < 40 * expected


def test_refuse(proxy: FaultProxy, peer: Peer, server: FrameServer) -> None:
    proxy.add(Rule(Refuse(), count=1))
    peer.send(ONE)
    assert peer.receive(SIZE) == FIRST
    port = int(proxy.bootstrap.split(":")[1])
    with pytest.raises(ConnectionRefusedError):
        Peer(proxy.bootstrap)
    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind(("127.0.0.1", port))
    peer.send(TWO)
    assert peer.receive(SIZE) == SECOND
    proxy.heal()
    with Peer(proxy.bootstrap) as other:
        other.send(THREE)
        assert other.receive(SIZE) == THIRD


def test_refuse_for_a_while(proxy: FaultProxy) -> None:
    begin = time.monotonic()
    proxy.play(Refuse(SHORT))
    while True:
        try:
            Peer(proxy.bootstrap).socket.close()
        except ConnectionRefusedError:
            assert time.monotonic() - begin < 10
        else:
            break
    assert time.monotonic() - begin >= SHORT
    assert [(event.broker, event.connection, event.fault) for event in proxy.events] == [(1, 0, Refuse(SHORT))]


# -- at once


def test_faults_are_played_at_once_where_they_are_aimed(server: FrameServer) -> None:
    with (
        FaultProxy({1: server.address, 2: server.address}) as proxy,
        Peer(proxy.addresses[1]) as first,
        Peer(proxy.addresses[2]) as second,
    ):
        for peer in (first, second):
            peer.send(ONE)
            assert peer.receive(SIZE) == FIRST
        proxy.play(Reset(), broker=2)
        with pytest.raises(ConnectionResetError):
            second.receive(1)
        first.send(TWO)
        assert first.receive(SIZE) == SECOND
        proxy.play(BlackHole())  # the other has no connection left, although its server may not know yet
        first.send(THREE)
        assert first.is_silent(SHORT)
        proxy.heal()
        assert first.receive(SIZE) == THIRD
        assert [(event.broker, event.kind) for event in proxy.events] == [(2, "Reset"), (1, "BlackHole")]
        with pytest.raises(TypeError, match="aim it with a Rule"):
            proxy.play(Delay(1.0))  # type: ignore[arg-type]
        with pytest.raises(KeyError):
            proxy.play(Reset(), broker=3)


def test_restart_forgets(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Duplicate(), api="Metadata"))
    peer.send(ONE)
    assert peer.receive(2 * SIZE) == FIRST * 2
    seed = proxy.seed
    proxy.restart(Rule(DropResponse(False), api="Fetch"))
    assert proxy.seed != seed
    assert (proxy.events, proxy.requests) == ([], {})
    peer.send(request("Fetch", 9) + TWO)
    assert peer.receive(SIZE) == SECOND
    proxy.restart(seed=4)
    assert proxy.seed == 4


def test_restart_releases_waiting_bytes(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Reorder(60.0), count=1))
    peer.send(ONE)
    until(lambda: proxy.requests[1, "me", "Metadata"] == 1)
    proxy.restart()
    assert peer.receive(SIZE) == FIRST
    assert not proxy.events


def test_times_of_rules_begin_with_the_proxy(server: FrameServer) -> None:
    rules = [Rule(Reset(), until=0.0), Rule(Reset(), after=60.0), Rule(Duplicate(), until=60.0)]
    with FaultProxy({1: server.address}, rules) as proxy, Peer(proxy.bootstrap) as peer:
        peer.send(ONE)
        assert peer.receive(2 * SIZE) == FIRST + FIRST


def test_a_wait_for_an_event_is_woken(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Reorder(SHORT)))
    begin = time.monotonic()
    peer.send(ONE)
    assert len(proxy.wait_for(lambda events: events, 20)) == 1
    assert time.monotonic() - begin < 10


def test_the_seed_repeats_the_same_faults(server: FrameServer) -> None:
    def fates(seed: int) -> list[Fault]:
        rules = [Rule(Delay((0.0, 0.001)), probability=0.4), Rule(Corrupt(where="anywhere"), probability=0.4)]
        with FaultProxy({1: server.address}, rules, seed=seed) as proxy, Peer(proxy.bootstrap) as peer:
            for number in range(30):
                peer.send(request("Metadata", number))
                peer.receive(SIZE)
            return [event.fault for event in proxy.events]

    assert len(fates(1)) > 10
    assert fates(1) == fates(1) != fates(2)


def test_the_error_of_a_wait_in_vain_lists_the_events(proxy: FaultProxy, peer: Peer) -> None:
    proxy.add(Rule(Duplicate()))
    peer.send(ONE)
    peer.receive(2 * SIZE)
    with pytest.raises(TimeoutError, match=r"not within 0.1 s; .*Duplicate"):
        proxy.wait_for(lambda events: len(events) > 1, 0.1)


# -- ends


def test_a_server_that_dies_and_comes_back() -> None:
    first = FrameServer()
    with FaultProxy({1: first.address}) as proxy, Peer(proxy.bootstrap) as peer:
        peer.send(ONE)
        assert peer.receive(SIZE) == FIRST
        first.close()
        with pytest.raises(ConnectionResetError):
            peer.receive(1)
        with pytest.raises(ConnectionResetError), Peer(proxy.bootstrap) as other:  # no server is there
            other.receive(1)
        proxy.shut(1)
        with pytest.raises(ConnectionRefusedError):
            Peer(proxy.bootstrap)
        with FrameServer(first.port):
            proxy.serve(1)
            with Peer(proxy.bootstrap) as other:
                other.send(TWO)
                assert other.receive(SIZE) == SECOND


def test_a_server_sees_its_client_s_end(proxy: FaultProxy, server: FrameServer) -> None:
    with Peer(proxy.bootstrap) as peer:
        peer.send(ONE)
        peer.receive(SIZE)
    server.wait_for(1, -1)
    with Peer(proxy.bootstrap) as peer:
        peer.send(TWO)
        peer.receive(SIZE)
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.wait_for(1, -1, 2, -1)


def test_nothing_is_left_open(server: FrameServer) -> None:
    before, threads = descriptors(), threading.active_count()
    proxy = FaultProxy({1: server.address, 2: server.address}, [Rule(BlackHole(), broker=2)])
    proxy.start()
    assert proxy.running
    with Peer(proxy.addresses[1]) as one, Peer(proxy.addresses[2]) as two:
        one.send(ONE)
        one.receive(SIZE)
        two.send(ONE)
        proxy.wait_for(lambda events: events)
        proxy.close()
        for peer in (one, two):
            with pytest.raises(ConnectionResetError):
                peer.receive(1)
    proxy.close()
    assert not proxy.running
    with pytest.raises(ConnectionRefusedError):
        Peer(proxy.addresses[1])
    assert len(proxy.events) == 1
    until(lambda: threading.active_count() <= threads + 2)  # the server's two
    server.close()
    assert descriptors() == before - 1  # the server's own listener


def test_closed_connections_are_forgotten(proxy: FaultProxy, server: FrameServer) -> None:
    before = descriptors()
    for number in range(1, 51):
        with Peer(proxy.bootstrap) as peer:
            peer.send(request("Metadata", number))
            peer.receive(SIZE)
    until(lambda: descriptors() == before)


def test_a_taken_port_is_an_error(server: FrameServer) -> None:
    before = descriptors()
    with pytest.raises(OSError, match="in use"):
        FaultProxy({1: server.address, 2: server.address}, ports={2: server.port}).start()
    assert descriptors() == before


def test_waiting_costs_nothing_and_memory_is_bounded(
    proxy: FaultProxy, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A black hole that is filled, an unread response, a slow line, a late one: no thread looks at them meanwhile."""
    proxy.add(
        Rule(BlackHole(), api="Produce"),
        Rule(Delay(60.0), client_id="late"),
        Rule(Throttle(1.0), client_id="slow"),
    )
    others = [Peer(proxy.bootstrap) for _ in range(2)]
    for other, name in zip(others, ("late", "slow"), strict=True):
        other.send(request("Metadata", 1, client_id=name))
    assert fill(peer) < 32 << 20
    others[0].socket.shutdown(socket.SHUT_WR)
    turns = 0

    def now(_: Reactor) -> float:
        nonlocal turns
        turns += 1
        return time.monotonic()

    monkeypatch.setattr(Reactor, "now", now)
    threading.Event().wait(0.5)
    assert turns < 20
    for other in others:
        other.socket.close()


def test_an_unread_response_stays_with_the_server() -> None:
    with (
        FrameServer(response_to=lambda number: response(number, bytes(1_000_000))) as server,
        FaultProxy({1: server.address}) as proxy,
        Peer(proxy.bootstrap) as peer,
    ):
        peer.send(b"".join(request("Metadata", number) for number in range(100)))
        seen = -1
        while seen < len(server.received):
            seen = len(server.received)
            threading.Event().wait(2 * SHORT)
        assert seen < 40


def test_a_socket_that_another_has_closed_is_not_called() -> None:
    """Two sockets are ready at once; the first callback closes the other socket."""
    called: list[socket.socket] = []
    (one, from_one), (two, from_two) = socket.socketpair(), socket.socketpair()
    reactor = Reactor("test", lambda: None)

    def close_other(mine: socket.socket, other: socket.socket) -> None:
        called.append(mine)
        for each in (mine, other):
            reactor.watch(each, 0, lambda _events: None)
        other.close()

    def watch() -> None:
        reactor.watch(one, 1, lambda _events: close_other(one, two))
        reactor.watch(two, 1, lambda _events: close_other(two, one))

    from_one.send(b"x")
    from_two.send(b"x")
    reactor.start()
    reactor.call(watch)
    reactor.call(lambda: None)
    reactor.end()
    assert len(called) == 1
    with pytest.raises(RuntimeError, match="has ended"):
        reactor.call(lambda: None)
    for each in (one, two, from_one, from_two):
        each.close()


def test_an_error_names_the_seed(server: FrameServer) -> None:
    with pytest.raises(KeyError) as caught, FaultProxy({1: server.address}, seed=12345):
        raise KeyError
    assert caught.value.__notes__ == ["Faults were played from seed 12345"]
