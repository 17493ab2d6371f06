"""Extension types in unintended use: without `__init__`, twice, in a fork, over bytes that change."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.compression import budget, set_budget
from kafwire.errors import ConfigError, KafkaError, ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.producer.buffer._batch import Delivery
from kafwire.records import decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._arrow_rows import RowsReader
from scripts.tree import COMPILED
from tests.support.accumulator_store import Store
from tests.support.deadlines import ended


def extension_types() -> list[type]:
    found: dict[type, None] = {}
    for name in COMPILED:
        values = vars(importlib.import_module(name)).values()
        found |= {value: None for value in values if isinstance(value, type) and value.__module__ == name}
    assert len(found) > 30
    return list(found)


USES = """
import sys, importlib
module, name = sys.argv[1:]
cls = getattr(importlib.import_module(module), name)
try:
    made = cls.__new__(cls)
except TypeError:
    sys.exit(0)
for use in [repr, str, len, list, bool, memoryview, next] + [
    lambda made, attribute=attribute: getattr(made, attribute) for attribute in dir(cls)
] + [
    lambda made, attribute=attribute: getattr(made, attribute)() for attribute in dir(cls)
    if attribute not in ("__init_subclass__", "__subclasshook__", "__class__")
]:
    try:
        use(made)
    except Exception:
        pass
"""


@pytest.mark.parametrize("cls", extension_types(), ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_an_object_without_init_is_not_made_or_does_no_harm(cls: type) -> None:
    command = [sys.executable, "-c", USES, cls.__module__, cls.__name__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cls", [Delivery, kafwire.Batch, kafwire.RecordBatch])
def test_classes_that_only_kafwire_makes_cannot_be_called(cls: type) -> None:
    with pytest.raises(TypeError, match="made by|decoding makes"):
        cls()


def test_a_second_init_is_refused() -> None:
    layout, buffer, rows = Layout("t", 0), Buffer(b"bytes"), RowsReader(pa.table({"value": ["v"]}))
    for again in (
        lambda: layout.__init__("t", 0),  # type: ignore[misc]
        lambda: buffer.__init__(b"other"),
        lambda: rows.__init__(pa.table({"value": ["w"]})),  # type: ignore[misc]
    ):
        with pytest.raises(TypeError, match="once|twice"):
            again()
    assert bytes(buffer) == b"bytes"
    assert [len(part) for part in rows] == [1]


class ArrowSchema(ctypes.Structure):
    """A structure of the Arrow C data interface."""


class ArrowArray(ctypes.Structure):
    """A structure of the Arrow C data interface."""


ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class Nameless:
    """A struct array whose struct of headers has fields without a name, which the interface allows."""

    def __init__(self) -> None:
        pairs = pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))
        self.batch = pa.record_batch({"value": [b"v"], "headers": pa.array([[("k", b"v")]], pairs)})

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        schema, array = self.batch.__arrow_c_array__()
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        root = ArrowSchema.from_address(address(schema, b"arrow_schema"))
        pair = root.children[1].contents.children[0].contents
        for i in range(2):
            pair.children[i].contents.name = None
        return schema, array


def test_fields_of_headers_without_names_are_an_error() -> None:
    with pytest.raises(ConfigError, match="'key' and 'value'"):
        list(RowsReader(Nameless()))


def in_a_fork(work: Any) -> int:
    """The exit status of a child that does `work`; SIGALRM's number if it takes longer than ten seconds."""
    child = os.fork()
    if not child:
        signal.alarm(10)
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_delivery_does_not_wait_in_a_fork() -> None:
    store = Store()
    pending = store.append(b"pending", partition=0)
    rows = store.append_table(pa.table({"value": ["v"]}))

    def refused(wait: Any) -> bool:
        try:
            wait()
        except KafkaError as error:
            return "before a fork" in str(error)
        return False

    assert in_a_fork(lambda: refused(pending.result)) == 0
    assert in_a_fork(lambda: refused(pending.exception)) == 0
    assert in_a_fork(lambda: refused(rows.result)) == 0
    store.deliver()
    assert in_a_fork(lambda: pending.result().offset == 0) == 0, "a known outcome is known in a fork too"


def test_a_layout_that_another_thread_uses_serves_a_fork() -> None:
    """The constant columns of a long chunk take milliseconds to fill: a lock held over that would be left closed."""
    layout = Layout("a-topic-with-a-long-name" * 4, 0)
    small = decode(encode_batch([b"a"]), layout)
    stop = threading.Event()

    def work() -> None:
        rows = 20_000
        while not stop.is_set():
            rows += rows // 3
            if rows > 2_000_000:
                rows = 20_000
            decode(encode_batch([b""] * 1000), Layout("x", 0))
            big = decode(encode_batch([b""] * min(rows, 200_000)), layout)
            big.__arrow_c_array__()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            assert in_a_fork(lambda: len(small.__arrow_c_array__()) == 2) == 0
            stop.wait(0.003)  # another moment of theirs
    finally:
        stop.set()
        ended(*threads)


def decode(data: bytes, layout: Layout) -> Any:
    from kafwire.records._record_batches import decode_chunks

    return decode_chunks(data, layout)[0]


def test_bytes_that_change_under_their_batches_are_an_error() -> None:
    count = 400_000
    blob = [encode_batch([b""] * count, base_offset=i * count) for i in range(4)]
    size = len(blob[0])
    data = bytearray(b"".join(blob))
    batches = decode_batches(data, max_decompressed=8 << 20)  # not all of their columns at once
    other = next(made for n in range(size - 90, size) if len(made := encode_batch([b"y" * n], base_offset=0)) == size)
    for i in range(4):
        data[i * size : (i + 1) * size] = other
    wrong = 0
    for batch in batches:
        try:
            assert batch[count - 1].value == b""
        except ProtocolError as error:
            assert "have changed" in str(error)
            wrong += 1
    assert wrong


def test_a_batch_is_cut_while_decompression_has_no_room() -> None:
    """Memory of a batch was the engine's before: the split does not wait for others that decompress."""
    value = bytes(10 << 20)
    store = Store(1, batch_size=64 << 20, max_request_size=64 << 20, buffer_memory=256 << 20, compression="lz4")
    try:
        for _ in range(4):
            store.append(value, partition=0)
        (sink,), _ = store.accumulator.collect(everything=True)
        (batch,) = sink.advance()
        sink.fresh.clear()
        batch.producer, batch.sequence = (7, 1), 5
        store.accumulator.prepare([batch])
        set_budget(0)
        parts = store.accumulator.cut(batch, [0, 2])
        assert [part.count for part in parts] == [2, 2]
        assert budget() == (0, 0)
    finally:
        set_budget(1 << 30)


FREE_THREADED = "import sys; sys.abiflags = 't'; sys._is_gil_enabled = lambda: False; import kafwire; print('imported')"


def test_a_free_threaded_build_warns_that_the_gil_comes_on() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-c", FREE_THREADED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    assert done.stdout == "imported\n"
    assert "RuntimeWarning: importing kafwire turns the GIL on" in done.stderr


@pytest.mark.parametrize("forced", ["import os; os.environ['PYTHON_GIL'] = '0'", "sys._xoptions['gil'] = '0'"])
def test_a_gil_that_is_forced_off_is_refused(forced: str) -> None:
    """Said from within: a build that always has the GIL does not start with either."""
    command = [sys.executable, "-c", f"import sys; {forced}; {FREE_THREADED}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "ImportError: kafwire's extensions need the GIL" in done.stderr
