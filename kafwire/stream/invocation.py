"""How a handler of `for_each` is called: in the loop, in a thread, or in another process."""

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
    """The call was ended for another one's sake: it is made again, and does not count."""


class Invocation(Protocol):
    """Calls a handler."""

    async def call(self, value: Any) -> Any:
        """Call it once. Raises what it raises, and `HandlerTimeoutError`."""

    async def settle(self) -> None:
        """Return when no call that was cancelled goes on: the same value may be handled again."""

    def close(self) -> None:
        """Release threads and processes. Threads that still work are not waited for, processes are killed."""


def invocation(step: ForEach) -> Invocation:
    """How the step's handler is called."""
    if step.run_in == "threads":
        return InThreads(step)
    if step.run_in == "processes":
        return InProcesses(step)
    return InTasks(step)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether its calls are awaited: an async function, a partial of one, or an object with such a `__call__`."""
    return any(map(inspect.iscoroutinefunction, _behind(function)))


def is_generator(function: Callable[..., Any]) -> bool:
    """Whether its calls run nothing until somebody iterates over what they return; as `is_async`."""
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(kind(one) for kind in kinds for one in _behind(function))


def is_async_generator(function: Callable[..., Any]) -> bool:
    """Whether only the event loop could iterate over what its calls return; as `is_async`."""
    return any(map(inspect.isasyncgenfunction, _behind(function)))


def _behind(function: Callable[..., Any]) -> tuple[Any, Any]:
    while isinstance(function, partial):
        function = function.func
    return function, getattr(function, "__call__", None)  # noqa: B004  # its function, not whether there is one


class InTasks:
    """In the loop's own thread: async handlers, and sync ones that do not block."""

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
                raise  # the handler's own
            raise HandlerTimeoutError(f"the handler took longer than {self._timeout_s:g} s") from None

    async def settle(self) -> None:
        """See `Invocation`."""

    def close(self) -> None:
        """See `Invocation`."""


class InThreads:
    """In threads, one for each worker. A thread that hangs is given up, and another one takes its place."""

    def __init__(self, step: ForEach) -> None:
        self._step = step
        self._threads = self._new()
        self._left: set[Future[Any]] = set()  # their calls were cancelled, and go on

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
        """See `Invocation`. As long as the timeout of a call, if it has one."""
        for running in list(self._left):
            if await _within(running, self._step.timeout_s) is None:
                self._left.clear()
                self._replace()
                return

    def close(self) -> None:
        """See `Invocation`."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class InProcesses:
    """In processes, one for each worker, which import the handler by its name.

    A process that hangs is killed. As the executor gives up all of its processes then, the others' calls are made
    again. A process that dies by itself counts as a failed attempt of each call that was running.

    A signal to the whole group of processes, such as Ctrl-C sends, is left to the process that runs the stream. They
    end with that process, however it ends.
    """

    def __init__(self, step: ForEach) -> None:
        self._step = step
        self._processes = self._new()
        self._killed: WeakSet[Executor] = WeakSet()
        self._left: WeakSet[Executor] = WeakSet()  # calls of theirs were cancelled, and go on

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
            raise KafkaError("a process died that ran a handler; the handlers beside it count as failed too") from error
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
    """The call when it is over; None if it is not in time. What comes of it later matters to nobody."""
    call = asyncio.wrap_future(running)
    try:
        done, _ = await asyncio.wait({call}, timeout=timeout_s)
        return call if done else None
    finally:
        call.cancel()  # unless it is over; the loop may be closed when it is


def _call(handler: Callable[[Any], Any], value: Any) -> Any:
    """Call it where no future can carry a `StopIteration`, as inside of a generator (PEP 479)."""
    try:
        return handler(value)
    except StopIteration as error:
        raise RuntimeError("the handler raised StopIteration") from error


def _call_for_parent(handler: Callable[[Any], Any], value: Any) -> Any:
    """Call it so that the other process can read what it raises: an error that it cannot ends the whole pool."""
    try:
        return _call(handler, value)
    except Exception as error:  # whatever a handler raises
        raise CarriedError.of(error) from error


def _not_awaitable(result: Any) -> Any:
    """The result of a call in a thread, where nobody could await it."""
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
    """Make a process deaf to the signals that stop the stream, and have it end with its parent."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)  # not SIG_IGN, which programs that it starts would inherit
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), name="kafwire-stream-parent", daemon=True).start()


def _ignore(*_: object) -> None:
    """The stream's own process finishes what runs here, and ends this one."""


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
