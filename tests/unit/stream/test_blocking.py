"""The blocking face: a thread of its own, and signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from kafwire.records import Record
from kafwire.stream import MemorySink, MemorySource, Pipeline, StopRequest, StreamError
from tests.support.deadlines import ended
from tests.support.doc_blocks import ROOT, environment
from tests.support.stream.streams import number, numbered

PROGRAM = """
import sys, threading
import kafwire.stream as ks

source = ks.MemorySource({"orders": [b"%d" % one for one in range(5)]}, ends=False)
is_slow = sys.argv[1] == "slow"
stop = ks.StopRequest()
done = []

def handle(record):
    if record.value == b"4":
        print("running", flush=True)
        while not stop.is_requested:
            threading.Event().wait(0.01)
        print("stopping", flush=True)
        threading.Event().wait(60 if is_slow else 0)
    done.append(record.value)

try:
    summary = ks.Pipeline().for_each(handle).run(source, stop=stop)
    print(summary.records, source.committed, len(done), source.closed)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os; os._exit(3)  # its thread hangs
"""


def started(mode: str) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, mode], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "running\n"
    return program


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_gracefully(number: signal.Signals) -> None:
    program = started("quick")
    program.send_signal(number)
    said, _ = program.communicate(timeout=60)
    assert said == "stopping\n5 {TopicPartition(topic='orders', partition=0): 5} 5 True\n"
    assert program.returncode == 0


def test_a_second_signal_interrupts_the_wait() -> None:
    program = started("slow")
    program.send_signal(signal.SIGINT)
    assert program.stdout is not None
    assert program.stdout.readline() == "stopping\n"
    program.send_signal(signal.SIGINT)
    said, _ = program.communicate(timeout=60)
    assert said == "interrupted\n"


def test_handlers_of_signals_are_as_before() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    Pipeline().run(MemorySource({"orders": numbered(3)}))
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == before


def test_it_runs_in_a_thread_of_its_own_and_is_stopped_from_any() -> None:
    threads: set[tuple[str, bool]] = set()
    stop = StopRequest()
    source, sink = MemorySource({"orders": numbered(3)}, ends=False), MemorySink()

    def step(record: Record) -> int:
        thread = threading.current_thread()
        threads.add((thread.name, thread.daemon))
        if number(record) == 2:
            stop.request()
        return number(record)

    caller = threading.Thread(target=lambda: Pipeline().map(step).run(source, sink, stop=stop))
    caller.start()
    ended(caller)
    assert sink.values == [0, 1, 2]
    assert threads == {("kafwire-stream", True)}, "an interrupted program does not wait for the stream to end"


def test_errors_come_to_the_caller() -> None:
    with pytest.raises(StreamError, match="offset 0 of orders-0"):
        Pipeline().map(lambda record: 1 // number(record)).run(MemorySource({"orders": numbered(3)}))
