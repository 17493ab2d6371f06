"""`ForeignLoop`: the event loop for coroutines of the user's, such as those of OAuth token providers.

The engine's own loop runs none of them: a step that blocks would hold up every client of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from kafwire.runtime.native_loop import new_event_loop
from kafwire.runtime.patched import new_thread


class ForeignLoop:
    """A loop in a thread of its own, started by its first coroutine."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_over = False

    def run(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """Await `function()` there: (what it returned, what it raised). For the loop that runs here.

        Cancelling the future cancels the coroutine. Raises `RuntimeError` where no thread can be started any more.
        """
        if self._loop is None:
            loop = new_event_loop()
            try:
                new_thread(_main, (loop, lambda: self._is_over), name="kafwire-login-loop").start()
            except RuntimeError:
                loop.close()
                raise
            self._loop = loop
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(outcome_of(function), self._loop))

    def stop(self) -> None:
        """End the thread, as soon as the coroutine that runs there awaits something."""
        if self._loop is not None:
            self._is_over = True
            asyncio.run_coroutine_threadsafe(_end(self._loop), self._loop)


async def outcome_of(function: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
    """Whatever it raises is a result: a `SystemExit` would end the loop."""
    try:
        return await function(), None
    except BaseException as error:  # noqa: BLE001 # the caller raises it, or names it
        return None, error


async def _end(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop.stop()


def _main(loop: asyncio.AbstractEventLoop, is_over: Callable[[], bool]) -> None:
    try:
        while not is_over():
            with contextlib.suppress(SystemExit, KeyboardInterrupt):  # of a callback: the next coroutine needs the loop
                loop.run_forever()
    finally:
        loop.close()
