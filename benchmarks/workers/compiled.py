"""kafwire's compiled code in memory, without a broker: repeats of a row, as often as the harness asks.

Each line of standard input is a row's name and for how many seconds to repeat it; the line that comes back is the least
processor time of one repeat, in seconds. A row is prepared when it is asked for first, which is not timed.
"""

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from benchmarks import avro_flights, responses
from benchmarks.payload import make_pool, split_pool
from kafwire._codec import crc32c_of
from kafwire.avro import AvroDecoder
from kafwire.consumer.fetch._fetch import parse_response
from kafwire.memory._buffer import Buffer
from kafwire.protocol import FetchResponse, MetadataResponse
from kafwire.records import decode_batches, encode_batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 5_000
FLIGHTS = 2_000
TIMES = 20
Once = Callable[[], object]


@functools.cache
def _values() -> list[bytes]:
    return split_pool(make_pool(100)[: 100 * RECORDS], 100)


def _crc32c() -> Once:
    data = b"".join(_values())
    return lambda: [crc32c_of(data) for _ in range(TIMES)]


def _encode(codec: str) -> Once:
    values = _values()
    return lambda: encode_batch(values, compression=codec)


def _encode_table(codec: str) -> Once:
    table = pa.record_batch([pa.array(_values(), pa.binary())], ["value"])
    return lambda: encode_batch(table, compression=codec)


def _decode(codec: str) -> Once:
    encoded = encode_batch(_values(), compression=codec)
    return lambda: [batch.to_arrow() for batch in decode_batches(encoded)]


def _records(codec: str) -> Once:
    encoded = encode_batch(_values(), compression=codec)
    return lambda: [(record.key, record.value) for batch in decode_batches(encoded) for record in batch]


def _message(kind: Any, data: bytes, version: int) -> Once:
    return lambda: kind.decode(data, version).encode(version)


def _fetched() -> Once:
    frame = Buffer(b"\0\0\0\1\0" + responses.fetch())
    return lambda: [parse_response(frame, responses.FETCH_VERSION) for _ in range(TIMES)]


def _avro() -> Once:
    column = pa.array(avro_flights.values(FLIGHTS), pa.binary())
    decoder = AvroDecoder(avro_flights.schema(), schema_of={avro_flights.SCHEMA_ID: avro_flights.schema()}.__getitem__)
    return lambda: decoder.decode(column).to_arrow()


ROWS: dict[str, Callable[[], Once]] = {
    "crc32c": _crc32c,
    **{f"encode-{codec}": functools.partial(_encode, codec) for codec in CODECS},
    "encode-table-none": lambda: _encode_table("none"),
    **{f"decode-{codec}": functools.partial(_decode, codec) for codec in CODECS},
    **{f"records-{codec}": functools.partial(_records, codec) for codec in CODECS},
    "message-metadata": lambda: _message(MetadataResponse, responses.metadata(), responses.METADATA_VERSION),
    "message-fetch": lambda: _message(FetchResponse, responses.fetch(), responses.FETCH_VERSION),
    "fetch-response": _fetched,
    "avro-flights": _avro,
}


def least(once: Once, seconds: float) -> float:
    """The least processor time of one repeat."""
    found = float("inf")
    end = time.thread_time() + seconds
    while True:
        begun = time.thread_time()
        once()
        ended = time.thread_time()
        found = min(found, ended - begun)
        if ended >= end:
            return found


def main() -> None:
    """Serve the harness until standard input ends."""
    prepared: dict[str, Once] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        if name not in prepared:
            prepared[name] = ROWS[name]()
        print(least(prepared[name], float(seconds)), flush=True)


if __name__ == "__main__":
    main()
