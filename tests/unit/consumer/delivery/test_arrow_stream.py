"""`_arrow_stream`: consumers that hold the GIL, and Ctrl-C, each in a process with a time limit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.deadlines import PATIENCE_S

ROOT = Path(__file__).parents[4]

BEGIN = """
import ctypes, os, signal, sys, threading, time
import pyarrow as pa
from tests.support.fetch_line import Line, batch

class Stream(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("schema", "get_next", "error", "release", "data")]

address = ctypes.pythonapi.PyCapsule_GetPointer
address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

class Wrapped:
    def __init__(self, reader):
        self.reader = reader

    def __arrow_c_stream__(self, schema=None):
        return self.reader.stream_capsule()

line = Line(owns=%r)
"""
END = """
line.queue.close()
line.native.stop()
"""


def run(body: str, *, bounded: bool = False) -> str:
    """The output of a program with a `Line`."""
    code = BEGIN % bounded + textwrap.dedent(body) + END
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def interrupted_after(read: str, handler: str = "signal.default_int_handler") -> str:
    """A program that reads in the main thread, and gets SIGINT while the stream waits."""
    return f"""
    line.push(batch(0, b"a"))
    signal.signal(signal.SIGINT, {handler})
    stop = threading.Event()
    def interrupt():
        while line.queue.processed(0) < 1 and not stop.wait(0.01):
            pass
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=interrupt)
    rows = 0
    try:
        reader = pa.RecordBatchReader.from_stream(Wrapped(line.reader))
        thread.start()
        {read}
    except BaseException as error:
        print(type(error).__name__, error)
    stop.set()
    thread.join()
    """


def test_a_consumer_that_holds_the_gil_stops_no_other_thread() -> None:
    out = run("""
    capsule = line.reader.stream_capsule()
    stream = Stream.from_address(address(capsule, b"arrow_array_stream"))
    get_next = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(stream.get_next)
    array = (ctypes.c_int64 * 10)()
    threading.Timer(0.05, line.push, [batch(0, b"a", b"b")]).start()  # needs the GIL while get_next waits
    print(get_next(ctypes.addressof(stream), ctypes.addressof(array)), array[0])
    """)
    assert out == "0 2\n"


@pytest.mark.parametrize("bounded", [False, True])
def test_ctrl_c_in_a_loop_is_one_keyboard_interrupt(bounded: bool) -> None:
    body = """for batch_read in reader:
            rows += batch_read.num_rows"""
    assert run(interrupted_after(body) + "print(rows)\n    ", bounded=bounded) == "KeyboardInterrupt \n1\n"


def test_a_loop_that_catches_ctrl_c_reads_on() -> None:
    body = """for batch_read in reader:
            rows += batch_read.num_rows"""
    more = """line.push(batch(1, b"b"))
    print(reader.read_next_batch().num_rows)
    """
    out = run(interrupted_after(body) + more)
    assert out == "KeyboardInterrupt \n1\n"


def test_an_error_of_a_signal_handler_keeps_its_type() -> None:
    body = """for batch_read in reader:
            pass"""
    assert run(interrupted_after(body, "lambda *_: sys.exit(7)")) == "SystemExit 7\n"


def test_ctrl_c_ends_an_endless_stream_whose_consumer_runs_no_python() -> None:
    assert run(interrupted_after("reader.read_all(); print('read')")) == "KeyboardInterrupt \n"


def test_ctrl_c_fails_a_bounded_stream_with_a_text() -> None:
    """A table with some of the rows would be a lie."""
    out = run(
        """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    capsule = line.reader.stream_capsule()
    stream = Stream.from_address(address(capsule, b"arrow_array_stream"))
    get_next = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(stream.get_next)
    text = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(stream.error)
    array = (ctypes.c_int64 * 10)()
    try:
        print(get_next(ctypes.addressof(stream), ctypes.addressof(array)))
    except KeyboardInterrupt:
        print(array[0], bool(array[8]), text(ctypes.addressof(stream)).decode())
    """,
        bounded=True,
    )
    assert out == "0 True KeyboardInterrupt: a signal interrupted the read\n"


def test_ctrl_c_ends_a_stream_that_a_thread_of_a_library_reads() -> None:
    """Like DuckDB, the main thread waits in C, without the GIL, for a native thread that waits for records."""
    out = run(
        interrupted_after("""import pyarrow.dataset
        pyarrow.dataset.Scanner.from_batches(reader).to_table()
        print("read")""")
    )
    assert out == "KeyboardInterrupt \n"


def test_a_thread_reads_on_after_a_ctrl_c_that_the_main_thread_handles() -> None:
    out = run("""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    got = []
    def read():
        reader = pa.RecordBatchReader.from_stream(Wrapped(line.reader))
        for batch_read in reader:
            got.append(batch_read.num_rows)
    thread = threading.Thread(target=read)
    thread.start()
    try:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        time.sleep(30)
    except KeyboardInterrupt:
        print("interrupted")
    time.sleep(1.3)  # longer than the main thread may be stuck
    line.push(batch(0, b"a"))
    line.queue.end()
    thread.join()
    print(got)
    """)
    assert out == "interrupted\n[1]\n"
