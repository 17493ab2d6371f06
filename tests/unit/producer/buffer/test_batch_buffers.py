"""A batch's bytes are its own until the socket is done with them, whatever becomes of the batch (CVE-2026-35554).

There a producer gave the buffer of a batch that had expired to the next one while a request with it was still being
written: records of one topic arrived in another.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from kafwire.errors import KafkaError
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.runtime._io import CONNECTED, Loop
from tests.support.accumulator_store import Store, sealed

SIZE = 4 << 20
PATIENCE_S = 30.0


class Slow:
    """A store whose batches go into a connection that no peer reads from until `read`."""

    def __init__(self, compression: str) -> None:
        self.store = Store(
            1, batch_size=SIZE, max_request_size=SIZE, buffer_memory=1 << 28, compression=compression, linger_ms=60_000
        )
        self.native = Loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.number = self.native.connect(
                listener.getsockname(), socket.AF_INET, max_frame=1 << 20, send_buffer=4096
            )
            self.peer = listener.accept()[0]
        self.peer.settimeout(PATIENCE_S)
        while not any(event[0] == CONNECTED for event in self.native.drain()):
            pass

    def batch(self, letter: bytes) -> ProducerBatch:
        """A sealed batch of incompressible records that all begin with `letter`."""
        noise = [letter + bytes(((n * n + i * i * 31) >> 3) % 251 for i in range(999)) for n in range(64)]
        for number in range(SIZE // 1024 - 100):
            self.store.append(noise[number % 64] + b"%06d" % number)
        return sealed(self.store)

    def submit(self, batch: ProducerBatch) -> bytes:
        """Send it, as the sender does, behind unread bytes; returns the bytes that the peer is to receive."""
        expected = bytes(batch.payload())
        self.native.submit(self.number, 1, 1, [bytes(SIZE)], True)
        self.native.submit(self.number, 2, 2, [b"head", batch.payload()], True)
        assert self.peer.recv(4, socket.MSG_PEEK)
        return b"head" + expected

    def read(self) -> bytes:
        with self.peer.makefile("rb") as stream:
            for _ in range(2):
                (size,) = struct.unpack(">i", stream.read(4))
                frame = stream.read(size)
        return frame

    def close(self) -> None:
        self.peer.close()
        self.native.stop()


@pytest.fixture(params=["none", "snappy"])
def slow(request: pytest.FixtureRequest) -> Iterator[Slow]:
    made = Slow(request.param)
    yield made
    made.close()


def fail(slow: Slow, batch: ProducerBatch) -> None:
    del slow
    batch.fail(KafkaError("it took too long"))


def acknowledge(slow: Slow, batch: ProducerBatch) -> None:
    """Acknowledge the batch by the response to another attempt, on another connection."""
    del slow
    batch.succeed(0, -1)


def renumber(slow: Slow, batch: ProducerBatch) -> None:
    batch.producer, batch.sequence = (8, 0), 77
    slow.store.accumulator.prepare([batch])


def cut(slow: Slow, batch: ProducerBatch) -> None:
    parts = slow.store.accumulator.cut(batch, [0, batch.count // 2])
    for part in parts:
        part.producer, part.sequence = (8, 0), 3
    slow.store.accumulator.prepare(parts)


@pytest.mark.parametrize("fate", [fail, acknowledge, renumber, cut])
def test_bytes_that_a_socket_has_not_sent_stay_unchanged(
    slow: Slow, fate: Callable[[Slow, ProducerBatch], None]
) -> None:
    batch = slow.batch(b"A")
    expected = slow.submit(batch)
    fate(slow, batch)
    del batch
    later = [slow.batch(letter) for letter in (b"B", b"C", b"D")]  # in whatever memory is free now
    assert slow.read() == expected
    for other in later:
        other.fail(KafkaError("the test is over"))
