"""A partition that is reset while a reader decodes its rows: its assignment ended, or its user sought in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.delivery.arrow_stream import ArrowStream
from kafwire.memory._buffer import Buffer
from tests.support.deadlines import ended
from tests.support.fetch_line import Line, batch

SIZE = 12 << 20  # of a value that takes a while to decompress
ATTEMPTS = 200
LEAST_S = 0.003


def batches(reader: FetchReader) -> list[Any]:
    """The batches that a read delivers."""
    found = reader.read(0)
    return [] if found is None else [found.next_offset]


def arrays(reader: FetchReader) -> list[Any]:
    """The same of an Arrow stream."""
    try:
        return [ArrowStream(reader).to_reader().read_next_batch().num_rows]
    except StopIteration:
        return []


def reset_while_decoding(read: Callable[[FetchReader], list[Any]], position: int) -> tuple[Line, list[Any]]:
    """Reset a partition while a thread decodes a batch of it; what the thread handed out, and the queue."""
    blob = batch(0, bytes(SIZE), compression="gzip")
    for _ in range(ATTEMPTS):
        line = Line(1, max_decompressed=2 * SIZE, verify_crc=False, owns=False, silence_ms=0)
        line.queue.push(Buffer(blob), 0, len(blob), 0, 0, 1, [])
        line.queue.seal()
        handed_out: list[Any] = []
        thread = threading.Thread(target=lambda line=line, got=handed_out: got.extend(read(line.reader)))
        thread.start()
        while not line.queue.in_hand(0):  # lent: it is being decoded
            pass
        line.queue.reset(0, position)
        is_in_time, began = bool(line.queue.in_hand(0)), time.perf_counter()
        ended(thread)
        # A thread that handed the rows out just before the reset ends at once. Decoding takes tens of milliseconds.
        if is_in_time and time.perf_counter() - began > LEAST_S:
            return line, handed_out
        line.queue.close()
        line.native.stop()
    raise AssertionError(f"the batch was decoded before the reset, {ATTEMPTS} times")


@pytest.mark.parametrize("read", [batches, arrays])
@pytest.mark.parametrize("position", [-1, 0])
def test_rows_of_a_partition_that_was_reset_meanwhile_are_not_handed_out(
    read: Callable[[FetchReader], list[Any]], position: int
) -> None:
    line, handed_out = reset_while_decoding(read, position)
    assert handed_out == []
    assert line.queue.position(0) == position
    assert not line.queue.in_hand(0)
    assert line.queue.queued_bytes() == 0
    line.queue.close()
    line.native.stop()


def test_a_read_goes_on_with_another_partition_after_such_rows() -> None:
    blob, other = batch(0, bytes(SIZE), compression="gzip"), batch(7, b"v")
    for _ in range(ATTEMPTS):
        line = Line(2, max_decompressed=2 * SIZE, verify_crc=False, owns=False)
        for number, data, start in ((0, blob, 0), (1, other, 7)):
            line.queue.push(Buffer(data), 0, len(data), number, start, 1 << 40, [])
            line.queue.seal()
        found: list[Any] = []
        thread = threading.Thread(target=lambda line=line, found=found: found.append(line.reader.read(10_000)))
        thread.start()
        while not line.queue.in_hand(0):
            pass
        line.queue.reset(0, -1)
        is_in_time = bool(line.queue.in_hand(0))
        ended(thread)
        line.queue.close()
        line.native.stop()
        if is_in_time:
            assert [(each.partition, each.next_offset) for each in found] == [(1, 8)]
            return
    raise AssertionError(f"the batch was decoded before the reset, {ATTEMPTS} times")
