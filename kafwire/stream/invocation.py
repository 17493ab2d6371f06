"""Calls a handler of `for_each`: in the loop, in a thread, or in another process."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any, Protocol
from weakref import WeakSet

from kafwire.errors import KafkaError
from kafwire.runtime.native_loop import new_executor
from kafwire.stream.carried_error import CarriedError
from kafwire.stream.errors import HandlerTimeoutError
from kafwire.stream.steps import ForEach


class Interrupted(KafkaError):
    """The call was stopped because another one hung: it is repeated, and does not count."""


class Invocation(Protocol):
    """Calls a handler."""

    async def call(self, value: Any) -> Any:
        """Call the handler once. Raises its error, or `HandlerTimeoutError`."""

    async def settle(self) -> None:
        """Return when no cancelled call is running: the same value may be handled again."""

    def close(self) -> None:
        """Release threads and processes. Running threads are not waited for, processes are killed."""


def invocation(step: ForEach) -> Invocation:
    """Return the invocation for the step's handler."""
    if step.run_in == "threads":
        return InThreads(step)
    if step.run_in == "processes":
        return InProcesses(step)
    return InTasks(step)


def is_async(function: Callable[..., Any]) -> bool:
    """True if a call is awaited: of an async function, a partial of one, or an object with an async `__call__`."""
    return any(map(inspect.iscoroutinefunction, _behind(function)))


def is_generator(function: Callable[..., Any]) -> bool:
    """True if a call runs nothing until a caller iterates over the result; for the same kinds as `is_async`."""
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(one) for kind in kinds for one in _behind(function))


def is_async_generator(function: Callable[..., Any]) -> bool:
    """True if only an event loop could iterate over a call's result; for the same kinds as `is_async`."""
    return any(map(inspect.isasyncgenfunction, _behind(function)))


def _behind(function: Callable[..., Any]) -> tuple[Any, Any]:
    while isinstance(function, partial):
        function = function.func
    return function, getattr(function, "__call__", None)  # noqa: B004  # its function, not whether there is one


class InTasks:
    """Runs handlers in the loop's own thread: async ones, and sync ones that do not block."""

    def __init__(self, step: ForEach) -> None:
        self._handler = step.handler
        self._timeout_s = step.timeout_s

    async def call(self, value: Any) -> Any:
        """See `Invocation`."""
        result = self._handler(value)
        if not isinstance(result, Awaitable):
            return result
        if self._timeout_s is None:
            return await result
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await result
        except TimeoutError:
            if not limit.expired():
                raise  # the handler's own timeout
            raise HandlerTimeoutError(f"the handler took longer than {self._timeout_s:g} s") from None

    async def settle(self) -> None:
        """See `Invocation`."""

    def close(self) -> None:
        """See `Invocation`."""


