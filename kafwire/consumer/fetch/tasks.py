"""Background work of a fetcher on the engine: callbacks of the event loop's next turn, and tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class FetchTasks:
    """The background work of one fetcher."""

    def __init__(self, on_failure: Callable[[BaseException], object]) -> None:
        """`on_failure` gets the exception of a task that fails."""
        self._on_failure = on_failure
        self._soon: set[Callable[[], None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.stopped = False  # true after `stop`: the read has ended

    def soon(self, work: Callable[[], None]) -> None:
        """Call `work` once in the loop's next turn, even if `soon` is called several times in this turn."""
        if work not in self._soon and not self.stopped:
            self._soon.add(work)
            asyncio.get_running_loop().call_soon(self._do, work)

    def _do(self, work: Callable[[], None]) -> None:
        self._soon.discard(work)
        if not self.stopped:
            work()

    def begin(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task; its exception goes to `on_failure`."""
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    async def progress(self) -> None:
        """Wait until a task has ended, or for the next turn if there is none."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)

    def stop(self) -> None:
        """Cancel the tasks, and drop the work of the next turn."""
        self.stopped = True
        for task in self._tasks:
            task.cancel()
