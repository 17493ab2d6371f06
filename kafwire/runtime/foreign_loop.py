"""`ForeignLoop`: the event loop for user coroutines, such as those of OAuth token providers.

The engine's own loop runs none of them: a blocking step would delay every client of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from kafwire.runtime.log import muted
from kafwire.runtime.native_loop import new_event_loop
from kafwire.runtime.patched import new_thread


class ForeignLoop:
    """A loop in a thread of its own, started by its first coroutine."""

    def __init__(self) -> None:
        self._loop: Future[asyncio.AbstractEventLoop] | None = None
        self._is_over = False

    def run(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """Await `function()` in that loop; return (its result, its error). The future is for the running loop.

        Cancelling the future cancels the coroutine. Raises `RuntimeError` if no thread can be started any more.
        """
        if self._loop is None or (self._loop.done() and self._loop.exception() is not None):
            loop: Future[asyncio.AbstractEventLoop] = Future()
            new_thread(_main, (loop, lambda: self._is_over), name="kafwire-login-loop").start()
            self._loop = loop
        return asyncio.ensure_future(_run_there(self._loop, function))

    def stop(self) -> None:
        """End the thread as soon as its running coroutine awaits something."""
        self._is_over = True
        if self._loop is not None and self._loop.done() and self._loop.exception() is None:
            loop = self._loop.result()
            with contextlib.suppress(RuntimeError):  # the thread saw `_is_over` first, and closed its loop
                loop.call_soon_threadsafe(loop.stop)


async def _run_there(
    loop: Future[asyncio.AbstractEventLoop], function: Callable[[], Awaitable[Any]]
) -> tuple[Any, BaseException | None]:
    try:
        there = await asyncio.shield(asyncio.wrap_future(loop))
    except OSError as error:  # no descriptor is left for a loop
        return None, error
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(outcome_of(function), there))


async def outcome_of(function: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
    """Await `function()`; return any exception as a result, as a `SystemExit` would end the loop."""
    try:
        return await function(), None
    except BaseException as error:  # noqa: BLE001 # the caller raises or reports it
        return None, error


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _main(made: Future[asyncio.AbstractEventLoop], is_over: Callable[[], bool]) -> None:
    try:
        with muted("asyncio"):  # must not run on the engine's thread: it uses the module `logging`
            loop = new_event_loop()
    except BaseException as error:  # noqa: BLE001 # the caller raises it
        made.set_exception(error)
        return
    try:
        made.set_result(loop)
        while not is_over():
            # raised by a callback: the next coroutine needs the loop
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()
        loop.run_until_complete(_end_tasks())
    finally:
        loop.close()
