"""Run in a process of its own: `python -m tests.support.attack_memory ROAD NAME...` prints a JSON line for each attack.

A line has the name, how many bytes the process grew by at most while the bytes were decoded, and what came of it.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pyarrow as pa

from kafwire.compression import info
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer, trim_pool
from kafwire.records import decode_batches, iter_batches
from kafwire.records._arrow import Layout
from kafwire.records._records import Records
from kafwire.runtime._interfaces import Notifier
from tests.support.hostile_batches import ATTACKS


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    raise LookupError(field)


TOUCHED = 40_000
touched = 0  # in this attack


def touch(batch: Records) -> int:
    """Use a batch in every way; of very many, those that come first."""
    global touched
    touched += 1
    if touched > TOUCHED:
        return len(batch)
    table = batch.to_arrow()
    assert table.num_rows == len(batch)
    del table
    rows = 0
    try:
        for number, record in enumerate(batch):
            rows += len(record.headers) >= 0
            if number == 10_000:
                break
    except ProtocolError as error:
        if "as Python objects" not in str(error):
            raise
    return len(batch)


def by_list(data: bytes) -> int:
    return sum([touch(batch) for batch in decode_batches(data)])


def one_by_one(data: bytes) -> int:
    return sum(map(touch, iter_batches(data)))  # unlike a loop variable, it keeps no batch while the next is made


def by_reader(data: bytes) -> int:
    """Read a Fetch response into an Arrow stream, as a scan does."""
    queue = FetchBuffer(Notifier())
    queue.add("t" * 60, 7, Layout("t" * 60, 7))
    reader = FetchReader(
        queue,
        Layout(),
        chunk_bytes=4 << 20,
        max_decompressed=256 << 20,
        verify_crc=True,
        on_close=None,
    )
    queue.push(Buffer(data), 0, len(data), 0, 0, 1 << 62, [])
    queue.end()
    return sum(map(touch, reader))


ROADS = {"list": by_list, "one by one": one_by_one, "reader": by_reader}


def main(road: str, names: list[str]) -> None:
    global touched
    info()  # the libraries are loaded
    pa.table({"a": [b""]})
    by_list(ATTACKS[0].make()[:40])
    for attack in ATTACKS:
        if attack.name not in names:
            continue
        touched = 0
        data = attack.make()
        gc.collect()
        trim_pool()
        Path("/proc/self/clear_refs").write_text("5")
        before = memory("VmRSS")
        try:
            outcome: str | int = ROADS[road](data)
        except ProtocolError as error:
            outcome = str(error)
        print(json.dumps([attack.name, memory("VmHWM") - before, outcome]), flush=True)
        del data


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
