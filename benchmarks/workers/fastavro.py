"""fastavro on the same values: a dictionary for each, then columns of them by pyarrow. By processor time."""

import io
import time
from collections.abc import Callable

import fastavro
import pyarrow as pa

from benchmarks import avro_flights
from benchmarks.workers.common import Options, Pass, work

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


if __name__ == "__main__":
    work({"flights": flights}, fastavro.__version__)
