"""`runtime.engine`: a loop in a thread of its own, which users hand work to, and which ends with the interpreter."""

from __future__ import annotations

import _weakrefset
import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from kafwire.errors import KafkaError
from kafwire.runtime import engine as engine_module
from kafwire.runtime.engine import NativeEngine, default_engine
from tests.support.forks import fork_in_c, in_child


@pytest.fixture
def engine() -> Iterator[NativeEngine]:
    it = NativeEngine()
    yield it
    it.stop()


class Member:
    """The engine's calls to its members, written down."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def end(self) -> None:
        self.heard.append(f"end in {threading.current_thread().name}")

    def fail(self, error: KafkaError) -> None:
        self.heard.append(f"fail: {error}")

    def abandon(self) -> None:
        self.heard.append("abandon")


async def where() -> str:
    return threading.current_thread().name


def test_work_runs_on_the_engines_thread(engine: NativeEngine) -> None:
    assert engine.run(where) == "kafwire-engine"
    assert engine.run(asyncio.sleep, 0, "value") == "value"


def test_an_error_is_raised_where_the_work_came_from(engine: NativeEngine) -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        engine.run(fail)


def test_functions_are_started_from_any_thread(engine: NativeEngine) -> None:
    heard: list[Any] = []
    done = threading.Event()

    def note(*arguments: object) -> None:
        heard.append((threading.current_thread().name, arguments))
        done.set()

    threading.Thread(target=engine.start, args=(note, 1, 2)).start()
    assert done.wait(30)
    assert heard == [("kafwire-engine", (1, 2))]


def test_a_callback_may_not_wait_for_its_own_engine(engine: NativeEngine) -> None:
    async def wait_inside() -> None:
        engine.run(where)

    with pytest.raises(KafkaError, match="a blocking call was made from a delivery callback"):
        engine.run(wait_inside)


def test_work_that_was_cancelled_inside_is_an_error_of_kafwires(engine: NativeEngine) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(KafkaError, match="the client was closed while this call waited"):
        engine.run(cancelled)


def test_an_interrupt_cancels_the_work(engine: NativeEngine) -> None:
    cancelled = threading.Event()
    main = threading.get_ident()

    async def long() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        engine.run(long)
    assert cancelled.wait(30)


def test_an_interrupt_may_come_at_any_instruction(engine: NativeEngine) -> None:
    """Ctrl-C is looked for between two instructions of Python. Whichever it is, the engine and the next call go on."""
    loop = engine.run(_running_loop)
    problems: list[str] = []
    loop.set_exception_handler(lambda _, context: problems.append(str(context)))
    strikes = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while _interrupted(lambda: engine.run(asyncio.sleep, 0, "value"), strikes):
            strikes += 1
            assert engine.run(asyncio.sleep, 0, "alive") == "alive"
            gc.collect()
    assert strikes > 50
    assert not problems


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _interrupted(call: Callable[[], object], after: int) -> bool:
    """Raise `KeyboardInterrupt` in `call` once so many instructions have run; False when there were not as many."""
    left = after

    def strike(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        nonlocal left
        if frame.f_code.co_filename == _weakrefset.__file__:
            return None  # calls of the collector cannot raise
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return strike

    before = sys.gettrace()
    try:
        sys._getframe().f_trace_opcodes = True  # without this line before, Python 3.12 reports lines alone
        sys.settrace(strike)
        call()
    except KeyboardInterrupt:
        return True
    else:
        return False
    finally:
        sys.settrace(before)


def test_stopping_ends_members_tasks_and_both_threads() -> None:
    engine = NativeEngine()
    member, forgotten = Member(), Member()
    engine.join(member)
    engine.join(forgotten)
    del forgotten
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append("task")

    tasks: list[Any] = []
    engine.start(lambda: tasks.append(asyncio.ensure_future(forever())))
    engine.run(asyncio.sleep, 0)
    thread = engine._thread
    engine.stop()
    assert member.heard == ["end in kafwire-engine"]
    assert ended == ["task"]
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="the I/O thread was stopped"):
        engine.transport.connect(socket.AF_INET, ("127.0.0.1", 1), NotImplemented, 1)
    engine.stop()
    assert not engine.start(ended.append, "late")
    assert ended == ["task"]
    assert engine.is_over
    with pytest.raises(KafkaError, match="the interpreter is ending"):
        engine.run(where)


def test_work_that_cancelled_tasks_start_runs_before_the_end() -> None:
    """The requests of a connection that is closed by then end too."""
    heard: list[str] = []
    engine = NativeEngine()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            engine.start(heard.append, "cancelled")

    engine.start(lambda: heard.append("begun") if asyncio.ensure_future(work()) else None)
    engine.run(asyncio.sleep, 0.01)
    engine.stop()
    assert heard == ["begun", "cancelled"]


def test_a_member_that_cannot_end_does_not_keep_others_from_it() -> None:
    class Broken(Member):
        async def end(self) -> None:
            raise LookupError("a defect")

    engine = NativeEngine()
    broken, sound = Broken(), Member()
    engine.join(broken)
    engine.join(sound)
    engine.stop()
    assert sound.heard


def test_a_fork_is_an_error_and_touches_nothing(engine: NativeEngine) -> None:
    member = Member()
    engine.join(member)

    def child() -> None:
        assert engine.is_foreign
        assert engine.is_over
        with pytest.raises(KafkaError, match="made before a fork"):
            engine.run(where)
        with pytest.raises(KafkaError, match="made before a fork"):
            engine.check_process()
        assert not engine.start(pytest.fail, "nothing may run")
        engine.stop()
        assert member.heard == []
        engine.abandon()
        assert member.heard == ["abandon"]

    in_child(child)
    assert member.heard == []
    assert engine.run(where) == "kafwire-engine"


def test_a_process_has_one_engine_and_a_fork_gets_its_own() -> None:
    first = default_engine()
    assert default_engine() is first
    member = Member()
    first.join(member)

    def child() -> None:
        assert member.heard == ["abandon"]
        second = default_engine()
        assert second is not first
        assert second.run(where) == "kafwire-engine"
        second.stop()

    in_child(child)
    assert member.heard == []
    assert default_engine() is first
    assert first.run(where) == "kafwire-engine"


def test_a_fork_in_c_gets_its_own_engine_when_it_asks() -> None:
    first = default_engine()
    member = Member()
    first.join(member)

    def child() -> None:
        assert member.heard == [], "no hook of Python's has run"
        second = default_engine()
        assert second is not first
        assert member.heard == ["abandon"]
        assert second.run(where) == "kafwire-engine"
        assert default_engine() is second
        second.stop()

    in_child(child, fork_in_c)
    assert member.heard == []
    assert default_engine() is first


def test_a_fork_does_not_wait_for_a_lock_of_its_parent() -> None:
    default_engine()
    with engine_module._locks[os.getpid()]:  # as another thread has it that makes a client
        in_child(lambda: default_engine().stop(), fork_in_c)
        in_child(lambda: default_engine().stop())


def test_its_clock_is_monotonic_milliseconds(engine: NativeEngine) -> None:
    before = engine.now_ms()
    assert engine.run(asyncio.sleep, 0.002) is None
    assert 2 <= engine.now_ms() - before < 20_000
