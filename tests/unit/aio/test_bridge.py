"""`aio.bridge`: coroutines of the engine, awaited in the user's event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.aio.bridge import on_engine
from kafwire.errors import KafkaError
from kafwire.runtime.engine import NativeEngine
from tests.support.deadlines import ended
from tests.support.forks import in_child


@pytest.fixture
def engine() -> Iterator[NativeEngine]:
    it = NativeEngine()
    yield it
    it.stop()


class Work:
    """A coroutine of the engine's that shows how far it came, and ends when the test lets it."""

    def __init__(self, engine: NativeEngine) -> None:
        self.engine = engine
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.cancels = 0
        self.cancelled = threading.Semaphore(0)
        self.stubborn = False
        self._gate: asyncio.Future[str] | None = None

    async def run(self) -> str:
        self._gate = asyncio.get_running_loop().create_future()
        self.begun.set()
        try:
            while True:
                try:
                    return await asyncio.shield(self._gate)
                except asyncio.CancelledError:
                    self.cancels += 1
                    self.cancelled.release()
                    if not self.stubborn:
                        raise
        finally:
            self.ended.set()

    def let_go(self, value: str = "value") -> None:
        assert self._gate is not None
        self.engine.start(self._gate.set_result, value)

    def fail(self, error: Exception) -> None:
        assert self._gate is not None
        self.engine.start(self._gate.set_exception, error)


async def until(event: threading.Event) -> None:
    """Wait for another thread without stopping this loop."""
    assert await asyncio.to_thread(event.wait, 30)


def test_work_runs_on_the_engine_and_its_value_comes_back(engine: NativeEngine) -> None:
    async def where() -> str:
        return threading.current_thread().name

    async def main() -> None:
        assert await on_engine(engine, where()) == "kafwire-engine"
        assert threading.current_thread() is threading.main_thread()

    asyncio.run(main())


def test_an_error_comes_back_as_itself(engine: NativeEngine) -> None:
    class Odd(KafkaError):
        pass

    error = Odd("nothing there")

    async def fail() -> None:
        raise error

    async def main() -> None:
        with pytest.raises(Odd) as caught:
            await on_engine(engine, fail())
        assert caught.value is error

    asyncio.run(main())


def test_the_users_loop_goes_on_meanwhile(engine: NativeEngine) -> None:
    async def main() -> str:
        work = Work(engine)
        waiting = asyncio.ensure_future(on_engine(engine, work.run()))
        await until(work.begun)
        for _ in range(100):  # a thread that waited would not get here
            await asyncio.sleep(0)
        assert not waiting.done()
        work.let_go("late")
        return await waiting

    assert asyncio.run(main()) == "late"


