"""The package protobuf on the same values: messages, then columns of them by pyarrow, and back. By processor time."""

import time
from collections.abc import Callable

import google.protobuf
import pyarrow as pa

from benchmarks import protobuf_flights
from benchmarks.workers.common import Options, Pass, work
from demo.flights import load_flights


def flights(_options: Options) -> Callable[[], Pass]:
    """Decode every field."""
    kind = protobuf_flights.kind()
    values = protobuf_flights.values(kind)
    schema = load_flights().schema
    names = schema.names
    size = sum(map(len, values))

    def once() -> Pass:
        begun = time.process_time()
        messages = [kind.FromString(value) for value in values]
        columns = [
            pa.array(
                [getattr(each, name) if each.HasField(name) else None for each in messages], schema.field(name).type
            )
            for name in names
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        return Pass(time.process_time() - begun, batch.num_rows, size)

    return once


def write(_options: Options) -> Callable[[], Pass]:
    """Encode every field."""
    kind = protobuf_flights.kind()
    columns = load_flights().slice(0, protobuf_flights.ROWS)

    def once() -> Pass:
        begun = time.process_time()
        rows = [{name: value for name, value in row.items() if value is not None} for row in columns.to_pylist()]
        made = pa.array([kind(**row).SerializeToString() for row in rows], pa.binary())
        return Pass(time.process_time() - begun, len(made), made.nbytes)

    return once


if __name__ == "__main__":
    work({"flights": flights, "write": write}, google.protobuf.__version__)
