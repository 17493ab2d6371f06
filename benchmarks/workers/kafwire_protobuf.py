"""kafwire's Protobuf decoder and encoder on values in memory: the flights. By processor time."""

import time
from collections.abc import Callable

import pyarrow as pa

import kafwire
from benchmarks import protobuf_flights
from benchmarks.workers.common import Options, Pass, work
from demo.flights import load_flights
from kafwire.protobuf import ProtobufDecoder, ProtobufEncoder

TIMES = 5


def flights(_options: Options) -> Callable[[], Pass]:
    """Decode every field."""
    kind = protobuf_flights.kind()
    values = protobuf_flights.values(kind)
    column = pa.array(values, pa.binary())
    size = sum(map(len, values))
    decoder = ProtobufDecoder(kind)

    def once() -> Pass:
        begun = time.process_time()
        records = sum(len(decoder.decode(column).to_arrow()) for _ in range(TIMES))
        return Pass(time.process_time() - begun, records, TIMES * size)

    return once


def write(_options: Options) -> Callable[[], Pass]:
    """Encode every field."""
    columns = load_flights().slice(0, protobuf_flights.ROWS).combine_chunks().to_batches()[0]
    encoder = ProtobufEncoder(protobuf_flights.kind())
    size = encoder.encode(columns).to_arrow().nbytes

    def once() -> Pass:
        begun = time.process_time()
        records = sum(len(encoder.encode(columns).to_arrow()) for _ in range(TIMES))
        return Pass(time.process_time() - begun, records, TIMES * size)

    return once


if __name__ == "__main__":
    work({"flights": flights, "write": write}, kafwire.__version__)
