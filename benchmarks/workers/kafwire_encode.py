"""kafwire's encoder from Arrow columns to batches in memory, one core, no broker: `records.encode_batch`."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import kafwire
from benchmarks.payload import split_pool
from benchmarks.workers.common import Options, Pass, Stopwatch, work
from kafwire.records import decode_batches, encode_batch

ROWS = 9_000  # about 1 MB of records of 100 bytes


def encode(options: Options) -> Callable[[], Pass]:
    """Encode the payload in batches of `ROWS` rows, each with its CRC."""
    size = options.number("value_bytes")
    values = pa.array(split_pool(Path(options.text("payload")).read_bytes(), size), pa.binary())
    tables = [pa.record_batch([values.slice(at, ROWS)], ["value"]) for at in range(0, len(values), ROWS)]
    codec = options.text("codec")
    for table in tables[:2]:
        (batch,) = decode_batches(encode_batch(table, compression=codec))
        if [record.value for record in batch] != table.column("value").to_pylist():
            raise ValueError("decoding gives other values than were encoded")

    def once() -> Pass:
        clock = Stopwatch()
        records = 0
        for table in tables:
            encode_batch(table, compression=codec)
            records += table.num_rows
        return Pass(clock.seconds(), records, records * size)

    return once


if __name__ == "__main__":
    work({"encode": encode}, kafwire.__version__)
