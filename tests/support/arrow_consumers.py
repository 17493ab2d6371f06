"""Libraries that consume Arrow streams, each release in an environment of its own, and how each reads one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.environments import interpreter_with
from tests.support.sanitizers import ROOT, compiler

READ_S = 60  # imports included; a stream that stops the process never ends
ROWS = 3_000


@dataclass(frozen=True)
class ArrowConsumer:
    """A library. `code` reads `stream`, and leaves the number of its rows in `rows`.

    A release that has `keeps_all=False` takes the first batch of a stream of any producer, and drops the others.
    """

    name: str
    requirements: tuple[str, ...]  # none: the release of the tests' own environment
    code: str
    keeps_all: bool = True


_PYARROW = "import pyarrow; rows = pyarrow.table(stream).num_rows"
_POLARS = "import polars; rows = polars.DataFrame(stream).height"
_ARRO3 = "import arro3.core; rows = arro3.core.Table.from_arrow(stream).num_rows"
_ARRO3_READER = "import arro3.core; rows = arro3.core.RecordBatchReader.from_arrow(stream).read_all().num_rows"
_NANOARROW = "import nanoarrow; rows = len(nanoarrow.ArrayStream(stream).read_all())"
_DATAFUSION = "import datafusion; rows = datafusion.SessionContext().from_arrow(stream).count()"
_DUCKDB = "import duckdb; rows = duckdb.sql('select count(*) from stream').fetchall()[0][0]"
_PANDAS = "import pandas; rows = len(pandas.DataFrame.from_arrow(stream))"
_NARWHALS = "import narwhals; rows = narwhals.from_arrow(stream, backend='{}').shape[0]"
_IBIS = "import ibis; rows = ibis.memtable(stream).count().execute()"
_DELTALAKE = """
import tempfile, deltalake
with tempfile.TemporaryDirectory() as folder:
    deltalake.write_deltalake(folder, stream)
    rows = deltalake.DeltaTable(folder).count()
"""
_ADBC = """
import adbc_driver_sqlite.dbapi
with adbc_driver_sqlite.dbapi.connect() as connection, connection.cursor() as cursor:
    rows = cursor.adbc_ingest("records", stream)
"""
_SEDONADB = "import pyarrow, sedonadb; rows = pyarrow.table(sedonadb.connect().create_data_frame(stream)).num_rows"
_DAFT = "import daft; rows = daft.from_arrow(stream).count_rows()"
_CHDB = "import chdb; rows = int(str(chdb.query('select count() from Python(stream)')))"

CONSUMERS = [
    ArrowConsumer("pyarrow", (), _PYARROW),
    ArrowConsumer("pyarrow", ("pyarrow==15.0.2", "numpy<2"), _PYARROW),
    ArrowConsumer("pandas", (), _PANDAS),
    ArrowConsumer("polars", (), _POLARS),
    ArrowConsumer("polars", ("polars==1.8.2",), _POLARS, keeps_all=False),
    ArrowConsumer("duckdb", (), _DUCKDB),
    ArrowConsumer("duckdb", ("duckdb==1.1.3",), _DUCKDB),
    ArrowConsumer("arro3-core", ("arro3-core",), _ARRO3),
    ArrowConsumer("arro3-core", ("arro3-core==0.4.2",), _ARRO3),
    ArrowConsumer("arro3-core, reader", ("arro3-core",), _ARRO3_READER),
    ArrowConsumer("nanoarrow", ("nanoarrow",), _NANOARROW),
    ArrowConsumer("nanoarrow", ("nanoarrow==0.6.0",), _NANOARROW),
    ArrowConsumer("datafusion", ("datafusion",), _DATAFUSION),
    ArrowConsumer("datafusion", ("datafusion==43.1.0",), _DATAFUSION),
    ArrowConsumer("narwhals", ("narwhals",), _NARWHALS.format("pyarrow")),
    ArrowConsumer("ibis", ("ibis-framework[duckdb]",), _IBIS),
    ArrowConsumer("deltalake", ("deltalake",), _DELTALAKE),
    ArrowConsumer("ADBC for SQLite", ("adbc-driver-sqlite",), _ADBC),
    ArrowConsumer("sedonadb", ("sedonadb",), _SEDONADB),
    ArrowConsumer("daft", ("daft",), _DAFT),
    ArrowConsumer("chdb", ("chdb",), _CHDB),
]

_PROGRAM = """
import ctypes, importlib.metadata, json, sys
import kafwire

bootstrap, topic, way, library, package = sys.argv[1:6]
columns = ["offset", "key", "value"]  # not each library has lists
little = {"fetch_memory": 20_000, "fetch_max_bytes": 10_000, "chunk_bytes": 1}  # so the engine fetches meanwhile
options = {"columns": columns, **little}
probe = ctypes.CDLL(library)
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Probed:
    def __init__(self, stream):
        self._stream = stream

    def __arrow_c_stream__(self, requested_schema=None):
        capsule = self._stream.__arrow_c_stream__(requested_schema)
        probe.probe(ctypes.c_void_p(pointer_of(capsule, b"arrow_array_stream")), ctypes.pythonapi.PyGILState_Check)
        return capsule

    def __getattr__(self, name):
        return getattr(self._stream, name)


def read(stream):
    names = {"stream": stream}
    exec(sys.argv[6], names)
    return names["rows"]


if way == "scan":
    rows = read(Probed(kafwire.scan(bootstrap, topic, **options)))
else:
    with kafwire.Consumer(bootstrap, topics=[topic], auto_offset_reset="earliest", **options) as consumer:
        rows = read(Probed(consumer.arrow_stream(timeout=0.5)))
print(json.dumps([rows, *(ctypes.c_int * 2).in_dll(probe, "calls"), importlib.metadata.version(package)]))
"""


@dataclass(frozen=True)
class Reading:
    """The rows that a library read, and how often it called `get_next` with the GIL and without."""

    version: str
    rows: int
    with_gil: int
    without_gil: int


def build_probe(folder: Path) -> Path:
    """Compile `tests/native/gil_probe.c`."""
    library = folder / "gil_probe.so"
    source = ROOT / "tests/native/gil_probe.c"
    command = [*compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-I{ROOT}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def interpreter(consumer: ArrowConsumer) -> str:
    """Return the interpreter of an environment that has the library. The first call makes the environment."""
    if not consumer.requirements:
        return sys.executable
    return interpreter_with(consumer.requirements, "arrow-consumer")


def read(consumer: ArrowConsumer, bootstrap: str, topic: str, way: str, probe: Path) -> Reading:
    """Read a topic in a process of its own. Raises `subprocess.TimeoutExpired` if that does not end."""
    package = consumer.requirements[0] if consumer.requirements else consumer.name
    name = package.partition("=")[0].partition("[")[0]
    command = [interpreter(consumer), "-X", "faulthandler", "-c", _PROGRAM, bootstrap, topic, way, str(probe), name]
    done = subprocess.run(
        [*command, consumer.code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=READ_S,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    rows, without_gil, with_gil, version = json.loads(done.stdout.strip().splitlines()[-1])
    return Reading(version, rows, with_gil, without_gil)