def test_many_at_once_each_get_their_own(engine: NativeEngine) -> None:
    async def echo(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def main() -> list[int]:
        return await asyncio.gather(*(on_engine(engine, echo(number)) for number in range(500)))

    assert asyncio.run(main()) == list(range(500))


def test_loops_of_several_threads_may_use_one_engine(engine: NativeEngine) -> None:
    async def echo(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def ask(number: int) -> int:
        return sum([await on_engine(engine, echo(number)) for _ in range(50)])

    sums: dict[int, int] = {}

    def body(number: int) -> None:
        sums[number] = asyncio.run(ask(number))

    threads = [threading.Thread(target=body, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    ended(*threads)
    assert sums == {number: 50 * number for number in range(4)}


def test_cancelling_the_caller_cancels_the_work_and_waits_for_its_end(engine: NativeEngine) -> None:
    async def main() -> None:
        work = Work(engine)
        waiting = asyncio.ensure_future(on_engine(engine, work.run()))
        await until(work.begun)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert work.ended.is_set()
        assert work.cancels == 1

    asyncio.run(main())


def test_a_timeout_of_the_callers_is_its_own(engine: NativeEngine) -> None:
    async def main() -> None:
        work = Work(engine)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await on_engine(engine, work.run())
        assert work.ended.is_set()

    asyncio.run(main())


def test_work_that_takes_its_time_to_end_is_waited_for_however_often_it_is_cancelled(engine: NativeEngine) -> None:
    async def main() -> None:
        work = Work(engine)
        work.stubborn = True
        waiting = asyncio.ensure_future(on_engine(engine, work.run()))
        await until(work.begun)
        for _ in range(3):
            waiting.cancel()
            assert await asyncio.to_thread(work.cancelled.acquire, timeout=30)
        assert not waiting.done()
        work.let_go()
        with pytest.raises(asyncio.CancelledError):  # a cancellation is never swallowed, whatever the work returned
            await waiting
        assert work.ended.is_set()
        assert work.cancels == 3

    asyncio.run(main())


def test_cancelling_before_the_engine_has_begun_leaves_nothing_behind(engine: NativeEngine) -> None:
    async def main() -> None:
        held = threading.Event()
        engine.start(held.wait, 30)
        work = Work(engine)
        waiting = asyncio.ensure_future(on_engine(engine, work.run()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        held.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not work.begun.is_set()

    asyncio.run(main())
    gc.collect()  # a coroutine never awaited would warn here


def test_a_task_cancelled_before_it_ran_asks_nothing_of_the_engine(engine: NativeEngine) -> None:
    work = Work(engine)

    async def main() -> None:
        async def caller() -> None:
            await on_engine(engine, work.run())

        waiting = asyncio.ensure_future(caller())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    assert not work.begun.is_set()


def test_work_that_is_cancelled_on_the_engine_is_an_error_of_kafwires(engine: NativeEngine) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(KafkaError, match="the client was closed while this call waited"):
            await on_engine(engine, cancelled())
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    asyncio.run(main())


def test_a_call_that_waits_is_let_go_when_the_engine_stops() -> None:
    async def main() -> None:
        engine = NativeEngine()
        work = Work(engine)
        waiting = asyncio.ensure_future(on_engine(engine, work.run()))
        await until(work.begun)
        await asyncio.to_thread(engine.stop)
        with pytest.raises(KafkaError, match="the client was closed while this call waited"):
            await waiting
        with pytest.raises(KafkaError, match="the interpreter is ending"):
            await on_engine(engine, work.run())

    asyncio.run(main())
    gc.collect()


class EndsWhenAsked(NativeEngine):
    """One that ends behind the first question whether it can be called."""

    asked = False

    def check_caller(self) -> None:
        super().check_caller()
        if not self.asked:
            self.asked = True
            self.stop()


def test_an_engine_that_ends_as_it_is_asked_refuses() -> None:
    async def main() -> None:
        engine = EndsWhenAsked()
        with pytest.raises(KafkaError, match="the client was closed while this call waited"):
            await on_engine(engine, Work(engine).run())

    asyncio.run(main())
    gc.collect()


def test_a_fork_is_an_error(engine: NativeEngine) -> None:
    async def main() -> None:
        with pytest.raises(KafkaError, match="made before a fork"):
            await on_engine(engine, Work(engine).run())

    def child() -> None:
        asyncio.run(main())
        gc.collect()

    in_child(child)


@pytest.mark.parametrize("error", [None, LookupError("for no caller")], ids=["value", "error"])
def test_a_loop_that_is_closed_too_early_does_not_disturb_the_engine(
    engine: NativeEngine, error: Exception | None
) -> None:
    work = Work(engine)
    loop = asyncio.new_event_loop()
    mistakes: list[str] = []
    loop.set_exception_handler(lambda _, context: mistakes.append(context["message"]))
    problems: list[Any] = []
    engine._loop.call_soon_threadsafe(engine._loop.set_exception_handler, lambda _, context: problems.append(context))
    task = loop.create_task(on_engine(engine, work.run()))
    loop.run_until_complete(until(work.begun))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    if error is None:
        work.let_go()
    else:
        work.fail(error)
    assert work.ended.wait(30)
    del task
    engine.run(asyncio.sleep, 0)
    gc.collect()
    assert engine.run(asyncio.sleep, 0, "alive") == "alive"
    assert not problems
    assert mistakes == ["Task was destroyed but it is pending!"], "the user's own, reported by asyncio itself"


def test_a_caller_that_is_dropped_cancels_its_work(engine: NativeEngine) -> None:
    work = Work(engine)

    async def main() -> None:
        coroutine = on_engine(engine, work.run())
        waiting = coroutine.send(None)  # as a loop does
        assert asyncio.isfuture(waiting)
        await until(work.begun)
        coroutine.close()
        await until(work.ended)
        assert work.cancels == 1

    asyncio.run(main())
