"""`FetchFastPath` on a connection: the I/O thread shows it each frame, and the served reader notifies the engine."""

from __future__ import annotations

import gc
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchFastPath
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.runtime._io import CONNECTED, RESPONSE, Loop
from tests.support.deadlines import ended
from tests.support.fed_fast_path import IDS, TOKEN, Fed, Part, Wanted, batch, made


@pytest.fixture
def fed() -> Iterator[Fed]:
    it = Fed({(IDS[0].bytes, 0): Wanted(0, 0)})
    yield it
    it.close()


class Peer:
    """A connection of the I/O thread's, and its other end."""

    def __init__(self, native: Loop) -> None:
        self.native = native
        listener = socket.create_server(("127.0.0.1", 0))
        self.number = native.connect(listener.getsockname(), socket.AF_INET, max_frame=1 << 20)
        self.socket, _ = listener.accept()
        listener.close()
        self.socket.settimeout(30)
        self.seen: list[tuple[int, int]] = []
        self.until(CONNECTED)

    def until(self, kind: int, token: int = 0) -> None:
        """Wait until that has completed."""
        while not any(k == kind and t == token for k, t in self.seen):
            assert select.select([self.native.fileno()], [], [], 30)[0], "nothing came"
            self.seen += [(k, t) for k, _, t, _ in self.native.drain()]

    def ask(self, token: int) -> None:
        self.native.submit(self.number, token, token, [b"request"], True)
        assert self.socket.recv(1000).endswith(b"request")

    def respond(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))


def with_id(data: bytes, correlation_id: int) -> bytes:
    return struct.pack(">i", correlation_id) + data[4:]


@pytest.fixture
def peer(fed: Fed) -> Iterator[Peer]:
    it = Peer(fed.native)
    yield it
    it.socket.close()


def test_an_attached_fast_path_sees_the_responses_of_its_connection(fed: Fed, peer: Peer) -> None:
    data = made(Part(partition=0, records=batch(0, 2, 0)))
    fed.native.set_response_filter(peer.number, fed.fast_path)
    fed.fast_path.arm(TOKEN, 17)
    for token in (TOKEN - 1, TOKEN):
        peer.ask(token)
    peer.respond(with_id(b"a response of another kind", TOKEN - 1), with_id(data, TOKEN))
    peer.until(RESPONSE, TOKEN)
    assert list(fed.fast_path.taken(TOKEN)) == [0], "also behind one that is not for it, in the same heap"
    fed.fast_path.arm(TOKEN + 1, 17)
    fed.fast_path.detach()
    peer.ask(TOKEN + 1)
    peer.respond(with_id(data, TOKEN + 1))
    peer.until(RESPONSE, TOKEN + 1)
    assert fed.fast_path.taken(TOKEN + 1) == {}
    assert fed.queue.queued(0)[0] == 1


def test_a_fast_path_of_no_connection_is_harmless(fed: Fed) -> None:
    fed.native.set_response_filter(99, fed.fast_path)
    fed.fast_path.detach()
    fed.native.stop()
    fed.native.set_response_filter(99, fed.fast_path)


def test_the_served_reader_notifies_the_engine(fed: Fed, peer: Peer) -> None:
    """The drain reports the response when the reader has its rows, after any number of responses without one."""
    fed.native.set_response_filter(peer.number, fed.fast_path)
    got: list[Any] = []

    def read() -> None:
        batch = fed.reader.read(30_000)
        got.append(None if batch is None else [record.offset for record in batch])

    for number in range(20):
        fed.fast_path.expect(IDS[0].bytes, 0, 0, 0, number, "b")
        fed.fast_path.arm(100 + number, 17)
        peer.ask(100 + number)
        thread = threading.Thread(target=read)
        thread.start()
        peer.respond(with_id(made(Part(partition=0, records=batch(number, 1, 0))), 100 + number))
        peer.until(RESPONSE, 100 + number)
        ended(thread)
        assert got.pop() == [number]


def test_a_reader_reports_nothing_of_a_paused_partition(fed: Fed) -> None:
    """The reader would report nothing of a paused partition before it stops waiting; of others it reports."""
    fed.queue.add("t", 1, Layout("t", 1))
    fed.queue.pause(1)
    fed.fast_path.expect(IDS[0].bytes, 0, 0, 0, 0, "b")
    fed.fast_path.expect(IDS[0].bytes, 1, 1, 0, 0, "b")
    thread = threading.Thread(target=lambda: list(fed.reader))
    thread.start()
    owed = turn = 0
    while owed < 3 or turn < 10_000:
        turn += 1
        number = int(turn % 10 > 0)
        fed.fast_path.expect(IDS[0].bytes, number, number, fed.queue.reset(number, 0), 0, "b")
        fed.fast_path.arm(TOKEN, 17)
        reported = fed.fast_path.deliver(TOKEN, Buffer(made(Part(partition=number, records=batch(0, 1, 0)))))
        assert not reported or number == 0
        owed += reported
    fed.queue.close()
    ended(thread)


def test_unwanted_rows_do_not_keep_the_engine_waiting(fed: Fed, peer: Peer) -> None:
    """The reader goes on waiting after a response without a row for it: the engine is notified first, not in 100 ms."""
    reader = FetchReader(
        fed.queue,
        Layout("t", 0),
        chunk_bytes=1,
        max_decompressed=1 << 20,
        verify_crc=True,
        timestamps=(1, 2),
        owns=False,
    )
    thread = threading.Thread(target=reader.read, args=(60_000,))
    thread.start()
    fed.native.set_response_filter(peer.number, fed.fast_path)
    took = [1.0]
    number = 0
    while min(took) > 0.05 and number < 100:  # as often as a busy machine lets the test see it late
        late = encode_batch([(None, b"late", 9)], base_offset=number)
        fed.fast_path.expect(IDS[0].bytes, 0, 0, 0, number, "b")
        fed.fast_path.arm(100 + number, 17)
        peer.ask(100 + number)
        began = time.monotonic()
        peer.respond(with_id(made(Part(partition=0, records=late)), 100 + number))
        peer.until(RESPONSE, 100 + number)
        took.append(time.monotonic() - began)
        assert list(fed.fast_path.taken(100 + number)) == [0]
        number += 1
    assert thread.is_alive()
    fed.queue.end()
    ended(thread)
    assert min(took) < 0.05, took


def test_the_collector_takes_no_fast_path_apart_while_it_is_attached() -> None:
    """Among rubbish the queue is cleared first: the fast path holds on to what the I/O thread still works on."""
    fed = Fed()
    fed.queue.add("t", 0, Layout("t", 0))
    peer = Peer(fed.native)
    fast_path = FetchFastPath(fed.queue)
    fast_path.expect(IDS[0].bytes, 0, 0, 0, 0, "b")
    fed.native.set_response_filter(peer.number, fast_path)
    fast_path.arm(TOKEN, 17)
    peer.ask(TOKEN)
    ring: list[Any] = [fast_path]
    ring.append(ring)
    fed.queue.error = KafkaError("which a traceback would hold", ring)
    native = fed.native
    del fast_path, ring, fed
    gc.collect()
    peer.respond(with_id(made(Part(partition=0, records=batch(0, 1, 0))), TOKEN))
    peer.until(RESPONSE, TOKEN)
    peer.socket.close()
    native.stop()
