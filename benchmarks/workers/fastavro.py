"""fastavro on the same values: a dictionary for each, columns of them by pyarrow, and back. By processor time."""

import io
import time
from collections.abc import Callable

import fastavro
import pyarrow as pa

from benchmarks import avro_flights
from benchmarks.workers.common import Options, Pass, work
from demo.flights import load_flights

HEADER = 5


def flights(_options: Options) -> Callable[[], Pass]:
    """Decode every field."""
    values = avro_flights.values()
    schema = fastavro.parse_schema(avro_flights.schema())
    kinds = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}
    columns = pa.schema([(each["name"], kinds[each["type"][1]]) for each in avro_flights.schema()["fields"]])
    size = sum(map(len, values))

    def once() -> Pass:
        begun = time.process_time()
        rows = [fastavro.schemaless_reader(io.BytesIO(value[HEADER:]), schema, None) for value in values]
        batch = pa.RecordBatch.from_pylist(rows, columns)
        return Pass(time.process_time() - begun, batch.num_rows, size)

    return once


def write(_options: Options) -> Callable[[], Pass]:
    """Encode every field."""
    columns = load_flights().slice(0, avro_flights.ROWS)
    schema = fastavro.parse_schema(avro_flights.schema())

    def once() -> Pass:
        begun = time.process_time()
        values = []
        for row in columns.to_pylist():
            file = io.BytesIO()
            fastavro.schemaless_writer(file, schema, row)
            values.append(file.getvalue())
        made = pa.array(values, pa.binary())
        return Pass(time.process_time() - begun, len(made), made.nbytes)

    return once


if __name__ == "__main__":
    work({"flights": flights, "write": write}, fastavro.__version__)
