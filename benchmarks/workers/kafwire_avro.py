"""kafwire's Avro decoder and encoder in memory: the flights, all fields or four of them. By processor time."""

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import kafwire
from benchmarks import avro_flights
from benchmarks.workers.common import Options, Pass, work
from demo.flights import load_flights
from kafwire.avro import AvroDecoder, AvroEncoder

TIMES = 5


def flights(_options: Options) -> Callable[[], Pass]:
    """Decode every field."""
    return _repeat(avro_flights.schema())


def four(_options: Options) -> Callable[[], Pass]:
    """Decode four fields, and skip the others."""
    return _repeat(avro_flights.four_fields())


def write(_options: Options) -> Callable[[], Pass]:
    """Encode every field."""
    columns = load_flights().slice(0, avro_flights.ROWS).combine_chunks().to_batches()[0]
    encoder = AvroEncoder(avro_flights.schema(), prefix=b"\0" + avro_flights.SCHEMA_ID.to_bytes(4, "big"))
    size = sum(map(len, encoder.encode(columns).to_arrow().to_pylist()))

    def once() -> Pass:
        begun = time.process_time()
        records = sum(len(encoder.encode(columns).to_arrow()) for _ in range(TIMES))
        return Pass(time.process_time() - begun, records, TIMES * size)

    return once


def _repeat(reader: dict[str, Any]) -> Callable[[], Pass]:
    values = avro_flights.values()
    column = pa.array(values, pa.binary())
    size = sum(map(len, values))
    decoder = AvroDecoder(reader, schema_of={avro_flights.SCHEMA_ID: avro_flights.schema()}.__getitem__)

    def once() -> Pass:
        begun = time.process_time()
        records = sum(len(decoder.decode(column).to_arrow()) for _ in range(TIMES))
        return Pass(time.process_time() - begun, records, TIMES * size)

    return once


if __name__ == "__main__":
    work({"flights": flights, "four": four, "write": write}, kafwire.__version__)