class InThreads:
    """Runs handlers in threads, one per worker. A thread that hangs is abandoned and replaced."""

    def __init__(self, step: ForEach) -> None:
        self._step = step
        self._threads = self._new()
        self._left: set[Future[Any]] = set()  # calls that were cancelled and still run

    def _new(self) -> ThreadPoolExecutor:
        return new_executor(self._step.workers, thread_name_prefix="kafwire-stream")

    async def call(self, value: Any) -> Any:
        """See `Invocation`."""
        running = self._threads.submit(_call, self._step.handler, value)
        try:
            call = await _within(running, self._step.timeout_s)
        except asyncio.CancelledError:
            self._left.add(running)
            running.add_done_callback(self._left.discard)
            raise
        if call is not None:
            return _not_awaitable(call.result())
        self._replace()
        limit = self._step.timeout_s
        raise HandlerTimeoutError(f"the handler took longer than {limit:g} s; its thread still runs", still_runs=True)

    def _replace(self) -> None:
        self._threads.shutdown(wait=False)
        self._threads = self._new()

    async def settle(self) -> None:
        """See `Invocation`. Waits for the timeout of a call at most, if there is one."""
        for running in list(self._left):
            if await _within(running, self._step.timeout_s) is None:
                self._left.clear()
                self._replace()
                return

    def close(self) -> None:
        """See `Invocation`."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class InProcesses:
    """Runs handlers in processes, one per worker, which import the handler by its name.

    A process that hangs is killed. The executor then abandons all its processes, so the calls in the others are
    repeated. A process that dies by itself counts as a failed attempt of each running call.

    Only the process that runs the stream reacts to a signal to the whole process group, such as Ctrl-C. The others end
    with that process, however it ends.
    """

    def __init__(self, step: ForEach) -> None:
        self._step = step
        self._processes = self._new()
        self._killed: WeakSet[Executor] = WeakSet()
        self._left: WeakSet[Executor] = WeakSet()  # pools with cancelled calls that still run

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._step.workers, mp_context=get_context("spawn"), initializer=_begin_process)

    async def call(self, value: Any) -> Any:
        """See `Invocation`."""
        pool = self._processes
        try:
            running = pool.submit(_call_for_parent, self._step.handler, value)
            call = await _within(running, self._step.timeout_s)
            if call is not None:
                return call.result()
        except asyncio.CancelledError:
            self._left.add(pool)
            raise
        except CarriedError as carried:
            raise carried.restored() from carried.__cause__
        except BrokenProcessPool as error:
            self._replace(pool)
            if pool in self._killed:
                raise Interrupted("another handler hung in this pool of processes") from None
            raise KafkaError("a handler's process died; all handlers running then count as failed") from error
        self._killed.add(pool)
        processes = _processes_of(pool)
        self._replace(pool)
        _kill(processes)
        raise HandlerTimeoutError(f"the handler took longer than {self._step.timeout_s:g} s; its process was killed")

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        if pool is self._processes:
            self._processes = self._new()
            pool.shutdown(wait=False)

    async def settle(self) -> None:
        """See `Invocation`."""
        pool = self._processes
        if pool in self._left:
            processes = _processes_of(pool)
            self._replace(pool)
            _kill(processes)

    def close(self) -> None:
        """See `Invocation`."""
        pool, processes = self._processes, _processes_of(self._processes)
        pool.shutdown(wait=False, cancel_futures=True)
        if pool in self._left:
            _kill(processes)


async def _within(running: Future[Any], timeout_s: float | None) -> asyncio.Future[Any] | None:
    """Return the finished call; None if it is not finished in time: then its result is ignored."""
    call = asyncio.wrap_future(running)
    try:
        done, _ = await asyncio.wait({call}, timeout=timeout_s)
        return call if done else None
    finally:
        call.cancel()  # no effect if it is done; later the loop may be closed


def _call(handler: Callable[[Any], Any], value: Any) -> Any:
    """Call the handler outside of a future or generator, which cannot pass on a `StopIteration` (PEP 479)."""
    try:
        return handler(value)
    except StopIteration as error:
        raise RuntimeError("the handler raised StopIteration") from error


def _call_for_parent(handler: Callable[[Any], Any], value: Any) -> Any:
    """Call the handler so that its error can be unpickled: one that cannot would end the whole pool."""
    try:
        return _call(handler, value)
    except Exception as error:  # whatever a handler raises
        raise CarriedError.of(error) from error


def _not_awaitable(result: Any) -> Any:
    """Return the result of a call in a thread; raise for an awaitable, which a thread cannot await."""
    if not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    raise TypeError('the handler returned an awaitable, which a thread does not await: give for_each run_in="tasks"')


def _processes_of(pool: ProcessPoolExecutor) -> list[BaseProcess]:
    return list((pool._processes or {}).values())


def _kill(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.kill()


def _begin_process() -> None:
    """Ignore the signals that stop the stream, and end with the parent process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)  # not SIG_IGN, which started programs would inherit
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), name="kafwire-stream-parent", daemon=True).start()


def _ignore(*_: object) -> None:
    """Ignore a signal: the stream's own process finishes the running calls, and ends this one."""


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
