"""kafwire's Avro decoder on values in memory: the flights, all fields or four of them. By processor time."""

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import kafwire
from benchmarks import avro_flights
from benchmarks.workers.common import Options, Pass, work
from kafwire.avro import AvroDecoder

TIMES = 5


def flights(_options: Options) -> Callable[[], Pass]:
    """Decode every field."""
    return _repeat(avro_flights.schema())


def four(_options: Options) -> Callable[[], Pass]:
    """Decode four fields, and skip the others."""
    return _repeat(avro_flights.four_fields())


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
    work({"flights": flights, "four": four}, kafwire.__version__)
