"""`FetchBuffer` in a cycle that the collector clears: its slots outlive the thread that decodes by them."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.records._arrow import Layout
from kafwire.runtime._io import Loop
from tests.support.computing import computing
from tests.support.fetch_line import batch

PARTITIONS = 2
BATCHES = 50

DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]


class Ends:
    """Objects that the collector does not track, so that each ends with its only owner; `names` has their order."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._destructors: list[Any] = []

    def witness(self, name: str) -> Any:
        """An object that adds its name when it ends."""
        destructor = DESTRUCTOR(lambda _: self.names.append(name))
        self._destructors.append(destructor)
        return new_capsule(1, None, destructor)


def decode(ends: Ends, *, has_thread: bool) -> tuple[Loop, FetchBuffer, FetchReader]:
    """A buffer and its reader, with witnesses in the reader and in each slot; a thread decodes ahead on request."""
    native = Loop()
    buffer = FetchBuffer(native.notifier(1))
    blob = b"".join(batch(base, bytes(1000)) for base in range(BATCHES))
    for number in range(PARTITIONS):
        buffer.add("t", number, Layout("t", number))
        where = ends.witness(f"slot {number}")
        buffer.push(Buffer(blob), 0, len(blob), number, 0, 1 << 40, [], where=where)
    reader = FetchReader(
        buffer,
        Layout("t", 0),
        chunk_bytes=1,
        max_decompressed=1 << 20,
        verify_crc=True,
        deserializer=ends.witness("reader"),
    )
    if has_thread:
        with computing():
            while not reader.ahead:
                if reader.read(0) is None:
                    buffer.push(Buffer(blob), 0, len(blob), 0, 0, 1 << 40, [], buffer.reset(0, 0))
    return native, buffer, reader


def fail_buffer(buffer: FetchBuffer, ring: list[Any]) -> None:
    """Set an error that holds the ring, like a traceback's frames."""
    buffer.error = KafkaError("the read failed", ring)


def fail_slot(buffer: FetchBuffer, ring: list[Any]) -> None:
    buffer.fail_place(1, 0, KafkaError("the partition failed", ring))


@pytest.mark.parametrize("has_thread", [False, True])
@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("fail", [fail_buffer, fail_slot])
def test_slots_end_after_the_reader_that_decodes_by_them(
    fail: Callable[[FetchBuffer, list[Any]], None], is_older: bool, has_thread: bool
) -> None:
    """The collector clears objects in the order of their age, so the list of the cycle is older or younger."""
    gc.collect()
    ends = Ends()
    older: list[Any] = []
    native, buffer, reader = decode(ends, has_thread=has_thread)
    ring = older if is_older else []
    ring += [ring, reader]
    fail(buffer, ring)
    del buffer, reader, ring, older
    assert ends.names == []
    gc.collect()
    native.stop()
    assert ends.names == ["reader", "slot 0", "slot 1"]
