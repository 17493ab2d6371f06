"""Handlers in threads and processes, in real time: they run at once, raise, hang and die."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing import connection

import pytest

from kafwire.records import Record
from kafwire.stream import HandlerTimeoutError, MemorySink, MemorySource, Message, Pipeline, StreamError
from kafwire.stream.invocation import InProcesses, InThreads
from kafwire.stream.steps import ForEach
from kafwire.types import TopicPartition
from tests.support.deadlines import PATIENCE_S, happened
from tests.support.doc_blocks import ROOT, environment
from tests.support.stream.stream_handlers import (
    die_at_one,
    hang_at_one,
    interrupt_itself,
    process_and_value,
    raise_at_one,
    raise_unreadable_at_one,
)
from tests.support.stream.streams import number, numbered

HANGING_PROGRAM = """
from kafwire.stream import MemorySource, Pipeline
from tests.support.stream.stream_handlers import say_and_hang

if __name__ == "__main__":
    Pipeline().for_each(say_and_hang, run_in="processes").run(MemorySource({"orders": [b"0"]}))
"""
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """An event that handlers in threads wait for until the test ends: the interpreter waits for them."""
    event = threading.Event()
    yield event
    event.set()


def test_threads_run_at_once() -> None:
    together = threading.Barrier(4)
    names: set[str] = set()

    def handle(record: Record) -> int:
        together.wait(PATIENCE_S)
        names.add(threading.current_thread().name)
        return number(record)

    source, sink = MemorySource({"orders": numbered(8, keys=8)}), MemorySink()
    Pipeline().for_each(handle, workers=4, by="key").run(source, sink)
    assert sorted(sink.values) == list(range(8))
    assert all(name.startswith("kafwire-stream") for name in names)
    assert source.committed == {ORDERS: 8}


def test_a_thread_that_hangs_is_replaced_and_its_record_not_tried_beside_it(hanging: threading.Event) -> None:
    calls: list[int] = []

    def handle(record: Record) -> int:
        calls.append(number(record))
        if number(record) in {1, 2}:
            hanging.wait(PATIENCE_S)
        return number(record)

    source, sink = MemorySource({"orders": numbered(6)}), MemorySink()
    pipeline = Pipeline().for_each(handle, workers=1, timeout_s=0.1).retry(5).dead_letters("dead")
    pipeline.run(source, sink)
    assert [letter.value for letter in sink.written("dead")] == [b"1", b"2"]
    assert calls == list(range(6))
    assert source.committed == {ORDERS: 6}


def test_without_a_place_for_it_a_hanging_handler_ends_the_stream(hanging: threading.Event) -> None:
    source = MemorySource({"orders": numbered(3)})
    with pytest.raises(StreamError, match="its thread still runs") as e:
        Pipeline().for_each(lambda record: hanging.wait(PATIENCE_S), timeout_s=0.05).run(source)
    assert isinstance(e.value.__cause__, HandlerTimeoutError)
    assert source.committed == {}


def test_a_thread_that_raises_stop_iteration_has_failed() -> None:
    def handle(record: Record) -> None:
        next(iter(()))

    source, sink = MemorySource({"orders": numbered(1)}), MemorySink()
    Pipeline().for_each(handle).dead_letters("dead").run(source, sink)
    (letter,) = sink.written("dead")
    assert dict(letter.headers)["kafwire.error.message"] == b"the handler raised StopIteration"


def test_a_coroutine_that_a_thread_cannot_await_is_a_failure() -> None:
    async def handle(record: Record) -> None:
        """A coroutine that is never run."""

    source, sink = MemorySource({"orders": numbered(1)}), MemorySink()
    Pipeline().for_each(lambda record: handle(record) if record else None).dead_letters("dead").run(source, sink)
    (letter,) = sink.written("dead")
    assert b"returned an awaitable" in (dict(letter.headers)["kafwire.error.message"] or b"")


def test_a_call_in_a_thread_that_was_cancelled_is_waited_for(hanging: threading.Event) -> None:
    begun = threading.Event()

    def handle(value: int) -> None:
        begun.set()
        hanging.wait(PATIENCE_S)

    async def main() -> None:
        threads = InThreads(ForEach(handle, 1, None, "threads", None))
        call = asyncio.ensure_future(threads.call(1))
        await asyncio.to_thread(happened, begun)
        call.cancel()
        await asyncio.wait({call})
        settling = asyncio.ensure_future(threads.settle())
        await asyncio.wait({settling}, timeout=0)
        assert not settling.done()
        hanging.set()
        await asyncio.wait_for(settling, PATIENCE_S)
        threads.close()

    asyncio.run(main())


@pytest.mark.parametrize("ends", ["close", "settle"])
def test_a_call_in_a_process_that_was_cancelled_is_killed(ends: str) -> None:
    async def main() -> None:
        processes = InProcesses(ForEach(hang_at_one, 1, None, "processes", None))
        assert await processes.call(Message(b"0")) == b"0"
        call = asyncio.ensure_future(processes.call(Message(b"1")))
        await asyncio.wait({call}, timeout=0)
        (process,) = (processes._processes._processes or {}).values()
        call.cancel()
        await asyncio.wait({call})
        if ends == "settle":
            await processes.settle()
        processes.close()
        # It hangs, so nothing but the kill ends it. Its exit code belongs to the pool's own thread, which reaps it.
        assert await asyncio.to_thread(connection.wait, [process.sentinel], PATIENCE_S)

    asyncio.run(main())


def test_a_signal_to_all_processes_is_left_to_that_of_the_stream() -> None:
    source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
    Pipeline().for_each(interrupt_itself, run_in="processes").run(source, sink)
    assert sink.values == [b"0", b"1", b"2"]


def test_processes_end_with_that_of_the_stream() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", HANGING_PROGRAM], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "hanging\n"
    program.kill()
    said, _ = program.communicate(timeout=PATIENCE_S)
    assert not said, "each process that could write to it has ended"


def test_other_processes() -> None:
    source, sink = MemorySource({"orders": numbered(4)}), MemorySink()
    Pipeline().for_each(process_and_value, workers=2, by="key", run_in="processes").run(source, sink)
    assert sorted(value for _, value in sink.values) == [b"0", b"1", b"2", b"3"]
    assert os.getpid() not in {process for process, _ in sink.values}


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (raise_at_one, b"ValueError"),
        (raise_unreadable_at_one, b"tests.support.stream.stream_handlers.UnreadableError"),
        (die_at_one, b"kafwire.errors.KafkaError"),
    ],
)
def test_a_handler_that_raises_or_dies_in_another_process(handler: object, kind: bytes) -> None:
    source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
    pipeline = Pipeline().for_each(handler, run_in="processes").retry(2, backoff_s=0.0)  # type: ignore[arg-type]
    pipeline.dead_letters("dead").run(source, sink)
    (letter,) = sink.written("dead")
    assert letter.value == b"1"
    assert dict(letter.headers)["kafwire.error.class"] == kind
    assert [value for value in sink.values if isinstance(value, bytes)] == [b"0", b"2"]
    assert source.committed == {ORDERS: 3}


def test_a_process_that_hangs_is_killed_and_others_are_called_again() -> None:
    source, sink = MemorySource({"orders": numbered(6, keys=6)}), MemorySink()
    pipeline = Pipeline().for_each(hang_at_one, workers=2, by="key", run_in="processes", timeout_s=4.0)
    summary = pipeline.dead_letters("dead").run(source, sink)
    (letter,) = sink.written("dead")
    assert letter.value == b"1"
    assert sorted(value for value in sink.values if isinstance(value, bytes)) == [b"0", b"2", b"3", b"4", b"5"]
    assert summary.dead_letters == 1
    assert source.committed == {ORDERS: 6}
