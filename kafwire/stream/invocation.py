"""How a handler of `for_each` is called: in the loop, in a thread, or in another process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol
from weakref import WeakSet

from kafwire.errors import KafkaError
from kafwire.stream.errors import HandlerTimeoutError
from kafwire.stream.steps import ForEach


class Interrupted(KafkaError):
    """The call was ended for another one's sake: it is made again, and does not count."""


class Invocation(Protocol):
    """Calls a handler."""

    async def call(self, value: Any) -> Any:
        """Call it once. Raises what it raises, and `HandlerTimeoutError`."""

    def close(self) -> None:
        """Release threads and processes. Those that still work are not waited for."""


def invocation(step: ForEach) -> Invocation:
    """How the step's handler is called."""
    if step.run_in == "threads":
        return InThreads(step)
    if step.run_in == "processes":
        return InProcesses(step)
    return InTasks(step)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether its calls are awaited: an async function, a partial of one, or an object with such a `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # its function, not whether there is one


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

    def close(self) -> None:
        """See `Invocation`."""


class InThreads:
    """In threads, one for each worker. A thread that hangs is given up, and another one takes its place."""

    def __init__(self, step: ForEach) -> None:
        self._step = step
        self._threads = self._new()

    def _new(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._step.workers, thread_name_prefix="kafwire-stream")

    async def call(self, value: Any) -> Any:
        """See `Invocation`."""
        call = asyncio.get_running_loop().run_in_executor(self._threads, self._step.handler, value)
        done, _ = await asyncio.wait({call}, timeout=self._step.timeout_s)
        if done:
            return call.result()
        call.add_done_callback(_look)
        self._threads.shutdown(wait=False)
        self._threads = self._new()
        limit = self._step.timeout_s
        raise HandlerTimeoutError(f"the handler took longer than {limit:g} s; its thread still runs", still_runs=True)

    def close(self) -> None:
        """See `Invocation`."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class InProcesses:
    """In processes, one for each worker, which import the handler by its name.

    A process that hangs is killed. As the executor gives up all of its processes then, the others' calls are made
    again. A process that dies by itself counts as a failed attempt of each call that was running.
    """

    def __init__(self, step: ForEach) -> None:
        self._step = step
        self._processes = self._new()
        self._killed: WeakSet[Executor] = WeakSet()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._step.workers, mp_context=get_context("spawn"))

    async def call(self, value: Any) -> Any:
        """See `Invocation`."""
        pool = self._processes
        try:
            call = asyncio.get_running_loop().run_in_executor(pool, self._step.handler, value)
            done, _ = await asyncio.wait({call}, timeout=self._step.timeout_s)
            if done:
                return call.result()
        except BrokenProcessPool as error:
            self._replace(pool)
            if pool in self._killed:
                raise Interrupted("another handler hung in this pool of processes") from None
            raise KafkaError("a process died that ran a handler; the handlers beside it count as failed too") from error
        call.add_done_callback(_look)
        self._killed.add(pool)
        running = list((pool._processes or {}).values())
        self._replace(pool)
        for process in running:
            process.kill()
        raise HandlerTimeoutError(f"the handler took longer than {self._step.timeout_s:g} s; its process was killed")

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        if pool is self._processes:
            self._processes = self._new()
            pool.shutdown(wait=False)

    def close(self) -> None:
        """See `Invocation`."""
        self._processes.shutdown(wait=False, cancel_futures=True)


def _look(call: asyncio.Future[Any]) -> None:
    """What comes of a call that was given up matters to nobody."""
    if not call.cancelled():
        call.exception()
